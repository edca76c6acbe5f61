"""Lookup: the steps from a topic to its owner, and the placement of its bundle."""

from __future__ import annotations

import pytest
from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now, texts

from dashboard import state


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


@pytest.fixture
def fleet(site):
    snapshot = make_snapshot(brokers=4, bundles=40, now=now())
    site.put(snapshot)
    return snapshot


def test_a_topic_is_four_steps_and_the_candidates_of_its_bundle(site, fleet):
    namespace = fleet.bundles["namespace"][0].as_py()
    app = site.open("lookup", topic=f"{namespace}/topic-1")
    assert_calm(app)
    assert app.title[0].value.replace("\\", "") == f"Topic persistent://{namespace}/topic-1"
    steps = {one.label: one.value.replace("\\", "") for one in app.metric}
    assert list(steps) == ["1. Topic", "2. Hash", "3. Bundle", "4. Owner"]
    assert steps["4. Owner"] in fleet.brokers["broker"].to_pylist()
    place = app.text_input(key=state.PLACE).value
    assert place.startswith(f"{namespace}/{steps['3. Bundle']}_")
    assert "Placement candidates" in texts(app)


def test_another_topic_takes_the_place_of_the_one_before_and_a_failed_lookup_clears_it(site, fleet):
    first, second = sorted(set(fleet.bundles["namespace"].to_pylist()))[:2]
    app = site.open("lookup", topic=f"{first}/topic-1")
    app.text_input(key=state.TOPIC).set_value(f"{second}/topic-1").run()
    assert_calm(app)
    assert app.text_input(key=state.PLACE).value.startswith(f"{second}/0x")
    app.text_input(key=state.TOPIC).set_value("no/such/topic").run()
    assert "cannot be looked up" in app.error[0].proto.title
    assert not app.text_input(key=state.PLACE).value
    assert "Placement candidates" not in texts(app)


def test_a_bundle_is_placed_without_a_topic(site, fleet):
    bundle = fleet.bundles["bundle"][0].as_py()
    app = site.open("lookup", place=bundle)
    assert_calm(app)
    assert app.text_input(key=state.PLACE).value == bundle
    assert "Placement candidates" in texts(app)
