"""What a candidate goes by: policy, switches and level of the record, with its own on top."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from core.errors import InputError, OpsError, UnknownNameError
from core.history.backtest.model import AGAIN, RECORD, Candidate, Grid
from core.pegasus.balance.model import BalanceOptions
from core.pegasus.balance.settings import set_options
from core.pegasus.guardian import GuardianOptions
from core.pegasus.levels import FunctionLevel, effective_level, level_of, parse_level
from core.pegasus.settings import checked_value, server_setting
from core.units import is_whole

LEVEL: Final = "level"
"""The switch of a grid that stands for the function level; its values are the levels' names."""

RECORDED_LEVEL: Final = "recorded"
_STORED: Final = "level.stored"
_PREFIX: Final = "meta.lb."
_OF_APP: Final = frozenset(
    {"only_move_primary", "only_primary_balancer", "balancer_in_turn", "ignored_app_list"}
)
_OF_CLUSTER: Final = frozenset({"balance_op_count_per_round"})
_OF_GUARDIAN: Final = frozenset(
    {
        "assign_delay_ms",
        "assign_secondary_black_list",
        "add_secondary_enable_flow_control",
        "add_secondary_max_count_for_one_node",
    }
)
SWITCHES: Final = (LEVEL, *sorted(_OF_APP | _OF_CLUSTER | _OF_GUARDIAN))
"""What a grid may try, by the names that a snapshot has for them."""

_MS: Final = 1000.0


@dataclass(frozen=True)
class Rules:
    """The meta server's effective rules at one moment.

    Attributes:
        options: Of the balancer.
        level: Stored function level.
        guardian: Of the guardian.
        interval_s: Seconds between two looks of the guardian and the balancer.
        most_added: Additions a node gets at one look; ``None`` for no limit.
        min_live_node_count: Fewer living nodes than this, and nothing is done.
        live_percentage: The same as a share of the known nodes, 0..100.
    """

    options: BalanceOptions
    level: FunctionLevel
    guardian: GuardianOptions
    interval_s: float
    most_added: int | None
    min_live_node_count: int
    live_percentage: int

    def active_level(self, alive_count: int, dead_count: int) -> FunctionLevel:
        """Return the level that so many nodes allow."""
        return effective_level(
            self.level,
            alive_count=alive_count,
            dead_count=dead_count,
            min_live_node_count=self.min_live_node_count,
            live_percentage=self.live_percentage,
        )


def rules_of(recorded: Mapping[str, str], candidate: Candidate) -> Rules:
    """Return the rules of a candidate.

    Args:
        recorded: What the leading meta server reported at that moment, by the snapshot's names;
            what it did not report has its compiled value.
        candidate: Its policy and switches win.
    """
    own = {name: _text(value) for name, value in candidate.settings.items()}
    reported = {**recorded, **own}
    if candidate.policy is not None:
        reported["balance_cluster"] = "true" if candidate.policy == "cluster" else "false"
    is_limited = _value(reported, "add_secondary_enable_flow_control") == "true"
    limit = int(_value(reported, "add_secondary_max_count_for_one_node"))
    black_list = _value(reported, "assign_secondary_black_list")
    return Rules(
        options=_options(reported),
        level=_level(recorded, own.get(LEVEL, RECORDED_LEVEL)),
        guardian=GuardianOptions(
            min_2pc_count=int(_value(reported, "mutation_2pc_min_replica_count")),
            assign_delay_ms=int(_value(reported, "assign_delay_ms")),
            black_list=frozenset(name for name in black_list.split(",") if name),
        ),
        interval_s=max(int(_value(reported, "lb_interval_ms")) / _MS, 1.0),
        most_added=limit if is_limited else None,
        min_live_node_count=int(_value(reported, "min_live_node_count_for_unfreeze")),
        live_percentage=int(_value(reported, "meta.live_percentage")),
    )


def pegasus_candidates(grid: Grid) -> tuple[Candidate, ...]:
    """Return every candidate of a grid for Pegasus once: the record and its own settings first.

    A switch that a policy never reads is left out of its candidates.

    Raises:
        UnknownNameError: A switch that the meta server does not have, or a level that is none.
        InputError: A value that a switch does not take.
    """
    switches = {
        _name(name): tuple(checked_switch(_name(name), value) for value in values)
        for name, values in grid.switches.items()
    }
    found: dict[str, Candidate] = {RECORD.label: RECORD, AGAIN.label: AGAIN}
    for policy in grid.policies or (None,):
        for tried in _combined(switches):
            unread = {"app": _OF_CLUSTER, "cluster": _OF_APP}.get(policy or "", frozenset())
            settings = {name: value for name, value in tried.items() if name not in unread}
            candidate = Candidate(policy=policy, settings=settings)
            found.setdefault(candidate.label, candidate)
    return tuple(found.values())


def _combined(switches: Mapping[str, tuple[object, ...]]) -> Iterator[dict[str, object]]:
    for values in product(*switches.values()):
        yield dict(zip(switches, values, strict=True))


def _name(name: str) -> str:
    plain = name.strip().removeprefix(_PREFIX)
    if plain not in SWITCHES:
        raise UnknownNameError.of("switch", name, SWITCHES, place="the grid")
    return plain


def checked_switch(name: str, value: object) -> object:
    """Return a value of a switch as JSON: true, 10, "lively"."""
    if name == LEVEL:
        word = str(value).strip().lower()
        return word if word == RECORDED_LEVEL else parse_level(word).word
    text = checked_value(server_setting(name), _text(value))
    kind = server_setting(name).kind
    if kind == "switch":
        return text == "true"
    return int(text) if kind in ("number", "percent") else text


def _text(value: object) -> str:
    """Return a JSON value as the meta server writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(one) for one in value)
    return str(value)


def _value(reported: Mapping[str, str], name: str) -> str:
    """Return the reported value if valid, else the compiled default."""
    setting = server_setting(name)
    text = reported.get(name, setting.default)
    if setting.kind in ("number", "percent") and not is_whole(text):
        return setting.default
    return text


def _options(reported: Mapping[str, str]) -> BalanceOptions:
    texts = [
        f"{name}={json.dumps(_value(reported, name) == 'true')}"
        for name in (*sorted(_OF_APP - {"ignored_app_list"}), "balance_cluster")
    ]
    texts.append(f"balance_op_count_per_round={_value(reported, 'balance_op_count_per_round')}")
    ignored = [one for one in _value(reported, "ignored_app_list").split(",") if is_whole(one)]
    texts.append(f"ignored_app_list={json.dumps(ignored)}")
    return set_options(BalanceOptions(), texts)


def _level(recorded: Mapping[str, str], wished: Any) -> FunctionLevel:
    if wished != RECORDED_LEVEL:
        return parse_level(wished)
    try:
        return level_of(int(recorded.get(_STORED, "")))
    except (OpsError, ValueError):
        return FunctionLevel.STEADY


def switches_in_force(reported: Mapping[str, str]) -> dict[str, object]:
    """Return the switches that a grid may try, as JSON values; what was not reported is excluded.

    Args:
        reported: By the snapshot's names.
    """
    found: dict[str, object] = {LEVEL: _level(reported, RECORDED_LEVEL).word}
    for name in SWITCHES:
        if name in reported:
            try:
                found[name] = checked_switch(name, reported[name])
            except InputError:
                found[name] = reported[name]
    return found
