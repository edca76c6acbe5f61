"""Build an unload plan: the request, checked, ordered, with what it is expected to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypedDict, Unpack

import msgspec
import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import InputError
from core.ids import PlanId, namespace_of
from core.plan.model import (
    DEFAULT_LIFETIME_S,
    BrokerExpectation,
    Diagnostic,
    Expected,
    Plan,
    PolicyRef,
    sealed,
)
from core.plan.options import in_order
from core.pulsar.measures import Measures, measure
from core.pulsar.placement import Placement, find_strategy
from core.pulsar.plan.checks import (
    Basis,
    check_bundle,
    check_cluster,
    check_destination,
    check_measurements,
    check_move,
    check_placement,
)
from core.pulsar.plan.clients import client_impact
from core.pulsar.plan.outcomes import Outcomes, PlacementRules, carry_through
from core.pulsar.plan.project import project_scenario
from core.pulsar.settings import effective_settings
from core.pulsar.steps.unload import MIN_PROBABILITY, UnloadBundle
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.units import format_ratio

_NO_DESTINATION: Final = ("destination_unknown", "destination_unreported")
_STRATEGY: Final = "loadBalancerLoadPlacementStrategy"
_SEED: Final = 1
_FEWEST: Final = 2


class UnloadOptions(TypedDict, total=False):
    """Options of an unload in addition to which bundles."""

    destination: str | None
    destinations: Mapping[str, str]
    undoes: str | None
    derived_from: PlanId | None
    strategy: str | None
    overrides: Mapping[str, object] | None
    release: str | None
    reason: str
    lifetime_s: float
    exclusions: Collection[str]


@dataclass(frozen=True, slots=True)
class _UnloadRequest:
    """One request with its defaults filled in."""

    bundles: tuple[str, ...]
    destination: str | None = None
    destinations: Mapping[str, str] = field(default_factory=dict)
    undoes: str | None = None
    derived_from: PlanId | None = None
    strategy: str | None = None
    overrides: Mapping[str, object] | None = None
    release: str | None = None
    reason: str = ""
    lifetime_s: float = DEFAULT_LIFETIME_S
    exclusions: Collection[str] = field(default_factory=frozenset)

    def destination_of(self, bundle: str) -> str | None:
        """The requested destination of the bundle; ``None`` if the cluster places it."""
        return self.destinations.get(bundle, self.destination)


def build_unload_plan(
    snapshot: PulsarSnapshot,
    bundles: Iterable[str],
    *,
    now: datetime,
    **options: Unpack[UnloadOptions],
) -> Plan:
    """Build the plan that unloads ``bundles`` in the given order.

    What cannot be done is excluded and named: an ``error`` diagnostic makes the plan ``errored``.

    Args:
        snapshot: The cluster.
        bundles: Names; a name given twice counts once.
        now: The moment of planning, aware UTC.
        **options: ``destination``: broker id requested for all of them, ``None`` for the
            cluster places each. ``destinations``: bundle to broker id, wins over ``destination``.
            ``undoes``, ``derived_from``: the run or the plan that this one comes from.
            ``strategy``: placement strategy to assume, ``None`` for the active one. ``overrides``:
            settings to assume, upstream key to value. ``release``: release line to assume.
            ``reason``: recorded in the plan. ``lifetime_s``: how long it may be applied.
            ``exclusions``: namespaces that the configuration excludes from every plan.
    Raises:
        InputError: No bundle was named, or a destination is given for one that was not.
        UnknownNameError: A setting, release or strategy that does not exist.
    """
    request = _UnloadRequest(tuple(dict.fromkeys(bundles)), **options)
    if not request.bundles:
        raise InputError("No bundle is specified.", hint="Specify at least one bundle to unload.")
    if strangers := request.destinations.keys() - set(request.bundles):
        raise InputError(
            f"A destination is specified for {min(strangers)}, which is not unloaded.",
            hint="Add the bundle, or remove its destination.",
        )
    settings = effective_settings(snapshot, overrides=request.overrides, release=request.release)
    strategy = find_strategy(request.strategy).name if request.strategy else None
    basis = Basis(
        snapshot=snapshot,
        view=LoadView.of(snapshot, settings),
        settings=settings,
        now=now,
        exclusions=frozenset(request.exclusions),
    )
    steps, found = _checked_steps(basis, request)
    rules = PlacementRules(basis.view, settings, strategy, _SEED)
    outcomes = carry_through(rules, steps)
    steps = [
        msgspec.structs.replace(step, predicted=_predicted(placed))
        for step, placed in zip(steps, outcomes.placements, strict=True)
    ]
    before, after = _measured(basis, steps, outcomes)
    found += [
        *_about_outcomes(steps, outcomes),
        *_about_emptied(steps, after),
        *check_whole_namespaces(basis, steps),
    ]
    diagnostics = in_order(found)
    errored = any(item.severity == "error" for item in diagnostics)
    policy = PolicyRef(
        name=strategy or settings.text(_STRATEGY).rpartition(".")[2],
        settings={key: _plain(value) for key, value in (request.overrides or {}).items()},
        release=settings.release,
        seed=_SEED,
    )
    return sealed(
        Plan(
            cluster=snapshot.manifest.cluster,
            snapshot_id=snapshot.snapshot_id,
            taken_at=snapshot.manifest.taken_at,
            created_at=now,
            expires_at=now + timedelta(seconds=request.lifetime_s),
            strategy=policy,
            steps=tuple(steps),
            expected=_expected(basis, steps, outcomes, before, after),
            diagnostics=diagnostics,
            reason=request.reason,
            complete=len(steps) == len(request.bundles),
            applyable=bool(steps) and not errored,
            errored=errored,
            undoes=request.undoes,
            derived_from=request.derived_from,
        )
    )


def _checked_steps(
    basis: Basis, request: _UnloadRequest
) -> tuple[list[UnloadBundle], list[Diagnostic]]:
    """Return a step for every bundle that may be unloaded, and its findings."""
    found = [*check_cluster(basis), *check_measurements(basis.snapshot)]
    unfit: set[str] = set()
    wanted = [request.destination_of(bundle) for bundle in request.bundles]
    for name in dict.fromkeys(broker for broker in wanted if broker is not None):
        about = list(check_destination(basis, name, was_live=request.undoes is not None))
        if any(item.code in _NO_DESTINATION for item in about):
            unfit.add(name)
        found += [_weighed(item, request) for item in about]
    steps: list[UnloadBundle] = []
    for bundle, destination in zip(request.bundles, wanted, strict=True):
        is_fit = destination not in unfit
        about = list(check_bundle(basis, bundle))
        stops = any(item.severity == "error" or item.code == "not_owned" for item in about)
        if not stops and is_fit:
            about += (
                check_placement(basis, bundle)
                if destination is None
                else check_move(basis, bundle, destination)
            )
            stops = any(item.severity == "error" for item in about)
        found += about
        if not stops and is_fit:
            owner = basis.view.brokers[basis.view.owner[basis.view.bundle_row(bundle)]]
            steps.append(
                UnloadBundle(
                    bundle=bundle, owner=owner, destination=destination, reason=request.reason
                )
            )
    return steps, [*dict.fromkeys(found)]  # one about a broker may concern many bundles


def _weighed(item: Diagnostic, request: _UnloadRequest) -> Diagnostic:
    """Going back is the point of an undo: there, that a hint may be lost is more than a remark."""
    if request.undoes is None or item.code != "destination_is_hint":
        return item
    sentence = f"The undo may not restore the owner. {item.sentence}"
    return replace(item, severity="warning", sentence=sentence)


def _about_outcomes(steps: Sequence[UnloadBundle], outcomes: Outcomes) -> Iterator[Diagnostic]:
    """Return findings on unloads that placement makes pointless or dangerous."""
    for step, placed in zip(steps, outcomes.placements, strict=True):
        if step.destination is not None:
            continue
        if not placed.distribution:
            no_broker = placed.is_known
            yield Diagnostic(
                severity="error" if no_broker else "warning",
                code="no_eligible_broker" if no_broker else "placement_unknown",
                sentence=(
                    f"No broker is eligible for {step.bundle}: {placed.why}"
                    if no_broker
                    else f"The destination of {step.bundle} is unknown: {placed.why}"
                ),
                subject=step.bundle,
                hint="Fix the isolation policy first." if no_broker else "Specify a destination.",
            )
        back = placed.distribution.get(step.owner, 0.0)
        if back > 0:
            yield Diagnostic(
                severity="warning" if back >= 0.5 else "info",
                code="may_return",
                sentence=(
                    f"{step.bundle} returns to its owner {step.owner} with probability "
                    f"{format_ratio(back)}."
                ),
                subject=step.bundle,
                hint="Specify a destination if it must leave.",
            )


def _about_emptied(steps: Sequence[UnloadBundle], after: Measures | None) -> Iterator[Diagnostic]:
    """Warn of brokers that a plan empties so far that the cluster places bundles on them again.

    Where a bundle lands is predicted from this snapshot; the leader sees newer load reports while
    the plan is executed, in which the broker that is emptied becomes the least loaded one.
    """
    if after is None or after.throughput.known_count < _FEWEST:
        return
    freed = Counter(step.owner for step in steps if step.destination is None)
    broker = after.throughput.coolest
    if broker is not None and freed[broker] >= _FEWEST:
        yield Diagnostic(
            severity="warning",
            code="broker_emptied",
            sentence=f"{broker} ends with the lowest load of all brokers: while its "
            f"{freed[broker]:,} bundles are unloaded, the cluster may place some on "
            "it again.",
            subject=broker,
            hint="Specify a destination for each bundle. To take a broker out of "
            "service, shut it down: its bundles are reassigned and it receives "
            "none.",
        )


def _measured(
    basis: Basis, steps: Sequence[UnloadBundle], outcomes: Outcomes
) -> tuple[Measures, Measures | None]:
    """Measure the cluster before and after the most likely outcome, or ``None`` if unknown."""
    before = measure(basis.snapshot, basis.settings)
    if not steps:
        return before, before
    if not all(placed.is_known for placed in outcomes.placements):
        return before, None
    rows = _rows(basis, steps)
    return before, measure(
        project_scenario(basis.snapshot, rows, outcomes.most_likely), basis.settings
    )


def _rows(basis: Basis, steps: Sequence[UnloadBundle]) -> NDArray[np.int64]:
    return np.array([basis.view.bundle_row(step.bundle) for step in steps], np.int64)


def _predicted(placed: Placement) -> dict[str, float]:
    """Return the predicted destinations of the step, most likely first."""
    likely = sorted(placed.distribution.items(), key=lambda pair: (-pair[1], pair[0]))
    return {broker: p for broker, p in likely if p >= MIN_PROBABILITY}


def _expected(
    basis: Basis,
    steps: Sequence[UnloadBundle],
    outcomes: Outcomes,
    before: Measures,
    after: Measures | None,
) -> Expected:
    impact = client_impact(basis.snapshot.bundles, _rows(basis, steps))
    return Expected(
        usage_deviation_before=before.usage.max_deviation_ratio,
        usage_deviation_after=after.usage.max_deviation_ratio if after else None,
        throughput_deviation_before=before.throughput.max_deviation_ratio,
        throughput_deviation_after=after.throughput.max_deviation_ratio if after else None,
        moved_bytes_per_s=impact.throughput_bytes_per_s,
        clients=impact.clients,
        topics=impact.topics,
        is_exact=outcomes.is_exact,
        brokers=_touched(before, after, steps, outcomes),
    )


def _touched(
    before: Measures, after: Measures | None, steps: Sequence[UnloadBundle], outcomes: Outcomes
) -> tuple[BrokerExpectation, ...]:
    """Return the brokers that lose or gain bundles; ``after`` is ``None`` if unknown."""
    ends = outcomes.most_likely.destinations
    names = {step.owner for step in steps} | {name for name in ends if name is not None}
    return tuple(
        BrokerExpectation(
            broker=name,
            usage_before=before.usage.value_of(name),
            usage_after=after.usage.value_of(name) if after else None,
            throughput_before=before.throughput.value_of(name),
            throughput_after=after.throughput.value_of(name) if after else None,
        )
        for name in sorted(names)
    )


def _plain(value: object) -> object:
    """A value as JSON reads it back, so that the plan's id survives the file."""
    return list(value) if isinstance(value, tuple) else value


