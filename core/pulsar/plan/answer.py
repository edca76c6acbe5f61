"""The one sentence that says what a plan would do and what it costs."""

from __future__ import annotations

from core.pulsar.plan.preview import Preview
from core.units import format_bytes_per_s, format_deviation, pluralize


def plan_sentence(preview: Preview) -> str:
    """Return for example ``Unloading 4 bundles (38.1 MB/s, 112 clients) brings the busiest ...``.

    The effect is that of the most likely outcome; what is unknown is said.
    """
    count = len(preview.steps)
    if not count and preview.others:
        return " ".join(other.sentence for other in preview.others)
    if not count:
        return "No effect: none of these bundles can be unloaded."
    clients = preview.clients.clients
    who = "an unknown number of clients" if clients is None else pluralize(clients, "client")
    moved = format_bytes_per_s(preview.clients.throughput_bytes_per_s)
    effect = balance_effect(preview)
    bundles = f"{pluralize(count, 'bundle')} ({moved}, {who})"
    unloading = f"moving back {bundles}" if preview.is_undo else f"unloading {bundles}"
    unloading += f": {effect}."
    if not preview.others:
        return unloading[0].upper() + unloading[1:]
    changes = [other.step.describe_progress() for other in preview.others]
    also = changes[0] if len(changes) == 1 else f"Making {pluralize(len(changes), 'change')}"
    return f"{also}, and {unloading}"


def balance_effect(preview: Preview) -> str:
    """Return ``max traffic deviation from +126% (b1) to +12% (b2)``, of the busiest brokers."""
    before, after = preview.measures_before.throughput, preview.measures_after.throughput
    old, new = before.max_deviation_ratio, after.max_deviation_ratio
    is_known = all(step.placement.is_known for step in preview.steps)
    if old is None or new is None or not is_known:
        return "the effect on the balance is unknown"
    if abs(new - old) < 0.0005:
        return f"max traffic deviation unchanged at {format_deviation(old)}"
    first, then = before.worst, after.worst
    is_same = first == then
    return (
        f"max traffic deviation from {format_deviation(old)}{'' if is_same else f' ({first})'} "
        f"to {format_deviation(new)}{'' if is_same else f' ({then})'}"
    )
