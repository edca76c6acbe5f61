"""Command, HTTP, page and job read the same snapshots for a diagnosis, earlier ones included."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest
from pegasus_diagnosis import LIVELY, cluster, even_parts, node_names
from starlette.applications import Starlette
from starlette.testclient import TestClient

from connectors.jobs.catalogue import checked, kinds
from connectors.jobs.model import JobContext
from core.progress import NoProgress
from core.snapshot.store import SnapshotStore
from dashboard import services
from dashboard.api import routes
from dashboard.app_pages.diagnose import queries
from dashboard.cli.main import run

NODES = node_names(5)
RESET = "level_set_to_steady"
"""Known only with the snapshot before: the level was lively then."""


@pytest.fixture
def newest(tmp_path, monkeypatch):
    """The newest of two saved snapshots of a cluster; the one before has the level lively."""
    monkeypatch.setenv("TRIMTAB_CONFIG", str(tmp_path / "trimtab.toml"))
    name = cluster([]).manifest.cluster
    (tmp_path / "trimtab.toml").write_text(
        f'state_dir = "{tmp_path}/state"\n[[clusters]]\nname = "{name}"\nkind = "pegasus"\n'
        'meta_servers = ["127.0.0.1:1"]\n'
    )
    store = SnapshotStore(tmp_path / "state" / "snapshots")
    parts, now = even_parts(1, 40, NODES[:4]), datetime.now(UTC).replace(microsecond=0)
    store.put(cluster(parts, settings=LIVELY, taken_at=now - timedelta(minutes=5)))
    snapshot = cluster(parts, taken_at=now)
    monkeypatch.setattr(services, "snapshot_of", lambda *_: snapshot)
    return store.put(snapshot)


def name_of(stored):
    return stored.path.parent.name


def test_the_command(newest, capsys):
    assert run(["diagnose", name_of(newest), "--json"]) == 0
    assert [one["code"] for one in json.loads(capsys.readouterr().out)["causes"]] == [RESET]
    assert run(["diagnose", str(newest.path), "--json"]) == 0  # a directory has none before it
    assert [one["code"] for one in json.loads(capsys.readouterr().out)["causes"]] != [RESET]


def test_http(newest):
    client = TestClient(Starlette(routes=list(routes.ROUTES)))
    answer = client.get(f"/api/v1/diagnose/{name_of(newest)}").json()
    assert [one["code"] for one in answer["causes"]] == [RESET]


def test_the_page(newest):
    found = queries.diagnosed.wait(("pegasus", newest), 60.0)
    assert [one.code for one in found.diagnosis.causes] == [RESET]


def test_the_job(newest, tmp_path):
    kind = kinds()["diagnose"]
    out = tmp_path / "results"
    out.mkdir()
    config = services.page_config()
    context = JobContext(
        config=config, out=out, progress=NoProgress(), spark=lambda: None, history=lambda: None
    )
    kind.run(context, checked(kind, {"clusters": [name_of(newest)], "workers": 1}))
    assert pq.read_table(out / "causes.parquet")["code"].to_pylist() == [RESET]
