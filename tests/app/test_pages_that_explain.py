"""Splits, settings and the panels that explain: what they say, and what they let a person do."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from fleet_builder import make_history, make_topics
from snapshot_site import Site, assert_calm, now, texts

from core.schemas import PULSAR_TABLES
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms
from dashboard import services, state
from dashboard.components.applying import REASON


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


@pytest.fixture
def fleet(site):
    history = make_history(6, brokers=6, bundles=80, now=now())
    site.put(*history)
    return history[-1]


@pytest.mark.parametrize("heap", [None, 0.4])
def test_metrics_of_no_broker_are_one_sentence_and_no_table(site, heap):
    (made,) = make_history(1, brokers=3, bundles=12, now=now())
    at_ms = datetime_to_ms(now())
    rows = [
        {"broker": broker, "source": "scrape", "sampled_at": at_ms, "heap_used_ratio": heap}
        for broker in made.brokers["broker"].to_pylist()
    ]
    metrics = pa.Table.from_pylist(rows, schema=PULSAR_TABLES["broker_metrics"])
    site.put(PulsarSnapshot.build(made.manifest, {**made.tables, "broker_metrics": metrics}))
    app = site.open("brokers", view="Resources")
    assert_calm(app)
    assert len(app.dataframe) == (1 if heap is None else 2)
    assert ("Could not read broker metrics" in texts(app)) is (heap is None)


def test_splits_page_names_the_bundles_nearest_to_a_limit(site, fleet):
    app = site.open("splits")
    assert_calm(app)
    said = texts(app)
    assert "over a limit" in said
    assert "cannot be merged" in said
    app.session_state["view"] = "Algorithms"
    app.run()
    assert_calm(app)
    assert "range_equally_divide" in texts(app)


def test_chosen_split_is_in_the_address(site, fleet):
    bundle = fleet.bundles["bundle"][3].as_py()
    app = site.open("splits", bundle=bundle, algorithm="specified_positions_divide")
    assert_calm(app)
    assert app.text_input(key=state.BUNDLE).value == bundle
    assert app.selectbox(key=state.ALGORITHM).value == "specified_positions_divide"


def test_settings_page_shows_what_does_not_go_together(site, fleet):
    app = site.open("settings", view="Findings")
    assert_calm(app)
    found = next(one.value for one in app.dataframe if "finding" in one.value)
    assert "Shedding and placement measures differ" in set(found["finding"])
    assert "Automatic shedding is off" in set(found["finding"])


def test_a_value_that_a_setting_does_not_take_is_refused_at_its_field(site, fleet):
    key = "loadBalancerBrokerOverloadedThresholdPercentage"
    app = site.open("settings", view="Settings", setting=key)
    assert_calm(app)
    app.text_input(key="_new_value").set_value("abc")
    app.button(key="_new_value_add").click().run()
    assert any(key in error.value for error in app.error)
    assert not app.session_state[state.SET]
    app.text_input(key="_new_value").set_value("80")
    app.button(key="_new_value_add").click().run()
    assert_calm(app)
    assert app.session_state[state.SET] == [f"{key}=80"]


@pytest.mark.parametrize(
    ("release", "sentence"),
    [
        ("6.0.1", "Release 6.0.1 is unknown: the rules of 5.0 are assumed."),
        ("2.8.4", "Release 2.8.4 has no setting loadBalancerLoadPlacementStrategy, so its value"),
    ],
)
def test_settings_page_warns_of_an_unknown_release_and_of_values_that_it_does_not_read(
    site, release, sentence
):
    (made,) = make_history(1, brokers=3, bundles=12, now=now())
    key = "loadBalancerLoadPlacementStrategy"
    rows = [row for row in made.settings.to_pylist() if row["name"] != key]
    rows.append({"broker": None, "name": key, "value": "x.AvgShedder", "origin": "file"})
    table = pa.Table.from_pylist(rows, schema=made.settings.schema)
    manifest = replace(made.manifest, release=release)
    site.put(PulsarSnapshot.build(manifest, {**made.tables, "settings": table}))
    app = site.open("settings")
    assert_calm(app)
    shown = [one.value for one in app.warning]
    assert any(sentence in text.replace("\\", "") for text in shown), shown


def test_preset_is_shown_as_a_difference_and_taken_over(site, fleet):
    app = site.open("settings", preset="even-rates")
    assert_calm(app)
    assert "UniformLoadShedder" in texts(app)
    button = next(one for one in app.button if one.label == "Add preset")
    button.click().run()
    assert_calm(app)
    next(one for one in app.button if one.label == "Preview").click().run()
    assert_calm(app)
    said = texts(app)
    assert "With the changes:" in said
    assert "loadBalancerSheddingEnabled is false" in said
    assert "UniformLoadShedder" in said
    assert "set to 0.5" in said


def test_presets_are_chosen_by_title_and_addressed_by_name(site, fleet):
    app = site.open("settings", preset="bandwidth-only")
    assert_calm(app)
    [box] = [one for one in app.selectbox if one.label == "Preset"]
    assert (box.value, box.options[:2]) == (
        "bandwidth-only",
        ["Even message rates, small bundles", "Bandwidth only, planned bundles"],
    )
    assert app.query_params["preset"] in ("bandwidth-only", ["bandwidth-only"])


def test_wished_change_is_planned_and_could_be_applied(site, fleet):
    site.worker_says()
    app = site.open("settings", set=["loadBalancerBrokerThresholdShedderPercentage=20"])
    assert_calm(app)
    assert "set to 20" in texts(app)
    apply = next(one for one in app.button if one.label == "Apply plan…")
    assert not apply.disabled
    apply.click().run()
    assert_calm(app)
    assert app.text_input(key=REASON).label.startswith("Reason")


def test_change_that_brokers_would_misread_is_refused_in_words(site, fleet):
    app = site.open("settings", set=["loadBalancerSheddingEnabled=7"])
    assert_calm(app)
    assert "true or false" in " ".join(error.value for error in app.error)


def test_broker_page_tells_why_it_sheds_and_when_it_reports(site, fleet):
    app = site.open("broker", broker=fleet.brokers["broker"][0].as_py(), view="Shedding decision")
    assert_calm(app)
    said = texts(app)
    assert "Shedding decision" in said
    assert "simulation ends" in said
    assert "next report" in said
    app = site.open("broker", broker=fleet.brokers["broker"][0].as_py(), view="Leader")
    assert_calm(app)
    assert "Leader role" in texts(app)


def test_bundle_page_tells_why_it_is_not_shed_and_how_near_a_split_is(site, fleet):
    bundle = fleet.bundles["bundle"][0].as_py()
    app = site.open("bundle", bundle=bundle, view="Shedding decision")
    assert_calm(app)
    assert "next round" in texts(app)
    app = site.open("bundle", bundle=bundle, view="Automatic split")
    assert_calm(app)
    assert "It is not split automatically" in texts(app)


def verdicts(app):
    """What the table of the algorithms says of each."""
    return next(one.value for one in app.dataframe if "verdict" in one.value.columns)["verdict"]


def basis(app):
    """What the parts of the table of a split are based on."""
    return next(one.value for one in app.dataframe if "basis" in one.value.columns)["basis"]


def test_split_is_judged_by_the_topics_that_were_fetched(site, fleet):
    bundle = fleet.bundles["bundle"][3].as_py()
    app = site.open("splits", bundle=bundle)
    app.session_state["view"] = "Algorithms"
    app.run()
    assert "helps" not in "".join(verdicts(app))
    topics = make_topics(fleet.bundles, bundle)
    read = state.ReadTopics(topics, services.now() - timedelta(minutes=3))
    app.session_state["_topics"] = {("fleet", bundle): read}
    app.run()
    assert_calm(app)
    said = texts(app)
    assert f"{topics.num_rows} topics. Read at " in said
    assert "3 min ago" in said
    assert "topics" in basis(app).tolist()
    assert "hash range (assumed)" not in said


def test_cut_that_cannot_help_is_not_what_the_primary_button_applies(site, fleet):
    site.worker_says()
    row = fleet.bundles.slice(3, 1).to_pylist()[0]
    cut = {"algorithm": "specified_positions_divide", "positions": hex(row["lower"] + 1)}
    app = site.open("splits", bundle=row["bundle"], **cut)
    topics = make_topics(fleet.bundles, row["bundle"])
    app.session_state["_topics"] = {("fleet", row["bundle"]): state.ReadTopics(topics, now())}
    app.run()
    assert_calm(app)
    apply = app.button(key="_apply")
    assert (apply.label, apply.proto.type, apply.disabled) == ("Apply anyway…", "secondary", False)
    assert "cannot help" in apply.help
    app.button(key="_better_cut").click().run()
    assert_calm(app)
    apply = app.button(key="_apply")
    assert (apply.label, apply.proto.type) == ("Apply plan…", "primary")
    assert app.text_input(key=state.POSITIONS).value != cut["positions"]
    assert "Preview" not in [one.label for one in app.button]


def test_position_that_is_no_number_is_refused_in_words(site, fleet):
    app = site.open("splits", algorithm="specified_positions_divide", positions="middle")
    assert_calm(app)
    assert "'middle' is not a valid position" in " ".join(error.value for error in app.error)


def test_split_of_a_writable_cluster_leads_to_the_dialog(site, fleet):
    site.worker_says()
    app = site.open("splits")
    app.button(key="_apply").click().run()
    assert_calm(app)
    said = texts(app)
    assert "would be split" in said
    assert any("load is proportional to the hash range" in one.value for one in app.warning)
    assert app.text_input(key=REASON).label.startswith("Reason")


def test_broker_that_does_not_lead_points_to_the_leader(site, fleet):
    app = site.open("broker", broker=fleet.brokers["broker"][2].as_py(), view="Leader")
    assert_calm(app)
    app.button(key="_to_leader").click().run()
    assert_calm(app)
    assert "Leader role" in texts(app)


def test_a_page_whose_parameter_a_widget_holds_opens_another_with_it(site, fleet):
    app = site.open("splits")
    assert_calm(app)
    bundle = app.text_input(key="bundle").value
    next(one for one in app.button if one.label == "Open bundle").click().run()
    assert_calm(app)
    assert app.title[0].value.replace("\\", "") == f"Bundle {bundle}"
