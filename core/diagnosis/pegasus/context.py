"""What every pattern reads of a cluster, and how a fix is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from core.diagnosis.model import MIN_GAIN_RATIO, Effect
from core.diagnosis.pegasus.repair import Repair, unhealthy_rows, without_nodes
from core.diagnosis.pegasus.trials import (
    BalancerInput,
    Change,
    Measure,
    TimeUpError,
    Trial,
    Trials,
    deviation_of_node,
    deviation_of_table,
    deviation_without,
    outcome_of,
)
from core.errors import UnknownNameError
from core.pegasus.answers import TableStatus
from core.pegasus.balance.model import BalanceOptions
from core.pegasus.ids import parse_gpid
from core.pegasus.levels import FunctionLevel, effective_level
from core.pegasus.outlook import Outlook, outlooks
from core.pegasus.partition import PartitionConfig
from core.pegasus.persistence import Copy, parse_copies, unserved_since
from core.pegasus.server_settings import ADD_LIMIT, FLOW_CONTROL
from core.pegasus.snapshot import DISK_MIN_AVAILABLE_RATIO, PegasusFacts
from core.pegasus.steps.level import LEVEL_KEY
from core.pegasus.view import NO_NODE, ClusterView, Ints
from core.snapshot.pegasus import PegasusSnapshot
from core.units import is_whole, pluralize

_STAGING: Final = (TableStatus.CREATING, TableStatus.DROPPING)
_MAX_LOOKED_AT: Final = 50
"""Unhealthy partitions of which the guardian's next cure is computed."""

_MIN_MISPLACED: Final = 2
"""Replicas beyond the even share on one node, fewer are no cause."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Effect of a fix, and its scope.

    Attributes:
        effect: The outcome without it and with it.
        table: Name of the table whose deviation it is; empty: of all tables together.
    """

    effect: Effect
    table: str = ""

    @property
    def scope(self) -> str:
        """``of table t8`` with a blank before it, or nothing."""
        return f" of table {self.table}" if self.table else ""


