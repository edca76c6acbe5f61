"""Registry znodes and broker averages to the table of brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from core.pulsar.snapshot.znodes.decode import decode_record, note_missing
from core.pulsar.snapshot.znodes.readings import BROKER_AVERAGES, Readings
from core.pulsar.snapshot.znodes.records import BrokerAverages, BrokerReport, Leader
from core.schemas.pulsar import BROKERS, RATES, RESOURCES
from core.snapshot.model import LoadManager
from core.snapshot.problems import ProblemLog

_EXTENSIBLE_REQUIRED: Final = ("brokerVersion", "loadManagerClassName")
_PLAIN: Final = {
    "web_url": "web_service_url",
    "web_url_tls": "web_service_url_tls",
    "service_url": "pulsar_service_url",
    "service_url_tls": "pulsar_service_url_tls",
    "load_manager": "load_manager_class_name",
    "started_at": "start_timestamp",
    "persistent_topics_enabled": "persistent_topics_enabled",
    "non_persistent_topics_enabled": "non_persistent_topics_enabled",
}
_LOAD: Final = {
    "reported_at": "last_update",
    "topic_count": "num_topics",
    "bundle_count": "num_bundles",
    "producer_count": "num_producers",
    "consumer_count": "num_consumers",
    "last_bundle_gains": "last_bundle_gains",
    "last_bundle_losses": "last_bundle_losses",
    **{name: name for name in RATES},
}


@dataclass(frozen=True, slots=True)
class Registry:
    """Decoded registry znodes, in the order of the brokers' names.

    Attributes:
        names: Broker ids, sorted.
        reports: One a broker; an empty record where it could not be read.
        kinds: One a broker: which load manager wrote it.
    """

    names: list[str]
    reports: list[BrokerReport]
    kinds: list[LoadManager]

    @property
    def load_manager(self) -> LoadManager:
        """Load manager of the whole cluster."""
        known = {kind for kind in self.kinds if kind != "unknown"}
        if len(known) > 1:
            return "mixed"
        return known.pop() if known else "unknown"

    @property
    def release(self) -> str | None:
        """Most common broker version."""
        versions = Counter(version for version in map(version_of, self.reports) if version)
        return versions.most_common(1)[0][0] if versions else None


def version_of(report: BrokerReport) -> str | None:
    """Return the broker's version under whichever name it was written."""
    written = report.broker_version_string
    return report.broker_version if written is None else written


def decode_registry(readings: Readings, problems: ProblemLog) -> Registry:
    """Decode every registry znode; one that is unreadable keeps its place."""
    names = sorted(readings.brokers)
    reports: list[BrokerReport] = []
    kinds: list[LoadManager] = []
    for name in names:
        raw = readings.brokers[name]
        place = readings.broker_path(name)
        report = decode_record(BrokerReport, raw, place, problems) if raw else None
        kind = load_manager_of(report) if report is not None else "unknown"
        if report is not None:
            _check(report, kind, place, problems)
        reports.append(report or BrokerReport())
        kinds.append(kind)
    return Registry(names, reports, kinds)


def load_manager_of(report: BrokerReport) -> LoadManager:
    """Return the load manager that wrote a registry znode.

    Source:
        Pulsar ``LoadReportDeserializer``: type ``LoadReport`` or a field ``underLoaded`` is the
        report of ``SimpleLoadManagerImpl``. ``BrokerLookupData`` of the extensible manager has no
        type and no load.
    """
    class_name = (report.load_manager_class_name or "").rpartition(".")[2]
    if report.load_report_type == "LoadReport" or report.under_loaded is not None:
        return "simple"
    if class_name.startswith("Extensible"):
        return "extensible"
    if class_name.startswith("Simple"):
        return "simple"
    if class_name.startswith("Modular") or report.load_report_type == "LocalBrokerData":
        return "modular"
    if report.broker_version is not None and report.last_stats is None:
        return "extensible"
    return "modular" if report.last_stats is not None else "unknown"


def _check(report: BrokerReport, kind: LoadManager, place: str, problems: ProblemLog) -> None:
    """Note what a report of that kind should hold and does not."""
    for field, plain, tls in (
        ("webServiceUrl", report.web_service_url, report.web_service_url_tls),
        ("pulsarServiceUrl", report.pulsar_service_url, report.pulsar_service_url_tls),
    ):
        is_expected = kind in ("modular", "unknown") or field == "webServiceUrl"
        if is_expected and plain is None and tls is None:
            problems.add(
                "missing",
                place,
                f"Neither {field} nor {field}Tls is set.",
                done="That address of the broker is unknown.",
                subject=field,
            )
    if kind in ("modular", "unknown"):
        note_missing(report, place, problems)
        _check_count(report, place, problems)
        return
    for name in _EXTENSIBLE_REQUIRED if kind == "extensible" else ():
        if getattr(report, _snake(name)) is None:
            problems.add("missing", place, f"Field {name} is missing.", subject=name)


def _check_count(report: BrokerReport, place: str, problems: ProblemLog) -> None:
    """Brokers write ``numBundles`` as the size of ``lastStats``: a larger one tells of a loss."""
    counted, held = report.num_bundles, report.last_stats
    if counted is not None and held is not None and counted > len(held):
        problems.add(
            "missing",
            place,
            f"It counts {counted} bundles, but its lastStats have {len(held)}.",
            done="Missing statistics are unknown.",
            subject="numBundles",
        )


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def leader_of(readings: Readings, problems: ProblemLog) -> str | None:
    """Return the leader's broker id; old releases write only its URL."""
    if readings.leader is None:
        return None
    leader = decode_record(Leader, readings.leader, readings.leader_place, problems)
    if leader is None:
        return None
    if not leader.broker_id and not leader.service_url:
        problems.add(
            "missing", readings.leader_place, "It has no broker.", done="The leader is unknown."
        )
        return None
    return leader.broker_id or (leader.service_url or "").rpartition("://")[2]


