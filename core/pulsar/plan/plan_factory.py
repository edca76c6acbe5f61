"""What plans of splits and of settings have in common: no placement, so no outcomes to follow."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import numpy as np

from core.plan.model import (
    Diagnostic,
    Expected,
    Plan,
    PolicyRef,
    Step,
    sealed,
)
from core.plan.options import PlanOptions, in_order
from core.pulsar.measures import measure
from core.pulsar.plan.checks import Basis
from core.pulsar.plan.clients import client_impact
from core.pulsar.settings import effective_settings
from core.pulsar.steps.base import PulsarStep
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

_STRATEGY = "loadBalancerLoadPlacementStrategy"


def basis_of(snapshot: PulsarSnapshot, terms: PlanOptions) -> Basis:
    """Return the input of the checks: the active settings, no what-ifs."""
    settings = effective_settings(snapshot)
    return Basis(
        snapshot=snapshot,
        view=LoadView.of(snapshot, settings),
        settings=settings,
        now=terms.now,
        exclusions=frozenset(terms.exclusions),
    )


def bare_plan(
    basis: Basis,
    terms: PlanOptions,
    steps: Iterable[Step],
    found: Iterable[Diagnostic],
    *,
    is_complete: bool,
) -> Plan:
    """Return the sealed plan of steps whose effect on the load is not predicted."""
    steps = tuple(steps)
    diagnostics = in_order(found)
    errored = any(item.severity == "error" for item in diagnostics)
    manifest = basis.snapshot.manifest
    return sealed(
        Plan(
            cluster=manifest.cluster,
            snapshot_id=basis.snapshot.snapshot_id,
            taken_at=manifest.taken_at,
            created_at=terms.now,
            expires_at=terms.now + timedelta(seconds=terms.lifetime_s),
            strategy=PolicyRef(
                name=basis.settings.text(_STRATEGY).rpartition(".")[2],
                release=basis.settings.release,
            ),
            steps=steps,
            expected=_expected(basis, steps),
            diagnostics=diagnostics,
            reason=terms.reason,
            complete=is_complete,
            applyable=bool(steps) and not errored,
            errored=errored,
            undoes=terms.undoes,
            derived_from=terms.derived_from,
        )
    )


def _expected(basis: Basis, steps: tuple[Step, ...]) -> Expected:
    """Return the current balance; the effect of parts placed again is not computed."""
    before = measure(basis.snapshot, basis.settings)
    moved = [name for step in steps if isinstance(step, PulsarStep) for name in step.unloads]
    rows = np.array([basis.view.bundle_row(bundle) for bundle in moved], np.int64)
    impact = client_impact(basis.snapshot.bundles, rows)
    return Expected(
        usage_deviation_before=before.usage.max_deviation_ratio,
        throughput_deviation_before=before.throughput.max_deviation_ratio,
        moved_bytes_per_s=impact.throughput_bytes_per_s,
        clients=impact.clients,
        topics=impact.topics,
        is_exact=not moved,
    )
