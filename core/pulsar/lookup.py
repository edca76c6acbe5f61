"""Where a topic lives, and why there: topic, hash, bundle, owner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.errors import IncompleteSnapshotError, InputError, UnknownNameError
from core.ids import range_text
from core.pulsar.owners import OWNERLESS, UNKNOWN, UNUSED
from core.pulsar.ring import find_bundle_index, topic_hash, validate_boundaries
from core.pulsar.served import Service, service_of
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.snapshot import PulsarSnapshot

_DOMAINS: Final = ("persistent", "non-persistent")
_PARTITION: Final = re.compile(r"-partition-\d+\Z")
_CRC_ASSIGNER: Final = "ConsistentHashingTopicBundleAssigner"
_OWNER_SOURCES: Final = {
    "ownership": "its ownership znode",
    "report": "its load report",
    "rest": "its admin endpoint",
    "channel": "the ownership channel of the brokers",
}


@dataclass(frozen=True, slots=True)
class TopicName:
    """A complete topic name and its parts."""

    domain: str
    namespace: str
    local: str

    def __str__(self) -> str:
        return f"{self.domain}://{self.namespace}/{self.local}"

    @property
    def is_partition(self) -> bool:
        """Whether the name is that of one partition."""
        return _PARTITION.search(self.local) is not None


@dataclass(frozen=True, slots=True)
class LookupStep:
    """One step of the lookup, for people."""

    title: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLookup:
    """Location of a topic.

    Attributes:
        topic: Complete name.
        hash: Position on the ring.
        namespace: Of the topic.
        bundle: Name of the bundle that holds the position.
        owner: Broker id; ``None`` if the bundle is unassigned, or its owner is unknown.
        is_owner_known: False: it is unknown whether the bundle has an owner.
        owner_service_url: Where clients connect, ``None`` when unknown.
        service: Whether a broker serves the bundle; ``None`` if the snapshot does not have it.
        steps: How it was found.
        notes: What to know about the answer.
    """

    topic: str
    hash: int
    namespace: str
    bundle: str
    owner: str | None
    is_owner_known: bool
    owner_service_url: str | None
    service: Service | None
    steps: tuple[LookupStep, ...]
    notes: tuple[str, ...]


Existence = Literal["topic", "partitioned", "missing", "unknown"]


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names of the persistent topics of a namespace, loaded or not.

    Attributes:
        topics: Full names; of a partitioned topic each partition.
        partitioned: Full names of partitioned topics, without the partition.
    """

    topics: frozenset[str]
    partitioned: frozenset[str]

    def existence(self, topic: str) -> Existence:
        """Return whether a topic of the namespace exists.

        Args:
            topic: Full name; a non-persistent topic exists only while it is loaded: ``unknown``.
        """
        if topic in self.partitioned:
            return "partitioned"
        if topic in self.topics:
            return "topic"
        return "missing" if topic.startswith("persistent://") else "unknown"


def parse_topic_name(text: str) -> TopicName:
    """Return the complete name of a topic.

    ``orders`` means ``persistent://public/default/orders``, and ``acme/shop/orders`` means
    ``persistent://acme/shop/orders``. Four parts are the old form with a cluster, whose namespace
    is ``tenant/cluster/namespace``.

    Raises:
        InputError: It is no topic name.
    Source:
        Pulsar ``TopicName#get``.
    """
    domain, sign, rest = text.strip().partition("://")
    if not sign:
        domain, rest = "persistent", text.strip()
        if rest and "/" not in rest:
            rest = f"public/default/{rest}"
        elif rest.count("/") != 2:
            rest = ""
    parts = rest.split("/", 3)
    if domain not in _DOMAINS or len(parts) < 3 or not all(parts):
        raise InputError(
            f"{text!r} is not a topic name.",
            hint="Use persistent://tenant/namespace/topic, tenant/namespace/topic or topic.",
        )
    return TopicName(domain, "/".join(parts[:-1]), parts[-1])


def lookup_topic(
    snapshot: PulsarSnapshot, topic: str, settings: EffectiveSettings | None = None
) -> TopicLookup:
    """Return the location of a topic in the snapshot, without requests to a cluster.

    Args:
        snapshot: Its bundles, namespaces and brokers.
        topic: Any form that :func:`parse_topic_name` takes.
        settings: For the assignment class; ``None`` for the active ones.
    Raises:
        InputError: It is no topic name.
        UnknownNameError: The snapshot does not have its namespace.
        IncompleteSnapshotError: No bundle is known that holds the topic.
    Source:
        Pulsar ``NamespaceService#getBundle`` and ``NamespaceBundles#findBundle``.
    """
    name = parse_topic_name(topic)
    position = topic_hash(str(name))
    lower, upper, boundary_note = _find_range(snapshot, name.namespace, position)
    bundle = f"{name.namespace}/{range_text(lower, upper)}"
    row = _row_of(snapshot.bundles, "bundle", bundle)
    owner = row.get("owner")
    broker = _row_of(snapshot.brokers, "broker", owner) if owner else {}
    url = broker.get("service_url") or broker.get("service_url_tls")
    way = (
        LookupStep("Topic", _topic_words(topic.strip(), name)),
        LookupStep("Hash", f"CRC-32 of the full name is 0x{position:08x}."),
        LookupStep(
            "Bundle", f"0x{position:08x} is in {range_text(lower, upper)} of {name.namespace}."
        ),
    )
    settings = settings or effective_settings(snapshot)
    service = service_of(snapshot, settings, bundle)
    notes = [boundary_note, *_topic_notes(snapshot, name, position, settings)]
    if owner and not broker:
        notes.append(f"{owner} owns the bundle but is not a registered broker.")
    notes += [] if service is None else [service.fix]
    return TopicLookup(
        topic=str(name),
        hash=position,
        namespace=name.namespace,
        bundle=bundle,
        owner=owner,
        is_owner_known=bool(owner or row.get("owner_source")),
        owner_service_url=url,
        service=service,
        steps=(*way, *_owner_steps(row, owner, url, service)),
        notes=tuple(note for note in notes if note),
    )


