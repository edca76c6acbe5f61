"""The one sentence that answers "is this cluster balanced?", from live figures."""

from __future__ import annotations

from typing import Final

from core.health.findings import Finding, count_by_severity
from core.health.measures import DEFAULT_TARGET, Measures, Spread, Target
from core.units import format_ratio

_TOP_SHARE_OF_BROKERS: Final = 0.25


def balance_sentence(measures: Measures, target: Target = DEFAULT_TARGET) -> str:
    """Return for example ``3 of 12 brokers carry 61 % of the traffic; b1:8080 is 40 % above ...``.

    Says ``unknown`` where it is unknown; never rounds an imbalance away.
    """
    spread = measures.of(target.measure)
    count = len(spread.brokers)
    if count == 0:
        return "No broker is known: nothing can be said about the balance."
    if spread.known_count == 0:
        return f"None of the {count} brokers reports its {spread.label}: the balance is unknown."
    if not spread.total:
        return f"The {count} brokers carry no {spread.label} at all."
    if count == 1:
        return (
            f"The only broker carries {spread.text_of(spread.total)}: there is nothing to balance."
        )
    return f"{top_share_sentence(spread)}; {_verdict_clause(measures, target)}."


def top_share_sentence(spread: Spread) -> str:
    """Return which share of the total the busiest quarter of the brokers carries, one clause."""
    top = max(1, round(len(spread.brokers) * _TOP_SHARE_OF_BROKERS))
    share = spread.share_of_top(top)
    verb = "carries" if top == 1 else "carry"
    return f"{top} of {len(spread.brokers)} brokers {verb} {_percent(share)} of the {spread.label}"


def findings_sentence(findings: tuple[Finding, ...]) -> str:
    """Return for example ``2 errors, 3 warnings, 1 unknown``; ``nothing to report`` without any."""
    counts = count_by_severity(findings)
    words = {"error": "error", "warning": "warning", "unknown": "unknown", "info": "note"}
    parts = [
        f"{number} {words[severity]}{'' if number == 1 or severity == 'unknown' else 's'}"
        for severity, number in counts.items()
        if number
    ]
    return ", ".join(parts) if parts else "nothing to report"


def _verdict_clause(measures: Measures, target: Target) -> str:
    spread = measures.of(target.measure)
    worst = (
        f"{spread.worst} is {format_ratio(spread.max_deviation_ratio)} above the mean of "
        f"{spread.text_of(spread.mean)}"
    )
    match measures.verdict(target):
        case "balanced":
            return f"balanced: {worst}, the target is {target.label}"
        case "unbalanced":
            return f"{worst}, the target is {target.label}"
        case "unknown":
            missing = len(spread.brokers) - spread.known_count
            return f"{worst}, but {missing} brokers are unknown, so is the balance"


def _percent(ratio: float | None) -> str:
    return "an unknown share" if ratio is None else f"{ratio * 100:.0f} %"
