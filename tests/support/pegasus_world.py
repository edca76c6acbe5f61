"""A Pegasus cluster for the executor, in memory and in virtual time; see ``actions_world``.

Proposals are queued and carried out a moment later, unless a level of steady or below was set
meanwhile. The rules that the actions go by are the product's own; the rest is as plain as can be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from actions_world import Faults, Port, Worker, World, dark, refused, unknown
from fleet_builder import NOON
from pegasus_snapshots import NODES, node_rows, setting_rows, table_row
from pegasus_snapshots import snapshot_of as snapshot_of_rows

from core.actions.approval import ApprovalRules
from core.actions.model import Observation, Refusal, StepResult
from core.actions.ports import Action, Cluster
from core.actions.waits import not_reached
from core.actions.windows import Window
from core.errors import GuardRefusedError
from core.pegasus.answers import NodeEntry
from core.pegasus.balance.model import ProposalAction
from core.pegasus.levels import parse_level
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import ProposalContext
from core.pegasus.reconfigure import projected_configs
from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.batch import PartitionProposal, ProposeMany
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.level import LEVEL_KEY, SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from core.pegasus.system import PEGASUS
from core.plan.model import Expected, Plan, PolicyRef, sealed
from core.snapshot.pegasus import PegasusSnapshot
from core.step import Step

N1, N2, N3, N4 = NODES
FLOW = "meta.lb.add_secondary_enable_flow_control"
LIMIT = "meta.lb.add_secondary_max_count_for_one_node"
VALUES = {FLOW: "false", LIMIT: "10"}
READINGS = 2
"""How many looks on end have to find the cluster balanced."""


def first_configs() -> dict[str, PartitionConfig]:
    """Four partitions that db1 leads."""
    found = (
        PartitionConfig(
            app_id=2,
            index=index,
            ballot=3,
            max_replica_count=3,
            primary=N1,
            secondaries=(N2 if index % 2 else N3, N4),
        )
        for index in range(4)
    )
    return {config.gpid: config for config in found}


@dataclass
class PegasusWorld(World):
    """The cluster's true state beside what every world has; ``queue``: partitions under way."""

    configs: dict[str, PartitionConfig] = field(default_factory=first_configs)
    level: str = "steady"
    level_before: str = "steady"
    values: dict[str, str] = field(default_factory=lambda: dict(VALUES))
    values_before: dict[str, str] = field(default_factory=lambda: dict(VALUES))
    queue: dict[str, int] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    started: dict[str, str] = field(default_factory=lambda: dict.fromkeys(NODES, "start 1"))
    is_forgotten: bool = False
    lively_since_s: float | None = None
    balanced_after_s: float = 3.0
    doubted_until_s: float = 0.0
    sent_steps: list[int] = field(default_factory=list)
    sent_attempts: set[tuple[str, int, int]] = field(default_factory=set)
    pending_before: set[str] = field(default_factory=set)

    def cluster_of(self, worker: Worker) -> Cluster:
        return PegasusPort(worker)

    # -- what happens in the cluster ------------------------------------------------------------

    def propose(self, gpid: str, actions: Sequence[ProposalAction], after_s: float) -> None:
        """Queue a proposal; each of its changes comes ``after_s`` after the one before."""
        mark = self.queue[gpid] = self.queue.get(gpid, 0) + 1
        way = projected_configs(self.configs[gpid], actions)[1:]
        for place, config in enumerate(way, 1):
            is_last = place == len(way)
            self.at(
                self.now_s + after_s * place,
                lambda config=config, is_last=is_last: self._advance(mark, config, is_last=is_last),
            )

    def _advance(self, mark: int, config: PartitionConfig, *, is_last: bool) -> None:
        if self.queue.get(config.gpid) != mark:
            return  # thrown away
        self.configs[config.gpid] = config
        self.landed[config.gpid] += is_last
        if is_last:
            del self.queue[config.gpid]

    def set_level(self, level: str) -> None:
        if level != "lively":
            self.forget()
        if level != self.level:
            self.lively_since_s = self.now_s if level == "lively" else None
        self.level = level

    def forget(self) -> None:
        """Throw away what is pending."""
        for gpid in self.queue:
            self.touched.add(gpid)
        self.queue.clear()

    def set_value(self, key: str, value: str) -> None:
        if key == LEVEL_KEY:
            self.set_level(value)
        else:
            self.values[key] = value

    # -- what others do -------------------------------------------------------------------------

    def level_by_others(self, level: str) -> None:
        """Let somebody set the level: from then on that is what has to be left."""
        self.set_level(level)
        self.level_before = level
        self.is_forgotten = False
        self.doubted_until_s = self.now_s + 1e9

    def fail_over(self) -> None:
        """Let another meta server lead: it knows the configuration file only."""
        self.values = dict(VALUES)
        self.set_level("steady")
        self.doubted_until_s = self.now_s + 90.0
        self.is_forgotten = True

    def restart(self, node: str, start: str) -> None:
        """Let a person, or a crash, put another process in the place of a node's."""
        self.started[node] = start

    def move_primary_by_others(self, gpid: str) -> None:
        config = self.configs[gpid]
        if config.primary is not None and config.secondaries:
            self.touched.add(gpid)
            new, *rest = config.secondaries
            others = (*rest, config.primary)
            self.configs[gpid] = PartitionConfig(
                config.app_id, config.index, config.ballot + 1, 3, new, others
            )

    # -- reading --------------------------------------------------------------------------------

    def value_of(self, key: str) -> str:
        return self.level if key == LEVEL_KEY else self.values[key]

    def proposal_context(self) -> ProposalContext:
        nodes = {name: NodeEntry(name, None, name not in self.dead) for name in NODES}
        return ProposalContext(nodes, parse_level(self.level))

    def pegasus_snapshot(self) -> PegasusSnapshot:
        return snapshot_of_world(self)


