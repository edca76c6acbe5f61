"""A plan for a Pegasus cluster while it is being made: steps, what was found, what they lead to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final, cast

import numpy as np
from msgspec import structs

from core.errors import GuardRefusedError, InputError, OpsError, UnknownNameError
from core.pegasus.answers import NodeEntry
from core.pegasus.balance.model import ConfigType, ProposalAction
from core.pegasus.copy_time import copy_time, slower
from core.pegasus.ids import parse_node
from core.pegasus.levels import ALLOWANCES, FunctionLevel, effective_level
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import (
    MOVE_KINDS,
    Change,
    Move,
    Proposal,
    ProposalContext,
    propose_change,
    propose_move,
)
from core.pegasus.reconfigure import projected_configs
from core.pegasus.server_settings import (
    COPY_RATE,
    FLOW_CONTROL,
    LIVE_PERCENTAGE,
    changeable,
    dangers,
    desired_value,
    value_before,
)
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.proposal import ProposalStep
from core.pegasus.steps.setting import EVERY_NODE, LEADER, SetServerSetting, server_settings_of
from core.plan.model import (
    Diagnostic,
    DiagnosticSeverity,
    Expected,
    NodeExpectation,
    Plan,
    PolicyRef,
    sealed,
)
from core.plan.options import PlanOptions, in_order
from core.snapshot.pegasus import PegasusSnapshot
from core.step import Step
from core.units import format_mb, is_whole, pluralize

_MAX_LISTED: Final = 5

MIN_FREE_SHARE: Final = 0.1
"""A disk filled beyond this is reported."""

_LEARNING: Final = (ConfigType.ADD_SECONDARY, ConfigType.ADD_SECONDARY_FOR_LB)
_Test = Callable[[PartitionConfig], bool]


class Draft:
    """Plan under construction.

    Args:
        snapshot: The cluster.
        terms: When, why and how long.
    Attributes:
        state: The cluster as the steps so far leave it.
        steps: So far.
    """

    def __init__(self, snapshot: PegasusSnapshot, terms: PlanOptions) -> None:
        self.facts = PegasusFacts(snapshot)
        self.terms = terms
        self.state = DraftedCluster(self.facts)
        self.steps: list[Step] = []
        self._found: list[Diagnostic] = []
        self._set: dict[tuple[str, str], str] = {}
        self._stored = self.facts.stored_level
        self._left_out = 0
        self._check_reading()

    # -- findings --------------------------------------------------------------------------------

    def note(
        self,
        severity: DiagnosticSeverity,
        code: str,
        sentence: str,
        *,
        subject: str = "",
        hint: str = "",
    ) -> None:
        """Keep something that a person must know."""
        self._found.append(
            Diagnostic(severity=severity, code=code, sentence=sentence, subject=subject, hint=hint)
        )

    def refuse(self, exc: OpsError, subject: str) -> None:
        """Keep a refusal: the plan is errored."""
        self._left_out += 1
        self.note("error", exc.code, exc.message, subject=subject, hint=exc.hint)

    def note_refused(self, refused: Sequence[tuple[str, OpsError]]) -> None:
        """Keep refusals of one batch: the first ones by name, the others by number."""
        for gpid, exc in refused[:_MAX_LISTED]:
            self.refuse(exc, gpid)
        if len(refused) > _MAX_LISTED:
            more = pluralize(len(refused) - _MAX_LISTED, "more partition")
            self.note("error", "guard_refused", f"{more} are excluded for such reasons.")

    @property
    def is_refused(self) -> bool:
        """Whether the plan is already refused."""
        return any(item.severity == "error" for item in self._found)

    @property
    def setting_steps(self) -> list[SetServerSetting]:
        """The steps so far that change settings."""
        return server_settings_of(self.steps)

    # -- steps ----------------------------------------------------------------------------------

    def set_level(self, level: FunctionLevel, *, is_restored: bool = False) -> None:
        """Add the step that sets the function level, even where it is stored already."""
        if self._stored is None:
            self.note(
                "error",
                "level_unknown",
                "The stored level is unknown: a run could not restore it.",
                hint="Take another snapshot; see its problems for what the meta server did not "
                "report.",
            )
            return
        before, self._stored = self._stored, level
        self.state.level = self.state.level_after(level)
        self.steps.append(
            SetMetaLevel(
                before=before.word,
                level=level.word,
                is_restored=is_restored,
                reason=self.terms.reason,
            )
        )

    def hold_steady(self) -> None:
        """Set steady for the time of the run, where another level is stored."""
        if self._stored is not FunctionLevel.STEADY:
            self.set_level(FunctionLevel.STEADY, is_restored=True)

    def check_level(self) -> None:
        """Refuse what needs proposals while none would be executed; warn at lively."""
        level = self.state.level
        if level is None:
            sentence = "The effective level is unknown: a proposal might stay pending unnoticed."
            hint = (
                "Take another snapshot; see its problems for what the meta server did not report."
            )
            self.note("error", "level_unknown", sentence, hint=hint)
        elif level <= FunctionLevel.FREEZED:
            is_few = self._stored is not None and self._stored > FunctionLevel.FREEZED
            self.note(
                "error",
                "level_too_low",
                f"The effective level is {level.word}: {ALLOWANCES[level].sentence}",
                hint="Too few nodes are alive: start them first."
                if is_few
                else "Set the level to steady first.",
            )
        elif level is FunctionLevel.LIVELY:
            self.note(
                "warning",
                "balancer_may_clash",
                "At lively the meta server balances as well: it may change a partition "
                "first, or revert a move.",
                hint="Let the run keep the level at steady.",
            )

    def set_setting(
        self, key: str, value: str, *, server: str | None = None, is_restored: bool = False
    ) -> None:
        """Add the step that changes a setting; what it is worth is checked.

        Args:
            key: Upstream key, or its name in a snapshot.
            value: As a person writes it.
            server: For a setting of replica servers the registered name of one; ``None`` for all.
            is_restored: Restored when the run ends.
        Raises:
            InputError: The setting does not take the value, or not at that server.
            UnknownNameError: There is no such setting or server.
        """
        one = changeable(key)
        wanted = desired_value(one, value)
        if one.whose == "meta":
            if server is not None:
                raise InputError(
                    f"{one.key} is a setting of the leading meta server, not of {server}.",
                    hint="Omit the node.",
                )
            place = LEADER
        else:
            place = EVERY_NODE if server is None else self.state.node(server).name
        before = self._set.get((one.key, place), value_before(one, self.facts, server))
        is_limited = self._set.get((FLOW_CONTROL, LEADER)) == "true"
        for danger in dangers(one, wanted, self.facts):
            if danger.code == "not_consulted" and is_limited:
                continue
            severity: DiagnosticSeverity = "error" if danger.weight == "refused" else "warning"
            self.note(severity, danger.code, danger.sentence, subject=one.key, hint=danger.hint)
        self._set[one.key, place] = wanted
        self.steps.append(
            SetServerSetting(
                key=one.key,
                value=wanted,
                server=place,
                how=one.setting.how,
                before=before,
                is_restored=is_restored,
                reason=self.terms.reason,
            )
        )

    def move(self, gpid: str, move: Move, source: str, target: str) -> None:
        """Add a move or a copy of a replica; one that is refused is reported instead."""
        try:
            config = self._whole(gpid)
            proposal = propose_move(
                self.state.proposal_context(), config, MOVE_KINDS[move], source, target
            )
        except OpsError as exc:
            self.refuse(exc, gpid)
            return
        size_mb = 0.0 if move == "move_pri" else self.state.size_mb(config)
        self.steps.append(
            MoveReplica(
                partition=self.state.partition(config),
                move=move,
                source=source,
                target=target,
                size_mb=size_mb,
                reason=self.terms.reason,
            )
        )
        self.state.advance(config, proposal.actions)

    def change(self, gpid: str, change: Change, node: str) -> None:
        """Add a single change of a partition; one that is refused is reported instead."""
        try:
            config = self._whole(gpid)
            proposal = self.changed(config, change, node)
        except OpsError as exc:
            self.refuse(exc, gpid)
            return
        self.steps.append(
            ChangeReplica(
                partition=self.state.partition(config),
                change=change,
                node=node,
                reason=self.terms.reason,
            )
        )
        self.state.advance(config, proposal.actions)

    def changed(self, config: PartitionConfig, change: Change, node: str) -> Proposal:
        """Return the proposal of a single change.

        Raises:
            GuardRefusedError: It is not safe.
        """
        return propose_change(self.state.proposal_context(), config, ConfigType[change], node)

    def check_table(self, config: PartitionConfig) -> None:
        """Keep to what the configuration excludes.

        Raises:
            GuardRefusedError: The partition's table is excluded.
        """
        table = self.state.table(config)
        if any(fnmatchcase(table, pattern) for pattern in self.terms.exclusions):
            raise GuardRefusedError(
                f"Table {table} is excluded from every plan by Trimtab's configuration.",
                hint="Remove it from `exclusions` first.",
            )

    def append(self, step: PegasusStep) -> None:
        """Add a step whose parts were checked one by one."""
        self.steps.append(cast("Step", structs.replace(step, reason=self.terms.reason)))

    # -- the end --------------------------------------------------------------------------------

    def seal(self) -> Plan:
        """Return the plan."""
        _check_room(self)
        diagnostics = in_order(self._found)
        is_errored = any(item.severity == "error" for item in diagnostics)
        manifest = self.facts.snapshot.manifest
        policy = self.facts.snapshot.settings.get("balance_cluster")
        return sealed(
            Plan(
                cluster=manifest.cluster,
                snapshot_id=self.facts.snapshot.snapshot_id,
                taken_at=manifest.taken_at,
                created_at=self.terms.now,
                expires_at=self.terms.now + timedelta(seconds=self.terms.lifetime_s),
                strategy=PolicyRef(
                    name="cluster" if policy == "true" else "app",
                    release=manifest.release or "unknown",
                ),
                steps=tuple(self.steps),
                expected=Expected(
                    nodes=self.state.expected_nodes(), copied_mb=self.state.copied_mb
                ),
                diagnostics=diagnostics,
                reason=self.terms.reason,
                complete=not self._left_out and bool(self.steps),
                applyable=bool(self.steps) and not is_errored,
                errored=is_errored,
                undoes=self.terms.undoes,
                derived_from=self.terms.derived_from,
            )
        )

    def _whole(self, gpid: str) -> PartitionConfig:
        config = self.state.config(gpid)
        self.check_table(config)
        return config

    def _check_reading(self) -> None:
        if not self.facts.has_all_partitions:
            self.note(
                "warning",
                "incomplete_snapshot",
                "Not all partitions were read: counts and choices exclude the missing ones.",
                hint="See the problems of the snapshot.",
            )


def _check_room(draft: Draft) -> None:
    """Add what the copies of a plan need: disk space and time.

    A copy is made before the old replica goes, and the old one is deleted only at lively and much
    later; so nothing that leaves a node counts as free space.
    """
    state = draft.state
    if not state.received_mb:
        return
    disks: dict[str, list[tuple[int, int]]] = {}
    for row in draft.facts.rows("disks"):
        disks.setdefault(row["node"], []).append((row["available_mb"], row["capacity_mb"]))
    for node, received_mb in sorted(state.received_mb.items()):
        _check_node(draft, node, received_mb, disks.get(node))
    _check_single(draft, {node: max(one[0] for one in listed) for node, listed in disks.items()})
    _note_time(draft, min(map(len, disks.values()), default=1))


def _check_node(
    draft: Draft, node: str, received_mb: float | None, disks: list[tuple[int, int]] | None
) -> None:
    if disks is None:
        sentence = f"The free space of {node} is unknown: it reported no disks."
        draft.note("warning", "room_unknown", sentence, subject=node)
        return
    if received_mb is None:
        sentence = f"The amount that {node} receives is unknown: the size of a replica is unknown."
        draft.note("warning", "room_unknown", sentence, subject=node)
        return
    free_mb, capacity_mb = (sum(values) for values in zip(*disks, strict=True))
    what = f"{node} receives {format_mb(received_mb)} and has {format_mb(free_mb)} free"
    if received_mb > free_mb:
        draft.note(
            "error",
            "no_room",
            f"{what}; a copy is made before the old replica is deleted.",
            subject=node,
            hint="Choose another node, or free space first.",
        )
    elif free_mb - received_mb < MIN_FREE_SHARE * capacity_mb:
        rest = f"{(free_mb - received_mb) / capacity_mb:.0%}" if capacity_mb else "nothing"
        sentence = f"{what}: its disks would have {rest} left."
        draft.note("warning", "little_room", sentence, subject=node)


def _check_single(draft: Draft, largest_mb: dict[str, int]) -> None:
    """A replica is on one disk and must fit there."""
    for step in draft.steps:
        size_mb = step.copied_mb if isinstance(step, PegasusStep) else None
        if size_mb and step.destination in largest_mb:
            free_mb = largest_mb[step.destination]
            if size_mb > free_mb:
                sentence = (
                    f"{step.subject} has {format_mb(size_mb)}; the max free space of a disk of "
                    f"{step.destination} is {format_mb(free_mb)}."
                )
                hint = "Choose another node."
                draft.note("error", "no_room", sentence, subject=step.subject, hint=hint)


def _note_time(draft: Draft, disks: int) -> None:
    known = [size for size in draft.state.received_mb.values() if size is not None]
    total_mb, nodes = sum(known), pluralize(len(draft.state.received_mb), "node")
    unknown = len(draft.state.received_mb) - len(known)
    about = f"{format_mb(total_mb)}{' or more' if unknown else ''} is copied onto {nodes}"
    rate = slower(draft.terms.copy_rate, _slowest_rate(draft))
    if rate is None:
        sentence = f"{about}; the duration is unknown: no limit is set, and no copy was measured."
    else:
        sent: Counter[str] = Counter()
        largest_mb = 0.0
        for step in draft.steps:
            if isinstance(step, ProposalStep) and step.copied_mb:
                largest_mb = max(largest_mb, step.copied_mb)
                for partition in step.proposed:  # a learner learns from the primary
                    sent[partition.primary or ""] += round(step.copied_mb)
        took = copy_time(
            total_mb,
            node_mb=[*known, *sent.values()],
            largest_mb=largest_mb,
            rate_mb_per_s=rate.mb_per_s,
            disks=disks,
        )
        # the guardian repairs many partitions at once; the steps of a run come one after the other
        own = (step for step in draft.steps if isinstance(step, PegasusStep))
        is_repair = any(step.removed_replicas for step in own)
        words_of = took.describe if is_repair else took.in_turn
        took_words = words_of(is_limit=rate.is_limit)
        sentence = f"{about}: {took_words} at {rate.describe()}."
    draft.note("info", "copies", sentence)


def _slowest_rate(draft: Draft) -> float | None:
    """MB/s that a disk may receive while the plan runs; ``None`` if unlimited or unknown."""
    for step in draft.setting_steps:
        if step.key == COPY_RATE and step.server == EVERY_NODE:
            return float(step.value) or None
    rates = [row["copy_rate_mb_per_s"] for row in draft.facts.rows("nodes") if row["is_alive"]]
    return min(rates) if rates and all(rates) else None


class DraftedCluster:
    """The cluster after the steps of the draft.

    Args:
        facts: The cluster as it was read.
    Attributes:
        level: The effective level at this point; ``None`` if unknown.
        received_mb: By node: what was copied onto it; ``None`` if unknown for some copy.
        predicted: Partitions with the nodes that the guardian is only expected to have chosen.
    """

    def __init__(self, facts: PegasusFacts) -> None:
        self.facts = facts
        self.level = facts.effective_level
        self.received_mb: dict[str, float | None] = {}
        self.predicted: set[tuple[str, str]] = set()
        self._configs = {
            config.gpid: config
            for app_id, table in facts.partitions.items()
            if app_id in facts.tables
            for config in table
        }
        columns = facts.columns
        led, held = columns.counts(primaries_only=True), columns.counts(primaries_only=False)
        pairs = zip(columns.nodes, led.sum(axis=0).tolist(), strict=True)
        self._led_before = {node: int(count) for node, count in pairs}
        pairs = zip(columns.nodes, held.sum(axis=0).tolist(), strict=True)
        self._held_before = {node: int(count) for node, count in pairs}
        self.primaries = Counter(self._led_before)
        self.replicas = Counter(self._held_before)
        self._of_table: dict[int, Counter[str]] = {}

    # -- looking --------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> dict[str, NodeEntry]:
        """The nodes by registered name."""
        return {node.name: node for node in self.facts.nodes}

    @cached_property
    def alive(self) -> list[str]:
        """Living nodes, by host and port."""
        return sorted((one.name for one in self.facts.nodes if one.is_alive), key=parse_node)

    def node(self, name: str) -> NodeEntry:
        """Return a node.

        Raises:
            UnknownNameError: None is registered under that name; the hint has near ones.
        """
        if name not in self.nodes:
            by_address = [one.name for one in self.facts.nodes if one.address == name]
            if by_address:
                raise InputError(
                    f"{name} is an address, not a registered name.",
                    hint=f"It is registered as {by_address[0]}.",
                )
            raise UnknownNameError.of("node", name, sorted(self.nodes))
        return self.nodes[name]

    def config(self, gpid: str) -> PartitionConfig:
        """Return a partition as the steps so far leave it.

        Raises:
            UnknownNameError: There is none, or its table was not read.
        """
        if gpid not in self._configs:
            raise UnknownNameError.of("partition", gpid, self._near(gpid))
        return self._configs[gpid]

    def table(self, config: PartitionConfig) -> str:
        """Return the name of a partition's table."""
        return self.facts.tables[config.app_id].name

    def partition(self, config: PartitionConfig) -> Partition:
        """Return it in the form that steps keep."""
        return Partition.of(config, self.table(config))

    def led_by(self, node: str) -> list[PartitionConfig]:
        """Return the partitions that a node is the primary of, in gpid order."""
        return self._where(lambda config: config.primary == node)

    def followed_by(self, node: str) -> list[PartitionConfig]:
        """Return the partitions that a node keeps a secondary of, in gpid order."""
        return self._where(lambda config: node in config.secondaries)

    @property
    def unhealthy(self) -> list[PartitionConfig]:
        """Return the partitions that the guardian counts as unhealthy, in gpid order."""
        return self._where(
            lambda one: (
                (one.primary is None or one.replica_count != one.max_replica_count)
                and not one.is_child
            )
        )

    @property
    def children(self) -> list[PartitionConfig]:
        """Return the children of partition splits that have not registered, in gpid order."""
        return self._where(lambda one: one.is_child)

    def proposal_context(self) -> ProposalContext:
        """Return the context of proposal checks; an unknown level counts as steady."""
        return ProposalContext(nodes=self.nodes, level=self.level or FunctionLevel.STEADY)

    def size_mb(self, config: PartitionConfig) -> float | None:
        """Return the copy size of a replica of the partition, or ``None`` if unknown."""
        return self._sizes.get((config.app_id, config.index))

    def level_after(self, stored: FunctionLevel) -> FunctionLevel:
        """Return the effective level if that one were stored."""
        settings = self.facts.snapshot.settings
        least, share = (
            settings.get("min_live_node_count_for_unfreeze"),
            settings.get(LIVE_PERCENTAGE),
        )
        alive = sum(node.is_alive for node in self.facts.nodes)
        return effective_level(
            stored,
            alive_count=alive,
            dead_count=len(self.facts.nodes) - alive,
            min_live_node_count=_number(least, 3),
            live_percentage=_number(share, 65),
        )

    # -- going on -------------------------------------------------------------------------------

    def advance(self, config: PartitionConfig, actions: Sequence[ProposalAction]) -> None:
        """Take the actions of a proposal for done."""
        after = projected_configs(config, actions)[-1]
        for action in actions:
            if action.type in _LEARNING:
                self.receive(action.node, self.size_mb(config))
        self._put(config, after)

    def refill(self, config: PartitionConfig, excluded: Collection[str]) -> str | None:
        """Let the guardian replace a replica that is missing; return who takes it.

        It takes the node with fewest replicas of the table, of equal ones with fewest in all; of
        those equal too the first in an unreported order: here by name.

        Source:
            ``partition_guardian::on_missing_secondary`` with ``less_partitions``.
        """
        able = [node for node in self.alive if node not in config.members and node not in excluded]
        if not able or config.primary is None:
            return None
        held = self._table_counts(config.app_id)
        node = min(able, key=lambda name: (held[name], self.replicas[name]))
        learn = ProposalAction(ConfigType.ADD_SECONDARY, config.primary, node)
        self.advance(config, [learn])
        self.predicted.add((config.gpid, node))
        return node

    def come_back(self, config: PartitionConfig, node: str) -> None:
        """Let a node that was dropped take up its replica again; what it lacks is not known."""
        if config.primary is not None:
            learn = ProposalAction(ConfigType.ADD_SECONDARY, config.primary, node)
            self._put(config, projected_configs(config, [learn])[-1])

    def receive(self, node: str, size_mb: float | None) -> None:
        """Book what is copied onto a node."""
        so_far = self.received_mb.get(node, 0.0)
        is_known = so_far is not None and size_mb is not None
        self.received_mb[node] = (so_far or 0.0) + (size_mb or 0.0) if is_known else None

    def expected_nodes(self) -> tuple[NodeExpectation, ...]:
        """Return the nodes that lose or gain a role or data, by name."""
        touched = [
            name
            for name in sorted(self._led_before, key=parse_node)
            if self.primaries[name] != self._led_before[name]
            or self.replicas[name] != self._held_before[name]
            or name in self.received_mb
        ]
        return tuple(
            NodeExpectation(
                node=name,
                primaries_before=self._led_before[name],
                primaries_after=self.primaries[name],
                replicas_before=self._held_before[name],
                replicas_after=self.replicas[name],
                received_mb=self.received_mb.get(name, 0.0),
            )
            for name in touched
        )

    @property
    def copied_mb(self) -> float | None:
        """Total amount copied, or ``None`` if unknown."""
        known = [size for size in self.received_mb.values() if size is not None]
        return sum(known, 0.0) if len(known) == len(self.received_mb) else None

    # -- inside ---------------------------------------------------------------------------------

    @cached_property
    def _sizes(self) -> dict[tuple[int, int], float]:
        """The primary's size where known, else the largest known of the others."""
        columns = self.facts.columns
        sizes = columns.measures["size_mb"]
        known = ~np.isnan(sizes)
        tables = columns.app_ids[columns.rep_table[known]].tolist()
        places = columns.rep_index[known].tolist()
        leads, values = columns.rep_is_primary[known].tolist(), sizes[known].tolist()
        found: dict[tuple[int, int], tuple[bool, float]] = {}
        for app_id, index, is_primary, value in zip(tables, places, leads, values, strict=True):
            key = (app_id, index)
            found[key] = max(found.get(key, (False, 0.0)), (is_primary, value))
        return {key: size for key, (_, size) in found.items()}

    def _table_counts(self, app_id: int) -> Counter[str]:
        if app_id not in self._of_table:
            configs = (self._configs[one.gpid] for one in self.facts.partitions[app_id])
            held = Counter(name for config in configs for name in config.members)
            self._of_table[app_id] = held
        return self._of_table[app_id]

    def _put(self, before: PartitionConfig, after: PartitionConfig) -> None:
        gone, come = set(before.members), set(after.members)
        self.replicas.subtract(gone - come)
        self.replicas.update(come - gone)
        if before.app_id in self._of_table:
            self._of_table[before.app_id].subtract(gone - come)
            self._of_table[before.app_id].update(come - gone)
        if before.primary is not None:
            self.primaries[before.primary] -= 1
        if after.primary is not None:
            self.primaries[after.primary] += 1
        self._configs[after.gpid] = after

    def _where(self, is_wanted: _Test) -> list[PartitionConfig]:
        return [config for config in self._configs.values() if is_wanted(config)]

    def _near(self, gpid: str) -> Iterable[str]:
        app_id = gpid.partition(".")[0]
        return [one for one in self._configs if one.partition(".")[0] == app_id] or self._configs


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and is_whole(text) else default
