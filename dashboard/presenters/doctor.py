"""What the settings doctor says, in words and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from core.health.doctor import AREAS, Diagnosis
from core.health.doctor.answer import group_words
from core.health.doctor.groups import Comparison
from core.pulsar.presets import set_option

MOST_GROUPS: Final = 8
_SAME: Final = "·"


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
