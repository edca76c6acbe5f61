"""Read a Pulsar cluster into a snapshot, from ZooKeeper and the brokers' REST.

Whatever part is broken becomes a problem of the snapshot; only a cluster of which nothing at all
can be read raises.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors.config.model import ClusterConfig
from connectors.connector import ExecutedPlans, no_plans
from connectors.pulsar.admin.capture import ADMIN, RestCapture, RestFacts
from connectors.pulsar.admin.client import AdminClient, quoted
from connectors.pulsar.admin.parse import BrokerTopics, topics_table
from connectors.pulsar.metrics.capture import Metrics, MetricsReader
from connectors.pulsar.topics.capture import read_load_topics, service_addresses, what_is_lacking
from connectors.pulsar.topics.reader import LoadTopicReader
from connectors.pulsar.znodes import ClusterPolicies, ZooKeeperCapture
from connectors.transport.addresses import address_fault
from connectors.transport.deadline import is_given_up
from connectors.zookeeper.client import ZooKeeperReader
from core.errors import AuthError, ConfigError, GivenUpError, InputError, RemoteError
from core.pulsar.emptied import with_emptied
from core.pulsar.lookup import TopicNames
from core.pulsar.releases import Release
from core.pulsar.setting_values import parse_upstream_value
from core.pulsar.settings import SETTINGS, Setting
from core.pulsar.snapshot.load_topics import with_load_topics
from core.pulsar.snapshot.znodes import Readings, SnapshotTables, assemble
from core.pulsar.snapshot.znodes.assemble import decode_dynamic
from core.pulsar.snapshot.znodes.brokers import Registry, decode_registry, version_of
from core.pulsar.snapshot.znodes.readings import CONFIGURATION
from core.schemas import METRIC_TABLES, OPTIONAL_TABLES
from core.schemas.pulsar import SETTINGS as SETTINGS_SCHEMA
from core.schemas.pulsar import STORED_PREFIX
from core.snapshot import Manifest, PulsarSnapshot, TableManifest
from core.snapshot.problems import ProblemLog

__all__ = ["PulsarCollector", "fetch_topic_names", "fetch_topics"]

REST_LACKS: Final = (
    "Without ZooKeeper, time averages of brokers and bundles are not available.",
    "Without ZooKeeper, resource quotas of bundles are not available.",
    "Without ZooKeeper, sessions and ownership entries are not available.",
)
ZOOKEEPER_LACKS: Final = (
    "The settings in broker.conf are not available: no admin URL is configured. Defaults are "
    "assumed for settings without a dynamic value."
)

Runtime = Mapping[str, Mapping[str, str]]


class PulsarCollector:
    """Takes snapshots of one cluster, over one ZooKeeper session and one pool of connections.

    Args:
        config: The cluster.
        plans: Returns the plans that runs executed between two moments.
    Attributes:
        changed: Set when a broker came or went since the last capture began.
    Raises:
        ConfigError: A secret or certificate cannot be read.
    """

    def __init__(self, config: ClusterConfig, plans: ExecutedPlans = no_plans) -> None:
        self.config = config
        self._plans = plans
        self.changed = threading.Event()
        self._client = AdminClient(config) if config.admin_urls else None
        self._rest = RestCapture(config, self._client) if self._client else None
        self._reader: ZooKeeperReader | None = None
        self._znodes: ZooKeeperCapture | None = None
        self._before: PulsarSnapshot | None = None
        self._topics = LoadTopicReader(config)
        self._metrics = MetricsReader(config)

    def collect(self) -> PulsarSnapshot:
        """Take one snapshot.

        Raises:
            RemoteError: Nothing at all could be read.
            ConfigError: The credential for ZooKeeper cannot be read.
        """
        began = monotonic()
        self.changed.clear()
        problems = ProblemLog()
        self._renew_credentials(problems)
        _note_unverified(self.config, problems)
        if self._rest is not None:
            self._rest.begin(began + self.config.timeouts.capture_s)
        readings, facts, policies = self._read(problems)
        source = "rest" if policies is None else "zookeeper"
        registry = decode_registry(readings, problems)
        if policies is not None:
            if self._rest is not None:
                facts = self._read_brokers(self._rest, readings, registry, problems)
                source = "zookeeper+rest" if facts.runtime else source
            own = self.config.pulsar_cluster or facts.setting("clusterName")
            policies.finish(readings, own, problems)
            self._read_owners(readings, registry, facts, problems)
        made = assemble(readings, problems, registry)
        if "extensible" in registry.kinds:
            made = self._with_topics(made, registry, facts, began, problems)
        settings = self._settings(readings, registry, facts, problems)
        urls = {name: url for name, url in self._urls(registry).items() if not facts.is_late(name)}
        metrics = self._metrics.read(registry.names, urls, problems)
        if is_given_up():  # whatever is missing was not waited for
            raise GivenUpError.at(self.config.name, "capture", "not_sent")
        known = {"settings": settings} if settings is not None else {}
        tables = {**made.tables, **known, **metrics.tables}
        manifest = self._manifest(_lacking(made, metrics), tables, source, readings, problems)
        built = PulsarSnapshot.build(
            _timed(manifest, monotonic() - began, datetime.now(UTC)), tables
        )
        self._before = with_emptied(built, self._before, self._plans)
        return self._before

    def recall(self, snapshot: PulsarSnapshot) -> None:
        """Take over what an earlier snapshot of the cluster holds: the drained brokers."""
        self._before = snapshot

    def close(self) -> None:
        """End the session and the connections; twice is harmless."""
        reader, self._reader, self._znodes = self._reader, None, None
        if reader is not None:
            reader.close()
        self._topics.close()
        self._metrics.close()
        if self._client is not None:
            self._client.close()

    def _with_topics(
        self,
        made: SnapshotTables,
        registry: Registry,
        facts: RestFacts,
        began: float,
        problems: ProblemLog,
    ) -> SnapshotTables:
        """Complete the tables with what brokers of the extensible manager publish."""
        addresses = service_addresses(self.config, registry)
        running = next(iter(facts.runtime.values()), {})
        deadline = began + self.config.timeouts.capture_s
        topics = read_load_topics(self._topics, addresses, running, deadline, problems)
        if not topics.is_read:
            return made
        return replace(
            made,
            tables=with_load_topics(made.tables, topics, problems),
            unavailable=what_is_lacking(made.unavailable, addresses, topics),
        )

    def _renew_credentials(self, problems: ProblemLog) -> None:
        try:
            if self._client is not None:
                self._client.renew_credentials()
        except ConfigError as exc:
            problems.add(
                "auth", "configuration", exc.message, done="The previous value stays in use."
            )

    # -- reading ------------------------------------------------------------------------------

    def _read(self, problems: ProblemLog) -> tuple[Readings, RestFacts, ClusterPolicies | None]:
        """Read from ZooKeeper where there is one; from the REST where there is none or it fails.

        The policies are ``None`` when the REST was read: it has the cluster's own only.
        """
        if self.config.zookeeper is None and self._rest is not None:
            return *self._rest.read_all(problems), None
        try:
            readings, policies = self._read_znodes(problems)
        except RemoteError as exc:
            if self._rest is None:
                raise
            problems.add(
                exc.code,
                exc.endpoint,
                exc.message,
                done=f"The brokers' REST is read instead. {exc.hint}".strip(),
                severity="error",
            )
            # however long ZooKeeper took, there is time for the answers of brokers that are well
            self._rest.begin(monotonic() + self.config.timeouts.capture_s / 2)
            return *self._rest.read_all(problems), None
        return readings, RestFacts(), policies

    def _read_znodes(self, problems: ProblemLog) -> tuple[Readings, ClusterPolicies]:
        if self._reader is None or self._znodes is None:
            self._reader = ZooKeeperReader(self.config, on_change=self.changed.set)
            self._znodes = ZooKeeperCapture(self._reader)
        reader = self._reader
        try:
            reader.begin(self.config.read_budget, self.config.timeouts.capture_s)
            found = ProblemLog()
            readings, policies = self._znodes.read(found)
        except RemoteError:
            self._drop_session()
            raise
        if reader.failure is not None:
            failure = reader.failure
            self._drop_session()
            if not readings.brokers:
                raise failure
        problems.extend(found)
        return readings, policies

    def _drop_session(self) -> None:
        """Begin the next capture with a fresh session: this one is not to be trusted any more."""
        reader, self._reader, self._znodes = self._reader, None, None
        if reader is not None:
            reader.close()

    def _read_brokers(
        self, rest: RestCapture, readings: Readings, registry: Registry, problems: ProblemLog
    ) -> RestFacts:
        """Read the running settings of the registered brokers."""
        urls = self._urls(registry, problems)
        started = {
            name: report.start_timestamp
            for name, report in zip(registry.names, registry.reports, strict=True)
        }
        dynamic = decode_dynamic(readings.dynamic, ProblemLog())
        rest.note_other_addresses(urls, problems)  # few: they must not wait for a thousand others
        facts = rest.settings(urls, started, dynamic, problems)
        if not facts.runtime:
            rest.begin(monotonic() + self.config.timeouts.answer_s)  # the others used up the time
            facts.runtime = rest.settings_of_any(problems)
        return facts

    def _read_owners(
        self, readings: Readings, registry: Registry, facts: RestFacts, problems: ProblemLog
    ) -> None:
        """Read what brokers of the extensible manager own: ZooKeeper does not report it."""
        cluster = readings.pulsar_cluster
        kinds = dict(zip(registry.names, registry.kinds, strict=True))
        wanted = [name for name, kind in kinds.items() if kind == "extensible"]
        if self._rest is None or cluster is None or not wanted:
            return
        urls = self._urls(registry)
        reachable = {
            name: urls[name]
            for name in wanted
            if name in urls and isinstance(facts.silent.get(name), AuthError | None)
        }
        readings.owners, silent = self._rest.owned_bundles(cluster, reachable, problems)
        if registry.load_manager == "extensible":
            readings.owners_known = not silent and len(reachable) == len(wanted)

    def _urls(self, registry: Registry, problems: ProblemLog | None = None) -> dict[str, str]:
        """Return the web address of each broker that may be contacted; note those that may not."""
        urls = {}
        for name, report in zip(registry.names, registry.reports, strict=True):
            plain, tls = report.web_service_url, report.web_service_url_tls
            if url := self.config.web_address(plain, tls):
                urls[name] = url
            elif problems is not None and (fault := address_fault(plain or tls or "")):
                if plain or tls:
                    problems.add(
                        "unsupported",
                        name,
                        f"The broker registered a web address that is not used: {fault}.",
                        done="Its settings are unknown.",
                    )
            elif problems is not None:
                problems.add(
                    "unsupported",
                    plain or name,
                    "The broker registered no https address, but all admin_urls are https.",
                    done="It is not queried, to protect credentials.",
                )
        return urls

    # -- making -------------------------------------------------------------------------------

    def _settings(
        self, readings: Readings, registry: Registry, facts: RestFacts, problems: ProblemLog
    ) -> pa.Table | None:
        if not facts.runtime:
            return None
        versions = dict.fromkeys(facts.runtime, registry.release) | {
            name: version_of(report)
            for name, report in zip(registry.names, registry.reports, strict=True)
        }
        dynamic = decode_dynamic(readings.dynamic, problems)
        return settings_table(facts.runtime, versions, dynamic, problems)

    def _manifest(
        self,
        made: SnapshotTables,
        tables: Mapping[str, pa.Table],
        source: str,
        readings: Readings,
        problems: ProblemLog,
    ) -> Manifest:
        entries = {
            name: TableManifest(
                source="none" if name == "topics" else _source(name, source, readings),
                rows=table.num_rows,
                expected=made.expected.get(name),
                oldest_at=made.oldest_at.get(name),
            )
            for name, table in tables.items()
        }
        lacks = list(made.unavailable)
        if source == "rest":
            lacks += REST_LACKS
        if self._rest is None:
            lacks.append(ZOOKEEPER_LACKS)
        return Manifest(
            cluster=self.config.name,
            target_ratio=self.config.target_ratio,
            taken_at=datetime.now(UTC),
            tables=entries,
            pulsar_cluster=readings.pulsar_cluster,
            load_manager=made.load_manager,
            leader=made.leader,
            release=made.release,
            problems=problems.named(),
            unavailable=tuple(lacks),
        )


def _note_unverified(config: ClusterConfig, problems: ProblemLog) -> None:
    over_tls = [url for url in config.admin_urls if url.startswith("https:")]
    if over_tls and not config.tls.verify:
        problems.add(
            "unverified",
            over_tls[0],
            "The certificates of the brokers are not verified.",
            done="A machine in between could impersonate them. Set ca_file and enable verify.",
        )


def _lacking(made: SnapshotTables, metrics: Metrics) -> SnapshotTables:
    """Return the snapshot, with the gaps and the age of its metrics."""
    table = metrics.tables.get("broker_metrics")
    if table is None:
        return replace(made, unavailable=(*made.unavailable, *metrics.lacks))
    return replace(
        made,
        unavailable=(*made.unavailable, *metrics.lacks),
        expected={**made.expected, "broker_metrics": made.tables["brokers"].num_rows},
        oldest_at={**made.oldest_at, "broker_metrics": pc.min(table["sampled_at"]).as_py()},
    )


def _source(name: str, source: str, readings: Readings) -> str:
    if name in METRIC_TABLES:
        return "metrics"
    if name in OPTIONAL_TABLES and name != "claims":
        return "topics"
    if name == "settings" or (name == "bundles" and readings.owners):
        return source
    return source.partition("+")[0]


def _timed(manifest: Manifest, duration_s: float, moment: datetime) -> Manifest:
    return replace(manifest, duration_s=duration_s, taken_at=moment)


def fetch_topics(config: ClusterConfig, broker_web_url: str, bundle: str | None) -> pa.Table:
    """Read the topics that a broker serves right now.

    Args:
        broker_web_url: Web address of the broker that owns the bundle, from a snapshot.
        bundle: Only its topics; ``None`` for all topics of the broker.
    Returns:
        The table of :data:`core.schemas.pulsar.TOPICS`.
    Raises:
        RemoteError: The broker did not answer as it should.
    """
    client = AdminClient(config)
    try:
        client.trust([broker_web_url])
        path = f"{ADMIN}/broker-stats/topics"
        answer = client.get(
            broker_web_url, path, BrokerTopics, max_bytes=config.read_limits.bulk_bytes
        )
    finally:
        client.close()
    return topics_table(answer, bundle)


def fetch_topic_names(config: ClusterConfig, broker_web_url: str, namespace: str) -> TopicNames:
    """Read the names of a namespace's persistent topics, as the metadata store has them.

    Any broker answers; none loads or is assigned a bundle.

    Args:
        broker_web_url: Web address of a broker, from a snapshot.
        namespace: Name.
    Raises:
        RemoteError: The broker did not answer as it should; ``NotFoundError``: no such namespace.
    """
    client = AdminClient(config)
    path = f"{ADMIN}/persistent{quoted(*namespace.split('/'))}"
    limit = config.read_limits.bulk_bytes
    try:
        client.trust([broker_web_url])
        topics, partitioned = (
            client.get(broker_web_url, one, list[str], max_bytes=limit)
            for one in (path, f"{path}/partitioned")
        )
    finally:
        client.close()
    return TopicNames(frozenset(topics), frozenset(partitioned))


def settings_table(
    runtime: Runtime,
    versions: Mapping[str, str | None],
    dynamic: Mapping[str, str],
    problems: ProblemLog,
) -> pa.Table:
    """Return the table of :data:`core.schemas.pulsar.SETTINGS`.

    Args:
        runtime: Broker id -> all its running values, as texts.
        versions: Broker id -> version, for the defaults of its release.
        dynamic: What ``/admin/configuration`` stores; brokers store anything and use what is valid.
        problems: Gets the stored values that no broker can use.
    """
    rows: list[dict[str, str | None]] = []
    for setting in SETTINGS:
        stored = dynamic.get(setting.key)
        usable = stored is None or _check(setting, stored, problems)
        effective = stored if usable else None
        origin_of: dict[tuple[str, Release], str] = {}  # a thousand brokers share a few values
        values: dict[str, tuple[str, str]] = {}
        for broker, own in runtime.items():
            text = own.get(setting.key)
            if text is not None:
                key = (text, Release.of(versions.get(broker)))
                if key not in origin_of:
                    origin_of[key] = _origin(setting, *key, effective)
                values[broker] = (text, origin_of[key])
        if values:
            rows += _rows(setting.key, values)
            if stored is not None and all(origin != "dynamic" for _, origin in values.values()):
                rows.append(_row(None, STORED_PREFIX + setting.key, stored, "stored"))
        elif stored is not None and usable:
            rows.append(_row(None, setting.key, stored, "dynamic"))
    rows += _others(runtime, dynamic)
    return pa.Table.from_pylist(rows, schema=SETTINGS_SCHEMA)


def _others(runtime: Runtime, dynamic: Mapping[str, str]) -> list[dict[str, str | None]]:
    """Return the stored values of other settings; ``stored``: no broker that answered has it."""
    others = dynamic.keys() - {setting.key for setting in SETTINGS}
    return [
        _row(None, STORED_PREFIX + name, dynamic[name], "stored")
        if runtime and all(name not in own for own in runtime.values())
        else _row(None, name, dynamic[name], "dynamic")
        for name in sorted(others)
    ]


def _rows(key: str, values: Mapping[str, tuple[str, str]]) -> list[dict[str, str | None]]:
    """Return one row for the most common value and one for each broker that differs."""
    common = Counter(values.values()).most_common(1)[0][0]
    own = [_row(broker, key, *entry) for broker, entry in sorted(values.items()) if entry != common]
    return [_row(None, key, *common), *own]


def _row(broker: str | None, name: str, value: str, origin: str) -> dict[str, str | None]:
    return {"broker": broker, "name": name, "value": value, "origin": origin}


def _origin(setting: Setting, text: str, release: Release, stored: str | None) -> str:
    if stored is not None and _same(setting, text, stored):
        return "dynamic"
    default = setting.default_for(release)
    try:
        return "default" if parse_upstream_value(setting, text) == default else "file"
    except InputError:
        return "file"


def _same(setting: Setting, left: str, right: str) -> bool:
    try:
        return parse_upstream_value(setting, left) == parse_upstream_value(setting, right)
    except InputError:
        return left == right


def _check(setting: Setting, stored: str, problems: ProblemLog) -> bool:
    """Return whether brokers can use a stored value; an invalid bool counts as false."""
    try:
        parse_upstream_value(setting, stored)
    except InputError as exc:
        problems.add(
            "inconsistent",
            CONFIGURATION,
            f"Dynamic setting {exc.message.removeprefix('Setting ')}",
            done="Brokers store it but keep their current value. Delete or correct it.",
            subject=setting.key,
        )
        return False
    if setting.kind == "bool" and stored.strip().lower() not in ("true", "false"):
        problems.add(
            "inconsistent",
            CONFIGURATION,
            f"Dynamic setting {setting.key} has the value {stored!r}; brokers parse it as false.",
            done="Use true or false.",
            subject=setting.key,
        )
    return True
