"""What is checked before a bundle may be unloaded; every "no" is a diagnostic with its reason.

An explicit destination bypasses the broker's own isolation and anti-affinity checks, so ours run
first and refuse.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Final

import numpy as np

from core.arrays import column_values
from core.errors import InputError, UnknownNameError
from core.ids import namespace_of, parse_range
from core.plan.model import Diagnostic, DiagnosticSeverity
from core.pulsar.load import RESOURCE_NAMES
from core.pulsar.placement import Placement, place_bundle
from core.pulsar.placement.extensible import within_isolation
from core.pulsar.placement.filters import (
    ANTI_AFFINITY,
    ANTI_AFFINITY_FILTER,
    ISOLATION_FILTER,
    MAX_TOPICS,
    POLICIES,
    TOPIC_COUNT,
)
from core.pulsar.placement.versions import version_ranks
from core.pulsar.plan.outcomes import HINT_LOSS_NOTE
from core.pulsar.plausibility import impossible_usage
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, LoadView
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms, format_age, format_ratio, pluralize

STALE_SNAPSHOT_S: Final = 300.0
"""A snapshot older than this is worth a warning when a plan is made on it."""

_MAX_INTERVAL: Final = "loadBalancerReportUpdateMaxIntervalMinutes"
OVERLOADED: Final = "loadBalancerBrokerOverloadedThresholdPercentage"
_EXCLUDED: Final = "loadBalancerSheddingExcludedNamespaces"

_OF_BOTH: Final = "LeastResourceUsageWithWeight"
"""Both managers have it, and the filters are the same under every strategy."""

_POLICIES: Final = frozenset({POLICIES, ISOLATION_FILTER})
_ANTI_AFFINITIES: Final = frozenset({ANTI_AFFINITY, ANTI_AFFINITY_FILTER})
_TOPIC_COUNTS: Final = frozenset({TOPIC_COUNT, MAX_TOPICS})
"""Filters of the modular and of the extensible manager's chain that mean the same to a plan."""
_OFFERED: Final = 3
_SLIP: Final = 0.8
"""Similarity of two names, 0 to 1, from which they are mistaken for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Shared input of the checks.

    Attributes:
        snapshot: The cluster as it was.
        view: The same, laid out for placement.
        settings: Active settings, what-ifs on top.
        now: The moment of planning, aware UTC.
        exclusions: Namespaces (``tenant/namespace`` or ``tenant/*``) that the operator's
            configuration excludes from every plan.
    """

    snapshot: PulsarSnapshot
    view: LoadView
    settings: EffectiveSettings
    now: datetime
    exclusions: frozenset[str] = field(default_factory=frozenset)


def check_cluster(basis: Basis) -> Iterator[Diagnostic]:
    """Check what holds for the whole plan: the load manager and the age of the snapshot."""
    manifest = basis.snapshot.manifest
    age_s = (basis.now - manifest.taken_at).total_seconds()
    if age_s > STALE_SNAPSHOT_S:
        yield Diagnostic(
            severity="warning",
            code="stale_snapshot",
            sentence=f"The snapshot was taken {format_age(age_s)} ago; owners may have changed.",
            hint="Take a fresh snapshot before you apply anything.",
        )
    if manifest.load_manager == "simple":
        yield Diagnostic(
            severity="error",
            code="load_manager_unsupported",
            sentence="The cluster runs the legacy SimpleLoadManagerImpl.",
            hint="Only clusters with ModularLoadManagerImpl or "
            "ExtensibleLoadManagerImpl are supported.",
        )


def check_measurements(snapshot: PulsarSnapshot) -> Iterator[Diagnostic]:
    """Check that no usage is impossible: what was chosen by it may be the wrong thing to move."""
    names = snapshot.brokers["broker"].to_pylist()
    for resource, mask in impossible_usage(snapshot.brokers).items():
        rows = np.flatnonzero(mask)
        if not rows.size:
            continue
        others = f" and {pluralize(rows.size - 1, 'other broker')}" if rows.size > 1 else ""
        yield Diagnostic(
            severity="warning",
            code="usage_impossible",
            subject=names[rows[0]],
            sentence=f"The {RESOURCE_NAMES[resource]} usage of {names[rows[0]]}{others} is "
            "implausible: moves based on it have no effect.",
            hint="Correct the measurement first: `trimtab health` shows the setting.",
        )


