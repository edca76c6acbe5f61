"""Limits of a cluster follow the configuration file while a worker runs."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from queue_system import QueueCluster, QueueConnector

from connectors.config.model import TrimtabConfig
from connectors.pulsar.acting.cluster import PulsarCluster
from connectors.systems import CONNECTORS
from connectors.worker.limits import WorkerLimits

TEXT = """
[[clusters]]
name = "prod"
admin_urls = ["http://127.0.0.1:9"]
read_only = {read_only}
exclusions = {exclusions}

[clusters.apply]
moves_per_day = {moves}
"""


class Site:
    """A configuration file, and what is said about it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "trimtab.toml"
        self.said: list[str] = []
        self._second = 0
        self.write()
        config = TrimtabConfig.load(self.file, ())
        self.cluster = config.cluster("prod")
        self.limits = WorkerLimits(config, self.cluster, self.said.append)

    def write(self, text: str = TEXT, **values: object) -> None:
        chosen = {"read_only": "false", "exclusions": [], "moves": 500, **values}
        self.file.write_text(text.format(**chosen), encoding="utf-8")
        self._second += 1
        os.utime(self.file, (self._second, self._second))


def test_a_cluster_made_read_only_is_so_for_who_acts_on_it_already(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with closing(PulsarCluster(site.cluster, site.limits.now)) as pulsar:
        assert not pulsar.is_read_only
        site.write(read_only="true", exclusions=["acme/*"], moves=7)
        assert pulsar.is_read_only
        assert list(pulsar.exclusions) == ["acme/*"]
        assert pulsar.moves_per_day == 7
        site.write()
        assert not pulsar.is_read_only
    assert not site.said


def test_a_file_that_cannot_be_read_leaves_the_limits_and_is_named_once(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.write("[[clusters]")
    assert not site.limits.now().read_only
    assert not site.limits.now().read_only
    assert len(site.said) == 1
    assert site.said[0].startswith(f"The limits are unchanged: {site.file} is not TOML")
    site.file.unlink()
    assert not site.limits.now().read_only
    site.write(read_only="true")
    assert site.limits.now().read_only


def test_a_cluster_taken_out_of_the_file_is_read_only(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.write("collect_every_s = 60\n")
    assert site.limits.now().read_only


def test_how_the_cluster_is_reached_stays_as_it_was(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.write(TEXT.replace("127.0.0.1:9", "127.0.0.1:10"), read_only="true")
    assert site.limits.now().admin_urls == site.cluster.admin_urls


def test_the_limits_follow_a_file_that_names_a_cluster_of_another_system(tmp_path: Path) -> None:
    site = Site(tmp_path)
    beside = TEXT + '\n[[clusters]]\nname = "queues-1"\nkind = "queues"\n'
    site.write(beside)
    connectors = [*CONNECTORS, QueueConnector(QueueCluster(lambda: datetime.now(UTC)))]
    config = TrimtabConfig.load(site.file, connectors)
    limits = WorkerLimits(config, config.cluster("prod"), site.said.append)
    site.write(beside, read_only="true")
    assert limits.now().read_only
    assert not site.said


def test_a_configuration_without_a_file_never_changes(tmp_path: Path) -> None:
    cluster = Site(tmp_path).cluster
    config = TrimtabConfig(clusters=[cluster], state_dir=tmp_path)
    assert config.file is None
    assert WorkerLimits(config, cluster, print).now() is cluster
