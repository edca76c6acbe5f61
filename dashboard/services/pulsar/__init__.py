"""The composition root's part for Pulsar clusters; see :mod:`dashboard.services`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    import pyarrow as pa

    from connectors.config.model import ClusterConfig
    from connectors.pulsar.outputs import ImportResult
    from core.pulsar.lookup import TopicNames
    from core.snapshot import PulsarSnapshot


def capture(cluster: ClusterConfig) -> PulsarSnapshot:
    """Take one snapshot.

    Raises:
        RemoteError: Nothing at all could be read.
    """
    from connectors.pulsar.collect import PulsarCollector  # noqa: PLC0415  # commands must start fast

    collector = PulsarCollector(cluster)
    try:
        return collector.collect()
    finally:
        collector.close()


def import_outputs(paths: Sequence[Path], cluster: str, now: datetime) -> ImportResult:
    """Make one snapshot out of outputs of ``pulsar-admin``, metrics and dumps.

    Raises:
        InputError: A file cannot be read, is not recognized, or does not show what it is about.
    """
    from connectors.pulsar.outputs import import_outputs as made_of  # noqa: PLC0415  # commands start fast

    return made_of(paths, cluster, now)


def fetch_topics(cluster: ClusterConfig, broker_web_url: str, bundle: str | None) -> pa.Table:
    """Read the topics of one bundle (or all) from a broker.

    Raises:
        RemoteError: The broker did not answer as it should.
    """
    from connectors.pulsar.collect import fetch_topics as fetch  # noqa: PLC0415  # commands start fast

    return fetch(cluster, broker_web_url, bundle)


def fetch_topic_names(cluster: ClusterConfig, broker_web_url: str, namespace: str) -> TopicNames:
    """Read the names of a namespace's persistent topics from a broker.

    Raises:
        RemoteError: The broker did not answer as it should.
    """
    from connectors.pulsar.collect import fetch_topic_names as fetch  # noqa: PLC0415  # commands start fast

    return fetch(cluster, broker_web_url, namespace)
