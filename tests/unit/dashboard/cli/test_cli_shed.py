"""``trimtab shed``: the worked answers of the contract, its files, its refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from places import FIXTURES
from shedding_world import MB, Broker, Bundle, World

from core.plan.codec import load_plan
from core.pulsar.shedding import SHEDDING_STRATEGY_NAMES
from core.snapshot.store import save_snapshot
from core.systems import STEPS
from dashboard.cli.main import run

DUMP = FIXTURES / "contracts" / "three-brokers.jsonl"
BUSY = "10.1.0.1:8080"
FIRST, SECOND, THIRD = (
    f"acme/orders/{span}"
    for span in ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000")
)

Trimtab = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trimtab(capsys: pytest.CaptureFixture[str]) -> Trimtab:
    def call(*words: object) -> tuple[int, str, str]:
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("three") / "snapshot"
    assert run(["import-zk", str(DUMP), "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def recent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recent") / "r.json"
    path.write_text(json.dumps([SECOND]))
    return path


@pytest.mark.parametrize(
    ("words", "rounds"),
    [
        (("ThresholdShedder", "--rounds", 2), [{BUSY: [FIRST]}, {BUSY: [FIRST]}]),
        (("ThresholdShedder", "--set", "loadBalancerBrokerThresholdShedderPercentage=40"), [{}]),
        (
            ("OverloadShedder", "--set", "loadBalancerBrokerOverloadedThresholdPercentage=80"),
            [{BUSY: [FIRST]}],
        ),
        (("UniformLoadShedder",), [{BUSY: [THIRD]}]),
    ],
)
def test_the_strategy_alone_gives_the_worked_answers_of_the_contract(
    trimtab: Trimtab, three: Path, recent: Path, words: tuple[object, ...], rounds: list[Any]
) -> None:
    code, out, err = trimtab(
        *("shed", three, "--strategy", *words, "--strategy-only"),
        *("--recently-unloaded", recent, "--json"),
    )
    body = json.loads(out)
    assert (code, err) == (0, "")
    assert body["rounds"] == rounds
    assert len(body["elapsed_ms"]) == len(rounds)
    assert all(lasted >= 0 for lasted in body["elapsed_ms"])
    assert "destinations" not in body
    assert len(body["explain"]["rounds"]) == len(rounds)


def test_with_the_load_manager_destinations_and_skipped_come_along(
    trimtab: Trimtab, three: Path, recent: Path
) -> None:
    code, out, _ = trimtab(
        *("shed", three, "--strategy", "ThresholdShedder", "--rounds", 3),
        *("--recently-unloaded", recent, "--json"),
    )
    body = json.loads(out)
    assert code == 0
    assert body["rounds"] == [{BUSY: [FIRST]}, {BUSY: [THIRD]}, {}]
    assert body["destinations"][0] == {FIRST: {"10.1.0.3:8080": 1.0}}
    assert body["skipped"] == [{}, {}, {}]


def test_without_a_name_the_strategy_in_force_is_asked(trimtab: Trimtab, three: Path) -> None:
    for line, name in (("4.2", "ThresholdShedder"), ("5.0", "AvgShedder")):
        _, out, _ = trimtab("shed", three, "--release", line, "--json")
        explained = json.loads(out)["explain"]
        assert (explained["strategy"], explained["release"]) == (name, line)


def test_every_no_of_the_explanation_has_its_distance(trimtab: Trimtab, three: Path) -> None:
    _, out, _ = trimtab("shed", three, "--strategy", "ThresholdShedder", "--json")
    (done,) = json.loads(out)["explain"]["rounds"]
    by_broker = {entry["broker"]: entry for entry in done["brokers"]}
    gate = by_broker["10.1.0.2:8080"]["gates"][-1]
    assert gate["is_open"] is False
    assert gate["distance"] == pytest.approx(gate["threshold"] - gate["measured"])
    assert gate["distance"] > 0


def test_what_would_turn_the_verdict_is_told_and_true(trimtab: Trimtab, three: Path) -> None:
    ask = ("shed", three, "--strategy", "OverloadShedder", "--json")
    _, out, _ = trimtab(*ask)
    points = json.loads(out)["explain"]["turning_points"]
    assert {(point["broker"], point["sheds"]) for point in points} == {
        (BUSY, False),
        ("10.1.0.2:8080", True),
    }
    for point in points:
        _, out, _ = trimtab(*ask, "--set", f"{point['key']}={json.dumps(point['needed'])}")
        assert (point["broker"] in json.loads(out)["rounds"][0]) is point["sheds"]


def test_people_read_the_verdict_first_and_then_each_broker(trimtab: Trimtab, three: Path) -> None:
    code, out, _ = trimtab("shed", three, "--strategy", "ThresholdShedder")
    assert code == 0
    assert out.startswith(
        "ThresholdShedder unloads 1 bundle from 1 broker over the threshold of 57.5%"
    )
    assert "100% 10.1.0.3:8080" in out
    assert "usage 37.5% is 20.0 points below 57.5%" in out


def test_a_plan_of_the_first_round_can_be_written(
    trimtab: Trimtab, three: Path, tmp_path: Path
) -> None:
    path = tmp_path / "shed.plan"
    code, out, _ = trimtab(
        "shed", three, "--strategy", "ThresholdShedder", "--rounds", 2, "--plan", path, "--json"
    )
    body = json.loads(out)
    plan = load_plan(path, STEPS)
    assert code == 0
    assert body["path"] == str(path)
    assert [step.bundle for step in plan.steps] == [FIRST]
    assert "ThresholdShedder" in plan.reason


def test_a_plan_of_avg_shedder_keeps_the_destinations_it_planned(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    bundles = [Bundle(4 * MB, 4_000)] * 20
    world = World({"a": Broker(95, bundles), "b": Broker(5), "c": Broker(50)})
    directory = tmp_path / "snapshot"
    save_snapshot(world.snapshot(), directory)
    path = tmp_path / "shed.plan"
    ask = ("shed", directory, "--strategy", "AvgShedder", "--plan", path, "--json")
    acts = ("--set", "loadBalancerAvgShedderHitCountHighThreshold=1")
    pair = ("--set", 'loadBalancerLoadPlacementStrategy="AvgShedder"')
    for options, destinations in (((*acts, *pair), {"b:8080"}), (acts, {None})):
        code, _, err = trimtab(*ask, *options)
        assert (code, err) == (0, "")
        assert {step.destination for step in load_plan(path, STEPS).steps} == destinations


def test_where_nothing_would_be_unloaded_there_is_no_plan(
    trimtab: Trimtab, three: Path, tmp_path: Path
) -> None:
    path = tmp_path / "shed.plan"
    code, out, _ = trimtab(
        *("shed", three, "--strategy", "OverloadShedder", "--plan", path, "--json"),
        *("--set", "loadBalancerBrokerOverloadedThresholdPercentage=99"),
    )
    assert code == 0
    assert json.loads(out)["plan"] is None
    assert not path.exists()


def test_where_shedding_is_off_the_options_that_show_more_are_named(
    trimtab: Trimtab, three: Path
) -> None:
    off = ("--set", "loadBalancerSheddingEnabled=false")
    _, out, _ = trimtab("shed", three, *off)
    assert "add `--set loadBalancerSheddingEnabled=true`" in out
    _, out, _ = trimtab("shed", three, *off, "--strategy-only")
    assert "Add `" not in out


@pytest.mark.parametrize("strategy", SHEDDING_STRATEGY_NAMES)
def test_every_strategy_answers_in_json(trimtab: Trimtab, three: Path, strategy: str) -> None:
    code, out, _ = trimtab("shed", three, "--strategy", strategy, "--json")
    assert code == 0
    assert json.loads(out)["explain"]["strategy"] == strategy


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--strategy", "Treshold"), "No shedding strategy named 'Treshold'"),
        (("--set", "loadBalancerBrokerThresholdShedderPercentag=1"), "Did you mean"),
        (("--rounds", "0"), "--rounds"),
        (("--release", "6.0"), "Release line '6.0' does not exist"),
        (("--recently-unloaded", "absent.json"), "absent.json cannot be read"),
    ],
)
def test_bad_usage_is_refused_with_the_remedy(
    trimtab: Trimtab, three: Path, words: tuple[str, ...], said: str
) -> None:
    code, out, err = trimtab("shed", three, *words)
    assert code == 2
    assert out == ""
    assert said in err


@pytest.mark.parametrize(
    "command",
    [
        ("shed",),
        ("shed", "--strategy-only"),
        ("simulate", "--rounds", "1"),
        ("explain",),
        ("optimize",),
    ],
    ids=" ".join,
)
def test_recent_bundles_that_are_not_there_are_named_and_left_out(
    trimtab: Trimtab, three: Path, tmp_path: Path, command: tuple[object, ...]
) -> None:
    path = tmp_path / "recent.json"
    path.write_text(json.dumps([SECOND, "acme/gone/0x00000000_0xffffffff"]))
    name, *words = command
    code, out, err = trimtab(name, three, *words, "--recently-unloaded", path, "--json")
    assert code == 0
    (warning,) = json.loads(out)["warnings"]
    assert "acme/gone/0x00000000_0xffffffff" in warning
    assert SECOND not in warning
    assert warning in err


@pytest.mark.parametrize("content", ["{}", "[1]", "not json"])
def test_a_file_of_recent_bundles_that_is_no_list_is_refused(
    trimtab: Trimtab, three: Path, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "recent.json"
    path.write_text(content)
    code, _, err = trimtab("shed", three, "--recently-unloaded", path)
    assert code == 2
    assert "JSON list" in err


AVG = 'loadBalancerLoadPlacementStrategy="AvgShedder"'


@pytest.mark.parametrize(
    ("words", "placement", "warned"),
    [
        (("ThresholdShedder",), "LeastLongTermMessageRate", ""),
        (("AvgShedder",), "LeastLongTermMessageRate", "Its plan is not used"),
        (("AvgShedder", "--set", AVG), "AvgShedder", ""),
        (("ThresholdShedder", "--set", AVG), "LeastLongTermMessageRate", "of 4.2 does not start"),
        (
            ("ThresholdShedder", "--release", "5.0"),
            "LeastLongTermMessageRate",
            "A broker of 5.0 then places by LeastLongTermMessageRate",
        ),
    ],
)
def test_who_places_is_named_and_half_a_pair_is_warned_of(
    trimtab: Trimtab, three: Path, words: tuple[str, ...], placement: str, warned: str
) -> None:
    ask = ("shed", three, "--strategy", *words)
    body = json.loads(trimtab(*ask, "--json")[1])
    assert body["placement"] == placement
    assert [warned in text for text in body.get("warnings", [])] == ([True] if warned else [])
    _, out, _ = trimtab(*ask)
    assert f"Placement: {placement}." in out
    assert ("Warning: Bundles" in out) is bool(warned)
    alone = json.loads(trimtab(*ask, "--strategy-only", "--json")[1])
    assert {"placement", "warnings"}.isdisjoint(alone)


def test_a_strategy_that_is_named_beats_the_setting_of_the_same(
    trimtab: Trimtab, three: Path
) -> None:
    both = ("--set", AVG, "--set", 'loadBalancerLoadSheddingStrategy="AvgShedder"')
    _, out, _ = trimtab("shed", three, "--strategy", "ThresholdShedder", *both, "--json")
    body = json.loads(out)
    assert body["placement"] == "LeastLongTermMessageRate"
    assert "4.2 does not" in body["warnings"][0]
    code, out, _ = trimtab("simulate", three, "--shed", "ThresholdShedder", *both, "--json")
    assert code == 1
    assert "broker of 4.2" in json.loads(out)["error"]["message"]
    later = ("--release", "5.0", "--rounds", 1, "--json")
    _, out, _ = trimtab("simulate", three, "--shed", "ThresholdShedder", *both, *later)
    body = json.loads(out)
    assert (body["shedding"], body["placement"]) == ("ThresholdShedder", "LeastLongTermMessageRate")
    assert any("places by LeastLongTermMessageRate" in note for note in body["notes"])


def test_a_named_shedder_is_tried_out_as_the_one_in_force(trimtab: Trimtab, three: Path) -> None:
    ask = ("shed", three, "--strategy", "ThresholdShedder", "--json")
    plain = json.loads(trimtab(*ask)[1])
    pair = ("--set", AVG, "--set", 'loadBalancerLoadSheddingStrategy="AvgShedder"')
    other = json.loads(trimtab(*ask, *pair)[1])
    assert other["destinations"] == plain["destinations"]
    turned, plainly = (
        [
            (point["key"], point["needed"], point["sheds"])
            for point in body["explain"]["turning_points"]
        ]
        for body in (other, plain)
    )
    assert turned == plainly


def test_a_usage_that_cannot_be_true_is_named_before_bundles_are_unloaded_for_it(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    dump = DUMP.parents[1] / "reports" / "serving" / "i17815.jsonl"
    assert trimtab("import-zk", dump, "--out", tmp_path / "s")[0] == 0
    code, out, _ = trimtab("shed", tmp_path / "s", "--json")
    (warning,) = json.loads(out)["warnings"]
    assert code == 0
    assert warning.startswith("The CPU usage of b-0:8080 and 3 more brokers is implausible")


def test_a_dump_without_impossible_usage_has_no_such_warning(trimtab: Trimtab, three: Path) -> None:
    assert "is implausible" not in trimtab("shed", three, "--strategy", "ThresholdShedder")[1]
