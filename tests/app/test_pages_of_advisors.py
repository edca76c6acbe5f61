"""The page of advisors: every answer from the cluster's numbers, the examples of the reports."""

from __future__ import annotations

import pyarrow as pa
import pytest
from fleet_builder import make_history, make_topics
from shelf_site import Site, assert_calm, now, texts

from core.schemas import PULSAR_TABLES
from dashboard import services, state

VIEWS = ("bundles", "partitions", "producer", "ledgers", "retention", "lookups")


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


@pytest.fixture
def fleet(site):
    history = make_history(2, brokers=6, bundles=80, now=now())
    site.put(*history)
    return history[-1]


def namespace_of(fleet):
    return fleet.bundles["namespace"][0].as_py()


@pytest.mark.parametrize("view", VIEWS)
def test_every_advisor_answers_from_the_live_cluster(site, fleet, view):
    app = site.open("advisors", view=view, namespace=namespace_of(fleet))
    assert_calm(app)
    assert not app.error
    assert app.get("plotly_chart")
    assert "live" in texts(app).lower()


def test_number_of_bundles_names_every_reason(site, fleet):
    app = site.open("advisors", view="bundles", brokers="50")
    assert_calm(app)
    said = texts(app)
    assert "for 50 brokers" in said
    assert "yours" in said
    for reason in ("even brokers", "limit of topics", "lookups of a move", "znodes"):
        assert reason in said


def test_the_example_of_vivo_is_one_click_away(site, fleet):
    app = site.open("advisors", view="partitions")
    next(one for one in app.button if one.label.startswith("The example")).click().run()
    assert_calm(app)
    said = texts(app)
    assert "30 partitions over 180 bundles: the fullest bundle gets 4 of them, 13.3 %" in said
    assert "about 200 times a day" in said
    next(one for one in app.button if one.label == "The same with 120").click().run()
    assert "120 partitions over 180 bundles: the fullest bundle gets 4 of them, 3.3 %" in texts(app)


def test_the_surgeon_makes_a_plan_that_could_be_applied(site, fleet):
    site.worker_says()
    namespace = namespace_of(fleet)
    app = site.open(
        "advisors",
        view="partitions",
        topic=f"persistent://{namespace}/hot",
        partitions="30",
        each="5",
    )
    assert_calm(app)
    said = texts(app)
    assert "leave" in said
    assert "specified_positions_divide" in said
    apply = next(one for one in app.button if one.label == "Apply…")
    assert not apply.disabled
    apply.click().run()
    assert_calm(app)
    assert "Say why" in texts(app)


def test_a_partitioned_topic_that_was_fetched_fills_the_inputs(site, fleet):
    namespace = namespace_of(fleet)
    topics = make_topics(fleet.bundles, fleet.bundles["bundle"][0].as_py(), 6)
    names = [f"persistent://{namespace}/orders-partition-{number}" for number in range(6)]
    topics = topics.set_column(
        topics.schema.get_field_index("topic"),
        PULSAR_TABLES["topics"].field("topic"),
        pa.array(names),
    )
    app = site.open("advisors", view="partitions", namespace=namespace)
    app.session_state["_topics"] = {("fleet", namespace): state.ReadTopics(topics, services.now())}
    app.run()
    assert_calm(app)
    said = texts(app)
    assert "1 of them partitioned" in said
    assert f"persistent://{namespace}/orders, a topic of the cluster" in said
    assert "6 partitions over" in said


def test_queue_of_the_vivo_report(site, fleet):
    app = site.open("advisors", view="producer")
    app.button(key="_vivo_30").click().run()
    assert "1,333 messages may wait for each of 30 partitions" in texts(app)
    app.button(key="_vivo_120").click().run()
    assert_calm(app)
    said = texts(app)
    assert "333 messages may wait for each of 120 partitions" in said
    assert "min(2000, 40,000 / 120)" in str([table.value for table in app.table])


def test_rollover_held_back_by_the_least_age(site, fleet):
    app = site.open("advisors", view="ledgers", entries="1000", written="100")
    assert_calm(app)
    assert "at an age of 10.0 min, by its entries" in texts(app)
    assert "the least age keeps it open" in texts(app)


def test_contradictions_of_retention_are_warned_of(site, fleet):
    app = site.open(
        "advisors",
        view="retention",
        defaultRetentionTimeInMinutes="60",
        defaultRetentionSizeInMB="-1",
        ttlDurationDefaultInSeconds="7200",
    )
    assert_calm(app)
    assert "longer than the retention" in texts(app)


def test_lookups_lead_to_the_preview_of_every_bundle_which_warns(site, fleet):
    app = site.open("advisors", view="lookups", namespace=namespace_of(fleet))
    next(one for one in app.button if one.label.startswith("Preview")).click().run()
    assert_calm(app)
    assert app.title[0].value == "Unload preview"
    assert "The plan unloads every owned bundle of" in texts(app)


@pytest.mark.parametrize(
    ("view", "params", "words"),
    [
        ("bundles", {"brokers": "0"}, "1 broker or more"),
        ("partitions", {"partitions": "0"}, "cannot be looked at"),
        ("partitions", {"topic": "persistent://no/such/topic"}, "no/such"),
        ("partitions", {"topic": "a/b"}, "is not a topic name"),
        ("producer", {"rate": "0"}, "must be above 0"),
        ("producer", {"partitions": "0"}, "1 partition or more"),
        ("ledgers", {"managedLedgerMaxEntriesPerLedger": "0"}, "not above 0"),
        ("ledgers", {"minorCompactionThreshold": "0.9"}, "above the major one"),
        ("ledgers", {"directories": "0"}, "1 ledger directory or more"),
        ("retention", {"written": "-1"}, "negative"),
        ("lookups", {"pace": "0"}, "not above 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(site, fleet, view, params, words):
    app = site.open("advisors", view=view, **params)
    assert_calm(app)
    assert words in " ".join(error.value for error in app.error).replace("\\", "")
