"""The Rebalance page: candidates, settings that are adjusted, moves that are edited."""

from __future__ import annotations

import threading
from datetime import timedelta
from threading import Event, current_thread
from time import monotonic
from unittest.mock import Mock

import pytest
from fleet_builder import make_snapshot
from fleet_edit import edited, with_manifest, with_settings
from run_stories import Story
from snapshot_site import Site, assert_calm, now, texts

from core.actions.events import RunRequested
from core.errors import InvariantError
from core.pulsar.shedding.registry import strategies_run_by
from core.pulsar.snapshot.znodes.assemble import EXTENSIBLE_LACKS
from dashboard import services
from dashboard.app_pages.pulsar.rebalance import candidates, queries
from dashboard.presenters import workers
from dashboard.queries.background import BackgroundResults

MODULAR = tuple(strategy.name for strategy in strategies_run_by("modular"))
TRIGGER = "loadBalancerBrokerThresholdShedderPercentage"
OWN = "configured, off"
"""The strategy of the cluster: shedding is off there."""
WAIT_S = 120.0


@pytest.fixture
def site(tmp_path, monkeypatch):
    """One cluster on which actions are allowed, with a worker."""
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.worker_says()
    # a slow machine draws longer than a worker may be silent
    monkeypatch.setattr(workers, "LOST_AFTER_S", 60.0)
    return made


@pytest.fixture
def snapshot(site):
    made = make_snapshot(brokers=4, bundles=60, now=now())
    site.put(made)
    return made


def opened(site, **params):
    """The page; rounds are not simulated unless requested, which takes seconds."""
    app = site.open("rebalance", **{"play": "false", **params})
    assert_calm(app)
    return app


def tab(app, name):
    """Open a tab of the page: what is in a closed one is not computed."""
    app.session_state["view"] = name
    app.run()
    assert_calm(app)
    return app


def button(app, label):
    """The button of that label, of those in the action bar; ``None``: there is none."""
    return next((one for one in app.button if one.label == label), None)


def pick(app, name):
    app.session_state["pick"] = name
    app.run()
    assert_calm(app)
    return app


def test_moves_that_are_not_needed_are_not_selected(site):
    made = make_snapshot(brokers=4, bundles=60, now=now())
    rates, giant = (
        ("msg_throughput_in", "msg_throughput_out"),
        made.bundles.slice(0, 1).to_pylist()[0],
    )
    brokers = {row["broker"]: row for row in made.brokers.to_pylist()}
    more = {name: brokers[giant["owner"]][name] + 2e8 - giant[name] for name in rates}
    made = edited(made, "bundles", {giant["bundle"]: dict.fromkeys(rates, 2e8)})
    site.put(edited(made, "brokers", {giant["owner"]: more}))
    app = opened(site)
    row = candidate_rows(app)["Optimizer", ""]
    all_moves = app.toggle(key="all_moves")
    assert 0 < row["moves"] < int(all_moves.label.split()[1])
    assert len(moves(app)) == row["moves"]
    assert "would change the mean deviation" in texts(app)
    all_moves.set_value(True).run()
    assert_calm(app)
    assert candidate_rows(app)["Optimizer", ""]["moves"] == int(all_moves.label.split()[1])


def candidate_rows(app):
    """The table of candidates, by name and mark."""
    rows = app.dataframe[0].value
    assert {"after", "moves", "moved", "clients", "rounds"} <= set(rows.columns)
    return {(row["candidate"], row["mark"]): row for row in rows.to_dict("records")}


def moves(app):
    """Bundles of the plan that is shown, with what is asked for them."""
    table = next(one.value for one in app.dataframe if "wanted" in one.value.columns)
    return dict(zip(table["bundle"], table["to"], strict=True))


def edit(app, key, bundle):
    """What a button in a row of the moves does; tests cannot click into a table."""
    app.session_state[key] = [bundle]
    app.run()
    assert_calm(app)
    return app


def settled(app, sentence):
    """Run until what is computed in the background is there, and the sentence gone."""
    until = monotonic() + WAIT_S
    while sentence in texts(app) and monotonic() < until:
        app.run()
    assert_calm(app)
    return app


def click(app, key):
    app.button(key=key).click().run()
    assert_calm(app)
    return app


# -- side by side ----------------------------------------------------------------------------------


