"""Runs on a Pegasus cluster: activity, the run's page, and the page that takes one back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pegasus_snapshots import NODES, part_row, snapshot_of, whole
from snapshot_site import Site, assert_calm, now, texts

from core.actions.events import (
    Event,
    MeasuredNode,
    Record,
    RunClaimed,
    RunEnded,
    RunMeasured,
    RunRequested,
    StepEnded,
    StepStarted,
)
from core.actions.model import Observation, RunId, RunOptions, StepResult
from core.pegasus.plan.build import RequestedMove, level_plan, moves_plan
from core.plan.options import CopyRate, PlanOptions
from dashboard import services
from dashboard.cli.main import run
from dashboard.presenters.pegasus.outcome import subject_page
from dashboard.queries.pegasus.copies import measured_rate

RUN = RunId("20261121-120000-aaaaaa")
BEGAN_S = 60.0


def moved():
    """The cluster after the primary of 2.1 went to the second of its nodes."""
    content = whole()
    content["partitions"][1] = part_row(2, 1, NODES[3], [NODES[0], NODES[2]], ballot=6)
    return content


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, pegasus=("peg",), each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.worker_says("peg")
    return made


@pytest.fixture
def plan():
    before = snapshot_of(whole(), taken_at=now() - timedelta(seconds=BEGAN_S))
    asked = [RequestedMove("2.1", "move_pri", NODES[0], NODES[3])]
    return moves_plan(before, asked, PlanOptions(now=now() - timedelta(seconds=BEGAN_S)))


def tell(site, *events: Event) -> None:
    journal = services.journal(services.load_config(site.config, ()))
    at = now() - timedelta(seconds=BEGAN_S)
    for event in events:
        at += timedelta(seconds=0.5)
        journal.append(Record(run_id=RUN, cluster="peg", at=at, actor="worker-1", event=event))


def seen(primary: str, ballot: int) -> Observation:
    return Observation(exists=True, holder=primary, token=str(ballot))


def done_story(site, plan) -> None:
    tell(
        site,
        RunRequested(plan=plan, options=RunOptions(), reason="level the peak"),
        RunClaimed(worker="worker-1", lease="here"),
        StepStarted(step=0, observed=seen(NODES[0], 4)),
        StepEnded(
            step=0,
            took_ms=900.0,
            result=StepResult(
                state="DONE",
                code="moved",
                sentence="The primary of 2.1 moved.",
                after=seen(NODES[3], 6),
            ),
        ),
        RunEnded(state="DONE", sentence="1 of 1 step done."),
        RunMeasured(
            snapshot_id="later",
            taken_at=now(),
            usage_deviation=None,
            throughput_deviation=None,
            nodes=(MeasuredNode(node=NODES[0], primaries=3, replicas=4),),
        ),
    )


def table_with(app, column):
    return next(one.value for one in app.dataframe if column in one.value.columns)


def test_a_queued_run_is_told_with_its_partition_and_nodes(site, plan):
    tell(site, RunRequested(plan=plan, options=RunOptions(), reason="level the peak"))
    app = site.open("run", run=RUN, view="Commands")
    assert_calm(app)
    row = table_with(app, "asked").iloc[0]
    assert (row["bundle"], row["before"]) == ("2.1", NODES[0])
    assert "primary of 2.1" in row["asked"]
    assert "balance -g 2.1 -p move_pri" in texts(app)


def test_a_done_run_shows_nodes_before_expected_and_counted(site, plan):
    site.put(snapshot_of(moved(), taken_at=now()))
    done_story(site, plan)
    app = site.open("run", run=RUN)
    assert_calm(app)
    assert not app.error
    steps = table_with(app, "asked").iloc[0]
    assert (steps["state"], steps["after"]) == ("● done", NODES[3])
    nodes = table_with(app, "primaries_before").set_index("node")
    first = nodes.loc[NODES[0]]
    assert (first["primaries_before"], first["primaries_expected"]) == (4, 3)
    assert first["primaries_came"] == 3
    assert nodes.isna().loc[NODES[3], "primaries_came"]


def figure(app, label):
    """Value and note of a key figure."""
    found = next(one for one in app.metric if one.label == label)
    return found.value, found.delta


def test_run_that_changes_roles_copies_nothing(site, plan):
    done_story(site, plan)
    app = site.open("run", run=RUN)
    assert figure(app, "Copied") == ("0 B", "")
    assert figure(app, "Copies predicted") == ("0 B", "")


def test_run_shows_what_is_copied_so_far_apart_from_what_was_predicted(site, capsys):
    content = whole()
    for row in content["disks"]:
        row["available_mb"] = 900_000
    asked = [
        RequestedMove("2.0", "copy_pri", NODES[0], NODES[2]),
        RequestedMove("2.1", "copy_sec", NODES[3], NODES[1]),
    ]
    plan = moves_plan(snapshot_of(content), asked, PlanOptions(now=now()))
    ended = StepResult(state="DONE", code="moved", sentence="Copied.")
    tell(
        site,
        RunRequested(plan=plan, options=RunOptions(), reason="make room"),
        RunClaimed(worker="worker-1", lease="here"),
        StepStarted(step=0, observed=seen(NODES[0], 4)),
        StepEnded(step=0, took_ms=2_000.0, result=ended),
    )
    app = site.open("run", run=RUN)
    assert_calm(app)
    assert figure(app, "Copied so far") == ("10 MB", "")
    assert figure(app, "Copies predicted") == ("20 MB", "")
    assert figure(app, "Copy rate") == ("5 MB/s", "")
    config = services.load_config(site.config, ())
    assert measured_rate(config, "peg") == CopyRate(5.0, "the last copy here")
    run(["runs", RUN, "--config", str(site.config)])
    assert "Copied so far: 10 MB, predicted 20 MB, rate 5 MB/s." in capsys.readouterr().out


def test_activity_lists_runs_of_both_systems_by_cluster(site, plan):
    done_story(site, plan)
    app = site.open("activity")
    assert_calm(app)
    rows = table_with(app, "outcome")
    assert rows["cluster"].tolist() == ["peg"]
    assert rows["done"].tolist() == [1]
    entries = site.open("activity", view="Journal")
    assert_calm(entries)
    assert "2.1" in table_with(entries, "what").to_csv()


def test_undo_leads_to_the_plan_that_moves_the_primary_back(site, plan):
    site.put(snapshot_of(moved(), taken_at=now()))
    done_story(site, plan)
    app = site.open("run", run=RUN)
    app.button(key="_undo").click().run()
    assert_calm(app)
    assert not app.error
    said = texts(app)
    assert f"Undo run {RUN}" in said
    assert f"Move the primary of 2.1 (temp) from {NODES[3]} to {NODES[0]}" in said
    assert app.button(key="_apply").label == "Apply undo…"
    assert not app.button(key="_apply").disabled


def test_undo_waits_for_a_snapshot_from_after_the_run(site, plan):
    site.put(snapshot_of(whole(), taken_at=now() - timedelta(seconds=BEGAN_S)))
    done_story(site, plan)
    app = site.open("pegasus_undo", undo=RUN)
    assert_calm(app)
    assert "predates the end of run" in texts(app)


def test_undo_of_what_is_as_it_was_is_refused_with_the_reason(site, plan):
    site.put(snapshot_of(whole(), taken_at=now()))
    done_story(site, plan)
    app = site.open("pegasus_undo", undo=RUN)
    assert_calm(app)
    assert "2.1 is already as before" in texts(app)


@pytest.mark.parametrize(
    ("run", "said"),
    [("", "Select the run to undo"), ("nobody", "Run nobody is not in the journal")],
)
def test_undo_of_no_run_says_so(site, run, said):
    site.put(snapshot_of(whole(), taken_at=now()))
    app = site.open("pegasus_undo", **({"undo": run} if run else {}))
    assert_calm(app)
    assert said in texts(app)


def test_subjects_open_the_page_that_shows_them(site, plan):
    done_story(site, plan)
    view = services.run_view(services.load_config(site.config, ()), RUN)
    opened = ("pegasus_tables", {"table": "temp", "partition": "1"})
    assert subject_page(view, "2.1") == opened
    assert subject_page(view, "9.9") is None


def test_a_change_of_level_opens_the_cluster_page(site):
    plan = level_plan(snapshot_of(whole()), "lively", PlanOptions(now=now()))
    tell(site, RunRequested(plan=plan, options=RunOptions(), reason="balance"))
    view = services.run_view(services.load_config(site.config, ()), RUN)
    assert subject_page(view, "meta level") == ("pegasus", {})
    app = site.open("run", run=RUN, view="Commands")
    assert_calm(app)
    assert "set_meta_level lively" in texts(app)


def test_the_header_of_a_run_is_that_of_its_cluster_whatever_was_chosen_before(site, plan):
    site.put(snapshot_of(moved(), taken_at=now()))
    done_story(site, plan)
    app = site.open("run", run=RUN, cluster="fleet")
    assert_calm(app)
    assert app.selectbox(key="cluster").options == ["peg · Pegasus"]
    assert app.selectbox(key="cluster").value == "peg"


def test_the_header_offers_every_cluster_while_no_run_is_known(site):
    site.put(snapshot_of(moved(), taken_at=now()))
    app = site.open("run", run="20261121-120000-bbbbbb", cluster="fleet")
    assert_calm(app)
    assert app.selectbox(key="cluster").value == "fleet"
    assert len(app.selectbox(key="cluster").options) > 1
