"""What to change to have a better candidate, and how far the model itself is off.

A model is compared with the same model: candidates with the recorded settings, replayed. What
really happened shows how far both are off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from core.history.backtest.model import MINUTES_PER_DAY, NO_SHEDDING, OPTIMIZER, REPLAYED, Target
from core.history.backtest.ranking import order_of, really, the
from core.history.backtest.schemas import RECOMMENDED
from core.history.backtest.wording import Wording
from core.pulsar.settings import SETTING_BY_KEY, SHEDDING_SWITCHES
from core.pulsar.shedding import upstream_class
from core.units import format_ratio, ms_to_datetime, pluralize

WORSE_BY: Final = 0.01
"""So much more deviation is no matter, as a share of the mean."""

_RESTART: Final = "restart"
_MINUTES_PER_HOUR: Final = 60.0
_ALMOST_A_DAY: Final = 0.95 * MINUTES_PER_DAY
"""Between windows a minute each is lost."""
_SHEDDING: Final = "loadBalancerLoadSheddingStrategy"
_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"


def is_plannable(change: Mapping[str, Any]) -> bool:
    """Whether a plan can apply a row of ``RECOMMENDED`` without a restart."""
    return bool(change["is_dynamic"]) and change["takes_effect"] != _RESTART


def chosen(rows: Sequence[dict[str, Any]], target: Target) -> dict[str, Any] | None:
    """Return the first candidate of a ranking that is worth a change; ``None`` if there is none.

    It comes before the recorded settings, replayed, by the rule of the ranking, and has a max
    deviation not above theirs and the actual one, or meets the target. One that was rejected
    (:mod:`core.history.backtest.convergence`) is passed over.

    Args:
        rows: Rows of ``CANDIDATES`` of one cluster, best first.
        target: What is good enough.
    """
    again = the(rows, REPLAYED)
    if again is None or again["rank"] is None:
        return None  # nothing to compare with
    most = min(one["deviation_p95"] for one in (again, really(rows)) if _is_known(one)) + WORSE_BY
    for row in rows:
        if row["rank"] is None or row["is_rejected"] or row["shedding"] == OPTIMIZER:
            continue
        if order_of(row, target) >= order_of(again, target):
            return None
        if row["meets_target"] or row["deviation_p95"] <= most:
            return row
    return None


def picked(
    rows: Sequence[dict[str, Any]], target: Target, label: str | None
) -> dict[str, Any] | None:
    """Return the candidate of a label where it has a rank, by default the one worth a change.

    Args:
        rows: Rows of ``CANDIDATES`` of one cluster, best first.
        target: What is good enough.
        label: Of the candidate; ``None`` see :func:`chosen`.
    """
    if label is None:
        return chosen(rows, target)
    found = the(rows, label)
    return None if found is None or found["rank"] is None else found


def verdict(
    row: Mapping[str, Any], rows: Sequence[dict[str, Any]], target: Target, nouns: Wording
) -> str:
    """Return the label of a candidate: ``recommended``, or the missed target.

    Args:
        row: The candidate.
        rows: Rows of ``CANDIDATES`` of its cluster, best first.
        target: What is good enough.
        nouns: Of the system.
    """
    if row is not chosen(rows, target):
        return f"rank {row['rank']}, not recommended, {_missed(row, target, nouns)}"
    if row["meets_target"]:
        return "recommended"
    return f"best candidate, {_missed(row, target, nouns)}"


def _missed(row: Mapping[str, Any], target: Target, nouns: Wording) -> str:
    """Return by how much a candidate misses the target."""
    missed = []
    if row["deviation_p95"] > target.deviation:
        points = (row["deviation_p95"] - target.deviation) * 100
        missed.append(f"{points:,.1f} points of deviation")
    if row["unloads_per_day"] > target.unloads_per_day:
        missed.append(f"{row['unloads_per_day'] - target.unloads_per_day:,.1f} {nouns.moves} a day")
    return f"misses the target by {' and '.join(missed)}" if missed else "meets the target"


def _is_known(row: Mapping[str, Any] | None) -> TypeGuard[Mapping[str, Any]]:
    return row is not None and row["deviation_p95"] is not None


def recommended(
    runs: pa.Table, candidates: pa.Table, target: Target, nouns: Wording, label: str | None = None
) -> pa.Table:
    """Return the changes on each cluster to apply a candidate, as ``RECOMMENDED``.

    A cluster has no rows where no candidate is worth it, or nothing is known to compare with.

    Args:
        runs: Rows of ``RUNS``: those of the record hold the settings in force.
        candidates: Of :func:`core.history.backtest.ranking.ranked`.
        target: What is good enough.
        nouns: Of the system.
        label: Of the candidate; ``None`` for the one to choose, see :func:`chosen`.
    """
    found: list[dict[str, Any]] = []
    rows = candidates.to_pylist()
    for cluster, record in records_of(runs).items():
        mine = [row for row in rows if row["cluster"] == cluster]
        best, again = picked(mine, target, label), the(mine, REPLAYED)
        if best is not None and again is not None and again["rank"] is not None:
            found += [
                row | {"verdict": verdict(best, mine, target, nouns)}
                for row in _changes(cluster, best, again, record)
            ]
    return pa.Table.from_pylist(found, schema=RECOMMENDED)


def records_of(runs: pa.Table) -> dict[str, dict[str, Any]]:
    """Return the record of each cluster's last readable window, a row of ``RUNS``."""
    return {
        row["cluster"]: row
        for row in runs.to_pylist()
        if row["is_record"] and row["problem"] is None
    }


