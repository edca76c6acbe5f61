"""Causes as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from core.diagnosis.model import Cause, Diagnosis, Effect
from core.findings.quantity import Quantity
from core.units import format_age, format_band, format_deviation, format_ratio, pluralize
from dashboard.charts.dumbbell import DeviationPairs
from dashboard.presenters.figures import KeyFigure, Status, band_status

if TYPE_CHECKING:
    from core.history.analysis.diagnosis import PeriodDiagnosis
    from core.history.analysis.prevention import Prevention
    from dashboard.app_pages.diagnose.system import OptimalPlan

MAX_ROWS = 5
UNKNOWN = "\N{EN DASH}"
COLUMNS = (
    *("cause", "objects", "change", "affected", "now", "fixed"),
    *("moves", "back", "kind", "code"),
)
EFFECT = ("fixed", "moves", "back")
"""Columns that only causes with an effect on balance fill."""


def title_of(cause: Cause) -> str:
    """Return a cause in a few words: the title of a fact, else its code as people read it."""
    title = cause.title or cause.code.replace("_", " ").capitalize()
    changes = len(cause.fix.wanted) + len(cause.fix.lines)
    return f"{title} ({changes} changes)" if cause.effect is not None and changes > 1 else title


def rows_of(diagnosis: Diagnosis) -> pd.DataFrame:
    """Return one row a cause, best first; deviations in percent of the mean."""
    rows = pd.DataFrame(
        [
            {
                "cause": title_of(cause),
                "kind": "observed" if cause.effect is None else "proven",
                "affected": affected_words(cause) or None,
                "objects": ", ".join(cause.objects[:2]) or ", ".join(cause.keys[:1]),
                "change": change_words(cause) or None,
                **_effect(cause.effect),
                "code": cause.code,
            }
            for cause in diagnosis.by_effect
        ],
        columns=list(COLUMNS),
    )
    whole = {"moves": "Int64", "back": "Int64"}
    return rows.astype({"now": "float64", "fixed": "float64", **whole})


def effects_of(diagnosis: Diagnosis) -> DeviationPairs | None:
    """Return the max deviation now and with each fix, as pairs for the chart.

    Returns:
        ``None`` if no cause has an effect on balance.
    """
    effects = [
        (title_of(cause), cause.effect) for cause in diagnosis.by_effect if cause.effect is not None
    ]
    now, after = (
        np.array([np.nan if one is None else one for one in side], float)
        for side in (
            [one.before.deviation for _, one in effects],
            [one.after.deviation for _, one in effects],
        )
    )
    if not np.isfinite(after).any():
        return None
    return DeviationPairs(brokers=[title for title, _ in effects], now=now, after=after)


def affected_words(cause: Cause) -> str:
    """Return the largest effect of a cause on clients; empty if none or unknown."""
    return next((pluralize(count, noun) for count, noun in cause.cost.counts), "")


def _effect(effect: Effect | None) -> dict[str, object]:
    """Return the columns of an effect; a fact has none of them."""
    if effect is None:
        return dict.fromkeys(("now", "fixed", "moves", "back"))
    return {
        "now": _percent(effect.before.deviation),
        "fixed": _percent(effect.after.deviation),
        "moves": effect.after.moves,
        "back": effect.after.returned,
    }


def remedy_rank(deviation: float | None, moves: int, target_ratio: float) -> tuple[float, int]:
    """Return a sort key of remedies: even enough with the fewest moves, else the most even."""
    if deviation is None:
        return float("inf"), moves
    return max(deviation, target_ratio), moves


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else ratio * 100


def change_words(cause: Cause) -> str:
    """Return the deciding setting's value now and with the fix, ``0.9 → 0.2``; "" if none."""
    key = next((one for one in cause.keys if one in cause.present), "")
    if key not in cause.fix.wanted:
        return ""
    values = (cause.present[key], cause.fix.wanted[key])
    return " → ".join(_setting_words(one) for one in values)


