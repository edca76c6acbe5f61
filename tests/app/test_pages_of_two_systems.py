"""Pulsar and Pegasus clusters side by side: every page is about clusters of its own kind."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleet_builder import make_snapshot
from pegasus_snapshots import NODES, part_row, snapshot_of, whole
from snapshot_site import (
    APP,
    PAGES,
    PEGASUS_PAGES,
    RememberingPages,
    Site,
    assert_calm,
    now,
    texts,
)

from core.pegasus.snapshot import PegasusFacts
from core.snapshot import Problem
from dashboard.presenters.pegasus.search import search_pegasus
from dashboard.sitemap import FILES, SECTIONS

LABELS = ["fleet · Pulsar", "other · Pulsar", "peg · Pegasus", "peg2 · Pegasus"]


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, clusters=("fleet", "other"), pegasus=("peg", "peg2"))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


@pytest.fixture
def filled(site):
    """Two kept snapshots of a Pegasus cluster between which one primary moved; one of Pulsar."""
    moved = whole()
    moved["partitions"][1] = part_row(2, 1, NODES[3], [NODES[0], NODES[2]])
    site.put(
        make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet"),
        snapshot_of(whole(), taken_at=now() - timedelta(seconds=60)),
        snapshot_of(moved, taken_at=now()),
    )
    return site


def cluster_box(app):
    return app.selectbox(key="cluster")


def address(app):
    """The cluster of the address: a test's own parameter is a text, a page's a list of them."""
    value = app.query_params["cluster"]
    return value if isinstance(value, str) else value[0]


def table_with(app, column):
    return next(one.value for one in app.dataframe if column in one.value.columns)


@pytest.mark.parametrize("page", PEGASUS_PAGES)
def test_page_lists_every_cluster_and_shows_one_of_its_own_system(filled, page):
    app = filled.open(page)
    assert_calm(app)
    assert not app.error
    assert cluster_box(app).options == LABELS
    assert cluster_box(app).value == "peg"
    app.switch_page(FILES["brokers"]).run()
    assert_calm(app)
    assert cluster_box(app).options == LABELS
    assert cluster_box(app).value == "fleet"


def test_a_cluster_of_the_other_system_opens_the_overview_of_its_own(filled):
    app = filled.open("bundles", cluster="other")
    app._page_hash = ""
    cluster_box(app).set_value("peg2").run()
    assert_calm(app)
    assert "trimtab collect peg2" in texts(app)
    assert cluster_box(app).value == "peg2"
    assert address(app) == "peg2"
    cluster_box(app).set_value("fleet").run()
    assert_calm(app)
    assert "4 brokers" in texts(app)
    assert cluster_box(app).value == "fleet"
    assert "cluster" not in app.query_params, "the default of the page"


def test_clusters_of_one_system_are_listed_by_name_alone(tmp_path, monkeypatch):
    only = Site(tmp_path, clusters=("fleet", "other"))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(only.config))
    assert cluster_box(only.open("brokers")).options == ["fleet", "other"]


@pytest.mark.parametrize("page", PEGASUS_PAGES)
def test_page_without_a_snapshot_says_how_to_get_one(site, page):
    app = site.open(page, cluster="peg2")
    assert_calm(app)
    assert cluster_box(app).value == "peg2"
    assert "trimtab collect peg2" in texts(app)


@pytest.mark.parametrize("page", PEGASUS_PAGES)
def test_page_says_which_cluster_to_add_when_there_is_none_of_its_kind(tmp_path, monkeypatch, page):
    only = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(only.config))
    app = only.open(page)
    assert_calm(app)
    assert "No Pegasus cluster" in texts(app)
    assert "meta_servers" in texts(app)
    assert str(only.config) in texts(app)


@pytest.mark.parametrize("page", PAGES[1:])
def test_pulsar_page_says_what_to_add_when_every_cluster_is_a_pegasus_one(
    tmp_path, monkeypatch, page
):
    only = Site(tmp_path, clusters=(), pegasus=("peg",))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(only.config))
    only.put(snapshot_of(whole(), taken_at=now()))
    app = only.open(page)
    assert_calm(app)
    assert "No Pulsar cluster" in texts(app)
    assert "zookeeper" in texts(app)


@pytest.mark.parametrize("page", ["fleet", "activity", "run"])
def test_pages_over_both_open_with_pegasus_clusters_alone(tmp_path, monkeypatch, page):
    only = Site(tmp_path, clusters=(), pegasus=("peg",))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(only.config))
    only.put(snapshot_of(whole(), taken_at=now()))
    app = only.open(page)
    assert_calm(app)
    assert not app.error
    assert cluster_box(app).options == ["peg"]


@pytest.mark.parametrize("page", PEGASUS_PAGES)
def test_page_of_a_cluster_that_no_longer_answers_is_called_stale(site, page):
    site.put(snapshot_of(whole(), taken_at=now() - timedelta(minutes=20)))
    app = site.open(page)
    assert_calm(app)
    assert "stale: 20 min" in texts(app)


@pytest.mark.parametrize("page", PEGASUS_PAGES)
def test_page_with_nothing_in_its_snapshot_still_draws(site, page):
    site.put(snapshot_of({}, taken_at=now()))
    assert_calm(site.open(page))


def test_header_counts_nodes_partitions_and_problems(site):
    problem = Problem(
        code="timeout",
        place="db1:34801",
        what="No answer from db1:34801 within 10 s.",
        severity="error",
    )
    site.put(snapshot_of(whole(), taken_at=now(), problems=(problem,)))
    app = site.open("pegasus")
    assert "4 nodes, 4 partitions" in texts(app)
    app.button(key="_problems_button").click().run()
    assert_calm(app)
    assert "db1:34801 within 10" in texts(app)


def test_choice_of_each_kind_is_remembered_and_in_the_address(filled):
    app = filled.open("pegasus", cluster="peg2")
    assert address(app) == "peg2"
    app.switch_page(FILES["brokers"]).run()
    assert cluster_box(app).value == "fleet"
    cluster_box(app).set_value("other").run()
    assert address(app) == "other"
    app.switch_page(FILES["pegasus_tables"]).run()
    assert cluster_box(app).value == "peg2"
    assert address(app) == "peg2"
    app.switch_page(FILES["bundles"]).run()
    assert cluster_box(app).value == "other"
    app.switch_page(FILES["fleet"]).run()
    assert cluster_box(app).options == LABELS
    assert cluster_box(app).value == "other"


def test_every_page_has_its_name_as_its_address_and_the_root_is_the_fleet(filled):
    filled.open()
    pages = list(RememberingPages.known[str(APP)].values())
    names = {entry.name for entries in SECTIONS.values() for entry in entries}
    assert [one["url_pathname"] for one in pages].count("") == 1
    assert {one["url_pathname"] for one in pages} == {"", *names}
    of_fleet = [one["url_pathname"] for one in pages if FILES["fleet"] in one["script_path"]]
    assert of_fleet == ["", "fleet"]  # links and buttons of the pages lead to the first


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("DB3", ["db3:34801"]),
        ("2.1", ["2.1"]),
        ("2", ["db2:34801", "temp"]),
        ("2.9", []),
        ("tem", ["temp"]),
        ("", []),
    ],
)
def test_search_finds_nodes_tables_and_partitions(query, names):
    hits = search_pegasus(PegasusFacts(snapshot_of(whole())), query)
    assert [one.name for one in hits] == names


def test_fleet_has_one_row_for_every_cluster_of_either_system(filled):
    app = filled.open("fleet")
    assert_calm(app)
    assert not app.error
    rows = table_with(app, "balancer").set_index("cluster")
    assert sorted(rows.index) == ["fleet", "other", "peg", "peg2"]
    peg = rows.loc["peg"]
    assert peg["nodes"] == "4"
    assert peg["balancer"] == "steady"
    assert list(rows.loc["peg2", "state"]) == ["? No snapshot"]
    assert "unknown: " in texts(app)


def test_fleet_lists_the_findings_of_every_cluster_worst_first(filled):
    app = filled.open("fleet", cluster="peg")
    assert_calm(app)
    findings = table_with(app, "finding")
    assert {"fleet", "peg"} <= set(findings["cluster"])
    of_peg = findings[findings["cluster"] == "peg"]
    assert "Replicas are not balanced" in set(of_peg["finding"])
    order = ["✖ Error", "▲ Warning", "? Unknown", "○ Note"]
    ranks = [order.index(next(iter(one))) for one in findings["severity"]]
    assert ranks == sorted(ranks)
    assert "1 move" in set(table_with(app, "what")["what"])


def test_fleet_shows_the_other_clusters_when_the_chosen_one_has_no_snapshot(filled):
    app = filled.open("fleet", cluster="peg2")
    assert_calm(app)
    assert "trimtab collect peg2" in texts(app)
    assert "fleet" in table_with(app, "balancer")["cluster"].tolist()


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_fleet_names_each_cluster_that_failed_with_its_error(site, has_snapshot):
    if has_snapshot:
        site.put(make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet"))
    failed = {"other": "No ZooKeeper at z:1.", "peg": "Meta server m:1 refused."}
    for name, message in failed.items():
        site.collector_says(name, {"last_error": {"message": message}})
    app = site.open("fleet")
    assert_calm(app)
    assert [one.value.replace("\\", "") for one in app.error] == list(failed.values())
    assert "No data from 2 clusters yet." in texts(app)
    assert "trimtab check" in texts(app)
    assert ("trimtab collect fleet" in texts(app)) is not has_snapshot


def test_fleet_calls_what_could_not_be_read_unknown(site):
    content = whole(settings={"level.effective": None, "balance_operation_count": None})
    content["partitions"] = content["partitions"][:3]
    site.put(snapshot_of(content, taken_at=now()))
    app = site.open("fleet", cluster="peg")
    assert_calm(app)
    peg = table_with(app, "balancer").set_index("cluster").loc["peg"]
    assert peg["balancer"] == "steady stored, effective: unknown"
    assert list(peg["state"]) == ["? Unknown"]
    assert app.metric[0].value.startswith("0 / ")
