"""Candidates of a back-test on a Pegasus cluster: policies, switches with values, presets."""

from __future__ import annotations

import json
from typing import Final

from core.history.backtest.pegasus.rules import LEVEL, SWITCHES
from core.history.backtest.pegasus.system import PEGASUS
from core.history.backtest.system import AnyBacktest
from core.pegasus.levels import FunctionLevel
from core.pegasus.settings import server_setting
from dashboard.app_pages.backtest.model import parsed
from dashboard.app_pages.backtest.system import GridPreset

POLICIES: Final = ("app", "cluster")


class PegasusGrid:
    """Pegasus; see :class:`dashboard.app_pages.backtest.system.GridSystem`."""

    system: AnyBacktest = PEGASUS
    strategy = "policy"
    strategies_field = "policies"
    values_field = "switches"
    placement: tuple[str, ...] = ()
    keys: tuple[str, ...] = SWITCHES

    def describe(self, key: str) -> str:
        """Return the description of a switch."""
        return "Function level" if key == LEVEL else server_setting(key).meaning

    def typed(self, key: str, text: str) -> object:
        """Return a number or a truth value as such, anything else as it is written."""
        del key  # servers take texts
        value = parsed(text)
        return text.strip() if isinstance(value, str) else value


GRID: Final = PegasusGrid()


def suggestions(name: str) -> tuple[str, ...]:
    """Return values of a switch worth trying."""
    if name == LEVEL:
        return tuple(level.word for level in reversed(FunctionLevel))
    default = server_setting(name).default
    if default in ("true", "false"):
        return ("true", "false")
    if default.isdigit():
        number = int(default)
        return tuple(dict.fromkeys(str(int(number * step)) for step in (0.5, 1, 2, 4)))
    return (default,) if default else ()


def upstream_text(value: object) -> str:
    """Return a value as the servers take it."""
    return value if isinstance(value, str) else json.dumps(value)


PRESETS: Final = (
    GridPreset(
        title="Both policies",
        help="Balance by table and over the whole cluster.",
        shedding=POLICIES,
    ),
    GridPreset(
        title="Both policies, both settings",
        help="With and without copies, all tables at once and in turn.",
        shedding=POLICIES,
        keys=("only_move_primary", "balancer_in_turn"),
    ),
    GridPreset(
        title="Operations per round",
        help="Max concurrent changes of the cluster policy.",
        shedding=("cluster",),
        keys=("balance_op_count_per_round",),
    ),
)
