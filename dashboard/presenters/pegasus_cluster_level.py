"""What the level switch shows: what each level allows, and what setting another one would do."""

from __future__ import annotations

from typing import Final

import pandas as pd

from core.pegasus.levels import ALLOWANCES, FunctionLevel, clears_proposals
from core.pegasus.snapshot import PegasusFacts
from dashboard.presenters.pegasus_cluster import word_of

__all__ = [
    "allowances_frame",
    "change_sentences",
    "level_remarks",
    "may_clear",
    "shell_line",
    "step_label",
    "word_of",
]

_ABILITIES: Final = {
    "records_dead_primaries": "records dead primaries",
    "accepts_updates": "accepts changes, creates tables",
    "cures": "repairs partitions, sends proposals",
    "counts_balance": "counts what balancing would do",
    "balances": "balances",
    "deletes_replicas": "deletes replicas of no use",
}
NOT_PERSISTED: Final = (
    "The level is not kept: when another meta server takes over, it is steady again."
)


def allowances_frame(facts: PegasusFacts) -> pd.DataFrame:
    """Return one row an ability, a column a level; the stored and effective ones are marked."""
    return pd.DataFrame(
        {
            "allows": [label.capitalize() for label in _ABILITIES.values()],
            **{
                step_label(facts, level): [
                    "✔ yes" if getattr(ALLOWANCES[level], name) else "no" for name in _ABILITIES
                ]
                for level in FunctionLevel
            },
        }
    )


def level_remarks(facts: PegasusFacts) -> list[str]:
    """Return what must be known about the levels of this cluster."""
    stored, effective = facts.stored_level, facts.effective_level
    found = []
    if stored is not None and effective is not None and stored is not effective:
        found.append(
            f"`{stored.word}` is stored and `{effective.word}` is in force: too few nodes are "
            "alive, so the meta server protects itself until they are back."
        )
    found.append(
        "Setting steady or a lower level, even the one that is stored, discards every pending "
        "proposal of every table."
    )
    found.append(NOT_PERSISTED)
    return found


def change_sentences(facts: PegasusFacts, wanted: FunctionLevel) -> list[str]:
    """Return what would change if another level were stored, a sentence each."""
    stored = facts.stored_level
    found = [f"The stored level becomes {wanted.word}; it is {word_of(stored)}."]
    found.append(ALLOWANCES[wanted].sentence)
    if stored is not None:
        found += _differences(stored, wanted)
    return found


def _differences(stored: FunctionLevel, wanted: FunctionLevel) -> list[str]:
    was, will = ALLOWANCES[stored], ALLOWANCES[wanted]
    begins = [text for name, text in _ABILITIES.items() if getattr(will, name) > getattr(was, name)]
    ends = [text for name, text in _ABILITIES.items() if getattr(will, name) < getattr(was, name)]
    found = []
    if begins:
        found.append(f"From then on it also: {'; '.join(begins)}.")
    if ends:
        found.append(f"It stops to do: {'; '.join(ends)}.")
    return found


def shell_line(wanted: FunctionLevel) -> str:
    """Return the line of Pegasus' shell that does the same."""
    return f"set_meta_level {wanted.word}"


def step_label(facts: PegasusFacts, level: FunctionLevel) -> str:
    """Return a step of the switch: the level, and whether it is stored or in force."""
    stored, effective = facts.stored_level, facts.effective_level
    if level is stored:
        return f"{level.word} (stored)" if effective is not stored else f"{level.word} (now)"
    return f"{level.word} (in force)" if level is effective else level.word


def may_clear(level: FunctionLevel) -> bool:
    """Return whether setting a level again, though it is stored, throws proposals away."""
    return clears_proposals(level)
