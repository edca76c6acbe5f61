"""Numbers and texts of the fleet overview: the headline over every cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from core.findings.finding import State
from core.units import format_ratio, pluralize

STATE_WORDS: Final[dict[State, str]] = {
    "bad": "✖ errors",
    "attention": "▲ attention",
    "unknown": "? unknown",
    "ok": "● fine",
}


NO_SNAPSHOT: Final = "? no snapshot"


_MAX_TROUBLED: Final = 3
"""Clusters that the headline names with what is down or unhealthy."""


class Judged(Protocol):
    """What the answer needs of a cluster's row, whichever system it is of."""

    @property
    def state(self) -> State:
        """Worst finding."""

    @property
    def sentence(self) -> str:
        """Is it balanced?"""

    @property
    def trouble(self) -> str:
        """What is down or unhealthy, as counts; empty: nothing."""

    @property
    def deviation_ratio(self) -> float | None:
        """Of the busiest broker from the mean; ``None``: unknown, or there are no brokers."""


def answer(rows: Sequence[tuple[str, Judged | None]]) -> str:
    """Return one sentence over every cluster; that of the cluster itself when there is one."""
    if len(rows) == 1:
        name, only = rows[0]
        return f"There is no snapshot of {name} yet." if only is None else only.sentence
    bad = [name for name, one in rows if one is not None and one.state in ("bad", "attention")]
    unseen = [name for name, one in rows if one is None]
    known = [(name, one) for name, one in rows if one is not None]
    unsure = [name for name, one in rows if one is not None and one.state == "unknown"]
    verb = "needs" if len(bad) == 1 else "need"
    head = f"{len(bad)} of {pluralize(len(rows), 'cluster')} {verb} attention"
    if unsure:
        head += f", {len(unsure)} cannot be judged"
    troubled = [f"{name} has {one.trouble}" for name, one in known if one.trouble]
    head += "".join(f"; {one}" for one in troubled[:_MAX_TROUBLED])
    if len(troubled) > _MAX_TROUBLED:
        more = pluralize(len(troubled) - _MAX_TROUBLED, "more cluster")
        head += f"; {more} with nodes down or partitions unhealthy"
    worst = max(
        (item for item in known if item[1].deviation_ratio is not None),
        key=lambda item: item[1].deviation_ratio or 0.0,
        default=None,
    )
    if worst is not None:
        over = format_ratio(worst[1].deviation_ratio)
        head += f"; the least even is {worst[0]}, its busiest broker {over} over the mean"
    return head + (f"; {pluralize(len(unseen), 'cluster')} without a snapshot." if unseen else ".")
