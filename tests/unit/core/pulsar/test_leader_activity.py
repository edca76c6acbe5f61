"""Whether the leader acts: the age of what only it writes, and the rounds that did not happen."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from report_cluster import Report

from core.pulsar.leader_activity import leader_activity
from core.pulsar.rules.registry import assess
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.snapshot import PulsarSnapshot

NOW_S = 1_795_000_000
MINUTE = 60


def ago(seconds: float) -> int:
    return int((NOW_S - seconds) * 1000)


@pytest.fixture
def load(tmp_path: Path):
    """Return a reader of a cluster of which ages in minutes are given."""

    def read(  # each is one age of the case
        *,
        elected: float | None = 600,
        averages: float | None = 10,
        bundles: float | None = 10,
        started: float = 6000,
        brokers: int = 3,
        moved: float = 121,
        hot: bool = True,
        settings: dict[str, str] | None = None,
        leads: bool = True,
    ) -> PulsarSnapshot:
        lines = []
        total = 10 * brokers
        bounds = [f"0x{at * 0xFFFFFFFF // total:08x}" for at in range(total + 1)]
        for at in range(brokers):
            name, rate = f"x{at}.y:9090", 900.0 if hot and not at else 100.0
            own = [f"t/n/{bounds[10 * at + i]}_{bounds[10 * at + i + 1]}" for i in range(10)]
            stat = {
                "msgRateIn": rate,
                "msgRateOut": rate,
                "msgThroughputIn": rate * 10_000,
                "msgThroughputOut": rate * 10_000,
                "topics": 3,
            }
            report = {
                "webServiceUrl": f"http://{name}",
                "pulsarServiceUrl": f"pulsar://x{at}.y:6650",
                "cpu": {"usage": 92.0 if hot and not at else 20.0, "limit": 100.0},
                **{key: 10 * stat[key] for key in stat if key != "topics"},
                "lastUpdate": ago(2),
                "lastStats": dict.fromkeys(own, stat),
                "persistentTopicsEnabled": True,
                "nonPersistentTopicsEnabled": True,
                "brokerVersionString": "3.0.6",
            }
            held = {"ephemeralOwner": 5 + at, "ctime": ago(started * MINUTE), "mtime": ago(2)}
            lines.append({"path": f"/loadbalance/brokers/{name}", "value": report, **held})
            written = {} if averages is None else {"mtime": ago(averages * MINUTE)}
            path = f"/loadbalance/broker-time-average/{name}"
            lines.append({"path": path, "value": {}, **written})
            for bundle in own:
                owner = {"nativeUrl": f"pulsar://x{at}.y:6650", "httpUrl": f"http://{name}"}
                took = {"ephemeralOwner": 5 + at, "ctime": ago(moved * MINUTE)}
                lines.append({"path": f"/namespace/{bundle}", "value": owner, **took})
                if bundles is not None:
                    path = f"/loadbalance/bundle-data/{bundle}"
                    lines.append({"path": path, "value": {}, "mtime": ago(bundles * MINUTE)})
        if leads:
            value = {"serviceUrl": "http://x1.y:9090", "brokerId": "x1.y:9090"}
            times = {} if elected is None else {"ctime": ago(elected * MINUTE)}
            line = {"path": "/loadbalance/leader", "value": value, "ephemeralOwner": 6, **times}
            lines.append(line)
        values = {"loadBalancerDistributeBundlesEvenlyEnabled": "false", **(settings or {})}
        lines.append({"path": "/admin/configuration", "value": values})
        path = tmp_path / "dump.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)))
        return import_zk_dump(path, "c", datetime.fromtimestamp(NOW_S, UTC))

    return read


def found(snapshot: PulsarSnapshot):
    return [one for one in assess(snapshot) if one.area == "leader"]


@pytest.mark.parametrize(
    ("elected", "averages", "bundles"),
    [(430, 420, 420), (90, 80, 100), (35, 500, 500), (3000, 45, None), (None, 300, 300)],
)
@pytest.mark.parametrize("brokers", [2, 3, 60])
def test_a_leader_that_writes_nothing_is_named(load, elected, averages, bundles, brokers) -> None:
    snapshot = load(elected=elected, averages=averages, bundles=bundles, brokers=brokers)
    (one,) = found(snapshot)
    assert (one.code, one.subject, one.severity) == ("leader_inactive", "x1.y:9090", "error")
    assert "averages are due every 15 min" in one.sentence
    wrote = min(averages, bundles or averages)
    assert min(120, wrote) - one.evidence["rounds_missed"] in (0, 1)
    assert "3.0.7" in one.hint


@pytest.mark.parametrize(
    "healthy",
    [
        {},
        {"averages": 14.9, "bundles": 14.9},
        {"averages": 29, "bundles": 29},  # one write is late or under way
        {"elected": 2, "averages": 400, "bundles": 400},
        {"averages": 3, "bundles": 6000},  # no bundle is among the largest any more
        {"averages": 3, "bundles": None},
        {"settings": {"loadBalancerResourceQuotaUpdateIntervalMinutes": "240"}, "averages": 200},
        {"settings": {"loadBalancerEnabled": "false"}, "averages": 4000, "bundles": 4000},
    ],
)
def test_a_leader_that_writes_when_it_has_to_is_healthy(load, healthy) -> None:
    assert not found(load(**healthy))


def test_what_a_broker_wrote_itself_when_it_started_is_not_the_leaders(load) -> None:
    snapshot = load(averages=8, started=8.2, bundles=400, elected=500)
    assert [one.code for one in found(snapshot)] == ["leader_inactive"]


def test_a_dead_leader_is_not_restarted() -> None:
    broker = {"cpu": 40, "groups": [{"bundles": 4, "in": 100, "mb_in": 1, "mb_out": 1}]}
    facts = {
        "cluster": {"release": "3.0.4"},
        "expected": {},
        "leader": {"name": "b-1:8080", "elected_s_ago": 90_000, "wrote_s_ago": 20_000},
        "brokers": [
            {"name": "b-0:8080", "session": 77, **broker},
            {"name": "b-1:8080", "session": 0, "age_s": 20_000, **broker},
        ],
    }
    (one,) = found(Report("dead", facts).snapshot())
    assert one.hint.startswith("b-1:8080 is dead.")
    assert "/loadbalance/leader" in one.hint
    assert "Restart" not in one.hint


def test_no_setting_is_cleared_where_shedding_is_off(load) -> None:
    off = load(averages=420, bundles=420, settings={"loadBalancerSheddingEnabled": "false"})
    (one,) = found(off)
    assert one.evidence["rounds_missed"] == 0
    assert one.consequence.endswith("in any case: loadBalancerSheddingEnabled=false.")


def test_rounds_that_would_have_shed_nothing_are_not_counted(load) -> None:
    (one,) = found(load(averages=420, bundles=420, elected=430, hot=False))
    assert one.evidence["rounds_missed"] == 0
    assert one.consequence == "No setting causes this."


def test_a_dump_without_times_is_not_examined(load) -> None:
    snapshot = load(averages=None, bundles=None)
    assert not found(snapshot)
    activity = leader_activity(snapshot, effective_settings(snapshot))
    assert activity.unexamined == "this dump does not have the time of the leader's last averages"


def test_no_leader_is_a_finding_of_its_own(load) -> None:
    assert [one.code for one in found(load(leads=False, averages=500, bundles=500))] == [
        "no_leader"
    ]