def _changes(
    cluster: str, best: Mapping[str, Any], again: Mapping[str, Any], record: Mapping[str, Any]
) -> list[dict[str, Any]]:
    force: dict[str, Any] = json.loads(record["settings"])
    why = (
        f"On the recorded load: deviation p95 from {format_ratio(again['deviation_p95'])} to "
        f"{format_ratio(best['deviation_p95'])}, unloads from {again['unloads_per_day']:,.1f} to "
        f"{best['unloads_per_day']:,.1f} a day, vs. the replayed recorded settings "
        f"({pluralize(best['minutes'], 'snapshot')}, "
        f"{pluralize(best['seeds'], 'seed')}).{outcome_note(best)}"
    )
    return [
        {
            "cluster": cluster,
            "candidate": best["candidate"],
            "key": key,
            "old": json.dumps(force[key]) if key in force else None,
            "new": json.dumps(value),
            "is_dynamic": SETTING_BY_KEY[key].is_dynamic,
            "takes_effect": SETTING_BY_KEY[key].takes_effect,
            "why": why,
        }
        for key, value in wanted_settings(best, record, force).items()
        if force.get(key) != value
    ]


def outcome_note(best: Mapping[str, Any]) -> str:
    """Return the effect of a candidate on the last recorded minute, with a leading blank."""
    outcome = (best["outcome"] or "").removeprefix("Simulated: ")
    return f" On the last recorded minute: {outcome}" if outcome else ""


