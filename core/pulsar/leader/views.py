"""The load of a cluster as its leader has it, made of followed znodes instead of a snapshot.

What hangs on names, policies and settings alone is laid out once and used again until one of these
changes; a round then costs a few passes over arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.ids import is_broker_bound, namespace_of, parse_range
from core.pulsar.bundle_counts import Codes
from core.pulsar.leader.averages import LEADER, LONG, SHORT, BundleAverages
from core.pulsar.load import (
    LONG_SAMPLES,
    SHORT_SAMPLES,
    WEIGHED,
    overload_usage,
    part_left,
    threshold_usage,
    weighted_max_usage,
)
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.snapshot.znodes.namespaces import (
    decode_spaces,
    domains_by_broker,
    namespaces_table,
    policies_table,
)
from core.pulsar.snapshot.znodes.readings import Readings
from core.pulsar.view import LoadView
from core.schemas.pulsar import BROKERS, BUNDLES
from core.snapshot import Manifest, PulsarSnapshot
from core.snapshot.model import TableManifest
from core.snapshot.problems import ProblemLog

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SHARED: Final = (
    *("broker_index", "bundle_index", "namespace_index", "namespace_policy"),
    *("is_primary", "is_secondary", "_roles", "java_order"),
)
"""What a view works out of names and policies only."""

_SHARED_BASIS: Final = ("brokers", "broker_spread")
"""What the basis of a shedding strategy works out of the brokers' names only."""

_NONE_FURTHER: Final = np.zeros((0, 2), np.int64)

_SOURCE: Final = "events"
"""Of the tables: neither read at one instant nor older than the averages in them."""


@dataclass(frozen=True, kw_only=True)
class BrokerFacts:
    """The leader's facts about brokers, in the order of their names.

    Attributes:
        names: Broker ids.
        codes: Code of each in the rows of bundles.
        versions: As reported.
        classes: Load manager class of each.
        persistent: Whether each serves persistent topics.
        non_persistent: Likewise.
        usages: Usage and limit of each of :data:`core.pulsar.load.WEIGHED` in turn,
            ``(n, 2 * resources)``.
        rates: Totals of the report, ``(n, 4)``.
        topics: Of the report.
        bundles: Of the report.
    """

    names: tuple[str, ...]
    codes: Ints
    versions: tuple[str | None, ...]
    classes: tuple[str | None, ...]
    persistent: tuple[bool, ...]
    non_persistent: tuple[bool, ...]
    usages: Floats
    rates: Floats
    topics: Ints
    bundles: Ints

    @property
    def identity(self) -> tuple[object, ...]:
        """Inputs that determine the layout of a view."""
        return self.names, self.versions, self.classes, self.persistent, self.non_persistent

    def usage_table(self) -> pa.Table:
        """Usage and limits as columns of :data:`core.schemas.pulsar.BROKERS`."""
        columns = {}
        for at, name in enumerate(WEIGHED):
            columns[f"{name}_usage"] = self.usages[:, 2 * at]
            columns[f"{name}_limit"] = self.usages[:, 2 * at + 1]
        return pa.table(columns)


class Layout:
    """Names and policies of a cluster, laid out; valid for one set of bundles and brokers.

    Attributes:
        base: A view without numbers.
        order: Row in :class:`BundleAverages` of each bundle of the view.
    """

    def __init__(
        self,
        averages: BundleAverages,
        owner: Codes,
        facts: BrokerFacts,
        *,
        readings: Readings,
        leader: str | None,
        settings: EffectiveSettings,
        cluster: str,
    ) -> None:
        self.facts = facts
        self._is_in = np.zeros(averages.size, np.bool_)
        self.order = _live_rows(averages, owner)
        self._is_in[self.order] = True
        names = [averages.names[row] for row in self.order.tolist()]
        snapshot = _skeleton(
            names,
            facts,
            readings=readings,
            leader=leader,
            cluster=cluster,
        )
        self.settings = settings
        # the names are those that the averages hold: a second copy of each would cost memory
        index = {name: row for row, name in enumerate(names)}
        self.base = replace(
            LoadView.of(snapshot, settings),
            bundles=np.array(names, np.object_),
            shared_index=lambda: index,
        )
        self.base.__dict__["bundle_index"] = index
        self._of_basis: dict[str, Any] = {}

    def has(self, rows: Ints) -> bool:
        """Return whether it has all of these bundles."""
        return bool(self._is_in[rows[rows < self._is_in.size]].all()) and bool(
            (rows < self._is_in.size).all()
        )

    def view(self, facts: BrokerFacts, numbers: Mapping[str, Any]) -> LoadView:
        """Return a view with numbers.

        Args:
            facts: Of the same brokers.
            numbers: Fields of the view that hang on rates and reports.
        """
        made = replace(
            self.base,
            usage_known=np.ones(len(facts.names), np.bool_),
            has_report=np.ones(len(facts.names), np.bool_),
            broker_long_doubt=np.zeros(len(facts.names)),
            broker_topics=facts.topics,
            broker_bundles=facts.bundles,
            **self._loads(facts),
            **numbers,
        )
        return self._sharing(made)

    def redrawn(
        self, view: LoadView, facts: BrokerFacts | None, columns: Mapping[str, Any]
    ) -> LoadView:
        """Return a view of :meth:`view` with other numbers.

        Args:
            view: Of this layout.
            facts: Usage and rates of its brokers; ``None`` to keep them.
            columns: Fields of bundles.
        """
        own = {} if facts is None else self._loads(facts)
        fields = {**own, **columns}
        if "reporter" in columns:
            fields["further_reports"] = _NONE_FURTHER
        return self._sharing(replace(view, **fields))

    def _loads(self, facts: BrokerFacts) -> dict[str, Any]:
        table, settings = facts.usage_table(), self.settings
        return {
            "usage": np.nan_to_num(weighted_max_usage(table, settings)),
            "overload_usage": np.nan_to_num(overload_usage(table, settings)),
            "threshold_usage": np.nan_to_num(threshold_usage(table, settings)),
            "broker_msg_rate": facts.rates[:, 0] + facts.rates[:, 1],
            "broker_throughput": facts.rates[:, 2] + facts.rates[:, 3],
        }

    def _sharing(self, made: LoadView) -> LoadView:
        """Let a view have what hangs on names and policies only."""
        for name in _SHARED:
            if name in self.base.__dict__:
                made.__dict__[name] = self.base.__dict__[name]
        basis = SheddingBasis.of(made)
        for name in _SHARED_BASIS:
            if name in self._of_basis:
                basis.__dict__[name] = self._of_basis[name]
            else:
                self._of_basis[name] = getattr(basis, name)
        return made