def check_bundle(basis: Basis, bundle: str) -> Iterator[Diagnostic]:
    """Check that the bundle is there, movable and owned by a live broker."""
    row = basis.view.bundle_index.get(bundle)
    if row is None:
        yield _unknown_bundle(basis.view, bundle)
        return
    if basis.view.is_broker_bound[row]:
        yield _error(
            "broker_bound",
            bundle,
            f"{bundle} is bound to one broker (heartbeat or SLA namespace) and is never moved.",
        )
        return
    yield from _check_owner(basis, bundle, row)
    yield from _check_namespace(basis, namespace_of(bundle))


def check_destination(
    basis: Basis, destination: str, *, was_live: bool = False
) -> Iterator[Diagnostic]:
    """Check that the destination is a live broker with a report that can be trusted.

    Args:
        basis: What is looked at.
        destination: Broker.
        was_live: It was a broker when it was chosen; so if it is none now it has left, and a near
            name is not what was meant.
    """
    row = basis.view.broker_index.get(destination)
    if row is None:
        yield _error(
            "destination_unknown",
            destination,
            f"{destination} is not an active broker; the cluster would answer 409.",
            _live_ones(basis.view, near_to=None if was_live else destination),
        )
        return
    if why := basis.view.dead.get(destination):
        yield _error(
            "destination_dead",
            destination,
            f"{destination} is {why}: it receives no bundles.",
            _live_ones(basis.view, near_to=None),
        )
        return
    if not basis.view.has_report[row] and basis.view.load_manager != "extensible":
        yield _error(
            "destination_unreported",
            destination,
            f"The load report of {destination} could not be read: placement would exclude it.",
            "Choose another destination, or check the problems of the snapshot.",
        )
        return
    yield from _check_kind(basis, destination, row)
    yield from _stale(basis, destination, "destination")
    usage, limit = float(basis.view.usage[row]), basis.settings.number(OVERLOADED) / 100.0
    if basis.view.usage_known[row] and usage > limit:
        yield _warning(
            "destination_overloaded",
            destination,
            f"{destination} is already at {format_ratio(usage)}, above the overload "
            f"limit of {format_ratio(limit)}.",
            "" if was_live else "Choose a less busy broker.",  # an undo has no other one
        )
    if basis.snapshot.manifest.load_manager == "modular":
        yield Diagnostic(
            severity="info",
            code="destination_is_hint",
            sentence=HINT_LOSS_NOTE,
            subject=destination,
        )


def _live_ones(view: LoadView, near_to: str | None) -> str:
    """Offer names that a slip of the hand would explain, else the coolest live brokers."""
    near = difflib.get_close_matches(near_to or "", view.brokers, n=_OFFERED, cutoff=_SLIP)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    known = np.flatnonzero(view.usage_known)
    coolest = known[np.argsort(view.usage[known], kind="stable")][:_OFFERED]
    if not coolest.size:
        return "Choose an active broker as host:webPort, as on the Brokers page."
    offered = [f"{view.brokers[row]} ({format_ratio(view.usage[row])})" for row in coolest]
    return f"Choose an active broker; the least busy: {', '.join(offered)}."


def _check_kind(basis: Basis, destination: str, row: int) -> Iterator[Diagnostic]:
    """Check load manager and version: placement would keep to brokers of the leader's kind."""
    view = basis.view
    own, its = view.own_class, view.load_manager_classes[row]
    if own is not None and its != own:
        yield _error(
            "destination_load_manager",
            destination,
            f"{destination} runs {_short(its)}, the leader {_short(own)}: it is "
            "excluded from placement.",
            "Choose a broker with the leader's load manager.",
        )
    if not basis.settings.flag("preferLaterVersions"):
        return
    ranks = version_ranks(view.versions)
    if ranks[row] < ranks.max():
        latest = view.versions[int(ranks.argmax())]
        yield _error(
            "destination_version",
            destination,
            f"{destination} runs {view.versions[row] or 'an unknown version'}, the latest is "
            f"{latest}, and preferLaterVersions is set.",
            "Choose a broker of the latest version.",
        )


def placed_by_filters(basis: Basis, bundle: str) -> Placement:
    """Return a placement of the bundle, whose filters are those of every strategy."""
    return place_bundle(basis.view, bundle, basis.settings, strategy=_OF_BOTH)


