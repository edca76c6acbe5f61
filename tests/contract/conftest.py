"""The clusters that the contract is held against."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest
from pulsar_under_test import PulsarUnderTest, zookeeper_client

from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions

_LIVE = Path(__file__).parent.parent / "live"
_NAMESPACE = "acme/orders"
_PATIENT = pytest.mark.timeout(600)  # the first test may have to fetch the jars


@contextmanager
def _sandbox() -> Iterator[PulsarUnderTest]:
    options = SandboxOptions(brokers=3, bundles=120, dynamic={}, stats_every_s=1.0)
    with Sandbox(options) as sandbox, zookeeper_client(sandbox.zookeeper) as zookeeper:
        names = sandbox.state.layout.topics.names
        yield PulsarUnderTest(
            kind="sandbox",
            cluster=options.cluster,
            admin_urls=tuple(sandbox.admin_urls),
            zookeeper=zookeeper,
            namespace=_NAMESPACE,
            topics=tuple(name for name in names if f"//{_NAMESPACE}/" in name),
        )


@contextmanager
def _real(folder: Path) -> Iterator[PulsarUnderTest]:
    sys.path.append(str(_LIVE))
    real, traffic = import_module("real_pulsar"), import_module("traffic")
    sys.path.remove(str(_LIVE))
    reason = real.why_not()
    if reason is not None:
        pytest.skip(f"no real Pulsar: {reason}")
    with real.RealPulsar(folder) as cluster:
        traffic.make_namespaces(cluster)
        with traffic.Traffic(cluster) as flow, zookeeper_client(cluster.zookeeper) as zookeeper:
            flow.wait_flowing()
            yield PulsarUnderTest(
                kind="real",
                cluster=cluster.cluster,
                admin_urls=tuple(cluster.admin_urls),
                zookeeper=zookeeper,
                namespace=_NAMESPACE,
                topics=tuple(name for name in traffic.topic_names() if f"//{_NAMESPACE}/" in name),
            )


@pytest.fixture(
    scope="module",  # the real one ends with the module: another suite may need the memory
    params=[
        pytest.param("sandbox", marks=pytest.mark.zookeeper),
        pytest.param("real", marks=[pytest.mark.live, pytest.mark.slow, _PATIENT]),
    ],
)
def pulsar(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PulsarUnderTest]:
    """Each test runs on the sandbox and, in the long suite, on a real cluster."""
    if request.param == "sandbox":
        with _sandbox() as cluster:
            yield cluster
    else:
        with _real(tmp_path_factory.mktemp("real")) as cluster:
            yield cluster
