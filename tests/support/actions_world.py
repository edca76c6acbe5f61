"""A world for the executor, in memory and in virtual time: journal, cluster, lease and clock.

Everything that can go wrong is switched per bundle or happens at a set moment. Every call of a
worker into its world passes :meth:`World.cross`; at the chosen crossing the worker dies, as by
``kill -9``: whatever it calls afterwards (a ``finally``, say) kills it again and changes nothing.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from fleet_builder import NOON, make_snapshot

from connectors.pulsar.acting.bundle_reader import BundleState, BundleStep
from connectors.pulsar.acting.topics_reader import LoadedTopics
from connectors.pulsar.actions.policy import PolicyAction
from connectors.pulsar.actions.setting import SettingAction
from connectors.pulsar.actions.split import SplitAction
from core.actions.apply import execute_run
from core.actions.approval import NO_APPROVAL, ApprovalRules
from core.actions.authority import Request
from core.actions.events import (
    FIRST_LINK,
    ControlRequested,
    Entry,
    Record,
    RunDecided,
    RunEnded,
    RunRefused,
    RunRequested,
    StepStarted,
    canonical,
    link,
)
from core.actions.model import Observation, Refusal, RunId, RunOptions, RunState, StepResult
from core.actions.ports import Action, Cluster, Ports
from core.actions.runs import fold
from core.actions.views import RunView
from core.actions.windows import Window
from core.errors import RemoteError, UnreachableError
from core.ids import parse_range, range_text
from core.plan.model import Expected, Plan, PolicyRef, Step, sealed
from core.pulsar.policy_kinds import PolicyChange
from core.pulsar.steps.base import AdminRequest
from core.pulsar.steps.policy import SetPolicy
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.split import SplitBundle
from core.pulsar.steps.unload import UnloadBundle
from core.pulsar.system import PULSAR
from core.snapshot import PulsarSnapshot
from core.snapshot.model import Manifest
from core.systems import STEPS

RUN = RunId("20261121-120000-000001")
SHEDDING = "loadBalancerSheddingEnabled"
BASE = make_snapshot(brokers=4, bundles=12, cluster="fleet")
MOVABLE = tuple(
    row["bundle"]
    for row in BASE.bundles.to_pylist()
    if row["owner"] and ":" not in row["namespace"]
)
OWNERS = {row["bundle"]: row["owner"] for row in BASE.bundles.to_pylist()}
BROKERS = tuple(BASE.brokers["broker"].to_pylist())
NO_OPTIONS = RunOptions()


class Death(BaseException):
    """The worker was killed."""


def refused(what: str) -> RemoteError:
    return RemoteError(
        what, endpoint="http://leader:8080", operation="PUT unload", outcome="refused", hint="Ask."
    )


def unknown(what: str) -> RemoteError:
    return RemoteError(
        what, endpoint="http://leader:8080", operation="PUT unload", outcome="unknown"
    )


def dark(what: str = "No answer within 5 s.") -> RemoteError:
    return UnreachableError(
        what, endpoint="zookeeper 127.0.0.1:2181", operation="read", outcome="not_sent"
    )


@dataclass
class Faults:
    """How the cluster answers to one bundle's unload.

    Attributes:
        answer: ``ok``, ``refused``, ``not_sent``, ``lost`` (acted, but nobody hears), ``swallowed``
            (not acted, and nobody hears), ``late`` (nobody hears, acted after ``after_s``).
        lands_on: The broker that takes it instead of the one asked for.
        is_looked_up: Somebody asks for it afterwards.
        after_s: How long the move takes.
        topics: Topics that its owner has loaded; ``None``: it does not answer that.
    """

    answer: str = "ok"
    lands_on: str | None = None
    is_looked_up: bool = True
    after_s: float = 0.4
    topics: int | None = 0


@dataclass
class World:
    """The cluster's true state, the journal, and what has been seen happening.

    ``gone``: bundles that were split, ``parts``: into what. ``stubborn``: brokers that run another
    value of any setting. ``holes``: bundles that snapshots fail to read.
    """

    owners: dict[str, str | None] = field(default_factory=lambda: dict(OWNERS))
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OWNERS, 1))
    settings: dict[str, str] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    faults: dict[str, Faults] = field(default_factory=dict)
    is_read_only: bool = False
    exclusions: tuple[str, ...] = ()
    moves_per_day: int = 500
    approval: ApprovalRules = NO_APPROVAL
    refusal_of: Callable[[Record], Refusal | None] = lambda _: None
    sign: Callable[[Record], Record] = lambda record: record
    windows: tuple[Window, ...] = ()
    entries: list[Entry] = field(default_factory=list)
    holder: str | None = None
    now_s: float = 0.0
    is_dark: bool = False
    is_journal_down: bool = False
    is_setting_refused: bool = False
    is_clock_back: bool = False
    holes: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stubborn: dict[str, str | None] = field(default_factory=dict)
    set_before: str | None = None
    under_way: set[str] = field(default_factory=set)
    sends: list[tuple[float, str, str]] = field(default_factory=list)
    landed: dict[str, int] = field(default_factory=Counter)
    shutting_down: set[str] = field(default_factory=set)
    clock_off_s: float = 0.0
    crossings: list[str] = field(default_factory=list)
    current: str = ""
    dies_at: int | None = None
    on_cross: Callable[[str], None] | None = None
    agenda: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def moment(self) -> datetime:
        return NOON + timedelta(seconds=self.now_s + self.clock_off_s)

    @property
    def view(self) -> RunView:
        return fold([entry for entry in self.entries if entry.record.run_id == RUN])

    def at(self, seconds: float, happening: Callable[[], None]) -> None:
        """Let something happen at that second of virtual time."""
        heapq.heappush(self.agenda, (seconds, next(self._order), happening))

    def pass_time(self, seconds: float) -> None:
        until = self.now_s + max(seconds, 0.0)
        while self.agenda and self.agenda[0][0] <= until:
            when, _, happening = heapq.heappop(self.agenda)
            self.now_s = max(self.now_s, when)
            happening()
        self.now_s = max(self.now_s, until)

    def cross(self, worker: Worker, where: str) -> None:
        if worker.is_dead:
            raise Death
        self.crossings.append(where)
        if self.dies_at is not None and len(self.crossings) > self.dies_at:
            self.dies_at = None
            worker.is_dead = True
            raise Death
        if self.on_cross is not None:
            self.on_cross(where)

    def put(self, record: Record) -> Entry:
        # through JSON, as every real journal does
        record = msgspec.json.decode(canonical(record), type=Record, dec_hook=STEPS.decode)
        previous = self.entries[-1].digest if self.entries else FIRST_LINK
        seq = len(self.entries) + 1
        digest = link(previous, seq, canonical(record))
        refusal = self.refusal_of(record)
        is_forged = refusal is not None and refusal.code == "not_signed"
        if record.event.signature:  # one that is there already is a copy
            signatures = {one.record.event.signature for one in self.entries}
            is_forged = is_forged or record.event.signature in signatures
        entry = Entry(
            seq=seq,
            record=record,
            previous=previous,
            digest=digest,
            forged="It is not signed." if is_forged else "",
        )
        self.entries.append(entry)
        return entry

    def ask(
        self,
        *,
        bundles: Sequence[str] = MOVABLE[:3],
        destination: str | None = None,
        options: RunOptions = NO_OPTIONS,
        lifetime_s: float = 600.0,
        plan: Plan | None = None,
    ) -> Plan:
        """Request the run."""
        plan = plan or plan_of(self, bundles, destination, lifetime_s)
        self._write(RunRequested(plan=plan, options=options, reason="too hot"), "alice")
        return plan

    def control(self, control: str, reason: str = "") -> None:
        self._write(ControlRequested(control=control, reason=reason), "bob")

    def decide(self, *, is_approved: bool, actor: str = "bob", comment: str = "") -> None:
        self._write(RunDecided(is_approved=is_approved, comment=comment), actor)

    def _write(self, event: Request, actor: str) -> None:
        cluster = "fleet"
        record = Record(run_id=RUN, cluster=cluster, at=self.moment, actor=actor, event=event)
        self.put(self.sign(record))

    def work(self, name: str = "w1") -> RunState:
        """Let a worker carry the run out if it gets the lease, which it gives back."""
        self.current = name
        if self.holder is None:
            self.holder = name
        try:
            return execute_run(RUN, Worker(self, name).ports)
        finally:
            if self.holder == name:
                self.holder = None

    def outlive(self, *, deaths: Sequence[int] = (), lives: int = 400) -> RunView:
        """Let worker after worker go on until the run has ended; return the run.

        ``deaths``: for each of the first lives, the crossing at which it is killed.
        """
        for life in range(lives):
            self.crossings.clear()
            self.dies_at = deaths[life] if life < len(deaths) else None
            try:
                self.work(f"w{life}")
            except Death:
                self.pass_time(5.0)  # its lease runs out
            except RemoteError:
                self.pass_time(5.0)  # the journal is down
            if self.view.is_ended:
                break
            self.pass_time(1.0)
        self.dies_at = None
        return self.view

    def move(self, bundle: str, broker: str | None) -> None:
        """Let a bundle change hands."""
        self.owners[bundle] = broker
        self.tokens[bundle] += 1

    def cut(self, step: SplitBundle) -> None:
        """Let a bundle be split; with an unload its parts are placed again a moment later."""
        namespace, _, text = step.bundle.rpartition("/")
        lower, upper = parse_range(text)
        bounds = pairwise((lower, *step.boundaries, upper))
        names = tuple(f"{namespace}/{range_text(*pair)}" for pair in bounds)
        self.gone.add(step.bundle)
        self.parts[step.bundle] = names
        for name in names:
            self.owners[name] = self.owners[step.bundle]
            self.tokens[name] = 1
            if step.is_unloaded:
                self.at(self.now_s + 0.2, lambda name=name: self.move(name, None))
                self.at(self.now_s + 0.6, lambda name=name: self.move(name, BROKERS[0]))

    def move_by_others(self, bundle: str, broker: str | None) -> None:
        self.touched.add(bundle)
        self.move(bundle, broker)

    def set_by_others(self, value: str) -> None:
        """Let somebody set the shedding: from then on that is what has to be left."""
        self.settings[SHEDDING] = self.set_before = value

    def events(self, kind: type) -> list[object]:
        return [e.record.event for e in self.entries if isinstance(e.record.event, kind)]

    def snapshot(self) -> PulsarSnapshot:
        return snapshot_of(self)

    def cluster_of(self, worker: Worker) -> Cluster:
        return _Cluster(worker)


def snapshot_of(world: World) -> PulsarSnapshot:
    """The base fleet with the world's owners; bundles that are gone are left out."""
    table = BASE.bundles
    names = table["bundle"].to_pylist()
    keep = [name not in world.gone | world.holes for name in names]
    owner = pa.array([world.owners[name] for name in names], table.schema.field("owner").type)
    column = table.schema.get_field_index("owner")
    table = table.set_column(column, table.schema.field("owner"), owner).filter(pa.array(keep))
    taken_at = NOON - timedelta(hours=1) if world.is_clock_back else world.moment
    entry = replace(BASE.manifest.tables["bundles"], expected=None if world.holes else sum(keep))
    entries = {**BASE.manifest.tables, "bundles": replace(entry, rows=sum(keep))}
    manifest: Manifest = replace(BASE.manifest, taken_at=taken_at, tables=entries)
    tables = {**BASE.tables, "bundles": table, "brokers": _reporting(taken_at)}
    return PulsarSnapshot(manifest, tables)