def check_placement(basis: Basis, bundle: str) -> Iterator[Diagnostic]:
    """Check that the cluster, which places what has no destination, does not do so on the dead.

    Trimtab gives the dead nothing, but the leader goes by their registration: all that isolation
    allows are candidates, for the other filters depend on what it knows then.
    """
    view = basis.view
    policy = view.namespace_policy[view.bundle_namespace[view.bundle_row(bundle)]]
    if view.unreadable_policies:  # which policy the namespace has is not known then
        may_get: Flags = np.ones(len(view.brokers), np.bool_)
    elif policy < 0:
        may_get = np.asarray(~view.is_primary.any(axis=0), np.bool_)
    else:
        may_get = view.is_primary[policy] | view.is_secondary[policy]
    for broker, why in view.dead.items():
        if broker in view.broker_index and may_get[view.broker_row(broker)]:
            yield _error(
                "placement_dead",
                broker,
                f"{broker} is registered and {why}: the cluster may place a bundle on it.",
                "Specify a destination, or delete that registration, then plan again.",
            )


def check_move(
    basis: Basis, bundle: str, destination: str, placed: Placement | None = None
) -> Iterator[Diagnostic]:
    """Check that this bundle may go to this broker: policies, anti-affinity, kind and version.

    Args:
        basis: What is looked at.
        bundle: Name.
        destination: Broker.
        placed: By :func:`placed_by_filters`, where several destinations are checked.
    """
    row = basis.view.bundle_row(bundle)
    if basis.view.owner[row] == basis.view.broker_row(destination):
        yield _error(
            "destination_is_owner",
            bundle,
            f"{destination} already owns {bundle}; the modular load manager would "
            "move it to another broker, the extensible one would return 500.",
            "Choose another destination, or none.",
        )
        return
    placed = placed_by_filters(basis, bundle) if placed is None else placed
    if not placed.is_known:
        yield _warning(
            "destination_unchecked",
            bundle,
            f"Isolation and anti-affinity were not checked for {bundle} on "
            f"{destination}: {placed.why}",
            "Check the policies of its namespace manually.",
        )
    reason = placed.ruled_out.get(destination, "")
    filter_name, _, detail = reason.partition(": ")
    is_hidden = not placed.is_known or filter_name in _ANTI_AFFINITIES | _TOPIC_COUNTS
    if is_hidden and not _is_within_isolation(basis, row, destination):
        # the extensible chain checks isolation last: what went before hides it
        filter_name, detail = ISOLATION_FILTER, "its isolation policies do not allow it"
    if filter_name in _POLICIES:
        yield _error(
            "destination_not_allowed",
            bundle,
            f"{bundle} cannot be placed on {destination}: {detail}.",
            "An explicit destination would bypass that check of the broker; choose another one.",
        )
    elif filter_name in _ANTI_AFFINITIES:
        yield from _check_anti_affinity(basis, bundle, destination, detail)
    elif filter_name in _TOPIC_COUNTS:
        yield _warning(
            "destination_topics", bundle, f"{destination} has many topics: {detail}.", ""
        )


def _check_anti_affinity(
    basis: Basis, bundle: str, destination: str, detail: str
) -> Iterator[Diagnostic]:
    """Refuse a broker that serves another namespace of the group, unless it serves this one too."""
    namespace = basis.view.namespace_index[namespace_of(bundle)]
    severity: DiagnosticSeverity = (
        "warning" if _serves(basis.view, namespace, basis.view.broker_row(destination)) else "error"
    )
    yield Diagnostic(
        severity=severity,
        code="destination_anti_affinity",
        sentence=f"Anti-affinity would not place {bundle} on {destination}: {detail}.",
        subject=bundle,
        hint="Choose a broker that serves no namespace of the group.",
    )


def _serves(view: LoadView, namespace: int, broker: int) -> bool:
    """Whether a broker has bundles of a namespace, by the count of the cluster's manager."""
    if view.load_manager == "extensible":  # no load reports: ownership is what it goes by
        return bool(((view.owner == broker) & (view.bundle_namespace == namespace)).any())
    counts = view.range_counts.dense(np.array([namespace], np.int64), len(view.brokers))
    return bool(counts[0, broker])


def _is_within_isolation(basis: Basis, row: int, destination: str) -> bool:
    """Whether isolation alone allows it, on an extensible cluster; others check it first."""
    if basis.view.load_manager != "extensible":
        return True
    allowed = within_isolation(basis.view, basis.settings, row)
    return bool(allowed[basis.view.broker_row(destination)])


