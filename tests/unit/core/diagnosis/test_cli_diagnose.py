"""``trimtab diagnose`` about one object: its answer, and what is refused with which remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pegasus_diagnosis import LIVELY, cluster, even_parts, node_names
from report_cluster import all_reports

from core.diagnosis.model import Cause, Diagnosis, Effect, Outcome
from core.findings.finding import Fix
from core.operations import diagnose
from core.snapshot.store import save_snapshot
from dashboard.cli.main import run

NODES = node_names(5)
MAX_LINES = 15


@pytest.fixture(scope="module")
def pegasus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnose") / "peg"
    save_snapshot(cluster(even_parts(1, 40, NODES[:4]), settings=LIVELY), folder)
    return folder


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnose") / "pulsar"
    report = next(one for one in all_reports("pulsar") if one.name == "23549")
    save_snapshot(report.snapshot(), folder)
    return folder


def answer_of(capsys, *words: str) -> str:
    assert run(["diagnose", *words, "--seconds", "1"]) == 0
    return capsys.readouterr().out


def refusal_of(capsys, code: int, *words: str) -> tuple[str, str]:
    assert run(["diagnose", *words, "--json"]) == code
    error = json.loads(capsys.readouterr().out)["error"]
    return error["message"], error["hint"]


def test_a_node_is_answered(pegasus, capsys):
    assert NODES[4] in answer_of(capsys, str(pegasus), "--node", NODES[4])


def test_a_partition_is_answered(pegasus, capsys):
    assert "1.3 is on" in answer_of(capsys, str(pegasus), "--node", "1.3")


def test_a_broker_is_answered_with_resource_weight_and_value(pulsar, capsys):
    said = answer_of(capsys, str(pulsar), "--broker", "b-0:8080")
    assert "b-0:8080" in said
    assert "CPU, weight 1" in said


def test_a_bundle_is_answered(pulsar, capsys):
    said = answer_of(capsys, str(pulsar), "--bundle", "t/orders/0x00000000_0x0b21642c")
    assert "loadBalancerSheddingExcludedNamespaces" in said


@pytest.mark.parametrize(
    ("option", "name", "near"),
    [("--node", "1.40", "1.39"), ("--node", "9.0", "1.0"), ("--node", NODES[0] + "9", NODES[0])],
)
def test_an_unknown_name_of_pegasus_comes_with_near_ones(pegasus, capsys, option, name, near):
    message, hint = refusal_of(capsys, 1, str(pegasus), option, name)
    assert name in message
    assert near in hint


@pytest.mark.parametrize(
    ("option", "name", "near"),
    [
        ("--broker", "b-0:8088", "b-0:8080"),
        ("--bundle", "t/orders/0x00000000_0x0b21642d", "t/orders/0x00000000_0x0b21642c"),
    ],
)
def test_an_unknown_name_of_pulsar_comes_with_near_ones(pulsar, capsys, option, name, near):
    message, hint = refusal_of(capsys, 1, str(pulsar), option, name)
    assert name in message
    assert near in hint


def test_an_option_of_the_other_system_names_the_right_one(pegasus, pulsar, capsys):
    message, hint = refusal_of(capsys, 1, str(pegasus), "--broker", "b:1")
    assert "--broker is for Pulsar" in message
    assert "--node" in hint
    message, hint = refusal_of(capsys, 1, str(pulsar), "--node", NODES[0])
    assert "--node is for Pegasus" in message
    assert "--broker" in hint


def test_several_objects_are_bad_usage(pulsar, capsys):
    message, hint = refusal_of(capsys, 2, str(pulsar), "--broker", "a:1", "--bundle", "t/n/0x0_0x1")
    assert "--broker a:1" in message
    assert "--bundle t/n/0x0_0x1" in message
    assert "one of" in hint


def test_what_qualifies_a_cause_is_printed(tmp_path, capsys, monkeypatch):
    effect = Effect(
        before=Outcome(moves=0, returned=0, deviation=1.0, converges=True, rounds=0),
        after=Outcome(moves=3, returned=0, deviation=0.1, converges=True, rounds=1),
    )
    cause = Cause(code="setting", summary="A cause.", effect=effect, hint="Set it.")
    found = Diagnosis(
        causes=(cause,) * 6,
        problem="Uneven.",
        tried=3,
        untried=2,
        notes=("Judged.", "Late.", "Cut."),
    )
    monkeypatch.setattr(diagnose, "diagnose", lambda *_, **__: found)
    folder = str(report_folder("21174", tmp_path))
    assert run(["diagnose", folder]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith("A cause.")] == [
        f"{number}. A cause." for number in range(1, 7)
    ]
    assert lines[-4:] == ["3 changes simulated.", "Judged.", "Late.", "Cut."]


def test_commands_and_lines_of_a_file_are_alone_in_their_line():
    fix = Fix(wanted={}, lines=("a=1", "b=2"), restart=True)
    commands = "trimtab set c x=1 --plan plan.json\ntrimtab set c y=2 --plan plan.json"
    assert diagnose.fix_lines("Fix", fix, commands) == [
        "Fix:",
        "  trimtab set c x=1 --plan plan.json",
        "  trimtab set c y=2 --plan plan.json",
        "  broker.conf: a=1",
        "  broker.conf: b=2",
        "  then a rolling restart",
    ]
    assert diagnose.fix_lines("Fix", Fix(), "", "Add a broker.") == ["Fix: Add a broker."]


def report_folder(name: str, folder: Path) -> Path:
    report = next(one for one in all_reports("pulsar") if one.name == name)
    save_snapshot(report.snapshot(), folder / name)
    return folder / name


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("13340", "1. edge-0:8080 usage 74% is 11.0 points below 85% (74% CPU, weight 1); "),
        ("10143", "1. 2 bundles for 3 brokers: 1 broker without load."),
        ("19310", "usage of pulsar-2.pulsar-broker:8080 2% is 4.7 points above -2.7%; "),
        ("20822", "no shed bundle leaves its broker, and the deviation ends at 80%."),
        ("21168", "82% direct memory (weight 1), which does not follow traffic; CPU 15%, "),
        ("21174", "throughput, LeastLongTermMessageRate places by long-term message rate."),
        ("16476", "converges immediately (now: never)"),
        (
            "14820",
            "     broker.conf: loadBalancerOverrideBrokerNicSpeedGbps=4.5\n     then a rolling",
        ),
    ],
)
def test_sentences_name_what_was_measured(name, sentence, tmp_path, capsys):
    assert run(["diagnose", str(report_folder(name, tmp_path)), "--seconds", "30"]) == 0
    said = capsys.readouterr().out
    assert sentence in said
