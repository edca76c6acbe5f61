"""Millions of topics laid over bundles: each where one lookup finds it."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fleet_builder import make_snapshot
from pyarrow import csv

from core.errors import IncompleteSnapshotError, InputError, UnknownNameError
from core.planning.topics.distribution import place_topics
from core.planning.topics.files import parts_of, read_part
from core.planning.topics.ring import NOWHERE, TopicNames, TopicRing
from core.progress import JobStoppedError, NoProgress
from core.pulsar.lookup import lookup_topic, parse_topic_name
from core.snapshot import PulsarSnapshot

NAMES = (
    "persistent://acme/orders/a",
    "persistent://acme/orders/a-partition-0",
    "persistent://acme/orders/a-partition-1",
    "non-persistent://globex/payments/b",
    "acme/orders/short",
    " persistent://acme/orders/spaces \t",
    "persistent://acme/orders/züge-ÿ-漢字",
    "persistent://nobody/there/x",
    "lonely",
    "persistent://acme/cluster/orders/old-form",
    "persistent://acme//empty",
    "http://acme/orders/no",
    "acme/orders",
    "",
)


def one_by_one(snapshot: PulsarSnapshot, name: str) -> str | None:
    try:
        return lookup_topic(snapshot, name).bundle
    except (InputError, UnknownNameError, IncompleteSnapshotError):
        return None


def found_of(snapshot: PulsarSnapshot, names: list[str | None]) -> list[str | None]:
    ring = TopicRing.of(snapshot)
    told = TopicNames.of(pa.array(names, pa.string()))
    rows = ring.bundles_of(ring.spaces_of(told), told.hashes())
    named = pc.is_valid(told.full).to_pylist()
    texts = ring.names(rows.clip(0))
    return [
        text if row != NOWHERE and is_named else None
        for text, row, is_named in zip(texts, rows.tolist(), named, strict=True)
    ]


@pytest.fixture(scope="module")
def fleet() -> PulsarSnapshot:
    return make_snapshot()


def test_every_name_lies_where_one_lookup_finds_it(fleet):
    names = [*NAMES, *(f"persistent://acme/orders/t-{at}-partition-{at % 7}" for at in range(500))]
    assert found_of(fleet, names) == [one_by_one(fleet, name) for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_alone_is_completed_as_one_lookup_does(name):
    told = TopicNames.of(pa.array([name], pa.string()))
    try:
        name = parse_topic_name(name)
        assert told.full.to_pylist() == [str(name)]
        assert told.namespace.to_pylist() == [name.namespace]
    except InputError:
        assert told.full.to_pylist() == [None]


def test_a_null_is_no_name(fleet):
    assert found_of(fleet, [None, "persistent://acme/orders/a"])[0] is None


def test_without_boundaries_the_narrowest_range_that_was_seen_counts(fleet):
    """A split was half seen: the whole bundle and one of its parts are both there."""
    bundles = fleet.bundles.to_pylist()
    whole = next(row for row in bundles if row["namespace"] == "acme/orders")
    middle = (whole["lower"] + whole["upper"]) // 2
    part = whole | {
        "upper": middle,
        "bundle": f"acme/orders/0x{whole['lower']:08x}_0x{middle:08x}",
    }
    rows = [row | {"boundaries": None} for row in fleet.namespaces.to_pylist()]
    tables = {
        **fleet.tables,
        "bundles": pa.Table.from_pylist([*bundles, part], schema=fleet.bundles.schema),
        "namespaces": pa.Table.from_pylist(rows, schema=fleet.namespaces.schema),
    }
    torn = PulsarSnapshot.build(fleet.manifest, tables)
    names = [f"persistent://acme/orders/t-{at}" for at in range(2_000)]
    found = found_of(torn, names)
    assert found == [one_by_one(torn, name) for name in names]
    assert part["bundle"] in found


def table_of(fleet: PulsarSnapshot, count: int = 600) -> pa.Table:
    names = [f"persistent://acme/orders/t-{at // 10}-partition-{at % 10}" for at in range(count)]
    names += ["persistent://nobody/there/x", "acme//no"]
    return pa.table(
        {
            "topic": names,
            "msg_throughput_in": [float(at % 5) for at in range(len(names))],
            "color": ["red"] * len(names),
        }
    )


def test_the_parts_of_a_file_have_every_topic_once_whatever_its_form_and_their_size(
    fleet, tmp_path
):
    table = table_of(fleet)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    csv.write_csv(table, tmp_path / "t.csv")
    lines = "\n".join(json.dumps(row) for row in table.to_pylist())
    (tmp_path / "t.jsonl").write_text(lines)
    (tmp_path / "ended.jsonl").write_text(lines + "\n")
    for name in ("t.parquet", "t.csv", "t.jsonl", "ended.jsonl"):
        for size in (137, 4_096, 1 << 26):
            parts = parts_of(tmp_path / name, part_bytes=size)
            read = pa.concat_tables([read_part(part) for part in parts])
            assert read["topic"].to_pylist() == table["topic"].to_pylist(), (name, size)
            assert read["msg_throughput_in"].to_pylist() == table["msg_throughput_in"].to_pylist()
            assert read["msg_rate_in"].null_count == read.num_rows


def test_loads_and_crowding_add_up(fleet, tmp_path):
    table = table_of(fleet)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    done = place_topics(TopicRing.of(fleet), parts_of(tmp_path / "t.parquet"), NoProgress())
    assert (done.topics, done.unmatched, done.invalid) == (600, 1, 1)
    assert pc.sum(done.bundles["topics"]).as_py() == 600
    assert pc.sum(done.brokers["topics"]).as_py() == 600
    assert pc.sum(done.bundles["msg_throughput_in"]).as_py() == sum(at % 5 for at in range(600))
    assert pc.sum(done.bundles["namespace_share"]).as_py() == pytest.approx(1.0)
    by_topic: dict[str, dict[str, int]] = {}
    for name in table["topic"].to_pylist()[:600]:
        bundle = lookup_topic(fleet, name).bundle
        held = by_topic.setdefault(name.rpartition("-partition-")[0], {})
        held[bundle] = held.get(bundle, 0) + 1
    concentrated = {row["topic"]: row for row in done.concentrated.to_pylist()}
    assert {name: row["most_in_one_bundle"] for name, row in concentrated.items()} == {
        name: max(held.values()) for name, held in by_topic.items()
    }
    assert all(
        by_topic[n][row["bundle"]] == row["most_in_one_bundle"] for n, row in concentrated.items()
    )
    assert pc.sum(done.spread["topics"]).as_py() == 60
    owner = dict(
        zip(*(fleet.bundles[name].to_pylist() for name in ("bundle", "owner")), strict=True)
    )
    assert all(row["owner"] == owner[row["bundle"]] for row in done.bundles.to_pylist())
    assert "600 topics" in done.sentence


def test_a_file_without_topics_or_of_no_known_form_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("name,rate\na,1\n")
    (tmp_path / "t.txt").write_text("a\n")
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "t.parquet")
    for name in ("t.csv", "t.txt", "t.parquet", "gone.jsonl"):
        with pytest.raises(InputError):
            parts_of(tmp_path / name)
    (tmp_path / "bad.csv").write_text("topic,msg_rate_in\na,fast\n")
    with pytest.raises(InputError, match="numeric rates"):
        read_part(parts_of(tmp_path / "bad.csv")[0])


def test_it_stops_when_somebody_says_so(fleet, tmp_path):
    class Stopped:
        def step(self, done: int, total: int, words: str) -> None:
            raise JobStoppedError("Stopped.")

    pq.write_table(table_of(fleet), tmp_path / "t.parquet")
    with pytest.raises(JobStoppedError):
        place_topics(TopicRing.of(fleet), parts_of(tmp_path / "t.parquet"), Stopped())


def test_a_fleet_without_bundles_has_no_place_for_a_topic(fleet):
    bare = PulsarSnapshot.build(replace(fleet.manifest), {"brokers": fleet.brokers})
    ring, told = TopicRing.of(bare), TopicNames.of(pa.array(["persistent://acme/orders/a"]))
    assert ring.bundles_of(ring.spaces_of(told), told.hashes()).tolist() == [NOWHERE]
