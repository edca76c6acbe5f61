"""The pages Cluster and Tables & partitions in every state, and the way from them to a run."""

from __future__ import annotations

from datetime import timedelta

import pytest
from history_rows import recorded, store_in
from pegasus_snapshots import NODES, generated, part_row, snapshot_of, table_row, whole
from snapshot_site import Site, assert_calm, now, texts

from core.history.queries.sql import Period
from core.pegasus.ddd import DddNode, ddd_text
from core.snapshot import Problem
from dashboard import services
from dashboard.app_pages.pegasus.cluster import model as cluster_model
from dashboard.app_pages.pegasus.tables import model
from dashboard.presenters.pegasus import cluster
from dashboard.queries.pegasus.node_load import node_trends

PAGES = ("pegasus", "pegasus_tables")
EMPTY = {"nodes": [], "tables": [], "partitions": [], "replicas": [], "disks": [], "settings": []}


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, clusters=(), pegasus=("peg",), each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.worker_says("peg")
    return made


def put(site, content=None, **more):
    site.put(snapshot_of(content or whole(), taken_at=more.pop("taken_at", now()), **more))


def former(node, drop_time_ms, *, is_back):
    """A former member; one that is not back tells nothing."""
    ballot, committed, prepared = (9, 120, 125) if is_back else (-1, -1, -1)
    return DddNode(node, drop_time_ms, is_back, is_back, ballot, committed, prepared)


def ill():
    """A node is down, a partition is lost, another misses a replica, a table was not read."""
    dropped = [
        former(NODES[3], 1_700_000_000_000, is_back=False),
        former(NODES[1], 1_700_000_100_000, is_back=True),
    ]
    parts = [
        part_row(1, 0, NODES[0], [NODES[1], NODES[2]]),
        part_row(1, 1, NODES[1], [NODES[2]], last_drops=[NODES[3]]),
        part_row(
            1,
            2,
            None,
            last_drops=[NODES[3], NODES[1]],
            last_committed_decree=100,
            ddd_reason="the last dropped node has not come back",
            ddd_dropped=ddd_text(dropped),
        ),
    ]
    tables = [table_row(1, "orders", 3), table_row(2, "unread", 8)]
    return whole(parts, tables=tables, dead=[NODES[3]])


def silent():
    """The meta server tells nodes and tables, and nothing else."""
    content = whole()
    return content | {"partitions": [], "replicas": [], "disks": [], "settings": []}


CONTENTS = {"small": whole, "ill": ill, "silent": silent, "empty": lambda: EMPTY}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("page", PAGES)
def test_page_answers_whatever_the_snapshot_holds(site, page, content):
    put(site, CONTENTS[content]())
    app = site.open(page)
    assert_calm(app)
    assert not app.error


@pytest.mark.parametrize("page", PAGES)
def test_page_of_a_big_cluster_shows_a_bounded_part(site, page):
    site.put(generated(300, 16, 40, taken_at=now()))
    app = site.open(page)
    assert_calm(app)
    for shown in app.dataframe:
        assert len(shown.value) <= 1_000


@pytest.mark.parametrize("page", PAGES)
def test_page_of_a_cluster_that_no_longer_answers_is_called_stale(site, page):
    put(site, taken_at=now() - timedelta(minutes=20))
    site.collector_says(
        "peg",
        {
            "last_success_at": (now() - timedelta(minutes=20)).isoformat(),
            "last_error_at": now().isoformat(),
            "last_error": "No answer from 127.0.0.1:1 within 15 s.",
        },
    )
    app = site.open(page)
    assert_calm(app)
    assert "stale" in texts(app)


@pytest.mark.parametrize("page", PAGES)
def test_page_without_nodes_and_tables_names_the_problems(site, page):
    problem = Problem(code="timeout", place="meta", what="The meta server did not answer.")
    put(site, EMPTY, problems=(problem,))
    app = site.open(page)
    assert_calm(app)
    assert "did not answer" in texts(app)


# -- cluster ------------------------------------------------------------------------------------


def figures_of(app):
    return {metric.label: metric.value for metric in app.metric}


