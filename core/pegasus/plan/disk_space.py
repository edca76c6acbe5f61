"""Whether what a plan copies has room on disks, and how long it takes at the rate allowed.

A copy is made before the old replica goes, and the old one is deleted only at lively and much
later; so nothing that leaves a node counts as room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.pegasus.server_settings import COPY_RATE
from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.setting import EVERY_NODE
from core.units import counted, format_age, format_mb

if TYPE_CHECKING:
    from core.pegasus.plan.draft import Draft

LEAST_FREE_SHARE: Final = 0.1
"""A disk filled beyond this is told."""


def check_room(draft: Draft) -> None:
    """Tell what the copies of a plan need: room, bytes, time."""
    course = draft.course
    if not course.received_mb:
        return
    disks: dict[str, list[tuple[int, int]]] = {}
    for row in draft.facts.rows("disks"):
        disks.setdefault(row["node"], []).append((row["available_mb"], row["capacity_mb"]))
    for node, received_mb in sorted(course.received_mb.items()):
        _check_node(draft, node, received_mb, disks.get(node))
    _check_single(draft, {node: max(one[0] for one in told) for node, told in disks.items()})
    _tell_time(draft)


def _check_node(
    draft: Draft, node: str, received_mb: float | None, disks: list[tuple[int, int]] | None
) -> None:
    if disks is None:
        sentence = f"How much room {node} has is unknown: it told of no disks."
        draft.tell("warning", "room_unknown", sentence, subject=node)
        return
    if received_mb is None:
        sentence = f"How much {node} receives is unknown: a replica's size is not known."
        draft.tell("warning", "room_unknown", sentence, subject=node)
        return
    free_mb, capacity_mb = (sum(values) for values in zip(*disks, strict=True))
    what = f"{node} receives {format_mb(received_mb)} and has {format_mb(free_mb)} free"
    if received_mb > free_mb:
        draft.tell(
            "error",
            "no_room",
            f"{what}; a copy is made before the old replica is deleted.",
            subject=node,
            hint="Choose another node, or make room first.",
        )
    elif free_mb - received_mb < LEAST_FREE_SHARE * capacity_mb:
        rest = f"{(free_mb - received_mb) / capacity_mb:.0%}" if capacity_mb else "nothing"
        sentence = f"{what}: {rest} of its disks would be left."
        draft.tell("warning", "little_room", sentence, subject=node)


def _check_single(draft: Draft, largest_mb: dict[str, int]) -> None:
    """A replica lies on one disk: it must fit on one."""
    for step in draft.steps:
        size_mb = step.copied_mb if isinstance(step, PegasusStep) else None
        if size_mb and step.destination in largest_mb:
            free_mb = largest_mb[step.destination]
            if size_mb > free_mb:
                sentence = (
                    f"{step.subject} has {format_mb(size_mb)}, and no disk of "
                    f"{step.destination} has more than {format_mb(free_mb)} free."
                )
                hint = "Choose another node."
                draft.tell("error", "no_room", sentence, subject=step.subject, hint=hint)


def _tell_time(draft: Draft) -> None:
    known = [size for size in draft.course.received_mb.values() if size is not None]
    total_mb, nodes = sum(known), counted(len(draft.course.received_mb), "node")
    unknown = len(draft.course.received_mb) - len(known)
    about = f"{format_mb(total_mb)}{' or more' if unknown else ''} is copied onto {nodes}"
    rate = _slowest_rate(draft)
    if rate is None:
        sentence = f"{about}; how long that takes is unknown, since the copying has no limit."
    else:
        shortest, longest = max(known, default=0.0) / rate, total_mb / rate
        sentence = (
            f"{about}: at {rate:g} MB/s a disk {format_age(shortest)} when all receive at once, "
            f"{format_age(longest)} one after the other."
        )
    draft.tell("info", "copies", sentence)


def _slowest_rate(draft: Draft) -> float | None:
    """MB/s that a disk may receive while the plan runs; ``None``: without limit, or unknown."""
    for step in draft.setting_steps:
        if step.key == COPY_RATE and step.server == EVERY_NODE:
            return float(step.value) or None
    rates = [row["copy_rate_mb_per_s"] for row in draft.facts.rows("nodes") if row["is_alive"]]
    return min(rates) if rates and all(rates) else None
