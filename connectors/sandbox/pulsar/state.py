"""Everything the simulated cluster knows, in columns: bundles, their owners, loads and averages.

Pure bookkeeping without any input or output; :mod:`connectors.sandbox.pulsar.engine` writes it to
ZooKeeper and :mod:`connectors.sandbox.pulsar.rest.reads` answers from it.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from connectors.sandbox.pulsar.layout import Layout
from connectors.sandbox.pulsar.options import VERSION
from connectors.sandbox.pulsar.workload import Floats, HostUsage, per_owner
from core.ids import range_text
from core.pulsar.java.maps import concurrent_order, spread_hashes
from core.pulsar.load import LONG_SAMPLES, SHORT_SAMPLES, next_average
from core.pulsar.ring import find_bundle_index

NO_BROKER: Final = -1
Rows = NDArray[np.int64]
Trouble = Literal["hung", "slow", "failing", "garbled", "resetting", "endless"]
"""A web port that accepts and never answers, answers after seconds, answers 500, or nonsense."""


@dataclass(slots=True)
class Broker:
    """One simulated broker.

    Attributes:
        row: Its row in every per-broker column.
        host: Address it listens on, the host part of its id.
        web_port: Web port.
        service_port: Port of the binary protocol; nothing listens there.
        started_ms: Start of its process, ms since the epoch.
        is_up: Whether its process runs.
        is_registered: Whether its node is in ZooKeeper; a crashed broker's stays for a while.
        trouble: What is wrong with its web port, if anything.
        gains: Bundles gained since the last written report.
        losses: Bundles lost since the last written report.
        version: Release that it reports.
    """

    row: int
    host: str
    web_port: int
    service_port: int
    started_ms: int = 0
    is_up: bool = False
    is_registered: bool = False
    trouble: Trouble | None = None
    gains: set[str] = field(default_factory=set)
    losses: set[str] = field(default_factory=set)
    version: str = VERSION

    @property
    def broker_id(self) -> str:
        """``host:webPort``."""
        return f"{self.host}:{self.web_port}"

    @property
    def web_url(self) -> str:
        """``http://host:webPort``."""
        return f"http://{self.broker_id}"

    @property
    def service_url(self) -> str:
        """``pulsar://host:servicePort``."""
        return f"pulsar://{self.host}:{self.service_port}"

    @property
    def heartbeat_bundle(self) -> str:
        """The one bundle of its heartbeat namespace."""
        return f"pulsar/{self.broker_id}/0x00000000_0xffffffff"


