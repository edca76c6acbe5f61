"""Keys and values of a configuration file: unknown ones, dead ones, values that do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from core.findings.engine import Rule
from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.catalogue.broker_keys import (
    BrokerKey,
    FieldKind,
    broker_keys,
    is_read_by_plugin,
    near_keys,
)
from core.pulsar.presets import upstream_words
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.doctor.model import about_settings, settings_fix
from core.pulsar.settings import SETTING_BY_KEY

_WHOLE: Final = re.compile(r"[+-]?\d+\Z")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[fFdD]?\Z")
_INT_RANGE: Final = range(-(2**31), 2**31)
_LONG_RANGE: Final = range(-(2**63), 2**63)
_MAX_LONG: Final = len(str(_LONG_RANGE.start))
_OPTIONAL: Final = re.compile(r"Optional\[(.*)\]\Z")
_KINDS: Final[dict[FieldKind, str]] = {
    "int": "a whole number",
    "long": "a whole number",
    "float": "a number",
}
_SHARES: Final = ("percent", "percentage points")
_FULL_PCT: Final = 100
_OTHER_RULES: Final = (
    "loadBalancerBrokerOverloadedThresholdPercentage",  # above 100 it is off, on purpose
    "loadBalancerMsgRateDifferenceShedderThreshold",  # 0 or less is off, 200 is three times
    "flowOrQpsDifferenceThresholdPercentage",
)
_MAX_NAMED: Final = 6


def file_values(context: HealthContext) -> list[tuple[str, str]]:
    """Return the keys of configuration files with their values, each once, by name."""
    table = context.snapshot.settings
    origins = table["origin"].to_pylist()
    if "file" not in origins:
        return []
    names, values = table["name"].to_pylist(), table["value"].to_pylist()
    rows = zip(names, values, origins, strict=True)
    return sorted({name: value for name, value, origin in rows if origin == "file"}.items())


def unknown_keys(context: HealthContext) -> Iterator[Finding]:
    """Keys that no release has: slips of a known one, and others."""
    known = broker_keys()
    others: list[str] = []
    for key, _ in file_values(context):
        if key in known or key in SETTING_BY_KEY:
            continue
        near = near_keys(key)
        if not near or is_read_by_plugin(key):
            others.append(key)
            continue
        yield Finding(
            code="misspelt_key",
            title="Setting does not exist",
            severity="warning",
            **about_settings(key),
            measured=Quantity(key),
            limit=Quantity(near[0]),
            sentence=f"No release of Pulsar has a setting {key}.",
            consequence="Brokers ignore it: the value has no effect.",
            hint=f"Did you mean {' or '.join(near)}? Otherwise remove the line.",
            evidence={"near": near},
        )
    if others:
        yield Finding(
            code="foreign_keys",
            title="Keys are not broker settings",
            severity="info",
            measured=Quantity(len(others), "keys" if len(others) > 1 else "key"),
            area="settings",
            keys=tuple(others),
            sentence=f"{_named(others)}: brokers have no setting with that name, nor a "
            "similar one.",
            consequence="Plug-ins may read such keys (authentication, offloaders, protocol "
            "handlers); brokers do not.",
        )


def dead_keys(context: HealthContext) -> Iterator[Finding]:
    """Keys outside the load balancer that this release does not have.

    Those of the load balancer are judged by :func:`core.pulsar.rules.doctor.alike.release_gaps`.
    """
    target = context.settings.target
    known = broker_keys()
    gone: list[str] = []
    early: list[str] = []
    for key, _ in file_values(context):
        if key in SETTING_BY_KEY or key not in known or known[key].exists_in(target.line):
            continue
        (gone if known[key].until else early).append(key)
    for keys, word in ((gone, "no longer has"), (early, "does not have yet")):
        if keys:
            yield Finding(
                code="keys_of_other_releases",
                title="Keys belong to other releases",
                severity="info",
                measured=Quantity(len(keys), "keys" if len(keys) > 1 else "key"),
                area="settings",
                keys=tuple(keys),
                sentence=f"Release {target.name} {word}: {_named(keys)}.",
                consequence="Brokers ignore them: the values have no effect.",
                hint="Remove the lines, unless another release is intended.",
                evidence={
                    "rows": [
                        {"key": key, "since": known[key].since, "until": known[key].until or None}
                        for key in keys
                    ]
                },
            )


def misfit_values(context: HealthContext) -> Iterator[Finding]:
    """Values with which a broker does not start, or that it reads as something else.

    Source:
        Pulsar ``FieldParser#update`` (a value that does not parse ends the start; every text but
        ``true`` is false), ``PulsarConfigurationLoader#isComplete`` (least and greatest values).
    """
    for key, value in file_values(context):
        field = broker_keys().get(key)
        if field is None or not value.strip():
            continue
        text = value.strip()
        if field.kind == "bool":
            yield from _truth(key, text)
        elif reason := _misfit(field, text):
            yield Finding(
                code="value_refused",
                title="Broker does not start with this value",
                severity="error",
                **about_settings(key),
                measured=Quantity(text[:60]),
                limit=Quantity(reason),
                sentence=f"{key} is {text[:60]!r}; it must be {reason}.",
                consequence="A broker does not start with it.",
                hint=_default_hint(context, key),
            )
        else:
            yield from _beyond(context, key, text)


def _truth(key: str, text: str) -> Iterator[Finding]:
    if text.lower() in ("true", "false"):
        return
    yield Finding(
        code="value_read_as_false",
        title="Value is read as false",
        severity="warning",
        **about_settings(key),
        measured=Quantity(text[:60]),
        limit=Quantity("true or false"),
        sentence=f"{key} is {text[:60]!r}; it must be true or false.",
        consequence="Brokers read every value other than true as false.",
        hint="Use true or false, with nothing after it on the line.",
    )


def _misfit(field: BrokerKey, text: str) -> str:
    """Return the requirement that a text does not meet as a number, or ""."""
    if field.kind not in _KINDS or text == "Optional.empty":
        return ""
    match = _OPTIONAL.match(text)
    text = match[1] if match else text
    if not (_NUMBER if field.kind == "float" else _WHOLE).match(text):
        return _KINDS[field.kind]
    if field.kind == "float":
        return ""
    # Python converts no text of thousands of digits
    return _beyond_bounds(field, int(text) if len(text) <= _MAX_LONG else _LONG_RANGE.stop)


def _beyond_bounds(field: BrokerKey, number: int) -> str:
    if number not in (_INT_RANGE if field.kind == "int" else _LONG_RANGE):
        return f"a number of {32 if field.kind == 'int' else 64} bits"
    if field.min is not None and number < field.min:
        return f"a whole number from {field.min} on"
    if field.max is not None and number > field.max:
        return f"a whole number up to {field.max}"
    return ""


def _beyond(context: HealthContext, key: str, text: str) -> Iterator[Finding]:
    """Yield a share of the load balancer that is none: below 0, or above the whole."""
    setting = SETTING_BY_KEY.get(key)
    if setting is None or key in _OTHER_RULES or setting.unit not in (*_SHARES, "ratio"):
        return
    whole = 1 if setting.unit == "ratio" else _FULL_PCT
    if setting.kind not in ("int", "float") or 0 <= float(text) <= whole:
        return
    yield Finding(
        code="value_out_of_range",
        title="Value is out of range",
        severity="warning",
        **about_settings(key),
        measured=Quantity(text),
        limit=Quantity(f"0 to {whole}"),
        sentence=f"{key} is {text}; it must be from 0 to {whole} ({setting.unit}).",
        consequence=f"{setting.meaning} With {text} the condition never holds, or always.",
        hint=_default_hint(context, key),
        fix=settings_fix({key: context.settings.default_of(key)}),
    )


def _default_hint(context: HealthContext, key: str) -> str:
    if key not in SETTING_BY_KEY or not context.settings.has(key):
        return "Remove the line to use the default."
    default = upstream_words(context.settings.default_of(key)) or "not set"
    return f"The default of {context.settings.target.name} is {default}."


def _named(keys: list[str]) -> str:
    more = f" and {len(keys) - _MAX_NAMED} more" if keys[_MAX_NAMED:] else ""
    return ", ".join(keys[:_MAX_NAMED]) + more


RULES: Final[tuple[Rule[HealthContext], ...]] = (unknown_keys, dead_keys, misfit_values)
