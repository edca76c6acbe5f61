"""What a file holds, recognized by its content: outputs of ``pulsar-admin``, metrics, dumps.

``pulsar-admin`` prints objects as JSON, lists as one item a line, maps as ``key    value`` lines
whose values may be Java's own text of an object. The admin REST answers the same as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from core.errors import InputError
from core.pulsar.catalogue.broker_keys import broker_keys
from core.pulsar.settings import SETTING_BY_KEY

Kind = Literal[
    "dump",
    "load_report",
    "brokers",
    "namespaces",
    "dynamic",
    "runtime",
    "leader",
    "bundles",
    "policies",
    "isolation",
    "isolation_policy",
    "domains",
    "owned",
    "topics",
    "metrics",
    "unused",
]

LABELS: Final[Mapping[Kind, str]] = {
    "dump": "ZooKeeper dump",
    "load_report": "load report (broker-stats load-report)",
    "brokers": "brokers (brokers list)",
    "namespaces": "namespaces (namespaces list)",
    "dynamic": "dynamic settings (brokers get-all-dynamic-config)",
    "runtime": "running settings (brokers get-runtime-config)",
    "leader": "leader (brokers leader-broker)",
    "bundles": "bundles of a namespace (namespaces bundles)",
    "policies": "policies of a namespace (namespaces policies)",
    "isolation": "isolation policies (ns-isolation-policy list)",
    "isolation_policy": "one isolation policy (ns-isolation-policy get)",
    "domains": "failure domains (clusters list-failure-domains)",
    "owned": "bundles of a broker (brokers namespaces)",
    "topics": "topics (broker-stats topics)",
    "metrics": "Prometheus text (/metrics)",
}
"""What each kind is called, with the command that prints it."""

FORMS: Final = f"Supported: {', '.join(LABELS.values())}."

_RUNTIME_KEYS: Final = 60
"""Dynamic settings are the few that were changed; a broker's running settings are hundreds."""
_NOISE: Final = re.compile(
    r"(SLF4J|WARNING|WARN|Defaulted container|Picked up|log4j|NOTE:)\b.*"
    r"|\d{4}-\d\d-\d\d[T ].*\b(WARN|INFO|DEBUG)\b.*"
)
_METRICS: Final = re.compile(
    r"^(?:# (?:TYPE|HELP) \w|[a-zA-Z_:][\w:]*\{[^}]*\} [-+0-9NIi])", re.MULTILINE
)
_PAIR: Final = re.compile(r"(\S+)(?: {2,}|\t+)(.*)\Z")
_BROKER: Final = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d+\Z")
_NAMESPACE: Final = re.compile(r"[-\w.=:%]+/[-\w.=:%]+\Z")
_REPORT: Final = frozenset(
    ("webServiceUrl", "webServiceUrlTls", "pulsarServiceUrl", "lastStats", "loadManagerClassName")
)
_LEADER: Final = frozenset(("serviceUrl", "brokerId"))
_LIST: Final = re.compile(r"(namespaces|primary|secondary|brokers)=\[([^\]]*)\]")
_PARAMETER: Final = re.compile(r"(min_limit|usage_threshold)=(\d+)")


@dataclass(frozen=True, slots=True)
class Part:
    """One thing in a file.

    Attributes:
        kind: What it is.
        value: Decoded; of a dump and of metrics nothing.
    """

    kind: Kind
    value: Any = None


def parts_of(body: bytes, name: str) -> list[Part]:
    """Return the parts of a file.

    Args:
        body: Its content.
        name: Its path, for the error.
    Raises:
        InputError: It is none of the forms that are known, or damaged.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise InputError(f"{name} is not text in UTF-8.", hint=FORMS) from exc
    lines = [line for line in text.splitlines() if not _NOISE.fullmatch(line.strip())]
    text = "\n".join(lines).strip()
    if text[:1] in ("{", "[") and not all(
        _BROKER.match(line.strip()) for line in lines if line.strip()
    ):
        return _of_json(text, name)
    if _METRICS.search(text):
        return [Part("metrics")]
    part = _of_lines([line.strip() for line in lines if line.strip()])
    if part is None:
        first = " ".join(text.split())[:60] or "only log lines"
        raise InputError(f"{name} is not recognized: it begins with {first!r}.", hint=FORMS)
    return [part]


def _of_json(text: str, name: str) -> list[Part]:
    parts: list[Part] = []
    for number, value in enumerate(_values(text, name), 1):
        part = _of_value(value)
        if part is None:
            keys = ", ".join(list(value)[:4]) if isinstance(value, Mapping) else str(value)[:60]
            which = f" object {number}" if number > 1 else ""
            raise InputError(f"{name}{which} is not recognized: JSON of {keys}.", hint=FORMS)
        parts.append(part)
        if part.kind == "dump":
            break  # its lines are read by the reader of dumps
    return parts


def _values(text: str, name: str) -> Iterator[Any]:
    """Yield the JSON values that stand one after the other; the objects of a list singly."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as exc:
            line = text.count("\n", 0, getattr(exc, "pos", at)) + 1
            what = getattr(exc, "msg", "it is nested too deeply")
            raise InputError(
                f"{name} line {line} is not JSON: {what}.", hint="Print the complete output again."
            ) from exc
        is_list = isinstance(value, list) and value and isinstance(value[0], Mapping)
        yield from value if is_list else (value,)
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1


