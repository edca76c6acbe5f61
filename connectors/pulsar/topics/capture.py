"""What to listen to on a cluster of the extensible manager, and what to say of silence."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from connectors.config.model import ClusterConfig
from connectors.pulsar.topics.reader import LoadTopicReader
from connectors.transport.addresses import CredentialHosts, host_fault
from core.errors import ConfigError, RemoteError
from core.pulsar.snapshot.load_topics import BROKER_LOAD_TOPIC, LoadTopics
from core.pulsar.snapshot.znodes.assemble import EXTENSIBLE_LACKS
from core.pulsar.snapshot.znodes.brokers import Registry
from core.snapshot.problems import ProblemLog
from core.units import pluralize

TABLE_VIEW = "loadManagerServiceUnitStateTableViewClassName"
HOTTEST_ONLY = (
    "Only the hottest bundles of each broker have traffic data; brokers of the extensible load "
    "manager publish no others and no averages."
)


def service_addresses(config: ClusterConfig, registry: Registry) -> dict[str, str]:
    """Return the service URL of each broker that publishes its load and may be connected to.

    Credentials go to hosts and ports that :class:`CredentialHosts` allows. Where every configured
    admin address is https, no credential travels over a plain connection.
    """
    is_tls_only = bool(config.admin_urls) and all(
        urlsplit(url).scheme == "https" for url in config.admin_urls
    )
    named = (
        CredentialHosts(config.admin_urls, config.credential_hosts)
        if config.has_credentials
        else None
    )
    found = {}
    for name, kind, report in zip(registry.names, registry.kinds, registry.reports, strict=True):
        plain, tls = report.pulsar_service_url, report.pulsar_service_url_tls
        url = tls if is_tls_only else plain or tls
        if kind == "extensible" and url and _may_connect(url, named):
            found[name] = url
    return found


def _may_connect(url: str, named: CredentialHosts | None) -> bool:
    """Return whether a service URL may be contacted, with credentials where configured."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    is_plain = parts.scheme in ("pulsar", "pulsar+ssl") and not {"@", ","} & {*parts.netloc}
    is_fine = is_plain and parts.path in ("", "/") and bool(host) and not host_fault(host)
    return is_fine and (named is None or named.allows_service(parts.scheme, host, port))


def read_load_topics(
    reader: LoadTopicReader,
    addresses: Mapping[str, str],
    settings: Mapping[str, str],
    deadline: float,
    problems: ProblemLog,
) -> LoadTopics:
    """Return the brokers' published load; any failure becomes a problem.

    Args:
        reader: Of the cluster.
        addresses: Of :func:`service_addresses`.
        settings: Running settings of any broker: they name where ownership is stored.
        deadline: Monotonic time by which to be back.
        problems: Where to note what is wrong.
    """
    if not addresses:
        problems.add(
            "unsupported",
            BROKER_LOAD_TOPIC,
            "No broker has a service address that may be used.",
            done="The load of the brokers is unknown. Brokers register their service address in "
            "ZooKeeper; with credentials configured, admin_urls or credential_hosts must "
            "include the host, and the port if it is not 6650 or 6651.",
            severity="error",
        )
        return LoadTopics()
    with_states = settings.get(TABLE_VIEW, "").rpartition(".")[2] in (
        *("", "ServiceUnitStateTableViewImpl"),
    )
    try:
        topics = reader.listen(addresses, deadline, with_states=with_states)
    except (RemoteError, ConfigError) as exc:
        problems.add(
            exc.code,
            BROKER_LOAD_TOPIC,
            exc.message,
            done=f"The load of the brokers is unknown. {exc.hint}".strip(),
            severity="error",
        )
        return LoadTopics()
    _note_silent(addresses, topics, problems)
    return topics


def _note_silent(addresses: Mapping[str, str], topics: LoadTopics, problems: ProblemLog) -> None:
    silent = sorted(set(addresses) - set(topics.broker_loads))
    if silent:
        problems.add(
            "missing",
            BROKER_LOAD_TOPIC,
            f"{pluralize(len(silent), 'broker')} of {len(addresses)} have published no load yet: "
            f"{', '.join(silent[:3])}{' ...' if len(silent) > 3 else ''}.",
            done="Their load is unknown until they publish: about a minute after a change, 15 "
            "minutes at the latest. A running collector receives it.",
            severity="error" if len(silent) == len(addresses) else "info",
        )


def what_is_lacking(
    lacks: tuple[str, ...], addresses: Mapping[str, str], topics: LoadTopics
) -> tuple[str, ...]:
    """Return the sentences about the gaps of a snapshot, now that topics were read."""
    if not topics.is_read or set(addresses) - set(topics.broker_loads):
        return lacks
    return tuple(HOTTEST_ONLY if text == EXTENSIBLE_LACKS else text for text in lacks)
