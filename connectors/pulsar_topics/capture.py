"""What to listen to on a cluster of the extensible manager, and what to say of silence."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from connectors.config import ClusterConfig
from connectors.pulsar_topics.reader import LoadTopicReader, MissingExtraError
from core.errors import ConfigError, RemoteError
from core.snapshot.load_topics import BROKER_LOAD_TOPIC, LoadTopics
from core.snapshot.znodes import ProblemLog
from core.snapshot.znodes.assemble import EXTENSIBLE_LACKS
from core.snapshot.znodes.brokers import Registry
from core.units import counted

TABLE_VIEW = "loadManagerServiceUnitStateTableViewClassName"
HOTTEST_ONLY = (
    "Of the bundles, only the hottest of each broker have traffic: brokers of the extensible "
    "manager publish no others, and nobody keeps averages."
)


def service_addresses(config: ClusterConfig, registry: Registry) -> dict[str, str]:
    """Return the service URL of each broker that publishes its load and may be connected to.

    Where every configured admin address is https, no credential travels over a plain connection.
    """
    is_tls_only = bool(config.admin_urls) and all(
        urlsplit(url).scheme == "https" for url in config.admin_urls
    )
    found = {}
    for name, kind, report in zip(registry.names, registry.kinds, registry.reports, strict=True):
        plain, tls = report.pulsar_service_url, report.pulsar_service_url_tls
        url = tls if is_tls_only else plain or tls
        if kind == "extensible" and url and url.startswith(("pulsar://", "pulsar+ssl://")):
            found[name] = url
    return found


def read_load_topics(
    reader: LoadTopicReader,
    addresses: Mapping[str, str],
    settings: Mapping[str, str],
    deadline: float,
    problems: ProblemLog,
) -> LoadTopics:
    """Return what brokers publish; whatever goes wrong becomes a problem.

    Args:
        reader: Of the cluster.
        addresses: Of :func:`service_addresses`.
        settings: Running settings of any broker: they tell where ownership is kept.
        deadline: Monotonic time by which to be back.
        problems: Where to note what is wrong.
    """
    if not addresses:
        problems.add(
            "unsupported",
            BROKER_LOAD_TOPIC,
            "No service address of a broker is known that may be used.",
            done="The load of the brokers is unknown. Brokers register theirs in ZooKeeper: name "
            "it in the configuration.",
        )
        return LoadTopics()
    with_states = settings.get(TABLE_VIEW, "").rpartition(".")[2] in (
        *("", "ServiceUnitStateTableViewImpl"),
    )
    try:
        topics = reader.listen(addresses, deadline, with_states=with_states)
    except (RemoteError, ConfigError) as exc:
        is_extra = isinstance(exc, MissingExtraError)
        problems.add(
            exc.code,
            BROKER_LOAD_TOPIC,
            exc.message,
            done=f"The load of the brokers is unknown. {exc.hint}".strip(),
            severity="warning" if is_extra else "error",
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
            f"{counted(len(silent), 'broker')} of {len(addresses)} published no load since we "
            f"listen: {', '.join(silent[:3])}{' ...' if len(silent) > 3 else ''}.",
            done="Their load is unknown until they do: within a minute or so where it changes, "
            "every 15 minutes at the latest. A collector that keeps running hears it.",
            severity="info",
        )


def what_is_lacking(
    lacks: tuple[str, ...], addresses: Mapping[str, str], topics: LoadTopics
) -> tuple[str, ...]:
    """Return the sentences about what a snapshot cannot tell, now that topics were read."""
    if not topics.is_read or set(addresses) - set(topics.broker_loads):
        return lacks
    return tuple(HOTTEST_ONLY if text == EXTENSIBLE_LACKS else text for text in lacks)