class SandboxAverages:
    """Time averages of every bundle, as one broker has them.

    Attributes:
        short: Short-term averages, ``(n_bundles, 4)``; ``short_samples`` their samples.
        long: Long-term averages, likewise; ``long_samples`` their samples.
    """

    def __init__(self, count: int) -> None:
        self.short: Floats = np.zeros((count, 4))
        self.long: Floats = np.zeros((count, 4))
        self.short_samples: Rows = np.zeros(count, np.int64)
        self.long_samples: Rows = np.zeros(count, np.int64)

    def sample(self, rows: Rows, rates: Floats) -> None:
        """Add one sample to each of these bundles."""
        for average, samples, most in (
            (self.short, self.short_samples, SHORT_SAMPLES),
            (self.long, self.long_samples, LONG_SAMPLES),
        ):
            counted = samples[rows][:, np.newaxis]
            value, after = next_average(average[rows], counted, rates, max_samples=most)
            average[rows], samples[rows] = value, after[:, 0]

    def drop(self, named: NDArray[np.bool_]) -> Rows:
        """Forget bundles that no report names; return those that were averaged until now."""
        dropped = np.flatnonzero(~named & (self.short_samples > 0))
        self.short_samples[dropped] = self.long_samples[dropped] = 0
        return dropped

    def append(self, count: int) -> None:
        """Make room for more bundles."""
        more = SandboxAverages(count)
        for name in ("short", "long", "short_samples", "long_samples"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(more, name)]))


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A broker's report in ZooKeeper.

    Attributes:
        rows: Rows of the bundles in it.
        rates: Their statistics, as :attr:`FleetState.rates`.
        counts: Topics, producers, consumers, bundles of the broker.
        usage: Of its host: CPU, heap, direct memory, bandwidth in and out.
    """

    rows: Rows
    rates: Floats
    counts: Rows
    usage: Floats


class FleetState:
    """Columns of bundles and topics; a bundle's row never changes, a split appends rows.

    Attributes:
        names: Bundle names by row.
        namespace: Row of the namespace, per bundle.
        lower: Lower bound, per bundle.
        upper: Upper bound, per bundle.
        is_live: False for a bundle that was split away.
        owner: Row of the owning broker or ``NO_BROKER``.
        served_by: Row of the broker in whose last statistics the bundle is, or ``NO_BROKER``: it
            follows ``owner`` at the next refresh.
        topic_bundle: Row of the bundle, per topic.
        rates: Last statistics, ``(n_bundles, 4)``: rate in, throughput in, rate out, throughput
            out.
        counts: Last statistics, ``(n_bundles, 4)``: topics, producers, consumers, cache bytes.
        reports: What the written report of each broker has, by the broker's row.
        reported: The ``rates`` that the brokers' written reports hold.
        reported_by: Row of the broker whose written report names the bundle, or ``NO_BROKER``; of
            two that name it, the one that wrote last.
        leading: Averages of the leader, with a sample more for every time that it wrote them.
        following: Averages of every other broker; a new leader goes on with these.
        topic_rates: Current rates per topic.
        usage: Host usage per broker.
    """

    def __init__(self, layout: Layout, brokers: Sequence[Broker]) -> None:
        self.layout = layout
        self.brokers = list(brokers)
        self.namespaces = list(layout.namespaces)
        self.boundaries = list(layout.boundaries)
        self.namespace_row = {name: row for row, name in enumerate(self.namespaces)}
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.bundles_of: list[Rows] = []
        for row, bounds in enumerate(self.boundaries):
            first = len(self.names)
            self._name_all(row, bounds)
            self.bundles_of.append(np.arange(first, len(self.names)))
        self.namespace = np.repeat(
            np.arange(len(self.boundaries), dtype=np.int32), [len(b) - 1 for b in self.boundaries]
        )
        self.lower: Rows = np.concatenate([bounds[:-1] for bounds in self.boundaries])
        self.upper: Rows = np.concatenate([bounds[1:] for bounds in self.boundaries])
        count = len(self.names)
        self.is_live = np.ones(count, np.bool_)
        self.owner: Rows = np.full(count, NO_BROKER, np.int64)
        self.served_by: Rows = np.full(count, NO_BROKER, np.int64)
        self.reported_by: Rows = np.full(count, NO_BROKER, np.int64)
        self.reports: dict[int, WrittenReport] = {}
        self.leading = SandboxAverages(count)
        self.following = SandboxAverages(count)
        self.rates: Floats = np.zeros((count, 4))
        self.counts: Rows = np.zeros((count, 4), np.int64)
        self.reported: Floats = np.zeros((count, 4))
        self.topic_bundle: Rows = np.zeros(len(layout.topics.names), np.int64)
        for row in range(len(self.namespaces)):
            self.place_topics(row)
        self.topic_rates: Floats = np.zeros((len(layout.topics.names), 4))
        nothing = np.zeros(len(self.brokers))
        self.usage = HostUsage(nothing, nothing, nothing, nothing, nothing)

    def place_topics(self, namespace: int) -> None:
        """Find the bundle of every topic of a namespace again."""
        topics = self.topics_of(namespace)
        bounds = self.boundaries[namespace]
        index = np.searchsorted(bounds, self.layout.topics.hashes[topics], side="right") - 1
        rows = self.bundles_of[namespace]
        self.topic_bundle[topics] = rows[np.clip(index, 0, len(rows) - 1)]

    def topics_of(self, namespace: int) -> slice:
        """Return the rows of a namespace's topics, which are adjacent."""
        column = self.layout.topics.namespace
        return slice(
            int(np.searchsorted(column, namespace)),
            int(np.searchsorted(column, namespace, side="right")),
        )

    def find(self, namespace: str, position: int) -> int | None:
        """Return the row of the bundle that holds a hash, ``None`` for an unknown namespace."""
        row = self.namespace_row.get(namespace)
        if row is None:
            return None
        return int(self.bundles_of[row][find_bundle_index(self.boundaries[row], position)])

    def live_row(self, bundle: str) -> int | None:
        """Return the row of a bundle that exists now."""
        row = self.row_of.get(bundle)
        return row if row is not None and self.is_live[row] else None

    def owned_rows(self, broker: int) -> Rows:
        """Return the rows of the bundles a broker owns."""
        return np.flatnonzero(self.owner == broker)

    def served_rows(self, broker: int) -> Rows:
        """Return the rows of the bundles in a broker's last statistics."""
        return np.flatnonzero(self.served_by == broker)

    def refresh(self, topic_rates: Floats, topic_cache: Rows) -> None:
        """Take new topic statistics, sum them up per bundle, and note gains and losses."""
        topics, count = self.layout.topics, len(self.names)
        self.topic_rates = topic_rates
        served = np.where(self.owner[self.topic_bundle] != NO_BROKER, self.topic_bundle, NO_BROKER)
        self.rates = per_owner(topic_rates, served, count)
        on = served != NO_BROKER
        for column, values in enumerate((None, topics.producers, topics.consumers, topic_cache)):
            weights = None if values is None else values[on]
            self.counts[:, column] = np.bincount(served[on], weights, minlength=count)
        serving = np.where(self.counts[:, 0] > 0, self.owner, NO_BROKER)
        for row in np.flatnonzero(serving != self.served_by).tolist():
            self._note_move(self.names[row], int(self.served_by[row]), int(serving[row]))
        self.served_by = serving

    def _note_move(self, bundle: str, source: int, target: int) -> None:
        if source != NO_BROKER:
            self.brokers[source].losses.add(bundle)
            self.brokers[source].gains.discard(bundle)
        if target != NO_BROKER:
            self.brokers[target].gains.add(bundle)
            self.brokers[target].losses.discard(bundle)

    def split(self, row: int, inner: Sequence[int]) -> list[int]:
        """Replace a bundle by its parts, owned by the same broker.

        Args:
            row: The bundle.
            inner: Ascending bounds strictly inside it.

        Returns:
            Rows of the parts in range order.
        """
        namespace = int(self.namespace[row])
        bounds = np.array([self.lower[row], *inner, self.upper[row]], np.int64)
        first, parts = len(self.names), len(bounds) - 1
        self._name_all(namespace, bounds)
        fresh = np.arange(first, first + parts)
        owner = int(self.owner[row])
        self._append(namespace, bounds)
        place = int(np.flatnonzero(self.bundles_of[namespace] == row)[0])
        others = np.delete(self.bundles_of[namespace], place)
        self.bundles_of[namespace] = np.insert(others, place, fresh)
        self.boundaries[namespace] = np.insert(self.boundaries[namespace], place + 1, list(inner))
        self.owner[row] = NO_BROKER
        self.is_live[row] = False
        self.owner[fresh] = owner
        self.place_topics(namespace)
        return [int(part) for part in fresh]

    @property
    def short(self) -> Floats:
        """Short-term averages of the leader."""
        return self.leading.short

    @property
    def long(self) -> Floats:
        """Long-term averages of the leader."""
        return self.leading.long

    @property
    def short_samples(self) -> Rows:
        """Samples of :attr:`short`."""
        return self.leading.short_samples

    @property
    def long_samples(self) -> Rows:
        """Samples of :attr:`long`."""
        return self.leading.long_samples

    def report(self, broker: int) -> None:
        """Note that a broker's report with its present statistics was written."""
        self.forget_reports(broker)
        rows = self.served_rows(broker)
        usage = self.usage
        self.reports[broker] = WrittenReport(
            rows,
            self.rates[rows],
            self.broker_counts()[broker],
            np.array(
                [
                    usage.cpu[broker],
                    usage.heap_mib[broker],
                    usage.direct_mib[broker],
                    usage.bandwidth_in_kbit_s[broker],
                    usage.bandwidth_out_kbit_s[broker],
                ]
            ),
        )
        self.reported[rows] = self.rates[rows]
        self.reported_by[rows] = broker

    def forget_reports(self, broker: int) -> None:
        """Note that a broker's report is gone, with its session or for a new one."""
        self.reports.pop(broker, None)
        self.reported_by[self.reported_by == broker] = NO_BROKER
        for other, report in self.reports.items():  # the one before still names what moved
            free = report.rows[self.reported_by[report.rows] == NO_BROKER]
            if len(free):
                at = np.flatnonzero(np.isin(report.rows, free))
                self.reported[report.rows[at]] = report.rates[at]
                self.reported_by[report.rows[at]] = other

    def reports_in_order(self) -> list[tuple[int, WrittenReport]]:
        """Return the reports in the order in which the leader's map has the brokers."""
        rows = sorted(self.reports)
        names = [self.brokers[row].broker_id for row in rows]
        order = concurrent_order(spread_hashes(names)).tolist()
        return [(rows[at], self.reports[rows[at]]) for at in order]

    def sample(self, *, leader_only: bool = False) -> Rows:
        """Add one sample a bundle and report: what every change of any broker's report does.

        Args:
            leader_only: Only to the leader's averages, as before it writes them.

        Returns:
            Rows of the bundles that the leader averaged until now and that no report names any
            more.

        Source:
            Pulsar ``ModularLoadManagerImpl#updateBundleData``.
        """
        named = np.zeros(len(self.names), np.bool_)
        sides = (self.leading,) if leader_only else (self.leading, self.following)
        for _, report in self.reports_in_order():
            named[report.rows] = True
            for side in sides:
                side.sample(report.rows, report.rates)
        dropped = [side.drop(named) for side in sides]
        return dropped[0]

    def new_leader(self) -> None:
        """Change the leader: the new one uses its averages as a follower."""
        self.leading = copy.deepcopy(self.following)

    def broker_rates(self) -> Floats:
        """Return the sums of the bundles' rates per broker, ``(n_brokers, 4)``."""
        return per_owner(self.rates, self.served_by, len(self.brokers))

    def broker_counts(self) -> Rows:
        """Return topics, producers, consumers, bundles per broker, ``(n_brokers, 4)``."""
        served = self.served_by != NO_BROKER
        owner, count = self.served_by[served], len(self.brokers)
        columns = [
            np.bincount(owner, self.counts[served, column], minlength=count) for column in range(3)
        ]
        return np.column_stack([*columns, np.bincount(owner, minlength=count)]).astype(np.int64)

    def _name_all(self, namespace: int, bounds: NDArray[np.int64]) -> None:
        prefix = self.namespaces[namespace]
        edges = bounds.tolist()
        for lower, upper in itertools.pairwise(edges):
            name = f"{prefix}/{range_text(lower, upper)}"
            self.row_of[name] = len(self.names)
            self.names.append(name)

    def _append(self, namespace: int, bounds: NDArray[np.int64]) -> None:
        parts = len(bounds) - 1
        self.namespace = np.append(self.namespace, np.full(parts, namespace, np.int32))
        self.lower = np.append(self.lower, bounds[:-1])
        self.upper = np.append(self.upper, bounds[1:])
        self.is_live = np.append(self.is_live, np.ones(parts, np.bool_))
        unassigned = np.full(parts, NO_BROKER, np.int64)
        self.owner = np.append(self.owner, unassigned)
        self.served_by = np.append(self.served_by, unassigned)
        self.reported_by = np.append(self.reported_by, unassigned)
        self.leading.append(parts)
        self.following.append(parts)
        rates = np.zeros((parts, 4))
        self.rates = np.concatenate([self.rates, rates])
        self.reported = np.concatenate([self.reported, rates])
        self.counts = np.concatenate([self.counts, np.zeros((parts, 4), np.int64)])