def _setting_words(value: object) -> str:
    """Return a value as the configuration has it; of a class its short name."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or UNKNOWN
    text = str(value)
    return (text.rpartition(".")[2] if text.startswith("org.") else text) or UNKNOWN


def changes_of(cause: Cause) -> list[str]:
    """Return each setting of a fix with its value now and then."""
    wanted = cause.fix.wanted
    return [
        f"{key}: {_setting_words(value)} → {_setting_words(wanted[key])}"
        for key, value in cause.present.items()
        if key in wanted
    ]


def facts_of(cause: Cause) -> list[str]:
    """Return the numbers of a cause that its table row has no room for."""
    facts = changes_of(cause)
    if cause.measured is not None:
        limit = f" vs. {_value(cause.threshold, cause.unit)}" if cause.threshold else ""
        facts.append(f"Measured: {_value(cause.measured, cause.unit)}{limit}")
    if cause.effect is not None:
        rounds = cause.effect.after.rounds
        facts.append(
            f"Converges after {pluralize(rounds, 'round')}"
            if cause.effect.after.converges
            else "Does not converge"
        )
    return facts


def _value(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else Quantity(value, unit).text


def prevention_rows(prevention: Prevention) -> pd.DataFrame:
    """Return the incident, its replay and the best candidate: one row each, in percent."""
    runs = {
        "recorded": prevention.recorded,
        "recorded settings, replayed": prevention.replayed,
        prevention.best.label if prevention.best else "": prevention.best,
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


def verdict_rows(diagnosis: PeriodDiagnosis) -> pd.DataFrame:
    """Return the verdicts on the sampled minutes, the most frequent first."""
    return pd.DataFrame(
        [
            {"minutes": count, "verdict": sentence}
            for sentence, count in diagnosis.verdicts[:MAX_ROWS]
        ],
        columns=["minutes", "verdict"],
    )


def event_rows(diagnosis: PeriodDiagnosis) -> pd.DataFrame:
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
            for one in diagnosis.moved
        ],
        columns=["when", "source", "destination", "by", "why"],
    )


def key_figures(
    diagnosis: Diagnosis, deviation: float | None, optimal: OptimalPlan | None = None
) -> list[KeyFigure]:
    """Return the deviation now and with each remedy, and the progress of the search.

    Args:
        deviation: Of the snapshot; ``None``: unknown, or the system is judged by other means.
        optimal: The optimal plan; ``None``: not computed, or there is none.
    """
    cause = diagnosis.best
    best = None if cause is None else cause.effect
    now = deviation if best is None else best.before.deviation
    untried = "all applicable" if diagnosis.is_complete else diagnosis.progress
    figures = []
    if now is not None:
        figures.append(
            KeyFigure(
                label="Max deviation",
                value=format_deviation(now),
                note=f"target {format_band(diagnosis.target_ratio)}",
                status=band_status(now, diagnosis.target_ratio) if diagnosis.problem else "ok",
                help="Busiest server vs. mean, "
                + ("at convergence." if best is not None else "in the snapshot."),
            )
        )
    if cause is not None and best is not None:
        figures.append(
            KeyFigure(
                label="With the best fix",
                value=format_ratio(best.after.deviation),
                note=pluralize(best.after.moves, "move"),
                status=band_status(best.after.deviation, diagnosis.target_ratio),
                help=f"{title_of(cause)}: the balancer, simulated to convergence.",
            )
        )
    if optimal is not None:
        figures.append(
            KeyFigure(
                label="With the optimal plan",
                value=format_ratio(optimal.deviation),
                note=pluralize(optimal.moves, "move"),
                status=band_status(optimal.deviation, diagnosis.target_ratio),
                help="The fewest moves that the optimizer finds, without a change of settings.",
            )
        )
    return [
        *figures,
        KeyFigure(
            label="Causes",
            # no cause yet is not the same as no cause
            value=str(len(diagnosis.causes))
            if diagnosis.causes or diagnosis.is_complete
            else UNKNOWN,
            note=_kinds(diagnosis),
            status=_state(diagnosis),
            help="Observed: found in the snapshot. Proven: the simulated fix improves it.",
        ),
        KeyFigure(
            label="Simulated changes",
            value=f"{diagnosis.tried:,}",
            note=untried if diagnosis.problem or not diagnosis.is_complete else "not required",
        ),
    ]


def _state(diagnosis: Diagnosis) -> Status:
    """Return the colour of the number of causes: none is green where every area was examined."""
    if not diagnosis.is_clear:
        return "warning"
    return "ok" if diagnosis.verdict is None or diagnosis.verdict.state == "ok" else "unknown"


def _kinds(diagnosis: Diagnosis) -> str:
    """Return the number of observed causes and of causes proven by simulation."""
    facts = sum(cause.effect is None for cause in diagnosis.causes)
    proven = len(diagnosis.causes) - facts
    if not diagnosis.causes:
        return "none found" if diagnosis.is_complete else "none found yet"
    counts = ((facts, "observed"), (proven, "proven"))
    return ", ".join(f"{count} {kind}" for count, kind in counts if count)


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """Progress of the search of a diagnosis.

    Attributes:
        count: Changes tried so far, or parts done.
        elapsed_s: Since it began.
        total: Parts in all; 0: unknown.
        step: What is being done, a few words.
    """

    count: int
    elapsed_s: float
    total: int = 0
    step: str = ""


def replay_progress(progress: SearchProgress | None) -> tuple[float, str]:
    """Return the share of a search on recorded time that is done, and the label of its bar."""
    if progress is None:
        return 0.0, "Waiting for another search."
    words = progress.step.capitalize() or "Reading the history"
    if not progress.total:
        return 0.0, f"{words}."
    share = min(1.0, progress.count / progress.total)
    return share, f"{words}: {progress.count} of {progress.total}."


def progress_words(tried: SearchProgress | None) -> str:
    """Return the progress of the search, as the label of its progress bar."""
    if tried is None:
        return "Waiting for another search."
    return f"{pluralize(tried.count, 'change')} simulated, {format_age(tried.elapsed_s)} elapsed."