def snapshot_of_world(world: PegasusWorld) -> PegasusSnapshot:
    """What a capture of the world would hold."""
    parts = [
        {
            "app_id": config.app_id,
            "index": config.index,
            "ballot": config.ballot,
            "max_replica_count": config.max_replica_count,
            "primary": config.primary,
            "secondaries": list(config.secondaries),
            "last_drops": list(config.last_drops),
            "last_committed_decree": 0,
        }
        for config in world.configs.values()
    ]
    level = {
        "level.stored": str(int(parse_level(world.level))),
        "level.effective": world.level,
        "add_secondary_enable_flow_control": world.values[FLOW],
        "add_secondary_max_count_for_one_node": world.values[LIMIT],
    }
    replicas = [
        {"app_id": one["app_id"], "index": one["index"], "node": node, "is_primary": place == 0}
        for one in parts
        for place, node in enumerate([one["primary"], *one["secondaries"]])
        if node is not None
    ]
    content = {
        "nodes": node_rows(world.dead),
        "tables": [table_row(2, "temp", len(parts))],
        "partitions": parts,
        "replicas": replicas,
        "settings": setting_rows(level),
    }
    return snapshot_of_rows(content, cluster="fleet", taken_at=world.moment)


# -- plans -----------------------------------------------------------------------------------------


def pegasus_plan(
    world: PegasusWorld, steps: Iterable[PegasusStep], lifetime_s: float = 600.0
) -> Plan:
    """A sealed plan of these steps."""
    return sealed(
        Plan(
            cluster="fleet",
            snapshot_id=world.pegasus_snapshot().snapshot_id,
            taken_at=NOON,
            created_at=world.moment,
            expires_at=world.moment + timedelta(seconds=lifetime_s),
            strategy=PolicyRef(name="app", release="2.6.0"),
            steps=tuple(steps),
            expected=Expected(),
            complete=True,
            applyable=True,
            errored=False,
        )
    )


def partition(gpid: str, configs: dict[str, PartitionConfig] | None = None) -> Partition:
    return Partition.of((configs or first_configs())[gpid], "temp")


def move(gpid: str, source: str, target: str, how: str = "move_pri") -> MoveReplica:
    return MoveReplica(partition=partition(gpid), move=how, source=source, target=target)  # type: ignore[arg-type]  # a word


def batch(node: str, **targets: str) -> ProposeMany:
    """``p1=N2``: partition 2.1 goes to N2."""
    items = tuple(
        PartitionProposal(partition=partition(f"2.{name[1:]}"), target=target)
        for name, target in targets.items()
    )
    return ProposeMany(node=node, verb="move_pri", items=items)


# -- the cluster's port ----------------------------------------------------------------------------


