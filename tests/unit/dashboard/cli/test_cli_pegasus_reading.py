"""``trimtab pegasus nodes|tables|health|level|balance`` on a snapshot that is written here."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from core.errors import SnapshotError
from core.schemas.pegasus import PEGASUS_TABLES
from core.snapshot import Manifest
from core.snapshot.pegasus import PegasusSnapshot, load_pegasus_snapshot
from core.snapshot.store import load_snapshot, save_snapshot
from dashboard.cli.main import run

NODES = ("db1:34801", "db2:34801", "db3:34801", "db4:34801")
SETTINGS = {
    "level.stored": "500",
    "level.effective": "lively",
    "balance_operation_count": '{"total": 2, "move_pri": 1, "copy_sec": 1}',
    "balance_cluster": "false",
    "only_move_primary": "false",
    "only_primary_balancer": "false",
    "balancer_in_turn": "false",
    "ignored_app_list": "",
    "balance_op_count_per_round": "10",
}


def members_of(index: int) -> list[str]:
    return [NODES[0], NODES[1 + index % 2], NODES[3]]


def rows() -> dict[str, list[dict[str, object]]]:
    """One table of four partitions, all of whose primaries are on the first node."""
    return {
        "nodes": [
            {"node": name, "is_alive": True, "version": "2.6.0", "resident_memory_mb": 100.0}
            for name in NODES
        ],
        "tables": [
            {
                "app_id": 2,
                "name": "temp",
                "status": "available",
                "partition_count": 4,
                "max_replica_count": 3,
                "envs": "{}",
                "is_bulk_loading": False,
                "is_duplicating": False,
            }
        ],
        "partitions": [
            {
                "app_id": 2,
                "index": index,
                "ballot": 3,
                "max_replica_count": 3,
                "primary": members_of(index)[0],
                "secondaries": members_of(index)[1:],
                "last_drops": [],
                "last_committed_decree": 0,
            }
            for index in range(4)
        ],
        "replicas": [
            {
                "app_id": 2,
                "index": index,
                "node": name,
                "is_primary": role == 0,
                "disk": "ssd1",
                "size_mb": 10.0,
                "read_rate": 5.0,
                "write_rate": 1.0,
            }
            for index in range(4)
            for role, name in enumerate(members_of(index))
        ],
        "disks": [
            {
                "node": name,
                "disk": "ssd1",
                "directory": "/d",
                "capacity_mb": 1000,
                "available_mb": 400,
            }
            for name in NODES
        ],
        "settings": [
            {"name": name, "value": value, "origin": "cluster"} for name, value in SETTINGS.items()
        ],
    }


def built(content: dict[str, list[dict[str, object]]]) -> PegasusSnapshot:
    tables = {
        name: pa.table(
            {
                field.name: pa.array(
                    [row.get(field.name) for row in content.get(name, ())], field.type
                )
                for field in schema
            }
        )
        for name, schema in PEGASUS_TABLES.items()
    }
    moment = datetime(2026, 11, 21, tzinfo=UTC)
    return PegasusSnapshot.build(Manifest(cluster="peg", taken_at=moment, tables={}), tables)


@pytest.fixture
def content() -> dict[str, list[dict[str, object]]]:
    return rows()


def asked(capsys, tmp_path: Path, content, *words: str) -> dict:
    directory = tmp_path / "snapshot"
    save_snapshot(built(content), directory)
    assert run(["pegasus", *words, str(directory), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_nodes_tell_replicas_load_and_disks(capsys, tmp_path, content):
    told = asked(capsys, tmp_path, content, "nodes")["nodes"]
    assert [(one["name"], one["primaries"], one["secondaries"]) for one in told] == [
        ("db1:34801", 4, 0),
        ("db2:34801", 0, 2),
        ("db3:34801", 0, 2),
        ("db4:34801", 0, 4),
    ]
    assert told[0]["carried"] == {"size_mb": 40.0, "read_rate": 20.0, "write_rate": 4.0}
    assert (told[0]["disk_capacity_mb"], told[0]["disk_available_mb"]) == (1000, 400)


def test_nodes_and_tables_tell_the_columns_of_the_shell(capsys, tmp_path, content):
    content["nodes"][0] |= {"block_cache_mb": 12.5, "put_p99_ms": 0.5}
    content["operations"] = [
        {"app_id": 2, "index": at, "get_rate": 1.5, "scan_rate": None} for at in range(4)
    ]
    stats = asked(capsys, tmp_path / "nodes", content, "nodes")["nodes"][0]["stats"]
    assert (stats["block_cache_mb"], stats["put_p99_ms"], stats["get_rate"]) == (12.5, 0.5, None)
    (table,) = asked(capsys, tmp_path / "tables", content, "tables")["tables"]
    assert (table["stats"]["get_rate"], table["stats"]["scan_rate"]) == (6.0, None)


def test_a_sum_with_one_unknown_is_unknown_and_a_silent_node_has_no_disks(
    capsys, tmp_path, content
):
    content["replicas"][0]["size_mb"] = None
    content["disks"] = content["disks"][1:]
    told = asked(capsys, tmp_path, content, "nodes")["nodes"][0]
    assert told["carried"]["size_mb"] is None
    assert told["disk_capacity_mb"] is None


def test_tables_tell_health_as_it_is_listed(capsys, tmp_path, content):
    content["partitions"][1]["secondaries"] = []
    content["partitions"][2]["primary"] = None
    (told,) = asked(capsys, tmp_path, content, "tables")["tables"]
    assert told["listed"] == {
        "fully_healthy": 2,
        "unhealthy": 2,
        "write_unhealthy": 2,
        "read_unhealthy": 1,
    }


def test_a_table_whose_partitions_were_not_read_is_unknown(capsys, tmp_path, content):
    content["partitions"] = []
    told = asked(capsys, tmp_path, content, "health")
    assert told["states"] == {"temp": None}
    assert told["guardian"] == {"ill": [], "is_complete": False}
    assert told["balance"]["state"] == "unknown"


def test_health_without_the_word_pegasus_reads_a_pegasus_snapshot(capsys, tmp_path, content):
    content["nodes"][3] |= {"is_alive": False}
    told = asked(capsys, tmp_path, content, "health")
    assert run(["health", str(tmp_path / "snapshot"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told
    assert told["state"] == "bad"
    assert "3 of 4 nodes alive (down: db4:34801)" in told["answer"]
    assert "node_dead" in {one["code"] for one in told["findings"]}
    assert run(["health", str(tmp_path / "snapshot")]) == 0
    assert "db4:34801" in capsys.readouterr().out


def test_health_names_states_the_guardians_ill_ones_and_lost_partitions(capsys, tmp_path, content):
    lost = content["partitions"][3]
    lost |= {"primary": None, "secondaries": [], "last_drops": ["db1:34801"], "ddd_reason": "gone"}
    told = asked(capsys, tmp_path, content, "health")
    assert told["states"]["temp"]["dead"] == 1
    assert told["guardian"]["ill"] == ["2.3"]
    assert told["ddd"] == [{"gpid": "2.3", "last_drops": ["db1:34801"], "reason": "gone"}]


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ('{"total": 2, "move_pri": 2}', "not_balanced"),
        ('{"total": 0}', "balanced"),
        ('{"total": -1}', "unknown"),
        ("nothing", "unknown"),
    ],
)
def test_the_verdict_follows_the_counts(capsys, tmp_path, content, counts, state):
    for row in content["settings"]:
        if row["name"] == "balance_operation_count":
            row["value"] = counts
    assert asked(capsys, tmp_path, content, "health")["balance"]["state"] == state


def test_the_level_is_shown_as_stored_and_as_in_force(capsys, tmp_path, content):
    content["settings"][1]["value"] = "freezed"
    told = asked(capsys, tmp_path, content, "level")
    assert (told["stored"], told["effective"]) == ("lively", "freezed")
    assert told["allows"]["cures"] is False


def test_a_stored_level_outside_the_five_is_no_level(capsys, tmp_path, content):
    content["settings"][0]["value"] = "123"
    told = asked(capsys, tmp_path, content, "level")
    assert (told["stored"], told["stored_number"]) == (None, "123")


def test_the_balancers_rounds_are_played_on_a_snapshot(capsys, tmp_path, content):
    told = asked(capsys, tmp_path, content, "balance", "--rounds", "0")
    kinds = [kind for plans in told["rounds"] for _, kind, _ in plans]
    assert kinds.count("move_primary") == 3
    assert told["rounds"][-1] == []


def test_people_read_tables(capsys, tmp_path, content):
    save_snapshot(built(content), tmp_path / "s")
    for word in ("nodes", "tables", "health", "level"):
        assert run(["pegasus", word, str(tmp_path / "s")]) == 0
    out = capsys.readouterr().out
    assert "db1:34801" in out
    assert "effective  lively" in out


def test_what_denies_the_clients_of_a_table_is_shown_where_room_is_short(
    capsys, tmp_path, content, monkeypatch
):
    content["tables"][0]["envs"] = json.dumps({"replica.deny_client_request": "reconfig*all"})
    save_snapshot(built(content), tmp_path / "s")
    monkeypatch.setenv("COLUMNS", "60")
    assert run(["pegasus", "tables", str(tmp_path / "s")]) == 0
    assert "\ntemp: denies reads and writes.\n" in capsys.readouterr().out


def test_each_kind_of_snapshot_is_refused_by_the_commands_of_the_other(tmp_path, content, capsys):
    snapshot = built(content)
    save_snapshot(snapshot, tmp_path / "pegasus")
    with pytest.raises(SnapshotError, match="not of a Pulsar cluster"):
        load_snapshot(tmp_path / "pegasus")
    pulsar = replace(snapshot, manifest=replace(snapshot.manifest, kind="pulsar"))
    save_snapshot(pulsar, tmp_path / "pulsar")
    with pytest.raises(SnapshotError, match="not of a Pegasus cluster"):
        load_pegasus_snapshot(tmp_path / "pulsar")
    assert run(["pegasus", "nodes", str(tmp_path / "pulsar")]) == 2
    assert "pulsar is a Pulsar cluster; this command reads Pegasus" in capsys.readouterr().err
    assert run(["shed", str(tmp_path / "pegasus")]) == 2
    assert "pegasus is a Pegasus cluster; this command reads Pulsar" in capsys.readouterr().err


def test_a_name_that_is_neither_directory_nor_cluster_is_unknown(tmp_path, capsys):
    config = tmp_path / "trimtab.toml"
    config.write_text(
        '[[clusters]]\nname = "feeds"\nkind = "pegasus"\nmeta_servers = ["m1:34601"]\n'
    )
    assert run(["pegasus", "nodes", "feds", "--config", str(config), "--json"]) == 1
    assert "feeds" in json.loads(capsys.readouterr().out)["error"]["hint"]


@pytest.mark.parametrize(
    "lines",
    [
        'kind = "pegasus"',
        'kind = "pegasus"\nmeta_servers = ["m1:34601"]\nzookeeper = "z:2181"',
        'meta_servers = ["m1:34601"]\nzookeeper = "z:2181"',
        'kind = "pegasus"\nmeta_servers = ["m1"]',
        'kind = "pegasus"\nmeta_servers = ["m1:34601,m2:34601"]',
    ],
)
def test_a_pegasus_cluster_has_meta_servers_and_nothing_of_pulsar(tmp_path, capsys, lines):
    config = tmp_path / "trimtab.toml"
    config.write_text(f'[[clusters]]\nname = "feeds"\n{lines}\n')
    assert run(["pegasus", "level", "feeds", "--config", str(config)]) == 1
    assert "docs/configuration.md" in capsys.readouterr().err


@pytest.mark.parametrize(
    "module",
    ["pegasus.state", "pegasus.balance", "runs", "apply", "pulsar.snapshots"],
)
def test_the_terminal_needs_no_pandas(module):
    code = f"import sys; sys.modules['pandas'] = None; import dashboard.cli.{module}"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
