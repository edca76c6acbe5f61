"""Build an unload plan: what was asked, checked, ordered, with what it is expected to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypedDict, Unpack

import numpy as np

from core.errors import InputError
from core.health.measures import measure
from core.plan.checks import Basis, check_bundle, check_cluster, check_destination, check_move
from core.plan.clients import client_impact
from core.plan.model import (
    DEFAULT_LIFETIME_S,
    Diagnostic,
    Expected,
    Plan,
    PolicyRef,
    UnloadBundle,
    sealed,
)
from core.plan.outcomes import Outcomes, PlacementRules, carry_through
from core.plan.project import project_scenario
from core.pulsar.placement import find_strategy
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.units import format_ratio

_NO_DESTINATION: Final = ("destination_unknown", "destination_unreported")
_ORDER: Final = ("error", "warning", "info")
_STRATEGY: Final = "loadBalancerLoadPlacementStrategy"
_SEED: Final = 1


class UnloadOptions(TypedDict, total=False):
    """What may be said about an unload besides which bundles."""

    destination: str | None
    strategy: str | None
    overrides: Mapping[str, object] | None
    release: str | None
    reason: str
    lifetime_s: float
    exclusions: Collection[str]


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request with its defaults filled in."""

    bundles: tuple[str, ...]
    destination: str | None = None
    strategy: str | None = None
    overrides: Mapping[str, object] | None = None
    release: str | None = None
    reason: str = ""
    lifetime_s: float = DEFAULT_LIFETIME_S
    exclusions: Collection[str] = field(default_factory=frozenset)


def build_unload_plan(
    snapshot: PulsarSnapshot,
    bundles: Iterable[str],
    *,
    now: datetime,
    **options: Unpack[UnloadOptions],
) -> Plan:
    """Build the plan that unloads ``bundles`` in the given order.

    What cannot be done is left out and named: an ``error`` diagnostic makes the plan ``errored``.

    Args:
        snapshot: The cluster.
        bundles: Names; a name given twice counts once.
        now: The moment of planning, aware UTC.
        **options: ``destination``: broker id that is asked to take all of them, ``None``: the
            cluster places each. ``strategy``: placement strategy to assume, ``None``: the one in
            force. ``overrides``: settings to assume, upstream key to value. ``release``: release
            line to assume. ``reason``: kept in the plan. ``lifetime_s``: how long it may be
            applied. ``exclusions``: namespaces that the configuration keeps out of every plan.
    Raises:
        InputError: No bundle was named.
        UnknownNameError: A setting, release or strategy that does not exist.
    """
    asked = _Asked(tuple(dict.fromkeys(bundles)), **options)
    if not asked.bundles:
        raise InputError("No bundle was named.", hint="Name at least one bundle to unload.")
    settings = effective_settings(snapshot, overrides=asked.overrides, release=asked.release)
    strategy = find_strategy(asked.strategy).name if asked.strategy else None
    basis = Basis(
        snapshot=snapshot,
        view=LoadView.of(snapshot, settings),
        settings=settings,
        now=now,
        exclusions=frozenset(asked.exclusions),
    )
    steps, found = _checked_steps(basis, asked)
    rules = PlacementRules(basis.view, settings, strategy, _SEED)
    outcomes = carry_through(rules, steps)
    found += _about_outcomes(steps, outcomes)
    diagnostics = tuple(sorted(dict.fromkeys(found), key=lambda item: _ORDER.index(item.severity)))
    errored = any(item.severity == "error" for item in diagnostics)
    policy = PolicyRef(
        name=strategy or settings.text(_STRATEGY).rpartition(".")[2],
        settings={key: _plain(value) for key, value in (asked.overrides or {}).items()},
        release=settings.release,
        seed=_SEED,
    )
    return sealed(
        Plan(
            cluster=snapshot.manifest.cluster,
            snapshot_id=snapshot.snapshot_id,
            taken_at=snapshot.manifest.taken_at,
            created_at=now,
            expires_at=now + timedelta(seconds=asked.lifetime_s),
            strategy=policy,
            steps=tuple(steps),
            expected=_expected(basis, steps, outcomes),
            diagnostics=diagnostics,
            reason=asked.reason,
            complete=len(steps) == len(asked.bundles),
            applyable=bool(steps) and not errored,
            errored=errored,
        )
    )


def _checked_steps(basis: Basis, asked: _Asked) -> tuple[list[UnloadBundle], list[Diagnostic]]:
    """Return a step for every bundle that may be unloaded, and what was found on the way."""
    found = list(check_cluster(basis))
    destination = asked.destination
    if destination is not None:
        found += check_destination(basis, destination)
    is_known = not any(item.code in _NO_DESTINATION for item in found)
    steps: list[UnloadBundle] = []
    for bundle in asked.bundles:
        about = list(check_bundle(basis, bundle))
        stops = any(item.severity == "error" or item.code == "not_owned" for item in about)
        if not stops and destination is not None and is_known:
            about += check_move(basis, bundle, destination)
            stops = any(item.severity == "error" for item in about)
        found += about
        if not stops and is_known:
            owner = basis.view.brokers[basis.view.owner[basis.view.bundle_row(bundle)]]
            steps.append(
                UnloadBundle(
                    bundle=bundle, owner=owner, destination=destination, reason=asked.reason
                )
            )
    return steps, found


def _about_outcomes(steps: Sequence[UnloadBundle], outcomes: Outcomes) -> Iterator[Diagnostic]:
    """Say where placement itself makes an unload pointless or dangerous."""
    for step, placed in zip(steps, outcomes.placements, strict=True):
        if step.destination is not None:
            continue
        if not placed.distribution:
            nobody = placed.is_known
            yield Diagnostic(
                severity="error" if nobody else "warning",
                code="no_eligible_broker" if nobody else "placement_unknown",
                sentence=(
                    f"Nobody could take {step.bundle}: {placed.why}"
                    if nobody
                    else f"Where {step.bundle} would go is unknown: {placed.why}"
                ),
                subject=step.bundle,
                hint="Mend the isolation policy first." if nobody else "Name a destination.",
            )
        back = placed.distribution.get(step.owner, 0.0)
        if back > 0:
            yield Diagnostic(
                severity="warning" if back >= 0.5 else "info",
                code="may_return",
                sentence=(
                    f"{step.bundle} comes back to its owner {step.owner} with probability "
                    f"{format_ratio(back)}."
                ),
                subject=step.bundle,
                hint="Name a destination, if it must leave.",
            )


def _expected(basis: Basis, steps: Sequence[UnloadBundle], outcomes: Outcomes) -> Expected:
    snapshot, settings = basis.snapshot, basis.settings
    before = measure(snapshot, settings)
    rows = np.array([basis.view.bundle_row(step.bundle) for step in steps], np.int64)
    impact = client_impact(snapshot.bundles, rows)
    after = (
        measure(project_scenario(snapshot, rows, outcomes.most_likely), settings)
        if steps
        else before
    )
    is_known = all(placed.is_known for placed in outcomes.placements)
    return Expected(
        usage_deviation_before=before.usage.max_deviation_ratio,
        usage_deviation_after=after.usage.max_deviation_ratio if is_known else None,
        throughput_deviation_before=before.throughput.max_deviation_ratio,
        throughput_deviation_after=after.throughput.max_deviation_ratio if is_known else None,
        moved_bytes_per_s=impact.throughput_bytes_per_s,
        clients=impact.clients,
        topics=impact.topics,
        is_exact=outcomes.is_exact,
    )


def _plain(value: object) -> object:
    """A value as JSON reads it back, so that the plan's id survives the file."""
    return list(value) if isinstance(value, tuple) else value