class PegasusPort(Port):
    name = "fleet"
    system = PEGASUS
    world: PegasusWorld

    @property
    def is_read_only(self) -> bool:
        return self.world.is_read_only

    @property
    def exclusions(self) -> Sequence[str]:
        return self.world.exclusions

    @property
    def moves_per_day(self) -> int:
        return self.world.moves_per_day

    @property
    def max_steps(self) -> int:
        return 200

    @property
    def approval(self) -> ApprovalRules:
        return self.world.approval

    @property
    def windows(self) -> tuple[Window, ...]:
        return self.world.windows

    def snapshot(self) -> PegasusSnapshot:
        self.cross("snapshot")
        self.reach()
        self.world.pass_time(0.3)
        return snapshot_of_world(self.world)

    def action(self, step: Step) -> Action:
        match step:
            case SetMetaLevel():
                return _Setting(self, step, step.level)
            case SetServerSetting():
                return _Setting(self, step, step.value)
            case MoveReplica() | ChangeReplica():
                return _Proposal(self, step, [step.partition.gpid])
            case ProposeMany():
                return _Proposal(self, step, [item.partition.gpid for item in step.items])
            case AwaitState():
                return _Wait(self, step)
            case _:
                raise AssertionError(step)

    def dynamic_setting(self, key: str) -> str | None:
        self.cross("before setting read")
        self.reach()
        return self.world.value_of(key)

    def pending(self) -> frozenset[str]:
        return frozenset(self.world.pending_before)

    def set_dynamic_setting(self, key: str, value: str | None) -> None:
        self.cross("before setting")
        self.reach()
        if self.world.is_setting_refused:
            raise refused("The meta server refused the setting.")
        assert self.world.holder == self.worker.name, "a setting was changed without the lease"
        assert value is not None
        self.world.set_value(key, value)
        self.cross("after setting")

    def reach(self) -> None:
        if self.world.is_dark:
            raise dark()

    def send(self, step: Step, act: Callable[[Faults], None]) -> None:
        """Send once; whether anybody hears of it is another matter."""
        self.cross("before send")
        self._must_be_allowed(step)
        faults = self.world.faults.get(step.subject, Faults())
        if faults.answer == "not_sent":
            raise dark("Connection refused.")
        if faults.answer == "refused":
            raise refused("The meta server answered ERR_INVALID_STATE.")
        if faults.answer != "swallowed":
            act(faults)
        if faults.answer in ("lost", "swallowed", "late"):
            self.world.pass_time(5.0)
            raise unknown("No answer within 5 s.")
        self.cross("after send")

    def _must_be_allowed(self, step: Step) -> None:
        """What has to hold at the very moment of sending, whatever the executor believes."""
        world = self.world
        view = world.view
        running = [item for item in view.steps if item.state == "RUNNING"]
        assert [item.step for item in running] == [step], "sent without a durable intent"
        assert view.worker == self.worker.name, "sent by a worker that lost the run"
        assert world.holder == self.worker.name, "sent without the lease"
        assert view.state == "RUNNING", f"sent while the run is {view.state}"
        sent = view.run_id, running[0].index, running[0].attempt
        assert sent not in world.sent_attempts, f"attempt {sent[2]} of step {sent[1]}: twice"
        if step.temporary_value is not None:
            assert step.subject in {item.key for item in view.outstanding_settings}, "not saved"
        if world.now_s >= world.doubted_until_s:
            for key, value in view.temporary_values.items():
                assert world.value_of(key) == value, f"{key} is not as the run had set it"
        world.sent_attempts.add(sent)
        world.sent_steps.append(running[0].index)


@dataclass
class _Setting:
    port: PegasusPort
    step: SetMetaLevel | SetServerSetting
    wanted: str
    timeout_s: float = 0.0

    def look(self) -> Observation:
        value = self.port.dynamic_setting(self.step.subject)
        return Observation(exists=True, value=value)

    def check_precondition(self, seen: Observation) -> Refusal | None:
        if seen.value == self.step.before:
            return None
        sentence = f"{self.step.subject} is {seen.value}, not {self.step.before}."
        return Refusal(code="changed_meanwhile", sentence=sentence)

    def send(self) -> None:
        world, key = self.port.world, self.step.subject

        def act(faults: Faults) -> None:
            if faults.answer == "late":
                world.at(world.now_s + faults.after_s, lambda: world.set_value(key, self.wanted))
            else:
                world.set_value(key, self.wanted)

        self.port.send(self.step, act)

    def result(self, _before: Observation, now: Observation) -> StepResult | None:
        if now.value != self.wanted:
            return None
        sentence = f"{self.step.subject} is {self.wanted}."
        return StepResult(state="DONE", code="set", sentence=sentence, after=now)

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        is_as_before = now.value == before.value
        return self.result(before, now) or StepResult(
            state="FAILED",
            code="not_done" if is_as_before else "changed_by_others",
            sentence=f"{self.step.subject} is {now.value}.",
            after=now,
        )


