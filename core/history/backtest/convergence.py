"""Candidates worth a change, simulated to convergence on the last recorded minute.

A record says what a candidate would have done under the load that was; what it does to the cluster
as it is now is another matter. No candidate is recommended before both are known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from core.diagnosis.model import Effect, effect_sentence
from core.errors import OpsError
from core.history.backtest.advice import chosen, records_of
from core.history.backtest.model import Target
from core.history.backtest.schemas import CANDIDATES
from core.history.backtest.system import AnyBacktest
from core.snapshot.store import Storable

BUDGET_S: Final = 60.0
"""Time for the simulations of one cluster's candidates; the next ones are not recommended."""


def simulated_candidates(
    runs: pa.Table,
    candidates: pa.Table,
    target: Target,
    system: AnyBacktest,
    latest: Callable[[str], Storable],
) -> pa.Table:
    """Return the candidates, the best with their simulated effect on the current cluster.

    From the best one on, every candidate that is worth a change is simulated, up to the first that
    converges and leaves the cluster no less even. Those before it are marked as rejected.

    Args:
        runs: Rows of ``RUNS``: those of the record hold the settings in force.
        candidates: Of :func:`core.history.backtest.ranking.ranked`.
        target: What is good enough.
        system: Of the clusters.
        latest: Returns the snapshot of a cluster's last recorded minute.
    """
    rows = candidates.to_pylist()
    for cluster, record in records_of(runs).items():
        mine = [row for row in rows if row["cluster"] == cluster]
        ends_at = time.perf_counter() + BUDGET_S
        while (best := chosen(mine, target)) is not None and best["outcome"] is None:
            if time.perf_counter() > ends_at:
                best |= {"outcome": "Not simulated: time limit reached.", "is_rejected": True}
            else:
                best |= _outcome(system, latest(cluster), best, record)
    return pa.Table.from_pylist(rows, schema=CANDIDATES)


def convergence(
    system: AnyBacktest, snapshot: Storable, best: Mapping[str, Any], record: Mapping[str, Any]
) -> Effect | None:
    """Return the effect of a candidate on a cluster, or ``None`` if it cannot be simulated.

    Args:
        system: Of the cluster.
        snapshot: The cluster as it is.
        best: A row of ``CANDIDATES`` or ``RUNS``.
        record: The row of ``RUNS`` of what really happened.
    """
    try:
        return system.converged(snapshot, best, record)
    except OpsError:
        return None


def _outcome(
    system: AnyBacktest, snapshot: Storable, best: Mapping[str, Any], record: Mapping[str, Any]
) -> dict[str, Any]:
    effect = convergence(system, snapshot, best, record)
    if effect is None:
        return {"outcome": "Not recommended: it cannot be simulated.", "is_rejected": True}
    after = effect.after
    return {
        "outcome": effect_sentence(effect),
        "is_rejected": effect.is_harmful,
        "converged_moves": after.moves,
        "converged_returned": after.returned,
        "converged_deviation": after.deviation,
        "converges": after.converges,
    }
