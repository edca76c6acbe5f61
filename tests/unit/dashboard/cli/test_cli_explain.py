"""``trimtab explain``: a broker, a bundle, the cluster; one object, and errors in words."""

from __future__ import annotations

import json

import pytest
from places import FIXTURES

from dashboard.cli.main import run

DUMP = FIXTURES / "contracts" / "three-brokers.jsonl"
BUSY = "10.1.0.1:8080"
FIRST, SECOND = (
    f"acme/orders/{span}" for span in ("0x00000000_0x40000000", "0x40000000_0x80000000")
)
KEYS = {"strategy", "release", "off", "sentence", "notes", "elapsed_ms"} | {
    "predicted_from",
    "predicted_from_sentence",
    "predicted_round",
}


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    out = tmp_path_factory.mktemp("three") / "snapshot"
    assert run(["import-zk", str(DUMP), "--out", str(out)]) == 0
    return str(out)


@pytest.fixture
def explain(three, capsys):
    def call(*words):
        code = run(["explain", three, *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out

    return call


def test_broker_is_told_with_its_gates_and_what_would_turn_them(explain):
    code, out = explain("--broker", BUSY, "--json")
    body = json.loads(out)
    assert code == 0
    assert set(body) == KEYS | {"broker"}
    told = body["broker"]
    assert told["sheds"]
    assert all(gate["is_open"] for gate in told["gates"])
    assert {point["key"] for point in told["turning_points"]} >= {
        "loadBalancerBrokerThresholdShedderPercentage"
    }


def test_bundle_in_its_grace_period_is_told_to_rest(explain, tmp_path):
    recent = tmp_path / "recent.json"
    recent.write_text(json.dumps([SECOND]))
    code, out = explain("--bundle", SECOND, "--recently-unloaded", recent, "--json")
    told = json.loads(out)["bundle"]
    assert code == 0
    assert not told["leaves"]
    assert told["conditions"][-1]["name"] == "rested"


def test_picked_bundle_is_told_where_it_goes(explain, tmp_path):
    recent = tmp_path / "recent.json"
    recent.write_text(json.dumps([SECOND]))
    _, out = explain("--bundle", FIRST, "--recently-unloaded", recent, "--json")
    told = json.loads(out)["bundle"]
    assert told["leaves"]
    assert sum(told["destinations"].values()) == pytest.approx(1.0)


def test_cluster_is_told_with_every_broker_and_what_does_not_fit(explain):
    code, out = explain("--json")
    body = json.loads(out)
    assert code == 0
    assert set(body) == KEYS | {"brokers", "combinations"}
    assert len(body["brokers"]) == 3
    assert "measures_differ" in {item["code"] for item in body["combinations"]}


@pytest.mark.parametrize("words", [(), ("--broker", BUSY), ("--bundle", FIRST)])
def test_people_read_it_too(explain, words):
    code, out = explain(*words)
    assert code == 0
    assert "10.1.0.1:8080" in out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--broker", "10.1.0.9:8080"), 1),
        (("--bundle", "acme/orders/0x00000000_0x00000001"), 1),
        (("--broker", BUSY, "--bundle", FIRST), 2),
        (("--set", "loadBalancerShedding=true"), 2),
    ],
)
def test_refusals_say_what_is_wrong(explain, words, code):
    found, out = explain(*words, "--json")
    assert found == code
    assert json.loads(out)["error"]["message"]
