"""What the page of a Pegasus cluster says: answer, figures, nodes, levels, settings."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import numpy as np
import pytest
from pegasus_snapshots import (
    NODES,
    generated,
    part_row,
    setting_rows,
    snapshot_of,
    table_row,
    whole,
)

from core.errors import InputError
from core.pegasus.headline import cluster_sentence, level_sentence
from core.pegasus.levels import FunctionLevel
from core.pegasus.plan.build import level_plan
from core.pegasus.settings import (
    SERVER_SETTING_BY_NAME,
    SERVER_SETTINGS,
    checked_value,
    server_setting,
)
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import summarize_nodes
from core.plan.options import PlanOptions
from core.units import format_deviation
from dashboard.app_pages.pegasus.cluster import model
from dashboard.charts.nodes import node_bars
from dashboard.presenters.freshness import coverage_badge
from dashboard.presenters.pegasus import cluster, headline
from dashboard.presenters.pegasus import fleet as fleet_pegasus


def facts_of(content=None, **more):
    return PegasusFacts(snapshot_of(content or whole(**more)))


def answer(facts):
    return cluster_sentence(facts, facts.verdict())


def ill():
    """One partition misses a replica on a node that is down; a table was not read."""
    parts = [
        part_row(1, 0, NODES[0], [NODES[1], NODES[2]]),
        part_row(1, 1, NODES[0], [NODES[1]], last_drops=[NODES[3]]),
    ]
    return whole(
        parts, tables=[table_row(1, "orders", 2), table_row(2, "unread", 4)], dead=[NODES[3]]
    )


def test_answer_of_a_healthy_cluster_is_one_sentence_of_level_health_and_balance():
    assert answer(facts_of()) == (
        "Level steady; all 4 partitions healthy; all 4 nodes alive. Not balanced: the "
        "balancer counts 3 balance operations in one check; each round at lively recounts them."
    )


def test_partitions_that_refuse_writes_are_not_called_healthy():
    envs = json.dumps({"replica.deny_client_request": "timeout*write"})
    content = whole()
    content["tables"][0]["envs"] = envs
    text = answer(facts_of(content))
    assert " partitions fully replicated, " in text
    assert " unwritable; " in text
    assert "healthy" not in text


def test_answer_of_an_ill_cluster_counts_what_is_ill_down_and_not_read():
    said = answer(facts_of(ill()))
    assert "1 of 6 partitions unhealthy (4 not read)" in said
    assert "3 of 4 nodes alive (down: db4:34801)" in said
    assert "Balance unknown" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Level steady"),
        ({"level.effective": "freezed"}, "Level freezed (steady stored)"),
        (
            {"level.effective": None},
            "Level steady is stored, effective level unknown",
        ),
        ({"level.effective": None, "level.stored": None}, "Level unknown"),
        ({"level.stored": "450"}, "Level steady"),
    ],
)
def test_level_is_said_as_stored_and_in_force(changes, said):
    assert level_sentence(facts_of(settings=changes)) == said


@pytest.mark.parametrize(
    ("changes", "figure", "said"),
    [
        ({}, ("3", "meta server, one check"), "balance_operation_count of one check"),
        ({"balance_operation_count": None}, ("unknown", ""), "did not report"),
        ({"balance_operation_count": '{"total": -1}'}, ("unknown", ""), "reports -1"),
        ({"level.effective": "freezed"}, ("3", "old"), "does not count"),
        (
            {"level.effective": "lively"},
            ("3", "meta server, this round"),
            "Operations of the current round",
        ),
    ],
)
def test_forecast_is_never_more_than_it_is_worth(changes, figure, said):
    *shown, help_text = cluster.forecast(facts_of(settings=changes))
    assert tuple(shown) == figure
    assert said in help_text


def test_forecast_is_stale_while_a_partition_is_not_healthy():
    value, note, help_text = cluster.forecast(facts_of(ill()))
    assert (value, note) == ("3", "stale")
    assert "Unhealthy partitions: 1." in help_text


def figures_of(facts):
    return {one.label: one for one in cluster.key_figures(facts)}


def test_partitions_are_counted_with_those_that_are_not_healthy_or_not_read():
    figure = figures_of(facts_of(ill()))["Partitions healthy"]
    assert (figure.value, figure.status) == ("1 / 6", "bad")
    assert figure.note == "1 degraded, 4 not read"
    healthy = figures_of(facts_of())["Partitions healthy"]
    assert (healthy.value, healthy.status) == ("4 / 4", "ok")


def test_deviation_of_primaries_is_judged_against_the_target():
    figures = figures_of(facts_of())
    assert figures["Primaries"].value == "+300%"  # all four on one of four nodes
    assert figures["Primaries"].status == "bad"
    assert figures["Primaries"].note == "target ±10% · db1:34801"
    assert figures["Replicas"].value == "-33.3%"


def test_subtitle_names_release_leader_and_balancer():
    said = cluster.subtitle(facts_of())
    assert said.startswith("Pegasus ")
    assert "leader meta meta1:34601" in said
    assert said.endswith("balancer: greedy, by table")
    assert cluster.subtitle(facts_of(settings={"balance_cluster": None})).endswith("unknown")


def test_chart_of_a_large_cluster_has_the_nodes_farthest_from_the_mean():
    facts = PegasusFacts(generated(4, 64, 60))
    bars = cluster.node_bars(facts, "replicas")
    assert len(bars.nodes) == cluster.MAX_BARS
    led = facts.columns.counts(primaries_only=True).sum(axis=0)
    assert led.max() in bars.primaries
    assert "24 of 60" in cluster.nodes_note(facts)


def one_node_down():
    """A node is down, 2 of 3 partitions lack its replica, and a new leader has no counts yet."""
    parts = [
        part_row(1, 0, NODES[0], [NODES[1], NODES[2]]),
        part_row(1, 1, NODES[0], [NODES[1]], last_drops=[NODES[3]]),
        part_row(1, 2, NODES[1], [NODES[2]], last_drops=[NODES[3]]),
    ]
    return whole(
        parts,
        tables=[table_row(1, "orders", 3)],
        dead=[NODES[3]],
        settings={"balance_operation_count": '{"total": -1}'},
    )


def test_a_dead_node_and_its_partitions_are_the_reason_and_not_the_disks():
    facts = facts_of(one_node_down())
    assert facts.verdict().sentence == (
        "2 of 3 partitions unhealthy (down: db4:34801): the balancer waits until every partition "
        "is healthy."
    )
    said = answer(facts)
    assert "2 of 3 partitions unhealthy" in said
    assert "3 of 4 nodes alive (down: db4:34801)" in said
    assert "disks" not in said
    assert "Unhealthy partitions: 2." in cluster.forecast(facts)[2]


def test_the_row_of_the_fleet_counts_living_nodes_and_their_primaries():
    facts = facts_of(one_node_down())
    row = fleet_pegasus.pegasus_summary(facts, (), summarize_nodes(facts))
    assert (row.alive, row.nodes) == (3, 4)
    assert row.deviation_ratio == pytest.approx(1.0)  # 2, 1 and 0 primaries on three nodes


def test_a_drained_node_is_named_and_not_compared_on_the_fleet_as_on_the_cluster():
    parts = [part_row(2, at, NODES[at % 2], [NODES[2]], max_replica_count=2) for at in range(4)]
    content = whole(parts, tables=[table_row(2, "temp", 4, max_replica_count=2)])
    ratios = []
    for emptied_at in (None, 1):
        content["nodes"][3]["emptied_at"] = emptied_at
        content["settings"] = setting_rows({"assign_secondary_black_list": NODES[2]})
        facts = facts_of(content)
        row = fleet_pegasus.pegasus_summary(facts, (), summarize_nodes(facts))
        figure = figures_of(facts)["Primaries"]
        assert figure.value == format_deviation(row.deviation_ratio)
        ratios.append(row.deviation_ratio)
    assert ratios == [pytest.approx(-1.0), 0.0]
    assert cluster.nodes_frame(facts)["status"].tolist()[:2] == ["○ drained", "○ excluded"]
    assert figures_of(facts)["Nodes alive"].note == "1 drained, 1 excluded"
    assert "drained: db4:34801" in answer(facts)
    plan = level_plan(facts.snapshot, "lively", PlanOptions(now=datetime.now(UTC)))
    refills = [one.sentence for one in plan.diagnostics if one.code == "fills_set_aside"]
    assert len(refills) == 2
    assert (
        "At level lively the balancer moves replicas to drained nodes again: db4:34801."
    ) in refills


def test_the_badge_of_the_header_names_what_is_down_and_unhealthy():
    facts = facts_of(one_node_down())
    badge = coverage_badge(facts.snapshot.manifest, trouble=headline.trouble(facts))
    assert badge.text == "1 node down, 2 partitions unhealthy"
    assert badge.icon != ":material/task_alt:"
    assert badge.tone == "red"
    assert "db4:34801" in badge.help
    healthy = facts_of()
    assert headline.trouble(healthy) is None


def test_key_figures_of_a_silent_leader_are_unknown():
    silent = dict.fromkeys(
        ("level.stored", "level.effective", "balance_operation_count", "primary_meta_server")
    )
    assert figures_of(facts_of(settings=silent))["Balance operations"].value == "unknown"


def test_dead_nodes_come_first_and_their_numbers_are_unknown_not_zero():
    rows = cluster.nodes_frame(facts_of(ill()))
    assert rows["node"][0] == NODES[3]
    assert rows["status"][0] == "✖ down"
    for column in ("memory_mb", "disk_free_pct", "size_mb", "reads", "writes", "learning"):
        assert np.isnan(rows[column][0]), column
    assert rows["copy_limit"][0] == "unknown"
    assert rows["copy_limit"][1] == "unlimited"
    assert rows["send_limit"][1] == "500 MB/s a disk"


def test_free_space_is_told_of_all_disks_and_of_the_fullest():
    rows = cluster.nodes_frame(facts_of()).set_index("node")
    assert rows["disk_free_pct"][NODES[0]] == 60.0
    assert rows["fullest_free_pct"][NODES[0]] == 40.0


def test_replicas_of_nodes_are_primaries_and_secondaries():
    rows = cluster.nodes_frame(facts_of()).set_index("node")
    told = rows.loc[list(NODES), ["replicas", "primaries", "secondaries"]].to_numpy().tolist()
    assert told == [[4, 4, 0], [2, 0, 2], [2, 0, 2], [4, 0, 4]]


def test_deviation_is_of_the_mean_of_living_nodes_and_unknown_where_a_node_is_down():
    rows = cluster.nodes_frame(facts_of()).set_index("node").loc[list(NODES)]
    assert rows["primaries_deviation"].tolist() == [300.0, -100.0, -100.0, -100.0]
    assert rows["replicas_deviation"].round(1).tolist() == [33.3, -33.3, -33.3, 33.3]
    down = cluster.nodes_frame(facts_of(ill())).set_index("node")["primaries_deviation"]
    assert np.isnan(down[NODES[3]])
    assert down[NODES[0]] == pytest.approx(200.0)  # both primaries of three living nodes


def test_deviation_is_unknown_where_no_primary_is_known():
    content = whole() | {"partitions": [], "replicas": []}
    assert cluster.nodes_frame(facts_of(content))["primaries_deviation"].isna().all()


def test_sparklines_of_nodes_are_by_name_and_of_a_bounded_number(monkeypatch):
    trends = cluster.NodeTrends(of_node={"b": (1.0, 2.0), "a": (3.0,)})
    assert cluster.node_trends(trends, ["a", "c", "b"]) == [(3.0,), (), (1.0, 2.0)]
    monkeypatch.setattr(cluster, "MAX_TRENDS", 1)
    assert cluster.node_trends(trends, ["a", "b"]) == [(3.0,), ()]
    assert cluster.node_trends(cluster.NodeTrends(), ["a"]) == []


@pytest.mark.parametrize("measure", cluster.NODE_MEASURES)
def test_bars_of_every_measure_are_drawn_and_say_who_has_most(measure):
    bars = cluster.node_bars(facts_of(), measure)
    assert node_bars(bars).data
    assert cluster.bars_sentence(bars).startswith(NODES[0])


def test_bars_with_an_unknown_node_say_so_in_the_chart():
    content = whole()
    content["replicas"][0]["size_mb"] = None
    figure = node_bars(cluster.node_bars(facts_of(content), "size_mb"))
    assert [note.text for note in figure.layout.annotations] == ["unknown"]


def test_note_of_nodes_names_tables_that_are_missing():
    assert "1 table not counted" in cluster.nodes_note(facts_of(ill()))
    assert cluster.nodes_note(facts_of()) == ""


# -- one node ---------------------------------------------------------------------------------


def test_disks_of_a_node_tell_what_lies_on_them():
    rows = model.disks_frame(facts_of(), NODES[0])
    assert rows["disk"].tolist() == ["ssd1", "ssd2"]
    assert rows["primaries"].tolist() == [4, 0]
    assert rows["free_pct"].tolist() == [40.0, 80.0]


def test_tables_of_a_node_tell_what_an_even_share_would_be():
    rows = model.carried_frame(facts_of(), NODES[0])
    assert rows["table"].tolist() == ["temp"]
    assert rows["primaries"].tolist() == [4]
    assert rows["even"].tolist() == [1.0]
    assert model.disks_frame(facts_of(ill()), NODES[3]).empty


# -- the tab that is open ----------------------------------------------------------------------

NOTHING = dict.fromkeys(model.TAB_OF, "")


@pytest.mark.parametrize(
    ("at", "changed", "before", "opened"),
    [
        ("", {"node": "a"}, None, "Nodes"),  # an address
        ("Events", {"node": "a"}, None, ""),  # it names the tab itself
        ("Disks", {"node": "a"}, "Disks", "Nodes"),  # a click in a table
        ("Findings", {"view": "overview"}, "Nodes", ""),  # a click on another tab
        ("Preview", {"view": "overview", "level": "lively"}, "Preview", "Nodes"),
        ("Nodes", {"view": "overview", "level": "lively"}, "Nodes", "Preview"),
        ("Nodes", {"view": "overview"}, "Nodes", ""),
        ("Nodes", {}, "Nodes", ""),
    ],
)
def test_tab_follows_what_is_named_outside_of_it_and_never_leaves_a_clicked_one(
    at, changed, before, opened
):
    followed = None if before is None else model.TabState(before, NOTHING)
    assert model.tab_to_open(at, NOTHING | changed, followed) == opened


# -- levels -----------------------------------------------------------------------------------


def test_every_level_has_a_dot_for_each_ability_and_the_effective_one_is_marked():
    html = model.dots(facts_of())
    heads = re.findall(r'<th scope="col" class="( at)?">(\w+)</th>', html)
    assert [word for _, word in heads] == ["stopped", "blind", "freezed", "steady", "lively"]
    assert [word for mark, word in heads if mark] == ["steady"]
    balance = html[html.index(">Balance<") :].partition("</tr>")[0]
    assert re.findall(r">(yes|no)</span>", balance) == ["no", "no", "no", "no", "yes"]


def test_levels_that_differ_are_both_marked():
    facts = facts_of(settings={"level.stored": "500", "level.effective": "freezed"})
    assert model.step_label(facts, FunctionLevel.LIVELY) == "lively (stored)"
    assert model.step_label(facts, FunctionLevel.FREEZED) == "freezed (effective)"
    assert "too few nodes" in model.level_note(facts)
    assert model.level_note(facts_of()) == model.NOT_PERSISTED


def test_change_of_level_says_what_begins_and_what_ends():
    up = " ".join(model.change_sentences(facts_of(), FunctionLevel.LIVELY))
    assert "Enables: balance, delete unused replicas." in up
    down = " ".join(model.change_sentences(facts_of(), FunctionLevel.FREEZED))
    assert "Disables: accept table changes" in down
    assert "Discards all pending proposals" in down


def test_setting_a_level_again_clears_only_at_steady_and_below():
    assert model.may_clear(FunctionLevel.STEADY)
    assert not model.may_clear(FunctionLevel.LIVELY)


# -- settings ---------------------------------------------------------------------------------


def test_setting_that_was_not_told_is_unknown_and_not_its_default():
    rows = model.settings_frame(facts_of(settings={"balance_cluster": None})).set_index("key")
    assert rows["value"]["balance_cluster"] == "unknown"
    assert rows["mark"]["balance_cluster"] == "? unknown"
    assert rows["default"]["balance_cluster"] == "false"


def test_changed_and_empty_settings_are_told_apart_from_defaults():
    facts = facts_of(settings={"only_move_primary": "true"})
    rows = model.settings_frame(facts).set_index("key")
    assert rows["mark"]["meta.lb.only_move_primary"] == "● changed"
    assert rows["origin"]["meta.lb.only_move_primary"] == "remote command"
    assert rows["value"]["meta.lb.ignored_app_list"] == "(empty)"
    assert rows["mark"]["meta.lb.ignored_app_list"] == "default"


def test_limits_of_copying_are_of_every_living_node():
    rows = model.settings_frame(facts_of()).set_index("key")
    assert rows["value"]["nfs.max_send_rate_megabytes_per_disk"] == "500"
    assert rows["origin"]["nfs.max_send_rate_megabytes_per_disk"] == "all alive nodes"


def test_cluster_info_keeps_upstream_order_and_says_unknown():
    rows = model.info_table(facts_of())
    assert list(rows)[:2] == ["cluster_name", "primary_meta_server"]
    assert rows["zookeeper_hosts"] == "unknown"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("balance_cluster", " TRUE ", "true"),
        ("assign_delay_ms", "10", "10"),
        ("meta.live_percentage", "50", "50"),
        ("ignored_app_list", "2,3", "2,3"),
        ("ignored_app_list", "", ""),
        ("assign_secondary_black_list", "db1:34801,db2:34801", "db1:34801,db2:34801"),
    ],
)
def test_value_that_a_setting_takes_is_written_as_upstream_does(name, text, value):
    assert checked_value(SERVER_SETTING_BY_NAME[name], text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("balance_cluster", "maybe"),
        ("assign_delay_ms", "-1"),
        ("meta.live_percentage", "101"),
        ("ignored_app_list", "temp"),
        ("assign_secondary_black_list", "db1"),
        ("lb_interval_ms", "1000"),
    ],
)
def test_value_that_a_setting_does_not_take_is_refused_with_a_remedy(name, text):
    with pytest.raises(InputError) as caught:
        checked_value(SERVER_SETTING_BY_NAME[name], text)
    assert caught.value.hint


def test_settings_are_found_by_name_and_by_upstream_key():
    for one in SERVER_SETTINGS:
        assert server_setting(one.name) is server_setting(one.key) is one
