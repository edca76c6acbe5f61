"""Several files to the readings of one cluster: which broker and namespace each is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from connectors.pulsar.outputs.kinds import LABELS, Kind, Part
from core.errors import InputError
from core.ids import is_broker_bound
from core.pulsar.snapshot.zkdump import take_dump
from core.pulsar.snapshot.znodes import Readings
from core.snapshot.problems import ProblemLog
from core.units import pluralize

_WORDS: Final = re.compile(r"[A-Za-z0-9]+")
_PAIRED: Final = re.compile(r"([-\w.=:]+?)(?:\+|%2[Ff]|__)([-\w=:]+)")
_PORT: Final = re.compile(r"(?:Optional\[)?(\d+)\]?\Z")


@dataclass(frozen=True, slots=True)
class GivenFile:
    """One file that a person named.

    Attributes:
        path: Where it is.
        body: Its content, decompressed.
        parts: What it holds.
    """

    path: Path
    body: bytes
    parts: list[Part]


@dataclass(frozen=True, slots=True)
class TakenFile:
    """Data taken from a file.

    Attributes:
        path: The file.
        kind: What it is, in words.
        about: Whose, or how many.
    """

    path: Path
    kind: str
    about: str


@dataclass(slots=True)
class ClusterReadings:
    """Readings of one cluster.

    Attributes:
        readings: As a capture over REST has them.
        runtime: Broker id -> running settings.
        metrics: Broker id -> text exposition.
        topics: Answers about topics.
        files: What each file was.
        kinds: Kinds that were given.
        namespaces: Names of a list of namespaces.
        whose: Identity of a part to the broker or namespace that it is about.
        newest_at: When the newest znode of a dump was written, ms since the epoch; 0: unknown.
    """

    readings: Readings = field(default_factory=Readings)
    runtime: dict[str, dict[str, str]] = field(default_factory=dict)
    metrics: dict[str, bytes] = field(default_factory=dict)
    topics: list[dict[str, Any]] = field(default_factory=list)
    files: list[TakenFile] = field(default_factory=list)
    kinds: set[Kind] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    newest_at: int = 0
    whose: dict[int, str] = field(default_factory=dict)


def gather(files: Iterable[GivenFile], problems: ProblemLog) -> ClusterReadings:
    """Sort the parts of all files into the readings of one cluster.

    Files that name their broker or namespace come first; the others are distinguished by
    the names of their files.

    Raises:
        InputError: A file does not show which broker or namespace it is about.
    """
    made = ClusterReadings()
    pairs = [(file, part) for file in files for part in file.parts]
    made.kinds = {part.kind for _, part in pairs}
    if "dump" not in made.kinds:
        made.readings.broker_place, made.readings.leader_place = (
            "load report of {}",
            "leader-broker",
        )
    for file, part in pairs:
        _take_named(made, file, part, problems)
    for file, part in pairs:
        _take_of_broker(made, file, part)
    for file, part in pairs:
        _take_of_namespace(made, file, part)
    made.files = [_taken(file, made) for file in {id(file): file for file, _ in pairs}.values()]
    return made


def _take_named(made: ClusterReadings, file: GivenFile, part: Part, problems: ProblemLog) -> None:
    """Take what names its brokers and namespaces itself."""
    readings, value = made.readings, part.value
    match part.kind:
        case "dump":
            newest = take_dump(file.path, file.body, readings, problems)
            made.newest_at = max(made.newest_at, newest)
        case "load_report":
            readings.brokers[_reported_by(value) or file.path.stem] = msgspec.json.encode(value)
        case "brokers":
            readings.brokers = dict.fromkeys(value, b"") | readings.brokers
        case "namespaces":
            made.namespaces.update(value)
        case "topics":
            made.topics.append(value)
        case _:
            _take_cluster_wide(readings, file, part)


def _take_cluster_wide(readings: Readings, file: GivenFile, part: Part) -> None:
    """Take what holds for all brokers."""
    body = msgspec.json.encode(part.value)
    match part.kind:
        case "dynamic":
            readings.dynamic = body
        case "leader":
            readings.leader = body
        case "isolation":
            readings.isolation = body
        case "isolation_policy":
            held = msgspec.json.decode(readings.isolation or b"{}")
            readings.isolation = msgspec.json.encode({**held, file.path.stem: part.value})
        case "domains":
            readings.failure_domains = {
                name: msgspec.json.encode(domain) for name, domain in part.value.items()
            }
        case _:
            return


def _reported_by(report: Mapping[str, Any]) -> str | None:
    """Return the broker id that a load report tells: host and port of its web address."""
    for name in ("webServiceUrl", "webServiceUrlTls"):
        address = report.get(name)
        if isinstance(address, str) and (host := urlsplit(address).netloc):
            return host
    return None


def _take_of_broker(made: ClusterReadings, file: GivenFile, part: Part) -> None:
    if part.kind == "runtime":
        broker = _broker_of(made, file) or _own_id(part.value)
        if broker is None:
            raise _nameless(file, part.kind, "broker", "b-0_8080.runtime.txt")
        made.runtime[broker] = part.value
        made.whose[id(part)] = broker
        made.readings.pulsar_cluster = made.readings.pulsar_cluster or part.value.get("clusterName")
        made.readings.brokers.setdefault(broker, b"")
    elif part.kind == "metrics":
        broker = _broker_of(made, file)
        if broker is None and made.readings.brokers:
            raise _nameless(file, part.kind, "broker", "b-0_8080.prom")
        broker = broker or file.path.name.partition(".")[0]
        made.metrics[broker] = file.body
        made.whose[id(part)] = broker
    elif part.kind == "owned":
        broker = _broker_of(made, file)
        if broker is None:
            raise _nameless(file, part.kind, "broker", "b-0_8080.bundles.json")
        made.readings.owners |= dict.fromkeys(part.value, broker)
        made.whose[id(part)] = broker


def _own_id(running: Mapping[str, str]) -> str | None:
    """Return the broker id that running settings tell."""
    host = running.get("advertisedAddress") or ""
    port = _PORT.match(running.get("webServicePort") or "")
    return f"{host}:{port[1]}" if host and host != "null" and port else None


def _take_of_namespace(made: ClusterReadings, file: GivenFile, part: Part) -> None:
    if part.kind not in ("bundles", "policies"):
        return
    namespace = _namespace_of(made, file)
    if namespace is None:
        raise _nameless(file, part.kind, "namespace", "tenant+namespace.json")
    made.whose[id(part)] = namespace
    body = msgspec.json.encode(part.value)
    if part.kind == "bundles":
        made.readings.boundaries[namespace] = body
    else:
        made.readings.policies[namespace] = body
        bundles = part.value.get("bundles")
        if isinstance(bundles, Mapping) and bundles.get("boundaries"):
            made.readings.boundaries.setdefault(namespace, msgspec.json.encode(bundles))


def _nameless(file: GivenFile, kind: Kind, what: str, example: str) -> InputError:
    return InputError(
        f"{file.path}: neither {LABELS[kind]} nor the file name has its {what}.",
        hint=f"Name the file after the {what}, for example {example}.",
    )


def _broker_of(made: ClusterReadings, file: GivenFile) -> str | None:
    """Return the broker that the name of a file names: its id, its host, or its pod."""
    ids = list(made.readings.brokers)
    for form in (_whole, _host, _pod):
        found = {_words(form(name)): name for name in ids}
        if len(found) == len(ids) and (name := _named_in(file.path, found)):
            return name
    return ids[0] if len(ids) == 1 else None


def _whole(broker: str) -> str:
    return broker


def _host(broker: str) -> str:
    return broker.rpartition(":")[0]


def _pod(broker: str) -> str:
    return _host(broker).partition(".")[0]


def _namespace_of(made: ClusterReadings, file: GivenFile) -> str | None:
    known = {name.rpartition("/")[0] for name in _seen_bundles(made)}
    known |= made.namespaces | {name for name in made.readings.policies if name.count("/") == 1}
    spaces = sorted(name for name in known if not is_broker_bound(name))
    if name := _named_in(file.path, {_words(name): name for name in spaces}):
        return name
    if match := _PAIRED.match(file.path.name.partition(".")[0]):
        return f"{match[1]}/{match[2]}"
    return spaces[0] if len(spaces) == 1 else None


def _seen_bundles(made: ClusterReadings) -> set[str]:
    seen: set[str] = set(made.readings.owners) | set(made.readings.bundle_data)
    for raw in made.readings.brokers.values():
        if raw:
            seen.update(msgspec.json.decode(raw, type=_ReportedBundles).last_stats)
    for answer in made.topics:
        seen.update(f"{space}/{one}" for space, ranges in answer.items() for one in ranges)
    return seen


class _ReportedBundles(msgspec.Struct, rename="camel"):
    last_stats: dict[str, msgspec.Raw] = {}


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORDS.findall(name))


def _named_in(path: Path, names: Mapping[tuple[str, ...], str]) -> str | None:
    """Return the one name whose words follow one another in the path; the longest of several."""
    words = _words("/".join(path.parts[-3:]))
    size = len(words)
    found = {
        name: len(own)
        for own, name in names.items()
        if own and any(words[at : at + len(own)] == own for at in range(size))
    }
    longest = [name for name, length in found.items() if length == max(found.values())]
    return longest[0] if len(longest) == 1 else None


def _taken(file: GivenFile, made: ClusterReadings) -> TakenFile:
    part = file.parts[0]
    kind = LABELS.get(part.kind, "not used: no snapshot data")
    return TakenFile(file.path, kind, _about(file, part, made))


def _about(file: GivenFile, part: Part, made: ClusterReadings) -> str:
    if part.kind == "load_report":
        names = [_reported_by(one.value) or file.path.stem for one in file.parts]
        bundles = sum(len(one.value.get("lastStats") or ()) for one in file.parts)
        who = names[0] if len(names) == 1 else pluralize(len(names), "broker")
        return f"{who}, {pluralize(bundles, 'bundle')}"
    whose = made.whose.get(id(part), "")
    if part.kind in ("dynamic", "runtime"):
        return ", ".join(filter(None, (whose, pluralize(len(part.value), "setting"))))
    if part.kind in ("brokers", "namespaces", "isolation", "domains"):
        return f"{len(part.value):,}"
    return whose
