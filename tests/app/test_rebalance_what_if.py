"""The what-if of the Rebalance page: compared on a fleet that does not exist, never applyable."""

from __future__ import annotations

import numpy as np
import pytest
from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now, texts

from core.optimize import OptimizeRequest
from dashboard import services
from dashboard.app_pages.pulsar.rebalance import queries
from dashboard.app_pages.pulsar.rebalance.fleets import REAL, FleetChange, scenarios
from dashboard.charts.dumbbell import deviation_dumbbells
from dashboard.components.pulsar import moves_plan

WAIT_S = 120.0
GONE = "10.1.0.1:8080"


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.worker_says()
    made.put(make_snapshot(brokers=4, bundles=60, now=now()))
    return made


def opened(site, **params):
    app = site.open("rebalance", **{"play": "false", **params})
    assert_calm(app)
    return app


def stored(site):
    return services.snapshot_store(services.load_config(site.config, ())).entries("fleet")[-1]


def keys(app):
    return {one.key for one in app.button}


def labels(app):
    return {one.label for one in app.button}


def test_without_a_supposition_the_page_is_about_the_snapshot(site):
    app = opened(site)
    assert "Simulation only" not in texts(app)
    assert "Apply plan…" in labels(app)


def test_a_broker_that_fails_is_compared_without_and_nothing_can_be_applied(site):
    app = opened(site, fail=[GONE], pick="ThresholdShedder")
    said = texts(app)
    assert f"Scenario: failed brokers: {GONE}" in said
    assert "Simulation only" in said
    assert "Reassigned bundles" in said
    assert "no plan to apply" in said
    assert {"_send"} & keys(app) == set()
    assert {"Apply plan…", "Apply settings…"} & labels(app) == set()
    app.session_state["view"] = "Why"
    app.run()
    why = next(one.value for one in app.dataframe if "distance" in one.value.columns)
    assert GONE not in set(why["broker"])


def test_brokers_that_join_are_empty_and_back_leads_to_the_real_fleet(site):
    app = opened(site, join="2")
    assert "new brokers: 2" in texts(app)
    assert "Reassigned bundles: 0" in texts(app)
    app.button(key="_real").click().run()
    assert_calm(app)
    assert "Simulation only" not in texts(app)
    assert "Apply plan…" in labels(app)


def test_a_fleet_without_any_broker_is_refused_in_words(site):
    every = [f"10.1.0.{number}:8080" for number in range(1, 5)]
    app = opened(site, fail=every)
    assert "No broker" in " ".join(one.value for one in app.error)


def test_a_broker_of_the_address_that_is_not_there_is_told_and_left_out(site):
    app = opened(site, fail=["10.9.9.9:8080"])
    assert "broker named '10.9.9.9" in " ".join(one.value for one in app.toast)
    assert "Simulation only" not in texts(app)


def test_rounds_are_played_on_the_changed_fleet_and_what_failed_is_not_the_strategys(site):
    fleet = FleetChange(failing=(GONE,))
    one = queries.StrategyCandidate(stored=stored(site), strategy="ThresholdShedder", fleet=fleet)
    simulated = queries.simulated.wait(one, WAIT_S)
    placed, *shed = simulated.rounds
    assert placed.number == 0
    assert len(placed.moves) == len(scenarios((stored(site), fleet)).change.moves) > 0
    others = ("OverloadShedder", "UniformLoadShedder", "AvgShedder")
    for name in others:
        queries.simulated.wait(
            queries.StrategyCandidate(stored=stored(site), strategy=name, fleet=fleet), WAIT_S
        )
    app = opened(site, fail=[GONE], play="true")
    table = app.dataframe[0].value.set_index("candidate")
    row = table.loc["ThresholdShedder"]
    assert row["moves"] == sum(len(done.moves) for done in shed)
    assert row["after"] == pytest.approx(shed[-1].deviation * 100)


def test_a_failure_domain_that_is_not_there_is_named(site):
    fleet = FleetChange(domains=("nowhere",))
    found = scenarios((stored(site), fleet))
    assert isinstance(found, str)
    assert "nowhere" in found


def test_names_of_joining_brokers_are_new_ones():
    snapshot = make_snapshot(brokers=3, bundles=30, now=now())
    added = list(FleetChange(joining=3).what_if(snapshot).added)
    assert len(set(added)) == 3
    assert not set(added) & set(snapshot.brokers["broker"].to_pylist())
    assert REAL.is_real
    assert not FleetChange(joining=3).is_real


def test_more_moves_than_one_run_may_have_are_cut_to_the_first_ones(tmp_path, monkeypatch):
    site = Site(tmp_path, each="read_only = false\n[clusters.apply]\nmax_steps = 2")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    site.worker_says()
    site.put(make_snapshot(brokers=4, bundles=60, now=now()))
    app = opened(site, pick="ThresholdShedder")
    assert "First 2 of" in texts(app)
    moves = next(one.value for one in app.dataframe if "wanted" in one.value.columns)
    assert len(moves) == 2
    assert not next(one for one in app.button if one.label == "Apply plan…").disabled


@pytest.mark.parametrize("change", [{"fail": [GONE]}, {"join": "2"}], ids=["fails", "joins"])
def test_the_chart_of_a_scenario_ends_where_the_candidate_ends(site, monkeypatch, change):
    drawn = []
    monkeypatch.setattr(
        moves_plan,
        "deviation_dumbbells",
        lambda pairs, target: drawn.append(pairs) or deviation_dumbbells(pairs, target),
    )
    app = opened(site, **change)
    fleet = FleetChange(failing=tuple(change.get("fail", ())), joining=int(change.get("join", 0)))
    optimal = queries.proposed(
        queries.Optimization(
            stored=stored(site), request=OptimizeRequest(within=0.2, max_moves=200), fleet=fleet
        )
    )
    pairs = drawn[-1]
    scenario = scenarios((stored(site), fleet)).measures.throughput
    assert np.nanmax(np.abs(pairs.scenario)) == pytest.approx(scenario.band_ratio)
    assert np.nanmax(np.abs(pairs.after)) == pytest.approx(optimal.deviation_after)
    assert np.isfinite(pairs.scenario).sum() == len(scenario.brokers)
    moves = next(one.value for one in app.dataframe if "topics" in one.value.columns)
    assert moves["bundle"].tolist() == [move.bundle for move in optimal.moves]
    assert {"pin", "exclude"} & set(moves.columns) == set()
    assert GONE not in set(moves["to"]) or "join" in change
