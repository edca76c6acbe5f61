"""Causes as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from core.diagnosis.model import Cause, Diagnosis, Effect
from core.units import format_age, format_band, format_deviation, format_ratio, pluralize
from dashboard.presenters.figures import KeyFigure, band_status

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
    """Return after how many rounds nothing moves any more with the fix."""
    if not effect.after.converges:
        return "never"
    return f"{effect.after.rounds:,}"


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


def key_figures(found: Diagnosis, deviation: float | None) -> list[KeyFigure]:
    """Return the deviation as it is and with the best fix, and how far the search went.

    Args:
        found: The diagnosis.
        deviation: Of the snapshot; ``None``: unknown, or the system is judged by other means.
    """
    best = found.causes[0].effect if found.causes else None
    now = deviation if best is None else best.before.deviation
    untried = f"{found.untried:,} not in time" if found.untried else "all that apply"
    figures = []
    if now is not None:
        figures.append(
            KeyFigure(
                label="Max deviation",
                value=format_deviation(now),
                note=f"target {format_band(found.target_ratio)}",
                status=band_status(now, found.target_ratio) if found.problem else "ok",
                help="Of the busiest server from the mean, when the balancer has ended.",
            )
        )
    if best is not None:
        figures.append(
            KeyFigure(
                label="With the first fix",
                value=format_deviation(best.after.deviation),
                note=pluralize(best.after.moves, "move"),
                status=band_status(best.after.deviation, found.target_ratio),
            )
        )
    return [
        *figures,
        KeyFigure(
            label="Causes",
            value=str(len(found.causes)),
            note="each fix simulated" if found.causes else "",
            status="warning" if found.problem else "ok",
        ),
        KeyFigure(
            label="Changes tried",
            value=f"{found.tried:,}",
            note=untried if found.problem else "none is needed",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Tried:
    """How far the search of a diagnosis is.

    Attributes:
        count: Changes tried so far.
        elapsed_s: Since it began.
    """

    count: int
    elapsed_s: float


def progress_words(tried: Tried | None) -> str:
    """Return how far the search is, for the bar of its time."""
    if tried is None:
        return "Waiting for the search before it."
    return f"Simulating changes: {tried.count:,} tried, {format_age(tried.elapsed_s)} elapsed."
