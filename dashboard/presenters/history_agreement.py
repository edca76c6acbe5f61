"""What the shadow balancer foretold and what came, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from core.history.agreement import Agreement
from core.units import counted, format_ratio, ms_to_datetime
from dashboard.presenters.naming import listed

CONFIGURED: Final = "the configured one"
VERDICT_WORDS: Final = {
    "equal": "● the same bundles",
    "overlapping": "◐ some of the same",
    "other": "○ other bundles",
    "nothing": "● both nothing",
    "only_real": "▲ only the leader moved",
    "only_foretold": "▼ only foretold",
    "not_judged": "? not judged",
}
_MAX_NAMES: Final = 2


def configured_words(names: Sequence[str]) -> str:
    """Return the choice of the configured strategy with its name, or names where it changed."""
    return f"{CONFIGURED} ({', '.join(sorted(names))})" if names else CONFIGURED


def notes(found: Agreement) -> list[str]:
    """Return the figures beside the sentence."""
    lines = []
    if found.judged:
        lines.append(
            f"{found.judged:,} rounds judged: {format_ratio(found.agreed_ratio)} agree, quiet ones "
            f"counted; of those with moves, {format_ratio(found.acting_ratio)} are equal."
        )
    if found.moves:
        lines.append(
            "The leader's are all moves that were not Trimtab's: what somebody unloaded by hand "
            "(pulsar-admin) counts among them."
        )
    if found.landing_ratio is not None and found.landing_expected is not None:
        lines.append(
            f"Where bundles landed had been given {format_ratio(found.landing_ratio)} on average; "
            f"{format_ratio(found.landing_expected)} would be exact."
        )
    if found.moves_by_others:
        reasons = "; ".join(f"{count:,}: {why}" for why, count in found.left_out.items())
        lines.append(f"{counted(found.moves_by_others, 'move')} left out ({reasons}).")
    return lines


def rounds_frame(found: Agreement) -> pd.DataFrame:
    """Return the rounds as rows, the newest first."""
    rows = [
        {
            "at": ms_to_datetime(row["taken_at"]),
            "verdict": VERDICT_WORDS.get(row["verdict"], row["verdict"]),
            "acting": bool(row["foretold"] or row["moved"]),
            "foretold": listed(row["foretold"], _MAX_NAMES),
            "moved": listed(row["moved"], _MAX_NAMES),
            "both": row["both"],
            "early": row["early"],
            "brokers": {None: "", True: "same", False: "others"}[row["same_brokers"]],
            "why": row["why"],
            "sentence": row["sentence"],
        }
        for row in reversed(found.rounds.to_pylist())
    ]
    names = ("at", "verdict", "acting", "foretold", "moved", "both", "early", "brokers", "why")
    return pd.DataFrame(rows, columns=[*names, "sentence"])
