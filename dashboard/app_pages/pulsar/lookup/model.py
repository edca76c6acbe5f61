"""The lookup of a topic as a row of figures, whether the topic exists, and names that complete."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.errors import UnknownNameError
from core.pulsar.lookup import TopicLookup, TopicNames
from core.units import UNKNOWN, format_ago, pluralize
from dashboard.presenters.figures import KeyFigure, Status

if TYPE_CHECKING:
    from core.snapshot import PulsarSnapshot

MAX_OFFERED: Final = 2_000
"""Names that the field offers: more would make every page of a large cluster slow to send."""

MAX_LISTED: Final = 2_000
_PARTITION: Final = "-partition-"


@dataclass(frozen=True, slots=True, eq=False)
class ReadNames:
    """Names of a namespace's topics as a broker returned them, and when."""

    names: TopicNames
    read_at: datetime


@dataclass(frozen=True, slots=True)
class TopicState:
    """Whether a topic exists.

    Attributes:
        word: ``yes``, ``no`` or ``not checked``.
        note: By what, or why it is not known.
        status: Of the figure.
        hint: Near names, where it does not exist.
    """

    word: str
    note: str
    status: Status
    hint: str = ""


def offered(
    snapshot: PulsarSnapshot,
    namespaces: Sequence[str],
    known: Iterable[TopicNames],
    named: str,
) -> list[str]:
    """Return what the field completes: known topics, then namespaces.

    Args:
        snapshot: Its topics, of the bundles whose topics it has.
        namespaces: Names, the busiest first.
        known: Names that were read.
        named: What the field holds.
    """
    read = sorted({name for one in known for name in (*one.topics, *one.partitioned)})
    topics = [*read, *snapshot.topics["topic"].to_pylist()]
    spaces = [f"{name}/" for name in namespaces]
    rest = MAX_OFFERED - min(len(spaces), MAX_OFFERED // 2)
    found = [*([named] if named else []), *topics[:rest], *spaces]
    return list(dict.fromkeys(found))[: MAX_OFFERED + 1]


def namespace_in(text: str, namespaces: Collection[str]) -> str:
    """Return the namespace that a text names instead of a topic; empty: it does not."""
    name = text.partition("://")[2] or text
    return name.rstrip("/") if name.rstrip("/") in namespaces else ""


def from_names(found: TopicLookup, read: ReadNames, now: datetime) -> TopicState | None:
    """Return whether a topic exists by the names of its namespace; ``None``: they do not tell."""
    age = format_ago((now - read.read_at).total_seconds())
    state = read.names.existence(found.topic)
    if state == "unknown":
        return None
    if state == "missing":
        near = UnknownNameError.of(
            "topic", found.topic, read.names.topics | read.names.partitioned
        ).hint
        return TopicState("no", f"checked {age}", "warning", near)
    if state == "partitioned":
        parts = sum(one.startswith(f"{found.topic}{_PARTITION}") for one in read.names.topics)
        return TopicState("yes", f"{pluralize(parts, 'partition')}, checked {age}", "ok")
    return TopicState("yes", f"checked {age}", "ok")


def from_tables(found: TopicLookup, tables: Iterable[pa.Table]) -> TopicState:
    """Return whether a topic is among topics that were read with their load."""
    for table in tables:
        if pc.index(table["topic"], found.topic).as_py() >= 0:
            return TopicState("yes", "loaded by the owner", "ok")
    if not found.topic.startswith("persistent://"):
        return TopicState("not checked", "exists only while loaded", "unknown")
    return TopicState("not checked", "not in the snapshot", "unknown")


def namespaces_table(bundles: pa.Table) -> pd.DataFrame:
    """Return one row a namespace that topics are looked up in, the busiest first.

    Args:
        bundles: Of a snapshot, :data:`core.schemas.pulsar.BUNDLES`.
    Returns:
        ``namespace``, ``topics``, ``bundles``, ``throughput`` (MB/s); at most
        :data:`MAX_LISTED` rows.
    """
    own = bundles.filter(pc.invert(bundles["is_broker_bound"]))
    traffic = pc.add(*(pc.fill_null(own[f"msg_throughput_{side}"], 0.0) for side in ("in", "out")))
    grouped = (
        own.select(["namespace"])
        # no statistics: no broker serves it, so no topic of it is loaded; Policies counts the same
        .append_column("topic_count", pc.fill_null(own["topic_count"], 0))
        .append_column("throughput", traffic)
        .group_by("namespace")
        .aggregate([("topic_count", "sum"), ("namespace", "count"), ("throughput", "sum")])
        .sort_by([("throughput_sum", "descending"), ("namespace", "ascending")])
    )
    table: pd.DataFrame = grouped.slice(0, MAX_LISTED).to_pandas()
    names = {
        "topic_count_sum": "topics",
        "namespace_count": "bundles",
        "throughput_sum": "throughput",
    }
    table = table.rename(columns=names)[["namespace", *names.values()]]
    table["throughput"] /= 1e6
    return table.astype({"topics": "Int64"})


def names_table(names: TopicNames) -> pd.DataFrame:
    """Return one row a topic of a namespace, by name; a partitioned one with its partitions."""
    parts: dict[str, int] = dict.fromkeys(names.partitioned, 0)
    single = []
    for name in names.topics:
        base = name.rpartition(_PARTITION)[0]
        if base in parts:
            parts[base] += 1
        else:
            single.append(name)
    rows: list[tuple[str, int | None]] = [*parts.items(), *((name, None) for name in single)]
    table = pd.DataFrame(sorted(rows)[:MAX_LISTED], columns=["topic", "partitions"])
    return table.astype({"partitions": "Int64"})


def subtitle(found: TopicLookup) -> str:
    """Return where the topic is, with dots between."""
    return " · ".join((found.bundle, found.owner or _no_owner(found)))


def steps(found: TopicLookup, state: TopicState) -> list[KeyFigure]:
    """Return the steps of the lookup, each a figure, in their order; and whether it exists."""
    low, _, high = found.bundle.rpartition("/")[2].partition("_")
    namespace, _, name = found.topic.partition("://")[2].rpartition("/")
    return [
        KeyFigure(label="1. Topic", value=name, note=namespace),
        KeyFigure(label="2. Hash", value=f"0x{found.hash:08x}", note="of the full name"),
        KeyFigure(label="3. Bundle", value=low, note=f"to {high}, contains the hash"),
        KeyFigure(
            label="4. Owner",
            value=found.owner or (UNKNOWN if not found.is_owner_known else "none"),
            note=_serves(found),
            status=_status(found),
        ),
        KeyFigure(label="Exists", value=state.word, note=state.note, status=state.status),
    ]


def _serves(found: TopicLookup) -> str:
    """Return what its owner does for it."""
    service = found.service
    if found.owner and service is not None and not service.is_served:
        return "not served" if service.is_served is False else "not allowed to serve it"
    return found.owner_service_url or _no_owner(found)


def _status(found: TopicLookup) -> Status:
    if not found.is_owner_known:
        return "unknown"
    service = found.service
    if found.owner and service is not None and not service.is_served:
        return "bad" if service.is_served is False else "unknown"
    return "ok" if found.owner else "warning"


def _no_owner(found: TopicLookup) -> str:
    if found.owner:
        return "serving"
    return "assigned by the next lookup" if found.is_owner_known else "owner unknown"
