"""How snapshots of a Pulsar cluster are recorded."""

from __future__ import annotations

from typing import Final

from core.pulsar.events import pulsar_events
from core.schemas import PULSAR_TABLES
from core.schemas.pulsar import RATES
from core.snapshot.model import PulsarSnapshot
from core.snapshot.record import Kind, SystemRecord, changing, part_of
from core.snapshot.store import load_snapshot

_BROKERS = PULSAR_TABLES["brokers"]
_TEXTS = (
    *("web_url", "web_url_tls", "service_url", "service_url_tls", "version", "load_manager"),
    *("persistent_topics_enabled", "non_persistent_topics_enabled"),
    *("last_bundle_gains", "last_bundle_losses", "failure_domain"),
)
_NUMBERS = tuple(name for name in _BROKERS.names if name not in _TEXTS)
_BUNDLES = PULSAR_TABLES["bundles"]
_LOADS = (*RATES, "topic_count", "producer_count", "consumer_count", "cache_size_bytes")
_AVERAGES = tuple(
    name for name in _BUNDLES.names if name.startswith(("short_", "long_", "averaged_"))
)
_FACTS = tuple(name for name in _BUNDLES.names if name not in {*_LOADS, *_AVERAGES})
_RING = ("namespace", "lower", "upper")

PULSAR_KINDS: Final = (
    Kind(
        "brokers",
        part_of(_BROKERS, _NUMBERS),
        table="brokers",
        key=("broker",),
        order=("broker",),
        is_spine=True,
    ),
    Kind("broker_facts", part_of(_BROKERS, ("broker", *_TEXTS)), "change", "brokers", ("broker",)),
    Kind(
        "bundle_facts",
        part_of(_BUNDLES, _FACTS),
        "change",
        table="bundles",
        key=("bundle",),
        order=_RING,
        is_spine=True,
    ),
    Kind(
        "bundle_loads",
        part_of(_BUNDLES, ("bundle", *_LOADS)),
        "busy",
        table="bundles",
        key=("bundle",),
        activity=RATES,
    ),
    Kind(
        "bundle_averages",
        part_of(_BUNDLES, ("bundle", *_AVERAGES)),
        "change",
        table="bundles",
        key=("bundle",),
    ),
    changing("namespaces", PULSAR_TABLES["namespaces"], ("namespace",)),
    changing("settings", PULSAR_TABLES["settings"], ("name", "broker")),
    changing("policies", PULSAR_TABLES["policies"], ("kind", "name")),
    changing("topics", PULSAR_TABLES["topics"], ("topic",), ("hash",)),
    changing("broker_loads", PULSAR_TABLES["broker_loads"], ("broker",)),
    changing("top_bundles", PULSAR_TABLES["top_bundles"], ("broker", "position")),
    changing("unit_states", PULSAR_TABLES["unit_states"], ("bundle",)),
    changing("claims", PULSAR_TABLES["claims"], ("subject_kind", "subject", "source", "broker")),
    changing("broker_metrics", PULSAR_TABLES["broker_metrics"], ("broker",)),
    changing("bundle_metrics", PULSAR_TABLES["bundle_metrics"], ("bundle", "broker")),
)
"""Kinds of a Pulsar cluster, in the order in which they are written."""

PULSAR_RECORD: Final = SystemRecord(
    system="pulsar",
    tables=PULSAR_TABLES,
    counted=("brokers", "bundles"),
    kinds=PULSAR_KINDS,
    build=PulsarSnapshot.build,
    load=load_snapshot,
    events=pulsar_events,
)
