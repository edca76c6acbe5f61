"""The load of a cluster as integer-coded columns: what every kernel computes on.

Brokers, bundles and namespaces are numbered by their row; ``-1`` means *none*.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import UnknownNameError
from core.pulsar.bundle_counts import Codes, Ints, RangeCounts
from core.pulsar.bundle_index import IndexLater
from core.pulsar.columns import (
    LARGEST,
    added,
    codes_of,
    flags_of,
    floats_of,
    ints_of,
    total_of,
)
from core.pulsar.extensible_loads import ExtensibleLoads
from core.pulsar.isolation import (
    IsolationPolicy,
    Role,
    parse_failure_domains,
    parse_isolation_policies,
    unreadable_isolation_policies,
)
from core.pulsar.java.maps import java_hash_order
from core.pulsar.leader_rates import doubt_of, leader_long_rates, long_rate_doubt
from core.pulsar.liveness import liveness_of, loads_of, share_liveness
from core.pulsar.load import (
    DEFAULT_MSGS_PER_S,
    REPORTED,
    ResourceShares,
    resource_weights,
    usage_is_known,
)
from core.pulsar.quotas import quota_note, seeded, seeded_averages
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.snapshot import LoadManager, PulsarSnapshot

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_MANY: Final = 16
_INPUTS: Final = "_view_inputs"
_STEADY: Final = ("steady columns",)
_BUNDLES: Final = ("bundle columns",)
_NON_PERSISTENT: Final = "non-persistent://"
_UNSEEN_MSGS_PER_S: Final = 2 * DEFAULT_MSGS_PER_S  # in and out


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LoadView:
    """Columns of one snapshot. Rates are in + out; arrays are in row order; treat as read-only.

    Attributes:
        usage: Weighted maximum per broker, ratio; 0 where ``usage_known`` is false.
        has_report: Whether anything of the broker's load report is known.
        broker_long_rate: msg/s, sum of long-term averages of its bundles, as the leader holds it;
            ``broker_long_doubt`` off at the most, either way.
        bundle_names: The same as ``bundles``, for searching; ``shared_index`` gives their rows.
        owner: Broker of each bundle by ownership.
        reporter: Broker whose report names the bundle, what the leader counts by; -1 for a bundle
            that no report names. The owner with the extensible manager, whose brokers write no
            such reports.
        is_non_persistent: Whether the bundle is known to hold non-persistent topics; the topics of
            the snapshot show it.
        led_since: Whether the owner's znode of the bundle is younger than the leader's: the broker
            that leads was leading when the bundle was placed.
        is_measured: Whether averages or last statistics of the bundle are known.
        bundle_short_rate: msg/s, short-term average; where that is unknown the last measured rate,
            or the bundle's quota with one sample of it, as a new leader takes it.
            Throughput likewise, bytes/s.
        bundle_long_rate: msg/s, long-term average; the last measured rate where that is unknown,
            and upstream's default where no report names the bundle either.
        namespace_group: Index into ``groups``, the anti-affinity groups in lower case.
        own_class: Load manager class of the deciding broker.
        notes: Sentences on what had to be assumed.
        unreadable_policies: Name of each isolation policy that cannot be read, and why.
        extensible: Published data of the extensible manager's brokers, or ``None``.
        sheds_system: Whether the release's shedding picks bundles of ``pulsar/system``.
        dead: Why a broker is given no bundle, by broker: those dead or suspected; see
            :mod:`core.pulsar.liveness`.
        unreported: Why a broker's report is not its load, by broker: the dead ones as well.
        further_reports: Rows of bundle and broker, ``(n, 2)``, of bundles that another report names
            besides that of ``reporter``: right after a move both brokers may.
    """

    cluster: str
    load_manager: LoadManager
    leader: str | None
    release: str
    brokers: tuple[str, ...]
    namespaces: tuple[str, ...]
    bundles: NDArray[np.object_]
    bundle_names: pa.ChunkedArray
    shared_index: Callable[[], dict[str, int]]
    # brokers
    usage: Floats
    overload_usage: Floats
    threshold_usage: Floats
    usage_known: Flags
    has_report: Flags
    broker_msg_rate: Floats
    broker_throughput: Floats
    broker_short_rate: Floats
    broker_long_rate: Floats
    broker_long_doubt: Floats
    broker_topics: Ints
    broker_bundles: Ints
    serves_persistent: Flags
    serves_non_persistent: Flags
    versions: tuple[str | None, ...]
    load_manager_classes: tuple[str | None, ...]
    own_class: str | None
    failure_domains: tuple[str | None, ...]
    # bundles
    bundle_namespace: Codes
    owner: Codes
    reporter: Codes
    is_broker_bound: Flags
    bundle_msg_rate: Floats
    bundle_throughput: Floats
    is_measured: Flags
    bundle_short_rate: Floats
    bundle_short_throughput: Floats
    bundle_long_rate: Floats
    bundle_topics: Ints
    led_since: Flags
    is_non_persistent: Flags
    # namespaces
    namespace_group: Codes
    groups: tuple[str, ...]
    policies: tuple[IsolationPolicy, ...]
    notes: tuple[str, ...]
    extensible: ExtensibleLoads | None = None
    sheds_system: bool = True
    unreadable_policies: Mapping[str, str] = field(default_factory=dict)
    dead: Mapping[str, str] = field(default_factory=dict)
    unreported: Mapping[str, str] = field(default_factory=dict)
    further_reports: Ints = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    @classmethod
    def of(cls, snapshot: PulsarSnapshot, settings: EffectiveSettings) -> LoadView:
        """Number and lay out a snapshot under some settings (their weights, their release).

        Cached with the snapshot: settings that are laid out the same get the same view.
        """
        made: LoadView = snapshot.derived.get(
            ("view", cls.inputs(settings)), lambda: cls._laid_out(snapshot, settings)
        )
        return made

    @staticmethod
    def inputs(settings: EffectiveSettings) -> Hashable:
        """Return all that a view takes from settings; equal ones give equal views."""
        cached = settings.__dict__.get(_INPUTS)
        if cached is None:
            manager = "loadManagerClassName"
            cached = (
                settings.target,
                tuple(resource_weights(settings).values()),
                settings.text(manager),
                settings.origin(manager) == "assumed",
            )
            settings.__dict__[_INPUTS] = cached
        return cached

    @classmethod
    def _laid_out(cls, snapshot: PulsarSnapshot, settings: EffectiveSettings) -> LoadView:
        """Lay it out; one view for all settings under which every usage is the same."""
        usages = usages_of(ResourceShares.of(loads_of(snapshot)), settings)
        own_class = _own_class(snapshot, settings)
        key = (settings.target, own_class, *(usage.tobytes() for usage in usages))
        return snapshot.derived.get(
            ("view of usage", key),
            lambda: cls._of_usages(snapshot, settings, usages, own_class),
        )

    @classmethod
    def _of_usages(
        cls,
        snapshot: PulsarSnapshot,
        settings: EffectiveSettings,
        usages: tuple[Floats, Floats, Floats],
        own_class: str | None,
    ) -> LoadView:
        brokers = loads_of(snapshot)
        rate_known = ~np.isnan(floats_of(brokers, "msg_rate_in"))
        steady = snapshot.derived.get(_STEADY, partial(_steady_columns, snapshot))
        has_report = (usage_is_known(brokers) | rate_known) & ~_named(steady, "unreported")
        names = steady["brokers"]
        whatever_the_settings = partial(_bundle_columns, snapshot, names)
        bundle_part = snapshot.derived.get(_BUNDLES, whatever_the_settings)
        usage = usages[0]
        stored = total_of(brokers, "long_msg_rate", unknown=np.nan)
        long_rate, note = leader_long_rates(stored, bundle_part)
        if snapshot.manifest.load_manager == "extensible":
            note = ""  # long-term rates are neither stored nor read there
        problems = steady["problems"]
        return cls(
            cluster=snapshot.manifest.cluster,
            load_manager=snapshot.manifest.load_manager,
            leader=snapshot.manifest.leader,
            release=settings.release,
            sheds_system=settings.rules.sheds_system_namespace,
            usage=_finite(usage),
            overload_usage=usages[1],
            threshold_usage=usages[2],
            usage_known=~np.isnan(usage),
            has_report=has_report,
            broker_msg_rate=total_of(brokers, "msg_rate"),
            broker_throughput=total_of(brokers, "msg_throughput"),
            broker_short_rate=total_of(brokers, "short_msg_rate"),
            broker_long_rate=long_rate,
            broker_long_doubt=long_rate_doubt(
                snapshot, bundle_part, long_rate, has_moved=note != ""
            ),
            broker_topics=ints_of(brokers, "topic_count"),
            broker_bundles=ints_of(brokers, "bundle_count"),
            own_class=own_class,
            notes=tuple(text for text in (*problems, note, quota_note(snapshot)) if text)
            + steady["liveness_notes"],
            extensible=ExtensibleLoads.of(snapshot),
            **bundle_part,
            **{name: value for name, value in steady.items() if name not in _NO_FIELDS},
        )

    @cached_property
    def broker_index(self) -> dict[str, int]:
        """Row of each broker."""
        return {name: row for row, name in enumerate(self.brokers)}

    @cached_property
    def bundle_index(self) -> dict[str, int]:
        """Row of each bundle."""
        return self.shared_index()

    @cached_property
    def namespace_index(self) -> dict[str, int]:
        """Row of each namespace."""
        return {name: row for row, name in enumerate(self.namespaces)}

    @cached_property
    def range_counts(self) -> RangeCounts:
        """Bundles per namespace and broker."""
        size = (len(self.namespaces), len(self.brokers))
        return RangeCounts.of(self.bundle_namespace, self.reporter, size)

    @cached_property
    def remembered_by_leader(self) -> Ints:
        """Rows of bundles without a report that the leader placed on itself: they count for it.

        What the leader places stays preallocated until the broker reports it, but it forgets that
        at once for bundles that it does not own itself. A bundle that is older than its leadership
        is not in its memory; where the age of the znodes is unknown, none is taken to be.

        Source:
            Pulsar ``ModularLoadManagerImpl#updateBundleData``; confirmed on a real 4.2.4 cluster.
        """
        row = self.broker_index.get(self.leader or "", -1)
        remembered = (
            (self.owner == row) & (self.reporter < 0) & self.led_since & ~self.is_broker_bound
        )
        return np.flatnonzero(remembered) if row >= 0 else np.zeros(0, np.int64)

    @cached_property
    def group_counts(self) -> Codes:
        """Namespaces of each anti-affinity group on each broker, ``(n_groups, n_brokers)``."""
        pairs = self.range_counts
        namespace = np.repeat(np.arange(len(self.namespaces)), np.diff(pairs.offsets))
        group = self.namespace_group[namespace]
        counts = np.zeros((len(self.groups), len(self.brokers)), np.int32)
        grouped = group >= 0
        np.add.at(counts, (group[grouped], pairs.broker[grouped]), 1)
        return counts

    @cached_property
    def namespace_policy(self) -> Codes:
        """First isolation policy that governs each namespace; -1 for none."""
        rows = [
            next((row for row, policy in enumerate(self.policies) if policy.governs(name)), -1)
            for name in self.namespaces
        ]
        return np.array(rows, np.int32)

    @cached_property
    def is_primary(self) -> Flags:
        """Whether a policy has a broker as primary, ``(n_policies, n_brokers)``."""
        return self._has_role("primary")

    @cached_property
    def is_secondary(self) -> Flags:
        """Whether a policy has a broker as secondary, ``(n_policies, n_brokers)``."""
        return self._has_role("secondary")

    def _has_role(self, role: Role) -> Flags:
        return np.array(
            [[found == role for found in row] for row in self._roles], np.bool_
        ).reshape(len(self.policies), len(self.brokers))

    @cached_property
    def _roles(self) -> list[list[Role]]:
        return [
            [policy.placement_role_of(name, self.release) for name in self.brokers]
            for policy in self.policies
        ]

    @cached_property
    def is_alive(self) -> Flags:
        """Brokers that may be given a bundle at all: those that are not dead or suspected."""
        return np.array([name not in self.dead for name in self.brokers], np.bool_)

    @cached_property
    def usable(self) -> Flags:
        """Live brokers whose load report is known; all that live where none is."""
        return self.is_alive & self.has_report if self.has_report.any() else self.is_alive

    @cached_property
    def allowed(self) -> Flags:
        """Brokers by isolation policy where all take part; see ``PlacementContext.allowed``."""
        return self.allowed_of(self.is_alive) & self.usable

    def allowed_of(self, available: Flags) -> Flags:
        """Return brokers by isolation policy where some take part, known or not."""
        primary = self.is_primary & available
        short = primary.sum(axis=1) < np.array([policy.min_limit for policy in self.policies], int)
        governed = primary | (self.is_secondary & available & short[:, None])
        shared = ~self.is_primary.any(axis=0)
        by_kind = np.stack([shared & self.serves_non_persistent, shared & self.serves_persistent])
        return np.vstack([governed, by_kind])

    @cached_property
    def bound_namespaces(self) -> dict[int, int]:
        """``{namespace row: row of its own broker, or -1}`` of broker-bound namespaces."""
        rows = np.unique(self.bundle_namespace[self.is_broker_bound]).tolist()
        index = self.broker_index
        return {row: index.get(self.namespaces[row].rpartition("/")[2], -1) for row in rows}

    @cached_property
    def java_order(self) -> Ints:
        """Broker rows in the order in which Java adds them up."""
        return java_hash_order(self.brokers)

    def indexed_for(self, count: int) -> bool:
        """Have the index made where so many bundles are looked for; return whether it was.

        One search in the names is cheaper than the index of all of them, many are not.
        """
        return count >= _MANY and bool(self.bundle_index)

    def find_bundle(self, bundle: str) -> int:
        """Return the row of a bundle, or -1; the index of all of them is not built for one."""
        if "bundle_index" in self.__dict__:
            return self.bundle_index.get(bundle, -1)
        return int(pc.index(self.bundle_names, bundle).as_py())

    def bundle_row(self, bundle: str) -> int:
        """Return the row of a bundle.

        Raises:
            UnknownNameError: The snapshot has no such bundle.
        """
        row = self.find_bundle(bundle)
        if row < 0:
            raise UnknownNameError.of(
                "bundle", bundle, self.bundle_index, place=f"the snapshot of {self.cluster}"
            )
        return row

    def broker_row(self, broker: str) -> int:
        """Return the row of a broker.

        Raises:
            UnknownNameError: The snapshot has no such broker.
        """
        row = self.broker_index.get(broker)
        if row is None:
            raise UnknownNameError.of(
                "broker", broker, self.broker_index, place=f"the snapshot of {self.cluster}"
            )
        return row


def usages_of(shares: ResourceShares, settings: EffectiveSettings) -> tuple[Floats, Floats, Floats]:
    """Return the weighted usage, NaN where unknown, that against overload, and the smoothed one."""
    weighted, rules = shares.weighted(settings), settings.rules
    return (
        weighted,
        _finite(weighted if rules.overload_is_weighted else shares.overload(settings)),
        _finite(shares.threshold(settings) if rules.drops_over_limit else weighted),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class MovedColumns:
    """Columns that moves and load reports change in a view of the modular manager.

    Attributes:
        brokers: Columns of the brokers by name; NaN where unknown.
        averages: Columns of averages of the bundles by name; NaN where unknown.
        owner: Broker of each bundle.
        reporter: Broker whose report names it.
        has_stats: Whether its last statistics are known.
        seeds: Of :func:`core.pulsar.quotas.quota_seeds`.
        lasts: Last statistics by column; unknown ones are 0.
        is_live: Whether the load of brokers is from ZooKeeper.
    """

    brokers: Callable[[str], Floats]
    averages: Callable[[str], Floats]
    owner: Codes
    reporter: Codes
    has_stats: Flags
    seeds: Mapping[str, Floats]
    lasts: Mapping[str, Floats]
    is_live: bool

    def view(
        self, start: LoadView, usages: tuple[Floats, Floats, Floats], bundles: Mapping[str, Any]
    ) -> LoadView:
        """Return a view with these columns.

        Args:
            start: The view of the same cluster and settings before.
            usages: Of :func:`usages_of`.
            bundles: Of :meth:`of_bundles`, which any settings share.
        """
        brokers = self.brokers
        both = {name: brokers(name) for name in ("msg_rate_in", "long_msg_rate_in")}
        resources = [~np.isnan(brokers(f"{name}_usage")) for name in REPORTED]
        has_report = np.logical_or.reduce([*resources, ~np.isnan(both["msg_rate_in"])])
        if start.unreported:
            has_report &= [name not in start.unreported for name in start.brokers]
        stored = added(both["long_msg_rate_in"], brokers("long_msg_rate_out"), unknown=np.nan)
        columns = {**bundles, "bundle_msg_rate": start.bundle_msg_rate}
        long_rate, note = leader_long_rates(stored, columns)
        doubt = np.zeros_like(long_rate)
        if self.is_live:
            is_new = np.isnan(self.averages("long_msg_rate_in"))
            doubt = doubt_of(is_new, columns, long_rate, has_moved=note != "")
        return replace(
            start,
            usage=_finite(usages[0]),
            overload_usage=usages[1],
            threshold_usage=usages[2],
            usage_known=~np.isnan(usages[0]),
            has_report=has_report,
            broker_msg_rate=added(both["msg_rate_in"], brokers("msg_rate_out")),
            broker_throughput=added(brokers("msg_throughput_in"), brokers("msg_throughput_out")),
            broker_short_rate=added(brokers("short_msg_rate_in"), brokers("short_msg_rate_out")),
            broker_long_rate=long_rate,
            broker_long_doubt=doubt,
            broker_topics=_whole(brokers("topic_count")),
            broker_bundles=_whole(brokers("bundle_count")),
            **bundles,
        )

    def of_bundles(self, start: Mapping[str, Floats]) -> dict[str, Any]:
        """Return the columns of the bundles; ``start``: their last rate and throughput."""
        short, flow, long = (
            added(self.averages(f"{name}_in"), self.averages(f"{name}_out"), unknown=np.nan)
            for name in ("short_msg_rate", "short_msg_throughput", "long_msg_rate")
        )
        is_sampled = self.has_stats & (self.reporter >= 0)
        has_averages = ~(np.isnan(short) & np.isnan(flow))
        found = {"reporter": self.reporter, **start}
        short, flow, long = seeded(self.seeds, self.lasts, (short, flow, long), is_sampled)
        made = _averaged(found, (short, flow, long), self.has_stats | has_averages)
        return {**made, "owner": self.owner, "reporter": self.reporter}


def _whole(counts: Floats) -> Ints:
    """Return counts with 0 where they are unknown."""
    return np.where(np.isnan(counts), 0.0, counts).astype(np.int64)


def _finite(usage: Floats) -> Floats:
    """Return usage with 0 where it is unknown."""
    if usage.size and -LARGEST <= usage.min() <= usage.max() <= LARGEST:
        return usage
    return np.clip(np.nan_to_num(usage, nan=0.0), -LARGEST, LARGEST)


def share_layout(before: PulsarSnapshot, after: PulsarSnapshot, *, has_moved: bool) -> None:
    """Give a snapshot the columns that another one of the same cluster has laid out already.

    Args:
        before: With the same brokers, bundles, namespaces and policies in the same rows.
        after: Where bundles have moved, or only averages differ.
        has_moved: Whether bundles have.
    """
    steady = before.derived.get(_STEADY, partial(_steady_columns, before))
    after.derived.get(_STEADY, lambda: steady)
    share_liveness(before, after)
    if not has_moved:
        names = steady["brokers"]
        columns = before.derived.get(_BUNDLES, partial(_bundle_columns, before, names))
        after.derived.get(
            _BUNDLES,
            lambda: {
                **columns,
                "shared_index": IndexLater(after),
                **_averages(after, columns),
            },
        )


def _steady_columns(snapshot: PulsarSnapshot) -> dict[str, Any]:
    """Return the columns that neither moves nor load reports change."""
    brokers = snapshot.brokers
    names = tuple(brokers.column("broker").to_pylist())
    policies, problems = parse_isolation_policies(snapshot.policies)
    stored_domains = parse_failure_domains(snapshot.policies)
    domains = brokers.column("failure_domain").to_pylist()
    namespaces = _namespaces(snapshot)
    liveness = liveness_of(snapshot, effective_settings(snapshot))
    return {
        "brokers": names,
        "namespaces": namespaces,
        "dead": liveness.dead,
        "unreported": liveness.unreported,
        "liveness_notes": liveness.notes,
        "serves_persistent": flags_of(brokers, "persistent_topics_enabled"),
        "serves_non_persistent": flags_of(brokers, "non_persistent_topics_enabled"),
        "versions": tuple(brokers.column("version").to_pylist()),
        "load_manager_classes": tuple(brokers.column("load_manager").to_pylist()),
        "failure_domains": tuple(
            stored_domains.get(name, domain) for name, domain in zip(names, domains, strict=True)
        ),
        "policies": policies,
        "problems": problems,
        "unreadable_policies": unreadable_isolation_policies(snapshot.policies) if problems else {},
        **_namespace_columns(snapshot, namespaces),
    }


_NO_FIELDS: Final = ("problems", "liveness_notes")
"""Steady columns that a view has among its notes."""


def _named(steady: Mapping[str, Any], column: str) -> Flags:
    """Return the brokers in a mapping of the steady columns."""
    return np.array([name in steady[column] for name in steady["brokers"]], np.bool_)


def _namespaces(snapshot: PulsarSnapshot) -> tuple[str, ...]:
    of_bundles = pc.unique(snapshot.bundles.column("namespace"))
    declared = pc.unique(snapshot.namespaces.column("namespace"))
    return tuple(sorted({*of_bundles.to_pylist(), *declared.to_pylist()}))


def _bundle_columns(snapshot: PulsarSnapshot, brokers: tuple[str, ...]) -> dict[str, Any]:
    table, names = snapshot.bundles, snapshot.bundles.column("bundle")
    broker_names = pa.array(brokers, pa.string())
    namespaces = snapshot.derived.get(_STEADY, partial(_steady_columns, snapshot))["namespaces"]
    owner = codes_of(table.column("owner"), broker_names)
    named = codes_of(table.column("reported_by"), broker_names)
    reporter = counted_by(named, owner, snapshot.manifest.load_manager)
    columns = {
        "bundles": table.column("bundle").to_numpy(zero_copy_only=False),
        "bundle_names": names,
        "shared_index": IndexLater(snapshot),
        "bundle_namespace": codes_of(table.column("namespace"), pa.array(namespaces, pa.string())),
        "owner": owner,
        "reporter": reporter,
        "is_broker_bound": flags_of(table, "is_broker_bound"),
        "bundle_msg_rate": total_of(table, "msg_rate"),
        "bundle_throughput": total_of(table, "msg_throughput"),
        "bundle_topics": ints_of(table, "topic_count"),
        "led_since": _led_since(snapshot),
        "is_non_persistent": _is_non_persistent(snapshot),
    }
    return {**columns, **_averages(snapshot, columns)}


def _averages(snapshot: PulsarSnapshot, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of bundles that averages decide."""
    table, reporter = snapshot.bundles, columns["reporter"]
    short = total_of(table, "short_msg_rate", unknown=np.nan)
    short_throughput = total_of(table, "short_msg_throughput", unknown=np.nan)
    has_stats = ~np.isnan(total_of(table, "msg_rate", unknown=np.nan))
    has_averages = ~(np.isnan(short) & np.isnan(short_throughput))
    averaged = total_of(table, "long_msg_rate", unknown=np.nan)
    filled = seeded_averages(
        snapshot, (short, short_throughput, averaged), has_stats & (reporter >= 0)
    )
    return _averaged(columns, filled, has_stats | has_averages)