def _topic_words(text: str, name: TopicName) -> str:
    if text == str(name):
        return f"{name} is the full name."
    return f"{text} is {name} in full."


def _row_of(table: pa.Table, column: str, value: str) -> Mapping[str, Any]:
    row = pc.index(table.column(column), value).as_py()
    return table.slice(row, 1).to_pylist()[0] if row >= 0 else {}


def _owner_steps(
    row: Mapping[str, Any], owner: str | None, url: str | None, service: Service | None
) -> Iterator[LookupStep]:
    is_listed = service is None or service.state in (UNUSED, OWNERLESS, UNKNOWN)
    source = _OWNER_SOURCES.get(row.get("owner_source") or "", "an unnamed source")
    if owner is not None:
        serves = url and (service is None or service.is_served)
        yield LookupStep(
            "Owner", f"{owner} by {source}" + (f"; clients connect to {url}." if serves else ".")
        )
    elif not row.get("owner_source"):
        yield LookupStep("Owner", "The owner of the bundle could not be read and is unknown.")
    else:
        lookup = "The next lookup assigns it." if service is None else service.next_lookup
        yield LookupStep(
            "Owner", f"The bundle is unassigned. {lookup if is_listed else ''}".strip()
        )
    if service is not None and service.why_not and not is_listed:
        yield LookupStep("Served", f"{service.sentence} {service.next_lookup}".rstrip())


def _find_range(snapshot: PulsarSnapshot, namespace: str, position: int) -> tuple[int, int, str]:
    """Return bounds of the bundle that holds the position, and a note."""
    row = _row_of(snapshot.namespaces, "namespace", namespace)
    bundles = snapshot.bundles.filter(pc.equal(snapshot.bundles.column("namespace"), namespace))
    if not row and not bundles.num_rows:
        known = snapshot.namespaces.column("namespace").to_pylist()
        place = f"the snapshot of {snapshot.manifest.cluster}"
        raise UnknownNameError.of("namespace", namespace, known, place=place)
    boundaries = row.get("boundaries") or []
    if validate_boundaries(boundaries) is None:
        index = find_bundle_index(boundaries, position)
        return boundaries[index], boundaries[index + 1], ""
    lower = np.asarray(bundles.column("lower").to_numpy(), np.int64)
    upper = np.asarray(bundles.column("upper").to_numpy(), np.int64)
    last = (upper == 0xFFFFFFFF) & (position == 0xFFFFFFFF)
    holding = np.flatnonzero((lower <= position) & ((position < upper) | last))
    if not holding.size:
        raise IncompleteSnapshotError(
            f"No known bundle of {namespace} contains 0x{position:08x}.",
            hint="Its boundaries could not be read: see the problems of the snapshot.",
        )
    narrowest = holding[(upper - lower)[holding].argmin()]
    note = (
        "The namespace's boundaries are unknown: the bundle is selected among the observed bundles."
    )
    return int(lower[narrowest]), int(upper[narrowest]), note


def _topic_notes(
    snapshot: PulsarSnapshot, name: TopicName, position: int, settings: EffectiveSettings
) -> list[str]:
    notes = []
    assigner = settings.text("topicBundleAssignmentStrategy").rpartition(".")[2]
    if assigner != _CRC_ASSIGNER:
        notes.append(f"The cluster assigns topics by {assigner}: the actual bundle may differ.")
    if position == 0xFFFFFFFF:
        notes.append("Pulsar itself fails to find a bundle for the very last position.")
    if not name.is_partition and _has_partitions(snapshot, str(name)):
        notes.append(
            "The topic is partitioned: each partition (NAME-partition-0, ...) has "
            "its own bundle; look those up."
        )
    if name.domain == "non-persistent":
        notes.append("Only brokers that serve non-persistent topics can own it.")
    return notes


def _has_partitions(snapshot: PulsarSnapshot, topic: str) -> bool:
    names = snapshot.topics.column("topic")
    return bool(pc.any(pc.starts_with(names, f"{topic}-partition-")).as_py())
