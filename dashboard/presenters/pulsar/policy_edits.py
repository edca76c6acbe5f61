"""Requested changes of policies: as text in an address, as fields of a form, as a difference."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from core.errors import InputError
from core.plan.describe import tally
from core.pulsar.plan.policy.build import DesiredPolicy
from core.pulsar.policy_kinds import PolicyChange, policy_kind
from core.pulsar.steps.base import policy_changes
from core.step import Step

NO_LIMIT: Final = "no limit"
NOT_SET: Final = "not set"
EMPTY: Final = "empty"
SET: Final = "set"
DELETE: Final = "delete"
_MAX_SHOWN: Final = 6

Entered = str | bool
"""What a field of a form holds: a text, or a switch."""

FIELD_WORDS: Final[Mapping[str, str]] = {
    "publishRateInMsgs": "Publish, msg/s",
    "publishRateInBytes": "Publish, bytes/s",
    "dispatchRateInMsgs": "Dispatch, msg/s",
    "dispatchRateInBytes": "Dispatch, bytes/s",
    "publishThrottlingRateInMsg": "Msg/s per topic",
    "publishThrottlingRateInByte": "Bytes/s per topic",
    "dispatchThrottlingRateInMsg": "Messages per period",
    "dispatchThrottlingRateInByte": "Bytes per period",
    "relativeToPublishRate": "In addition to publish rate",
    "ratePeriodInSecond": "Period (s)",
    "subscribeThrottlingRatePerConsumer": "Subscribes per consumer and period",
    "msgRateIn": "Messages in/s",
    "msgRateOut": "Messages out/s",
    "bandwidthIn": "Bytes in/s",
    "bandwidthOut": "Bytes out/s",
    "memory": "Memory (MB)",
    "namespaces": "Namespaces",
    "primary": "Primary brokers",
    "secondary": "Secondary brokers",
    "min_limit": "Min primaries",
    "usage_threshold": "Usage threshold (%)",
    "unload_scope": "Unload scope",
    "brokers": "Brokers",
    "dynamic": "Dynamic",
}
"""Upstream's field to plain words with the unit."""


def change_text(policy: DesiredPolicy) -> str:
    """Return a change as the words of ``trimtab policy`` after the cluster's name."""
    if policy.value is None:
        return f"{DELETE} {policy.policy} {policy.name}"
    return f"{SET} {policy.policy} {policy.name} {policy.value}"


def parse_change(text: str) -> DesiredPolicy:
    """Return the change that a text describes.

    Raises:
        InputError: It is none.
        UnknownNameError: A kind that there is not.
    """
    words = text.split(" ", 3)
    if len(words) == 4 and words[0] == SET:
        return DesiredPolicy(policy_kind(words[1]).name, words[2], words[3])
    if len(words) == 3 and words[0] == DELETE:
        return DesiredPolicy(policy_kind(words[1]).name, words[2], None)
    raise InputError(
        f"{text[:80]!r} is not a valid policy change.",
        hint=f"Specify {SET} KIND NAME VALUE or {DELETE} KIND NAME.",
    )


def joined(policies: Iterable[DesiredPolicy], more: Iterable[DesiredPolicy]) -> list[DesiredPolicy]:
    """Return the changes with more of them; of one policy the last one counts."""
    found = {(policy.policy, policy.name): policy for policy in policies}
    for policy in more:
        found.pop((policy.policy, policy.name), None)
        found[policy.policy, policy.name] = policy
    return list(found.values())


def field_values(kind: str, stored: str | None) -> dict[str, Any]:
    """Return the fields of a document, those of its kind where nothing is stored."""
    whole: dict[str, Any] = json.loads(policy_kind(kind).canonical(stored or "{}"))
    return whole


def field_text(value: Any) -> str:
    """Return a number as a form shows it: no limit is blank."""
    if value == -1:
        return ""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else f"{value}"


def document(kind: str, entered: Mapping[str, Entered]) -> str:
    """Return the document of a form's values; blank is no limit.

    Raises:
        InputError: What was entered is no number.
    """
    fields = policy_kind(kind).fields
    body = {name: _entered(kind, name, fields[name], value) for name, value in entered.items()}
    return policy_kind(kind).canonical(json.dumps(body))


def _entered(kind: str, name: str, default: Any, value: Entered) -> Any:
    if isinstance(value, bool):
        return value
    text = value.replace(",", "").replace("_", "").strip()
    if not text:
        if default == -1:
            return default
        raise InputError(f"{name} of a {policy_kind(kind).title} is empty.", hint="Enter a number.")
    try:
        return float(text) if isinstance(default, float) else int(text)
    except ValueError:
        what = "number" if isinstance(default, float) else "whole number"
        raise InputError(f"{name} is {value!r}; it must be a {what}.") from None


def difference(changes: Iterable[PolicyChange]) -> pd.DataFrame:
    """Return one row per changed field: policy, object, field, now, then."""
    rows = [row for change in changes for row in _changes(change)]
    return pd.DataFrame(rows, columns=["policy", "of", "field", "now", "then"])


def describe_fields(kind: str, text: str) -> str:
    """Return a value in words: the fields that say something, ``no limit`` where none does."""
    if policy_kind(kind).is_text:
        return text
    texts = [
        f"{FIELD_WORDS.get(name, name)}: {_words(value)}"
        for name, value in _object(text).items()
        if value not in (None, -1, [], "")
    ]
    return "; ".join(texts) or NO_LIMIT


def is_no_change(row: Mapping[Any, Any]) -> bool:
    """Return whether a field of :func:`difference` goes from no value to one that means none."""
    return {row["now"], row["then"]} <= {NOT_SET, NO_LIMIT, EMPTY}


def plan_sentence(steps: Sequence[Step]) -> str:
    """Return the changes of a plan in one sentence, by field as far as they are few."""
    texts = [
        f"{row['policy']} {row['of']}: {row['field'].partition(' (')[0]} "
        f"{row['now']} → {row['then']}"
        for row in difference(policy_changes(steps)).to_dict("records")
        if not is_no_change(row)
    ]
    more = f"; and {len(texts) - _MAX_SHOWN} more" if len(texts) > _MAX_SHOWN else ""
    return f"{tally(steps).capitalize()}: {'; '.join(texts[:_MAX_SHOWN])}{more}."


def _changes(change: PolicyChange) -> Iterable[dict[str, str]]:
    kind = policy_kind(change.policy)
    common = {"policy": kind.title.removesuffix(" of namespace").removesuffix(" of bundle")}
    common["of"] = change.name
    if kind.is_text:
        yield {
            **common,
            "field": "is",
            "now": change.before or "none",
            "then": change.value or "none",
        }
        return
    before, after = _object(change.before), _object(change.value)
    for name in {**before, **after}:
        now, then = before.get(name), after.get(name)
        if now != then:
            plain = FIELD_WORDS.get(name, "")
            texts = f"{plain} ({name})" if plain else name
            yield {**common, "field": texts, "now": _words(now), "then": _words(then)}


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {key: one for name, held in value.items() for key, one in _unfolded(name, held)}


def _unfolded(name: str, held: Any) -> Iterable[tuple[str, Any]]:
    """Return a field, or the parameters in its place where it is made of such."""
    parameters = held.get("parameters") if isinstance(held, dict) else None
    return parameters.items() if isinstance(parameters, dict) else [(name, held)]


def _words(value: Any) -> str:
    if value is None:
        return NOT_SET
    if value == -1:
        return NO_LIMIT
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,g}" if isinstance(value, float) else _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(str, value)) or EMPTY
    return json.dumps(value)
