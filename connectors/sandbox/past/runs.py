"""Runs of Trimtab in the simulated past, as the journal and the history record them.

Each is the plan that Trimtab itself makes on the simulated snapshot; its entries go through the
journal's own interface, with the times of the past, the actor ``demo`` and a reason that says
that they are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

import pyarrow as pa

from connectors.journal.journal import SqlJournal
from connectors.recording.attribution import attributed
from connectors.recording.steps import RunSteps
from connectors.sandbox.past.columns import STEP_MS
from connectors.sandbox.past.pulsar import PastRun
from core.access import Identity
from core.actions.authority import signed
from core.actions.events import (
    Event,
    Record,
    RunClaimed,
    RunEnded,
    RunRequested,
    StepEnded,
    StepStarted,
)
from core.actions.model import Observation, RunId, RunOptions, StepResult
from core.actions.runs import fold, run_id_at
from core.plan.model import Plan
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.system import measured
from core.snapshot import PulsarSnapshot
from core.systems import SYSTEMS
from core.units import datetime_to_ms, ms_to_datetime, pluralize

ACTOR: Final = "demo"
"""Who requested them; the first steps of the demo do not count its runs."""
_STEP: Final = timedelta(seconds=6)
_TOOK_MS: Final = 840.0
_MEASURED_AFTER: Final = timedelta(seconds=20)
"""As a worker waits: brokers report some seconds after the load came."""


class PastRuns:
    """Enters the runs into the journal when their minute comes, and completes its events.

    Args:
        journal: Where they are entered.
        cluster: Name of the cluster.
        runs: Oldest first.
        start_ms: First moment that is recorded: what the journal has before it is not read.
        key: The installation's: what is entered is signed with it.
    """

    def __init__(
        self,
        journal: SqlJournal,
        cluster: str,
        runs: tuple[PastRun, ...],
        start_ms: int,
        key: bytes,
    ) -> None:
        self._journal, self._cluster, self._key = journal, cluster, key
        self._runs = [run for run in runs if run.at_ms >= start_ms]
        subjects = next(one for one in SYSTEMS if one.record.system == "pulsar").record
        self._steps = RunSteps(journal, cluster, 0, start_ms, subjects.setting_subjects)
        self._before: PulsarSnapshot | None = None
        self._taken_at = 0
        self._unmeasured: list[RunId] = []
        self._entered: set[str] = set()

    def follow(
        self, snapshots: Iterator[PulsarSnapshot], then: PulsarSnapshot
    ) -> Iterator[PulsarSnapshot]:
        """Return the snapshots; before one that shows a run, the run is in the journal.

        The first one that a worker would measure a run by is what the run is measured by.

        Args:
            snapshots: Oldest first.
            then: The one after them, for runs that end too late for the last of them.
        """
        for snapshot in snapshots:
            self._taken_at = datetime_to_ms(snapshot.manifest.taken_at)
            while self._runs and self._runs[0].at_ms <= self._taken_at:
                self._enter(self._runs.pop(0))
            self._measure(snapshot)
            yield snapshot
            self._before = snapshot
        self._measure(then)

    def complete(self, events: pa.Table) -> pa.Table:
        """Attribute the observed changes, and add those of runs."""
        self._steps.read()
        since = self._taken_at - STEP_MS
        rows = attributed(events.to_pylist(), self._steps.run_changes(since), since, self._taken_at)
        pending = self._steps.pending()
        self._steps.committed(len(pending))
        # runs of another part of the past, and of people, are events of other minutes
        mine = [row for row in pending if row["run_id"] in self._entered]
        rows += [{"taken_at": self._taken_at} | row for row in mine]
        return pa.Table.from_pylist(rows, schema=events.schema)

    def _enter(self, run: PastRun) -> None:
        if self._before is None:
            return
        at = ms_to_datetime(self._taken_at) - timedelta(milliseconds=STEP_MS / 2)
        plan = build_unload_plan(
            self._before, run.bundles, now=at, destinations=run.bundles, reason=run.reason
        )
        if not plan.applyable:
            return
        run_id = run_id_at(at, plan.plan_id[:6])
        # at once: a worker that saw the request alone would claim it, and execute it today
        self._journal.append_all(
            [
                self._signed(run_id, moment, event)
                for moment, event in _events(plan, run.bundles, at)
            ]
        )
        self._entered.add(str(run_id))
        self._unmeasured.append(run_id)

    def _measure(self, snapshot: PulsarSnapshot) -> None:
        """Enter the results of the runs that have ended for long enough."""
        at = snapshot.manifest.taken_at
        for run_id in list(self._unmeasured):
            view = fold(self._journal.entries(run_id=run_id))
            if view.ended_at is None or at < view.ended_at + _MEASURED_AFTER:
                continue
            self._unmeasured.remove(run_id)
            self._journal.append(self._signed(run_id, at, measured(view, snapshot)))

    def _signed(self, run_id: RunId, at: datetime, event: Event) -> Record:
        record = Record(run_id=run_id, cluster=self._cluster, at=at, actor=ACTOR, event=event)
        return signed(record, self._key)


def _events(
    plan: Plan, destinations: Mapping[str, str], at: datetime
) -> Iterator[tuple[datetime, Event]]:
    """Yield the worker events of a successful run, with their times."""
    who = Identity(name=ACTOR)
    yield at, RunRequested(plan=plan, options=RunOptions(), reason=plan.reason, identity=who)
    yield at, RunClaimed(worker=ACTOR, lease=ACTOR)
    for place, step in enumerate(plan.steps):
        target = destinations[step.subject]
        yield at, StepStarted(step=place, observed=Observation(exists=True, holder=step.owner))
        at += _STEP
        sentence = f"{step.subject} moved from {step.owner} to {target}, as requested."
        after = Observation(exists=True, holder=target)
        result = StepResult(state="DONE", code="landed", sentence=sentence, after=after)
        yield at, StepEnded(step=place, result=result, took_ms=_TOOK_MS)
    count = len(plan.steps)
    yield at, RunEnded(state="DONE", sentence=f"{count} of {pluralize(count, 'step')} done.")
