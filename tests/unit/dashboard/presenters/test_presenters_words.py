from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread
from types import SimpleNamespace

import pytest
from fleet_builder import NOON, make_snapshot

from core.pulsar.lookup import lookup_topic
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.preview import preview_plan
from core.snapshot import Problem
from core.units import by_name, listed, pluralize
from dashboard.app_pages.pulsar.lookup import model as lookup_model
from dashboard.presenters import applying, freshness, naming
from dashboard.presenters.pulsar import search, unload
from dashboard.queries.cache import cached

SNAPSHOT = make_snapshot()
MANIFEST = SNAPSHOT.manifest


# -- freshness -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age_s", "is_stale"), [(0, False), (60, False), (180, False), (181, True), (3_600, True)]
)
def test_older_than_three_intervals_is_stale(age_s, is_stale):
    badge = freshness.freshness_badge(
        MANIFEST, now=NOON + timedelta(seconds=age_s), every_s=60, status={}
    )
    assert badge.text.startswith("stale") == is_stale


def test_a_snapshot_chosen_by_its_time_is_never_called_stale():
    badge = freshness.freshness_badge(
        MANIFEST, now=NOON + timedelta(hours=2), every_s=60, status={}, is_past=True
    )
    assert "stale" not in badge.text
    assert badge.tone == "gray"


def test_error_before_the_last_success_is_forgotten():
    status = {
        "last_error": {"code": "x", "message": "No answer.", "hint": ""},
        "last_error_at": "2026-11-21T12:00:00+00:00",
        "last_success_at": "2026-11-21T12:01:00+00:00",
    }
    assert freshness.last_error(status) == ""
    assert freshness.last_error({**status, "last_success_at": None}) == "No answer."


def test_missing_bundles_are_not_called_complete():
    tables = dict(MANIFEST.tables)
    tables["bundles"] = replace(tables["bundles"], rows=500, expected=600)
    badge = freshness.coverage_badge(replace(MANIFEST, tables=tables))
    assert "500 of 600 bundles" in badge.text
    assert badge.tone == "orange"
    assert badge.help.endswith("No capture problem was recorded.")
    unread = Problem(code="unreadable", place="/a", what="No answer.", severity="error")
    badge = freshness.coverage_badge(replace(MANIFEST, tables=tables, problems=(unread,)))
    assert badge.help.endswith("Reasons: 1 capture problem, next to this badge.")


def test_stale_is_never_called_live():
    late = NOON + timedelta(hours=2)
    badge = freshness.freshness_badge(
        MANIFEST, now=late, every_s=60, status={}, why_read_only="No."
    )
    assert "live" not in badge.text
    assert "read-only" in badge.text
    assert badge.tone == "orange"


def test_coverage_that_nobody_knows_is_not_called_whole():
    bundles = replace(MANIFEST.tables["bundles"], rows=600, expected=None)
    badge = freshness.coverage_badge(
        replace(MANIFEST, tables={**MANIFEST.tables, "bundles": bundles})
    )
    assert "unknown" in badge.help
    assert badge.icon != ":material/task_alt:"


def test_problems_are_counted_and_errors_stand_out():
    problem = Problem(code="malformed", place="/a", what="Bad.", severity="error")
    badge = freshness.problems_badge(replace(MANIFEST, problems=(problem, problem)))
    assert badge.text == "2 capture problems"
    assert badge.tone == "red"


# -- names -----------------------------------------------------------------------------------------


def test_file_name_has_cluster_and_time_and_is_safe():
    moment = datetime(2026, 11, 21, 14, 3, 5, tzinfo=UTC)
    assert (
        naming.file_name("eu/1", "bundles of 10.1.0.1:8080", moment, "csv")
        == "eu-1-bundles-of-10.1.0.1-8080-20261121T140305Z.csv"
    )


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c", "d"], "a, b, c and 1 more")],
)
def test_names_are_listed_up_to_three(names, text):
    assert listed(names) == text


def test_one_is_singular():
    assert pluralize(1, "bundle") == "1 bundle"
    assert pluralize(1_200, "bundle") == "1,200 bundles"


# -- search ----------------------------------------------------------------------------------------


def test_search_finds_brokers_namespaces_and_bundles_by_part():
    hits = search.search(SNAPSHOT, "10.1.0.3")
    assert hits[0].kind == "broker"
    kinds = {hit.kind for hit in search.search(SNAPSHOT, "orders")}
    assert {"namespace", "bundle"} <= kinds


def test_search_resolves_a_full_topic_name_by_the_ring():
    namespace = SNAPSHOT.bundles["namespace"][0].as_py()
    hit = search.search(SNAPSHOT, f"{namespace}/my-topic")[0]
    assert hit.kind == "topic"
    assert hit.params["topic"] == f"persistent://{namespace}/my-topic"
    assert namespace in hit.detail


@pytest.mark.parametrize("query", ["", "x", "   ", "persistent://no/such/topic", "((", "%"])
def test_search_for_nothing_sensible_finds_nothing_and_does_not_fail(query):
    assert search.search(SNAPSHOT, query) == []


