"""Rules about the leader: whether there is one, and whether it acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.defects import LEADER_FOLLOWS, defect_words
from core.pulsar.leader_activity import leader_activity, rounds_missed
from core.pulsar.liveness import DEAD
from core.pulsar.rules.context import HealthContext
from core.units import format_age, ms_to_datetime, pluralize

_LEADER_PATH: Final = "/loadbalance/leader"


def leader_inactive(context: HealthContext) -> Iterator[Finding]:
    """The leader writes nothing, so it balances nothing either, whatever the settings are."""
    found = leader_activity(context.snapshot, context.settings)
    if not found.is_late or found.age_s is None or found.leader is None:
        return
    rounds = rounds_missed(context.snapshot, context.settings)
    wrote_s = found.age_s
    if found.written_at is None or (found.elected_at or 0) > found.written_at:
        start = f"{found.leader} was elected {format_age(wrote_s)} ago and has written nothing"
    else:
        start = f"The leader {found.leader} last wrote {format_age(wrote_s)} ago"
    unshed = f"{pluralize(rounds, 'round')} that should have shed did not run"
    since = max(at for at in (found.written_at, found.elected_at) if at is not None)
    yield Finding(
        code="leader_inactive",
        title="Leader is inactive",
        severity="error",
        subject_kind="broker",
        subject=found.leader,
        sentence=f"{start}; averages are due every {format_age(found.interval_s)}.",
        consequence=_consequence(context, unshed if rounds else ""),
        measured=Quantity(wrote_s, "s"),
        limit=Quantity(found.interval_s, "s"),
        since=ms_to_datetime(since),
        evidence={
            "age_s": wrote_s,
            "interval_s": found.interval_s,
            "writes_missed": found.missed,
            "rounds_missed": rounds,
            "elected_at": found.elected_at,
            "written_at": found.written_at,
        },
        hint=_hint(context, found.leader),
    )


def _hint(context: HealthContext, leader: str) -> str:
    row = context.liveness.by_broker.get(leader)
    if row is not None and row.state == DEAD:
        return (
            f"{leader} is dead. Once its process is confirmed dead, delete the leader's znode, "
            f"{_LEADER_PATH}, if it still has this broker: another broker then becomes the leader."
        )
    return (
        f"Restart {leader}, so that another broker becomes the leader. "
        "Known defect, an elected leader that acts as a follower: "
        f"{defect_words(LEADER_FOLLOWS, context.settings.target)}."
    )


def _consequence(context: HealthContext, unshed: str) -> str:
    if unshed:
        return f"At least {unshed}; no setting causes this."
    off = " and ".join(context.settings.shedding_off)
    if off:
        return (
            f"Bundles are placed by averages of that age; nothing is shed in any case: {off}=false."
        )
    return "No setting causes this."
