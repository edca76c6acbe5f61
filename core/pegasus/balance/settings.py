"""The switches of the balancer as settings: upstream keys with JSON values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from core.errors import InputError, UnknownNameError
from core.pegasus.balance.model import BalanceOptions

_FLAGS: Final = {
    "only_primary_balancer": "only_primary_balancer",
    "only_move_primary": "only_move_primary",
    "balancer_in_turn": "balancer_in_turn",
    "checker": "is_check",
    "intended_skew": "intended_skew",
}
_CLUSTER: Final = "balance_cluster"
_COUNT: Final = "balance_op_count_per_round"
_IGNORED: Final = "ignored_app_list"
_POLICY: Final = "policy"
SETTING_NAMES: Final = (*_FLAGS, _CLUSTER, _COUNT, _IGNORED, _POLICY)


def set_options(options: BalanceOptions, texts: Iterable[str]) -> BalanceOptions:
    """Return options with ``KEY=JSON`` texts on top; ``meta.lb.`` before a key may be there.

    Raises:
        UnknownNameError: A key that the balancer does not have.
        InputError: No ``=``, no JSON, or a value of another type.
    """
    for text in texts:
        key, sign, value = text.partition("=")
        name = key.strip().removeprefix("meta.lb.")
        if name not in SETTING_NAMES:
            raise UnknownNameError.of("balancer setting", key.strip(), SETTING_NAMES)
        if not sign:
            raise InputError(f"--set {text!r} has no value.", hint="Use the form --set KEY=VALUE.")
        try:
            options = _with(options, name, json.loads(value))
        except ValueError as exc:
            raise InputError(
                f"The value of --set {name} is not JSON: {value!r}.",
                hint="Use true, false, a number, or a list such as [1,2].",
            ) from exc
    return options


def _with(options: BalanceOptions, name: str, value: Any) -> BalanceOptions:
    if name == _COUNT:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise _misfit(name, "a whole number, 0 or more", value)
        return replace(options, balance_op_count_per_round=value)
    if name == _IGNORED:
        return replace(options, ignored_app_ids=_ids(value))
    if name == _POLICY:
        if value not in ("app", "cluster"):
            raise _misfit(name, '"app" or "cluster"', value)
        return replace(options, policy=value)
    if not isinstance(value, bool):
        raise _misfit(name, "true or false", value)
    if name == _CLUSTER:
        return replace(options, policy="cluster" if value else "app")
    changes: dict[str, Any] = {_FLAGS[name]: value}
    return replace(options, **changes)


def _ids(value: Any) -> frozenset[int]:
    ids = value.split(",") if isinstance(value, str) else value
    try:
        return frozenset(int(one) for one in ids)
    except (TypeError, ValueError):
        raise _misfit(_IGNORED, "a list of table ids", value) from None


def _misfit(name: str, wanted: str, value: object) -> InputError:
    return InputError(f"{name} must be {wanted}, not {value!r}.", hint="Values are JSON.")
