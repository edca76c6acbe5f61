"""Every operation has an example of a request and its answer, of a real snapshot.

``TRIMTAB_WRITE_EXAMPLES=1`` writes them again.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import jsonschema
import pytest
from claims import claimed
from fleet_builder import make_snapshot
from limits import RateLimitItemPerMinute
from pegasus_snapshots import generated
from starlette.applications import Starlette
from starlette.testclient import TestClient

from core.operations.registry import operations
from core.snapshot.store import SnapshotStore
from dashboard.api import examples, resource, routes

MOMENT = datetime(2026, 11, 24, 9, 0, tzinfo=UTC)
QUERIES = {
    "balance": {"rounds": 2},
    "diagnose": {"seconds": 5},
    "drill": {"domains": False, "hot_threshold": 0.8},
    "health": {"target": "tight"},
    "lookup": {"topic": "acme/metrics/paid-7"},
    "owners": {"only_problems": False},
    "place": {"bundle": "acme/invoices/0x00000000_0x19999999"},
    "shed": {"strategy": "ThresholdShedder"},
    "simulate": {"rounds": 3},
    "tenants": {},
}


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setattr(resource, "_LIMIT", RateLimitItemPerMinute(10**6))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(tmp_path / "trimtab.toml"))
    (tmp_path / "trimtab.toml").write_text(
        f'state_dir = "{tmp_path}/state"\n'
        '[[clusters]]\nname = "sandbox"\nzookeeper = "127.0.0.1:1"\n'
        '[[clusters]]\nname = "sandbox-pegasus"\nkind = "pegasus"\n'
        'meta_servers = ["127.0.0.1:1"]\n'
    )
    store = SnapshotStore(tmp_path / "state" / "snapshots")
    store.put(claimed(make_snapshot(cluster="sandbox", brokers=4, bundles=60, now=MOMENT)))
    store.put(generated(3, 8, 4, cluster="sandbox-pegasus", taken_at=MOMENT))
    return TestClient(Starlette(routes=list(routes.ROUTES)))


def short(value):
    """Return JSON with two elements of each list that has more than three."""
    if isinstance(value, dict):
        return {key: short(one) for key, one in value.items()}
    if not isinstance(value, list):
        return value
    return [short(one) for one in (value[:2] if len(value) > 3 else value)]


def answer(client, name):
    cluster = "sandbox" if "pulsar" in operations()[name].answers else "sandbox-pegasus"
    query = {key: json.dumps(v) if v in (True, False) else v for key, v in QUERIES[name].items()}
    found = client.get(f"/api/v1/{name}/{cluster}", params=query)
    assert found.status_code == 200, found.text
    return found.json()


def test_every_operation_has_an_example_of_a_real_answer(client):
    answers = {name: answer(client, name) for name in operations()}
    if os.environ.get("TRIMTAB_WRITE_EXAMPLES"):
        made = {
            name: {"query": QUERIES[name], "answer": short(found)}
            for name, found in sorted(answers.items())
        }
        examples.FILE.write_text(json.dumps(made, indent=1) + "\n")
        examples.examples.cache_clear()
    kept = examples.examples()
    assert set(kept) == set(operations())
    for name, found in answers.items():
        assert kept[name].query == QUERIES[name]
        assert set(kept[name].answer) == set(found), f"write the example of {name} again"
        for key, rows in found.items():
            if isinstance(rows, list) and rows and isinstance(rows[0], dict):
                assert set(kept[name].answer[key][0]) == set(rows[0]), f"{name}: {key}"


@pytest.mark.parametrize("name", operations())
def test_an_example_fits_the_description_and_is_shown(name):
    routes.document.cache_clear()
    described = routes.document()["paths"][f"/api/v1/{name}/{{cluster}}"]["get"]
    content = described["responses"]["200"]["content"]["application/json"]
    example = examples.examples()[name]
    assert content["example"] == example.answer
    jsonschema.validate(content["example"], content["schema"])
    parameters = {one["name"]: one for one in described["parameters"]}
    for key, value in example.query.items():
        assert parameters[key]["example"] == value
        jsonschema.validate(value, parameters[key]["schema"])
    page = TestClient(Starlette(routes=list(routes.ROUTES))).get("/api").text
    section = page.partition(f'<h3 id="get-api-v1-{name}-cluster"')[2].partition("<h3")[0]
    assert "<summary>Example</summary>" in section
    assert f"/api/v1/{name}/sandbox" in section
