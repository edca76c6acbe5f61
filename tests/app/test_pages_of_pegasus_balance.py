"""The Balance page of Pegasus clusters: ways side by side, rounds, a move by hand, its states."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from pegasus_snapshots import NODES, generated, part_row, snapshot_of, table_row, whole
from snapshot_site import Site, assert_calm, now, texts

from dashboard.app_pages.pegasus.balance import candidates

CANDIDATES = ["no change", "App policy", "Cluster policy", "Optimizer", "Manual move"]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """One Pegasus cluster on which actions are allowed, with a worker."""
    made = Site(tmp_path, clusters=(), pegasus=("peg",), each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.worker_says("peg")
    return made


def opened(site, snapshot=None, **params):
    site.put(snapshot if snapshot is not None else uneven())
    app = site.open("pegasus_balance", **params)
    assert_calm(app)
    return app


def tab(app, name):
    """Open a tab; only the open one is computed."""
    app.session_state["view"] = name
    app.run()
    assert_calm(app)
    return texts(app)


def uneven(**settings):
    """Every primary of table temp on the first node; each has a secondary elsewhere."""
    return snapshot_of(whole(settings=settings), taken_at=now())


def even_rows():
    return [part_row(2, at, NODES[at], [NODES[at - 1], NODES[at - 2]]) for at in range(4)]


def frame_with(app, column):
    return next(one.value for one in app.dataframe if column in one.value.columns)


def test_every_candidate_is_next_to_the_others_with_what_it_achieves(site):
    app = opened(site)
    rows = frame_with(app, "candidate").set_index("candidate")
    assert list(rows.index) == CANDIDATES
    assert rows.loc["App policy", "mark"] == "configured, off"  # the level is steady
    assert rows.loc["App policy", "next"] > 0
    assert rows.loc["App policy", "primary_stddev"] < rows.loc["no change", "primary_stddev"]
    assert "steady the balancer" in tab(app, "Why")
    assert "least" in {name for one in app.dataframe for name in one.value.columns}


def test_chosen_round_becomes_a_plan_that_holds_the_level_and_may_be_applied(site):
    app = opened(site)
    steps = frame_with(app, "by_hand")
    assert "balance -g 2." in "\n".join(steps["by_hand"])
    assert not app.button(key="_apply").disabled


def test_lively_cluster_is_held_at_steady_for_the_run_unless_told_otherwise(site):
    snapshot = uneven(**{"level.stored": "500", "level.effective": "lively"})
    app = opened(site, snapshot, pick="App policy")
    assert "Level lively" in texts(app)
    assert frame_with(app, "by_hand")["what"][0].startswith("Set the meta level from lively")
    app.toggle(key="hold").set_value(False).run()
    assert_calm(app)
    assert not frame_with(app, "by_hand")["what"][0].startswith("Set the meta level")


def test_balanced_cluster_says_why_there_is_nothing_to_do(site):
    app = opened(site, snapshot_of(whole(even_rows()), taken_at=now()))
    said = texts(app)
    assert "no changes" in said
    assert "balanced within ±1 replica" in tab(app, "Why")
    assert not [one for one in app.button if one.key == "_apply"]


def test_unhealthy_cluster_says_that_repair_comes_first(site):
    parts = [*even_rows()[:3], part_row(2, 3, None, [])]
    app = opened(site, snapshot_of(whole(parts), taken_at=now()))
    assert "server repairs them" in tab(app, "Why")


def test_partitions_that_were_not_read_are_said_and_nothing_is_guessed(site):
    parts = whole()["partitions"][:2]
    app = opened(site, snapshot_of(whole(parts), taken_at=now()))
    assert "Balance unknown." in texts(app)


def test_unknown_disks_are_named_with_what_is_in_doubt(site):
    content = whole()
    for row in content["replicas"]:
        row["disk"] = None
    app = opened(site, snapshot_of(content, taken_at=now()))
    assert "Disk unknown for" in tab(app, "Why")


@pytest.mark.parametrize("pick", ["Cluster policy", "Optimizer", "Manual move"])
def test_every_candidate_can_be_opened_by_its_address(site, pick):
    app = opened(site, pick=pick)
    assert app.session_state["pick"] == pick


def test_switch_is_a_question_and_says_what_it_keeps_from_happening(site):
    app = opened(site, pick="App policy", only_move_primary="true")
    assert "What if" in texts(app)
    assert "Without only_move_primary" in tab(app, "Why")


def test_move_by_hand_names_who_may_take_it_and_why_the_others_may_not(site):
    app = opened(site, pick="Manual move", table="temp", partition="1")
    rows = frame_with(app, "verdict").set_index("node")
    assert rows.loc[NODES[2], "verdict"] == "allowed"
    assert "is the primary" in rows.loc[NODES[0], "verdict"]
    assert "has no secondary" in rows.loc[NODES[1], "verdict"]
    lines = frame_with(app, "by_hand")["by_hand"].tolist()
    assert lines[-1].startswith("balance -g 2.1 -p move_pri -f db1:34801 -t ")


def test_one_table_is_a_part_that_can_be_taken(site):
    parts = whole()["partitions"]
    more = [part_row(3, at, NODES[0], [NODES[1], NODES[2]]) for at in range(4)]
    tables = [table_row(2, "temp", 4), table_row(3, "stat", 4)]
    snapshot = snapshot_of(whole([*parts, *more], tables=tables), taken_at=now())
    app = opened(site, snapshot, table="stat")
    lines = frame_with(app, "by_hand")["by_hand"].tolist()
    assert lines
    assert all(" -g 3." in line for line in lines)


def test_large_cluster_answers_at_once_and_follows_the_rounds_beside_the_page(site):
    app = opened(site, generated(100, 64, 12, taken_at=now()))
    assert frame_with(app, "candidate").set_index("candidate").loc["App policy", "next"] > 0


def test_plan_stays_in_the_action_bar_behind_every_tab(site):
    app = opened(site)
    figures = {one.label: one.value for one in app.metric}
    for name in ("Compare", "Why", "Cost"):
        tab(app, name)
        assert not app.button(key="_apply").disabled
        assert {one.label: one.value for one in app.metric} == figures


def test_shell_lines_have_the_command_that_shows_the_same(site):
    app = opened(site, pick="Optimizer")
    app.button(key="_lines").click().run()
    assert_calm(app)
    assert "trimtab pegasus even peg" in texts(app)


def test_the_headline_is_of_the_selected_candidate_and_the_bar_names_the_rounds(site):
    app = opened(site, pick="Optimizer")
    assert "Optimizer: " in texts(app)
    assert "app policy:" not in texts(app)
    assert "At lively, cluster policy: max deviation" in texts(
        site.open("pegasus_balance", pick="Cluster policy")
    )


@pytest.mark.parametrize("pick", ["App policy", "Cluster policy", "Optimizer"])
def test_each_count_of_changes_has_its_own_name_and_the_headline_has_none(site, pick):
    app = opened(site, pick=pick)
    assert {"Balance operations", "Plan steps"} <= {one.label for one in app.metric}
    (headline,) = (one for one in texts(app).splitlines() if one.startswith(("Level ", pick + ":")))
    assert re.search(
        r"max deviation of primaries \+[\d.]+% → [+-]?[\d.]+%, (within|outside)", headline
    )
    assert "copied" in headline
    assert not re.search(r"\d+ (role )?change", headline)


def test_the_recommended_candidate_is_the_default_until_a_person_chooses(site):
    app = opened(site)
    rows = frame_with(app, "candidate").set_index("candidate")["mark"]
    (best,) = (name for name, mark in rows.items() if "recommended" in mark)
    assert app.session_state["pick"] == best
    assert "pick" not in app.query_params
    other = "App policy" if best == "Optimizer" else "Optimizer"
    assert opened(site, pick=other).query_params["pick"] == other
    assert opened(site, pick=best).query_params["pick"] == best


@pytest.mark.parametrize(("row", "pick"), [(2, "Cluster policy"), (4, "Manual move"), (0, None)])
def test_a_selected_row_chooses_its_candidate_and_doing_nothing_chooses_none(
    monkeypatch, row, pick
):
    session_state = {"candidates": {"selection": {"rows": [row], "columns": []}}}
    address = {}
    state_of_page = SimpleNamespace(session_state=session_state, query_params=address)
    monkeypatch.setattr(candidates, "st", state_of_page)
    candidates._choose_row(CANDIDATES)
    assert session_state.get("pick") == address.get("pick") == pick
