"""The doctor on the page of settings: what it finds, and the way from there to a plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from fleet_builder import broker_names, make_snapshot
from fleet_edit import edited, with_settings
from snapshot_site import Site, assert_calm, now, texts

from core.pulsar.presets import Difference
from core.pulsar.settings import SETTING_BY_KEY, SETTINGS, EffectiveSettings
from core.schemas.pulsar import BUNDLE_METRICS
from core.snapshot import PulsarSnapshot
from dashboard import services, state
from dashboard.app_pages.pulsar.settings import model
from dashboard.components.pulsar import changes_box
from dashboard.queries.pulsar import snapshots

HISTORY = "loadBalancerHistoryResourcePercentage"
NIC = "loadBalancerOverrideBrokerNicSpeedGbps"
NAMES = broker_names(6)


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


@pytest.fixture
def ill(site):
    snapshot = with_settings(
        make_snapshot(brokers=6, bundles=60, now=now()),
        (None, HISTORY, "1.0", "dynamic"),
        (None, "maxUnloadPercentage", "0.2", "default"),
        (NAMES[2], "maxUnloadPercentage", "0.5", "file"),
        (None, "lowerBoundarySheddingEnabled", "false", "default"),
        (NAMES[4], "lowerBoundarySheddingEnabled", "true", "file"),
        (None, "stored:loadBalancerShedingEnabled", "true", "stored"),
    )
    made = edited(snapshot, "brokers", {NAMES[1]: {"bandwidth_in_limit": -1.0}})
    site.put(made)
    return made


def explained(site, code, subject):
    """Open the findings with the explanation of one of them."""
    app = site.open("settings", view="Findings")
    app.session_state["_settings_opened"] = ("fleet", code, subject)
    app.run()
    assert_calm(app)
    return app


def test_findings_are_one_table_and_the_side_panel_has_consequence_and_fix(site, ill):
    app = site.open("settings", view="Findings")
    assert_calm(app)
    table = next(one.value for one in app.dataframe if "finding" in one.value)
    assert list(table["severity"])[:5] == [["▲ Warning"]] * 5
    assert "Smoothing ignores the newest usage" in set(table["finding"])
    app = explained(site, "frozen_usage", HISTORY)
    said = texts(app)
    assert "newest usage has" in said
    assert "keeps its first" in said
    assert f"{HISTORY}=0.9" in [one.value for one in app.code]
    app = explained(site, "no_limit", NIC)
    assert f"{NAMES[1]} reports no limit for inbound bandwidth" in texts(app)
    assert f"{NIC}=<Gbit/s>" in [one.value for one in app.code]


def test_fix_goes_into_the_changes_and_becomes_a_plan(site, ill):
    app = explained(site, "frozen_usage", HISTORY)
    app.button(key="_settings_fix").click().run()
    assert_calm(app)
    assert app.multiselect(key=state.SET).value == [f"{HISTORY}=0.9"]
    apply = next(one for one in app.button if one.label == "Apply plan…")
    assert apply.key == "_apply"
    next(one for one in app.button if one.label == "Preview").click().run()
    assert_calm(app)
    assert app.session_state[state.VIEW] == "Unapplied changes"
    said = texts(app)
    assert "With the changes:" in said
    assert "Plan" in said


def test_changes_of_the_files_are_simulated_without_a_plan(site, ill):
    app = site.open("settings", set="managedLedgerDefaultWriteQuorum=3")
    assert_calm(app)
    assert "With the changes:" in texts(app)
    labels = [one.label for one in app.button]
    assert "Preview" not in labels  # this is the preview
    assert "Apply plan…" not in labels


def test_box_of_changes_lists_every_setting_and_opens_the_one_that_is_picked(site, ill):
    app = site.open("settings", set=f"{HISTORY}=0.9")
    box = app.multiselect(key=state.SET)
    assert len(box.options) == len(SETTINGS) + 1
    named = [one for one in box.options if "weight of outbound bandwidth" in one.lower()]
    assert [one.partition(":")[0] for one in named] == ["loadBalancerBandwidthOutResourceWeight"]
    box.select(named[0]).run()
    assert_calm(app)
    assert app.multiselect(key=state.SET).value == [f"{HISTORY}=0.9"]
    assert app.session_state[state.VIEW] == "Settings"
    assert app.session_state[state.SETTING] == "loadBalancerBandwidthOutResourceWeight"
    assert "**loadBalancerBandwidthOutResourceWeight**" in [one.value for one in app.markdown]
    boxes = [one.placeholder for one in (*app.selectbox, *app.multiselect) if one.placeholder]
    assert [one for one in boxes if "setting" in one.lower()] == [
        "Add a change: setting, or KEY=VALUE"
    ]
    assert "Preview" in [one.label for one in app.button]


def test_settings_come_first_and_can_be_narrowed_to_those_that_differ(site, ill):
    app = site.open("settings", only="differing")
    assert_calm(app)
    table = next(one.value for one in app.dataframe if "origin" in one.value)
    assert set(table["key"]) == {"lowerBoundarySheddingEnabled", "maxUnloadPercentage"}
    assert table.set_index("key").loc["maxUnloadPercentage", "brokers"] == "0.2, 0.5"


def table_of_settings(app):
    return next(one.value for one in app.dataframe if "origin" in one.value)


def test_conflicts_come_first_then_what_differs_and_the_first_is_explained(site, ill):
    app = site.open("settings")
    assert_calm(app)
    table = table_of_settings(app)
    states = [one[0] for one in table["state"]]
    ranks = [(*model.STATES, "").index(one) for one in states]
    assert ranks == sorted(ranks)
    assert states[0] == "▲ conflict"
    assert table.set_index("key").loc[HISTORY, "finding"] == "Smoothing ignores the newest usage"
    assert set(table["key"][: states.count("▲ conflict")]) >= {HISTORY, "maxUnloadPercentage"}
    app = site.open("settings", setting=HISTORY)
    assert any("newest usage has" in one.value for one in app.warning)
    app.button(key="_conflict_fix_0").click().run()
    assert app.multiselect(key=state.SET).value == [f"{HISTORY}=0.9"]


@pytest.mark.parametrize("words", ["shedding STRATEGY", "history usage", "newest smoothing"])
def test_settings_are_searched_by_words_of_name_meaning_and_conflict(site, ill, words):
    app = site.open("settings", contains=words)
    found = set(table_of_settings(app)["key"])
    wanted = "loadBalancerLoadSheddingStrategy" if "STRATEGY" in words else HISTORY
    assert wanted in found
    assert len(found) < 12


def test_brokers_are_compared_by_groups_of_equal_ones(site, ill):
    app = site.open("settings", view="Comparison")
    frame = next(
        table.value for table in app.dataframe if "common" in getattr(table.value, "columns", ())
    )
    assert set(frame["what"]) == {
        "Network in",
        "lowerBoundarySheddingEnabled",
        "maxUnloadPercentage",
    }
    assert frame.loc[frame["what"] == "maxUnloadPercentage", NAMES[2]].item() == "0.5"
    assert (frame.loc[frame["what"] == "maxUnloadPercentage", NAMES[1]] == "·").all()


def differences_of(app):
    frame = next(
        table.value for table in app.dataframe if "there" in getattr(table.value, "columns", ())
    )
    return {row["key"]: (row["here"], row["there"]) for row in frame.to_dict("records")}


def test_settings_are_compared_with_the_defaults_another_cluster_and_a_past_time(
    tmp_path, monkeypatch
):
    site = Site(tmp_path, clusters=("fleet", "other"), each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    small = {"brokers": 3, "bundles": 12}
    hour_ago = now() - timedelta(hours=1)
    for snapshot, value in (
        (make_snapshot(**small, now=hour_ago), "0.7"),
        (make_snapshot(**small, now=now()), "0.8"),
        (make_snapshot(**small, now=now(), cluster="other"), "0.9"),
    ):
        site.put(with_settings(snapshot, (None, HISTORY, value, "dynamic")))
    defaults = differences_of(site.open("settings", view="Comparison", compare="defaults"))
    assert defaults[HISTORY] == ("0.8", "0.9")
    app = site.open("settings", view="Comparison", compare="cluster")
    assert_calm(app)
    assert differences_of(app) == {HISTORY: ("0.8", "0.9")}
    app.button(key="_adopt").click().run()
    assert app.session_state["set"] == [f"{HISTORY}=0.9"]
    app = site.open("settings", view="Comparison", compare="past")
    assert differences_of(app) == {HISTORY: ("0.8", "0.7")}
    app.text_input(key="then").set_value("yesterday").run()
    assert "yesterday is not a time" in texts(app)


def test_without_any_setting_it_says_so_and_what_is_assumed(site):
    site.put(with_settings(make_snapshot(brokers=3, bundles=12, now=now())))
    app = site.open("settings", view="Findings")
    assert_calm(app)
    assert "No setting" in texts(app)
    figures = {one.label: one for one in app.metric}
    assert figures["Conflicts"].value == "0"
    assert figures["Conflicts"].delta.startswith("?")
    assert figures["Unknown values"].value == "98"


def test_values_have_one_unit_in_the_table_the_facts_and_the_presets():
    settings = EffectiveSettings.defaults()
    key = "loadBalancerReportUpdateMaxIntervalMinutes"
    rows = model.settings_table(settings, load_manager="modular", shown="all", contains=key)
    facts = model.about(settings, SETTING_BY_KEY[key], "modular")
    assert rows["default"][0] == facts["Default"] == "15 min"
    assert rows["value"][0] == facts["Effective"]
    one = Difference(
        setting=SETTING_BY_KEY["managedLedgerDefaultWriteQuorum"],
        present=2,
        wanted=1,
        origin="default",
    )
    [preset] = model.preset_table([one]).to_dict("records")
    assert (preset["now"], preset["preset"]) == ("2 copies", "1 copy")


GRACE = "loadBalancerSheddingGracePeriodMinutes"


def test_a_new_value_replaces_the_old_and_valid_changes_stay_next_to_an_error(site, ill):
    app = site.open("settings", set=[f"{HISTORY}=maybe", f"{GRACE}=15"])
    assert_calm(app)
    [error] = [one.value for one in app.error]
    assert HISTORY in error
    assert f"{GRACE} would be set to 15" in texts(app)
    box = app.multiselect(key=state.SET)
    app.session_state[state.SET] = [*box.value, f"{HISTORY}=0.5"]
    app.run()
    assert not app.error
    assert f"{HISTORY} would be set to 0.5" in texts(app)
    assert changes_box.newest([f"{HISTORY}=maybe", f"{GRACE}=15", f"{HISTORY}=0.5"]) == [
        f"{GRACE}=15",
        f"{HISTORY}=0.5",
    ]


def test_a_change_without_effect_is_said_once_and_why_rebalance_cannot_try_it(site):
    off = (None, "loadBalancerSheddingEnabled", "false", "dynamic")
    site.put(with_settings(make_snapshot(brokers=6, bundles=60, now=now()), off))
    app = site.open("settings", set=[f"{GRACE}=15"])
    assert_calm(app)
    said = texts(app)
    assert "No effect on the next round: shedding is off (loadBalancerSheddingEnabled" in said
    assert "Next shedding round" not in said
    assert "Rebalance does not simulate these settings." in said
    on = site.open("settings", set=["loadBalancerSheddingEnabled=true"])
    assert "None, because loadBalancerSheddingEnabled is false." in texts(on)


@pytest.mark.parametrize(("minutes", "is_found"), [(1, False), (3, True)])
def test_traffic_at_the_former_owner_is_no_finding_right_after_a_move(site, minutes, is_found):
    before = make_snapshot(brokers=6, bundles=60, now=now() - timedelta(minutes=minutes))
    bundle = before.bundles["bundle"][0].as_py()
    source = before.bundles["owner"][0].as_py()
    site.put(before)
    later = make_snapshot(brokers=6, bundles=60, now=now())
    target = next(name for name in NAMES if name != source)
    moved = edited(later, "bundles", {bundle: {"owner": target}})
    exposed = [{"bundle": bundle, "broker": source, "msg_rate_in": 90.0}]
    tables = {**moved.tables, "bundle_metrics": pa.Table.from_pylist(exposed, BUNDLE_METRICS)}
    site.put(PulsarSnapshot.build(replace(moved.manifest), tables))
    stored = services.snapshot_store(services.load_config(site.config, ())).entries("fleet")[-1]
    found = {one.code for one in snapshots.reading(stored).findings}
    assert ("bundle_exposed_elsewhere" in found) is is_found


@pytest.mark.parametrize("field", ["box", "filter"])
def test_a_typed_change_shows_its_setting_in_the_card(site, ill, field):
    app = site.open("settings")
    if field == "box":
        app.multiselect(key=state.SET).set_value([f"{GRACE}=15"]).run()
    else:
        app.text_input(key=state.CONTAINS).set_value(f"{GRACE}=15").run()
        assert f"**{GRACE}**" in texts(app)
    assert_calm(app)
    assert app.session_state[state.SETTING] == GRACE
    app.session_state[state.VIEW] = "Settings"
    app.run()
    assert f"**{GRACE}**" in texts(app)


def test_a_change_that_is_removed_shows_no_other_setting(site, ill):
    app = site.open("settings", set=[f"{GRACE}=15", f"{HISTORY}=0.5"])
    app.multiselect(key=state.SET).set_value([f"{GRACE}=15"]).run()
    assert_calm(app)
    assert state.SETTING not in app.session_state or not app.session_state[state.SETTING]
