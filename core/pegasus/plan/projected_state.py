"""A Pegasus cluster along a plan: every partition as the steps so far are expected to leave it.

A step on a partition that an earlier step has changed is made for what that one leaves, so rounds
and batches can build on each other; the executor checks the true state again before each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from core.errors import InputError, UnknownNameError
from core.pegasus.answers import NodeEntry
from core.pegasus.balance.model import ConfigType, ProposalAction
from core.pegasus.ids import parse_node
from core.pegasus.levels import FunctionLevel, effective_level
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import ClusterSight
from core.pegasus.reconfigure import way_of
from core.pegasus.server_settings import LIVE_PERCENTAGE
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.partition import Partition
from core.plan.model import NodeExpectation

_LEARNING: Final = (ConfigType.ADD_SECONDARY, ConfigType.ADD_SECONDARY_FOR_LB)
_Test = Callable[[PartitionConfig], bool]


class Course:
    """The cluster after the steps so far.

    Args:
        facts: The cluster as it was read.
    Attributes:
        level: The effective level at this point; ``None``: unknown.
        received_mb: By node: what was copied onto it; ``None``: of some copy it is unknown.
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
            lambda one: one.primary is None or one.replica_count != one.max_replica_count
        )

    def sight(self) -> ClusterSight:
        """Return what a proposal is checked against; an unknown level is taken for steady."""
        return ClusterSight(nodes=self.nodes, level=self.level or FunctionLevel.STEADY)

    def size_mb(self, config: PartitionConfig) -> float | None:
        """Return what copying a replica of the partition copies; ``None``: unknown."""
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
        after = way_of(config, actions)[-1]
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
            self._put(config, way_of(config, [learn])[-1])

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
        """What is copied in all; ``None``: unknown."""
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
    return int(text) if text is not None and text.isdecimal() else default
