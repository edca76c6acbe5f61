"""Maintenance: take nodes out of service and back."""

from __future__ import annotations

from dashboard.components import frame, words

page = frame.open_pegasus_page("Maintenance")
dead = [one.name for one in page.facts.nodes if not one.is_alive]
words.answer(
    f"{', '.join(dead)} is out of service." if dead else "Every node of the cluster is alive."
)