def _check_owner(basis: Basis, bundle: str, row: int) -> Iterator[Diagnostic]:
    table = basis.snapshot.bundles
    owner = table["owner"][row].as_py()
    if owner is None:
        if table["owner_source"][row].as_py() is None:
            yield _error(
                "owner_unknown",
                bundle,
                f"The owner of {bundle} could not be read.",
                "Take another snapshot.",
            )
        else:
            yield _warning(
                "not_owned",
                bundle,
                f"{bundle} is unassigned: there is nothing to unload (the cluster would "
                "return 204, without effect).",
                "If it is being moved, plan again in a minute. Else a topic lookup assigns it.",
            )
    elif owner not in basis.view.broker_index:
        yield _error(
            "owner_gone",
            bundle,
            f"{owner}, the owner of {bundle}, is not an active broker.",
            "Its ownership ends with its session; take another snapshot.",
        )
    else:
        yield from _stale(basis, owner, "owner")


def _check_namespace(basis: Basis, namespace: str) -> Iterator[Diagnostic]:
    if any(fnmatchcase(namespace, pattern) for pattern in basis.exclusions):
        yield _error(
            "excluded",
            namespace,
            f"{namespace} is excluded from every plan by Trimtab's configuration.",
            "Remove it from `exclusions` first.",
        )
    if namespace in basis.settings.excluded_namespaces:
        yield _warning(
            "excluded_from_shedding",
            namespace,
            f"The cluster never sheds {namespace} ({_EXCLUDED}); a manual unload works anyway.",
            "Ask the person who excluded it.",
        )


def _stale(basis: Basis, broker: str, role: str) -> Iterator[Diagnostic]:
    row = basis.view.broker_row(broker)
    reported_ms = float(column_values(basis.snapshot.brokers.slice(row, 1), "reported_at")[0])
    age_s = (datetime_to_ms(basis.snapshot.manifest.taken_at) - reported_ms) / 1000
    bound_s = 2 * basis.settings.number(_MAX_INTERVAL) * 60
    if np.isfinite(age_s) and age_s > bound_s:
        yield _warning(
            "stale_report",
            broker,
            f"The load report of {broker} ({role}) was {format_age(age_s)} old when the snapshot "
            "was taken.",
            "Its load may have changed since.",
        )


def _unknown_bundle(view: LoadView, bundle: str) -> Diagnostic:
    namespace = namespace_of(bundle)
    if "/" not in namespace:
        return _error(
            "unknown_bundle",
            bundle,
            f"{bundle!r} is not a bundle name.",
            "Use the form tenant/namespace/0xLOW_0xHIGH.",
        )
    if namespace not in view.namespace_index:
        return _error(
            "unknown_bundle",
            bundle,
            f"There is no bundle named {bundle!r}: namespace {namespace!r} is unknown.",
            _near("namespace", namespace, view.namespaces),
        )
    code = view.namespace_index[namespace]
    names = [str(view.bundles[row]) for row in np.flatnonzero(view.bundle_namespace == code)]
    children = _inside(bundle, names)
    if len(children) > 1:
        return _error(
            "bundle_split",
            bundle,
            f"{bundle} was split into {', '.join(children[:4])}"
            + (f" and {len(children) - 4} more." if len(children) > 4 else "."),
            "Specify the parts.",
        )
    return _error(
        "unknown_bundle",
        bundle,
        f"There is no bundle named {bundle!r} in {namespace}, which has {len(names)}.",
        _near("bundle", bundle, names),
    )


def _inside(bundle: str, names: Iterable[str]) -> list[str]:
    """Names of the bundles that together are the range of ``bundle``; none when they are not."""
    try:
        lower, upper = parse_range(bundle.rpartition("/")[2])
    except InputError:
        return []
    ranges = {name: parse_range(name.rpartition("/")[2]) for name in names}
    inside = {name: (low, up) for name, (low, up) in ranges.items() if low >= lower and up <= upper}
    bounds = {bound for pair in inside.values() for bound in pair}
    return list(inside) if {lower, upper} <= bounds else []


def _short(class_name: str | None) -> str:
    return (class_name or "an unknown load manager").rpartition(".")[2]


def _near(kind: str, name: str, known: Iterable[str]) -> str:
    return UnknownNameError.of(kind, name, known).hint


def _error(code: str, subject: str, sentence: str, hint: str = "") -> Diagnostic:
    return Diagnostic(severity="error", code=code, sentence=sentence, subject=subject, hint=hint)


def _warning(code: str, subject: str, sentence: str, hint: str = "") -> Diagnostic:
    return Diagnostic(severity="warning", code=code, sentence=sentence, subject=subject, hint=hint)