@pytest.mark.parametrize(
    ("text", "is_topic"),
    [
        ("a/b/c", True),
        ("persistent://a/b/c", True),
        ("http://a/b/c", False),
        ("a/b", False),
        ("a/b/0x00000000_0x40000000", False),
    ],
)
def test_what_reads_as_a_topic_name(text, is_topic):
    assert search.looks_like_topic(text) == is_topic


def test_steps_of_a_lookup_name_bundle_and_owner():
    namespace = SNAPSHOT.bundles["namespace"][0].as_py()
    found = lookup_topic(SNAPSHOT, f"{namespace}/my-topic")
    state = lookup_model.TopicState("not checked", "", "unknown")
    bundle, owner = lookup_model.steps(found, state)[2:4]
    assert found.bundle.rpartition("/")[2].split("_") == [bundle.value, bundle.note[3:13]]
    assert owner.value == found.owner
    assert lookup_model.steps(replace(found, owner=None), state)[3].value == "none"
    unknown = lookup_model.steps(replace(found, owner=None, is_owner_known=False), state)[3]
    assert unknown.status == "unknown"


# -- unload ----------------------------------------------------------------------------------------


def previewed(count, **options):
    movable = SNAPSHOT.bundles.filter(SNAPSHOT.bundles["lower"].to_numpy() > 0)
    names = movable["bundle"].slice(0, count).to_pylist()
    plan = build_unload_plan(SNAPSHOT, names, now=NOON, **options)
    return plan, preview_plan(SNAPSHOT, plan)


@pytest.mark.parametrize("count", [1, 3])
def test_unload_answer_says_cost_effect_and_taker(count):
    plan, preview = previewed(count)
    told = unload.answer(plan, preview)
    assert told.startswith(f"Unloading {pluralize(count, 'bundle')} (")
    assert "clients" in told
    assert "max traffic deviation" in told


def test_unload_with_a_destination_names_it():
    plan, preview = previewed(1, destination=SNAPSHOT.brokers["broker"][5].as_py())
    if plan.errored:
        pytest.skip("this fleet's policies forbid it")
    assert SNAPSHOT.brokers["broker"][5].as_py() in unload.answer(plan, preview)


def test_unload_remarks_are_grouped_and_the_many_are_counted():
    few = build_unload_plan(SNAPSHOT, ["a/b/1", "a/b/2"], now=NOON)
    assert [len(told) for told in applying.remarks(few).values()] == [2]
    many = build_unload_plan(SNAPSHOT, [f"a/b/{row}" for row in range(20)], now=NOON)
    assert list(applying.remarks(many)) == ["error"]
    assert len(applying.remarks(many)["error"]) == applying.MAX_REMARKS + 1
    assert applying.remarks(many)["error"][-1] == "14 similar steps."


@pytest.mark.parametrize("quantity", unload.QUANTITIES)
def test_before_and_after_of_every_quantity_covers_the_touched_brokers(quantity):
    _, preview = previewed(2)
    data = unload.before_after(preview, quantity)
    touched = [row["broker"] for row in preview.before_after.to_pylist() if row["is_touched"]]
    assert set(touched) <= set(data.brokers)
    assert (data.low <= data.after + 1e-9).all()
    assert (data.high >= data.after - 1e-9).all()


def test_every_broker_that_is_ruled_out_is_listed_by_name_with_the_reason():
    _, preview = previewed(1)
    placement = preview.steps[0].placement
    rows = unload.ruled_out_table(placement)
    assert rows["broker"].tolist() == by_name(placement.ruled_out)
    assert rows["why"].all()
    assert unload.ruled_out_note(placement).endswith(".")


def test_the_rules_that_exclude_brokers_are_named_in_plain_words_with_the_upstream_name():
    reasons = {"b1:1": "applyNamespacePolicies: primary of 'x'", "b2:1": "AvgShedder: no pair"}
    note = unload.ruled_out_note(SimpleNamespace(ruled_out=reasons))
    assert note == "1 by isolation policies (applyNamespacePolicies), 1 by AvgShedder."


# -- memo ------------------------------------------------------------------------------------------


def test_memo_computes_once_for_callers_at_the_same_time():
    calls = []
    barrier = Barrier(4)

    def compute(key):
        calls.append(key)
        return key * 2

    memo = cached(compute, max_entries=2)

    def ask():
        barrier.wait()
        assert memo(3) == 6

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [3]


def test_the_least_recently_used_result_is_dropped():
    calls = []
    memo = cached(lambda key: calls.append(key) or key, max_entries=2)
    for key in (1, 2, 1, 3, 1, 2):
        memo(key)
    assert calls == [1, 2, 3, 2]


def test_a_failed_computation_is_repeated():
    answers = iter([ValueError("no"), 5])

    def compute(_):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    memo = cached(compute, max_entries=2)
    with pytest.raises(ValueError, match="no"):
        memo("a")
    assert memo("a") == 5


def test_bundles_of_the_brokers_are_left_out_of_the_count_and_still_whole():
    tables = {
        **MANIFEST.tables,
        "bundles": replace(MANIFEST.tables["bundles"], rows=644, expected=644),
    }
    badge = freshness.coverage_badge(
        replace(MANIFEST, tables=tables), uncounted={"heartbeat/SLA": 12, "unassigned": 32}
    )
    assert "600 bundles" in badge.text
    assert "Bundles not counted: 12 heartbeat/SLA, 32 unassigned." in badge.help
