"""Settings of brokers in the values of a Helm chart, or in a manifest.

| layout | settings | options of Java |
|---|---|---|
| apache/pulsar-helm-chart (and datastax) | ``broker.configData`` | ``PULSAR_MEM`` in it |
| streamnative/charts (sn-platform) | ``broker.configData`` | ``broker.jvm`` |
| ``PulsarBroker`` of the StreamNative operator | ``spec.config.custom`` | ``spec.pod.jvmOptions`` |
| a rendered ``ConfigMap`` of the brokers | ``data`` | ``PULSAR_MEM`` in it |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from core.errors import InputError
from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.catalogue.broker_keys import broker_keys
from core.pulsar.snapshot.config_files.memory import memory_limits
from core.pulsar.snapshot.config_files.model import PREFIX, VARIABLE, BrokerConfig, several_values
from core.pulsar.snapshot.input_files import read_input

FORMS: Final = (
    "Known layouts: broker.configData (apache/pulsar-helm-chart, streamnative/charts), "
    "a PulsarBroker with spec.config.custom, a ConfigMap of the brokers."
)
_MOST_NESTED: Final = 3
"""A chart that has another one as a dependency holds its values below the name of it."""
_MAX_NODES: Final = 200_000
"""Nodes of a document with its aliases; a file of a few bytes may stand for billions."""
_HANDLERS: Final = ("kafka", "kop", "mqtt", "mop", "amqp", "aop", "rocketmq", "rop")
_TEMPLATE: Final = "{{"
_VERSION: Final = re.compile(r"\d+\.\d+(\.\d+)?")


@dataclass(slots=True)
class _BrokerConfigPart:
    """One part of the file that configures brokers."""

    place: str
    config: Mapping[Any, Any]
    options: list[str] = field(default_factory=list)
    image: str = ""
    brokers: Any = None
    is_operator: bool = False


class _Loader(yaml.SafeLoader):
    """Remembers the keys that one mapping has twice, of which YAML takes the last."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.twice: list[tuple[str, list[tuple[int, str]]]] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  # the signature of PyYAML
        held: dict[str, list[tuple[int, str]]] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode):
                entry = (value.start_mark.line + 1, value.value.strip())
                held.setdefault(key.value, []).append(entry)
        self.twice += [(key, found) for key, found in held.items() if len(set(found)) > 1]
        return super().construct_mapping(node, deep)


def read_helm_values(path: Path) -> BrokerConfig:
    """Read the values of a chart, or manifests.

    Several parts, such as a file of several ``PulsarBroker``, count together; the last value of a
    key counts.

    Raises:
        InputError: The file cannot be read, is no YAML, or has none of the known layouts.
    """
    documents, twice = _documents(path)
    parts = [part for document in documents for part in _parts(document)]
    if not parts:
        raise InputError(f"{path} configures no broker.", hint=FORMS)
    values: dict[str, str] = {}
    lines: dict[str, str] = {}
    known = {str(key) for part in parts for key in part.config}
    remarks = [several_values(key, held) for key, held in twice if key in known]
    unread: list[str] = []
    for part in parts:
        remarks += [*_not_texts(part), *_without_prefix(part)]
        for key, value in part.config.items():
            name = str(key).removeprefix(PREFIX)
            if value is None or isinstance(value, Mapping | list):
                continue
            text = _text(value)
            if _TEMPLATE in text:
                unread.append(f"{name} is a Helm template: its value is unknown.")
            elif not VARIABLE.match(str(key)):
                values[name] = text
                lines[name] = f"in {part.place}"
    options = " ".join(text for part in parts for text in _options(part))
    heap, direct = memory_limits(options)
    counts = [part.brokers for part in parts if isinstance(part.brokers, int)]
    return BrokerConfig(
        name=path.name,
        values=values,
        lines=lines,
        remarks=tuple(remarks),
        unread=tuple(unread),
        release=next(filter(None, (_release(part.image) for part in parts)), None),
        brokers=max(1, *counts, 1),
        heap_mib=heap,
        direct_memory_mib=direct,
        is_helm=True,
    )


def _documents(path: Path) -> tuple[list[Any], list[tuple[str, list[tuple[int, str]]]]]:
    """Return the documents of a file, and the keys that have several values with their lines."""
    body = read_input(path, FORMS)
    documents: list[Any] = []
    try:
        loader = _Loader(body.decode("utf-8-sig"))
        while loader.check_node():
            documents.append(loader.get_data())
    except UnicodeDecodeError as exc:
        raise InputError(f"{path} is not UTF-8 text.", hint=FORMS) from exc
    except yaml.MarkedYAMLError as exc:
        line = "" if exc.problem_mark is None else f" line {exc.problem_mark.line + 1}"
        raise InputError(
            f"{path}{line} is not YAML: {exc.problem}.",
            hint="Pass the values as `helm get values` prints them, not a template.",
        ) from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise InputError(f"{path} is not YAML.", hint=FORMS) from exc
    if _is_too_large(documents):
        raise InputError(f"{path} is too large when its aliases are expanded.", hint=FORMS)
    return documents, loader.twice


def _is_too_large(documents: list[Any]) -> bool:
    pending, seen = list(documents), 0
    while pending:
        seen += 1
        if seen > _MAX_NODES:
            return True
        node = pending.pop()
        if isinstance(node, Mapping):
            pending += node.values()
        elif isinstance(node, list):
            pending += node
    return False