CODE: Final = "whole_namespace"


def check_whole_namespaces(basis: Basis, steps: Sequence[UnloadBundle]) -> Iterator[Diagnostic]:
    """Warn of every namespace of which the plan unloads each bundle that has an owner.

    A namespace with a single owned bundle cannot be unloaded in any other way.

    Args:
        basis: What the plan is made on.
        steps: Of the plan.
    Source:
        The vivo report: a namespace-wide unload makes all of its clients look up at once.
    """
    taken: dict[str, list[str]] = {}
    for step in steps:
        taken.setdefault(namespace_of(step.bundle), []).append(step.bundle)
    bundles = basis.snapshot.bundles
    for namespace, names in taken.items():
        if len(names) < _FEWEST:
            continue
        own = bundles.filter(pc.equal(bundles["namespace"], namespace))
        if len(names) < own.num_rows - own["owner"].null_count:
            continue
        rows = np.array([basis.view.bundle_row(name) for name in names], np.int64)
        clients = client_impact(bundles, rows).clients
        who = "all of its clients" if clients is None else f"all of its {clients:,} clients"
        yield Diagnostic(
            severity="warning",
            code=CODE,
            sentence=f"The plan unloads every owned bundle of {namespace} ({len(names)}): {who} "
            "look their topics up again.",
            subject=namespace,
            hint="Apply it at a low rate, or in parts; the page Calculators compares "
            "both (trimtab advise lookups).",
        )
