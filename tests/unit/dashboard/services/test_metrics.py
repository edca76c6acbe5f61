"""What ``/metrics`` says, and that the dashboard and the alert rules ask for nothing else."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fleet_builder import make_snapshot
from journal_entries import plan_of
from pegasus_snapshots import generated
from places import ROOT
from prometheus_client.parser import text_string_to_metric_families

from connectors.config.model import TrimtabConfig
from core.access import Identity
from core.gauges import Gauge
from core.snapshot.store import SnapshotStore
from dashboard import services
from dashboard.services import metrics

MONITORING = ROOT / "docs" / "deploy" / "monitoring"


@pytest.fixture
def config(tmp_path: Path) -> TrimtabConfig:
    clusters = [
        {"name": "fleet", "zookeeper": "z:1", "read_only": False},
        {"name": "peg", "kind": "pegasus", "meta_servers": ["m:1"]},
        {"name": "gone", "zookeeper": "z:2"},
    ]
    found = TrimtabConfig.model_validate({"clusters": clusters, "state_dir": tmp_path})
    now = datetime.now(UTC)
    store = SnapshotStore(tmp_path / "snapshots")
    store.put(make_snapshot(brokers=3, bundles=12, cluster="fleet", now=now))
    store.put(generated(2, 8, 5, cluster="peg", taken_at=now))
    status = {
        "last_success_at": now.isoformat(),
        "last_duration_s": 0.5,
        "last_error": None,
        "history": {"missed": 2, "bytes": 100, "last_error": {"code": "remote"}},
    }
    path = services.collector_status_path(found, "fleet")
    path.parent.mkdir()
    path.write_text(json.dumps(status))
    return found


def read(config: TrimtabConfig) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return the samples by name and labels."""
    metrics._text.clear()
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(metrics.metrics_text(config).decode()):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_clusters_collector_and_journal_are_in_figures(config) -> None:
    moment = services.now()
    plan = plan_of(1, cluster="fleet", created_at=moment, expires_at=moment + timedelta(minutes=5))
    options = services.default_options(config, "fleet")
    services.request_run(config, "fleet", plan, "too hot", options, Identity(name="ann"))
    found = read(config)
    up = found["trimtab_source_up"]
    assert up[("cluster", "fleet"), ("source", "snapshot")] == 1
    assert up[("cluster", "gone"), ("source", "snapshot")] == 0
    assert up[("cluster", "fleet"), ("source", "worker")] == 0
    assert found["trimtab_snapshot_age_seconds"][(("cluster", "fleet"),)] < 60
    assert found["trimtab_history_missed_snapshots"][(("cluster", "fleet"),)] == 2
    errors = found["trimtab_collector_error"]
    assert errors[("cluster", "fleet"), ("code", "remote"), ("source", "history")] == 1
    assert errors[("cluster", "fleet"), ("code", ""), ("source", "cluster")] == 0
    assert len([1 for labels in found["trimtab_broker_usage_ratio"]]) == 3
    deviations = found["trimtab_max_deviation_ratio"]
    assert {dict(labels)["cluster"] for labels in deviations} == {"fleet", "peg"}
    assert found["trimtab_journal_entries"][()] == 1
    assert found["trimtab_runs"][("cluster", "fleet"), ("state", "QUEUED")] == 1
    assert found["trimtab_node_primaries"]


def test_a_name_cannot_forge_a_metric(config, monkeypatch) -> None:
    evil = 'x"} 1\ntrimtab_source_up{cluster="fleet",source="snapshot"} 0\n#'
    forged = (Gauge("broker_bundles", "Bundles.", (("broker", evil),), 1.0),)
    monkeypatch.setattr(metrics._Metrics, "_gauges", lambda *_: forged)
    found = read(config)
    assert found["trimtab_source_up"][("cluster", "fleet"), ("source", "snapshot")] == 1
    assert {dict(labels)["broker"] for labels in found["trimtab_broker_bundles"]} == {evil}


def test_a_journal_that_cannot_be_read_costs_no_other_figure(config, tmp_path) -> None:
    (tmp_path / "journal.db").write_bytes(b"no database" * 100)
    found = read(config)
    assert found["trimtab_source_up"][("cluster", ""), ("source", "journal")] == 0
    assert found["trimtab_broker_usage_ratio"]
    assert metrics.readiness(lambda: config) == ["The journal is not available."]


@pytest.mark.parametrize("file", sorted(MONITORING.iterdir()), ids=lambda path: path.name)
def test_the_files_for_monitoring_ask_for_metrics_that_there_are(file) -> None:
    text = file.read_text()
    named = set(re.findall(r"\btrimtab_[a-z_]+", text))
    source = (
        Path(metrics.__file__).read_text()
        + (Path(services.__file__).parents[2] / "core/pulsar/gauges.py").read_text()
        + (Path(services.__file__).parents[2] / "core/pegasus/gauges.py").read_text()
    )
    assert len(named) > 5
    assert not [name for name in named if f'"{name.removeprefix("trimtab_")}"' not in source]
    if file.suffix == ".json":
        panels = json.loads(text)["panels"]
        assert len({panel["title"] for panel in panels}) == len(panels)