def wanted_settings(
    best: Mapping[str, Any], record: Mapping[str, Any], force: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings that put a candidate in force: upstream key to value.

    Args:
        best: A row of ``CANDIDATES`` or ``RUNS``.
        record: That of what really happened: a class that is at work already is not set again.
        force: Settings in force.
    """
    wanted: dict[str, Any] = {}
    if best["shedding"] == NO_SHEDDING:
        wanted["loadBalancerSheddingEnabled"] = False
    elif best["shedding"] not in (record["shedding"], OPTIMIZER):
        wanted |= dict.fromkeys(SHEDDING_SWITCHES, True)
        wanted |= _class(_SHEDDING, best["shedding"], force)
    if best["placement"] != record["placement"]:
        wanted |= _class(_PLACEMENT, best["placement"], force)
    own: dict[str, Any] = json.loads(best["settings"])
    return wanted | own


def _class(key: str, name: str | None, force: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting that names a class, unless it names that class already."""
    if name is None or str(force.get(key, "")).rpartition(".")[2] == name:
        return {}
    return {key: upstream_class(name)}


# -- in words --------------------------------------------------------------------------------------


def describe_advice(runs: pa.Table, candidates: pa.Table, target: Target, nouns: Wording) -> str:
    """Return the model error and the advice of a back-test, in a few sentences.

    Args:
        runs: Rows of ``RUNS``.
        candidates: Rows of ``CANDIDATES``.
        target: What was good enough.
        nouns: Of the system that the runs are of.
    """
    rows = candidates.to_pylist()
    clusters = sorted({row["cluster"] for row in rows if row["cluster"] is not None})
    found = []
    for cluster in clusters:
        mine = [row for row in rows if row["cluster"] == cluster]
        about = f"{cluster}: " if len(clusters) > 1 else ""
        sentences = [
            _model_words(mine, nouns),
            _choice_words(mine, target, nouns),
            *_optimizer_words(mine, nouns),
            *_gap_words(runs, cluster),
            *_length_words(runs, cluster, nouns),
        ]
        found.append(about + " ".join(sentences))
    return " ".join(found)


def _model_words(rows: Sequence[dict[str, Any]], nouns: Wording) -> str:
    record, again = really(rows), the(rows, REPLAYED)
    if not _is_known(record) or not _is_known(again):
        return "The model error is unknown: the recorded settings could not be simulated."
    points = (again["deviation_p95"] - record["deviation_p95"]) * 100
    unloads = again["unloads_per_day"] - record["unloads_per_day"]
    return (
        f"Model error: {points:+.1f} points of deviation and {unloads:+,.1f} {nouns.moves} a day "
        "(replay of the recorded settings vs. actual)."
    )


def _choice_words(rows: Sequence[dict[str, Any]], target: Target, nouns: Wording) -> str:
    best = chosen(rows, target)
    refused = "".join(
        f" {row['candidate']}: {row['outcome']}" for row in rows if row["is_rejected"]
    )
    if best is not None:
        words = verdict(best, rows, target, nouns)
        return f"{words[:1].upper()}{words[1:]}: {best['candidate']}.{outcome_note(best)}{refused}"
    again = the(rows, REPLAYED)
    if again is None or again["rank"] is None:
        return "No recommendation: there is no baseline to compare the candidates with."
    return (
        "No recommendation: no candidate comes closer to the target (worse of deviation and "
        f"{nouns.moves} a day, as multiples of the target) than the replayed recorded settings "
        f"without a higher max {nouns.server} deviation than replayed or actual.{refused}"
    )


def _optimizer_words(rows: Sequence[dict[str, Any]], nouns: Wording) -> Iterator[str]:
    """Describe what the optimizer's plans reach: no setting makes the cluster do so."""
    row = next((one for one in rows if one["shedding"] == OPTIMIZER), None)
    if _is_known(row):
        yield (
            "Optimizer plans, applied manually: deviation p95 "
            f"{format_ratio(row['deviation_p95'])} with {row['unloads_per_day']:,.1f} "
            f"{nouns.moves} a day."
        )


def _length_words(runs: pa.Table, cluster: str, nouns: Wording) -> Iterator[str]:
    """Note that figures a day are extrapolated from less than a day."""
    mine = runs.filter(pc.and_(pc.equal(runs["cluster"], cluster), runs["is_record"]))
    minutes = (pc.sum(mine["days"]).as_py() or 0.0) * MINUTES_PER_DAY
    if 0 < minutes < _ALMOST_A_DAY:
        yield f"{nouns.moves.capitalize()} a day extrapolated from {format_minutes(minutes)}."


def format_minutes(minutes: float) -> str:
    """Return the length of a record: ``45 min``, ``6 h``."""
    if minutes < _MINUTES_PER_HOUR:
        return f"{minutes:.0f} min"
    return f"{minutes / _MINUTES_PER_HOUR:.3g} h"


def _gap_words(runs: pa.Table, cluster: str) -> Iterator[str]:
    """Describe which time counts for no candidate."""
    mine = runs.filter(pc.and_(pc.equal(runs["cluster"], cluster), runs["is_record"]))
    rows = sorted(mine.to_pylist(), key=lambda row: row["window"])
    gaps = [
        (one["end"], other["start"]) for one, other in pairwise(rows) if one["end"] < other["start"]
    ]
    if gaps:
        first, last = (f"{ms_to_datetime(at):%Y-%m-%d %H:%M}Z" for at in max(gaps, key=_length))
        longest = "from" if len(gaps) == 1 else "the longest from"
        yield (
            f"The record has {pluralize(len(gaps), 'gap')}, {longest} {first} to {last}; this "
            "time is excluded for all candidates."
        )
    unread = [row["problem"] for row in rows if row["problem"] is not None]
    if unread:
        windows = pluralize(len(unread), "window")
        yield f"{windows} of {len(rows)} are excluded for all candidates: {unread[0]}"


def _length(gap: tuple[int, int]) -> int:
    return gap[1] - gap[0]
