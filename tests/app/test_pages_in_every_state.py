"""Every page in every state: it answers, and it never shows a traceback."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleet_builder import make_history, make_snapshot
from snapshot_site import APP, PAGES, Site, assert_calm, now, texts
from streamlit.testing.v1 import AppTest

from core.snapshot import Problem

MISSING = (
    ("bundles",),
    ("brokers",),
    ("namespaces",),
    ("settings", "policies"),
    ("brokers", "bundles", "namespaces", "settings", "policies"),
)


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


def params_of(page, snapshot):
    """Query parameters with which the page has something to show."""
    bundle = snapshot.bundles["bundle"][0].as_py() if snapshot.bundles.num_rows else "a/b/0x0_0x1"
    broker = snapshot.brokers["broker"][0].as_py() if snapshot.brokers.num_rows else "b:1"
    namespace = bundle.rpartition("/")[0]
    return {
        "broker": {"broker": broker},
        "bundle": {"bundle": bundle},
        "unload": {"bundles": [bundle]},
        "lookup": {"topic": f"persistent://{namespace}/topic-1"},
        "policies": {"view": "Tenants"},
    }.get(page, {})


@pytest.mark.parametrize("page", PAGES)
def test_page_answers_on_a_small_fleet(site, page):
    history = make_history(8, brokers=4, bundles=60, now=now())
    site.put(*history)
    app = site.open(page, **params_of(page, history[-1]))
    assert_calm(app)
    assert not app.error
    assert app.get("plotly_chart") or app.dataframe


@pytest.mark.parametrize("page", PAGES)
def test_page_without_a_snapshot_says_how_to_get_one(site, page):
    app = site.open(page)
    assert_calm(app)
    assert "trimtab collect fleet" in texts(app)


@pytest.mark.parametrize("page", PAGES)
def test_page_without_a_snapshot_tells_the_collector_error(site, page):
    site.collector_says(
        "fleet",
        {
            "last_error": "No connection to zookeeper 127.0.0.1:1.",
            "last_error_at": now().isoformat(),
        },
    )
    app = site.open(page)
    assert_calm(app)
    assert "zookeeper 127.0.0.1:1" in texts(app)
    assert "trimtab check" in texts(app)


@pytest.mark.parametrize(
    "missing",
    [*(pytest.param(one, marks=pytest.mark.slow) for one in MISSING[:-1]), MISSING[-1]],
    ids="+".join,
)
@pytest.mark.parametrize("page", PAGES)
def test_page_with_missing_tables_still_draws(site, page, missing):
    whole = make_snapshot(brokers=4, bundles=60, now=now())
    site.put(make_snapshot(brokers=4, bundles=60, now=now(), missing=missing))
    app = site.open(page, **params_of(page, whole))
    assert_calm(app)


@pytest.mark.parametrize("page", PAGES)
def test_page_of_a_cluster_that_no_longer_answers_is_called_stale(site, page):
    snapshot = make_snapshot(brokers=4, bundles=60, now=now() - timedelta(minutes=20))
    site.put(snapshot)
    site.collector_says(
        "fleet",
        {
            "last_success_at": (now() - timedelta(minutes=20)).isoformat(),
            "last_error_at": now().isoformat(),
            "last_error": "No answer from zookeeper 127.0.0.1:1 within 15 s.",
        },
    )
    app = site.open(page, **params_of(page, snapshot))
    assert_calm(app)
    assert "stale: 20 min" in texts(app)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_page_of_a_huge_fleet_is_drawn(tmp_path_factory, monkeypatch, page):
    site = Site(tmp_path_factory.mktemp("huge"))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    snapshot = make_snapshot(brokers=1_000, bundles=100_000, now=now())
    site.put(snapshot)
    app = site.open(page, **params_of(page, snapshot))
    assert_calm(app)
    for table in app.dataframe:
        assert len(table.value) <= 2_000


def test_broker_without_reports_is_unknown_and_not_idle(site):
    snapshot = make_snapshot(brokers=4, bundles=60, now=now(), missing=("brokers",))
    site.put(snapshot)
    app = site.open("brokers")
    assert_calm(app)
    assert "balance" in texts(app)
    assert "balanced" not in texts(app)


def test_problems_are_counted_in_the_header(site):
    problem = Problem(
        code="malformed",
        place="/loadbalance/brokers/10.1.0.3:8080",
        what="The load report is not JSON.",
        done="The broker's numbers are unknown.",
    )
    site.put(make_snapshot(brokers=4, bundles=60, now=now(), problems=(problem,)))
    app = site.open("brokers")
    assert [button for button in app.button if button.label == "1 capture problem"]
    app.button(key="_problems_button").click().run()
    assert_calm(app)
    assert "not JSON" in texts(app)


def test_no_cluster_configured_is_said_with_an_example(tmp_path, monkeypatch):
    site = Site(tmp_path, clusters=())
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    app = site.open("brokers")
    assert_calm(app)
    assert "[[clusters]]" in texts(app)


def test_unusable_configuration_is_said_in_a_sentence(tmp_path, monkeypatch):
    path = tmp_path / "trimtab.toml"
    path.write_text("clusters = 3")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(path))
    app = AppTest.from_file(str(APP), default_timeout=60).run()
    assert_calm(app)
    assert app.error
