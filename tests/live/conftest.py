"""Fixtures of the live tests: one real cluster at a time, with traffic, whole at every start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cluster_truth import ClusterTruth
from folder_ends import end_with_folder
from java_process import wait_until
from pulsar_files import Mode
from real_pulsar import RealPulsar, RealPulsarOptions, why_not
from traffic import Traffic, make_namespaces, topic_names

_HERE = Path(__file__).parent
_FIRST_TEST_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is ``live``; one line says why when it cannot run.

    The first test may have to fetch the jars and start the cluster within its own time.
    """
    ours = [item for item in items if _HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.live)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_FIRST_TEST_S))


class ClusterHolder:
    """Keeps one real cluster running and changes it for the other kind when that is asked for.

    One takes about 1.3 GB: two at once would be too much for a small machine.
    """

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._stack = ExitStack()
        self._mode: Mode | None = None
        self._cluster: RealPulsar | None = None

    def get(self, mode: Mode) -> RealPulsar:
        """Return the running cluster of this kind, every broker of it up."""
        if self._cluster is None or self._mode != mode:
            self.close()
            self._cluster = self._start(mode)
            self._mode = mode
        self._cluster.heal()
        with ClusterTruth(self._cluster) as truth:  # the clients, too, are back at the brokers
            wait_until(
                "every topic is loaded", lambda: truth.lists_topics(topic_names()), within_s=90
            )
        return self._cluster

    def _start(self, mode: Mode) -> RealPulsar:
        folder = self._folders.mktemp(f"pulsar-{mode}", numbered=True)
        cluster = self._stack.enter_context(RealPulsar(folder, RealPulsarOptions(mode=mode)))
        make_namespaces(cluster)
        self._stack.enter_context(Traffic(cluster)).wait_flowing()
        return cluster

    def close(self) -> None:
        """End what runs."""
        self._stack.close()
        self._cluster = self._mode = None


@pytest.fixture(scope="session")
def clusters(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[ClusterHolder]:
    reason = why_not()
    if reason is not None:
        pytest.skip(f"no real Pulsar: {reason}")
    holder = ClusterHolder(tmp_path_factory)
    end_with_folder(pytestconfig, _HERE, holder.close)
    yield holder
    holder.close()


@pytest.fixture(scope="module")
def fresh_start(clusters: ClusterHolder) -> None:
    """The module begins on a new cluster: what other tests looked up is in no broker's memory."""
    clusters.close()


@pytest.fixture
def modular(clusters: ClusterHolder) -> RealPulsar:
    """A cluster of ``ModularLoadManagerImpl`` with traffic, three brokers up."""
    return clusters.get("modular")


@pytest.fixture
def extensible(clusters: ClusterHolder) -> RealPulsar:
    """A cluster of ``ExtensibleLoadManagerImpl`` with traffic, three brokers up."""
    return clusters.get("extensible")


@pytest.fixture
def truth(modular: RealPulsar) -> Iterator[ClusterTruth]:
    with ClusterTruth(modular) as reader:
        yield reader
