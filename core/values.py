"""Values of settings that several servers have: one text, or a JSON object of server to text."""

from __future__ import annotations

import json
from collections.abc import Collection

from core.step import Diagnostic


def is_same_value(one: str | None, other: str | None) -> bool:
    """Return whether two values agree on every server that both report.

    A server that is dead is left out, so a text stands for whoever answers.
    """
    if one == other:
        return True
    if one is None or other is None:
        return False
    left, right = by_server(one), by_server(other)
    if left is None and right is None:
        return False
    if left is None or right is None:
        text = other if right is None else one
        return text in ((left or {}).values() if right is None else (right or {}).values())
    return all(left[server] == right[server] for server in left.keys() & right.keys())


def is_known_value(value: str | None, before: str | None, during: Collection[str]) -> bool:
    """Return whether every server has its set value, or its previous one after a restart.

    Args:
        value: What is read.
        before: What it was before the run.
        during: What the run gave it, one after the other.
    """
    servers = None if value is None else by_server(value)
    if servers is None:
        return value in during
    earlier = None if before is None else by_server(before)
    return all(
        text in during or text == (before if earlier is None else earlier.get(server))
        for server, text in servers.items()
    )


def by_server(text: str) -> dict[str, str] | None:
    """Return the values by server where they differ; ``None`` if one text applies to all."""
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return {str(server): str(value) for server, value in found.items()}


def inverse_value(
    subject: str, *, held: str | None, left_at: str, before: str
) -> Diagnostic | None:
    """Return the reason a setting is not reverted, or ``None`` if it is.

    Args:
        subject: What was set.
        held: What it is now; ``None`` if unknown.
        left_at: What the run made of it.
        before: What it was before the run.
    """
    if is_same_value(held, before):
        return Diagnostic(
            severity="info",
            code="undo_not_needed",
            sentence=f"{subject} is already {held or 'empty'}, as before.",
            subject=subject,
        )
    if is_same_value(held, left_at):
        return None
    now = "unknown" if held is None else f"now {held or 'empty'}"
    return Diagnostic(
        severity="warning",
        code="undo_changed_since",
        sentence=f"{subject} is {now}; the run left it at {left_at}: it was changed externally.",
        subject=subject,
        hint="Find out who changed it, and set it manually if it still has to be reverted.",
    )
