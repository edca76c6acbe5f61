"""What a split would do to a bundle of a fleet, and when the brokers do it by themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fleet_builder import make_snapshot

from core.errors import UnknownNameError
from core.plan.codec import load_plan
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.split import (
    ALGORITHMS,
    SplitState,
    SplitWhatIf,
    explain_split,
    find_bundles_to_split,
)
from core.pulsar.steps.split import SplitBundle
from core.snapshot import PulsarSnapshot
from core.snapshot.store import save_snapshot
from core.systems import STEPS
from dashboard.cli.main import run

BY_RANGE = "range_equally_divide"


def snapshot_with_topics() -> tuple[PulsarSnapshot, str]:
    names = make_snapshot().bundles["bundle"].to_pylist()
    return make_snapshot(topics_of=names[5]), names[5]


def edited(snapshot: PulsarSnapshot, table: str, rows: list[dict[str, object]]) -> PulsarSnapshot:
    changed = pa.Table.from_pylist(rows, schema=snapshot.tables[table].schema)
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, table: changed})


def bundle_edited(snapshot: PulsarSnapshot, bundle: str, **values: object) -> PulsarSnapshot:
    rows = [
        row | values if row["bundle"] == bundle else row for row in snapshot.bundles.to_pylist()
    ]
    return edited(snapshot, "bundles", rows)


def ask(snapshot: PulsarSnapshot, bundle: str, **options: object) -> SplitWhatIf:
    overrides = options.pop("overrides", None)
    settings = effective_settings(snapshot, overrides=overrides)  # type: ignore[arg-type]  # a test's own
    return explain_split(snapshot, settings, bundle, **options)  # type: ignore[arg-type]  # a test's own


@pytest.mark.parametrize("algorithm", ALGORITHMS[:3])
def test_parts_tile_the_range_and_keep_the_load(algorithm: str) -> None:
    snapshot, bundle = snapshot_with_topics()
    whole = ask(snapshot, bundle)
    middle = (whole.subject.lower + whole.subject.upper) // 2
    found = ask(snapshot, bundle, algorithm=algorithm, positions=[middle, middle + 9])
    assert found.parts[0].lower == whole.subject.lower
    assert found.parts[-1].upper == whole.subject.upper
    for part, following in zip(found.parts, found.parts[1:], strict=False):
        assert part.upper == following.lower
    assert sum(part.topic_count or 0 for part in found.parts) == 8
    total = pc.sum(snapshot.topics["msg_rate_in"]).as_py()
    total += pc.sum(snapshot.topics["msg_rate_out"]).as_py()
    assert sum(part.msg_rate or 0.0 for part in found.parts) == pytest.approx(total)


def test_without_topics_the_load_is_dealt_out_by_width_and_marked() -> None:
    snapshot = make_snapshot()
    found = ask(snapshot, snapshot.bundles["bundle"][5].as_py())
    assert [part.share for part in found.parts] == pytest.approx([0.5, 0.5], abs=1e-6)
    assert all(part.is_assumed for part in found.parts)
    assert any("assumed" in note for note in found.notes)
    assert found.verdict.code == "assumed"
    assert "Assumption: load is proportional to the hash range" in found.verdict.hint


def test_one_topic_with_most_of_the_load_makes_a_split_pointless() -> None:
    snapshot, bundle = snapshot_with_topics()
    rows = snapshot.topics.to_pylist()
    total = 1e6
    for index, row in enumerate(rows):
        row["msg_throughput_in"] = 0.70 * total if index == 2 else 0.30 * total / 7
        row["msg_throughput_out"] = 0.0
    found = ask(edited(snapshot, "topics", rows), bundle)
    assert found.verdict.code == "cannot_help"
    assert rows[2]["topic"] in found.verdict.sentence
    assert "70%" in found.verdict.sentence
    assert "partitions" in found.verdict.hint


def test_a_bundle_of_one_topic_never_splits_and_the_answer_says_so() -> None:
    snapshot, bundle = snapshot_with_topics()
    busy = bundle_edited(snapshot, bundle, topic_count=1, long_msg_rate_in=1e6)
    alone = edited(busy, "topics", snapshot.topics.to_pylist()[:1])
    found = ask(alone, bundle)
    assert found.verdict.code == "cannot_help"
    assert found.is_due is False
    assert "topics in the" in found.when
    chosen, _ = find_bundles_to_split(alone, effective_settings(alone))
    assert bundle not in {choice.bundle for choice in chosen}


@pytest.mark.parametrize(
    ("values", "overrides", "due"),
    [
        ({"topic_count": 1000}, {}, False),
        ({"topic_count": 1001}, {}, True),
        ({"producer_count": 900, "consumer_count": 101}, {}, True),
        (
            {"producer_count": 9000},
            {"loadBalancerNamespaceBundleMaxSessions": -1},
            False,
        ),
        ({"long_msg_rate_in": 30_000.0, "long_msg_rate_out": 0.0}, {}, False),
        ({"long_msg_rate_in": 30_000.5, "long_msg_rate_out": 0.0}, {}, True),
        ({"long_msg_throughput_in": 105e6}, {}, True),
        ({"long_msg_rate_in": 1e6}, {"loadBalancerAutoBundleSplitEnabled": False}, False),
        ({"long_msg_rate_in": 1e6}, {"loadBalancerNamespaceMaximumBundles": 69}, False),
        ({"long_msg_rate_in": 1e6}, {"loadBalancerNamespaceMaximumBundles": 70}, True),
        ({"long_msg_rate_in": 1e6, "topic_count": 1}, {}, False),
        ({"long_msg_rate_in": 1e6, "reported_by": None}, {}, False),
    ],
)
def test_the_leader_splits_by_these_limits(
    values: dict[str, object], overrides: dict[str, object], *, due: bool
) -> None:
    snapshot, bundle = snapshot_with_topics()
    changed = bundle_edited(snapshot, bundle, **values)
    found = ask(changed, bundle, overrides=overrides)
    assert found.is_due is due, found.when
    settings = effective_settings(changed, overrides=overrides)
    chosen, _ = find_bundles_to_split(changed, settings)
    assert (bundle in {choice.bundle for choice in chosen}) is due
    for item in found.conditions:
        if item.distance is not None and item.is_met is False:
            assert item.distance >= 0, item


def test_a_counterfactual_at_the_distance_turns_the_verdict() -> None:
    snapshot, bundle = snapshot_with_topics()
    first = ask(snapshot, bundle)
    gap = next(item for item in first.conditions if item.name == "topics")
    assert gap.is_met is False
    assert gap.measured is not None
    assert gap.distance is not None
    turned = bundle_edited(snapshot, bundle, topic_count=int(gap.measured + gap.distance) + 1)
    assert ask(turned, bundle).is_due is True


def as_extensible(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    manifest = replace(snapshot.manifest, load_manager="extensible")
    return PulsarSnapshot.build(manifest, snapshot.tables)


def test_the_extensible_manager_acts_on_the_fourth_hit_in_a_row() -> None:
    snapshot, bundle = snapshot_with_topics()
    busy = as_extensible(bundle_edited(snapshot, bundle, topic_count=2000))
    settings, state, rounds = effective_settings(busy), SplitState(), []
    for _ in range(5):
        chosen, state = find_bundles_to_split(busy, settings, state)
        rounds.append(bundle in {choice.bundle for choice in chosen})
    assert rounds == [False, False, False, True, False]


def test_a_calm_check_in_between_begins_the_count_anew() -> None:
    snapshot, bundle = snapshot_with_topics()
    calm, busy = (
        as_extensible(bundle_edited(snapshot, bundle, topic_count=count)) for count in (5, 2000)
    )
    state = SplitState()
    found = []
    for taken in (busy, busy, busy, calm, busy, busy, busy, busy):
        chosen, state = find_bundles_to_split(taken, effective_settings(taken), state)
        found.append(bundle in {choice.bundle for choice in chosen})
    assert found == [False] * 7 + [True]


def test_the_extensible_manager_waits_for_a_split_beside_it() -> None:
    snapshot, bundle = snapshot_with_topics()
    busy = as_extensible(bundle_edited(snapshot, bundle, topic_count=2000))
    settings, state = effective_settings(busy), SplitState({bundle: 9})
    lower = bundle.rpartition("/")[2].partition("_")[0]
    beside = f"{bundle.rpartition('/')[0]}/{lower}_0xffffffff"
    assert find_bundles_to_split(busy, settings, state, busy=[beside])[0] == ()
    chosen, _ = find_bundles_to_split(busy, settings, state)
    assert [choice.bundle for choice in chosen] == [bundle]


def test_the_flow_algorithm_is_refused_unless_it_is_the_default() -> None:
    snapshot, bundle = snapshot_with_topics()
    flow = "flow_or_qps_equally_divide"
    assert ask(snapshot, bundle, algorithm=flow).verdict.code == "refused"
    own = ask(snapshot, bundle, overrides={"defaultNamespaceBundleSplitAlgorithm": flow})
    assert (own.algorithm, own.verdict.code) == (flow, "no_change")


def test_a_refused_algorithm_without_positions_offers_none_and_costs_nothing_known() -> None:
    snapshot = make_snapshot()
    bundle = snapshot.bundles["bundle"][5].as_py()
    found = ask(snapshot, bundle, algorithm="flow_or_qps_equally_divide")
    assert found.verdict.code == "refused"
    assert "positions" not in found.verdict.hint
    assert (found.cost.bundles_after, found.cost.znodes_added) == (None, None)
    assert "depends on topics" in found.cost.sentence


def test_a_bundle_that_stays_whole_costs_nothing() -> None:
    snapshot, bundle = snapshot_with_topics()
    own = {"defaultNamespaceBundleSplitAlgorithm": "flow_or_qps_equally_divide"}
    cost = ask(snapshot, bundle, overrides=own).cost
    assert (cost.bundles_after, cost.znodes_added) == (cost.bundles_before, 0)
    assert "stays at" in cost.sentence
    assert "merged" not in cost.sentence


@pytest.mark.parametrize("is_extensible", [False, True], ids=["modular", "extensible"])
@pytest.mark.parametrize(
    ("default", "read", "due", "said"),
    [
        ("range_equally_divide", True, True, "splits it"),
        ("topic_count_equally_divide", True, True, "splits it"),
        ("topic_count_equally_divide", False, None, "the topics were not read"),
        ("specified_positions_divide", True, False, "needs positions"),
        ("specified_positions_divide", False, False, "needs positions"),
        ("flow_or_qps_equally_divide", True, False, "within the limits"),
        ("flow_or_qps_equally_divide", False, None, "the topics were not read"),
    ],
)
def test_whether_an_automatic_split_comes_hangs_on_what_the_default_algorithm_yields(
    default: str, said: str, *, read: bool, due: bool | None, is_extensible: bool
) -> None:
    snapshot, bundle = snapshot_with_topics()
    taken = bundle_edited(snapshot, bundle, topic_count=2000)
    taken = taken if read else edited(taken, "topics", [])
    taken = as_extensible(taken) if is_extensible else taken
    own = {"defaultNamespaceBundleSplitAlgorithm": default}
    found = ask(taken, bundle, overrides=own)
    assert found.is_due is due, found.when
    assert said in found.when


def test_a_calm_bundle_is_not_told_about_the_algorithm_that_nobody_asks() -> None:
    snapshot, bundle = snapshot_with_topics()
    own = {"defaultNamespaceBundleSplitAlgorithm": "specified_positions_divide"}
    found = ask(snapshot, bundle, overrides=own)
    assert found.is_due is False
    assert "no limit is exceeded" in found.when


def test_a_limit_that_is_just_met_does_not_read_like_one_that_is_exceeded() -> None:
    snapshot, bundle = snapshot_with_topics()
    rates = {"long_msg_rate_in": 30_000.0, "long_msg_rate_out": 0.0}
    met = ask(bundle_edited(snapshot, bundle, **rates), bundle)
    assert any("30k msg/s" in item.sentence for item in met.conditions)
    near = ask(bundle_edited(snapshot, bundle, **(rates | {"long_msg_rate_out": 9.0})), bundle)
    assert any("9 msg/s" in item.sentence for item in near.conditions)


def test_an_unknown_bundle_offers_near_names() -> None:
    snapshot, bundle = snapshot_with_topics()
    with pytest.raises(UnknownNameError, match="Did you mean"):
        ask(snapshot, bundle[:-1] + "0")


def test_the_command_prints_one_object_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot, bundle = snapshot_with_topics()
    save_snapshot(snapshot, tmp_path / "s")
    common = ["split", str(tmp_path / "s"), "--bundle", bundle]
    assert run([*common, "--algorithm", "topic_count_equally_divide", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert list(body) == [
        *("bundle", "owner", "algorithm", "positions", "parts", "verdict", "automatic"),
        *("conditions", "cost", "notes", "elapsed_ms"),
    ]
    assert len(body["parts"]) == len(body["positions"]) + 1
    assert run(common) == 0
    assert "cannot be merged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--algorithm", "halves"], "split algorithm"),
        (["--algorithm", "specified_positions_divide"], "needs --positions"),
        (["--positions", "0x20000000"], "the cluster's algorithm computes its positions"),
        (
            ["--algorithm", BY_RANGE, "--positions", "9"],
            f"--algorithm {BY_RANGE} computes its positions",
        ),
        (["--positions", "abc"], "not a number"),
        (["--positions", "0x1ffffffff"], "outside the hash range"),
    ],
)
def test_the_command_says_what_is_wrong_with_its_options(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot, bundle = snapshot_with_topics()
    save_snapshot(snapshot, tmp_path / "s")
    assert run(["split", str(tmp_path / "s"), "--bundle", bundle, *options, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert said in error["message"]
    assert error["hint"]


def test_the_command_writes_a_plan_or_says_why_it_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot, bundle = snapshot_with_topics()
    save_snapshot(snapshot, tmp_path / "s")
    out = tmp_path / "p.json"
    common = ["split", str(tmp_path / "s"), "--bundle", bundle, "--plan", str(out), "--json"]
    assert run([*common, "--algorithm", "topic_count_equally_divide", "--unload"]) == 0
    body = json.loads(capsys.readouterr().out)
    (step,) = load_plan(out, STEPS).steps
    assert isinstance(step, SplitBundle)
    assert (step.bundle, step.is_unloaded) == (bundle, True)
    assert list(step.boundaries) == body["positions"]
    out.unlink()
    assert run([*common, "--algorithm", "specified_positions_divide", "--positions", "7"]) == 1
    assert "error" in json.loads(capsys.readouterr().out)
    assert not out.exists()


@pytest.mark.parametrize("default", ["bogus", "specified_positions_divide"])
def test_a_default_that_cannot_be_asked_is_answered_by_range(default: str) -> None:
    snapshot, bundle = snapshot_with_topics()
    assumed = {"defaultNamespaceBundleSplitAlgorithm": default}
    answer = explain_split(snapshot, effective_settings(snapshot, overrides=assumed), bundle)
    assert answer.algorithm == "range_equally_divide"
    assert answer.positions


@pytest.mark.parametrize(
    ("release", "least"),
    [
        *[("2.8.4", 1), ("2.10.4", 1), ("2.10.5", 2), ("2.11.1", 1)],
        *[("2.11.4", 2), ("3.0.0", 1), ("3.0.7", 2), ("4.2.4", 2)],
    ],
)
def test_the_release_decides_whether_splits_need_a_second_broker(release: str, least: int) -> None:
    snapshot = make_snapshot()
    name = snapshot.bundles["bundle"][5].as_py()
    holder = snapshot.bundles["reported_by"][5].as_py()
    alone = [row for row in snapshot.brokers.to_pylist() if row["broker"] == holder]
    one = bundle_edited(edited(snapshot, "brokers", alone), name, topic_count=5_000)
    settings = EffectiveSettings.defaults(release)
    chosen, _ = find_bundles_to_split(one, settings)
    assert (name in {choice.bundle for choice in chosen}) is (least == 1)
    condition = next(
        item for item in explain_split(one, settings, name).conditions if item.name == "brokers"
    )
    assert condition.is_met is (least == 1)
