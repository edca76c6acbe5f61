"""Hours and days over HTTP: the numbers of the queries, with their source."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from fleet_builder import make_snapshot
from limits import RateLimitItemPerMinute
from starlette.applications import Starlette
from starlette.testclient import TestClient
from tier_year import END, Year, write_year

from core.history.queries.fleet_facts import fleet_days
from core.history.queries.growth import growth
from core.history.queries.growth_context import growth_context
from core.history.queries.load import LoadRequest, load_over
from core.history.store.layout import DAY_MS
from core.history.store.reading import TimeRange
from core.snapshot.store import SnapshotStore
from core.units import datetime_to_ms
from dashboard import services
from dashboard.api import resource, routes
from dashboard.services.history import history

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
END_MS = datetime_to_ms(END)
YEAR = Year(cluster="fleet", days=100, days_of_hours=10, bundles=12, growth={4: 0.02}, noise=0.01)
OTHER = Year(cluster="other", days=3, days_of_hours=1, bundles=4, missing=frozenset({2}))
LAST = f"end={(END - timedelta(milliseconds=1)).isoformat().replace('+', '%2B')}"


def since(days: int) -> str:
    return f"start={(END - timedelta(days=days)).isoformat().replace('+', '%2B')}&{LAST}"


def span(days: int) -> TimeRange:
    return TimeRange(END_MS - days * DAY_MS, END_MS - 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    clusters = "".join(
        f'[[clusters]]\nname = "{name}"\nzookeeper = "127.0.0.1:1"\n' for name in ("fleet", "other")
    )
    (folder / "trimtab.toml").write_text(
        f'state_dir = "{folder}/state"\n{clusters}target_percent = 10\n'
    )
    return folder


@pytest.fixture
def client(folder, monkeypatch) -> TestClient:
    monkeypatch.setattr(resource, "_LIMIT", RateLimitItemPerMinute(10**6))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(folder / "trimtab.toml"))
    if not (folder / "state").exists():
        SnapshotStore(folder / "state" / "snapshots").put(make_snapshot(brokers=4, bundles=60))
        for one in (YEAR, OTHER):
            write_year(history(services.page_config()), one)
    return TestClient(Starlette(routes=list(routes.ROUTES)))


def answer(client: TestClient, path: str) -> dict:
    found = client.get(f"/api/v1/{path}")
    assert found.status_code == 200, found.text
    return found.json()


@pytest.mark.parametrize(("days", "source"), [(90, "days"), (9, "hours")])
def test_load_has_the_rows_and_the_source_of_the_query(client, days, source) -> None:
    name = YEAR.bundle(4)
    found = answer(client, f"history/fleet/load?kind=bundle&name={name}&{since(days)}")
    request = LoadRequest(
        cluster="fleet", kind="bundle", subject=name, span=span(days), is_whole=True
    )
    expected = load_over(history(services.page_config()), request)
    assert found.pop("rows") == expected.rows.to_pylist()
    assert found == {
        "cluster": "fleet",
        "kind": "bundle",
        "subject": name,
        "source": source,
        "step_ms": DAY_MS if source == "days" else DAY_MS // 24,
        "from_finer": 0,
        "hours_not_rolled_up": 0,
    }


def test_load_as_arrow_has_the_same_rows(client) -> None:
    path = f"history/fleet/load?{since(90)}"
    rows = pa.ipc.open_stream(client.get(f"/api/v1/{path}", headers=ARROW).content).read_all()
    assert rows.to_pylist() == answer(client, path)["rows"]


def test_load_is_compared_with_the_same_time_earlier(client) -> None:
    found = answer(
        client,
        f"history/fleet/load?kind=bundle&name={YEAR.bundle(4)}&by=days&compare=month&{since(14)}",
    )
    assert (found["compared"]["days"], found["compared"]["compared"]) == (28, 14)
    flow = next(one for one in found["compared"]["changes"] if one["measure"] == "msg_throughput")
    # 2% of the first load a day; the 14 days have the numbers 86 to 99
    assert flow["change_ratio"] == pytest.approx(0.56 / (1 + 0.02 * (92.5 - 28)), rel=0.05)
    assert flow["now"] / flow["before"] - 1 == pytest.approx(flow["change_ratio"])


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("kind=bundle", 400),
        ("kind=cluster&name=x", 400),
        ("by=weeks", 400),
        ("compare=year", 400),
        ("start=2026-11-22&end=2026-11-21", 400),
        ("start=yesterday", 400),
        ("kind=node&name=n1&start=2026-11-01&end=2026-11-22", 400),
    ],
)
def test_a_question_about_load_that_has_no_answer_is_refused(client, query, status) -> None:
    assert client.get(f"/api/v1/history/fleet/load?{query}").status_code == status


def test_fleet_days_count_each_cluster_against_its_own_target(client) -> None:
    found = answer(client, f"fleet/days?{since(5)}")
    assert found["source"] == "days"
    rows = found["rows"]
    store = history(services.page_config())
    expected = fleet_days(store, {"fleet": 0.2, "other": 0.1}, span(5)).to_pylist()
    assert [{**one, "unhealthy_minutes": None} for one in expected] == rows
    assert [one["cluster"] for one in rows] == ["fleet"] * 5 + ["other"] * 2  # a day is missing
    assert {one["cluster"]: one["target"] for one in rows} == {"fleet": 0.2, "other": 0.1}


def test_growth_has_the_rows_of_the_query_with_the_newest_snapshot(client) -> None:
    found = answer(client, f"history/fleet/growth?{since(84)}")
    context = growth_context(make_snapshot(brokers=4, bundles=60))
    expected = growth(history(services.page_config()), "fleet", span(84), context, 0.2)
    rows = {(one["kind"], one["subject"]): one for one in expected.rows.to_pylist()}
    assert len(found["rows"]) == len(rows) > 12
    for one in found.pop("rows"):  # the last digit of a sum depends on its order
        assert one == pytest.approx(rows[one["kind"], one["subject"]])
    whole = expected.as_json()
    for name in ("full", "outside"):
        assert found.pop(name) == pytest.approx(whole.pop(name))
    assert found == whole
    assert found["weeks"] == 12
    assert expected.full.limit_key == "loadBalancerBrokerOverloadedThresholdPercentage"
    assert (
        client.get("/api/v1/history/fleet/growth?start=2001-01-01&end=2001-06-01").status_code > 399
    )
    assert client.get("/api/v1/history/fleet/growth?start=now&end=-1d").status_code == 400
    few = answer(client, f"history/other/growth?{since(30)}")
    assert (few["weeks"], few["weeks_missing"], few["rows"]) == (0, 6, [])
    assert few["full"]["state"] == few["outside"]["state"] == "unknown"
