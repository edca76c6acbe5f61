"""The Rebalance page: ways side by side, settings that are turned, moves that are edited."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleet_builder import make_snapshot
from fleet_edit import with_manifest, with_settings
from snapshot_site import Site, assert_calm, now, texts

from core.actions.events import RunRequested
from core.pulsar.shedding.registry import strategies_run_by
from core.pulsar.snapshot.znodes.assemble import EXTENSIBLE_LACKS
from dashboard import services
from dashboard.app_pages.pulsar.rebalance import queries

MODULAR = tuple(strategy.name for strategy in strategies_run_by("modular"))
TRIGGER = "loadBalancerBrokerThresholdShedderPercentage"
WAIT_S = 120.0


@pytest.fixture
def site(tmp_path, monkeypatch):
    """One cluster on which actions are allowed, with a worker."""
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.worker_says()
    return made


@pytest.fixture
def snapshot(site):
    made = make_snapshot(brokers=4, bundles=60, now=now())
    site.put(made)
    return made


def opened(site, **params):
    """The page; rounds are not played unless asked for, which takes seconds."""
    app = site.open("rebalance", **{"play": "false", **params})
    assert_calm(app)
    return app


def candidate_rows(app):
    """The table of ways, by name and mark."""
    rows = app.dataframe[0].value
    return {(row["candidate"], row["mark"]): row for row in rows.to_dict("records")}


def moves(app):
    """Bundles of the plan that is shown, with what is asked for them."""
    table = next(one.value for one in app.dataframe if "wanted" in one.value.columns)
    return dict(zip(table["bundle"], table["to"], strict=True))


def click(app, key):
    app.button(key=key).click().run()
    assert_calm(app)
    return app


# -- side by side ----------------------------------------------------------------------------------


def test_every_strategy_of_the_load_manager_and_the_optimizer_are_candidates(site, snapshot):
    app = opened(site)
    assert [name for name, _ in candidate_rows(app)] == [*MODULAR, queries.OPTIMIZER]
    assert ("ThresholdShedder", "● active") in candidate_rows(app)
    said = texts(app)
    assert "but switched off" in said
    assert "needs 14 moves" in said


def test_played_rounds_fill_the_columns_and_are_drawn(site, snapshot):
    app = site.open("rebalance")
    stored = services.snapshot_store(services.load_config(site.config, ())).entries("fleet")[-1]
    for name in MODULAR:
        queries.simulated.wait(queries.Candidate(stored=stored, strategy=name), WAIT_S)
    app.run()
    assert_calm(app)
    row = candidate_rows(app)[("ThresholdShedder", "● active")]
    assert row["converged"] < 100
    assert row["moves"] >= row["now"] == 3
    assert "Rounds were simulated" in texts(app)
    assert len(app.get("plotly_chart")) == 2


@pytest.mark.parametrize("strategy", MODULAR)
def test_a_chosen_strategy_shows_its_plan_or_why_there_is_none(site, snapshot, strategy):
    app = opened(site, pick=strategy)
    said = texts(app)
    assert "points" in said
    if strategy == "OverloadShedder":
        assert "at 76.3%" in said
        assert not [one for one in app.button if one.key == "_apply"]
    else:
        assert moves(app)
        assert not app.button(key="_apply").disabled
    if strategy == "AvgShedder":
        assert "round 2" in said


def test_a_cluster_of_the_extensible_manager_has_the_one_strategy_it_runs(site):
    made = make_snapshot(brokers=4, bundles=60, now=now())
    site.put(with_manifest(made, load_manager="extensible", unavailable=(EXTENSIBLE_LACKS,)))
    app = opened(site, pick="TransferShedder")
    assert [name for name, _ in candidate_rows(app)] == ["TransferShedder", queries.OPTIMIZER]
    assert "`extensible` extra" in texts(app)


def test_a_strategy_that_is_not_known_is_named_and_the_rest_still_answers(site):
    made = make_snapshot(brokers=4, bundles=60, now=now())
    own = (None, "loadBalancerLoadSheddingStrategy", "org.acme.OwnShedder", "dynamic")
    site.put(with_settings(made, own))
    app = opened(site)
    assert "OwnShedder" in texts(app)
    assert "optimal plan" in texts(app)
    assert all(mark == "" for _, mark in candidate_rows(app))


def test_a_single_broker_has_nobody_to_give_to(site):
    site.put(make_snapshot(brokers=1, bundles=12, now=now()))
    app = opened(site, pick="ThresholdShedder")
    assert "would do nothing" in texts(app)


# -- settings that are turned ----------------------------------------------------------------------


def test_a_turned_setting_answers_in_a_row_of_its_own_and_can_be_put_back(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    app.slider(key=TRIGGER).set_value(45).run()
    assert_calm(app)
    row = candidate_rows(app)[("ThresholdShedder", "◇ what if")]
    assert (row["now"], row["settings"]) == (0, f"{TRIGGER}=45")
    assert candidate_rows(app)[("ThresholdShedder", "● active")]["now"] == 3
    click(app, "_dials_reset")
    assert ("ThresholdShedder", "◇ what if") not in candidate_rows(app)


def test_what_would_turn_a_verdict_really_turns_it(site, snapshot):
    app = opened(site, pick="ThresholdShedder", broker="10.1.0.1:8080")
    sentence = f"10.1.0.1:8080 would stay as it is with {TRIGGER} at 42"
    assert sentence in texts(app)
    app = opened(site, **{"pick": "ThresholdShedder", TRIGGER: "42"})
    assert candidate_rows(app)[("ThresholdShedder", "◇ what if")]["now"] == 0


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"within": "40"}, "within 40% of the mean"),
        ({"most": "2"}, "The budget of 2 moves is used up"),
        ({"relief": "60"}, "no broker's usage above 60%"),
        ({"load": "usage"}, "every broker's usage within 5%"),
    ],
)
def test_the_wish_of_the_smallest_moves_stands_in_the_address(site, snapshot, params, expected):
    assert expected in texts(opened(site, **params))


# -- moves that are edited -------------------------------------------------------------------------


def test_a_move_that_is_left_out_is_gone_until_its_chip_is_taken_away(site, snapshot):
    app = opened(site)
    before = moves(app)
    bundle = next(iter(before))
    click(app, "_leave_out")
    assert moves(app).keys() == before.keys() - {bundle}
    assert app.multiselect(key="drop").value == [bundle]
    app.multiselect(key="drop").set_value([]).run()
    assert_calm(app)
    assert moves(app) == before


def test_a_pinned_bundle_stays_and_the_way_is_asked_again(site, snapshot):
    app = opened(site)
    bundle = next(iter(moves(app)))
    click(app, "_pin")
    assert bundle not in moves(app)
    assert "bring the farthest" in texts(app)
    click(app, "_edits_reset")
    assert bundle in moves(app)


def test_a_move_is_sent_elsewhere_and_only_where_it_may_go(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    bundle = next(iter(moves(app)))
    target = next(one for one in app.selectbox if one.label == "Goes to")
    assert "10.1.0.1:8080" not in target.options  # its owner
    assert app.button(key="_send").disabled
    target.set_value("10.1.0.2:8080").run()
    click(app, "_send")
    assert moves(app)[bundle] == "10.1.0.2:8080 (100%)"
    assert app.multiselect(key="retarget").value == [f"{bundle} → 10.1.0.2:8080"]


def test_a_chosen_destination_outlives_the_next_snapshot(site):
    site.put(make_snapshot(brokers=4, bundles=60, now=now() - timedelta(seconds=30)))
    app = opened(site, pick="ThresholdShedder")
    target = next(one for one in app.selectbox if one.label == "Goes to")
    target.set_value("10.1.0.2:8080").run()
    site.put(make_snapshot(brokers=4, bundles=60, now=now()))
    app.run()
    assert_calm(app)
    assert next(one for one in app.selectbox if one.label == "Goes to").value == "10.1.0.2:8080"
    assert not app.button(key="_send").disabled


def test_edits_that_stand_in_the_address_are_made_again(site, snapshot):
    first, second, third = moves(opened(site, pick="ThresholdShedder"))
    elsewhere = [f"{second} → 10.1.0.2:8080", "not an edit"]
    app = opened(site, pick="ThresholdShedder", drop=[first], retarget=elsewhere)
    assert list(moves(app)) == [second, third]
    assert moves(app)[second] == "10.1.0.2:8080 (100%)"


def test_a_plan_without_any_move_left_says_so(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    app = opened(site, pick="ThresholdShedder", drop=list(moves(app)))
    assert "no step left" in texts(app)
    assert not [one for one in app.button if one.key == "_apply"]


def test_edits_of_one_way_do_not_follow_to_the_next(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    before = moves(app)
    click(app, "_leave_out")
    app.segmented_control(key="pick").set_value("UniformLoadShedder").run()
    assert_calm(app)
    app.segmented_control(key="pick").set_value("ThresholdShedder").run()
    assert moves(app) == before


def test_a_bundle_that_may_not_move_stops_the_plan_until_it_is_left_out(tmp_path, monkeypatch):
    site = Site(tmp_path, each='read_only = false\nexclusions = ["initech/*"]')
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    site.worker_says()
    site.put(make_snapshot(brokers=4, bundles=60, now=now()))
    app = opened(site, pick="ThresholdShedder")
    assert "excluded from every" in texts(app)
    assert app.button(key="_apply").disabled
    app = opened(site, pick="ThresholdShedder", drop=["initech/events/0xdb6db6d8_0xffffffff"])
    assert not app.button(key="_apply").disabled


# -- to a run --------------------------------------------------------------------------------------


def test_the_plan_that_is_shown_is_the_plan_that_is_requested(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    click(app, "_leave_out")
    shown = list(moves(app))
    click(app, "_apply")
    app.text_input(key="_apply_reason").set_value("level the peak")
    typed = [one for one in app.text_input if one.key == "_apply_typed"]
    for one in typed:
        one.set_value("fleet")
    app.run()
    click(app, "_apply_now")
    (entry,) = services.journal(services.load_config(site.config, ())).entries()
    event = entry.record.event
    assert isinstance(event, RunRequested)
    assert [step.bundle for step in event.plan.steps] == shown
    assert event.plan.derived_from
    assert "ThresholdShedder" in event.plan.reason
    assert app.title[0].value == "Run"
