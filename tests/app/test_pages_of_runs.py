"""Applying, watching, stopping, undoing and finding runs, on the pages."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from fleet_builder import make_history, make_snapshot
from fleet_edit import with_settings
from pydantic import SecretStr
from run_stories import Story, movable
from snapshot_site import PAGES, Site, assert_calm, now, texts

from connectors.systems import plans_of
from core.actions.events import ControlRequested, RunEnded, RunRequested, StepEnded, StepStarted
from core.actions.model import Observation, RunId, StepResult
from core.plan.model import sealed
from core.plan.options import PlanOptions
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.setting import build_setting_plan
from core.pulsar.steps.split import SplitBundle
from dashboard import services
from dashboard.presenters import workers
from dashboard.queries import runs
from dashboard.services.access import local_identity

STATES = (
    "queued", "claimed", "running", "paused", "failed", "unknown", "refused", "done", "measured",
)  # fmt: skip
APPLY, GO = "_apply", "_apply_now"
SHEDS = (None, "loadBalancerSheddingEnabled", "true", "default")
HOURLY = "loadBalancerHostUsageCheckIntervalMinutes"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """One cluster on which actions are allowed, with a worker."""
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.worker_says()
    # a slow machine draws longer than a worker may be silent
    monkeypatch.setattr(workers, "LOST_AFTER_S", 60.0)
    return made


@pytest.fixture
def snapshot(site):
    made = make_snapshot(brokers=6, bundles=60, now=now())
    site.put(made)
    return made


def entries(site):
    return services.journal(services.load_config(site.config, ())).entries()


def figures(app):
    """The key figures of a page, by their labels."""
    return {one.label: one.value for one in app.metric}


def apply_button(app):
    return app.button(key=APPLY)


def fill(app, *, reason="level the peak", typed=None):
    """Type into the form of the dialog: it is sent together with the click."""
    app.text_input(key="_apply_reason").set_value(reason)
    if typed is not None:
        app.text_input(key="_apply_typed").set_value(typed)


# -- from the preview to a run ---------------------------------------------------------------------


def test_a_step_that_the_plan_does_not_have_leaves_the_address(site, snapshot):
    first, second, gone = movable(snapshot, 3)
    app = site.open("unload", bundles=[first, second], step=gone)
    assert_calm(app)
    assert "step" not in app.query_params
    app = site.open("unload", bundles=[first], step=second)
    assert_calm(app)
    assert "step" not in app.query_params
    app = site.open("unload", bundles=[first, second], step=second)
    assert app.selectbox(key="step").value == second


def test_plan_that_is_shown_is_the_plan_that_is_requested(site, snapshot):
    app = site.open("unload", bundles=movable(snapshot, 1))
    apply_button(app).click().run()
    assert_calm(app)
    assert "Plan" in texts(app)
    fill(app)
    app.button(key=GO).click().run()
    assert_calm(app)
    (entry,) = entries(site)
    event = entry.record.event
    assert isinstance(event, RunRequested)
    assert event.plan.short_id in texts(app)
    assert [step.bundle for step in event.plan.steps] == movable(snapshot, 1)
    assert event.reason == "level the peak"
    assert entry.record.actor == local_identity(is_page=True).name
    assert app.title[0].value.startswith("Run 2")
    assert "Starting:" in texts(app)


def test_nothing_is_requested_before_a_reason_is_given(site, snapshot):
    app = site.open("unload", bundles=movable(snapshot, 1))
    apply_button(app).click().run()
    fill(app, reason="   ")
    app.button(key=GO).click().run()
    assert "Enter a reason" in " ".join(one.value for one in app.error)
    assert not entries(site)


@pytest.mark.parametrize("count", [4, 6])
def test_many_bundles_are_confirmed_by_typing_the_name_of_the_cluster(site, snapshot, count):
    app = site.open("unload", bundles=movable(snapshot, count))
    apply_button(app).click().run()
    fill(app, typed="fleet2")
    app.button(key=GO).click().run()
    assert "cluster name fleet" in " ".join(one.value for one in app.error)
    assert not entries(site)
    fill(app, typed="fleet")
    app.button(key=GO).click().run()
    assert len(entries(site)) == 1


def test_double_click_requests_one_run(site, snapshot):
    app = site.open("unload", bundles=movable(snapshot, 1))
    apply_button(app).click().run()
    fill(app)
    go = app.button(key=GO)
    go.click().run()
    config = services.load_config(site.config, ())
    (entry,) = entries(site)
    again = runs.request(config, entry.record.event.plan, "again", entry.record.event.options)
    assert again == entry.record.run_id
    assert len(entries(site)) == 1


def test_dialog_keeps_its_plan_when_a_newer_snapshot_comes(site, snapshot):
    app = site.open("unload", bundles=movable(snapshot, 1))
    apply_button(app).click().run()
    said = next(one.value for one in app.caption if "Plan `" in one.value)
    first = said.partition("Plan `")[2].partition("`")[0]
    site.put(make_snapshot(brokers=6, bundles=60, now=now() + timedelta(seconds=1)))
    fill(app)
    app.button(key=GO).click().run()
    (entry,) = entries(site)
    assert entry.record.event.plan.short_id == first


def test_cancel_asks_for_nothing(site, snapshot):
    app = site.open("unload", bundles=movable(snapshot, 1))
    apply_button(app).click().run()
    app.button(key="_apply_cancel").click().run()
    assert_calm(app)
    assert not [one for one in app.button if one.key == GO]
    assert not entries(site)


def test_pause_is_not_offered_where_shedding_is_off_already(site, snapshot):
    app = site.open("unload", bundles=movable(snapshot, 1))
    apply_button(app).click().run()
    assert not [one for one in app.checkbox if one.key == "_apply_pause"]


def test_pace_and_pause_are_part_of_the_request(site):
    snapshot = with_settings(make_snapshot(brokers=6, bundles=60, now=now()), SHEDS)
    site.put(snapshot)
    app = site.open("unload", bundles=movable(snapshot, 2))
    apply_button(app).click().run()
    app.number_input(key="_apply_pace").set_value(2.5)
    app.checkbox(key="_apply_pause").check()
    fill(app)
    app.button(key=GO).click().run()
    options = entries(site)[0].record.event.options
    assert options.pace_per_min == 2.5
    assert options.pause_balancer


def test_a_plan_of_one_step_has_no_pace(site, snapshot):
    app = site.open("unload", bundles=movable(snapshot, 1))
    apply_button(app).click().run()
    assert_calm(app)
    assert not {"_apply_pace", "_apply_canary"} & {one.key for one in app.number_input}


# -- when it must not be applied -------------------------------------------------------------------


def refused(app, words):
    assert_calm(app)
    assert apply_button(app).disabled
    assert words in texts(app) + apply_button(app).help.replace("\\", "")


def test_read_only_cluster_says_so_and_how_to_change_it(tmp_path, monkeypatch):
    site = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    site.worker_says()
    snapshot = make_snapshot(brokers=6, bundles=60, now=now())
    site.put(snapshot)
    app = site.open("unload", bundles=movable(snapshot, 1))
    refused(app, "read_only = false")
    assert "live, read-only" in texts(app)


def test_without_a_worker_nothing_is_queued(site, snapshot):
    site.worker_says(silent_s=90)
    app = site.open("unload", bundles=movable(snapshot, 1))
    refused(app, "trimtab worker fleet")
    assert "last seen" in texts(app)


def test_second_run_waits_for_the_first(site, snapshot):
    Story(site, snapshot).running()
    refused(site.open("unload", bundles=movable(snapshot, 1)), "Only one run per cluster")


def test_past_snapshot_is_not_applied(site):
    history = make_history(3, brokers=6, bundles=60, now=now())
    site.put(*history)
    at = history[0].manifest.taken_at.strftime("%Y-%m-%d %H:%M:%S")
    refused(
        site.open("unload", bundles=movable(history[0], 1), at=at),
        "Plans require the newest snapshot",
    )


def test_errored_plan_is_not_applied(site, snapshot):
    name = movable(snapshot, 1)[0]
    app = site.open("unload", bundles=[name, name[:-1] + "z"])
    refused(app, "cannot be applied")


def test_plan_that_expires_in_the_open_dialog_is_not_requested(site, snapshot, monkeypatch):
    app = site.open("unload", bundles=movable(snapshot, 1))
    apply_button(app).click().run()
    fill(app)
    later = now() + timedelta(minutes=20)
    monkeypatch.setattr(services, "now", lambda: later)
    site.worker_says(silent_s=-1200.0)
    app.button(key=GO).click().run()
    assert_calm(app)
    assert "Create a new plan" in texts(app)
    assert not entries(site)


def test_read_only_is_said_before_there_is_a_snapshot(tmp_path, monkeypatch):
    site = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    assert "read-only" in texts(site.open("fleet"))


def test_a_collector_reads_the_plans_with_steps_between_two_snapshots(site, snapshot):
    story = Story(site, snapshot).running()
    config = services.load_config(site.config, ())
    plans = plans_of(config, config.cluster(story.cluster))
    assert plans(story.began, now()) == [story.plan]
    assert plans(story.began - timedelta(hours=1), story.began) == []
    broken = config.model_copy(update={"journal_url": SecretStr("nonsense://x/y")})
    assert plans_of(broken, config.cluster(story.cluster))(story.began, now()) == []


# -- the run page ----------------------------------------------------------------------------------


@pytest.mark.parametrize("told", STATES)
def test_run_page_shows_a_run_in_every_state(site, snapshot, told):
    story = Story(site, snapshot)
    getattr(story, told)()
    app = site.open("run", run=story.run_id, view="Commands")
    assert_calm(app)
    said = texts(app)
    assert story.run_id in said
    assert story.reason in said
    assert f"trimtab runs {story.run_id}" in said
    assert all(step.bundle in said for step in story.plan.steps)
    assert len([table for table in app.dataframe if "predicted" in table.value]) == 1


def test_run_page_names_unsigned_entries(site, snapshot):
    story = Story(site, snapshot)
    story.claimed()
    assert "signature" not in texts(site.open("run", run=story.run_id))
    story.is_signed = False
    story.tell(ControlRequested(control="pause"), "eve")
    said = texts(site.open("run", run=story.run_id))
    assert "Not genuine: 1 entry (3)" in said


@pytest.mark.parametrize(
    "told",
    [
        "running",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("queued", "failed", "measured")),
    ],
)
@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_calm_beside_a_run_in_every_state(site, snapshot, page, told):
    story = Story(site, snapshot)
    getattr(story, told)()
    params = {
        "bundle": {"bundle": story.step(0).bundle, "view": "Events"},
        "broker": {"broker": story.step(0).owner, "view": "Events"},
    }
    app = site.open(page, **params.get(page, {}))
    assert_calm(app)
    if page in params:
        assert story.run_id in texts(app)


def test_run_page_without_a_snapshot_works(site, snapshot, tmp_path):
    story = Story(site, snapshot).done()
    for folder in (site.state_dir / "snapshots" / "fleet").iterdir():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    assert_calm(site.open("run", run=story.run_id))
    assert "no snapshot" not in texts(site.open("activity"))


def test_failed_step_is_told_in_full_with_what_to_do(site, snapshot):
    story = Story(site, snapshot).failed()
    app = site.open("run", run=story.run_id)
    said = texts(app)
    assert "409 The bundle is being split. Wait for the split, then plan its parts." in said
    shown = figures(app)
    assert shown["State"] == "failed"
    assert shown["Done"] == "1 of 3"
    assert shown["Failed"] == "1"
    assert "has not started" not in said


def test_landing_elsewhere_offers_the_next_move(site, snapshot):
    brokers = snapshot.brokers["broker"].to_pylist()
    stories = (Story(site, snapshot, destination=broker) for broker in brokers)
    story = next(one for one in stories if len(one.plan.steps) > 1).done()
    target = story.destination
    app = site.open("run", run=story.run_id)
    assert_calm(app)
    step = story.step(1)
    app.button(key=f"_next_{step.bundle}").click().run()
    assert_calm(app)
    assert app.title[0].value == "Unload"
    assert app.multiselect(key="bundles").value == [step.bundle]
    assert app.selectbox(key="to").value == target


@pytest.mark.parametrize(
    ("told", "control"), [("running", "pause"), ("paused", "resume"), ("running", "stop")]
)
def test_control_is_asked_for_once_and_shown_as_pending(site, snapshot, told, control):
    story = Story(site, snapshot)
    getattr(story, told)()
    app = site.open("run", run=story.run_id)
    app.button(key=f"_{control}").click().run()
    assert_calm(app)
    asked = [one.record.event for one in entries(site)][-1]
    me = local_identity(is_page=True)
    assert (asked.control, asked.identity) == (control, me)
    assert asked.signature
    assert f"{control.capitalize()} requested by {me.name}" in texts(app)


def test_run_that_nobody_carries_out_says_how_to_start_a_worker(site, snapshot):
    site.worker_says(silent_s=60)
    story = Story(site, snapshot).running()
    app = site.open("run", run=story.run_id)
    assert "trimtab worker fleet" in texts(app)


@pytest.mark.parametrize("run", ["", "20200101-000000-ffffff"])
def test_unknown_run_leads_to_the_activity(site, snapshot, run):
    app = site.open("run", run=run)
    assert_calm(app)
    next(one for one in app.button if one.label == "Runs").click().run()
    assert app.title[0].value == "Runs"


def test_predicted_stands_beside_measured(site, snapshot):
    app = site.open("run", run=Story(site, snapshot).measured().run_id)
    assert figures(app)["Measured deviation"] == "+12.3%"
    assert "5 MB/s" in texts(app)
    assert app.get("plotly_chart")


# -- undo ------------------------------------------------------------------------------------------


def test_undo_previews_the_inverse_and_is_applied_like_any_plan(site, snapshot):
    story, later = story_that_can_be_undone(site, snapshot)
    step = story.done().step(0)
    site.put(later)  # the next snapshot has the bundle where the run left it
    app = site.open("run", run=story.run_id)
    app.button(key="_undo").click().run()
    assert_calm(app)
    assert app.title[0].value == "Undo"
    assert f"Undo of run {story.run_id}" in texts(app).replace("*", "")
    apply_button(app).click().run()
    fill(app, reason="it was a mistake")
    app.button(key=GO).click().run()
    assert_calm(app)
    event = entries(site)[-1].record.event
    assert isinstance(event, RunRequested)
    assert event.undoes == story.run_id
    assert [(one.bundle, one.destination) for one in event.plan.steps] == [
        (step.bundle, step.owner)
    ]
    assert f"Undo of run {story.run_id}" in [one.label for one in app.button]


def story_that_can_be_undone(site, snapshot):
    """A run of one bundle that no policy keeps from its broker, and the fleet after it."""
    for skip in range(40):
        story = Story(site, snapshot, steps=1, skip=skip)
        if story.plan.steps:
            step = story.step(0)
            later = moved(snapshot, step.bundle, step.likely[0])
            back = build_unload_plan(later, [step.bundle], now=now(), destination=step.owner)
            if back.applyable:
                return story, later
    raise AssertionError("no bundle of the fleet may go back")


def moved(snapshot, bundle, broker):
    """The same fleet a moment later, with one bundle at another broker."""
    table = snapshot.bundles
    owners = table["owner"].to_pylist()
    owners[table["bundle"].to_pylist().index(bundle)] = broker
    at = table.schema.get_field_index("owner")
    table = table.set_column(at, table.schema.field(at), pa.array(owners, pa.string()))
    return replace(
        snapshot,
        tables={**snapshot.tables, "bundles": table},
        manifest=replace(snapshot.manifest, taken_at=now() + timedelta(seconds=1)),
    )


class OtherStory(Story):
    """A run of one step that is no unload; what it did to the cluster is given."""

    def did(self, seen, after):
        self.claimed().tell(StepStarted(step=0, observed=seen))
        result = StepResult(state="DONE", code="done", sentence="It is so.", after=after)
        self.tell(StepEnded(step=0, result=result, took_ms=800.0))
        self.tell(RunEnded(state="DONE", sentence="All steps are done."))
        return self


@pytest.fixture
def setting_story(site, snapshot):
    """A run that set one value, and the cluster after it."""
    story = OtherStory(site, snapshot)
    story.plan = build_setting_plan(snapshot, {HOURLY: "17"}, PlanOptions(now=story.began))
    story.did(Observation(exists=True), Observation(exists=True, value="17"))
    later = with_settings(
        make_snapshot(brokers=6, bundles=60, now=now()), (None, HOURLY, "17", "dynamic")
    )
    site.put(
        replace(later, manifest=replace(later.manifest, taken_at=now() + timedelta(seconds=1)))
    )
    return story


def test_run_of_a_setting_is_taken_back_like_any_other(site, setting_story):
    app = site.open("run", run=setting_story.run_id)
    said = texts(app)
    assert "set dynamically" in said
    assert "Predicted vs. actual" not in said
    app.button(key="_undo").click().run()
    assert_calm(app)
    assert app.title[0].value == "Undo"
    said = texts(app)
    assert f"Remove {HOURLY}" in said
    assert "Before and after" not in said
    assert not apply_button(app).disabled
    apply_button(app).click().run()
    assert not [one for one in app.checkbox if one.key == "_apply_pause"]
    fill(app, reason="it was a mistake")
    app.button(key=GO).click().run()
    assert_calm(app)
    event = entries(site)[-1].record.event
    assert isinstance(event, RunRequested)
    assert event.undoes == setting_story.run_id
    assert [(one.subject, one.value) for one in event.plan.steps] == [(HOURLY, None)]


def test_run_of_splits_alone_says_that_it_cannot_be_taken_back(site, snapshot):
    story = OtherStory(site, snapshot, steps=1)
    unload = story.step(0)
    split = SplitBundle(bundle=unload.bundle, owner=unload.owner, algorithm="range_equally_divide")
    story.plan = sealed(replace(story.plan, steps=(split,)))
    story.did(Observation(exists=True, holder=unload.owner), Observation(exists=False))
    app = site.open("run", run=story.run_id)
    assert_calm(app)
    assert app.button(key="_undo").disabled
    said = texts(app)
    assert "cannot be undone" in said
    assert "Predicted vs. actual" not in said


def test_undo_waits_for_a_snapshot_that_is_younger_than_the_run(site, snapshot):
    story = Story(site, snapshot, steps=1, began=now()).done()
    app = site.open("unload", undo=story.run_id)
    assert_calm(app)
    assert "predates the end of run" in texts(app)
    assert not [one for one in app.button if one.key == APPLY]


def test_undo_of_a_run_that_moved_nothing_is_not_offered(site, snapshot):
    app = site.open("run", run=Story(site, snapshot).refused().run_id)
    assert app.button(key="_undo").disabled


# -- activity --------------------------------------------------------------------------------------


@pytest.fixture
def busy(site, snapshot):
    """Three runs of two people on one cluster."""
    began = now() - timedelta(hours=30)
    Story(site, snapshot, run_id=RunId("20261120-000000-000001"), began=began).failed()
    began = now() - timedelta(minutes=5)
    Story(
        site, snapshot, run_id=RunId("20261121-000000-000002"), began=began, who="bert"
    ).measured()
    Story(site, snapshot, run_id=RunId("20261121-000000-000003"), reason="second wave").running()
    return site


def listed(app):
    return next(table.value for table in app.dataframe if "run" in table.value)


def test_activity_of_an_empty_journal_says_where_runs_begin(site, snapshot):
    app = site.open("activity")
    assert_calm(app)
    assert "journal is empty" in texts(app)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, ["3", "2", "1"]),
        ({"who": "bert"}, ["2"]),
        ({"state": "failed"}, ["1"]),
        ({"text": "second"}, ["3"]),
        ({"since": "24 h"}, ["3", "2"]),
        ({"of": "other"}, []),
        ({"of": "fleet", "state": "done", "who": "bert"}, ["2"]),
    ],
)
def test_activity_lists_the_runs_that_the_address_asks_for(busy, asked, found):
    app = busy.open("activity", **asked)
    assert_calm(app)
    assert [run[-1] for run in listed(app)["run"]] == found


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        ({"kind": "requested"}, {"requested"}),
        ({"kind": "step ended", "who": "worker-1"}, {"step ended"}),
        ({"text": "being split"}, {"step ended"}),
    ],
)
def test_activity_lists_the_entries_that_the_address_asks_for(busy, asked, kinds):
    app = busy.open("activity", view="Journal", **asked)
    assert_calm(app)
    rows = listed(app)
    assert len(rows)
    assert set(rows["kind"]) == kinds
    assert rows["seq"].is_monotonic_decreasing


def test_chain_is_verified_when_asked_for(busy):
    app = busy.open("activity", view="Journal")
    assert "chain intact" not in texts(app)
    next(one for one in app.button if one.label == "Verify chain").click().run()
    assert f"{len(entries(busy))} entries, chain intact, newest digest" in texts(app)


def test_run_in_progress_is_in_the_header_and_on_the_overview(busy):
    app = busy.open("fleet")
    assert app.button(key="_run_button").label == "run\\: 1 of 3"
    table = next(one.value for one in app.dataframe if "balancer" in one.value)
    assert table["run"].tolist() == ["1 of 3"]
    app.button(key="_run_button").click().run()
    assert app.title[0].value.startswith("Run 2")


def test_journal_that_cannot_be_read_is_said_and_nothing_can_be_applied(site, snapshot):
    story = Story(site, snapshot).queued()
    path = site.state_dir / "journal.db"
    services.journal(services.load_config(site.config, ())).close()
    services._journal_at.cache_clear()
    services._runbook_at.cache_clear()
    path.write_bytes(b"this is no database" * 300)
    app = site.open("unload", bundles=movable(snapshot, 1))
    assert_calm(app)
    assert apply_button(app).disabled
    assert "journal not readable" in texts(app)
    for page in ("activity", "run"):
        app = site.open(page, run=story.run_id)
        assert_calm(app)
        assert app.error