def test_every_strategy_of_the_load_manager_and_the_optimizer_are_candidates(site, snapshot):
    app = opened(site, within="5")
    assert [name for name, _ in candidate_rows(app)] == [queries.OPTIMIZER, *MODULAR]
    assert ("ThresholdShedder", OWN) in candidate_rows(app)
    assert candidate_rows(app)[(queries.OPTIMIZER, "")]["moves"] == 14
    assert "loadBalancerSheddingEnabled is false" in texts(app)


def test_a_target_out_of_reach_is_named_above_the_candidates_and_in_the_bar(site, snapshot):
    missed = "Target ±1% not reached"
    app = opened(site, within="1", most="1")
    assert [one for one in app.warning if one.value.startswith(missed)]
    [bar] = [one.value for one in app.markdown if "badge" in one.value and missed in one.value]
    assert bar.startswith(":orange-badge")
    other = opened(
        site, within="1", most="1", pick="ThresholdShedder"
    )  # the target is the optimizer's
    assert not [one for one in other.markdown if "badge" in one.value and missed in one.value]
    assert "not reach" not in texts(opened(site, within="40"))


def test_a_large_fleet_is_computed_in_the_background(site, snapshot, monkeypatch):
    small = opened(site, pick="ThresholdShedder")
    monkeypatch.setattr(queries, "SYNC_BUNDLES", 10)
    monkeypatch.setattr(queries, "HUGE_BUNDLES", 10)
    site.put(make_snapshot(brokers=4, bundles=60, now=now(), seed=8))
    app = site.open("rebalance", play="false", pick="ThresholdShedder")
    assert "Computing the next round of each strategy." in texts(app)
    assert not app.dataframe
    stored = services.snapshot_store(services.load_config(site.config, ())).entries("fleet")[-1]
    for name in MODULAR:
        plain = queries.StrategyCandidate(stored=stored, strategy=name)
        assert queries.decided_in_background.wait(plain, WAIT_S)
    with monkeypatch.context() as slow:
        slow.setattr(queries, "previews_in_background", BackgroundResults(lambda _: None))
        app.run()
        assert candidate_rows(app).keys() == candidate_rows(small).keys()
        assert "Computing the plan." in texts(app)
    settled(app, "Computing the plan.")
    assert moves(app)


def test_adjusted_settings_of_a_huge_fleet_are_decided_in_the_background(
    site, snapshot, monkeypatch
):
    app = opened(site, pick="ThresholdShedder")
    monkeypatch.setattr(queries, "HUGE_BUNDLES", 10)
    settled(app.run(), candidates.DECIDING)
    in_background = queries.decided_in_background
    with monkeypatch.context() as slow:
        slow.setattr(
            queries,
            "decided_in_background",
            lambda one: None if one.assumed else in_background(one),
        )
        app.slider(key=TRIGGER).set_value(45).run()
        assert_calm(app)
        assert candidates.DECIDING in texts(app)
        assert "Computing the" in texts(app)
    settled(app, candidates.DECIDING)
    assert ("ThresholdShedder", "◇ what if") in candidate_rows(app)


def test_a_strategy_that_fails_is_named_and_the_others_work(site, snapshot, monkeypatch):
    def decided(candidate):
        if candidate.strategy == "AvgShedder":
            raise InvariantError("Its shares add up to 1.2.")
        return queries._decided(candidate)

    monkeypatch.setattr(queries, "decided", decided)
    app = opened(site, pick="ThresholdShedder")
    assert moves(app)
    said = [one.value.replace("\\", "") for one in app.warning]
    assert "AvgShedder failed: Its shares add up to 1.2." in said
    assert candidate_rows(app)[("AvgShedder", "")]["rounds"] == ""
    pick(app, "AvgShedder")
    assert "No plan." in texts(app)


def test_a_large_plan_is_renewed_in_the_background_and_the_former_stays_meanwhile(
    site, snapshot, monkeypatch
):
    monkeypatch.setattr(queries, "SYNC_BUNDLES", 10)
    app = site.open("rebalance", play="false", pick="ThresholdShedder")
    settled(app, "Computing the plan.")
    before = moves(app)
    at = services.now() + timedelta(seconds=queries._RENEW_AFTER_S)
    monkeypatch.setattr(services, "now", lambda: at)
    renewals, held = [], Event()
    compute = queries.previews_in_background._compute

    def previewed(key):
        renewals.append(current_thread().name)
        held.wait(WAIT_S)
        return compute(key)

    monkeypatch.setattr(queries.previews_in_background, "_compute", previewed)
    app.run()
    assert moves(app) == before
    assert "Computing the plan." in texts(app)
    held.set()
    settled(app, "Computing the plan.")
    assert moves(app) == before
    assert renewals == ["background results"]