@dataclass
class _Proposal:
    port: PegasusPort
    step: MoveReplica | ChangeReplica | ProposeMany
    gpids: Sequence[str]

    @property
    def timeout_s(self) -> float:
        return 12.0 if len(self.gpids) > 1 else 0.0

    def look(self) -> Observation:
        self.port.cross("look")
        self.port.reach()
        configs = [self.port.world.configs[gpid] for gpid in self.gpids]
        members = json.dumps([[config.primary, *config.secondaries] for config in configs])
        ballots = " ".join(str(config.ballot) for config in configs)
        holder = configs[0].primary if len(configs) == 1 else None
        return Observation(exists=True, holder=holder, token=ballots, value=members)

    def check_precondition(self, _seen: Observation) -> Refusal | None:
        problems = [self._problem(gpid) for gpid in self.gpids]
        if not all(problems):
            return None
        return Refusal(code="moved_meanwhile", sentence=problems[0])

    def _problem(self, gpid: str) -> str:
        world = self.port.world
        try:
            self.step.proposal(world.proposal_context(), world.configs[gpid])
        except GuardRefusedError as exc:
            return exc.message
        return ""

    def send(self) -> None:
        self.port.send(self.step, self._act)

    def _act(self, faults: Faults) -> None:
        world = self.port.world
        for gpid in self.gpids:
            if not self._problem(gpid):
                found = self.step.proposal(world.proposal_context(), world.configs[gpid])
                world.propose(gpid, found.actions, faults.after_s)

    def result(self, _before: Observation, now: Observation) -> StepResult | None:
        if not all(map(self._is_done, self.gpids)):
            return None
        sentence = f"{', '.join(self.gpids)}: done."
        return StepResult(state="DONE", code="moved", sentence=sentence, after=now)

    def _is_done(self, gpid: str) -> bool:
        config, step = self.port.world.configs[gpid], self.step
        match step:
            case MoveReplica():
                holders = config.secondaries if step.move == "copy_sec" else (config.primary,)
                is_source_left = step.move == "move_pri" or step.source not in config.members
                return step.target in holders and is_source_left
            case ChangeReplica():
                is_to_be = step.change in ("ADD_SECONDARY", "ASSIGN_PRIMARY")
                return (step.node in config.members) == is_to_be
            case ProposeMany():
                targets = {item.partition.gpid: item.target for item in step.items}
                return config.primary == targets[gpid]

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        left = [gpid for gpid in self.gpids if not self._is_done(gpid)]
        if any(gpid in self.port.world.queue for gpid in left):
            return StepResult(
                state="UNKNOWN", code="timed_out", sentence=f"{left}: pending.", after=now
            )
        return self.result(before, now) or StepResult(
            state="FAILED", code="partly", sentence=f"{', '.join(left)}: not done.", after=now
        )


@dataclass
class _Wait:
    """Several looks of one object have to agree that the cluster is balanced."""

    port: PegasusPort
    step: AwaitState
    timeout_s: float = 0.0
    readings: int = 0

    def look(self) -> Observation:
        self.port.cross("look")
        self.port.reach()
        start = None
        if self.step.state in ("running", "restarted"):
            start = self.port.world.started.get(self.step.node or "")
        return Observation(exists=True, value=start, detail=self._lacking())

    def check_precondition(self, seen: Observation) -> Refusal | None:
        if self.step.state == "restarted" and self.step.started_at is None:
            return Refusal(code="start_unknown", sentence="Its start was not noted.")
        if not seen.detail:
            return None
        return Refusal(code="not_yet", sentence=seen.detail, retry_s=1.0)

    def _lacking(self) -> str:
        left = self._left()
        self.readings = 0 if left else self.readings + 1
        if left or self.step.state != "balanced" or self.readings >= READINGS:
            return left
        return f"{self.readings} of {READINGS} readings are calm."

    def _left(self) -> str:
        world = self.port.world
        if self.step.state == "balanced":
            since_s = world.lively_since_s
            is_calm = since_s is not None and world.now_s - since_s >= world.balanced_after_s
            return "" if is_calm else "The balancer is at it."
        node = self.step.node or ""
        if self.step.state in ("running", "restarted"):
            start = world.started.get(node)
            if start is None:
                return f"{node} is not alive."
            return "" if start != self.step.started_at else f"Restart {node} now."
        led = [one for one in world.configs.values() if one.primary == self.step.node]
        return f"{self.step.node} leads {len(led)} partitions." if led else ""

    def send(self) -> None:
        """Change nothing."""

    def result(self, before: Observation, now: Observation) -> StepResult:
        if before.detail and now.detail:
            return not_reached(self.step.wait, now.detail, now)
        return StepResult(state="DONE", code="reached", sentence="It is so.", after=now)

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        return self.result(before, now)
