"""A Pegasus cluster, and steps of plans for it, as the tests of acting use them."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

from signed_requests import as_requested

from connectors.config.model import ApplyLimits, ClusterConfig, Timeouts, TrimtabConfig
from connectors.journal.journal import SqlJournal
from connectors.pegasus.acting.cluster import PegasusCluster
from connectors.pegasus.rpc.client import MetaClient
from connectors.worker.worker import work_on
from core.actions.events import Record, RunRequested
from core.actions.model import Observation, Refusal, RunId, RunOptions, StepResult
from core.actions.ports import Action
from core.actions.runs import RunView, fold, run_id_at
from core.pegasus.partition import PartitionConfig
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.partition import Partition
from core.plan.model import Expected, Plan, PolicyRef, Step, sealed

WITHIN_S = 100.0
HASTE = RunOptions(pace_per_min=600.0, max_failures=100, verify_within_s=15.0)
PROPOSE = "RPC_CM_PROPOSE_BALANCER"


def wait_until(
    is_true: Callable[[], object], what: str, within_s: float = WITHIN_S, *, every_s: float = 0.05
) -> None:
    pause, deadline = threading.Event(), monotonic() + within_s
    while not is_true():
        assert monotonic() < deadline, f"{what}: not within {within_s:.0f} s"
        pause.wait(every_s)


@dataclass(frozen=True)
class Acted:
    """What came of a step: refused before it began, or ended."""

    refusal: Refusal | None
    result: StepResult | None
    before: Observation


@dataclass(frozen=True)
class PegasusSite:
    """One cluster, and a client beside the one that acts."""

    config: ClusterConfig
    cluster: PegasusCluster
    client: MetaClient

    @classmethod
    def of(cls, meta_servers: Sequence[str]) -> PegasusSite:
        config = ClusterConfig(
            name="under-test",
            kind="pegasus",
            meta_servers=list(meta_servers),
            read_only=False,
            rate_sample_s=0.2,
            timeouts=Timeouts(answer_s=8.0),
            apply=ApplyLimits(pace_per_min=600.0, moves_per_day=100_000),
        )
        cluster = PegasusCluster(config, readings_apart_s=0.3)
        return cls(config, cluster, MetaClient(meta_servers))

    def close(self) -> None:
        self.cluster.close()
        self.client.close()

    # -- looking ----------------------------------------------------------------------------------

    def every(self) -> list[tuple[str, PartitionConfig]]:
        """Return table and configuration of every partition."""
        names = [table.name for table in self.client.fetch_tables()]
        found = self.client.fetch_all_partitions(names)
        return [(name, config) for name in names for config in found[name]]

    def partition(self, table: str, gpid: str) -> PartitionConfig:
        index = int(gpid.partition(".")[2])
        (found,) = self.client.fetch_partitions(table, [index])
        return found

    def some(self) -> tuple[str, PartitionConfig]:
        """Return the first partition that has all of its replicas."""
        return next(
            (name, config)
            for name, config in self.every()
            if config.primary and config.replica_count == config.max_replica_count == 3
        )

    def stranger(self, config: PartitionConfig) -> str:
        """Return a living node that does not serve a partition."""
        nodes = self.client.fetch_nodes()
        return next(
            node.name for node in nodes if node.is_alive and node.name not in config.members
        )

    # -- through the executor ---------------------------------------------------------------------

    def plan(self, *steps: Step) -> Plan:
        """Return a plan of these steps, as somebody may have written it."""
        taken = self.cluster.snapshot()
        now = datetime.now(UTC)
        return sealed(
            Plan(
                cluster=self.config.name,
                snapshot_id=taken.snapshot_id,
                taken_at=taken.manifest.taken_at,
                created_at=now,
                expires_at=now + timedelta(hours=1),
                strategy=PolicyRef(name="none", release="2.6"),
                steps=steps,
                expected=Expected(),
                complete=True,
                applyable=True,
                errored=False,
            )
        )

    def ask(self, folder: Path, plan: Plan, options: RunOptions = HASTE) -> RunId:
        """Request a run, as the pages and the command line do."""
        run_id = run_id_at(datetime.now(UTC), secrets.token_hex(3))
        event = RunRequested(plan=plan, options=options, reason="a test")
        with closing(self.journal(folder)) as journal:
            at = datetime.now(UTC)
            name = self.config.name
            record = Record(run_id=run_id, cluster=name, at=at, actor="tester", event=event)
            journal.append(as_requested(record))
        return run_id

    def trimtab(self, folder: Path, **changes: object) -> TrimtabConfig:
        cluster = self.config.model_copy(update=changes)
        return TrimtabConfig(clusters=[cluster], state_dir=folder)

    def journal(self, folder: Path) -> SqlJournal:
        return SqlJournal(self.trimtab(folder).journal_address)

    def view(self, folder: Path, run_id: RunId) -> RunView:
        with closing(self.journal(folder)) as journal:
            return fold(journal.entries(run_id=run_id))

    def execute_run(self, folder: Path, plan: Plan, **changes: object) -> RunView:
        """Ask for a plan and be the worker until its run has ended."""
        run_id = self.ask(folder, plan)
        config = self.trimtab(folder, **changes)
        cluster = config.cluster(self.config.name)
        work_on(config, cluster, run_id, threading.Event(), lambda _: None)
        return self.view(folder, run_id)

    # -- acting -----------------------------------------------------------------------------------

    def action(self, step: Step) -> Action:
        return self.cluster.action(step)

    def act(self, step: Step, within_s: float = WITHIN_S) -> Acted:
        """Do what the executor does with a step, and wait for its end."""
        action = self.action(step)
        before = action.look()
        refusal = action.check_precondition(before)
        if refusal is not None:
            return Acted(refusal, None, before)
        action.send()
        return Acted(None, self.settled(step, before, action, within_s), before)

    def settled(
        self,
        step: Step,
        before: Observation,
        action: Action | None = None,
        within_s: float = WITHIN_S,
    ) -> StepResult:
        """Look until a step has ended; by somebody else than its sender where none is given."""
        looking = action or self.action(step)
        pause, deadline = threading.Event(), monotonic() + within_s
        while True:
            now = looking.look()
            result = looking.result(before, now)
            if result is not None:
                return result
            assert monotonic() < deadline, f"{step.subject}: no end within {within_s:.0f} s"
            pause.wait(0.05)


def move(table: str, config: PartitionConfig, kind: str, source: str, target: str) -> MoveReplica:
    planned = Partition.of(config, table)
    return MoveReplica(partition=planned, move=kind, source=source, target=target, size_mb=1.0)
