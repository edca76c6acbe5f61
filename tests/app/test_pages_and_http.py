"""Pages, HTTP and commands show the same numbers of the same snapshot.

That commands and HTTP answer alike is held for every operation in
``tests/frozen/test_answers_over_http.py``.
"""

from __future__ import annotations

import json

import pytest
from claims import claimed
from fleet_builder import make_snapshot
from pegasus_snapshots import generated
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


@pytest.fixture
def both(tmp_path, monkeypatch):
    """A site with a Pulsar cluster and a Pegasus cluster."""
    made = Site(tmp_path, pegasus=("peg",))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.put(claimed(make_snapshot(brokers=5, bundles=60, now=now())))
    made.put(generated(3, 8, 4, cluster="peg", taken_at=now()))
    return made


def over_http(path):
    return TestClient(Starlette(routes=list(routes.ROUTES))).get(f"/api/v1/{path}").json()


def metrics(app):
    return {one.label: one.value for one in app.metric}


def test_the_fleet_page_shows_the_answer_of_health(both, frames):
    app = both.open("fleet")
    assert_calm(app)
    shown = frames["fleet_findings"]
    body = over_http("health/fleet")
    of_fleet = shown[shown["cluster"] == "fleet"]
    assert sorted(of_fleet["finding"]) == sorted(one["title"] for one in body["findings"])
    row = frames["clusters"].set_index("cluster").loc["fleet"]
    traffic, usage = body["measures"]["throughput"], body["measures"]["usage"]
    assert row["deviation"] == pytest.approx(traffic["max_deviation_ratio"] * 100)
    assert row["usage"] == pytest.approx(usage["max"] * 100)


def test_the_brokers_page_shows_the_measures_of_health(both, frames):
    app = both.open("brokers")
    body = over_http("health/fleet")
    rows = frames["brokers_table"].set_index("broker")
    worst = body["measures"]["throughput"]["worst"]
    deviation = body["measures"]["throughput"]["max_deviation_ratio"]
    assert rows["deviation"].abs().idxmax() == worst
    assert rows.loc[worst]["deviation"] == pytest.approx(deviation * 100)
    assert metrics(app)["Max deviation"] == f"{deviation:+.0%}"
    assert metrics(app)["Mean usage"] == f"{body['measures']['usage']['mean']:.1%}"


def test_the_bundles_page_shows_the_rows_of_the_snapshot(both, frames):
    assert_calm(both.open("bundles"))
    rows = {one["bundle"]: one for one in over_http("snapshots/fleet/latest/bundles")["rows"]}
    shown = frames["bundles_table"].set_index("bundle")
    assert all(name.startswith("pulsar/") for name in set(rows) - set(shown.index))
    for name in shown.index:
        row = rows[name]
        traffic = row["msg_throughput_in"] + row["msg_throughput_out"]
        assert shown.loc[name]["throughput"] == pytest.approx(traffic / 1e6)
        assert shown.loc[name]["owner"] == row["owner"]
        assert shown.loc[name]["topics"] == row["topic_count"]


def test_the_page_of_a_broker_failure_shows_the_row_of_drill(both, frames):
    body = over_http("drill/fleet?domains=false")
    for row in body["failures"][:2]:
        app = both.open("ownership", view="Broker failure", broker=row["failure"])
        assert_calm(app)
        shown = next(one.value for one in app.dataframe if "to" in one.value)
        assert shown["bundles"].sum() == row["bundles"]
        assert shown["clients"].sum() == row["clients"]
        assert shown["traffic"].sum() == pytest.approx(row["moved_bytes_per_s"] / 1e6)


def test_the_cluster_page_shows_the_rounds_of_balance(both, frames):
    assert_calm(both.open("pegasus", cluster="peg"))
    body = over_http("balance/peg?rounds=0")
    shown = frames["level_rounds"]
    for at, moves in enumerate(body["rounds"][: len(shown)]):
        kinds = [kind for _, kind, _ in moves]
        for kind in ("move_primary", "copy_primary", "copy_secondary"):
            assert shown[kind][at] == kinds.count(kind)
    assert len(shown) == sum(1 for moves in body["rounds"] if moves)


def test_the_diagnose_page_shows_the_causes_of_diagnose(both, frames):
    app = both.open("diagnose")
    for _ in range(200):
        if "Searching for causes" not in texts(app):
            break
        app.run()
    body = over_http("diagnose/fleet")
    rows = next(one.value for one in app.dataframe if "cause" in one.value)
    effects = [one["effect"] for one in body["causes"] if one["effect"]]
    assert metrics(app)["Causes"] == str(len(rows))
    assert rows["now"][0] == pytest.approx(effects[0]["deviation_before"] * 100)
    assert rows["fixed"][0] == pytest.approx(effects[0]["deviation_after"] * 100)