def test_a_large_plan_that_fails_is_named(site, snapshot, monkeypatch):
    monkeypatch.setattr(queries, "SYNC_BUNDLES", 10)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    failed = ValueError("no plan")
    monkeypatch.setattr(queries.previews_in_background, "_compute", Mock(side_effect=failed))
    app = site.open("rebalance", play="false", pick="ThresholdShedder")
    settled(app, "Computing the plan.")
    assert "A background task failed. See the log for details." in texts(app)


def test_simulated_rounds_fill_the_columns_and_are_drawn_side_by_side(site, snapshot):
    app = site.open("rebalance")
    stored = services.snapshot_store(services.load_config(site.config, ())).entries("fleet")[-1]
    for name in MODULAR:
        queries.simulated.wait(queries.StrategyCandidate(stored=stored, strategy=name), WAIT_S)
    app.run()
    assert_calm(app)
    row = candidate_rows(app)[("ThresholdShedder", OWN)]
    assert row["after"] < 100
    assert row["moves"] >= row["now"] == 3
    assert row["bar"].startswith("data:image/svg+xml")
    assert len(app.get("plotly_chart")) == 1
    tab(app, "Compare")
    assert len(app.get("plotly_chart")) == 2
    assert "flaps" in app.dataframe[-1].value.columns


def test_the_snapshot_stays_frozen_until_it_is_recomputed(site):
    site.put(make_snapshot(brokers=4, bundles=60, now=now() - timedelta(seconds=30)))
    app = opened(site)
    before = str(candidate_rows(app))
    assert app.button(key="_recompute").disabled
    site.put(make_snapshot(brokers=4, bundles=48, now=now()))
    app.run()
    assert str(candidate_rows(app)) == before  # unknown numbers are not equal to themselves
    click(app, "_recompute")
    assert str(candidate_rows(app)) != before
    assert app.button(key="_recompute").disabled


def test_the_strategy_of_a_cluster_is_active_only_while_shedding_is_on(site, snapshot):
    assert ("ThresholdShedder", OWN) in candidate_rows(opened(site))
    on = (None, "loadBalancerSheddingEnabled", "true", "file")
    site.put(with_settings(make_snapshot(brokers=4, bundles=60, now=now()), on))
    assert ("ThresholdShedder", "● active") in candidate_rows(opened(site))


@pytest.mark.parametrize("page", ["rebalance", "unload"])
def test_a_snapshot_from_before_the_last_step_of_a_run_is_named(site, page):
    old = make_snapshot(brokers=4, bundles=60, now=now() - timedelta(seconds=30))
    site.put(old)
    app = site.open(page)
    assert "frozen" in texts(app)
    assert "older than the last step" not in texts(app)
    story = Story(site, old).running()
    app.run()
    assert f"▲ older than the last step of run {story.run_id}" in texts(app)
    site.put(make_snapshot(brokers=4, bundles=60, now=now() + timedelta(seconds=5)))
    app.run()
    assert "older than the last step" in texts(app)
    click(app, "_recompute")
    assert "older than the last step" not in texts(app)


@pytest.mark.parametrize("page", ["rebalance", "unload"])
@pytest.mark.parametrize(("report_s", "is_named"), [(-60, True), (60, False)])
def test_load_that_no_broker_has_reported_since_a_run_is_named(site, page, report_s, is_named):
    old = make_snapshot(brokers=4, bundles=60, now=now() - timedelta(seconds=30))
    names = old.brokers["broker"].to_pylist()
    story = Story(site, old, steps=1, destination=names[3]).done()
    step = story.step(0)
    at_ms = int((now() + timedelta(seconds=report_s)).timestamp() * 1_000)
    after = make_snapshot(brokers=4, bundles=60, now=now() + timedelta(seconds=5))
    after = edited(after, "bundles", {step.bundle: {"owner": names[3]}})
    site.put(edited(after, "brokers", {one: {"reported_at": at_ms} for one in names}))
    shown = texts(site.open(page))
    assert "older than the last step" not in shown
    note = f"▲ load of 2 brokers is from before run {story.run_id}"
    assert (note in shown) is is_named


@pytest.mark.parametrize("strategy", MODULAR)
def test_a_chosen_strategy_shows_its_plan_or_why_there_is_none(site, snapshot, strategy):
    app = opened(site, pick=strategy)
    if strategy == "OverloadShedder":
        assert "at 76.3%" in texts(app)
        assert button(app, "Preview") is None or "Settings" in [one.label for one in app.metric]
    else:
        assert moves(app)
        assert not button(app, "Apply plan…").disabled
        assert [one.label for one in app.metric] == [
            "Moves",
            "Moved traffic",
            "Clients",
            "Max deviation",
        ]
    if strategy == "AvgShedder":
        assert "round 2" in texts(app)