def _averaged(
    columns: Mapping[str, Any], held: tuple[Floats, Floats, Floats], is_measured: Flags
) -> dict[str, Any]:
    """Return the columns of averages; last statistics stand in for what is not held."""
    last, last_throughput = columns["bundle_msg_rate"], columns["bundle_throughput"]
    begun = np.where(columns["reporter"] >= 0, last, _UNSEEN_MSGS_PER_S)
    return {
        "is_measured": is_measured,
        "bundle_short_rate": np.where(np.isnan(held[0]), last, held[0]),
        "bundle_short_throughput": np.where(np.isnan(held[1]), last_throughput, held[1]),
        "bundle_long_rate": np.where(np.isnan(held[2]), begun, held[2]),
    }


def counted_by(named: Codes, owner: Codes, load_manager: LoadManager) -> Codes:
    """Return the broker that the leader counts each bundle for; -1 for none.

    A report names bundles with topics only: one that no report names counts for no broker, owned
    or not. Brokers of the extensible manager write no such reports; there the owner counts.

    Args:
        named: Broker whose report names the bundle; -1: none does.
        owner: Its owner; -1: none. Same shape.
        load_manager: Of the cluster.
    Source:
        Pulsar ``ModularLoadManagerImpl#updateBundleData``.
    """
    if load_manager != "extensible":
        return named
    return np.where(named >= 0, named, owner).astype(np.int32)


