"""Sums of steps in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from core.plan.model import Expected
from core.step import Step
from core.units import format_bytes_per_s, format_deviation, pluralize

_MANY_STEPS: Final = frozenset({"node", "state"})
"""What several steps of one plan may be about."""


def whether(step: Step) -> str:
    """Return the question about a step's outcome: ``whether acme/x/0x0_0x4 moved``."""
    return f"whether {step.subject} {step.counted_as.outcome}"


def tally(steps: Iterable[Step]) -> str:
    """Return ``unload 2 bundles, split 1 bundle``; ``do nothing`` without steps."""
    all_steps = tuple(steps)
    # one node is drained in several steps
    listed = {
        (step.counted_as, step.subject if step.counted_as.is_by_subject else str(at))
        for at, step in enumerate(all_steps)
    }
    counts = Counter(phrase for phrase, _ in listed)
    parts = [
        f"{phrase.verb} {pluralize(count, phrase.thing)}"
        for phrase, count in sorted(counts.items(), key=lambda item: (item[0].order, item[0].thing))
    ]
    return ", ".join(parts) or "do nothing"


def expected_effect(expected: Expected) -> str:
    """Return ``Moves 63.9 MB/s; 80 clients reconnect; max traffic deviation from +120% to ...``.

    Returns:
        Blank if the plan moves no traffic.
    """
    if not expected.moved_bytes_per_s and not expected.clients:
        return ""
    count = expected.clients
    who = "clients unknown" if count is None else f"{pluralize(count, 'client')} reconnect"
    parts = [f"Moves {format_bytes_per_s(expected.moved_bytes_per_s)}", who]
    before, after = expected.throughput_deviation_before, expected.throughput_deviation_after
    if before is not None and after is not None:
        old, new = format_deviation(before), format_deviation(after)
        change = f"unchanged at {old}" if old == new else f"from {old} to {new}"
        parts.append(f"max traffic deviation {change}")
    return f"{'; '.join(parts)}."


def things(steps: Iterable[Step]) -> str:
    """Return the counted subjects of steps: ``2 bundles``, ``1 bundle and 1 setting``.

    Several steps may be about one node: they are counted as steps.
    """
    all_steps = tuple(steps)
    counts = Counter(step.counted_as.thing for step in all_steps)
    if len(all_steps) > 1 and counts.keys() & _MANY_STEPS:
        return pluralize(len(all_steps), "step")
    parts = [pluralize(number, thing) for thing, number in sorted(counts.items())]
    return " and ".join(parts) or "nothing"


def things_done(steps: Iterable[Step]) -> str:
    """Return the same with its participle; of different kinds ``5 steps done``."""
    all_steps = tuple(steps)
    subject = things(all_steps)
    if len({step.counted_as for step in all_steps}) > 1 or subject.endswith(("step", "steps")):
        return f"{pluralize(len(all_steps), 'step')} done"
    return f"{subject} {done(all_steps)}"


def done(steps: Iterable[Step]) -> str:
    """Return the participle that fits all steps: ``moved``, ``split``, ``changed``, ``done``."""
    participles = {step.counted_as.done for step in steps}
    return participles.pop() if len(participles) == 1 else "done"
