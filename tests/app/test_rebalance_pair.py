"""The Rebalance page where AvgShedder sheds or places: in both places, or in one of them only."""

from __future__ import annotations

import pytest
from fleet_builder import make_snapshot
from fleet_edit import with_manifest, with_settings
from snapshot_site import Site, assert_calm, now

from core.pulsar.placement import place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from dashboard import services
from dashboard.app_pages.pulsar.rebalance import queries

SHEDDER = "loadBalancerLoadSheddingStrategy"
PLACEMENT = "loadBalancerLoadPlacementStrategy"
IMPL = "org.apache.pulsar.broker.loadbalance.impl."
LEAST = "LeastLongTermMessageRate"
AVG = "AvgShedder"
OUTCOME = {
    "4.2.4": "With these two a broker of 4.2 does not start.",
    "5.0.0": "A broker of 5.0 then places by LeastLongTermMessageRate.",
}


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.worker_says()
    return made


def put(site, *, shedder, placement, version="4.2.4"):
    made = make_snapshot(brokers=4, bundles=60, now=now())
    made = with_manifest(made, release=version)
    settings = ((SHEDDER, shedder), (PLACEMENT, placement))
    snapshot = with_settings(made, *((None, key, IMPL + name, "file") for key, name in settings))
    site.put(snapshot)
    return snapshot, services.snapshot_store(services.load_config(site.config, ())).entries(
        "fleet"
    )[-1]


def opened(site, **params):
    app = site.open("rebalance", **{"play": "false", **params})
    assert_calm(app)
    return app


def row(app, name, mark=""):
    rows = app.dataframe[0].value.to_dict("records")
    return next(one for one in rows if (one["candidate"], one["mark"]) == (name, mark))


def test_a_classic_shedder_beside_the_pair_places_as_if_it_were_configured(site):
    snapshot, stored = put(site, shedder=AVG, placement=AVG, version="5.0.0")
    one = queries.StrategyCandidate(stored=stored, strategy="ThresholdShedder")
    done = queries.decided(one)
    assert done.first.moves
    effective = {SHEDDER: "ThresholdShedder", "loadBalancerSheddingEnabled": True}
    settings = effective_settings(snapshot, overrides=effective)
    view = LoadView.of(snapshot, settings)
    for move in done.first.moves:
        expected = place_bundle(view, move.bundle, settings)
        assert expected.strategy == LEAST
        assert done.first.destinations[move.bundle] == expected.distribution
    assert (one.placement, queries.StrategyCandidate(stored=stored, strategy=AVG).placement) == (
        LEAST,
        AVG,
    )


@pytest.mark.parametrize("version", OUTCOME)
def test_half_a_pair_is_named_in_its_row_and_under_its_dials(site, version):
    put(site, shedder=AVG, placement=AVG, version=version)
    app = opened(site, pick="ThresholdShedder")
    own, other = row(app, AVG, "● active"), row(app, "ThresholdShedder")
    assert own["placement"] == AVG
    assert own["pair"] == ""
    assert other["placement"] == LEAST
    assert other["pair"] == "unpaired"
    assert any(OUTCOME[version] in one.value for one in app.warning)


def test_the_other_half_can_be_turned_and_the_pair_stands_in_a_row(site):
    put(site, shedder="ThresholdShedder", placement=LEAST)
    app = opened(site, pick=AVG)
    half = row(app, AVG)
    assert half["placement"] == LEAST
    assert half["pair"] == "unpaired"
    assert any("as a pair" in one.value for one in app.warning)
    app.selectbox(key=PLACEMENT).set_value(AVG).run()
    assert_calm(app)
    pair = row(app, AVG, "◇ what if")
    assert (pair["placement"], pair["settings"]) == (AVG, f"{PLACEMENT}={AVG}")
    assert pair["pair"] == ""
    assert not any("as a pair" in one.value for one in app.warning)
    assert "Apply settings…" in [one.label for one in app.button]
    app.button(key="_dials_reset").click().run()
    assert_calm(app)
    assert app.selectbox(key=PLACEMENT).value == LEAST


def test_a_placement_that_is_none_in_the_address_is_not_taken_up(site):
    put(site, shedder="ThresholdShedder", placement="org.acme.Own")
    app = opened(site, pick="ThresholdShedder", **{PLACEMENT: "Nope"})
    assert app.selectbox(key=PLACEMENT).value == "Own"
    assert row(app, "ThresholdShedder", "● active")["placement"] == "Own"
