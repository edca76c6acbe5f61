"""Generated clusters with what makes large ones hard: ties, gaps, and every kind of finding."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.pulsar.settings import effective_settings
from core.schemas.pulsar import RATES
from core.simulation.records import after_reports
from core.snapshot import PulsarSnapshot


def edited(snapshot: PulsarSnapshot, name: str, column: str, values: pa.Array) -> PulsarSnapshot:
    table = snapshot.tables[name]
    index = table.schema.get_field_index(column)
    tables = {**snapshot.tables, name: table.set_column(index, column, values)}
    return PulsarSnapshot.build(snapshot.manifest, tables)


def with_ties(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    """Every load one of four values, so that Java's maps decide."""
    for name in RATES:
        values = snapshot.bundles[f"short_{name}"].to_numpy()
        steps = np.round(values / values.max() * 4) * 100_000.0
        snapshot = edited(snapshot, "bundles", f"short_{name}", pa.array(steps))
    return snapshot


def with_gaps(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    """Bundles without report or stored averages, one with a quota, a broker without report."""
    count = snapshot.bundles.num_rows
    nobody = np.arange(count) % 9 == 0
    reported = np.array(snapshot.bundles["reported_by"].to_pylist(), object)
    snapshot = edited(
        snapshot, "bundles", "reported_by", pa.array(np.where(nobody, None, reported), pa.string())
    )
    for name in (f"{term}_{rate}" for term in ("short", "long") for rate in RATES):
        values = snapshot.bundles[name].to_numpy()
        fresh = np.arange(count) % 7 == 0
        snapshot = edited(snapshot, "bundles", name, pa.array(values, mask=fresh))
    quota = {
        "kind": "resource_quota",
        "name": snapshot.bundles["bundle"][7].as_py(),
        "body": json.dumps({"msgRateIn": 5e4, "msgRateOut": 5e4, "bandwidthIn": 9e6}),
    }
    policies = pa.concat_tables(
        [snapshot.policies, pa.Table.from_pylist([quota], schema=snapshot.policies.schema)]
    )
    brokers = snapshot.brokers
    silent = np.arange(brokers.num_rows) == 5
    for name in brokers.column_names:
        if name.endswith("_usage") or name.startswith("msg_"):
            at = brokers.schema.get_field_index(name)
            column = pa.array(brokers[name].to_numpy(), mask=silent)
            brokers = brokers.set_column(at, name, column)
    tables = {**snapshot.tables, "policies": policies, "brokers": brokers}
    return PulsarSnapshot.build(snapshot.manifest, tables)


def unread(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    """No report names any bundle, as in a fresh cluster: none counts for any broker."""
    nothing = pa.nulls(snapshot.bundles.num_rows, pa.string())
    return edited(snapshot, "bundles", "reported_by", nothing)


def with_trouble(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    """Bundles without owner, hot ones, namespaces of one bundle, many of a kind and many equal."""
    count = snapshot.bundles.num_rows
    row = np.arange(count)
    owner = np.array(snapshot.bundles["owner"].to_pylist(), object)
    source = np.array(snapshot.bundles["owner_source"].to_pylist(), object)
    source[row % 50 == 3] = None
    owner[(row % 50 == 3) | (row % 40 == 7)] = None
    owner[row % 300 == 11] = "10.1.0.2:8080"  # moved since the report
    namespace = np.array(snapshot.bundles["namespace"].to_pylist(), object)
    is_alone = row % 61 == 5
    namespace[is_alone] = [f"solo/ns-{number}" for number in row[is_alone].tolist()]
    for name, values in (("owner", owner), ("owner_source", source), ("namespace", namespace)):
        snapshot = edited(snapshot, "bundles", name, pa.array(values, pa.string()))
    brokers = snapshot.brokers["msg_throughput_in"].to_numpy()
    mean = np.nansum(brokers) / brokers.size
    is_unknown = row % 31 == 2
    for way in ("in", "out"):
        flow = snapshot.bundles[f"msg_throughput_{way}"].to_numpy().copy()
        flow[row % 73 == 9] = mean * 2.5  # all the same: the order of rows decides
        flow[is_alone] = mean * np.round(row[is_alone] % 7 / 7, 1)
        snapshot = edited(
            snapshot, "bundles", f"msg_throughput_{way}", pa.array(flow, mask=is_unknown)
        )
    return snapshot


def with_storms(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    """Namespaces cut into empty halves around a topic, and full ones with bundles to split."""
    rows = snapshot.bundles.to_pylist()
    for number, start in enumerate(range(0, 90, 30)):
        lower, upper = 0, 0x100000000
        for row in rows[start : start + 25]:
            middle = (lower + upper) // 2
            _cut(row, number, middle, min(upper, 0xFFFFFFFF))
            row.update(dict.fromkeys((*RATES, *(f"long_{rate}" for rate in RATES)), 0.0))
            row["topic_count"] = 0
            upper = middle
        hot = rows[start + 25]
        _cut(hot, number, lower, upper)
        hot |= dict.fromkeys(("msg_rate_in", "msg_rate_out"), 20000.0 * (number + 1))
        hot |= {f"long_{name}": None for name in RATES} | {"topic_count": 1}
    rows.sort(key=lambda row: (row["namespace"], row["lower"], row["upper"]))
    table = pa.Table.from_pylist(rows, schema=snapshot.bundles.schema)
    key = "loadBalancerNamespaceMaximumBundles"
    limit = [{"broker": None, "name": key, "value": "8", "origin": "dynamic"}]
    settings = snapshot.settings.filter(pc.not_equal(snapshot.settings["name"], key))
    added = pa.Table.from_pylist(limit, schema=settings.schema)
    tables = {
        **snapshot.tables,
        "bundles": table,
        "settings": pa.concat_tables([settings, added]),
    }
    return PulsarSnapshot.build(snapshot.manifest, tables)


def _cut(row: dict[str, object], number: int, lower: int, upper: int) -> None:
    space = f"storm/ns-{number}"
    row |= {"namespace": space, "lower": lower, "upper": upper}
    row["bundle"] = f"{space}/0x{lower:08x}_0x{upper:08x}"


def extensible(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    """The same under the other load manager, with what its brokers publish."""
    manifest = replace(snapshot.manifest, load_manager="extensible")
    name = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
    classes = pa.array([name] * snapshot.brokers.num_rows)
    named = edited(snapshot, "brokers", "load_manager", classes)
    whole = PulsarSnapshot.build(manifest, named.tables)
    return after_reports(whole, effective_settings(whole), 60.0, ())