def test_cluster_page_opens_with_the_clusters_name_health_and_balance(site):
    put(site, ill())
    app = site.open("pegasus")
    assert app.title[0].value == "peg"
    figures = figures_of(app)
    assert figures["Partitions healthy"] == "1 / 11"
    assert figures["Nodes alive"] == "3 / 4"
    assert "down: db4:34801" in texts(app)


@pytest.mark.parametrize("tab", cluster_model.TABS)
def test_every_tab_of_the_cluster_is_computed_when_opened(site, tab):
    put(site, ill())
    app = site.open("pegasus", tab=tab)
    assert_calm(app)
    assert not app.error


@pytest.mark.parametrize(
    ("first", "then"), [("Nodes", "Findings"), ("Settings", "Disks"), ("Nodes", "Settings")]
)
def test_tab_that_is_clicked_stays_open_whatever_the_former_one_has_drawn(site, first, then):
    put(site, ill())
    app = site.open("pegasus")
    for tab in (first, then, first, then):
        app.session_state[cluster_model.TAB] = tab
        app.run()
        assert_calm(app)
        assert app.session_state[cluster_model.TAB] == tab


def test_node_clicked_among_the_disks_is_opened_in_the_tab_of_nodes(site):
    put(site)
    app = site.open("pegasus", tab="Disks")
    app.run()
    app.session_state["node"] = NODES[0]  # what the table's callback does
    app.run()
    assert_calm(app)
    assert app.session_state[cluster_model.TAB] == "Nodes"
    assert "/data1" in texts(app)


def nodes_table(app):
    """The table of all nodes, and the names of its columns that are drawn."""
    found = next(one for one in app.dataframe if "primaries_bar" in one.value.columns)
    return found.value, list(found.proto.column_order)


def test_nodes_have_their_deviation_as_a_bar_and_a_line_of_what_was_recorded(site):
    begin = now() - timedelta(minutes=4)
    snapshots = []
    for moment, rate in ((begin, 10.0), (begin + timedelta(minutes=2), 20.0)):
        content = whole()
        for row in content["nodes"]:
            row["get_rate"] = rate
        snapshots.append(snapshot_of(content, taken_at=moment))
    recorded(store_in(site.state_dir), snapshots, "peg")
    put(site)
    rows, shown = nodes_table(site.open("pegasus", view="overview"))
    assert shown[:5] == ["node", "status", "primaries_bar", "primaries_deviation", "trend"]
    assert rows["primaries_deviation"].tolist() == [300.0, -100.0, -100.0, -100.0]
    assert all(one.startswith("data:image/svg") for one in rows["primaries_bar"])
    assert [list(one) for one in rows["trend"]] == [[10.0, 20.0]] * 4


def test_nodes_without_a_record_have_no_column_of_lines(site):
    put(site, ill())
    rows, shown = nodes_table(site.open("pegasus", view="overview"))
    assert "trend" not in shown
    assert rows["primaries_bar"][0] is None  # it is down
    assert "replicas_bar" in nodes_table(site.open("pegasus", view="nodes -d"))[1]


def test_what_each_level_does_is_a_dot_with_its_word(site):
    put(site)
    html = next(
        one.proto.body for one in site.open("pegasus").get("html") if "levels" in one.proto.body
    )
    assert html.count(">yes</span>") == 11
    assert html.count(">no</span>") == 19
    assert 'class="yes at"' in html


def test_rounds_of_lively_are_previewed_before_a_level_is_chosen(site):
    put(site)
    app = site.open("pegasus")
    rows = next(one.value for one in app.dataframe if "move_primary" in one.value.columns)
    assert rows["round"].tolist() == list(range(1, len(rows) + 1))
    assert rows["off"].iloc[-1] < 300  # every primary is on one of four nodes at first
    assert not [one for one in app.button if one.key == "_apply"]


@pytest.mark.parametrize("view", cluster.NODE_VIEWS)
def test_nodes_have_the_columns_of_every_command_of_the_shell(site, view):
    put(site, ill())
    app = site.open("pegasus", view=view)
    assert_calm(app)
    assert not app.error
    assert cluster.NODE_VIEWS[view] in texts(app)


@pytest.mark.parametrize("columns", model.PARTITION_VIEWS)
def test_partitions_of_a_table_have_the_columns_of_app_stat_too(site, columns):
    put(site)
    app = site.open("pegasus_tables", table="temp", columns=columns, view="app_stat")
    assert_calm(app)
    assert not app.error
    assert model.PARTITION_VIEWS[columns] in texts(app)


