"""Whether a plan's steps still hold on a fresh snapshot: the plan's own checks, asked again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from core.plan.checks import Basis, check_bundle, check_destination, check_move
from core.plan.model import Diagnostic, Plan, UnloadBundle
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot


def recheck(
    snapshot: PulsarSnapshot, plan: Plan, exclusions: Collection[str], now: datetime
) -> dict[int, Diagnostic]:
    """Return, by place in the plan, why a step must not be done any more; no entry: it still holds.

    Args:
        snapshot: The cluster as it is now.
        plan: The plan.
        exclusions: Namespaces that the configuration keeps out of every plan.
        now: The moment of checking, aware UTC.
    """
    settings = effective_settings(snapshot)
    basis = Basis(
        snapshot=snapshot,
        view=LoadView.of(snapshot, settings),
        settings=settings,
        now=now,
        exclusions=frozenset(exclusions),
    )
    wanted = {step.destination for step in plan.steps if step.destination is not None}
    unfit = {broker: _first_error(check_destination(basis, broker)) for broker in wanted}
    found = {}
    for index, step in enumerate(plan.steps):
        problem = _problem(basis, step, unfit)
        if problem is not None:
            found[index] = problem
    return found


def _problem(
    basis: Basis, step: UnloadBundle, unfit: Mapping[str, Diagnostic | None]
) -> Diagnostic | None:
    about = list(check_bundle(basis, step.bundle))
    problem = _first_error(iter(about)) or next(
        (item for item in about if item.code == "not_owned"), None
    )
    if problem is not None:
        return problem
    owner = basis.view.brokers[basis.view.owner[basis.view.bundle_row(step.bundle)]]
    if owner != step.owner:
        return Diagnostic(
            severity="error",
            code="moved_meanwhile",
            sentence=f"{step.bundle} is owned by {owner} now; the plan was to take it from "
            f"{step.owner}.",
            subject=step.bundle,
            hint="Plan anew on a fresh snapshot, if it should still move.",
        )
    if step.destination is None:
        return None
    return unfit[step.destination] or _first_error(check_move(basis, step.bundle, step.destination))


def _first_error(found: Iterator[Diagnostic]) -> Diagnostic | None:
    return next((item for item in found if item.severity == "error"), None)