@dataclass(frozen=True, eq=False)
class PegasusDiagnosisContext:
    """One cluster, read once.

    Attributes:
        facts: The snapshot.
        earlier: Older snapshots of the cluster, the newest last.
        node: The node that is asked about; ``None`` for the cluster.
        partition: The partition that is asked about, ``app.index``; ``None`` for all.
        budget_s: Seconds for trials.
    """

    facts: PegasusFacts
    earlier: Sequence[PegasusSnapshot] = ()
    node: str | None = None
    partition: str | None = None
    budget_s: float = 2.0
    notes: list[str] = field(default_factory=list)
    _parts: list[tuple[Effect, Effect]] = field(default_factory=list)

    # -- the cluster ----------------------------------------------------------------------------

    @property
    def settings(self) -> dict[str, str]:
        """Settings that the leading meta server reported, by name."""
        return self.facts.snapshot.settings

    @cached_property
    def alive(self) -> tuple[str, ...]:
        """Names of the living nodes."""
        return tuple(node.name for node in self.facts.nodes if node.is_alive)

    @cached_property
    def dead(self) -> tuple[str, ...]:
        """Names of the dead nodes."""
        return tuple(node.name for node in self.facts.nodes if not node.is_alive)

    @cached_property
    def view(self) -> ClusterView:
        """The state on living nodes; a disk that takes no replica is none to choose.

        Raises:
            IncompleteSnapshotError: Partitions of some table were not read, or there are no nodes.
        """
        whole = self.facts.view()
        gone = np.array([name not in self.alive for name in whole.nodes], dtype=np.bool_)
        view = without_nodes(whole, gone)
        full = {(node, view.disks.index(disk)) for node, disk in self.full_disks}
        disks = tuple(
            tuple(one for one in listed if (name, one) not in full) or listed
            for name, listed in zip(view.nodes, view.node_disks, strict=True)
        )
        return replace(view, node_disks=disks)

    @cached_property
    def row(self) -> int | None:
        """The row of the partition that is asked about.

        Raises:
            InputError: The name is none of a partition.
            UnknownNameError: There is none of that name.
        """
        if self.partition is None:
            return None
        app_id, index = parse_gpid(self.partition)
        view = self.view
        table = np.flatnonzero(view.app_ids == app_id)
        if table.size and 0 <= index < view.partition_counts[table[0]]:
            return int(view.first_rows[table[0]]) + index
        if table.size:
            count = int(view.partition_counts[table[0]])
            raise UnknownNameError(
                f"Partition {self.partition} does not exist.",
                hint=f"Table {app_id} ({view.app_names[table[0]]}) has {app_id}.0 to "
                f"{app_id}.{count - 1}.",
                kind="partition",
                name=self.partition,
            )
        known = [view.gpid_text(int(row)) for row in view.first_rows[:-1]]
        raise UnknownNameError.of("partition", self.partition, known)

    @cached_property
    def full_disks(self) -> frozenset[tuple[str, str]]:
        """Node and tag of the disks that take no new replica."""
        rows, limits = self.facts.rows("disks"), self.facts.full_disk_ratios
        short = {
            (row["node"], row["disk"])
            for row in rows
            if row["capacity_mb"] > 0
            and row["available_mb"]
            < limits.get(row["node"], (DISK_MIN_AVAILABLE_RATIO, False))[0] * row["capacity_mb"]
        }
        return frozenset(short)

    @cached_property
    def full_nodes(self) -> tuple[str, ...]:
        """Living nodes all of whose disks are full."""
        disks: dict[str, list[str]] = {}
        for row in self.facts.rows("disks"):
            disks.setdefault(row["node"], []).append(row["disk"])
        return tuple(
            name
            for name in self.alive
            if name in disks and all((name, disk) in self.full_disks for disk in disks[name])
        )

    @cached_property
    def options(self) -> BalanceOptions:
        """The switches of the balancer."""
        options, assumed = self.facts.options()
        if assumed:
            self.notes.append(f"Not reported, defaults assumed: {', '.join(assumed)}.")
        return options

    @cached_property
    def level(self) -> FunctionLevel:
        """The effective level; where it is unknown, as the stored one and the nodes make it."""
        if self.facts.effective_level is not None:
            return self.facts.effective_level
        stored = self.facts.stored_level
        if stored is None:
            self.notes.append("The level is unknown; level lively is assumed.")
            return FunctionLevel.LIVELY
        return effective_level(stored, alive_count=len(self.alive), dead_count=len(self.dead))

    @cached_property
    def staging_tables(self) -> tuple[str, ...]:
        """Whether the meta server lacks the disk of some replica."""
        words = {status.name.lower() for status in _STAGING}
        return tuple(row["name"] for row in self.facts.rows("tables") if row["status"] in words)

    @property
    def is_uninformed(self) -> bool:
        """Whether the meta server lacks the disk of some replica."""
        counts = self.facts.operations
        is_waiting = self.unhealthy.size or self.view.children
        return counts is not None and counts.total < 0 and not is_waiting

    # -- unhealthy partitions -------------------------------------------------------------------

    @cached_property
    def unhealthy(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Rows of the view that the guardian does not call healthy."""
        return unhealthy_rows(self.view)

    @cached_property
    def outlooks(self) -> list[Outlook]:
        """Next repairs of the first unhealthy partitions."""
        columns = self.facts.columns
        place = {
            (int(columns.app_ids[table]), index): at
            for at, (table, index) in enumerate(
                zip(columns.part_table.tolist(), columns.part_index.tolist(), strict=True)
            )
        }
        rows = [self.view.gpid(row) for row in self.unhealthy[:_MAX_LOOKED_AT].tolist()]
        return outlooks(self.facts, [place[gpid] for gpid in rows])

    @cached_property
    def _without_replica(self) -> dict[int, str]:
        """Row of every partition without any replica to the node that would lead it."""
        known = {(one.config.app_id, one.config.index): one for one in self.outlooks}
        found = {}
        empty = self.unhealthy[(self.view.members[self.unhealthy] < 0).all(axis=1)]
        for row in empty.tolist():
            one = known.get(self.view.gpid(row))
            last = self.config_of(row).last_drops[-1:]
            chosen = None
            if one is not None and one.cure.action is not None:
                chosen = one.cure.action.node
            elif one is not None and one.choice is not None:
                chosen = one.choice.node
            candidates = [name for name in (chosen, *last, *self.alive[:1]) if name is not None]
            if candidates:
                found[row] = candidates[0]
        return found

    @cached_property
    def lost(self) -> dict[int, str]:
        """Row of every partition that lost all replicas to the node that would lead it again."""
        empty = self._without_replica.items()
        return {row: name for row, name in empty if self.config_of(row).last_drops}

    def config_of(self, row: int) -> PartitionConfig:
        """Return the stored configuration of a partition of the view."""
        app_id, index = self.view.gpid(row)
        return self._configs[app_id, index]

    @cached_property
    def _configs(self) -> dict[tuple[int, int], PartitionConfig]:
        parts = self.facts.partitions
        return {(app_id, one.index): one for app_id, listed in parts.items() for one in listed}

    def copies_of(self, row: int) -> tuple[Copy, ...] | None:
        """Return the copies of a partition without a primary, or ``None`` if not read."""
        return parse_copies(self._copies.get(self.view.gpid(row)))

    @cached_property
    def _copies(self) -> dict[tuple[int, int], str]:
        table = self.facts.snapshot.tables["partitions"]
        rows = table.filter(table["copies"].is_valid()).select(["app_id", "index", "copies"])
        return {(row["app_id"], row["index"]): row["copies"] for row in rows.to_pylist()}

    @cached_property
    def headless(self) -> int:
        """Partitions without a primary of which a secondary lives."""
        members = self.view.members[self.unhealthy]
        is_headless = (members[:, 0] == NO_NODE) & (members[:, 1:] != NO_NODE).any(axis=1)
        return int(is_headless.sum())

    @cached_property
    def unserved_since(self) -> float | None:
        """Seconds that one of these has not changed; ``None`` if no earlier snapshot shows it."""
        since = unserved_since(self.facts.snapshot, self.earlier)
        if not since:
            return None
        return (self.facts.snapshot.manifest.taken_at - min(since.values())).total_seconds()

    @property
    def black_list(self) -> frozenset[str]:
        """Nodes that never get a new secondary."""
        listed = self.settings.get("assign_secondary_black_list", "").split(",")
        return frozenset(name.strip() for name in listed) - {""}

    @property
    def adds_nothing(self) -> bool:
        """Whether flow control blocks every new secondary."""
        limit = self.settings.get(ADD_LIMIT.removeprefix("meta.lb."), "")
        is_on = self.settings.get(FLOW_CONTROL.removeprefix("meta.lb."), "") == "true"
        return is_on and is_whole(limit) and not int(limit)

    @property
    def lacking_nodes(self) -> int:
        """Nodes that have to join before every table can have all of its replicas."""
        wanted = self.view.max_replica_counts[self.view.partition_counts > 0]
        return max(int(wanted.max(initial=0)) - len(self.alive), 0)

    @cached_property
    def own_repair(self) -> Repair:
        """Repairs that the guardian makes without changes."""
        fresh = {row: name for row, name in self._without_replica.items() if row not in self.lost}
        return Repair(
            adds=not self.adds_nothing,
            excluded=self.black_list,
            refusing=frozenset(self.full_nodes),
            returns=fresh,
        )

    @cached_property
    def full_repair(self) -> Repair:
        """Repairs that make every partition healthy."""
        return Repair(returns=self._without_replica, more_nodes=self.lacking_nodes)

    # -- trials ---------------------------------------------------------------------------------

    @cached_property
    def trials(self) -> Trials:
        """Simulations of changes."""
        balancer_input = BalancerInput(
            view=self.view,
            options=self.options,
            level=self.level,
            is_ready=not (self.staging_tables or self.view.children or self.is_uninformed),
            closed=frozenset(self.full_nodes),
        )
        trials = Trials(balancer_input, self.budget_s)
        opened = self._opened(balancer_input)
        trials.patient.add(opened.key)
        if balancer_input.options.policy == "cluster":  # its circles may take all of the time
            trials.patient.add(opened.with_options(policy="app").key)
        return trials

    @cached_property
    def opened(self) -> Change:
        """State in which the balancer runs: level lively, partitions healthy, no table on hold."""
        return self._opened(self.trials.balancer_input)

    def _opened(self, balancer_input: BalancerInput) -> Change:
        return Change(
            level=FunctionLevel.LIVELY if self.level < FunctionLevel.LIVELY else None,
            repair=self.full_repair if self.unhealthy.size else None,
            is_ready=not balancer_input.is_ready,
        )

    @property
    def blockers(self) -> tuple[str, ...]:
        """Conditions that each block the balancer, as text."""
        found = []
        if self.level < FunctionLevel.LIVELY:
            found.append(f"level {self.level.word}")
        if self.unhealthy.size:
            found.append(pluralize(len(self.unhealthy), "unhealthy partition"))
        if self.staging_tables:
            found.append(f"table {self.staging_tables[0]} being created or dropped")
        if self.view.children:
            found.append(f"table {self.view.splitting_tables[0]} being split")
        if self.is_uninformed:
            found.append("disks unknown to the meta server")
        return tuple(found)

    @property
    def prerequisites(self) -> dict[str, str]:
        """Prerequisites of any other setting, ready for a plan."""
        return {LEVEL_KEY: "lively"} if self.level < FunctionLevel.LIVELY else {}

    @cached_property
    def measure(self) -> Measure:
        """The deviation that is judged: of all nodes, or of the one that is asked about."""
        return self.over_nodes if self.node is None else deviation_of_node(self.node)

    @cached_property
    def over_nodes(self) -> Measure:
        """The deviation over the nodes that are to carry load."""
        return deviation_without(self.facts.columns.set_aside)

    @property
    def baseline(self) -> Trial:
        """The cluster without changes."""
        return self.trials.trial(Change())

    def proven(self, before: Change, after: Change, *, adds_places: bool = False) -> Proof | None:
        """Return the proven improvement of a change, or ``None`` if none or out of time.

        Where the nodes as a whole end no more even, the table that gains most is judged by itself.

        Args:
            before: The change without the fix.
            after: The same with it.
            adds_places: It makes nodes or partitions: also an even end may gain.
        """
        try:
            if not adds_places and self._is_fine(self.trials.trial(before)):
                return None
            effect = self.trials.effect(before, after, self.measure)
        except TimeUpError:
            return None
        if not self._concerns(self.trials.trial(before), self.trials.trial(after)):
            return None
        if effect.is_better and not _is_noise(effect):
            return Proof(effect=effect)
        if effect.is_harmful or self.node is not None:
            return None
        return self._by_table(self.trials.trial(before), self.trials.trial(after))

    def _is_fine(self, trial: Trial) -> bool:
        """Whether an outcome cannot be improved, so that no change has to be simulated."""
        end = trial.end
        if trial.missing or not trial.converges or not end.nodes:
            return False
        if int(misplaced(end).max(initial=0)) >= _MIN_MISPLACED:
            return False
        totals = (
            counts.sum(axis=0)[None, :] for counts in (end.replica_counts, end.primary_counts)
        )
        is_even = max(int(_beyond(one).max(initial=0)) for one in totals) < _MIN_MISPLACED
        return is_even or (self.measure(end) or 0.0) < MIN_GAIN_RATIO

    def necessary(self, without: Repair) -> Proof | None:
        """Return the marginal effect of one fix, given all other prerequisites."""
        return self.repaired_by(without, self.full_repair)

    def repaired_by(self, before: Repair | None, after: Repair) -> Proof | None:
        """Return the effect of a repair, including the balance that follows it.

        Where that balance does not end well, for another cause, the repair alone is judged.
        """
        is_low = self.level <= FunctionLevel.FREEZED
        for level in (FunctionLevel.STEADY,) if is_low else (None, FunctionLevel.STEADY):
            proof = self.proven(
                Change(level=level, repair=before), Change(level=level, repair=after)
            )
            if proof is not None:
                return proof
        return None

    def effect_of_fix(self, proof: Proof, after: Change) -> Effect:
        """Return the effect of a fix that also sets the level, from the unchanged cluster.

        What it adds to a higher level alone is its proof; where more than the level stops the
        balancer, that is the effect.
        """
        if self.level >= FunctionLevel.LIVELY or len(self.blockers) > 1:
            return proof.effect
        measure = self.measure
        if proof.table:
            measure = deviation_of_table(self._app_ids[proof.table])
        effect = self.trials.effect(Change(), after, measure)
        if not effect.is_better:
            return proof.effect
        self._parts.append((effect, proof.effect))
        return effect

    def own_part(self, effect: Effect) -> Effect:
        """Return the effect that a cause adds to a higher level; causes are ranked by it."""
        return next((part for whole, part in self._parts if whole is effect), effect)

    @cached_property
    def _app_ids(self) -> dict[str, int]:
        return dict(zip(self.view.app_names, self.view.app_ids.tolist(), strict=True))

    def _concerns(self, before: Trial, after: Trial) -> bool:
        """Whether a change affects the requested partition."""
        if self.row is None:
            return True
        if len(before.moved_in) != len(after.moved_in):
            return False  # after a split it is another one
        if self.row in self.unhealthy:
            was_missing = self.row in unhealthy_rows(before.start)
            return was_missing and self.row not in unhealthy_rows(after.start)
        return bool(after.moved_in[self.row]) and not before.moved_in[self.row]

    def _by_table(self, before: Trial, after: Trial) -> Proof | None:
        if len(before.end.app_ids) != len(after.end.app_ids) or not len(after.end.nodes):
            return None
        gains = misplaced(before.end) - misplaced(after.end)
        if not gains.size or gains.max() < _MIN_MISPLACED:
            return None
        at = int(gains.argmax())
        measure = deviation_of_table(int(before.end.app_ids[at]))
        effect = Effect(before=outcome_of(before, measure), after=outcome_of(after, measure))
        if not effect.is_better or _is_noise(effect):
            return None
        return Proof(effect=effect, table=before.end.app_names[at])


def _is_noise(effect: Effect) -> bool:
    """Some moves back more or less follow from ties: they are no gain by themselves."""
    is_stopped = effect.after.converges and not effect.before.converges
    return not (effect.is_more_complete or effect.is_more_even or is_stopped)


def misplaced(view: ClusterView) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the surplus replicas or primaries of the worst node, per table.

    Returns:
        Shape ``(n_tables,)``: above ceil(count / nodes) or below floor(count / nodes).
    """
    if not len(view.nodes):
        return np.zeros(view.table_count, dtype=np.int64)
    return np.maximum(_beyond(view.replica_counts), _beyond(view.primary_counts))


def _beyond(counts: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the surplus above ceil or below floor of the mean of the worst node, per row."""
    sums = counts.sum(axis=1, dtype=np.int64)
    low, high = sums // counts.shape[1], -(-sums // counts.shape[1])
    above, below = counts.max(axis=1) - high, low - counts.min(axis=1)
    beyond: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = np.maximum(above, below)
    return np.maximum(beyond, 0)