@pytest.mark.parametrize(
    ("name", "said"),
    [("Why", "points"), ("Cost", "clients")],
)
def test_why_and_cost_are_computed_when_opened(site, snapshot, name, said):
    app = opened(site, pick="ThresholdShedder")
    closed = {column for one in app.dataframe for column in one.value.columns}
    assert "reached" not in closed
    assert "bundles" not in closed
    tab(app, name)
    shown = app.dataframe[-1].value if name == "Cost" else app.dataframe[1].value
    if name == "Why":
        assert {"reached", "measured", "threshold", "distance"} <= set(shown.columns)
        assert "why" not in shown.columns
    else:
        assert set(shown.columns) == {"from", "to", "bundles", "traffic", "clients", "topics"}


def test_preview_and_commands_open_in_a_dialog(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    button(app, "Preview").click().run()
    assert_calm(app)
    assert "Unload 3 bundles" in texts(app)
    app = opened(site, pick="ThresholdShedder")
    button(app, "Copy pulsar-admin").click().run()
    assert_calm(app)
    assert any("pulsar-admin namespaces unload" in one.value for one in app.code)


def test_a_cluster_of_the_extensible_manager_has_the_one_strategy_it_runs(site):
    made = make_snapshot(brokers=4, bundles=60, now=now())
    site.put(with_manifest(made, load_manager="extensible", unavailable=(EXTENSIBLE_LACKS,)))
    app = opened(site, pick="TransferShedder")
    assert [name for name, _ in candidate_rows(app)] == [queries.OPTIMIZER, "TransferShedder"]
    assert "See the problems of the snapshot" in texts(app)


def test_a_strategy_that_is_not_known_is_named_and_the_rest_still_answers(site):
    made = make_snapshot(brokers=4, bundles=60, now=now())
    own = (None, "loadBalancerLoadSheddingStrategy", "org.acme.OwnShedder", "dynamic")
    site.put(with_settings(made, own))
    app = opened(site)
    assert "OwnShedder" in texts(app)
    assert moves(app)
    assert all(mark == "" for _, mark in candidate_rows(app))


def test_a_single_broker_has_nobody_to_give_to(site):
    site.put(make_snapshot(brokers=1, bundles=12, now=now()))
    app = opened(site, pick="ThresholdShedder")
    assert candidate_rows(app)[("ThresholdShedder", OWN)]["moves"] == 0
    assert button(app, "Preview") is None


# -- settings that are turned ----------------------------------------------------------------------


def test_a_turned_setting_answers_in_a_row_of_its_own_and_can_be_put_back(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    app.slider(key=TRIGGER).set_value(45).run()
    assert_calm(app)
    row = candidate_rows(app)[("ThresholdShedder", "◇ what if")]
    assert (row["now"], row["settings"]) == (0, f"{TRIGGER}=45")
    assert candidate_rows(app)[("ThresholdShedder", OWN)]["now"] == 3
    click(app, "_dials_reset")
    assert ("ThresholdShedder", "◇ what if") not in candidate_rows(app)


def test_a_changed_setting_can_be_applied(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    assert button(app, "Apply settings…") is None
    app.slider(key=TRIGGER).set_value(12).run()
    button(app, "Apply settings…").click().run()
    assert_calm(app)
    app.text_input(key="_apply_reason").set_value("shed earlier")
    click(app, "_apply_now")
    (entry,) = services.journal(services.load_config(site.config, ())).entries()
    (step,) = entry.record.event.plan.steps
    assert (step.subject, step.value) == (TRIGGER, "12")


def test_what_would_turn_a_verdict_really_turns_it(site, snapshot):
    app = tab(opened(site, pick="ThresholdShedder", broker="10.1.0.1:8080"), "Why")
    sentence = f"10.1.0.1:8080 would stay with {TRIGGER} at 42"
    assert sentence in texts(app)
    app = opened(site, **{"pick": "ThresholdShedder", TRIGGER: "42"})
    assert candidate_rows(app)[("ThresholdShedder", "◇ what if")]["now"] == 0


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"within": "40"}, "within 40% of the mean"),
        ({"most": "2"}, "The budget of 2 moves is too small"),
        ({"relief": "60"}, "no broker's usage above 60%"),
        ({"load": "usage"}, "every broker's usage within 20%"),
    ],
)
def test_the_wish_of_the_smallest_moves_stands_in_the_address(site, snapshot, params, expected):
    assert expected in texts(tab(opened(site, **params), "Why"))


