"""A replica server that accepts connections and answers nothing: asked once, named, never green."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connectors.config.model import ClusterConfig, Timeouts
from connectors.pegasus.collect import PegasusCollector
from connectors.sandbox.pegasus.fleet import PegasusOptions, PegasusSandbox
from core.pegasus.headline import cluster_sentence
from core.pegasus.rules.registry import assess_pegasus
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import summarize_nodes
from dashboard.presenters.pegasus import cluster


@pytest.fixture(scope="module")
def sandbox() -> Iterator[PegasusSandbox]:
    with PegasusSandbox(PegasusOptions(grace_s=600)) as running:
        yield running


@pytest.fixture(scope="module")
def frozen(sandbox: PegasusSandbox) -> str:
    return sandbox.nodes[2]


@pytest.fixture(scope="module")
def facts(sandbox: PegasusSandbox, frozen: str) -> PegasusFacts:
    """The snapshot of a cluster of which one node is frozen, and not yet given up."""
    sandbox.freeze_node(frozen)
    config = ClusterConfig(
        name="sandbox",
        kind="pegasus",
        meta_servers=sandbox.meta_servers,
        rate_sample_s=0.1,
        timeouts=Timeouts(answer_s=1.0),
    )
    collector = PegasusCollector(config)
    try:
        return PegasusFacts(collector.collect())
    finally:
        collector.close()


def test_it_is_asked_once_in_a_capture(sandbox, frozen, facts):
    assert facts.columns.node_count == 5
    assert sandbox.unanswered(frozen) == 1


def test_one_problem_names_it_and_nothing_else_is_missing(frozen, facts):
    (problem,) = [one for one in facts.snapshot.manifest.problems if frozen in one.place]
    assert problem.place == frozen
    assert f"{frozen} did not answer within 1 s" in problem.what
    assert {row["node"] for row in facts.rows("disks")} == set(facts.columns.nodes) - {frozen}


def test_it_is_alive_for_the_meta_server_and_not_answering_here(frozen, facts):
    rows = {row["node"]: row for row in facts.rows("nodes")}
    assert rows[frozen]["is_alive"]
    assert {name: row["is_answering"] for name, row in rows.items()} == {
        name: name != frozen for name in facts.columns.nodes
    }
    summary = {one.name: one for one in summarize_nodes(facts)}
    assert summary[frozen].status == "not answering"
    assert summary[frozen].memory_mb is None


def test_the_page_shows_it_first_without_the_sign_of_a_healthy_one(frozen, facts):
    shown = cluster.nodes_frame(facts)
    assert shown["node"][0] == frozen
    assert shown["status"][0] == "▲ not answering"
    assert set(shown["status"][1:]) == {"● alive"}
    assert f"not answering: {frozen}" in cluster_sentence(facts, facts.verdict())


def test_health_names_it(frozen, facts):
    found = [one for one in assess_pegasus(facts) if one.code == "node_not_answering"]
    assert [one.subject for one in found] == [frozen]
    assert found[0].severity == "error"
