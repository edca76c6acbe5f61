"""Pages, HTTP and commands show the same numbers of the same snapshot.

That commands and HTTP answer alike is held for every operation in
``tests/frozen/test_answers_over_http.py``.
"""

from __future__ import annotations

import json

import pytest
from claims import claimed
from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now, texts
from starlette.applications import Starlette
from starlette.testclient import TestClient

from dashboard.api import routes
from dashboard.cli.main import run
from dashboard.components import tables


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.put(claimed(make_snapshot(brokers=5, bundles=60, now=now())))
    return made


@pytest.fixture
def frames(monkeypatch):
    """The tables of the page that was opened last, by key."""
    found = {}
    grid = tables.grid

    def recorded(frame, **options):
        found[options.get("key")] = frame
        return grid(frame, **options)

    monkeypatch.setattr(tables, "grid", recorded)
    return found


def answer(name, capsys, site, **query):
    """The JSON over HTTP, which is that of the command."""
    client = TestClient(Starlette(routes=list(routes.ROUTES)))
    body = client.get(f"/api/v1/{name}/fleet", params=query).json()
    (directory,) = (site.state_dir / "snapshots" / "fleet").iterdir()
    capsys.readouterr()
    assert run([name, str(directory), *query.values(), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    printed.pop("elapsed_ms", None)
    assert body == printed
    return body


def test_the_ownership_page_shows_the_answer_of_owners(site, frames, capsys):
    app = site.open("ownership")
    assert_calm(app)
    body = answer("owners", capsys, site)
    shown = frames["owned_bundles"]
    assert dict(zip(shown["bundle"], shown["owner"], strict=True)) == {
        row["bundle"]: row["owner"] for row in body["bundles"]
    }
    assert dict(zip(shown["bundle"], shown["clients"], strict=True)) == {
        row["bundle"]: row["clients"] for row in body["bundles"]
    }
    for note in body["notes"]:
        assert note in texts(app)
    site.open("ownership", view="Sessions")
    sessions = next(one for key, one in frames.items() if "session" in str(key))
    assert set(sessions["broker"]) == {row["broker"] for row in body["sessions"]}


def test_the_policies_page_shows_the_answer_of_tenants(site, frames, capsys):
    assert_calm(site.open("policies", view="Tenants"))
    body = answer("tenants", capsys, site)
    shown = next(one for one in frames.values() if "tenant" in one.columns)
    by_tenant = shown.set_index("tenant")
    assert set(by_tenant.index) == {one["tenant"] for one in body["tenants"]}
    for one in body["tenants"]:
        row = by_tenant.loc[one["tenant"]]
        assert row["msg_rate_in"] == pytest.approx(one["msg_rate_in"])
        assert row["topics"] == one["topics"]


def test_the_lookup_page_shows_the_answer_of_lookup(site, capsys):
    topic = "acme/metrics/paid-7"
    app = site.open("lookup", topic=topic)
    assert_calm(app)
    body = answer("lookup", capsys, site, topic=topic)
    shown = texts(app)
    assert body["bundle"] in shown
    assert body["owner"] in shown