def test_silent_cluster_is_unknown_and_never_balanced(site):
    put(site, silent())
    app = site.open("pegasus")
    figures = figures_of(app)
    assert "Balance unknown" in texts(app)
    assert figures["Balance operations"] == figures["Primaries"] == "unknown"
    assert figures["Partitions healthy"] == "0 / 4"


def test_another_level_in_the_address_is_previewed_and_may_be_applied(site):
    put(site)
    app = site.open("pegasus", level="lively")
    assert_calm(app)
    assert "Preview: lively" in texts(app)
    assert app.button(key="_apply").label == "Set level to lively…"
    assert figures_of(app)["Meta function level"] == "steady → lively"
    assert not app.button(key="_apply").disabled
    app.button(key="_apply").click().run()
    assert_calm(app)
    assert not app.button(key="_apply_now").disabled  # what lacks is reported when it is pressed
    assert app.text_input(key="_apply_reason")
    assert app.text_input(key="_apply_typed").label == (  # read aloud as it is written
        "Balancing of the whole cluster by the meta server. To confirm, enter peg"
    )


def test_the_stored_level_has_no_preview_but_can_be_set_again_to_clear_proposals(site):
    put(site)
    app = site.open("pegasus", level="steady")
    assert not [one for one in app.button if one.key == "_apply"]
    app.button(key="_set_again").click().run()
    assert_calm(app)
    said = texts(app)
    assert "Preview: steady" in said
    assert "all pending proposals" in said


def test_level_that_was_lost_with_its_leader_is_told(site):
    before = {"level.stored": "500", "level.effective": "lively"}
    put(site, whole(settings=before), taken_at=now() - timedelta(minutes=5))
    put(site, whole(settings={"primary_meta_server": "meta2:34601"}))
    app = site.open("pegasus", tab="Events")
    assert_calm(app)
    assert "leader changed from" in texts(app)


def test_nonsense_level_in_the_address_is_passed_over(site):
    put(site)
    app = site.open("pegasus", level="frozen")
    assert_calm(app)
    assert not [one for one in app.button if one.key == "_apply"]


def test_level_of_a_read_only_cluster_is_previewed_and_says_why_it_is_not_applied(
    tmp_path, monkeypatch
):
    site = Site(tmp_path, clusters=(), pegasus=("peg",))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    put(site)
    app = site.open("pegasus", level="freezed")
    assert app.button(key="_apply").disabled
    assert "peg is read-only" in app.button(key="_apply").help


def test_setting_is_planned_with_its_shell_line(site):
    put(site)
    app = site.open("pegasus", setting="meta.lb.only_move_primary")
    app.text_input(key="_new_server_value").set_value("true").run()
    assert_calm(app)
    assert not app.button(key="_apply").disabled
    app.button(key="_lines").click().run()
    assert "remote_command -t meta-server meta.lb.only_move_primary true" in texts(app)


def test_value_that_a_setting_does_not_take_is_refused_in_a_sentence(site):
    put(site)
    app = site.open("pegasus", setting="meta.live_percentage")
    app.text_input(key="_new_server_value").set_value("many").run()
    assert_calm(app)
    assert "0 to 100" in texts(app)


def test_there_is_one_plan_at_a_time(site):
    put(site)
    app = site.open("pegasus", setting="meta.lb.only_move_primary", level="lively")
    app.text_input(key="_new_server_value").set_value("true").run()
    assert_calm(app)
    assert "Only one plan" in texts(app)
    assert app.button(key="_apply").label == "Set level to lively…"


@pytest.mark.parametrize(
    ("content", "node", "said"),
    [
        (whole, NODES[0], "/data1"),
        (ill, NODES[3], "Disks unknown"),
        (whole, "nobody:1", "Replicas, load and disk space of each node"),
    ],
)
def test_one_node_is_opened_by_the_address(site, content, node, said):
    put(site, content())
    app = site.open("pegasus", node=node)
    assert_calm(app)
    assert said in texts(app)


