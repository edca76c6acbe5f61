"""Runs in every state, written into a site's journal as a worker would have written them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from signed_requests import as_requested
from snapshot_site import Site, now

from core.actions.events import (
    ControlRequested,
    Event,
    ExternalMove,
    Measured,
    Record,
    RunClaimed,
    RunEnded,
    RunMeasured,
    RunPaused,
    RunRefused,
    RunRequested,
    SettingChanged,
    SettingRestored,
    SettingSaved,
    StepEnded,
    StepStarted,
)
from core.actions.model import Observation, RunId, RunOptions, StepResult
from core.plan.model import Plan
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.steps.unload import UnloadBundle
from core.snapshot import PulsarSnapshot
from dashboard import services

RUN = RunId("20261121-120000-aaaaaa")
SHEDDING = "loadBalancerSheddingEnabled"


def movable(snapshot: PulsarSnapshot, count: int, *, not_on: str | None = None) -> list[str]:
    """Names of owned bundles that can move."""
    rows = snapshot.bundles.select(["bundle", "owner", "is_broker_bound"]).to_pylist()
    names = [
        row["bundle"]
        for row in rows
        if row["owner"] not in (None, not_on) and not row["is_broker_bound"]
    ]
    return names[:count]


@dataclass
class Story:
    """One run, told event by event; the clock moves on with each."""

    site: Site
    snapshot: PulsarSnapshot
    steps: int = 3
    destination: str | None = None
    who: str = "ann@example.org"
    reason: str = "level the peak"
    run_id: RunId = RUN
    began: datetime = field(default_factory=lambda: now() - timedelta(seconds=20))
    undoes: RunId | None = None
    skip: int = 0
    is_signed: bool = True
    plan: Plan = field(init=False)
    _at: datetime = field(init=False)

    def __post_init__(self) -> None:
        self._at = self.began
        self.plan = build_unload_plan(
            self.snapshot,
            movable(self.snapshot, self.skip + self.steps, not_on=self.destination)[self.skip :],
            now=self.began,
            destination=self.destination,
        )

    @property
    def cluster(self) -> str:
        return self.plan.cluster

    def tell(self, event: Event, actor: str = "worker-1", after_s: float = 0.3) -> None:
        self._at += timedelta(seconds=after_s)
        journal = services.journal(services.load_config(self.site.config, ()))
        record = Record(
            run_id=self.run_id, cluster=self.cluster, at=self._at, actor=actor, event=event
        )
        journal.append(as_requested(record) if self.is_signed else record)

    def queued(self) -> Story:
        options = RunOptions(pause_balancer=self.destination is not None)
        self.tell(
            RunRequested(plan=self.plan, options=options, reason=self.reason, undoes=self.undoes),
            self.who,
        )
        return self

    def claimed(self) -> Story:
        self.queued().tell(RunClaimed(worker="worker-1", lease="zookeeper 127.0.0.1:1/trimtab"))
        return self

    def running(self) -> Story:
        self.claimed().begin(0)
        self.end(0)
        self.begin(1)
        return self

    def paused(self) -> Story:
        self.claimed().tell(ControlRequested(control="pause", reason="lunch"), self.who)
        self.tell(RunPaused(sentence="Paused on request of ann@example.org."))
        return self

    def failed(self) -> Story:
        self.running().tell(
            StepEnded(
                step=1,
                result=StepResult(
                    state="FAILED",
                    code="refused",
                    sentence=f"{self.step(1).owner} refused: 409 The bundle is being split.",
                    hint="Wait for the split, then plan its parts.",
                ),
            )
        )
        self.skip_from(2)
        self.tell(RunEnded(state="FAILED", sentence="Stopped after 1 failed step."))
        return self

    def unknown(self) -> Story:
        self.running().tell(
            StepEnded(
                step=1,
                result=StepResult(
                    state="UNKNOWN",
                    code="timed_out",
                    sentence="Nobody answered within 30 s: whether it was unloaded is unknown.",
                    hint="The worker goes on looking; nothing is sent again.",
                ),
            )
        )
        return self

    def refused(self) -> Story:
        self.queued().tell(
            RunRefused(
                code="plan_expired",
                sentence="The plan expired before a worker took it up.",
                hint="Preview again and apply the new plan.",
            )
        )
        return self

    def done(self) -> Story:
        """All done; the second bundle landed elsewhere where a destination was asked for."""
        self.claimed().tell(SettingSaved(key=SHEDDING, before=None, during="false"))
        self.tell(SettingChanged(key=SHEDDING))
        for index in range(len(self.plan.steps)):
            self.begin(index)
            self.end(index, is_elsewhere=index == 1 and self.destination is not None)
        self.tell(
            ExternalMove(
                subject="x/y/0x0_0x1", source="a:1", destination="b:1", sentence="x moved."
            )
        )
        self.tell(SettingRestored(key=SHEDDING, result="restored", sentence="Put back."))
        self.tell(RunEnded(state="DONE", sentence="All steps are done."))
        return self

    def measured(self) -> Story:
        brokers = tuple(
            Measured(broker=one.broker, usage_ratio=0.4, throughput_bytes_per_s=5e6)
            for one in self.plan.expected.brokers
        )
        self.done().tell(
            RunMeasured(
                snapshot_id="later",
                taken_at=self._at,
                usage_deviation=0.2,
                throughput_deviation=0.123,
                brokers=brokers,
            )
        )
        return self

    def step(self, index: int) -> UnloadBundle:
        return self.plan.steps[index]

    def begin(self, index: int) -> None:
        seen = Observation(exists=True, holder=self.step(index).owner, token=f"{index}")
        self.tell(StepStarted(step=index, observed=seen))

    def end(self, index: int, *, is_elsewhere: bool = False) -> None:
        step = self.step(index)
        wanted = step.destination or step.likely[0]
        brokers = self.snapshot.brokers["broker"].to_pylist()
        others = (name for name in brokers if name not in (wanted, step.owner))
        where = next(others) if is_elsewhere else wanted
        result = StepResult(
            state="DONE",
            code="landed_elsewhere" if is_elsewhere else "landed",
            sentence=f"{step.bundle} went to {where}.",
            after=Observation(exists=True, holder=where, token=f"{index + 100}"),
        )
        self.tell(StepEnded(step=index, result=result, took_ms=800.0))

    def skip_from(self, index: int) -> None:
        for later in range(index, len(self.plan.steps)):
            result = StepResult(
                state="SKIPPED", code="stopped", sentence="Not begun: the run stopped."
            )
            self.tell(StepEnded(step=later, result=result))