def _reporting(moment: datetime) -> pa.Table:
    """The brokers, all of which go on reporting."""
    table = BASE.brokers
    column = table.schema.get_field_index("reported_at")
    later_ms = round((moment - NOON).total_seconds() * 1000)
    return table.set_column(
        column, table.schema.field("reported_at"), pc.add(table["reported_at"], later_ms)
    )


def plan_of(
    world: World, bundles: Sequence[str], destination: str | None = None, lifetime_s: float = 600.0
) -> Plan:
    """A sealed plan, without the arithmetic of a preview."""
    return sealed(
        Plan(
            cluster="fleet",
            snapshot_id=BASE.snapshot_id,
            taken_at=NOON,
            created_at=world.moment,
            expires_at=world.moment + timedelta(seconds=lifetime_s),
            strategy=PolicyRef(name="LeastLongTermMessageRate", release="4.2"),
            steps=tuple(
                UnloadBundle(bundle=name, owner=str(world.owners[name]), destination=destination)
                for name in bundles
            ),
            expected=Expected(),
            complete=True,
            applyable=True,
            errored=False,
        )
    )


class Worker:
    """One worker's life: its ports, which die with it."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.is_dead = False
        self.ports = Ports(
            journal=_Journal(self),
            cluster=world.cluster_of(self),
            lease=_Lease(self),
            clock=_Clock(self),
            worker=name,
            refusal_of=world.refusal_of,
            sign=world.sign,
        )


@dataclass
class Port:
    worker: Worker

    @property
    def world(self) -> World:
        return self.worker.world

    def cross(self, where: str) -> None:
        self.world.cross(self.worker, where)


class _Journal(Port):
    def append(self, record: Record) -> Entry:
        kind = type(record.event).__name__
        self.cross(f"before append {kind}")
        self._reach()
        entry = self.world.put(record)
        self.cross(f"after append {kind}")
        return entry

    def entries(
        self, *, run_id: RunId | None = None, after: int = 0, limit: int | None = None
    ) -> Sequence[Entry]:
        if self.worker.is_dead:
            raise Death
        self._reach()
        found = [
            entry for entry in self.world.entries[after:] if run_id in (None, entry.record.run_id)
        ]
        return found[:limit]

    def open_runs(self, cluster: str) -> Sequence[RunId]:
        ended = {e.record.run_id for e in self.world.entries if _is_end(e)}
        asked = {e.record.run_id: e.record.cluster for e in self.world.entries}
        return [run for run, where in asked.items() if where == cluster and run not in ended]

    def moves_since(self, cluster: str, moment: datetime) -> int:
        self._reach()
        return sum(
            _is_move(entry.record.event)
            and entry.record.cluster == cluster
            and entry.record.at >= moment
            for entry in self.world.entries
        )

    def last_begun(self, cluster: str, since: datetime) -> datetime | None:
        self._reach()
        own = [e.record for e in self.world.entries if e.record.cluster == cluster]
        begun = [item.at for item in own if _is_move(item.event)]
        return next((at for at in reversed(begun) if at >= since), None)

    def runs_of_plan(self, plan: Plan) -> Sequence[RunId]:
        self._reach()
        return [
            entry.record.run_id
            for entry in self.world.entries
            if isinstance(entry.record.event, RunRequested)
            and entry.record.event.plan.plan_id == plan.plan_id
        ]

    def _reach(self) -> None:
        if self.world.is_journal_down:
            raise UnreachableError(
                "The journal is not available.",
                endpoint="sqlite:///journal.db",
                operation="append",
                outcome="not_sent",
            )


def _is_move(event: object) -> bool:
    return isinstance(event, StepStarted) and event.is_paced


def _is_end(entry: Entry) -> bool:
    return isinstance(entry.record.event, RunEnded | RunRefused)


class _Lease(Port):
    lasts_s = 5.0
    place = "zookeeper 127.0.0.1:2181/trimtab/writer"

    def acquire(self) -> bool:
        if self.world.holder is None:
            self.world.holder = self.worker.name
        return self.is_held()

    def is_held(self) -> bool:
        self.cross("lease asked")
        return self.world.holder == self.worker.name

    def holder(self) -> str | None:
        return self.world.holder

    def release(self) -> None:
        if self.world.holder == self.worker.name:
            self.world.holder = None


class _Clock(Port):
    def now(self) -> datetime:
        return self.world.moment

    def monotonic(self) -> float:
        return self.world.now_s

    def wait(self, seconds: float) -> bool:
        self.cross("wait")
        if self.worker.name in self.world.shutting_down:
            return True
        self.world.pass_time(seconds)
        return self.worker.name in self.world.shutting_down

    def hold(self, seconds: float) -> None:
        self.cross("hold")
        self.world.pass_time(seconds)


class _PolicyPort:
    """What the action of a policy needs: the world has no addresses of policies."""

    def __init__(self, cluster: _Cluster, step: SetPolicy) -> None:
        self._cluster = cluster
        self._step = step

    def policy(self, change: PolicyChange) -> str | None:
        return self._cluster.policy_set(change.subject)

    def send_to_any(self, request: AdminRequest) -> None:
        assert request == self._step.request()
        self._cluster.send_policy(self._step)


class _Cluster(Port):
    name = "fleet"
    system = PULSAR

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

    def snapshot(self) -> PulsarSnapshot:
        self.cross("snapshot")
        self._reach()
        self.world.pass_time(0.3)
        return snapshot_of(self.world)

    def action(self, step: Step) -> Action:
        match step:
            case UnloadBundle():
                return _Action(self.worker, step)
            case SplitBundle():
                return SplitAction(
                    step,
                    _Eyes(self.worker),
                    lambda _: self.send_split(step),
                    lambda *_: True,
                    _Topics(self.world),
                )
            case SetDynamicSetting():
                return SettingAction(step, self)
            case SetPolicy():
                return PolicyAction(step, _PolicyPort(self, step))

    def policy_set(self, subject: str) -> str | None:
        self._reach()
        return self.world.policies.get(subject)

    def send_policy(self, step: SetPolicy) -> None:
        """Set a policy or remove it; brokers may refuse."""
        self.cross("before send")
        self._must_be_ours(step.subject)
        if self.world.faults.get(step.subject, Faults()).answer == "refused":
            raise refused("The broker answered 412.")
        if step.value is None:
            self.world.policies.pop(step.subject, None)
        else:
            self.world.policies[step.subject] = step.value

    def send_split(self, step: SplitBundle) -> None:
        """Cut a bundle; whether anybody hears of it is another matter."""
        self.cross("before send")
        self._must_be_ours(step.bundle)
        faults = self.world.faults.get(step.bundle, Faults())
        if faults.answer == "refused":
            raise refused("The broker answered 412.")
        if faults.answer != "swallowed":
            self.world.cut(step)
        self._may_be_lost(faults)
        self.cross("after send")

    def send_to_any(self, request: AdminRequest) -> None:
        key, *values = (unquote(part) for part in request.path.split("/")[2:])
        value = next(iter(values), None)
        self.cross("before send")
        self._must_be_ours(key)
        faults = self.world.faults.get(key, Faults())
        if faults.answer == "refused":
            raise refused("The broker answered 412.")
        if faults.answer != "swallowed":
            self.set_dynamic_setting(key, value)
        self._may_be_lost(faults)
        self.cross("after send")

    def brokers(self) -> Sequence[str]:
        return BROKERS

    def running(self, key: str, brokers: Collection[str]) -> dict[str, str | None]:
        stored = self.world.settings.get(key)
        return {name: self.world.stubborn.get(name, stored) for name in brokers}

    def _must_be_ours(self, subject: str) -> None:
        assert self.world.holder == self.worker.name, "sent without the lease"
        self.world.sends.append((self.world.now_s, self.worker.name, subject))

    def _may_be_lost(self, faults: Faults) -> None:
        if faults.answer in ("lost", "swallowed"):
            self.world.pass_time(5.0)
            raise unknown("No answer within 5 s.")

    def dynamic_setting(self, key: str) -> str | None:
        self.cross("before setting read")
        self._reach()
        return self.world.settings.get(key)

    def pending(self) -> frozenset[str]:
        return frozenset()

    def set_dynamic_setting(self, key: str, value: str | None) -> None:
        self.cross("before setting")
        self._reach()
        if self.world.is_setting_refused:
            raise refused("The broker answered 401 to the setting.")
        assert self.world.holder == self.worker.name, "a setting was changed without the lease"
        if value is None:
            self.world.settings.pop(key, None)
        else:
            self.world.settings[key] = value
        self.cross("after setting")

    def _reach(self) -> None:
        if self.world.is_dark:
            raise dark()


class _Eyes(Port):
    """Sees bundles, whole or in parts."""

    def look(self, step: BundleStep) -> BundleState:
        self.cross("look")
        if self.world.is_dark:
            raise dark()
        name = step.bundle
        if name in self.world.gone:
            return BundleState(exists=False, parts=self.world.parts.get(name, ()))
        return BundleState(
            exists=True, holder=self.world.owners[name], token=str(self.world.tokens[name])
        )


class _Topics:
    """Reads how many topics a bundle has, and whether its parts have any."""

    def __init__(self, world: World) -> None:
        self._world = world

    def loaded(self, bundle: str, owner: str) -> LoadedTopics:
        del owner
        topics = self._world.faults.get(bundle, Faults()).topics
        return LoadedTopics(topics, topics)

    def has_topics(self, bundle: str) -> bool | None:
        topics = self._world.faults.get(bundle, Faults()).topics
        return None if topics is None else topics > 0


class _Action(Port):
    timeout_s = 0.0

    def __init__(self, worker: Worker, step: UnloadBundle) -> None:
        super().__init__(worker)
        self.step = step
        self.is_answered = False

    def look(self) -> Observation:
        self.cross("look")
        if self.world.is_dark:
            raise dark()
        name = self.step.bundle
        if name in self.world.gone:
            return Observation(exists=False, detail=f"{name} was split.")
        return Observation(
            exists=True,
            holder=self.world.owners[name],
            token=str(self.world.tokens[name]),
            topics=self.world.faults.get(name, Faults()).topics,
        )

    def check_precondition(self, seen: Observation) -> Refusal | None:
        if not seen.exists:
            return Refusal(code="gone", sentence=seen.detail)
        if seen.holder != self.step.owner:
            return Refusal(
                code="moved_meanwhile",
                sentence=f"{self.step.bundle} is on {seen.holder}, not on {self.step.owner}.",
            )
        return None

    def send(self) -> None:
        self.cross("before send")
        self._act()
        self.cross("after send")

    def _act(self) -> None:
        world, name = self.world, self.step.bundle
        faults = world.faults.get(name, Faults())
        self._must_be_allowed()
        if faults.answer == "not_sent":
            raise dark("Connection refused.")
        world.sends.append((world.now_s, self.worker.name, name))
        if faults.answer == "refused":
            raise refused("The broker answered 409: the bundle is being split.")
        if faults.answer == "late":
            world.under_way.add(name)
            world.at(world.now_s + faults.after_s, lambda: self._unload(faults))
        elif faults.answer != "swallowed":
            self._unload(faults)
        if faults.answer in ("lost", "swallowed", "late"):
            world.pass_time(5.0)
            raise unknown("No answer within 5 s.")

    def _unload(self, faults: Faults) -> None:
        world, name = self.world, self.step.bundle
        target = faults.lands_on or self.step.destination or BROKERS[0]
        world.under_way.discard(name)
        world.move(name, None)
        world.landed[name] += 1
        if faults.is_looked_up:
            world.at(world.now_s + faults.after_s, lambda: self._take_up(name, target))

    def _take_up(self, name: str, target: str) -> None:
        if self.world.owners[name] is None:  # else somebody was faster
            self.world.move(name, target)

    def _must_be_allowed(self) -> None:
        """What has to hold at the very moment of sending, whatever the executor believes."""
        world, name = self.world, self.step.bundle
        view = world.view
        step = next(item for item in view.steps if item.step.subject == name)
        assert step.state == "RUNNING", f"{name} is sent without a durable intent: {step.state}"
        assert view.worker == self.worker.name, "sent by a worker that lost the run"
        assert world.holder == self.worker.name, "sent without the lease"
        assert not world.is_read_only, "sent to a read-only cluster"
        assert view.state == "RUNNING", f"sent while the run is {view.state}"
        last = world.entries[-1].record.event
        if isinstance(last, StepStarted):  # a wish that came after the intent came too late
            heard = [e.record for e in world.entries[:-1] if world.refusal_of(e.record) is None]
            before = [record.event for record in heard]
            wishes = [e.control for e in before if isinstance(e, ControlRequested)]
            assert "stop" not in wishes, "sent after a stop"
            assert not wishes or wishes[-1] != "pause", "sent during a pause"
        assert name not in [sent for _, _, sent in world.sends], f"{name} is sent twice"

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        if not now.exists:
            return StepResult(state="FAILED", code="gone", sentence=now.detail, after=now)
        if now.token == before.token or now.holder is None:
            return None
        name, wanted = self.step.bundle, self.step.destination
        if wanted and now.holder != wanted:
            return StepResult(
                state="DONE",
                code="landed_elsewhere",
                sentence=f"{name} landed on {now.holder}; the leader did not use {wanted}.",
                after=now,
            )
        sentence = f"{name} is on {now.holder} now."
        return StepResult(state="DONE", code="landed", sentence=sentence, after=now)

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        name = self.step.bundle
        if now.token != before.token:
            sentence = f"{name} was closed and nobody has asked for it."
            if before.topics == 0:
                return StepResult(state="DONE", code="idle", sentence=sentence, after=now)
            return StepResult(state="UNKNOWN", code="unassigned", sentence=sentence, after=now)
        sentence = f"{name} is still on {now.holder}."
        if name in self.world.under_way:
            return StepResult(state="UNKNOWN", code="timed_out", sentence=sentence, after=now)
        return StepResult(state="FAILED", code="not_done", sentence=sentence, after=now)