def test_trends_of_the_nodes_are_of_what_was_recorded(site):
    begin = now() - timedelta(minutes=4)
    moments = [begin, begin + timedelta(minutes=2)]
    snapshots = []
    for moment, counts in zip(moments, ((4, 0, 0, 0), (1, 1, 1, 1)), strict=True):
        content = whole()
        for row, count in zip(content["nodes"], counts, strict=True):
            row["primary_replicas"], row["total_replicas"], row["get_rate"] = count, 3, 10.0
        snapshots.append(snapshot_of(content, taken_at=moment))
    recorded(store_in(site.state_dir), snapshots, "peg")
    config = services.load_config(site.config, ())
    trends = node_trends(config, config.clusters[0], Period(begin - timedelta(hours=1), now()))
    assert trends.primaries == pytest.approx((3.0, 0.0))
    assert trends.replicas == pytest.approx((0.0, 0.0))
    assert trends.requests == pytest.approx((40.0, 40.0))
    assert trends.of_node == dict.fromkeys(NODES, (10.0, 10.0))
    nothing = Period(begin - timedelta(days=9), begin - timedelta(days=8))
    assert node_trends(config, config.clusters[0], nothing).primaries == ()


# -- tables -------------------------------------------------------------------------------------


def test_unhealthy_partitions_of_every_table_come_first_with_their_next_cure(site):
    put(site, ill())
    app = site.open("pegasus_tables")
    said = texts(app)
    assert "2 unhealthy (in orders)" in said
    shown = app.dataframe[0].value
    assert shown["gpid"].tolist() == ["1.2", "1.1"]
    assert shown["state"].tolist() == ["✖ dead", "▲ degraded"]
    assert shown["reason"].str.len().min() > 0


def test_lost_partition_is_diagnosed_with_a_recommendation(site):
    put(site, ill())
    said = texts(site.open("pegasus_tables"))
    assert "1 partition without any replica" in said
    assert f"recommends {NODES[1]}" in said
    assert "ddd_diagnose -g 1.2" in said


def test_healthy_cluster_says_that_nothing_is_to_be_cured(site):
    put(site)
    assert "no pending guardian actions" in texts(site.open("pegasus_tables", tab="Partitions"))


def test_table_of_the_address_shows_its_members_and_partitions(site):
    put(site, ill())
    app = site.open("pegasus_tables", table="orders")
    assert_calm(app)
    assert app.title[0].value == "Table orders"
    assert "app orders -d" in texts(app)
    assert app.dataframe[0].value["gpid"].tolist() == ["1.2", "1.1", "1.0"]


def test_partition_of_the_address_is_shown_alone(site):
    put(site, ill())
    app = site.open("pegasus_tables", table="orders", partition="1")
    assert app.dataframe[0].value["gpid"].tolist() == ["1.1"]
    app = site.open("pegasus_tables", table="orders", partition="77")
    assert_calm(app)
    assert "Unknown partition" in texts(app)


def test_table_that_is_not_there_any_more_shows_every_table(site):
    put(site)
    app = site.open("pegasus_tables", table="gone")
    assert_calm(app)
    assert app.dataframe[0].value["table"].tolist() == ["temp"]


@pytest.mark.parametrize("table", ["", "orders"])
@pytest.mark.parametrize("tab", model.TABS)
def test_every_tab_of_the_tables_is_computed_when_opened(site, tab, table):
    put(site, ill())
    app = site.open("pegasus_tables", tab=tab, table=table)
    assert_calm(app)
    assert not app.error


@pytest.mark.parametrize("view", ["overview", "ls -d", "five states", "guardian", "app_stat"])
def test_every_set_of_columns_names_its_counting_or_command(site, view):
    put(site, ill())
    app = site.open("pegasus_tables", view=view)
    assert_calm(app)
    assert app.dataframe[-1].value["table"].tolist() == ["orders", "unread"]


def test_table_that_was_not_read_says_so_instead_of_zero(site):
    put(site, ill())
    app = site.open("pegasus_tables", table="unread")
    assert_calm(app)
    assert "Unknown partition" in texts(app)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_page_of_the_largest_cluster_is_drawn(site, page):
    site.put(generated(1_000, 64, 100, taken_at=now()))
    for table in ("", "table3"):
        app = site.open(page, table=table)
        assert_calm(app)
