"""Which broker a bundle goes to when nobody says: the leader's decision."""

from __future__ import annotations

import re

import numpy as np

from connectors.sandbox.policies import Policies
from connectors.sandbox.state import NOBODY, FleetState, Rows


class Placer:
    """Places bundles as the leader's load manager does.

    Args:
        seed: Of the pick among equals.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 3])

    def choose(self, state: FleetState, policies: Policies, row: int) -> int:
        """Return the broker for a bundle, or ``NOBODY`` when none is eligible."""
        candidates = _allowed(state, policies, state.namespaces[int(state.namespace[row])])
        if not len(candidates):
            return NOBODY
        usage = state.usage.max_ratio()[candidates]
        rate = np.zeros(len(state.brokers))
        named = state.owner != NOBODY
        np.add.at(rate, state.owner[named], (state.long[named, 0] + state.long[named, 2]))
        score = np.where(usage > 0.85, np.inf, rate[candidates])
        best = candidates[score == score.min()]
        return int(self._rng.choice(best))


def _allowed(state: FleetState, policies: Policies, namespace: str) -> Rows:
    up = [broker for broker in state.brokers if broker.is_up]
    for policy in (policies.isolation or {}).values():
        if any(re.fullmatch(pattern, namespace) for pattern in policy["namespaces"]):
            primary = [b.row for b in up if any(re.fullmatch(p, b.host) for p in policy["primary"])]
            if primary:
                return np.array(primary)
            return np.array(
                [b.row for b in up if any(re.fullmatch(p, b.host) for p in policy["secondary"])],
                np.int64,
            )
    return np.array([broker.row for broker in up], np.int64)
