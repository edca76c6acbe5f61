"""What split checks take for a bundle's rates where no average is stored: one answer everywhere."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from fleet_builder import make_snapshot

from core.planning.advisors.bundle_reasons import (
    BundleAdvice,
    BundleLimits,
    Demand,
    advise_bundles,
    recommend,
)
from core.pulsar.settings import effective_settings
from core.pulsar.split import explain_split, find_bundles_to_split
from core.pulsar.split.watch import OverLimit, over_limit, split_watch
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from dashboard.app_pages.pulsar.advisors.model import bundles_figures

LONG = ("long_msg_rate_in", "long_msg_rate_out")
LONG_FLOW = ("long_msg_throughput_in", "long_msg_throughput_out")


def fleet(quota: dict[str, object] | None = None, **values: object) -> tuple[PulsarSnapshot, str]:
    """A fleet whose sixth bundle has no stored average, unless ``values`` has one."""
    plain = make_snapshot()
    name = plain.bundles["bundle"][5].as_py()
    snapshot = make_snapshot(topics_of=name)
    rows = snapshot.bundles.to_pylist()
    own = next(row for row in rows if row["bundle"] == name)
    own |= {key: None for key in own if key.startswith(("long_", "short_"))}
    own |= {"topic_count": 8, **values}
    tables = {
        **snapshot.tables,
        "bundles": pa.Table.from_pylist(rows, schema=snapshot.bundles.schema),
    }
    if quota is not None:
        body = {"kind": "resource_quota", "name": name, "body": json.dumps(quota)}
        schema = snapshot.policies.schema
        tables["policies"] = pa.Table.from_pylist([body], schema=schema)
    return PulsarSnapshot.build(snapshot.manifest, tables), name


def measured(snapshot: PulsarSnapshot, bundle: str, word: str) -> float | None:
    found = explain_split(snapshot, effective_settings(snapshot), bundle)
    (one,) = [item for item in found.conditions if item.name.endswith(word)]
    return one.measured


def row_of_watch(snapshot: PulsarSnapshot, bundle: str) -> dict[str, object]:
    table = split_watch(snapshot, effective_settings(snapshot), limit=snapshot.bundles.num_rows)
    return next(row for row in table.to_pylist() if row["bundle"] == bundle)


@pytest.mark.parametrize(
    ("quota", "values", "is_split"),
    [
        pytest.param(None, {"msg_rate_in": 40_000.0, "msg_rate_out": 0.0}, True, id="last rate"),
        pytest.param(None, {"msg_rate_in": 20_000.0, "msg_rate_out": 0.0}, False, id="small rate"),
        pytest.param(
            None, {"msg_throughput_in": 150e6, "msg_throughput_out": 0.0}, True, id="last flow"
        ),
        pytest.param(
            None,
            {"msg_rate_in": 40_000.0, "long_msg_rate_in": 10.0, "long_msg_rate_out": 10.0},
            False,
            id="a stored average wins",
        ),
        pytest.param(
            {"msgRateIn": 40_000.0},
            {"msg_rate_in": 1_000.0, "msg_rate_out": 1_000.0},
            True,
            id="quota of a rate",
        ),
        pytest.param(
            {"bandwidthIn": 150e6},
            {"msg_rate_in": 1_000.0, "msg_throughput_in": 1e6, "msg_throughput_out": 0.0},
            True,
            id="quota of a flow",
        ),
        pytest.param(
            {"msgRateIn": 10.0},
            {"msg_rate_in": 40_000.0, "msg_rate_out": 0.0, "msg_throughput_in": 1e6},
            False,
            id="a quota wins over the last rate",
        ),
    ],
)
def test_find_explain_and_watch_agree(quota, values, is_split):
    snapshot, bundle = fleet(quota, **values)
    settings = effective_settings(snapshot)
    chosen, _ = find_bundles_to_split(snapshot, settings)
    assert (bundle in {choice.bundle for choice in chosen}) is is_split
    assert explain_split(snapshot, settings, bundle).is_due is is_split
    ratio = row_of_watch(snapshot, bundle)["ratio"]
    assert isinstance(ratio, float)
    assert (ratio > 1) is is_split


def test_the_trigger_compares_what_the_leaders_view_holds():
    quota = {"msgRateIn": 40_000.0, "bandwidthIn": 5e6}
    snapshot, bundle = fleet(
        quota,
        msg_rate_in=1_000.0,
        msg_rate_out=1_000.0,
        msg_throughput_in=1e6,
        msg_throughput_out=1e6,
    )
    view = LoadView.of(snapshot, effective_settings(snapshot))
    expected = (999 * 40_000 + 2_000) / 1_000
    assert view.bundle_long_rate[view.bundle_row(bundle)] == pytest.approx(expected)
    assert measured(snapshot, bundle, "message rate") == pytest.approx(expected)
    assert row_of_watch(snapshot, bundle)["msg_rate"] == pytest.approx(expected)
    flow = (999 * 5e6 + 2e6) / 1_000
    assert measured(snapshot, bundle, "throughput") == pytest.approx(flow)
    assert row_of_watch(snapshot, bundle)["throughput"] == pytest.approx(flow)


def test_a_condition_names_what_its_number_is_made_of():
    names = {}
    for case, (quota, values) in {
        "quota": ({"msgRateIn": 5.0}, {}),
        "last": (None, {}),
        "stored": (None, dict.fromkeys((*LONG, *LONG_FLOW), 1.0)),
    }.items():
        snapshot, bundle = fleet(quota, **values)
        found = explain_split(snapshot, effective_settings(snapshot), bundle)
        names[case] = [item.name for item in found.conditions if item.name.endswith("rate")]
    assert names == {
        "quota": ["long-term (begun with its quota) message rate"],
        "last": ["last measured (its average is not stored) message rate"],
        "stored": ["long-term message rate"],
    }


def test_bundles_over_a_limit_are_counted_for_each_namespace():
    snapshot = make_snapshot(brokers=3, bundles=30)
    watch = split_watch(snapshot, effective_settings(snapshot), limit=100).to_pylist()
    highest = max(row["msg_rate"] for row in watch)
    namespace = next(row["namespace"] for row in watch if row["msg_rate"] == highest)
    limit = {"loadBalancerNamespaceBundleMaxMsgRate": int(highest) - 1}
    settings = effective_settings(snapshot, overrides=limit)
    others = {row["namespace"] for row in watch} - {namespace}
    hot = over_limit(snapshot, settings, namespace)
    assert hot.splittable or hot.single
    assert not len(over_limit(snapshot, settings, "no/such"))
    counts = [len(over_limit(snapshot, settings, name)) for name in (namespace, *others)]
    whole = split_watch(snapshot, settings, limit=100)["ratio"].to_pylist()
    assert sum(counts) == sum(ratio > 1 for ratio in whole)


def _advice() -> BundleAdvice:
    limits = BundleLimits.of(effective_settings(make_snapshot(brokers=3, bundles=30)))
    demand = Demand(brokers=3, topics=30, clients=30, msg_rate=10.0, bytes_per_s=10.0, within=0.2)
    return advise_bundles(demand, limits)


def test_bundles_that_exist_are_kept_because_pulsar_cannot_merge_them():
    advice = _advice()
    more = advice.bundles + 4
    kept = recommend(advice, present=more, over=OverLimit())
    assert (kept.action, kept.bundles) == ("keep", more)
    assert f"{advice.bundles} would be enough, but Pulsar cannot merge bundles" in kept.sentence
    same = recommend(advice, present=advice.bundles, over=OverLimit())
    assert (same.action, same.bundles) == ("keep", advice.bundles)
    assert "merge" not in same.sentence


def test_a_bundle_over_a_limit_is_split_and_the_others_are_kept():
    advice = _advice()
    present = advice.bundles + 4
    over = OverLimit(splittable=("t/n/0x0_0x1", "t/n/0x1_0x2"))
    split = recommend(advice, present=present, over=over)
    assert (split.action, split.bundles) == ("split", present + 2)
    assert split.sentence.startswith(f"Split 2 bundles over a limit, keep the other {present - 2}")
    figures = {
        one.label: one for one in bundles_figures(advice, split, present=present, over=len(over))
    }
    assert figures["Recommended"].value == f"{present + 2} bundles"
    assert figures["Recommended"].note == "2 more by splits"
    assert (figures["Current"].note, figures["Current"].status) == ("2 over a limit", "warning")
    assert figures["Required"].value == f"{advice.bundles} bundles"


def test_a_bundle_of_one_topic_needs_partitions_and_no_split():
    advice = _advice()
    alone = recommend(advice, present=advice.bundles, over=OverLimit(single=("t/n/0x0_0x1",)))
    assert (alone.action, alone.bundles) == ("keep", advice.bundles)
    assert "has one topic and cannot be split: add partitions" in alone.sentence


def test_too_few_bundles_are_added_those_over_a_limit_first():
    advice = _advice()
    few = recommend(advice, present=advice.bundles - 1, over=OverLimit(splittable=("t/n/0x0_0x1",)))
    assert (few.action, few.bundles) == ("add", advice.bundles)
    assert "1 more than now" in few.sentence
    assert "Split the 1 over a limit first." in few.sentence
    new = recommend(advice, present=0, over=OverLimit())
    assert (new.action, new.sentence) == ("create", advice.sentence)
