"""Causes as rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from core.diagnosis.model import Cause, Diagnosis, Effect
from core.units import format_ratio, pluralize

if TYPE_CHECKING:
    from core.history.analysis.diagnosis import OverTime
    from core.history.analysis.prevention import Prevention

MAX_ROWS = 5
UNKNOWN = "\N{EN DASH}"
COLUMNS = (
    *("cause", "objects", "measured", "limit", "now", "fixed"),
    *("moves", "back", "converges", "code"),
)


def title_of(cause: Cause) -> str:
    """Return the code of a cause as people read it: ``even distribution``."""
    return cause.code.replace("_", " ").capitalize()


def rows_of(found: Diagnosis) -> pd.DataFrame:
    """Return one row a cause, best first; deviations in percent of the mean."""
    return pd.DataFrame(
        [
            {
                "cause": title_of(cause),
                "objects": ", ".join(cause.objects[:2]) or ", ".join(cause.keys[:1]),
                "measured": _value(cause.measured, cause.unit),
                "limit": _value(cause.threshold, cause.unit),
                "now": _percent(cause.effect.before.deviation),
                "fixed": _percent(cause.effect.after.deviation),
                "moves": cause.effect.after.moves,
                "back": cause.effect.after.returned,
                "converges": rest_of(cause.effect),
                "code": cause.code,
            }
            for cause in found.causes
        ],
        columns=list(COLUMNS),
    )


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else ratio * 100


def rest_of(effect: Effect) -> str:
    """Return when the cluster comes to rest with the fix."""
    return pluralize(effect.after.rounds, "round") if effect.after.rounds else "at once"


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return UNKNOWN
    if unit == "ratio":
        return format_ratio(value)
    return f"{value:,.4g} {unit}".strip()


def prevention_rows(found: Prevention) -> pd.DataFrame:
    """Return what happened, its replay, and the best candidate: one row each, in percent."""
    runs = {
        "recorded": found.recorded,
        "recorded settings, replayed": found.replayed,
        found.best.label if found.best else "": found.best,
    }
    return pd.DataFrame(
        [
            {
                "run": label,
                "moves": run.moves,
                "back": run.returned,
                "deviation": run.deviation * 100,
            }
            for label, run in runs.items()
            if run is not None
        ],
        columns=["run", "moves", "back", "deviation"],
    )


def verdict_rows(found: OverTime) -> pd.DataFrame:
    """Return the verdicts on the sampled minutes, the most frequent first."""
    return pd.DataFrame(
        [{"minutes": count, "verdict": sentence} for sentence, count in found.verdicts[:MAX_ROWS]],
        columns=["minutes", "verdict"],
    )


def event_rows(found: OverTime) -> pd.DataFrame:
    """Return the moves of the object in question, newest first."""
    return pd.DataFrame(
        [
            {
                "when": one.taken_at,
                "source": one.before,
                "destination": one.after or UNKNOWN,
                "by": one.by or UNKNOWN,
                "why": one.why,
            }
            for one in found.moved
        ],
        columns=["when", "source", "destination", "by", "why"],
    )


def tried_words(found: Diagnosis) -> str:
    """Return how far the search went."""
    if not found.problem:
        return "The balancer ends even and at rest on this snapshot."
    rest = f", {found.untried:,} not for lack of time" if found.untried else ""
    notes = f" {' '.join(found.notes[:1])}" if found.notes else ""
    return f"{pluralize(found.tried, 'change')} simulated{rest}.{notes}"
