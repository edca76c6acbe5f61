"""What a server computes before the first visitor comes."""

from __future__ import annotations

from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now

from dashboard import warm_up
from dashboard.queries.pulsar import snapshots


def test_the_first_visitor_finds_every_cluster_computed(tmp_path, monkeypatch):
    site = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    site.put(make_snapshot(brokers=4, bundles=60, now=now()))
    warm_up.look_at_clusters()

    def compute(*_: object) -> None:
        raise AssertionError("a page computed what the server had computed")

    monkeypatch.setattr(snapshots, "summary", compute)
    app = site.open("fleet")
    assert_calm(app)
    assert app.dataframe[0].value["cluster"].tolist() == ["fleet"]


def test_a_damaged_snapshot_does_not_end_it(tmp_path, monkeypatch):
    site = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    site.put(make_snapshot(brokers=4, bundles=60, now=now()))
    next(site.state_dir.rglob("bundles.parquet")).write_bytes(b"damaged")
    warm_up.look_at_clusters()
