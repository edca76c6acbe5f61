"""Lookup: the steps from a topic to its owner, and the placement of its bundle."""

from __future__ import annotations

import pytest
from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now, texts

from core.errors import UnreachableError
from core.pulsar.lookup import TopicNames
from dashboard import state
from dashboard.services import pulsar


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


def enter(app, topic):
    """Type a topic into the field; AppTest chooses only what is offered."""
    field = app.selectbox(key=state.TOPIC)
    field.options.append(topic)
    return field.set_value(topic).run()


@pytest.fixture
def asked(monkeypatch):
    """The namespaces whose names were asked for; the brokers have two topics in each."""
    found = []

    def fetch(cluster, url, namespace):
        found.append((url, namespace))
        stem = f"persistent://{namespace}"
        parts = frozenset(f"{stem}/orders-partition-{at}" for at in range(3))
        return TopicNames(parts | {f"{stem}/topic-1"}, frozenset({f"{stem}/orders"}))

    monkeypatch.setattr(pulsar, "fetch_topic_names", fetch)
    return found


def test_the_first_screen_lists_namespaces_with_the_busiest_first(site, fleet):
    app = site.open("lookup")
    assert_calm(app)
    (frame,) = [one.value for one in app.dataframe if "throughput" in one.value.columns]
    own = [name for name in fleet.bundles["namespace"].to_pylist() if name in set(frame.namespace)]
    assert frame["bundles"].sum() == len(own) > 0
    assert frame["throughput"].is_monotonic_decreasing
    app.button(key="_example_Bundle").click().run()
    assert_calm(app)
    assert app.session_state[state.PLACE] in fleet.bundles["bundle"].to_pylist()


@pytest.mark.parametrize("page", ["broker", "bundle"])
def test_a_page_without_its_object_lists_the_busiest_ones(site, fleet, page):
    app = site.open(page)
    assert_calm(app)
    (frame,) = [one.value for one in app.dataframe if page in one.value.columns]
    assert 0 < len(frame) <= getattr(fleet, f"{page}s").num_rows
    assert frame["traffic" if page == "broker" else "throughput"].is_monotonic_decreasing


def test_the_field_completes_what_is_known(site, fleet, asked):
    namespace = fleet.bundles["namespace"][0].as_py()
    app = site.open("lookup")
    field = app.selectbox(key=state.TOPIC)
    assert field.options[0].endswith("/")
    assert f"{namespace}/" in field.options
    assert not asked
    enter(app, f"{namespace}/")
    assert_calm(app)
    assert [one for _, one in asked] == [namespace]
    assert app.title[0].value.replace("\\", "") == f"Topics of {namespace}"
    listed = next(one.value for one in app.dataframe if "partitions" in one.value)
    assert [one.rpartition("/")[2] for one in listed["topic"]] == ["orders", "topic-1"]
    assert listed["partitions"][0] == 3
    offered = app.selectbox(key=state.TOPIC).options
    assert f"persistent://{namespace}/topic-1" in offered
    assert f"persistent://{namespace}/orders" in offered


@pytest.mark.parametrize(
    ("name", "word", "note"),
    [
        ("topic-1", "yes", "checked"),
        ("orders", "yes", "3 partitions"),
        ("topic-2", "no", "checked"),
    ],
)
def test_an_entered_topic_is_looked_for_at_once_and_once(site, fleet, asked, name, word, note):
    namespace = fleet.bundles["namespace"][0].as_py()
    app = enter(site.open("lookup"), f"{namespace}/{name}")
    assert_calm(app)
    figure = next(one for one in app.metric if one.label == "Exists")
    assert figure.value == word
    assert note in figure.delta
    assert ("Did you mean" in texts(app)) is (word == "no")
    app.run()
    assert len(asked) == 1
    url, _ = asked[0]
    assert url in fleet.brokers["web_url"].to_pylist()


def test_a_topic_of_an_address_is_looked_for_on_request_and_a_failure_is_said(
    site, fleet, monkeypatch
):
    def fetch(cluster, url, namespace):
        raise UnreachableError("It is down.", endpoint=url, operation="GET", outcome="not_sent")

    monkeypatch.setattr(pulsar, "fetch_topic_names", fetch)
    namespace = fleet.bundles["namespace"][0].as_py()
    app = site.open("lookup", topic=f"{namespace}/topic-1")
    assert not app.error
    app.button(key="_check_topic").click().run()
    assert_calm(app)
    assert "It is down" in app.error[0].value
    assert next(one for one in app.metric if one.label == "Exists").value == "not checked"


def test_a_topic_that_is_not_persistent_exists_while_it_is_loaded(site, fleet, asked):
    namespace = fleet.bundles["namespace"][0].as_py()
    app = enter(site.open("lookup"), f"non-persistent://{namespace}/topic-1")
    figure = next(one for one in app.metric if one.label == "Exists")
    assert (figure.value, figure.delta) == ("not checked", "? exists only while loaded")


def test_a_topic_is_four_steps_and_the_candidates_of_its_bundle(site, fleet):
    namespace = fleet.bundles["namespace"][0].as_py()
    app = site.open("lookup", topic=f"{namespace}/topic-1")
    assert_calm(app)
    assert app.title[0].value.replace("\\", "") == f"Topic persistent://{namespace}/topic-1"
    steps = {one.label: one.value.replace("\\", "") for one in app.metric}
    assert list(steps) == ["1. Topic", "2. Hash", "3. Bundle", "4. Owner", "Exists"]
    assert steps["Exists"] == "not checked"
    assert steps["4. Owner"] in fleet.brokers["broker"].to_pylist()
    place = app.text_input(key=state.PLACE).value
    assert place.startswith(f"{namespace}/{steps['3. Bundle']}_")
    assert "Placement candidates" in texts(app)


def test_another_topic_takes_the_place_of_the_one_before_and_a_failed_lookup_clears_it(site, fleet):
    first, second = sorted(set(fleet.bundles["namespace"].to_pylist()))[:2]
    app = site.open("lookup", topic=f"{first}/topic-1")
    enter(app, f"{second}/topic-1")
    assert_calm(app)
    assert app.text_input(key=state.PLACE).value.startswith(f"{second}/0x")
    enter(app, "no/such/topic")
    assert "Could not look up" in app.error[0].proto.title
    assert not app.text_input(key=state.PLACE).value
    assert "Placement candidates" not in texts(app)


def test_a_bundle_is_placed_without_a_topic(site, fleet):
    bundle = fleet.bundles["bundle"][0].as_py()
    app = site.open("lookup", place=bundle)
    assert_calm(app)
    assert app.text_input(key=state.PLACE).value == bundle
    assert "Placement candidates" in texts(app)
