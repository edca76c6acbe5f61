"""The Maintenance page of Pegasus clusters: operations, their checks and steps, a run under way."""

from __future__ import annotations

import pytest
from pegasus_snapshots import NODES, part_row, snapshot_of, whole
from snapshot_site import Site, assert_calm, now, texts

from core.access import Identity
from core.actions.model import RunOptions
from core.pegasus.plan.maintenance import migrate_plan
from core.plan.options import PlanOptions
from dashboard import services


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, clusters=(), pegasus=("peg",), each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.worker_says("peg")
    return made


def healthy(**more):
    """Eight partitions over four nodes; every node leads two."""
    rows = [
        part_row(2, at, NODES[at % 4], [NODES[(at + 1) % 4], NODES[(at + 2) % 4]])
        for at in range(8)
    ]
    tables = [whole()["tables"][0] | {"partition_count": 8}]
    return snapshot_of(whole(rows, tables=tables, **more), taken_at=now())


def opened(site, snapshot=None, **params):
    site.put(snapshot if snapshot is not None else healthy())
    app = site.open("pegasus_maintenance", **params)
    assert_calm(app)
    return app


def steps(app):
    table = next(one.value for one in app.dataframe if "by_hand" in one.value.columns)
    return table["what"].tolist()


def test_nothing_is_planned_before_a_node_is_chosen(site):
    app = opened(site)
    said = texts(app)
    assert "nodes alive." not in said  # a figure has it
    assert "Select a node" in said


def test_what_the_address_names_and_nothing_has_is_said_once(site):
    app = opened(site, pick="Burn", node=["db9:34801"])
    told = " ".join(toast.value for toast in app.toast)
    assert "'Burn'" in told
    app.segmented_control(key="pick").set_value("Drain").run()
    told = " ".join(toast.value for toast in app.toast)
    assert "Burn" not in told


def test_what_is_refused_has_no_numbers_after_it(site):
    app = opened(site, pick="Drain", node=list(NODES))
    assert app.error
    assert not [one for one in app.dataframe if "replicas_after" in one.value.columns]


def test_draining_a_node_shows_every_wait_and_what_is_put_back(site):
    app = opened(site, pick="Drain", node=[NODES[0]])
    orders = steps(app)
    assert any(one.startswith("Move 2 primaries off db1:34801") for one in orders)
    assert any("Wait until db1:34801" in one for one in orders)
    assert (
        "Restored when the run ends, also after a failure: meta.lb.assign_secondary_black_list"
        in texts(app)
    )
    assert not app.button(key="_apply").disabled
    app.button(key="_lines").click().run()
    assert f"trimtab pegasus drain peg {NODES[0]}" in texts(app)


def test_rolling_update_takes_every_living_node_and_says_when_a_person_must_act(site):
    app = opened(site, pick="Rolling update")
    said = texts(app)
    assert "server of db3:34801" in said
    app.session_state["_maintenance_plan"] = "Notes"
    app.run()
    assert "4 restarts" in texts(app)


def test_rebalance_lets_the_clusters_own_balancer_work_and_waits(site):
    app = opened(site, pick="Rebalance to convergence")
    assert any("steady to lively" in one for one in steps(app))


def test_too_few_nodes_left_is_said_before_anything_is_asked(site):
    app = opened(site, pick="Take offline", node=list(NODES[:2]))
    assert app.error
    assert app.button(key="_apply").disabled


def test_unhealthy_cluster_and_dead_nodes_are_told(site):
    parts = [part_row(2, at, NODES[0], [NODES[1]]) for at in range(8)]
    tables = [whole()["tables"][0] | {"partition_count": 8}]
    rows = whole(parts, tables=tables, dead=[NODES[3]])
    app = opened(site, snapshot_of(rows, taken_at=now()), pick="Drain", node=[NODES[0]])
    assert "Down: db4:34801." in texts(app)
    assert app.button(key="_apply").disabled


def test_operation_on_one_node_keeps_the_first_of_many_chosen_before(site):
    app = opened(site, pick="Drain", node=list(NODES[:2]))
    app.segmented_control(key="pick").set_value("Migrate primaries").run()
    assert_calm(app)
    assert any("off db1:34801" in one for one in steps(app))


def test_run_under_way_is_shown_with_what_may_be_asked_of_it(site):
    snapshot = healthy()
    site.put(snapshot)
    config = services.load_config(site.config, ())
    plan = migrate_plan(snapshot, NODES[0], PlanOptions(now=now()))
    run = services.request_run(
        config, "peg", plan, "new disks", RunOptions(), Identity(name="alice")
    )
    app = opened(site, pick="Drain", node=[NODES[1]])
    assert f"Run {run} in progress." in texts(app)
    assert app.button(key="_open_going").label == f"Open run {run}"
    assert app.button(key="_apply").disabled


def test_the_deviation_after_a_drain_is_of_the_remaining_nodes_and_the_time_is_in_the_sentence(
    site,
):
    app = opened(site, pick="Drain", node=[NODES[0]])
    figure = next(one for one in app.metric if "→" in one.value)
    assert figure.delta == "max deviation, remaining nodes"
    assert "-100%" not in figure.value
    said = next(one.value for one in app.markdown if one.value.startswith("Moves "))
    assert "copied onto" in said