def _led_since(snapshot: PulsarSnapshot) -> Flags:
    """Return per bundle whether its ownership began while the present leader led."""
    claims = snapshot.claims.filter(pc.equal(snapshot.claims["source"], "znode"))
    led = claims.filter(pc.equal(claims["subject_kind"], "leader"))["created_at"].drop_null()
    count = snapshot.bundles.num_rows
    if not len(led):
        return np.zeros(count, np.bool_)
    since = pc.greater_equal(claims["created_at"], pc.max(led))
    is_new = pc.and_(
        pc.equal(claims["subject_kind"], "bundle"), pc.fill_null(since, fill_value=False)
    )
    found = claims.filter(is_new)["subject"].combine_chunks()
    young = pc.is_in(snapshot.bundles["bundle"], value_set=found)
    return np.asarray(young.to_numpy(zero_copy_only=False), np.bool_)


def _is_non_persistent(snapshot: PulsarSnapshot) -> Flags:
    """Return per bundle whether a non-persistent topic is in it.

    Source:
        Pulsar ``NamespaceBundle#hasNonPersistentTopic``: a lookup of such a topic marks its bundle.
    """
    topics, count = snapshot.topics, snapshot.bundles.num_rows
    is_such = pc.starts_with(topics["topic"], _NON_PERSISTENT)
    if not pc.any(is_such).as_py():
        return np.zeros(count, np.bool_)
    found = topics.filter(is_such)["bundle"].unique()
    held = pc.is_in(snapshot.bundles["bundle"], value_set=found)
    return np.asarray(held.to_numpy(zero_copy_only=False), np.bool_)


