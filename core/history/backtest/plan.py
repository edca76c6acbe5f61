"""The plan that puts recommended settings in force."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.errors import InputError
from core.history.backtest.advice import is_plannable
from core.history.backtest.pegasus.rules import LEVEL
from core.pegasus.levels import parse_level
from core.pegasus.plan.draft import Draft
from core.plan.model import Diagnostic, Plan
from core.plan.options import PlanOptions
from core.pulsar.plan.setting import build_setting_plan
from core.snapshot import AnySnapshot
from core.snapshot.pegasus import PegasusSnapshot

_CLEAR: Final = "clear"


def recommended_plan(
    snapshot: AnySnapshot, rows: Sequence[Mapping[str, Any]], terms: PlanOptions
) -> Plan:
    """Return the plan that sets what a back-test recommends.

    Settings that are felt after a restart only are left out, and the plan says so.

    Args:
        snapshot: The cluster.
        rows: Of the table ``recommended``, those of this cluster.
        terms: When, why and how long.
    Raises:
        InputError: Nothing is left that a plan can set.
    """
    wanted = {row["key"]: json.loads(row["new"]) for row in rows if is_plannable(row)}
    left = [row for row in rows if not is_plannable(row)]
    if not wanted:
        raise InputError(
            "Nothing is recommended that can be set while the cluster runs.",
            hint=restart_words(rows),
        )
    if not isinstance(snapshot, PegasusSnapshot):
        return build_setting_plan(
            snapshot,
            {key: text_of(one) for key, one in wanted.items()},
            terms,
            notes=[_left_out(row) for row in left],
        )
    draft = Draft(snapshot, terms)
    for key, value in wanted.items():
        if key == LEVEL:
            draft.set_level(parse_level(str(value)), is_restored=False)
        else:
            draft.set_setting(key, text_of(value) or _CLEAR, server=None, is_restored=False)
    draft.note("info", "not_persisted", "It is forgotten when the leading meta server restarts.")
    return draft.seal()


def restart_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what to put into ``broker.conf``, empty: nothing.

    Args:
        rows: Of the table ``recommended``.
    """
    lines = [
        f"{row['key']}={text_of(json.loads(row['new']))}" for row in rows if not is_plannable(row)
    ]
    if not lines:
        return ""
    return f"Put into broker.conf and restart the brokers one by one: {', '.join(lines)}."


def _left_out(row: Mapping[str, Any]) -> Diagnostic:
    return Diagnostic(
        severity="warning",
        code="setting_needs_restart",
        subject=row["key"],
        sentence=f"{row['key']} is recommended, too; it is felt after a restart only and is not in "
        "this plan.",
        hint=restart_words([row]),
    )


def text_of(value: object) -> str:
    """Return a JSON value as servers write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
