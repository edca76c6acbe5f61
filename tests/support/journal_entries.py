"""Journal entries for tests: plans of any length, records of every kind, chains in memory."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from core.actions.events import (
    FIRST_LINK,
    ControlRequested,
    EntriesArchived,
    Entry,
    Event,
    ExternalMove,
    Measured,
    PurposeChecked,
    Record,
    RunClaimed,
    RunDecided,
    RunEnded,
    RunMeasured,
    RunPaused,
    RunRefused,
    RunRequested,
    RunResumed,
    SettingChanged,
    SettingRestored,
    SettingSaved,
    StepEnded,
    StepReopened,
    StepStarted,
    StepWaiting,
    canonical,
    link,
)
from core.actions.model import Observation, RunId, RunOptions, StepResult, StepState
from core.ids import SnapshotId
from core.plan.model import BrokerExpectation, Expected, Plan, PolicyRef, sealed
from core.pulsar.steps.unload import UnloadBundle

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RUN = RunId("20261121-120000-abcdef")
WORKER = "host/4711/1"
SHEDDING = "loadBalancerSheddingEnabled"


def plan_of(steps: int = 2, **changes: object) -> Plan:
    """A plan of that many unloads, from b1 to b2."""
    fields: dict[str, object] = {
        "cluster": "prod",
        "snapshot_id": SnapshotId("0123456789abcdef"),
        "taken_at": NOON,
        "created_at": NOON,
        "expires_at": NOON + timedelta(minutes=10),
        "strategy": PolicyRef(name="LeastLongTermMessageRate", release="4.2"),
        "steps": tuple(
            UnloadBundle(
                bundle=f"acme/orders/0x{index:08x}_0x{index + 1:08x}",
                owner="b1:8080",
                destination="b2:8080",
                predicted={"b2:8080": 0.75, "b3:8080": 0.25},
            )
            for index in range(steps)
        ),
        "expected": Expected(
            throughput_deviation_before=0.4,
            throughput_deviation_after=0.1,
            brokers=(BrokerExpectation(broker="b1:8080", usage_before=0.9, usage_after=0.5),),
        ),
        "complete": True,
        "applyable": steps > 0,
        "errored": False,
    }
    return sealed(Plan(**(fields | changes)))  # type: ignore[arg-type]  # fields of a plan


def at(broker: str | None, token: str | None = None) -> Observation:
    """A bundle seen at a broker."""
    return Observation(exists=True, holder=broker, token=token)


def requested(steps: int = 2, **changes: object) -> RunRequested:
    """The request of a run."""
    fields = {"plan": plan_of(steps), "options": RunOptions(), "reason": "too hot"}
    return RunRequested(**(fields | changes))  # type: ignore[arg-type]  # fields of a request


def claimed(worker: str = WORKER, **changes: object) -> RunClaimed:
    """A worker takes the run up."""
    return RunClaimed(worker=worker, lease="zookeeper z:2181/trimtab/writer", **changes)  # type: ignore[arg-type]  # fields of a claim


def begun(step: int, broker: str = "b1:8080") -> StepStarted:
    """A step's intent."""
    return StepStarted(step=step, observed=at(broker, "0x10"))


def ended(
    step: int,
    state: StepState = "DONE",
    code: str = "landed",
    broker: str | None = "b2:8080",
    **more,
) -> StepEnded:
    """A step's ending."""
    result = StepResult(state=state, code=code, sentence=f"It is {code}.", after=at(broker, "0x11"))
    return StepEnded(step=step, result=result, took_ms=812.5, **more)


ONE_OF_EACH: tuple[Event, ...] = (
    requested(undoes=RunId("20261120-120000-000000")),
    ControlRequested(control="pause", reason="lunch é"),
    claimed(is_takeover=True),
    RunRefused(code="plan_expired", sentence="Too late.", hint="Again."),
    RunPaused(sentence="Paused."),
    RunResumed(sentence="Resumed."),
    StepWaiting(step=0, sentence="Not yet."),
    begun(0),
    ended(0, is_reconciled=True),
    StepReopened(step=0, sentence="Another meta server leads."),
    PurposeChecked(purpose="n1 is empty", holds=False, sentence="3 replicas are still on n1."),
    SettingSaved(key=SHEDDING, before=None, during="false"),
    SettingChanged(key=SHEDDING),
    SettingRestored(key=SHEDDING, result="restored", sentence="As before."),
    ExternalMove(subject="a/b/0x0_0x1", source=None, destination="b9:8080", sentence="Moved."),
    RunDecided(is_approved=True, comment="looks right"),
    EntriesArchived(
        first=1, last=9, digest="a" * 64, file="2026.jsonl", sha256="b" * 64, reason="too old"
    ),
    RunEnded(state="DONE", sentence="All done."),
    RunMeasured(
        snapshot_id="feedfeedfeedfeed",
        taken_at=NOON,
        usage_deviation=None,
        throughput_deviation=0.125,
        brokers=(Measured(broker="b1:8080", usage_ratio=0.5, throughput_bytes_per_s=None),),
    ),
)
"""An event of every type."""


def record_of(
    event: Event,
    *,
    run_id: RunId = RUN,
    cluster: str = "prod",
    second: int = 0,
    actor: str | None = None,
) -> Record:
    """The event as somebody wrote it; people ask, workers do the rest."""
    is_person = isinstance(event, RunRequested | ControlRequested)
    who = event.worker if isinstance(event, RunClaimed) else ("ann" if is_person else WORKER)
    moment = NOON + timedelta(seconds=second)
    return Record(run_id=run_id, cluster=cluster, at=moment, actor=actor or who, event=event)


def chain_of(records: Iterable[Record | Event]) -> list[Entry]:
    """Records (or events of one run) as a journal would hold them."""
    entries: list[Entry] = []
    previous = FIRST_LINK
    for seq, item in enumerate(records, 1):
        record = item if isinstance(item, Record) else record_of(item, second=seq)
        digest = link(previous, seq, canonical(record))
        entries.append(Entry(seq=seq, record=record, previous=previous, digest=digest))
        previous = digest
    return entries
