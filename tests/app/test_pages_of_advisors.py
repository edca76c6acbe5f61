"""The calculators: every answer from the cluster's numbers, the examples of the reports."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fleet_builder import make_history
from snapshot_site import Site, assert_calm, now, texts

from core.planning.advisors.partitions import partition_hashes
from core.schemas import PULSAR_TABLES
from core.schemas.pulsar import RATES
from dashboard import services, state
from dashboard.components.applying import REASON

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
def test_every_calculator_answers_from_the_live_cluster(site, fleet, view):
    app = site.open("advisors", view=view, namespace=namespace_of(fleet))
    assert_calm(app)
    assert not app.error
    assert app.get("plotly_chart")
    assert "live" in texts(app).lower()
    assert len(app.metric) >= 3


def test_number_of_bundles_names_every_reason(site, fleet):
    app = site.open("advisors", view="bundles", brokers="50", within_pct="5")
    assert_calm(app)
    said = texts(app)
    assert "50 brokers within 5% of the mean" in said
    assert "custom" in said
    for reason in ("even load", "limit of topics", "lookups of a move", "znodes"):
        assert reason in said


def test_the_example_of_vivo_is_one_click_away(site, fleet):
    app = site.open("advisors", view="partitions")
    next(
        one for one in app.button if one.label == "Example: 30 partitions, 180 bundles (vivo)"
    ).click().run()
    assert_calm(app)
    said = texts(app)
    assert "30 partitions over 180 bundles: fullest bundle 4 partitions, 13.3%" in said
    assert "approx. 200 bundles per day" in said
    next(
        one for one in app.button if one.label == "Example: 120 partitions, 180 bundles (vivo)"
    ).click().run()
    assert "120 partitions over 180 bundles: fullest bundle 4 partitions, 3.3%" in texts(app)


def partitions_of(fleet, topic, count):
    """Partitions of a topic as their owners would name them."""
    namespace = topic.partition("://")[2].rpartition("/")[0]
    own = fleet.bundles.filter(pc.equal(fleet.bundles["namespace"], namespace))
    names, lower = own["bundle"].to_pylist(), np.array(own["lower"])
    hashes = partition_hashes(topic, count)
    at = np.searchsorted(lower, hashes, side="right") - 1
    rows = [
        {
            "topic": f"{topic}-partition-{number}",
            "bundle": names[at[number]],
            "hash": int(hashes[number]),
            **dict.fromkeys(RATES, 1e6),
            **dict.fromkeys(("producer_count", "consumer_count", "subscription_count"), 2),
            **dict.fromkeys(("backlog", "storage_bytes"), 0),
        }
        for number in range(count)
    ]
    return pa.Table.from_pylist(rows, PULSAR_TABLES["topics"])


def test_the_surgeon_makes_a_plan_for_a_topic_that_was_fetched(site, fleet):
    site.worker_says()
    rich = fleet.bundles.filter(pc.invert(fleet.bundles["is_broker_bound"]))
    row = int(np.nan_to_num(rich["topic_count"].to_numpy(zero_copy_only=False)).argmax())
    hot = rich["bundle"][row].as_py()
    namespace = hot.rpartition("/")[0]
    lower, upper = (int(part, 16) for part in hot.rpartition("/")[2].split("_"))
    # a topic whose fullest bundle is one with many topics
    topic, wanted = next(
        (name, worst - 1)
        for name in (f"persistent://{namespace}/hot-{number}" for number in range(500))
        for inside in [partition_hashes(name, 30)]
        for worst in [int(((inside >= lower) & (inside < upper)).sum())]
        if worst >= 4 and _most(fleet, namespace, inside) == (worst, hot)
    )
    app = site.open(
        "advisors",
        view="partitions",
        namespace=namespace,
        topic=topic,
        each=str(wanted),
        show="Splits",
    )
    assert_calm(app)
    assert "irreversible" in texts(app)
    topics = partitions_of(fleet, topic, 30)
    app.session_state["_topics"] = {("fleet", namespace): state.ReadTopics(topics, services.now())}
    app.run()
    assert_calm(app)
    said = texts(app)
    assert "1 partitioned" in said
    assert f"{topic}, exists on the cluster" in said
    assert "live: snapshot" in said
    assert "1 split (" in said
    assert "specified_positions_divide" in said
    apply = next(one for one in app.button if one.label == "Apply plan…")
    assert not apply.disabled
    apply.click().run()
    assert_calm(app)
    assert app.text_input(key=REASON).label.startswith("Reason")


def _most(fleet, namespace, hashes):
    own = fleet.bundles.filter(pc.equal(fleet.bundles["namespace"], namespace))
    held = np.bincount(
        np.searchsorted(np.array(own["lower"]), hashes, side="right") - 1, minlength=own.num_rows
    )
    best = np.flatnonzero(held == held.max())
    return (int(held.max()), own["bundle"][int(best[0])].as_py()) if best.size == 1 else (0, "")


def test_queue_of_the_vivo_report(site, fleet):
    app = site.open("advisors", view="producer")
    app.button(key="_vivo_30").click().run()
    assert "1,333 pending messages for each of 30 partitions" in texts(app)
    app.button(key="_vivo_120").click().run()
    assert_calm(app)
    said = texts(app)
    assert "333 pending messages for each of 120 partitions" in said
    assert "min(2000, 40,000 / 120)" in said


def test_rollover_held_back_by_the_least_age(site, fleet):
    app = site.open("advisors", view="ledgers", entries="1000", written="100")
    assert_calm(app)
    assert "age of 10.0" in texts(app)
    assert "min age keeps" in texts(app)


def test_contradictions_of_retention_are_warned_of(site, fleet):
    app = site.open(
        "advisors",
        view="retention",
        defaultRetentionTimeInMinutes="60",
        defaultRetentionSizeInMB="-1",
        ttlDurationDefaultInSeconds="7200",
    )
    assert_calm(app)
    assert "exceeds the retention" in texts(app)


def test_lookups_lead_to_the_preview_of_every_bundle_which_warns(site, fleet):
    app = site.open("advisors", view="lookups", namespace=namespace_of(fleet))
    next(one for one in app.button if one.label.startswith("Preview")).click().run()
    assert_calm(app)
    assert app.title[0].value == "Unload"
    assert "unloads every owned" in texts(app)


@pytest.mark.parametrize(
    ("view", "params", "words"),
    [
        ("bundles", {"brokers": "0"}, "at least 1 broker"),
        ("partitions", {"partitions": "0"}, "is not a valid number"),
        ("partitions", {"topic": "persistent://no/such/topic"}, "no/such"),
        ("partitions", {"topic": "a/b"}, "is not a topic name"),
        ("producer", {"rate": "0"}, "must be above 0"),
        ("producer", {"partitions": "0"}, "at least 1 partition"),
        ("ledgers", {"managedLedgerMaxEntriesPerLedger": "0"}, "not above 0"),
        ("ledgers", {"minorCompactionThreshold": "0.9"}, "above that of major"),
        ("ledgers", {"directories": "0"}, "at least 1 ledger directory"),
        ("retention", {"written": "-1"}, "negative"),
        ("lookups", {"pace": "0"}, "not above 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(site, fleet, view, params, words):
    app = site.open("advisors", view=view, **params)
    assert_calm(app)
    assert words in " ".join(error.value for error in app.error).replace("\\", "")