def _live_rows(averages: BundleAverages, owner: Codes) -> Ints:
    """Return the rows of bundles that a report or an owner names, by name."""
    size, names = averages.size, averages.names
    rows = np.flatnonzero((averages.named[:size] > 0) | (owner[:size] >= 0)).tolist()
    return np.array(sorted(rows, key=names.__getitem__), np.int64)


def _skeleton(
    bundles: Sequence[str],
    facts: BrokerFacts,
    *,
    readings: Readings,
    leader: str | None,
    cluster: str,
) -> PulsarSnapshot:
    """Return a snapshot of names and policies, all numbers unknown."""
    problems = ProblemLog()
    spaces = decode_spaces(readings, problems)
    domains = domains_by_broker(readings, problems)
    known: dict[str, str] = {}
    namespaces = [known.setdefault(space, space) for space in map(namespace_of, bundles)]
    ranges = [parse_range(name.rpartition("/")[2]) for name in bundles]
    bound = {name: is_broker_bound(name) for name in known}
    tables = {
        "brokers": _table(
            BROKERS,
            len(facts.names),
            broker=facts.names,
            version=facts.versions,
            load_manager=facts.classes,
            is_leader=[name == leader for name in facts.names],
            persistent_topics_enabled=facts.persistent,
            non_persistent_topics_enabled=facts.non_persistent,
            failure_domain=[domains.get(name) for name in facts.names],
        ),
        "bundles": _table(
            BUNDLES,
            len(bundles),
            bundle=bundles,
            namespace=namespaces,
            lower=[low for low, _ in ranges],
            upper=[high for _, high in ranges],
            is_broker_bound=[bound[name] for name in namespaces],
        ),
        "namespaces": namespaces_table({*known, *spaces.named}, spaces),
        "policies": policies_table(readings, spaces, problems),
    }
    versions = [version for version in facts.versions if version]
    manifest = Manifest(
        cluster=cluster,
        taken_at=datetime.fromtimestamp(0, UTC),
        tables={name: TableManifest(source=_SOURCE, rows=0) for name in tables},
        load_manager="modular",
        leader=leader,
        release=max(set(versions), key=versions.count) if versions else None,
    )
    return PulsarSnapshot.build(manifest, tables)


def _table(schema: pa.Schema, rows: int, **columns: Sequence[object]) -> pa.Table:
    return pa.table(
        [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(rows, field.type)
            for field in schema
        ],
        schema=schema,
    )


def current_averages(
    averages: BundleAverages, order: Ints, more: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the leader's short and long averages after more samples of what is reported now.

    Args:
        averages: Up to date.
        order: Rows wanted.
        more: Samples that the leader will take of the present reports.
    Returns:
        Both ``(5, n)``, in the order of the rows of :attr:`BundleAverages.values`.
    """
    found = []
    for term, most in ((SHORT, SHORT_SAMPLES), (LONG, LONG_SAMPLES)):
        values = averages.values[LEADER, term][:, order]
        if more:
            held = averages.samples[LEADER, term, order].astype(np.int64)
            last = np.zeros_like(values)
            last[:4] = averages.stats[:, order]
            values = last + (values - last) * part_left(held, more, most)
        found.append(values)
    return found[0], found[1]