def _of_value(value: Any) -> Part | None:
    if isinstance(value, list):
        return _of_items([str(one) for one in value])
    if not isinstance(value, Mapping):
        return None
    if "path" in value and str(value["path"]).startswith("/"):
        return Part("dump")
    for kind, is_it in _TESTS:
        if is_it(value):
            return Part(kind, value)
    if all(isinstance(one, str) for one in value.values()):
        return _settings(value)
    return None


def _is_report(value: Mapping[str, Any]) -> bool:
    return len(_REPORT & value.keys()) > 1


def _is_leader(value: Mapping[str, Any]) -> bool:
    return "serviceUrl" in value and value.keys() <= _LEADER


def _is_bundles(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("boundaries"), list)


def _is_policies(value: Mapping[str, Any]) -> bool:
    return "bundles" in value and bool({"replication_clusters", "auth_policies"} & value.keys())


def _is_isolation_policy(value: Mapping[str, Any]) -> bool:
    return "namespaces" in value and "primary" in value


def _is_monitoring(value: Mapping[str, Any]) -> bool:
    return {"metrics", "dimensions"} <= value.keys()


def _each(value: Mapping[str, Any], *keys: str) -> bool:
    rows = list(value.values())
    return bool(rows) and all(isinstance(one, Mapping) and one.keys() & {*keys} for one in rows)


def _is_topics(value: Mapping[str, Any]) -> bool:
    ranges = [one for one in value.values() if isinstance(one, Mapping)]
    names = [name for one in ranges for name in one]
    return bool(names) and all(str(name).startswith("0x") for name in names)


_TESTS: Final[tuple[tuple[Kind, Any], ...]] = (
    ("load_report", _is_report),
    ("leader", _is_leader),
    ("bundles", _is_bundles),
    ("policies", _is_policies),
    ("isolation_policy", _is_isolation_policy),
    ("unused", _is_monitoring),
    ("isolation", lambda value: _each(value, "auto_failover_policy", "primary")),
    ("domains", lambda value: _each(value, "brokers")),
    ("owned", lambda value: _each(value, "broker_assignment", "is_active")),
    ("topics", _is_topics),
)


def _settings(value: Mapping[str, str]) -> Part | None:
    if value and not value.keys() & broker_keys().keys():
        return None
    is_runtime = len(value) >= _RUNTIME_KEYS or "brokerServicePort" in value
    return Part("runtime" if is_runtime else "dynamic", dict(value))


def _of_items(items: list[str]) -> Part | None:
    names = [one.strip().strip('"') for one in items]
    if names and all(_BROKER.match(one) for one in names):
        return Part("brokers", names)
    if names and all(_NAMESPACE.match(one) for one in names):
        return Part("namespaces", names)
    if names and all(one in SETTING_BY_KEY or one.isidentifier() for one in names):
        return Part("unused", names) if any(one in SETTING_BY_KEY for one in names) else None
    return None


def _of_lines(lines: list[str]) -> Part | None:
    """Return the lines of a list or of a map."""
    bare = [line.strip('"') for line in lines]
    pairs = [_PAIR.match(line) for line in bare]
    if not bare or not all(pairs):
        return _of_items(bare)
    held = {match[1]: match[2].strip() for match in pairs if match}
    texts = list(held.values())
    if all("IsolationData" in text for text in texts):
        return Part("isolation", {name: _isolation(text) for name, text in held.items()})
    if all("FailureDomain" in text for text in texts):
        return Part("domains", {name: _lists(text) for name, text in held.items()})
    if all("/0x" in name for name in held):
        return Part("owned", held)
    if all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in held):
        return _settings(held)
    return None


def _lists(text: str) -> dict[str, Any]:
    """Return the lists in Java's text of an object: ``Name(brokers=[a, b])``."""
    return {
        name: [one.strip() for one in items.split(",") if one.strip()]
        for name, items in _LIST.findall(text)
    }


def _isolation(text: str) -> dict[str, Any]:
    kept = {"policy_type": "min_available", "parameters": dict(_PARAMETER.findall(text))}
    return {"primary": [], "secondary": [], **_lists(text), "auto_failover_policy": kept}
