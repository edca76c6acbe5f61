"""Values of settings: what has the right type, and how the brokers write it."""

from __future__ import annotations

import json
import math
import re
from typing import Final

from core.errors import InputError
from core.pulsar.catalogue import Setting, Value

_OPTIONAL: Final = re.compile(r"Optional\[(.*)\]\Z")


def typed_value(setting: Setting, value: object) -> Value:
    """Return ``value`` as the setting's own type.

    Raises:
        InputError: It is of another type, or not a finite number.
    """
    fitting = _fit(setting, value)
    if fitting is _MISFIT:
        raise InputError(
            f"Setting {setting.key} must be {_KIND_WORDS[setting.kind]}, not {value!r}.",
            hint=f"Its default is {json.dumps(setting.default)}.",
            key=setting.key,
        )
    return fitting  # type: ignore[return-value]  # the misfit marker was ruled out above


_MISFIT: Final = object()
_KIND_WORDS: Final = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "text": "a string",
    "names": "a list of strings",
    "optional_float": "a number or null",
}


def _fit(setting: Setting, value: object) -> object:
    kind = setting.kind
    if kind in ("bool", "text"):
        return value if isinstance(value, bool if kind == "bool" else str) else _MISFIT
    if kind == "names":
        return _fit_names(value)
    if kind == "optional_float" and value is None:
        return None
    number = _finite(value)
    if number is None or (kind == "int" and not number.is_integer()):
        return _MISFIT
    return int(number) if kind == "int" else number


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an int of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def _fit_names(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(value)
    return _MISFIT


def parse_upstream_value(setting: Setting, text: str) -> Value:
    """Return the typed value of what a broker or ``/admin/configuration`` writes as text.

    Lists come as ``[a, b]`` (running values) or ``a,b`` (dynamic settings), optional numbers as
    ``Optional[1.0]`` or ``Optional.empty``; a bool is true for ``true`` in any case, else false.

    Raises:
        InputError: The broker itself would not take it; it then keeps the value it has.
    """
    text = text.strip()
    if setting.kind == "bool":
        return text.lower() == "true"
    if setting.kind == "text":
        return text
    if setting.kind == "names":
        return typed_value(setting, text.removeprefix("[").removesuffix("]"))
    if setting.kind == "optional_float":
        match = _OPTIONAL.match(text)
        text = match[1] if match else text
        if text in ("", "null", "Optional.empty"):
            return None
    try:
        return typed_value(setting, int(text) if setting.kind == "int" else float(text))
    except ValueError:
        raise InputError(
            f"Setting {setting.key} is {text!r}; it must be {_KIND_WORDS[setting.kind]}.",
            hint="Brokers store such a dynamic value but keep the previous one.",
            key=setting.key,
        ) from None


def is_same_setting(setting: Setting, left: str | None, right: str | None) -> bool:
    """Return whether two texts mean the same value; ``None`` if not set."""
    if left is None or right is None:
        return left is right
    try:
        return parse_upstream_value(setting, left) == parse_upstream_value(setting, right)
    except InputError:
        return left == right
