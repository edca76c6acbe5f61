"""One number, one meaning: what stands on several pages, commands and in JSON is the same there.

Each number is read where it occurs, as a person or a program reads it, and compared with the other
places. A page that words or rounds it in another way fails as one that counts something else.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fleet_builder import make_snapshot
from journal_entries import begun, chain_of, claimed, ended, requested
from pegasus_snapshots import (
    NODES,
    generated,
    part_row,
    setting_rows,
    snapshot_of,
    table_row,
    whole,
)
from places import FIXTURES
from starlette.applications import Starlette
from starlette.testclient import TestClient

from connectors.config.model import TrimtabConfig
from connectors.systems import target_of
from connectors.systems import target_ratio as configured_target
from core.actions.events import RunEnded
from core.actions.runs import fold
from core.alerts.model import Alert, AlertKey, Facts, Limits, Severity
from core.alerts.rules import RULE_BY_CODE
from core.arrays import column_values
from core.findings.finding import count_by_severity
from core.history.backtest.parsing import grid_of, with_target
from core.history.queries.query import Evenness
from core.optimize import OptimizeRequest, optimize
from core.pegasus.even.request import EvenRequest
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import summarize_nodes
from core.pulsar.measures import DEFAULT_TARGET, BundleCounts, measure, uncounted_bundles
from core.pulsar.owners import ownership_of
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.preview import preview_plan
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.snapshot.store import SnapshotStore, load_manifest, save_snapshot
from core.systems import SYSTEMS
from core.units import format_band, format_deviation, format_ratio
from dashboard.api import routes
from dashboard.app_pages.activity import model as activity
from dashboard.app_pages.alerts import model as alerts
from dashboard.app_pages.backtest import model as backtest
from dashboard.app_pages.fleet import model as fleet
from dashboard.app_pages.history import model as history
from dashboard.app_pages.pulsar.brokers import model as brokers
from dashboard.app_pages.pulsar.bundles import model as bundles
from dashboard.app_pages.pulsar.ownership import model as ownership
from dashboard.cli.main import run
from dashboard.components.navigation import firing_badge
from dashboard.components.pulsar import moves_plan
from dashboard.presenters.fleet import ActionStatus
from dashboard.presenters.moves import moves_between, moves_sentence
from dashboard.presenters.pegasus import cluster as pegasus_page
from dashboard.presenters.pegasus.fleet import pegasus_summary
from dashboard.presenters.pulsar import rebalance_plan, unload
from dashboard.presenters.pulsar.fleet import summary
from dashboard.systems import SYSTEMS as ENTRIES
from dashboard.systems import page_part

DUMP = FIXTURES / "contracts" / "three-brokers.jsonl"
NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def with_column(table, name, values):
    at = table.schema.get_field_index(name)
    field = table.schema.field(at)
    return table.set_column(at, field, pa.array(values, field.type))


def fleet_of(*, target=None, unassigned=0, drained=False):
    """A generated fleet; some bundles without an owner, the last broker drained."""
    found = make_snapshot(brokers=12, bundles=600)
    owners = found.bundles["owner"].to_pylist()
    bound = found.bundles["is_broker_bound"].to_pylist()
    free = [at for at, is_bound in enumerate(bound) if not is_bound][:unassigned]
    for at in free:
        owners[at] = None
    emptied = [None] * 11 + [1 if drained else None]
    tables = {
        "bundles": with_column(found.bundles, "owner", owners),
        "brokers": with_column(found.brokers, "emptied_at", emptied),
    }
    made = found.with_tables(tables)
    return replace(made, manifest=replace(made.manifest, target_ratio=target))


def pegasus_of(*, target=None, set_aside=False):
    parts = [part_row(2, at, NODES[at % 2], [NODES[2]], max_replica_count=2) for at in range(12)]
    content = whole(parts, tables=[table_row(2, "temp", 12, max_replica_count=2)])
    if set_aside:
        content["nodes"][3]["emptied_at"] = 1
        content["settings"] = setting_rows({"assign_secondary_black_list": NODES[2]})
    made = snapshot_of(content)
    return replace(made, manifest=replace(made.manifest, target_ratio=target))


PULSAR = {
    "as it is": fleet_of,
    "own target": lambda: fleet_of(target=0.35),
    "unassigned": lambda: fleet_of(unassigned=32),
    "drained": lambda: fleet_of(drained=True, unassigned=5),
    "recorded": lambda: import_zk_dump(DUMP, "recorded", now=NOON),
}
PEGASUS = {
    "generated": lambda: generated(8, 32, 6),
    "own target": lambda: pegasus_of(target=0.25),
    "set aside": lambda: pegasus_of(set_aside=True),
}


def figures(found):
    return {one.label: one for one in found}


def gauge(snapshot, system, name, **labels):
    for one in system.gauges(snapshot):
        if one.name == name and labels.items() <= dict(one.labels).items():
            return one.value
    return None


class Places:
    """What a cluster shows: pages by their presenters, JSON by the commands and over HTTP."""

    def __init__(self, snapshot: Any, folder: Path, capsys: Any, monkeypatch: Any) -> None:
        self.snapshot, self._folder, self._capsys = snapshot, folder, capsys
        self._monkeypatch = monkeypatch
        self.system = next(one for one in SYSTEMS if one.name == snapshot.manifest.kind)

    @cached_property
    def directory(self) -> Path:
        path = self._folder / "snapshot"
        save_snapshot(self.snapshot, path)
        return path

    def command(self, *words: str) -> dict[str, Any]:
        self._capsys.readouterr()
        assert run([*words, "--json"]) == 0
        found: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return found

    @cached_property
    def client(self) -> TestClient:
        """HTTP, of a configuration in which the snapshot is the newest of its cluster."""
        manifest, state_dir = self.snapshot.manifest, self._folder / "state"
        target = manifest.target_ratio
        servers = "meta_servers = ['m:1']" if manifest.kind == "pegasus" else "zookeeper = 'z:1'"
        (self._folder / "trimtab.toml").write_text(
            f"state_dir = '{state_dir}'\n[[clusters]]\nname = '{manifest.cluster}'\n"
            f"kind = '{manifest.kind}'\n{servers}\n"
            + ("" if target is None else f"target_percent = {target * 100:g}\n")
        )
        SnapshotStore(state_dir / "snapshots").put(self.snapshot)
        self._monkeypatch.setenv("TRIMTAB_CONFIG", str(self._folder / "trimtab.toml"))
        return TestClient(Starlette(routes=list(routes.ROUTES)))

    def over_http(self, route: str) -> dict[str, Any]:
        answer = self.client.get(f"/api/v1/{route}/{self.snapshot.manifest.cluster}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    @cached_property
    def health_over_http(self) -> dict[str, Any]:
        return self.over_http("health")

    def told(self, *words: str) -> str:
        self._capsys.readouterr()
        assert run([*words]) == 0
        return str(self._capsys.readouterr().out)

    def alert(self, rule: str) -> list[str]:
        verdict = self.system.verdict(self.snapshot)
        own = self.snapshot.manifest.target_ratio
        found = Facts(
            cluster="c",
            now=self.snapshot.manifest.taken_at,
            gauges=tuple(self.system.gauges(self.snapshot)),
            findings=verdict.findings,
            target_ratio=self.system.default_target_ratio if own is None else own,
        )
        return [one.sentence for one in RULE_BY_CODE[rule].holds(found, Limits())]


class Pulsar(Places):
    @cached_property
    def settings(self):
        return effective_settings(self.snapshot)

    @cached_property
    def measures(self):
        return measure(self.snapshot, self.settings)

    @cached_property
    def verdict(self):
        return verdict_of(self.snapshot)

    @cached_property
    def movable(self):
        table = self.snapshot.bundles
        for name, part in (("throughput", "msg_throughput"), ("msg_rate", "msg_rate")):
            total = pa.compute.add(table[f"{part}_in"], table[f"{part}_out"])
            table = table.append_column(name, total)
        return table.filter(pa.compute.invert(table["is_broker_bound"]))

    @cached_property
    def counts(self):
        return BundleCounts.of(self.movable)

    @cached_property
    def brokers(self):
        args = (self.snapshot, self.measures, self.settings, [], self.movable)
        return figures(brokers.key_figures(*args))

    @cached_property
    def table(self) -> pd.DataFrame:
        first = brokers.BROKER_MEASURES[0]
        return brokers.brokers_table(self.snapshot, self.measures, self.settings, first)

    @cached_property
    def owned_over_http(self):
        """Rows of ``owners`` without heartbeat/SLA, which no page counts."""
        counted = set(self.movable["bundle"].to_pylist())
        return [row for row in self.over_http("owners")["bundles"] if row["bundle"] in counted]

    @cached_property
    def drained(self):
        at = self.snapshot.brokers["emptied_at"].to_pylist()
        names = self.snapshot.brokers["broker"].to_pylist()
        return [name for name, moment in zip(names, at, strict=True) if moment is not None]

    @cached_property
    def load(self):
        return bundles.load_of(self.movable)

    @cached_property
    def bundles(self):
        return figures(bundles.key_figures(self.load, self.measures.throughput.mean, []))

    @cached_property
    def preview(self):
        """Of the unload of one bundle; ``None``: none has an owner."""
        owned = self.movable.filter(pa.compute.is_valid(self.movable["owner"]))
        if not owned.num_rows:
            return None
        taken_at = self.snapshot.manifest.taken_at
        plan = build_unload_plan(self.snapshot, [owned["bundle"][0].as_py()], now=taken_at)
        return plan, preview_plan(self.snapshot, plan)

    def planned(self, read):
        """Return a max deviation that a plan starts from, else that of Brokers."""
        if self.preview is None or not self.preview[0].steps:
            return self.brokers["Max deviation"].value
        return read(*self.preview) or self.brokers["Max deviation"].value

    @cached_property
    def ownership(self):
        found = ownership_of(self.snapshot, self.settings)
        bound = uncounted_bundles(self.snapshot)["heartbeat/SLA"]
        return figures(ownership.key_figures(found, None, self.counts, bound, is_shedding=True))

    @cached_property
    def row(self):
        one = summary(self.snapshot, self.measures, self.verdict, self.settings)
        return fleet.FleetRow(
            cluster="c",
            acting=ActionStatus(access="", run=""),
            verdict=one.verdict,
            deviation_ratio=one.deviation_ratio,
            target_ratio=one.target_ratio,
            usage_ratio=one.usage_ratio,
            nodes=f"{one.brokers:,}",
            traffic=one.traffic_bytes_per_s,
            taken_at=one.taken_at,
        )

    @cached_property
    def fleet(self):
        return figures(
            fleet.key_figures(
                [self.row],
                [],
                {} | dict.fromkeys(("firing", "silenced", "pending", "resolved"), 0),
                self.row.taken_at,
            )
        )

    @cached_property
    def health(self):
        return self.command("health", str(self.directory))

    @cached_property
    def health_text(self):
        return self.told("health", str(self.directory))


class Pegasus(Places):
    @cached_property
    def facts(self):
        return PegasusFacts(self.snapshot)

    @cached_property
    def page(self):
        return figures(pegasus_page.key_figures(self.facts))

    @cached_property
    def nodes(self) -> pd.DataFrame:
        return pegasus_page.nodes_frame(self.facts)

    @cached_property
    def row(self):
        verdict = self.system.verdict(self.snapshot)
        return pegasus_summary(self.facts, verdict, summarize_nodes(self.facts))

    @cached_property
    def health(self):
        return self.command("pegasus", "health", str(self.directory))

    @cached_property
    def level(self):
        return self.command("pegasus", "level", str(self.directory))

    @cached_property
    def listed(self):
        return self.command("pegasus", "nodes", str(self.directory))["nodes"]


def severities(found: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in found.items() if count}


def of_json(findings) -> dict[str, int]:
    return dict(Counter(one["severity"] for one in findings))


def deviation_in(sentence: str) -> str:
    """Return the deviation before a plan: ``... deviation from +41.7% ...``, or unchanged."""
    found = re.search(r"max traffic deviation (?:from|unchanged at) (\+?[\d.,]+%)", sentence)
    return "" if found is None else found[1]  # the effect is unknown


OF_PULSAR: dict[str, dict[str, Callable[[Pulsar], Any]]] = {
    "brokers": {
        "Brokers, title": lambda one: int(brokers.subtitle(one.measures).split()[0]),
        "Brokers, table": lambda one: len(one.table),
        "Fleet": lambda one: int(one.row.nodes),
        "health --json": lambda one: one.health["measures"]["throughput"]["brokers"],
        "HTTP": lambda one: one.health_over_http["measures"]["throughput"]["brokers"],
    },
    "bundles assigned": {
        "Brokers": lambda one: one.brokers["Bundles"].value,
        "Brokers, sum of the table": lambda one: f"{int(np.nansum(one.table['bundles'])):,}",
        "Bundles, title": lambda one: bundles.subtitle(one.load).split()[0],
        "Bundles, half": lambda one: one.bundles["Half of the traffic"].note.split()[1],
        "Ownership": lambda one: one.ownership["Assigned"].value,
    },
    "bundles unassigned": {
        "owners over HTTP": lambda one: (
            f"{sum(row['owner'] is None for row in one.owned_over_http):,}"
        ),
        "Brokers": lambda one: one.brokers["Bundles"].note.split()[0],
        "Bundles": lambda one: one.bundles["Unassigned"].value,
        "Ownership": lambda one: one.ownership["Unassigned"].value,
        "header": lambda one: f"{uncounted_bundles(one.snapshot)['unassigned']:,}",
    },
    "bundles in all": {
        "assigned and unassigned": lambda one: one.counts.total,
        "rows without heartbeat/SLA": lambda one: (
            one.snapshot.bundles.num_rows - uncounted_bundles(one.snapshot)["heartbeat/SLA"]
        ),
    },
    "mean bundles per broker": {
        "Brokers": lambda one: one.brokers["Bundles"].note.rpartition(" ")[2],
        "health --json": lambda one: f"{one.health['measures']['bundle_count']['mean']:,.0f}",
        "idle broker": lambda one: next(
            (
                item.limit.text.removeprefix("mean ")
                for item in one.verdict.findings
                if item.code == "idle_broker" and not item.is_rest
            ),
            f"{one.measures.bundle_count.mean:,.0f}",
        ),
    },
    "max deviation": {
        "Brokers": lambda one: one.brokers["Max deviation"].value,
        "Brokers, table": lambda one: format_deviation(np.nanmax(one.table["deviation"]) / 100),
        "Fleet": lambda one: one.fleet["Max deviation"].value,
        "health --json": lambda one: format_deviation(
            one.health["measures"]["throughput"]["max_deviation_ratio"]
        ),
        "HTTP": lambda one: format_deviation(
            one.health_over_http["measures"]["throughput"]["max_deviation_ratio"]
        ),
        "metrics": lambda one: format_deviation(
            gauge(one.snapshot, one.system, "max_deviation_ratio", measure="throughput")
        ),
        "finding": lambda one: next(
            (
                item.measured.text
                for item in one.verdict.findings
                if item.code == "traffic_deviation"
            ),
            one.brokers["Max deviation"].value,
        ),
        "plan": lambda one: one.planned(
            lambda plan, _: format_deviation(plan.expected.throughput_deviation_before)
        ),
        "Unload and Rebalance, bar": lambda one: one.planned(
            lambda _, preview: moves_plan._effects(preview, "")[-1].note.split(" · ")[0].split()[-1]
        ),
        "Unload and Undo, headline": lambda one: one.planned(
            lambda plan, preview: deviation_in(unload.answer(plan, preview))
        ),
        "Rebalance, dialog": lambda one: one.planned(
            lambda plan, preview: deviation_in(rebalance_plan.answer(plan, preview))
        ),
    },
    "target": {
        "Brokers": lambda one: one.brokers["Max deviation"].note.rpartition(" ")[2],
        "Brokers, title": lambda one: "±" + brokers.subtitle(one.measures).split()[-4],
        "Fleet": lambda one: one.fleet["Max deviation"].note.rpartition(" ")[2],
        "health --json": lambda one: format_band(one.health["target_percent"] / 100),
        "HTTP": lambda one: format_band(one.health_over_http["target_percent"] / 100),
        "findings": lambda one: next(
            (
                item.limit.text
                for item in one.verdict.findings
                if item.code == "traffic_deviation" and not item.is_rest
            ),
            format_band(one.measures.target.bound),
        ),
        "optimizer": lambda one: format_band(
            OptimizeRequest().for_target(one.measures.target.bound).within
        ),
        "optimizer, goal": lambda one: (
            "±" + optimize(one.snapshot, OptimizeRequest()).goal.partition("within ")[2].split()[0]
        ),
        "alert": lambda one: next(
            (said.rpartition("target ")[2].rstrip(".") for said in one.alert("uneven")),
            format_band(one.measures.target.bound),
        ),
    },
    "brokers above the target": {
        "findings": lambda one: sorted(
            item.subject for item in one.verdict.findings if item.code == "traffic_deviation"
        ),
        "Brokers, table": lambda one: sorted(
            name
            for name, (word,) in zip(one.table["broker"], one.table["band"], strict=True)
            if "above" in word
        ),
    },
    "findings by severity": {
        "Fleet": lambda one: severities(count_by_severity(one.row.findings)),
        "health --json": lambda one: of_json(one.health["findings"]),
        "HTTP": lambda one: of_json(one.health_over_http["findings"]),
        "health": lambda one: severities(
            {
                name: sum(
                    line.startswith(f"{name.upper():8}") for line in one.health_text.splitlines()
                )
                for name in count_by_severity(())
            }
        ),
    },
    "errors with an alert": {
        "findings": lambda one: sorted(
            {item.code for item in one.verdict.findings if item.severity == "error"}
        ),
        "alerts": lambda one: sorted(
            {
                item.code
                for item in one.verdict.findings
                if any(said.startswith(item.sentence) for said in one.alert("problem"))
            }
        ),
    },
    "traffic": {
        "Brokers": lambda one: one.brokers["Traffic"].value,
        "Fleet": lambda one: one.fleet["Traffic"].value,
    },
    "max usage": {
        "Brokers": lambda one: one.brokers["Highest usage"].value,
        "Fleet": lambda one: one.fleet["Highest usage"].value,
        "health --json": lambda one: format_ratio(one.health["measures"]["usage"]["max"]),
    },
    "mean usage": {
        "Brokers": lambda one: one.brokers["Mean usage"].value,
        "Brokers, table": lambda one: format_ratio(
            np.nanmean(one.table.loc[~one.table["broker"].isin(one.drained), "usage"]) / 100
        ),
        "health --json": lambda one: format_ratio(one.health["measures"]["usage"]["mean"]),
        "HTTP": lambda one: format_ratio(one.health_over_http["measures"]["usage"]["mean"]),
    },
    "topics": {
        "tenants --json": lambda one: sum(
            tenant["topics"] or 0
            for tenant in one.command("tenants", str(one.directory))["tenants"]
        ),
        "HTTP": lambda one: sum(
            tenant["topics"] or 0 for tenant in one.over_http("tenants")["tenants"]
        ),
        "bundles": lambda one: int(np.nansum(column_values(one.movable, "topic_count"))),
    },
    "clients": {
        "Brokers": lambda one: one.brokers["Clients"].value,
        "owners over HTTP": lambda one: (
            f"{sum(row['clients'] or 0 for row in one.owned_over_http):,}"
            if one.brokers["Clients"].value != "unknown"
            else "unknown"
        ),
        "Bundles": lambda one: one.bundles["Clients"].value,
    },
}


def band_in(note: str) -> str:
    """Return the target of a note such as ``target ±10% · node-1:34801``."""
    return next(word for word in note.split() if word.startswith("±"))


OF_PEGASUS: dict[str, dict[str, Callable[[Pegasus], Any]]] = {
    "nodes": {
        "Cluster": lambda one: int(one.page["Nodes alive"].value.split()[-1]),
        "Cluster, table": lambda one: len(one.nodes),
        "Fleet": lambda one: one.row.nodes,
        "nodes --json": lambda one: len(one.listed),
    },
    "partitions": {
        "Cluster": lambda one: one.page["Partitions healthy"].value.split()[-1],
        "health --json": lambda one: (
            f"{sum(sum(found.values()) for found in one.health['states'].values()):,}"
        ),
        "primaries in the table": lambda one: f"{int(one.nodes['primaries'].sum()):,}",
    },
    "replicas": {
        "Cluster, table": lambda one: int(one.nodes["replicas"].sum()),
        "nodes --json": lambda one: sum(
            node["primaries"] + node["secondaries"] for node in one.listed
        ),
        "metrics": lambda one: int(
            sum(
                gauge.value
                for gauge in one.system.gauges(one.snapshot)
                if gauge.name == "node_replicas"
            )
        ),
    },
    "max deviation of primaries": {
        "Cluster": lambda one: "±" + one.page["Primaries"].value.lstrip("+-"),
        "Cluster, table": lambda one: format_band(
            np.nanmax(np.abs(one.nodes["primaries_deviation"])) / 100
        ),
        "Fleet": lambda one: format_band(abs(one.row.deviation_ratio)),
        "health --json": lambda one: format_band(abs(one.health["max_deviation"]["primaries"])),
        "metrics": lambda one: format_band(
            gauge(one.snapshot, one.system, "max_deviation_ratio", measure="primaries")
        ),
    },
    "target": {
        "Cluster": lambda one: band_in(one.page["Primaries"].note),
        "Cluster, replicas": lambda one: band_in(one.page["Replicas"].note),
        "Fleet": lambda one: format_band(one.row.target_ratio),
        "health --json": lambda one: format_band(one.health["target_percent"] / 100),
        "HTTP": lambda one: format_band(one.health_over_http["target_percent"] / 100),
        "findings": lambda one: next(
            (
                item.limit.text
                for item in one.row.verdict.findings
                if item.code == "node_deviation" and not item.is_rest
            ),
            format_band(one.facts.target_ratio),
        ),
        "alert": lambda one: next(
            (said.rpartition("target ")[2].rstrip(".") for said in one.alert("uneven")),
            format_band(one.facts.target_ratio),
        ),
    },
    "balance operations": {
        "Cluster": lambda one: one.page["Balance operations"].value,
        "level --json": lambda one: (
            f"{one.command('pegasus', 'level', str(one.directory))['operations']['total']:,}"
        ),
        "finding": lambda one: next(
            (
                item.measured.text.split()[0]
                for item in one.row.verdict.findings
                if item.code == "not_balanced"
            ),
            one.page["Balance operations"].value,
        ),
    },
    "findings by severity": {
        "Fleet": lambda one: severities(count_by_severity(one.row.verdict.findings)),
        "health --json": lambda one: of_json(one.health["findings"]),
        "HTTP": lambda one: of_json(one.health_over_http["findings"]),
    },
    "nodes set aside": {
        "Cluster, table": lambda one: sorted(
            node
            for node, status in zip(one.nodes["node"], one.nodes["status"], strict=True)
            if status in ("○ drained", "○ excluded")
        ),
        "health --json": lambda one: sorted(one.health["nodes_set_aside"]),
        "nodes --json": lambda one: sorted(
            node["name"] for node in one.listed if node["status"] in ("drained", "excluded")
        ),
        "findings": lambda one: sorted(
            item.subject
            for item in one.row.verdict.findings
            if item.code in ("node_drained", "node_excluded")
        ),
    },
    "requests": {
        "Cluster": lambda one: one.page["Requests"].value,
        "Fleet": lambda one: pegasus_page.format_per_s(one.row.requests_per_s, "op"),
    },
}


def disagreements(one, numbers):
    """Numbers that differ between places, with what each shows."""
    found = {}
    for name, places in numbers.items():
        shown = {place: read(one) for place, read in places.items()}
        if len({str(value) for value in shown.values()}) != 1:
            found[name] = shown
    return found


@pytest.mark.parametrize("state", PULSAR)
def test_a_number_of_a_pulsar_cluster_is_the_same_wherever_it_stands(
    state: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Pulsar(PULSAR[state](), tmp_path, capsys, monkeypatch)
    assert disagreements(one, OF_PULSAR) == {}


@pytest.mark.parametrize("state", PEGASUS)
def test_a_number_of_a_pegasus_cluster_is_the_same_wherever_it_stands(
    state: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Pegasus(PEGASUS[state](), tmp_path, capsys, monkeypatch)
    assert disagreements(one, OF_PEGASUS) == {}


@pytest.mark.parametrize("system", ENTRIES)
@pytest.mark.parametrize("every_s", [10, 60, 120])
def test_recorded_time_is_time_and_no_number_of_snapshots(system: str, every_s: int) -> None:
    count = 3_600 // every_s + 1
    at_ms = 1_000 * every_s * np.arange(count, dtype=np.int64)
    deviation = np.where(np.arange(count) < count // 2, 0.5, 0.1)
    recorded = timedelta(milliseconds=int(at_ms[-1]))
    seen = history.EventCounts({}, 0)
    even = Evenness(at_ms, deviation, deviation)
    found = figures(history.key_figures(page_part(system, "history"), seen, even, recorded, 0.2))
    (past, _) = backtest.record_figures((NOON, NOON + recorded), [])
    assert found["Recorded"].value == past.value == "60 min"
    assert found["Recorded"].note == f"{count:,} snapshots"
    if system == "pulsar":
        share, whole = found["Time over target"].note.split(" of ")
        assert whole == found["Recorded"].value
        assert share in ("29 min", "30 min")


def test_one_target_is_configured_once_and_every_question_goes_by_it(tmp_path: Path) -> None:
    clusters = [
        {"name": "own", "zookeeper": "z:1", "target_percent": 35},
        {"name": "plain", "zookeeper": "z:1"},
        {"name": "peg", "kind": "pegasus", "meta_servers": ["m:1"]},
    ]
    config = TrimtabConfig.model_validate({"clusters": clusters, "state_dir": tmp_path})
    targets = {one.name: configured_target(config, one) for one in config.clusters}
    assert targets == {"own": 0.35, "plain": 0.2, "peg": 0.1}
    assert target_of(config, ["own"]) == 0.35
    assert target_of(config, ["own", "plain"]) is None
    assert with_target(grid_of({}), 0.35).target.deviation == 0.35
    assert grid_of({"policies": ["app"]}).target.deviation == targets["peg"]
    one = fleet_of(target=0.35)
    assert verdict_of(one).findings != verdict_of(fleet_of()).findings
    assert measure(one).verdict(DEFAULT_TARGET) == measure(fleet_of()).verdict()
    assert EvenRequest().goal_ratio(0.25) == 0.25
    assert EvenRequest(within_percent=5).goal_ratio(0.25) == 0.05
    stored = tmp_path / "snapshot"
    save_snapshot(one, stored)
    assert load_manifest(stored)[1].target_ratio == 0.35
    assert load_manifest(stored)[0] == fleet_of().snapshot_id  # it is no observation


def test_an_option_that_overrides_the_target_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Pulsar(fleet_of(target=0.35), tmp_path, capsys, monkeypatch)
    assert "Target of this request" not in one.told("health", str(one.directory))
    said = one.told("health", str(one.directory), "--target", "tight")
    assert "Target of this request: tight (" in said
    assert "configured target of the cluster: traffic within 35% of the mean" in said


def test_firing_alerts_are_one_number_on_alerts_fleet_and_navigation() -> None:
    severities_firing: list[Severity] = ["critical", "warning", "warning"]
    alerts_firing = [
        Alert(
            key=AlertKey(f"r{at}", "c"),
            severity=severity,
            state="firing",
            since=NOON,
            sentence="It holds.",
            hint="",
        )
        for at, severity in enumerate(severities_firing)
    ]
    page = figures(alerts.key_figures(alerts_firing, [], 0, NOON))["Firing"].value
    counts = dict.fromkeys(("firing", "silenced", "pending", "resolved"), 0)
    counts["firing"] = len(alerts_firing)
    row = Pulsar(fleet_of(), Path(), None, None).row
    fleet_page = figures(fleet.key_figures([row], [], counts, NOON))["Alerts"].value
    badge, about = firing_badge(Counter(severities_firing))
    assert page == fleet_page == badge.partition("[")[2].rstrip("]") == "3"
    assert about == "Firing: 1 critical, 2 warning."


def test_runs_in_progress_are_one_number_on_fleet_and_runs() -> None:
    steps = [begun(0), ended(0), begun(1), ended(1)]
    done = RunEnded(state="DONE", sentence="All done.")
    each = ([requested()], [requested(), claimed()], [requested(), claimed(), *steps, done])
    going = [fold(chain_of(events)) for events in each]
    now = max(view.requested_at for view in going) + timedelta(minutes=1)
    row = Pulsar(fleet_of(), Path(), None, None).row
    on_fleet = figures(fleet.key_figures([row], going, None, now))["Runs"]
    on_runs = figures(activity.key_figures(going, now))
    assert on_fleet.value.split()[0] == on_runs["In progress"].value == "2"
    assert on_fleet.note.split()[0] == "1"
    assert on_runs["Runs, 24 h"].value == "3"


def test_moves_and_returned_moves_are_one_number_on_fleet_and_bundle() -> None:
    owners = ["b1:8080", "b2:8080", "b1:8080", "b3:8080"]
    tables = [
        (NOON + timedelta(minutes=at), pa.table({"bundle": ["a/b/0x0_0x1"], "owner": [owner]}))
        for at, owner in enumerate(owners)
    ]
    moves = moves_between(tables)
    row = replace(Pulsar(fleet_of(), Path(), None, None).row, moves=moves)
    on_fleet = figures(fleet.key_figures([row], [], None, NOON))["Moves, last hour"]
    on_bundle = moves_sentence(moves, 3)
    assert on_fleet.value == str(len(moves)) == "3"
    assert on_bundle.startswith("3 moves ")
    assert on_fleet.note.split()[0] == "1"
    assert ", 1 returned to a previous broker" in on_bundle