def brokers_table(
    readings: Readings,
    registry: Registry,
    *,
    leader: str | None,
    domains: Mapping[str, str],
    problems: ProblemLog,
) -> pa.Table:
    """Return the table of :data:`core.schemas.pulsar.BROKERS`.

    Args:
        readings: The averages are decoded here.
        registry: See :func:`decode_registry`.
        leader: Broker id.
        domains: Broker id -> failure domain.
        problems: Where to note what is wrong.
    """
    has_load = [kind in ("modular", "unknown") for kind in registry.kinds]
    columns: dict[str, Any] = {
        "broker": registry.names,
        "version": [version_of(report) for report in registry.reports],
        "is_leader": [name == leader for name in registry.names],
        "failure_domain": [domains.get(name) for name in registry.names],
    }
    for ours, theirs in _PLAIN.items():
        columns[ours] = [getattr(report, theirs) for report in registry.reports]
    for ours, theirs in _LOAD.items():
        columns[ours] = [
            getattr(report, theirs) if loaded else None
            for report, loaded in zip(registry.reports, has_load, strict=True)
        ]
    columns["advertised_listeners"] = [_listeners(report) for report in registry.reports]
    columns["protocols"] = [_protocols(report) for report in registry.reports]
    for resource in RESOURCES:
        columns |= _resource_columns(readings, registry, resource, problems)
    columns |= _average_columns(readings, registry.names, problems)
    columns["emptied_at"] = [None] * len(registry.names)  # by the snapshot before
    return pa.Table.from_pydict({name: columns[name] for name in BROKERS.names}, schema=BROKERS)


def _listeners(report: BrokerReport) -> list[str] | None:
    """Return ``name:URL`` of every address of every listener; ``None`` without one."""
    found = [
        f"{name}:{url}"
        for name, listener in sorted((report.advertised_listeners or {}).items())
        if listener is not None
        for url in (
            *(listener.broker_service_url, listener.broker_service_url_tls),
            *(listener.broker_http_url, listener.broker_https_url),
        )
        if url
    ]
    return found or None


def _protocols(report: BrokerReport) -> list[str] | None:
    """Return ``name:URL`` of every address of every protocol handler; ``None`` without one."""
    found = [
        f"{name}:{url.strip()}"
        for name, urls in sorted((report.protocols or {}).items())
        for url in (urls or "").split(",")
        if url.strip()
    ]
    return found or None


def _resource_columns(
    readings: Readings, registry: Registry, resource: str, problems: ProblemLog
) -> dict[str, pa.Array]:
    usages: list[float | None] = []
    limits: list[float | None] = []
    for name, report in zip(registry.names, registry.reports, strict=True):
        entry = getattr(report, resource)
        usage = entry.usage if entry else None
        limit = entry.limit if entry else None
        if usage is not None and limit is not None and usage * limit < 0:
            problems.add(
                "malformed",
                readings.broker_path(name),
                f"The {resource} usage is {usage} of {limit}: one of them is negative.",
                done="That usage is unknown.",
                severity="error",
                subject=f"{resource}.usage",
            )
            usage = None
        usages.append(usage)
        limits.append(limit)
    usage_array = np.array(usages, np.float64)
    limit_array = np.array(limits, np.float64)
    with np.errstate(all="ignore"):
        ratio = np.where(limit_array > 0, usage_array / limit_array, np.nan)
    return {
        f"{resource}_usage": pa.array(usages, pa.float64()),
        f"{resource}_limit": pa.array(limits, pa.float64()),
        f"{resource}_ratio": pa.array(ratio, mask=~np.isfinite(ratio)),
    }


def _average_columns(
    readings: Readings, names: list[str], problems: ProblemLog
) -> dict[str, list[float | None]]:
    records: list[BrokerAverages] = []
    for name in names:
        raw = readings.broker_averages.get(name)
        place = f"{BROKER_AVERAGES}/{name}"
        record = decode_record(BrokerAverages, raw, place, problems) if raw is not None else None
        if record is not None:
            note_missing(record, place, problems)
        records.append(record or BrokerAverages())
    return {
        f"{term}_{rate}": [getattr(record, f"{term}_term_{rate}") for record in records]
        for term in ("short", "long")
        for rate in RATES
    }


class BrokerNames:
    """Finds the broker id that belongs to an address in an ownership znode.

    An owner that is not registered any more is still an owner: its id is then the address's own
    ``host:port``.
    """

    def __init__(self, registry: Registry) -> None:
        self._by_address: dict[str, str] = {}
        for name, report in zip(registry.names, registry.reports, strict=True):
            for address in (
                report.web_service_url,
                report.web_service_url_tls,
                report.pulsar_service_url,
                report.pulsar_service_url_tls,
            ):
                if address:
                    self._by_address[address] = name

    def find(self, addresses: tuple[str | None, ...]) -> str | None:
        """Return the broker id for the first address that tells it, web address first."""
        for address in addresses:
            if address and address in self._by_address:
                return self._by_address[address]
        web = next((each for each in addresses[:2] if each), None)
        return _authority(web) if web else None


def _authority(address: str) -> str | None:
    """Return ``host:port`` of an address, or ``None`` when it has no such thing."""
    try:
        parts = urlsplit(address)
        is_whole = bool(parts.hostname and parts.port)
    except ValueError:
        return None
    return parts.netloc if is_whole else None
