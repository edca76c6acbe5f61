"""The doctor on the page of settings: what it finds, and the way from there to a plan."""

from __future__ import annotations

import pytest
from fleet_builder import broker_names, make_snapshot
from fleet_edit import edited, with_settings
from snapshot_site import Site, assert_calm, now, texts

from dashboard import state

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


def test_doctor_tells_evidence_consequence_and_fix(site, ill):
    app = site.open("settings")
    assert_calm(app)
    said = texts(app)
    assert "newest usage weighs" in said
    assert "stays what it" in said
    assert f"{NAMES[1]} reports no limit for inbound bandwidth" in said
    assert "loadBalancerSheddingEnabled is near" in said
    codes = [one.value for one in app.code]
    assert f"{HISTORY}=0.9" in codes
    assert f"{NIC}=<Gbit/s>" in codes
    assert "lowerBoundarySheddingEnabled=false" in codes


def test_fix_goes_into_the_changes_and_becomes_a_plan(site, ill):
    app = site.open("settings")
    fixes = [one for one in app.button if one.label == "Put it into the changes"]
    at = [one.value for one in app.code if one.value.startswith((HISTORY, "max"))]
    assert at[0] == f"{HISTORY}=0.9"
    fixes[0].click().run()
    assert_calm(app)
    assert app.multiselect(key=state.SET).value
    assert "The plan" in texts(app)


def test_brokers_are_compared_by_groups_of_equal_ones(site, ill):
    app = site.open("settings")
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


def test_without_any_setting_it_says_so_and_what_is_assumed(site):
    site.put(with_settings(make_snapshot(brokers=3, bundles=12, now=now())))
    app = site.open("settings")
    assert_calm(app)
    said = texts(app)
    assert "No setting" in said
    assert "not be judged" in said
    assert "need a look" in said
    assert "Assumed, not read" in said
