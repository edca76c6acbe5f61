"""Ownership: what its views say of a sound fleet, of orphans, double claims, a broker's death."""

from __future__ import annotations

import pytest
from claims import claimed, unheard, with_claims
from fleet_builder import make_snapshot
from fleet_edit import edited, owned_by
from snapshot_site import Site, assert_calm, now, texts

from core.pulsar.lookup import lookup_topic
from core.pulsar.measures import BundleCounts
from core.pulsar.owners import DOUBLE, ORPHANED, REFUSED, ownership_of
from core.pulsar.settings import effective_settings
from core.units import datetime_to_ms
from dashboard import state
from dashboard.app_pages.pulsar.ownership import model as presenter


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


@pytest.fixture
def fleet(site):
    made = claimed(make_snapshot(brokers=5, bundles=60, now=now()))
    site.put(made)
    return made


def test_sound_fleet_says_so_in_every_view(site, fleet):
    broker = fleet.brokers["broker"][0].as_py()
    said = {}
    for view in presenter.VIEWS:
        app = site.open("ownership", view=view, broker=broker)
        assert_calm(app)
        said[view] = texts(app)
        figures = {one.label: one for one in app.metric}
        assert figures["Ownership problems"].value == "0 bundles"
        assert figures["Sessions"].delta == "● all registered"
    assert "registered broker" in said[presenter.SESSIONS]
    assert "0x1000" in said[presenter.SESSIONS]
    assert "● as expected" in said[presenter.SPREAD]
    assert "Cost of a leader change" in said[presenter.LEADER]
    assert "down for at least 30" in said[presenter.DEATH]
    assert "metadataStoreSessionTimeoutMillis" in said[presenter.DEATH]


def test_orphans_are_counted_listed_and_explained(site):
    fleet = claimed(make_snapshot(brokers=5, bundles=60, now=now()))
    gone = fleet.brokers["broker"][1].as_py()
    orphans = owned_by(fleet, gone)
    site.put(unheard(fleet, gone))
    app = site.open("ownership")
    assert_calm(app)
    figures = {one.label: (one.value, one.delta) for one in app.metric}
    value, note = figures["Ownership problems"]
    assert int(value.partition(" ")[0]) >= len(orphans)
    assert note == "✖ orphaned"
    listed = next(one.value for one in app.dataframe if "session" in one.value)
    wrong = next(one.value for one in app.dataframe if "finding" in one.value)
    assert len(wrong)
    assert set(listed["bundle"]) >= set(orphans)
    assert set(listed["state"]) == {presenter.marked(ORPHANED)}


def test_double_claim_names_both_brokers(site):
    fleet = claimed(make_snapshot(brokers=5, bundles=60, now=now()))
    first, second = fleet.brokers["broker"].to_pylist()[:2]
    bundle = owned_by(fleet, first)[0]
    site.put(edited(fleet, "bundles", {bundle: {"reported_by": second}}))
    app = site.open("ownership", state=DOUBLE)
    assert_calm(app)
    assert app.selectbox(key=state.STATE).value == DOUBLE
    row = next(one.value for one in app.dataframe if "session" in one.value).iloc[0]
    assert (row["bundle"], row["owner"], row["claimant"]) == (bundle, first, second)


def test_draining_first_opens_the_unload_preview_of_its_bundles(site, fleet):
    broker = fleet.brokers["broker"][0].as_py()
    app = site.open("ownership", view=presenter.DEATH, broker=broker)
    button = next(one for one in app.button if one.label.startswith("Preview drain"))
    button.click().run()
    assert_calm(app)
    assert set(app.query_params["bundles"]) == set(owned_by(fleet, broker))


def test_a_refused_bundle_is_said_alike_on_every_page(site):
    fleet = claimed(make_snapshot(brokers=4, bundles=30, now=now()))
    owner = fleet.brokers["broker"][0].as_py()
    bundle = owned_by(fleet, owner)[0]
    rows = fleet.claims.to_pylist()
    for row in rows:
        if row["subject"] == bundle:
            row["is_disabled"] = True
            row["modified_at"] = datetime_to_ms(fleet.manifest.taken_at) - 95 * 60_000
    site.put(with_claims(fleet, rows))
    space = bundle.rpartition("/")[0]
    names = (f"persistent://{space}/t{number}" for number in range(2_000))
    topic = next(name for name in names if lookup_topic(fleet, name).bundle == bundle)
    for app in (site.open("lookup", topic=topic), site.open("bundle", bundle=bundle)):
        assert_calm(app)
        [reason] = [one.value for one in app.error]
        told = reason.replace("\\", "")
        assert told.startswith(f"Not served for 95 min: {owner} disabled it")
    app = site.open("ownership")
    listed = next(one.value for one in app.dataframe if "session" in one.value)
    assert listed["state"].tolist() == [presenter.marked(REFUSED)]
    assert listed["unserved"].tolist() == ["95 min"]


def test_the_leader_of_a_cluster_that_does_not_shed_only_places_bundles(fleet):
    counts = BundleCounts.of(fleet.bundles)
    notes = [
        presenter.key_figures(
            ownership_of(fleet, effective_settings(fleet)), "b", counts, 0, is_shedding=is_shedding
        )[-1].note
        for is_shedding in (True, False)
    ]
    assert notes == ["places and sheds bundles", "places bundles; shedding is off"]