# -- moves that are edited -------------------------------------------------------------------------


def test_a_move_that_is_left_out_is_gone_until_its_chip_is_taken_away(site, snapshot):
    app = opened(site)
    before = moves(app)
    bundle = next(iter(before))
    edit(app, "drop", bundle)
    assert moves(app).keys() == before.keys() - {bundle}
    assert app.multiselect(key="drop").value == [bundle]
    app.multiselect(key="drop").set_value([]).run()
    assert_calm(app)
    assert moves(app) == before


def test_a_pinned_bundle_stays_and_the_way_is_asked_again(site, snapshot):
    app = opened(site)
    bundle = next(iter(moves(app)))
    edit(app, "pin", bundle)
    assert bundle not in moves(app)
    click(app, "_edits_reset")
    assert bundle in moves(app)


def test_a_move_is_sent_elsewhere_and_only_where_it_may_go(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    bundle = next(iter(moves(app)))
    target = next(one for one in app.selectbox if one.label == "Destination")
    assert "10.1.0.1:8080" not in target.options  # its owner
    assert app.button(key="_send").disabled
    target.set_value("10.1.0.2:8080").run()
    click(app, "_send")
    assert moves(app)[bundle] == "10.1.0.2:8080"
    assert app.multiselect(key="retarget").value == [f"{bundle} → 10.1.0.2:8080"]


def test_a_chosen_destination_outlives_the_next_snapshot(site):
    site.put(make_snapshot(brokers=4, bundles=60, now=now() - timedelta(seconds=30)))
    app = opened(site, pick="ThresholdShedder")
    target = next(one for one in app.selectbox if one.label == "Destination")
    target.set_value("10.1.0.2:8080").run()
    site.put(make_snapshot(brokers=4, bundles=60, now=now()))
    app.run()
    assert_calm(app)
    assert next(one for one in app.selectbox if one.label == "Destination").value == "10.1.0.2:8080"
    assert not app.button(key="_send").disabled


def test_edits_that_stand_in_the_address_are_made_again(site, snapshot):
    first, second, third = moves(opened(site, pick="ThresholdShedder"))
    elsewhere = [f"{second} → 10.1.0.2:8080", "not an edit"]
    app = opened(site, pick="ThresholdShedder", drop=[first], retarget=elsewhere)
    assert list(moves(app)) == [second, third]
    assert moves(app)[second] == "10.1.0.2:8080"


def test_a_plan_without_any_move_left_says_so(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    app = opened(site, pick="ThresholdShedder", drop=list(moves(app)))
    assert "no step left" in texts(app)
    assert button(app, "Apply plan…") is None


def test_another_candidate_has_its_own_moves(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    before = moves(app)
    edit(app, "drop", next(iter(before)))
    pick(app, "UniformLoadShedder")
    assert set(moves(app)) != set(before)


def test_a_bundle_that_may_not_move_stops_the_plan_until_it_is_left_out(tmp_path, monkeypatch):
    site = Site(tmp_path, each='read_only = false\nexclusions = ["initech/*"]')
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    site.worker_says()
    site.put(make_snapshot(brokers=4, bundles=60, now=now()))
    app = opened(site, pick="ThresholdShedder")
    assert "excluded from every" in texts(app)
    assert button(app, "Apply plan…").disabled
    app = opened(site, pick="ThresholdShedder", drop=["initech/events/0xdb6db6d8_0xffffffff"])
    assert not button(app, "Apply plan…").disabled


# -- to a run --------------------------------------------------------------------------------------


def test_the_plan_that_is_shown_is_the_plan_that_is_requested(site, snapshot):
    app = opened(site, pick="ThresholdShedder")
    edit(app, "drop", next(iter(moves(app))))
    shown = list(moves(app))
    button(app, "Apply plan…").click().run()
    app.text_input(key="_apply_reason").set_value("level the peak")
    typed = [one for one in app.text_input if one.key == "_apply_typed"]
    for one in typed:
        one.set_value("fleet")
    click(app, "_apply_now")
    (entry,) = services.journal(services.load_config(site.config, ())).entries()
    event = entry.record.event
    assert isinstance(event, RunRequested)
    assert [step.bundle for step in event.plan.steps] == shown
    assert event.plan.derived_from
    assert "ThresholdShedder" in event.plan.reason
    assert app.title[0].value.startswith("Run ")
