"""From candidates to probabilities, the retry of an overloaded pick included."""

from __future__ import annotations

import numpy as np

from core.pulsar.bundle_counts import Ints
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.filters import FilterResult
from core.pulsar.placement.masks import uniform
from core.pulsar.placement.selectors import ROUND_ROBIN, Selector
from core.pulsar.view import Flags, Floats


def first_picks(
    context: PlacementContext, strategy: Selector, namespaces: Ints, candidates: Flags
) -> Flags:
    """Return the candidates of the first selection; excluded namespaces use round robin."""
    picks = strategy.picks(context, candidates, None)
    excluded = _excluded(context, namespaces)
    if excluded.any():
        picks[excluded] = ROUND_ROBIN.picks(context, candidates[excluded], None)
    return picks


def _excluded(context: PlacementContext, namespaces: Ints) -> Flags:
    if not context.excluded_namespaces:
        return np.zeros(namespaces.size, np.bool_)
    return np.isin(namespaces, list(context.excluded_namespaces))


def distribute(
    context: PlacementContext, strategy: Selector, namespaces: Ints, filtered: FilterResult
) -> tuple[Floats, Floats]:
    """Return the probability of each broker, and of the retry having fired, per row.

    The first pick is final unless that broker is overloaded. Then one more pick is made out of the
    candidates and everything that the policies allow, and that one is final.

    Returns:
        Probabilities ``(n_rows, n_brokers)``; rows without candidates are all zero. Probability of
        a retry ``(n_rows,)``.
    Source:
        Pulsar ``ModularLoadManagerImpl#selectBroker``, from the strategy to the end.
    """
    picks = first_picks(context, strategy, namespaces, filtered.candidates)
    chances = uniform(picks)
    repeats = strategy.plans_picks(context)  # the second pick follows the plan of the first
    bad = picks & context.is_overloaded & (not repeats)
    if repeats:
        bad |= picks & context.is_overloaded & _excluded(context, namespaces)[:, None]
    retry = np.where(bad, chances, 0.0).sum(axis=1)
    rows = np.flatnonzero(retry > 0)
    if rows.size:
        mask = filtered.candidates[rows]
        # the strategy itself did not pick before where the turn decided
        before = mask & ~_excluded(context, namespaces[rows])[:, None]
        again = uniform(strategy.picks(context, mask | filtered.allowed[rows], before))
        chances[rows] = np.where(bad[rows], 0.0, chances[rows]) + retry[rows, None] * again
    return chances, retry
