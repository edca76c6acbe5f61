"""A cluster, a journal and a worker, as the tests of applying use them."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from signed_requests import as_requested

from connectors.config.model import ClusterConfig, Timeouts, TrimtabConfig
from connectors.journal.journal import SqlJournal
from connectors.pulsar.acting.cluster import PulsarCluster
from connectors.worker.worker import work_on
from core.actions.events import ControlRequested, Entry, Event, Record, RunRequested
from core.actions.model import Control, RunId, RunOptions
from core.actions.runs import RunView, fold, run_id_at
from core.plan.model import Plan, sealed
from core.pulsar.plan.build import build_unload_plan
from core.snapshot import PulsarSnapshot

QUICK = Timeouts(connect_s=1.0, read_s=2.0, answer_s=4.0, zookeeper_s=5.0, session_s=3.0)
HASTE = RunOptions(pace_per_min=600.0, max_failures=100, verify_within_s=15.0, max_unassigned=100)
ACTOR = "tester"


@dataclass(frozen=True)
class ApplySite:
    """One cluster and the state directory of those who act on it."""

    config: TrimtabConfig
    cluster: ClusterConfig

    @classmethod
    def of(cls, folder: Path, cluster: ClusterConfig, **changes: Any) -> ApplySite:
        apply = cluster.apply.model_copy(update={"pace_per_min": 600.0, "moves_per_day": 100_000})
        cluster = cluster.model_copy(
            update={"timeouts": QUICK, "read_only": False, "apply": apply, **changes}
        )
        return cls(TrimtabConfig(clusters=[cluster], state_dir=folder), cluster)

    # -- looking ----------------------------------------------------------------------------------

    def snapshot(self) -> PulsarSnapshot:
        with closing(PulsarCluster(self.cluster)) as pulsar:
            return pulsar.snapshot()

    def journal(self) -> SqlJournal:
        return SqlJournal(self.config.journal_address)

    def entries(self, run_id: RunId) -> list[Entry]:
        with closing(self.journal()) as journal:
            return list(journal.entries(run_id=run_id))

    def view(self, run_id: RunId) -> RunView:
        return fold(self.entries(run_id))

    # -- planning ---------------------------------------------------------------------------------

    def plan(self, count: int, *, towards: bool = True, among: Sequence[str] = ()) -> Plan:
        """Return a plan of that many bundles with topics, all of them movable.

        Args:
            count: How many.
            towards: Name a destination, one that is allowed to take all of them.
            among: Only these bundles; by default those that a report names with topics.
        """
        snapshot = self.snapshot()
        names = list(among) or movable(snapshot)
        best: list[str] = []
        for broker in snapshot.brokers["broker"].to_pylist() if towards else [None]:
            tried = planned(snapshot, names, broker) if names else None
            best = [step.bundle for step in tried.steps] if tried else []
            if len(best) >= count:
                found = planned(snapshot, best[:count], broker)
                assert found.applyable, found.diagnostics
                return found
        raise AssertionError(f"only {len(best)} bundles can be moved")

    # -- acting -----------------------------------------------------------------------------------

    def ask(self, plan: Plan, options: RunOptions = HASTE, reason: str = "a test") -> RunId:
        run_id = run_id_at(datetime.now(UTC), secrets.token_hex(3))
        self.append(run_id, RunRequested(plan=plan, options=options, reason=reason))
        return run_id

    def control(self, run_id: RunId, control: Control) -> None:
        self.append(run_id, ControlRequested(control=control, reason="a test"))

    def append(self, run_id: RunId, event: Event) -> None:
        with closing(self.journal()) as journal:
            record = Record(
                run_id=run_id,
                cluster=self.cluster.name,
                at=datetime.now(UTC),
                actor=ACTOR,
                event=event,
            )
            journal.append(as_requested(record))

    def execute_run(self, plan: Plan, options: RunOptions = HASTE) -> RunView:
        """Ask for a plan and be the worker until its run has ended."""
        run_id = self.ask(plan, options)
        work_on(self.config, self.cluster, run_id, threading.Event(), lambda _: None)
        return self.view(run_id)


def edited(plan: Plan, **changes: Any) -> Plan:
    """Return a plan whose first step, its only one then, was written by somebody else."""
    step = msgspec.structs.replace(plan.steps[0], **changes)
    return sealed(replace(plan, steps=(step,)))


def movable(snapshot: PulsarSnapshot) -> list[str]:
    """Return the owned bundles that a report names with topics."""
    rows = snapshot.bundles.select(["bundle", "owner", "topic_count", "is_broker_bound"])
    return [
        row["bundle"]
        for row in rows.to_pylist()
        if row["owner"]
        and row["topic_count"]
        and not row["is_broker_bound"]
        and not row["bundle"].startswith("pulsar/")
    ]


def planned(snapshot: PulsarSnapshot, names: Sequence[str], broker: str | None) -> Plan:
    return build_unload_plan(snapshot, names, destination=broker, now=datetime.now(UTC))
