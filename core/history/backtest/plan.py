"""The plan that puts recommended settings in force."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import InputError
from core.history.backtest.advice import is_plannable
from core.history.backtest.setting_text import setting_text
from core.history.backtest.systems import system_named
from core.plan.model import Diagnostic, Plan
from core.plan.options import PlanOptions
from core.snapshot.store import Storable


def recommended_plan(
    snapshot: Storable, rows: Sequence[Mapping[str, Any]], terms: PlanOptions
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
            "No recommended setting can be changed at run time.",
            hint=restart_words(rows),
        )
    system = system_named(snapshot.manifest.kind)
    return system.plan(snapshot, wanted, [_left_out(row) for row in left], terms)


def restart_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the ``broker.conf`` lines of a recommendation, or "".

    Args:
        rows: Of the table ``recommended``.
    """
    lines = [
        f"{row['key']}={setting_text(json.loads(row['new']))}"
        for row in rows
        if not is_plannable(row)
    ]
    if not lines:
        return ""
    return f"Add to broker.conf and restart the brokers one by one: {', '.join(lines)}."


def _left_out(row: Mapping[str, Any]) -> Diagnostic:
    return Diagnostic(
        severity="warning",
        code="setting_needs_restart",
        subject=row["key"],
        sentence=f"{row['key']} is also recommended, but takes effect only after a restart and "
        "is not in this plan.",
        hint=restart_words([row]),
    )