def _parts(document: Any) -> Iterator[_BrokerConfigPart]:
    if not isinstance(document, Mapping):
        return
    kind = document.get("kind")
    if kind == "List":
        for one in document.get("items") or ():
            yield from _parts(one)
    elif kind == "PulsarBroker":
        yield from _operator(document)
    elif kind == "ConfigMap":
        yield from _config_map(document)
    elif kind is None:
        yield from _values(document, "", document)


def _operator(document: Mapping[Any, Any]) -> Iterator[_BrokerConfigPart]:
    spec = _mapping(document.get("spec"))
    config = _mapping(spec.get("config"))
    options = _mapping(_mapping(spec.get("pod")).get("jvmOptions"))
    yield _BrokerConfigPart(
        "spec.config.custom",
        _mapping(config.get("custom")),
        _jvm(options),
        str(spec.get("image") or ""),
        spec.get("replicas"),
        is_operator=True,
    )


def _config_map(document: Mapping[Any, Any]) -> Iterator[_BrokerConfigPart]:
    data = _mapping(document.get("data"))
    metadata = _mapping(document.get("metadata"))
    component = _mapping(metadata.get("labels")).get("component")
    if component == "broker" or str(metadata.get("name") or "").endswith("broker"):
        yield _BrokerConfigPart("data", data)


def _values(
    node: Mapping[Any, Any], place: str, top: Mapping[Any, Any]
) -> Iterator[_BrokerConfigPart]:
    broker = node.get("broker")
    if isinstance(broker, Mapping) and ({"configData", "jvm", "replicaCount"} & broker.keys()):
        images = _mapping(_mapping(node.get("images")).get("broker"))
        image = images.get("tag") or node.get("defaultPulsarImageTag") or top.get("pulsar_version")
        yield _BrokerConfigPart(
            f"{place}broker.configData",
            _mapping(broker.get("configData")),
            _jvm(_mapping(broker.get("jvm"))),
            f":{image}" if image else "",
            broker.get("replicaCount"),
        )
        return
    if place.count(".") < _MOST_NESTED:
        for name, below in node.items():
            if isinstance(below, Mapping):
                yield from _values(below, f"{place}{name}.", top)


def _jvm(options: Mapping[Any, Any]) -> list[str]:
    lists = [options.get(name) for name in ("memoryOptions", "extraOptions")]
    return [str(one) for held in lists if isinstance(held, list) for one in held]


def _options(part: _BrokerConfigPart) -> list[str]:
    keys = ("PULSAR_MEM", "PULSAR_EXTRA_OPTS", "OPTS")
    return [str(part.config.get(key) or "") for key in keys] + part.options


def _mapping(node: Any) -> Mapping[Any, Any]:
    return node if isinstance(node, Mapping) else {}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def _release(image: str) -> str | None:
    """Return the version in the tag of an image, ``apachepulsar/pulsar-all:4.0.8``."""
    match = _VERSION.match(image.rpartition(":")[2].removeprefix("v"))
    return match[0] if match else None


def _without_prefix(part: _BrokerConfigPart) -> Iterator[Finding]:
    """Yield the keys of protocol handlers that the image does not write into ``broker.conf``.

    Source:
        Pulsar image ``apply-config-from-env.py``: a variable without the prefix changes only a key
        that ``broker.conf`` has; no release's has those of protocol handlers.
    """
    lost = sorted(
        str(key)
        for key in part.config
        if str(key).startswith(_HANDLERS) and str(key) not in broker_keys()
    )
    if part.is_operator or not lost:
        return
    more = f" and {len(lost) - 3} more" if lost[3:] else ""
    yield Finding(
        code="prefix_missing",
        title="Key needs a prefix to have effect",
        measured=Quantity(len(lost), "keys" if len(lost) > 1 else "key"),
        limit=Quantity(0),
        severity="warning",
        area="settings",
        keys=tuple(lost),
        sentence=f"Keys without prefix {PREFIX} in {part.place}: {', '.join(lost[:3])}{more}.",
        consequence="broker.conf does not have such keys, and the image adds only keys "
        "with the prefix: they have no effect.",
        hint=f"Use {PREFIX}{lost[0]}.",
        evidence={"place": part.place, "rows": lost},
    )


def _not_texts(part: _BrokerConfigPart) -> Iterator[Finding]:
    """Yield the values that Kubernetes refuses: in a ConfigMap every value is a text.

    Source:
        apache/pulsar-helm-chart ``broker-configmap.yaml``: ``toYaml .Values.broker.configData``.
    """
    odd = sorted(
        str(key)
        for key, value in part.config.items()
        if isinstance(value, bool | int | float)
        and (str(key).removeprefix(PREFIX) in broker_keys() or str(key).startswith(PREFIX))
    )
    if not odd:
        return
    names = ", ".join(key.removeprefix(PREFIX) for key in odd[:3])
    more = f" and {len(odd) - 3} more" if odd[3:] else ""
    yield Finding(
        code="value_not_text",
        title="Chart value is not a string",
        measured=Quantity(len(odd), "values" if len(odd) > 1 else "value"),
        limit=Quantity(0),
        severity="warning",
        area="settings",
        keys=tuple(key.removeprefix(PREFIX) for key in odd),
        sentence=f"Number or boolean instead of a quoted string in {part.place}: {names}{more}.",
        consequence="Kubernetes refuses a ConfigMap with such a value, and Helm writes "
        "large numbers as 1e+06, which brokers cannot parse.",
        hint='Quote the value: key: "10".',
        evidence={"place": part.place, "rows": odd},
    )
