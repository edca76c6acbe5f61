"""The command palette: what it offers, finds and opens."""

from __future__ import annotations

import pytest
from fleet_builder import make_snapshot
from pegasus_snapshots import snapshot_of, whole
from snapshot_site import Site, assert_calm, now

from dashboard import services
from dashboard.components import palette
from dashboard.queries.snapshots import saved_snapshots
from dashboard.sitemap import ENTRIES, FILES


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, pegasus=("peg",))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.put(
        make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet"),
        snapshot_of(whole(), taken_at=now()),
    )
    return made


def found(cluster, query):
    config = services.page_config()
    stored = saved_snapshots(services.snapshot_store(config), cluster).latest
    return palette.objects(config, config.cluster(cluster), stored, query)


def test_what_the_chosen_cluster_does_not_have_is_found_in_another(site):
    hits = found("fleet", "db3")
    assert [(hit.kind, hit.params["cluster"]) for hit in hits] == [("node", "peg")]
    assert hits[0].detail.startswith("peg ")
    assert "cluster" not in found("peg", "db3")[0].params


def test_every_page_with_a_question_and_every_cluster_is_offered(site):
    offered = palette.standing(services.page_config())
    pages = {hit.page for hit in offered if hit.kind == "page"}
    assert pages == {name for name, entry in ENTRIES.items() if entry.answers}
    assert [hit.name for hit in offered if hit.kind == "cluster"] == ["fleet", "peg"]
    assert len({hit.id for hit in offered}) == len(offered)
    assert {hit.page for hit in offered} <= set(FILES)


def test_pages_of_a_system_without_clusters_are_not_offered(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CONFIG", str(Site(tmp_path).config))
    offered = palette.standing(services.page_config())
    assert not [hit.name for hit in offered if ENTRIES[hit.page].kind == "pegasus"]


@pytest.mark.parametrize(
    ("cluster", "query", "kind"),
    [
        ("peg", "db3", "node"),
        ("peg", "tem", "table"),
        ("peg", "2.1", "partition"),
        ("fleet", "0x", "bundle"),
        ("fleet", "brokerthresholdshedder", "setting"),
        ("fleet", "automatic splits", "setting"),  # by what it means
    ],
)
def test_objects_of_the_chosen_cluster_are_found(site, cluster, query, kind):
    hits = found(cluster, query)
    assert kind in {hit.kind for hit in hits}
    assert len(hits) <= palette.MAX_HITS


def test_a_letter_alone_names_no_objects(site):
    assert not found("fleet", "0")


def test_a_page_draws_the_palette(site):
    app = site.open("brokers")
    assert_calm(app)
    assert len(app.get("bidi_component")) == 1


def test_bundles_are_found_by_traffic_with_the_number_of_all(site):
    fleet = make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet")
    hits = [hit for hit in found("fleet", "0X") if hit.kind == "bundle"]
    rates = zip(
        *(fleet.bundles[name].to_pylist() for name in ("msg_throughput_in", "msg_throughput_out")),
        strict=True,
    )
    traffic = dict(zip(fleet.bundles["bundle"].to_pylist(), map(sum, rates), strict=True))
    hottest = sorted(traffic, key=traffic.__getitem__, reverse=True)
    assert [hit.name for hit in hits[:-1]] == hottest[: len(hits) - 1]
    assert "B/s" in hits[0].detail
    assert hits[-1].name == f"All {len(traffic):,} bundles"
    assert (hits[-1].page, hits[-1].params) == ("bundles", {"contains": "0x"})
    assert found("fleet", hottest[-1])[0].name == hottest[-1]  # a whole name comes first
