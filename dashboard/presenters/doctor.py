"""What the settings doctor says, in words and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pandas as pd

from core.health.doctor import AREAS, Diagnosis, Examination
from core.health.doctor.groups import BrokerGroup, Comparison
from core.pulsar.presets import set_option
from core.units import counted

MOST_GROUPS: Final = 8
_SAME: Final = "·"


def answer(found: Examination) -> str:
    """Return the one sentence on top: what needs a look, what differs, what is not known."""
    warned = len(found.warnings)
    compared = found.comparison
    if not compared.brokers:
        return "No broker is known, so nothing can be said about its settings."
    start = (
        "Nothing contradicts"
        if not warned
        else "One thing needs a look"
        if warned == 1
        else f"{warned} things need a look"
    )
    apart = (
        f"the {counted(compared.brokers, 'broker')} differ in "
        f"{counted(len(compared.rows), 'thing')}"
        if compared.rows
        else f"all {compared.brokers} brokers are alike"
        if compared.brokers > 1
        else "there is one broker"
    )
    unknown = "; some of it could not be judged" if found.unjudged else ""
    return f"{start}, and {apart}; {len(found.changed)} settings are not the defaults{unknown}."


def group_words(group: BrokerGroup) -> str:
    """Return who is in a group, short enough for the head of a column."""
    mark = " (leader)" if group.has_leader else ""
    first = group.brokers[0]
    if len(group.brokers) == 1:
        return first + mark
    return f"{first} and {len(group.brokers) - 1} more{mark}"


def areas(found: Iterable[Diagnosis]) -> dict[str, list[Diagnosis]]:
    """Return the diagnoses by area in words, in the order of the areas, without empty ones."""
    by_area: dict[str, list[Diagnosis]] = {words: [] for words in AREAS.values()}
    for one in found:
        by_area[AREAS[one.area]].append(one)
    return {words: held for words, held in by_area.items() if held}


def fix_options(one: Diagnosis) -> list[str]:
    """Return the dynamic part of a fix as changes, ``KEY=VALUE`` with VALUE as JSON."""
    return [
        set_option(key, list(value) if isinstance(value, tuple) else value)
        for key, value in one.fix.wanted.items()
    ]


def diagnoses_table(found: Sequence[Diagnosis]) -> pd.DataFrame:
    """Return all of it as a table, for a file."""
    return pd.DataFrame(
        [
            {
                "severity": one.severity,
                "area": AREAS[one.area],
                "code": one.code,
                "evidence": one.evidence,
                "consequence": one.consequence,
                "fix": one.fix.sentence,
                "dynamic": ", ".join(fix_options(one)),
                "broker_conf": ", ".join(one.fix.lines),
                "settings": ", ".join(one.keys),
                "brokers": ", ".join(one.brokers),
            }
            for one in found
        ],
        columns=[
            *("severity", "area", "code", "evidence", "consequence", "fix", "dynamic"),
            *("broker_conf", "settings", "brokers"),
        ],
    )


def comparison_table(compared: Comparison) -> pd.DataFrame:
    """Return one row for what differs, one column for each of the largest groups of brokers.

    A cell that has the most common value holds a dot, so that what is odd stands out.
    """
    groups = compared.groups[:MOST_GROUPS]
    rows = []
    for row in compared.rows:
        common = compared.common[row]
        cells = {
            group_words(group): _SAME if group.values[row] == common else group.values[row]
            for group in groups
        }
        rows.append({"what": row, "common": common, **cells})
    return pd.DataFrame(rows, columns=["what", "common", *(group_words(one) for one in groups)])


def members(compared: Comparison) -> list[str]:
    """Return who is in each of the shown groups that has several brokers."""
    return [
        f"{group_words(group)}: {', '.join(group.brokers)}"
        for group in compared.groups[:MOST_GROUPS]
        if len(group.brokers) > 1
    ]
