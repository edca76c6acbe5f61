"""``trimtab tenants`` and ``trimtab quota`` on a snapshot and over time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from limited_fleet import ORDERS, limited

from core.snapshot.store import save_snapshot
from dashboard.cli.main import run


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits") / "snapshot"
    gold = ("resource_group", "gold", {"publishRateInMsgs": 1000})
    save_snapshot(limited([gold], {ORDERS: "gold"}), folder)
    return folder


def _json(capsys, *arguments: object) -> tuple[int, dict]:
    code = run([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_tenants_are_told_with_their_limits(capsys, snapshot):
    code, body = _json(capsys, "tenants", snapshot)
    assert code == 0
    assert sum(one["share"] for one in body["tenants"]) == pytest.approx(1)
    acme = next(one for one in body["tenants"] if one["tenant"] == "acme")
    assert acme["groups"] == ["gold"]
    assert acme["limits"]["publish_msgs"]["limit"] is None
    assert ORDERS not in acme["limits"]["publish_msgs"]["unlimited"]
    assert run(["tenants", str(snapshot)]) == 0
    assert "acme" in capsys.readouterr().out


def test_a_groups_limit_is_shared_out_by_its_live_use(capsys, snapshot):
    code, body = _json(capsys, "quota", "--snapshot", snapshot, "--group", "gold")
    assert code == 0
    assert body["limit"] == 1000
    assert body["namespaces"] == [ORDERS]
    assert body["is_enforced"] is False
    used = [one["used"] for one in body["brokers"]]
    for one in body["brokers"]:
        assert one["upstream"] == pytest.approx(max(1000 * one["used"] / sum(used), 1), abs=1)
    assert run(["quota", "--snapshot", str(snapshot), "--group", "gold"]) == 0
    assert "resourceUsageTransportClassName" in capsys.readouterr().out


def test_demand_is_played_over_time(capsys):
    code, body = _json(capsys, "quota", "--limit", 100, "--steps", "1:10,50,30; 2:80,50,30")
    assert code == 0
    assert body["periods"][0]["share"] == [11, 55, 33]
    assert body["periods"][1]["used"] == [11, 50, 30]
    assert run(["quota", "--limit", "100", "--steps", "2:10,50,30"]) == 0
    assert "throttled" in capsys.readouterr().out
    _, free = _json(capsys, "quota", "--limit=-1", "--steps", "2:10,50")
    assert free["periods"][1]["share"] == [None, None]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("quota --snapshot SNAPSHOT --group gould", 1, "Did you mean gold?"),
        ("quota --snapshot SNAPSHOT", 2, "must be used together"),
        ("quota --snapshot SNAPSHOT --group gold --limit 5", 2, "must be used together"),
        ("quota --snapshot SNAPSHOT --group gold --of publish", 2, "publish_msgs"),
        ("quota --limit 5", 2, "--usage"),
        ("quota --steps 1:2", 2, "--limit"),
        ("quota --limit 5.5 --steps 1:2", 1, "whole number"),
        ("quota --limit 5 --steps 1:-2", 1, "of 0 or more"),
        ("quota --limit nan --steps 1:2", 2, "not a finite number"),
        ("quota --limit 5 --steps 1:2 --period 0", 1, "whole seconds"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(capsys, snapshot, arguments, code, words):
    found, body = _json(capsys, *arguments.replace("SNAPSHOT", str(snapshot)).split())
    assert found == code
    assert words in f"{body['error']['message']} {body['error']['hint']}"
