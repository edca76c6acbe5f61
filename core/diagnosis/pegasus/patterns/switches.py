"""Switches of the app policy that hold the balancer back, alone and together.

Source: Pegasus ``app_balance_policy``; the cluster policy reads none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

import numpy as np

from core.diagnosis.model import Cause
from core.diagnosis.pegasus.context import PegasusDiagnosisContext, Proof, misplaced
from core.diagnosis.pegasus.trials import Change
from core.findings.finding import Fix
from core.units import pluralize

_KEYS: Final = {
    "only_move_primary": "meta.lb.only_move_primary",
    "only_primary_balancer": "meta.lb.only_primary_balancer",
    "balancer_in_turn": "meta.lb.balancer_in_turn",
    "ignored_app_ids": "meta.lb.ignored_app_list",
}
_MEANINGS: Final = {
    "only_move_primary": "primaries only change roles; they are not copied",
    "only_primary_balancer": "secondaries are not copied",
    "balancer_in_turn": "one table is balanced per round",
    "ignored_app_ids": "the listed tables are not balanced",
}
_MAX_NAMED = 8


def switches_hold(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """A switch is on, and off the nodes end more even; pairs only of those that do not so alone."""
    options = context.options
    if options.policy != "app":
        return
    on = [name for name in _KEYS if getattr(options, name)]
    silent = []
    for name in on:
        proof = _off(context, (name,))
        if proof is None:
            silent.append(name)
        else:
            yield _cause(context, (name,), proof)
    for size in range(2, len(silent) + 1):
        for group in combinations(silent, size):
            proof = _off(context, group)
            if proof is not None:
                yield _cause(context, group, proof)
                return


def _off(context: PegasusDiagnosisContext, names: tuple[str, ...]) -> Proof | None:
    return context.proven(context.opened, _without(context, names))


def _without(context: PegasusDiagnosisContext, names: tuple[str, ...]) -> Change:
    values: dict[str, object] = {
        name: frozenset[int]() if name == "ignored_app_ids" else False for name in names
    }
    return context.opened.with_options(**values)


def _cause(context: PegasusDiagnosisContext, names: tuple[str, ...], proof: Proof) -> Cause:
    wanted: dict[str, str] = {}
    objects: tuple[str, ...] = ()
    for name in names:
        wanted[_KEYS[name]] = "false"
        if name == "ignored_app_ids":
            wanted[_KEYS[name]] = ""
            objects = _ignored(context)
    said = " and ".join(f"{name.replace('_app_ids', '_app_list')} is on" for name in names)
    meaning = " and ".join(_MEANINGS[name] for name in names)
    if names == ("ignored_app_ids",):
        said = f"ignored_app_list names {', '.join(objects)}"
    after = proof.effect.after
    return Cause(
        code="_and_".join(name.replace("_app_ids", "_app_list") for name in names),
        keys=tuple(_KEYS[name] for name in names),
        objects=objects or ((proof.table,) if proof.table else ()),
        summary=f"{said}: {meaning}. Without it the balancer makes {pluralize(after.moves, 'move')}"
        f"{proof.scope}, with it {proof.effect.before.moves:,}.",
        effect=context.effect_of_fix(proof, _without(context, names)),
        fix=Fix(wanted={**wanted, **context.prerequisites}),
        hint="Switch it off when the maintenance is over; it is lost when the leading "
        "meta server restarts.",
        measured=float(proof.effect.before.moves),
        threshold=float(after.moves),
        unit="moves",
    )


def _ignored(context: PegasusDiagnosisContext) -> tuple[str, ...]:
    """Return the ignored tables, the most uneven one first."""
    view = context.view
    is_ignored = np.isin(view.app_ids, list(context.options.ignored_app_ids))
    at = np.flatnonzero(is_ignored)
    worst = at[np.argsort(-misplaced(view)[at], kind="stable")]
    return tuple(view.app_names[place] for place in worst.tolist())[:_MAX_NAMED]