def _namespace_columns(snapshot: PulsarSnapshot, namespaces: tuple[str, ...]) -> dict[str, Any]:
    """Anti-affinity groups; names differ in case only are one group, as upstream compares."""
    table = snapshot.namespaces.select(["namespace", "anti_affinity_group"])
    group_by_namespace = {
        row["namespace"]: row["anti_affinity_group"].lower()
        for row in table.to_pylist()
        if row["anti_affinity_group"] and row["anti_affinity_group"].strip()
    }
    groups = tuple(sorted(set(group_by_namespace.values())))
    number = {group: index for index, group in enumerate(groups)}
    codes = [number.get(group_by_namespace.get(name, ""), -1) for name in namespaces]
    return {"namespace_group": np.array(codes, np.int32), "groups": groups}


def _own_class(snapshot: PulsarSnapshot, settings: EffectiveSettings) -> str | None:
    """Class of the deciding broker: the leader's report, else the setting, else the commonest."""
    brokers = snapshot.brokers
    classes = brokers.column("load_manager").to_pylist()
    names = brokers.column("broker").to_pylist()
    leader = snapshot.manifest.leader
    if leader in names and classes[names.index(leader)]:
        return str(classes[names.index(leader)])
    if settings.origin("loadManagerClassName") != "assumed":
        return settings.text("loadManagerClassName")
    known = [name for name in classes if name]
    return max(sorted(set(known)), key=known.count) if known else None
