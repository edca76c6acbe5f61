"""The Jobs page and the Back-test page in every state, driven as a person drives them."""

from __future__ import annotations

import job_stories
import pandas as pd
import pytest
from fleet_builder import make_history, make_snapshot
from snapshot_site import Site, assert_calm, now, texts

from connectors.config.model import TrimtabConfig
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.pulsar.shedding import strategies_run_by
from dashboard.app_pages.backtest import model as presenter
from dashboard.app_pages.backtest.model import GridForm
from dashboard.presenters import candidates
from dashboard.services import jobs
from dashboard.systems import SYSTEMS, page_part

KEY = "loadBalancerBrokerThresholdShedderPercentage"
PAGES = ("jobs", "backtest")


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


def record(site, count=3):
    """Keep and record some minutes."""
    snapshots = make_history(count, brokers=4, bundles=40, now=now())
    site.put(*snapshots)
    store = HistoryStore(HistoryLocation(str(site.state_dir / "history")))
    recorder = Recorder(store, "fleet")
    for snapshot in snapshots:
        recorder.record(snapshot)
    return snapshots


@pytest.mark.parametrize("page", PAGES)
def test_page_without_anything_says_how_to_begin(site, page):
    app = site.open(page)
    assert_calm(app)
    assert "trimtab jobs serve" in texts(app)
    if page == "backtest":
        assert "No history of" in texts(app)
        assert "trimtab collect fleet" in texts(app)


@pytest.mark.parametrize("page", PAGES)
def test_a_job_that_is_not_there_is_one_sentence(site, page):
    job_stories.server_says(site.state_dir)
    app = site.open(page, job="20261121T120000000-abcdef")
    assert_calm(app)
    assert "No job named" in texts(app)


@pytest.mark.parametrize("page", PAGES)
def test_a_running_job_shows_how_far_it_is_and_is_stopped(site, page):
    job_stories.server_says(site.state_dir)
    job_id = job_stories.ask(site.state_dir, "backtest", {"grid": job_stories.GRID})
    job_stories.tell(
        site.state_dir,
        job_id,
        state="running",
        done=12,
        total=40,
        activity="playing",
        rate_per_s=2.0,
        eta_s=14.0,
    )
    app = site.open(page, job=job_id)
    assert_calm(app)
    told = app.get("progress")[0].proto.text
    assert "12 of 40 · playing · 2/s · approx. 14 s left" in told
    app.button(key=f"_stop_{job_id}").click().run()
    assert_calm(app)
    config = TrimtabConfig(state_dir=site.state_dir)
    assert jobs.job(config, job_id).is_stopping
    assert app.button(key=f"_stop_{job_id}").disabled


@pytest.mark.parametrize(
    ("state", "error", "said"),
    [
        ("failed", {"code": "compute", "message": "It broke.", "hint": "Mend it."}, "It broke."),
        ("stopped", {"code": "stopped", "message": "It was stopped.", "hint": ""}, "was stopped"),
    ],
)
def test_a_job_without_result_says_why(site, state, error, said):
    job_stories.server_says(site.state_dir)
    for page in PAGES:
        job_id = job_stories.ask(site.state_dir, "backtest", {"grid": job_stories.GRID})
        job_stories.tell(site.state_dir, job_id, state=state, error=error)
        app = site.open(page, job=job_id)
        assert_calm(app)
        assert said in texts(app)


def test_damaged_jobs_do_not_break_the_pages(site):
    job_id = job_stories.ask(site.state_dir, "backtest", {"grid": job_stories.GRID})
    job_stories.change(job_stories.queue(site.state_dir), job_id, request="{")
    lost = job_stories.backtest(site.state_dir)
    (site.state_dir / "jobs" / lost / "result" / "candidates.parquet").write_bytes(b"PAR1")
    for page, job in (("jobs", job_id), ("backtest", job_id), ("backtest", lost)):
        app = site.open(page, job=job)
        assert_calm(app)
        assert "is damaged" in texts(app) or "cannot be read" in texts(app)


def test_a_result_answers_first_and_shows_ranking_front_and_time_lines(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    job_stories.server_says(site.state_dir)
    job_id = job_stories.backtest(site.state_dir, minutes=4_000)
    app = site.open("backtest", job=job_id)
    assert_calm(app)
    assert not app.error
    said = texts(app)
    assert "p95 14%" in said
    assert "● actual" in said
    assert "◆ Pareto-optimal" in said
    assert "Not known" in said
    shown = {one.label: one.value for one in app.metric}
    assert shown["Deviation p95 of rank 1"] == "14%"
    assert shown["Within target"] == "1 of 2"
    assert len(app.get("plotly_chart")) == 1
    assert job_stories.BEST in said
    app = site.open("backtest", job=job_id, view="Over time")
    assert_calm(app)
    assert len(app.get("plotly_chart")) == 2
    record(site)
    app.button(key="_backtest_history").click().run()
    assert_calm(app)
    assert app.title[0].value == "History"
    assert app.query_params["range"] == "dates"
    assert app.query_params["end"] > app.query_params["start"]


def test_candidates_are_named_by_what_tells_them_apart():
    labels = ["as recorded", "A · x=1 · y=2", "A · x=1 · y=3", "B · x=1 · y=2"]
    own, common = candidates.own_names(labels, "as recorded")
    assert common == "x=1"
    assert list(own.values()) == ["as recorded", "A · y=2", "A · y=3", "B · y=2"]
    twice = ["as recorded", "A · x=1", "x=1 · A", "A · x=1 · y=2"]
    assert candidates.own_names(twice, "as recorded") == ({one: one for one in twice}, "")


def test_a_plan_that_is_only_a_part_of_the_candidate_is_warned_about():
    dynamic = {"key": "loadBalancerSheddingEnabled", "why": "better", "is_dynamic": True}
    fixed = {"key": "loadBalancerLoadPlacementStrategy", "why": "better", "is_dynamic": False}
    for row in (dynamic, fixed):
        row |= {"takes_effect": "next round" if row["is_dynamic"] else "restart"}
    assert presenter.change_notes(pd.DataFrame([dynamic, fixed])) == ["better"]
    what, _, then = presenter.restart_note(pd.DataFrame([dynamic, fixed])).partition(". ")
    assert what.endswith("restart the brokers: loadBalancerLoadPlacementStrategy")
    assert then.startswith("Restart first. The plan covers")
    assert not presenter.restart_note(pd.DataFrame([dynamic]))
    assert presenter.restart_note(pd.DataFrame([fixed])).endswith("PlacementStrategy.")


def test_candidates_of_a_grid_of_settings_do_not_look_alike():
    one, other = "loadBalancerMsgRateShedderThreshold", "loadBalancerMsgSizeShedderThreshold"
    grid = [f"Uniform · {one}={a} · {other}={b}" for a in (1, 2) for b in (0.5, 1.5)]
    labels = ["as recorded", "no shedding", *grid]
    own, common = candidates.own_names(labels, "as recorded")
    assert common == "Uniform"
    short = candidates.short_keys(list(own.values()))
    assert short == {one: "Rate", other: "Size"}
    told = candidates.with_short_keys(own, short)
    assert list(told) == labels
    assert list(told.values())[:3] == ["as recorded", "no shedding", "Rate=1 · Size=0.5"]
    assert len(set(told.values())) == len(labels)


@pytest.mark.parametrize(
    ("keys", "short"),
    [
        (["loadBalancerBrokerLimit"], ["BrokerLimit"]),
        (["x", "y"], ["x", "y"]),
        (["meta.lb.only_move_primary"], ["meta.lb.only_move_primary"]),
        (["maxUnloadPercentage", "loadBalancerLimit"], ["maxUnloadPercentage", "Limit"]),
        (["aLimitB", "aLimitC"], ["B", "C"]),
    ],
)
def test_settings_are_as_short_as_tells_them_apart(keys, short):
    found = candidates.short_keys([" · ".join(f"{key}=1" for key in keys)])
    assert found == dict(zip(keys, short, strict=True))


def test_the_page_opens_on_the_newest_result_of_the_cluster(site):
    job_stories.server_says(site.state_dir)
    job_stories.backtest(site.state_dir, clusters=("other",))
    job_stories.backtest(site.state_dir, clusters=("fleet",))
    job_stories.backtest(site.state_dir, clusters=("other",))
    record(site)
    app = site.open("backtest", view="New back-test")
    assert_calm(app)
    assert not app.multiselect(key="tried").value, "the form has its defaults"
    app = site.open("backtest")
    assert_calm(app)
    assert "Within target" in {one.label for one in app.metric}
    assert any(one.value.startswith("fleet ") for one in app.caption)
    assert next(tab.label for tab in app.tabs) == "Ranking"


def test_several_clusters_are_ranked_together_and_apart(site):
    job_stories.server_says(site.state_dir)
    job_id = job_stories.backtest(site.state_dir, clusters=("fleet", "other"))
    app = site.open("backtest", job=job_id)
    assert_calm(app)
    picker = next(one for one in app.segmented_control if one.label == "Cluster")
    assert list(picker.options) == ["all clusters", "fleet", "other"]
    picker.set_value("other").run()
    assert_calm(app)
    assert "on other; simulated" in texts(app)


def test_the_recommended_settings_become_a_plan_that_can_be_applied(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    site.worker_says()
    job_stories.server_says(site.state_dir)
    job_id = job_stories.backtest(site.state_dir)
    app = site.open("backtest", job=job_id)
    assert "It is calmer." in texts(app)
    app.button(key="_preview_plan").click().run()
    assert_calm(app)
    assert KEY in texts(app)
    assert not app.button(key="_apply").disabled
    app.button(key="_apply").click().run()
    assert_calm(app)
    assert app.text_input(key="_apply_reason")


def test_nothing_to_change_is_said(site):
    job_stories.server_says(site.state_dir)
    empty = job_stories.recommended(KEY, "10", "20").slice(0, 0)
    app = site.open("backtest", job=job_stories.backtest(site.state_dir, empty))
    assert_calm(app)
    assert "no candidate" in texts(app)


def test_the_grid_says_how_much_it_is_and_asks_exactly_that(site):
    record(site)
    job_stories.server_says(site.state_dir)
    app = site.open("backtest")
    assert_calm(app)
    assert not app.error
    tried = app.multiselect(key="shedding").value
    assert tried == [*(one.name for one in strategies_run_by("modular")), "Optimizer", "none"]
    counted = f"{len(tried)} candidates and the recorded settings on"
    assert counted in texts(app), "the recorded settings are always replayed"
    app.button(key="_preset_Settings of ThresholdShedder").click().run()
    assert_calm(app)
    assert f"grid_{KEY}" in app.session_state
    assert "candidates and the recorded settings on" in texts(app)
    app.multiselect(key=f"grid_{KEY}").set_value(["5", "many"]).run()
    assert "must be a whole number, not 'many'" in texts(app)
    assert app.button(key="_start_backtest").disabled
    app.multiselect(key=f"grid_{KEY}").set_value(["5", "25"]).run()
    assert not app.button(key="_start_backtest").disabled
    app.button(key="_start_backtest").click().run()
    assert_calm(app)
    asked = jobs.jobs(TrimtabConfig(state_dir=site.state_dir))
    assert len(asked) == 1
    request = asked[0].request
    assert request
    grid = request.parameters["grid"]
    assert grid["settings"][KEY] == [5.0, 25.0]
    assert grid["clusters"] == ["fleet"]
    assert grid["minute_s"] == 60


def test_back_test_that_is_opened_again_refills_the_form(site):
    record(site)
    job_stories.server_says(site.state_dir)
    app = site.open("backtest", job=job_stories.backtest(site.state_dir), view="New back-test")
    assert_calm(app)
    assert app.multiselect(key="shedding").value == ["recorded", "ThresholdShedder"]
    assert app.multiselect(key=f"grid_{KEY}").value == ["10", "20"]
    assert app.number_input(key="seeds").value == 2
    app.number_input(key="seeds").set_value(5).run()
    assert_calm(app)
    assert app.number_input(key="seeds").value == 5, "what a person turns stays"


@pytest.mark.parametrize(("deviation_pct", "chosen"), [(20.0, "cluster"), (12.5, "own")])
def test_target_of_a_refilled_form_is_custom_only_where_it_differs(site, deviation_pct, chosen):
    record(site)
    job_stories.server_says(site.state_dir)
    system = page_part("pulsar", "backtest").grid
    form = GridForm(
        cluster="fleet",
        start=now(),
        shedding=("AvgShedder",),
        placement=("recorded",),
        values={},
        seeds=2,
        deviation_pct=deviation_pct,
        unloads_per_day=10.0,
        system=system,
    )
    asked = {"grid": form.parameters(), "engine": "local"}
    job = job_stories.ask(site.state_dir, "backtest", asked)
    app = site.open("backtest", job=job, view="New back-test")
    assert_calm(app)
    assert app.session_state["target"] == chosen


@pytest.mark.parametrize("kind", SYSTEMS)
def test_form_of_what_was_asked_asks_the_same(kind):
    is_pegasus, system = kind == "pegasus", page_part(kind, "backtest").grid
    form = GridForm(
        cluster="fleet",
        start=now(),
        shedding=("app",) if is_pegasus else ("AvgShedder",),
        placement=() if is_pegasus else ("recorded",),
        values={} if is_pegasus else {KEY: ("5", "25")},
        seeds=4,
        deviation_pct=12.5,
        unloads_per_day=3.0,
        system=system,
    )
    again = GridForm.of(form.parameters(), system)
    assert again
    assert again.parameters() == form.parameters()
    assert GridForm.of(form.parameters() | {"clusters": ["a", "b"]}, system) is None


def test_page_counts_minutes_as_the_configuration_says(tmp_path, monkeypatch):
    site = Site(tmp_path, extra="collect_every_s = 10\n[history]\nminute_s = 20")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    record(site)
    app = site.open("backtest")
    assert_calm(app)
    assert app.number_input(key="minute_s").value == 20


def test_result_tables_of_any_job_are_sorted_filtered_and_drawn(site):
    job_stories.server_says(site.state_dir)
    job_id = job_stories.ask(site.state_dir, "no_such_kind", {})
    tables = {"timeline": job_stories.timeline(50), "moves": job_stories.moves()}
    job_stories.finish(site.state_dir, job_id, "Fifty minutes were looked at.", tables)
    app = site.open("jobs", job=job_id)
    assert_calm(app)
    assert not app.error
    assert "minutes were looked" in texts(app)
    assert "200 rows." in texts(app)
    assert app.get("plotly_chart")
    app.text_input(key="contains").set_value("no shedding").run()
    assert "50 of 200 rows match." in texts(app)
    app.selectbox(key=f"_sort_{job_id}_timeline").set_value("deviation").run()
    assert_calm(app)
    assert app.dataframe[0].value["deviation"].iloc[0] == pytest.approx(22)


def test_every_kind_has_a_form_that_can_be_sent_or_says_what_is_missing(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    job_stories.server_says(site.state_dir)
    for name, kind in jobs.kinds().items():
        if name == "backtest":
            continue
        app = site.open("jobs", kind=name)
        assert_calm(app)
        assert kind.answers in texts(app)
        start = app.button(key=f"_start_{name}")
        is_told = "Required parameters" in texts(app) or ":material/block:" in texts(app)
        assert start.disabled == is_told


def test_a_form_offers_only_clusters_of_its_kind_and_is_calm_before_it_is_touched(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    job_stories.server_says(site.state_dir)
    app = site.open("jobs", kind="balance")
    assert app.multiselect(key="_field_balance_new_clusters").options == []
    app = site.open("jobs", kind="topics")
    assert app.multiselect(key="_field_topics_new_clusters").options == ["fleet"]
    assert "Topic file" in texts(app)
    assert ":material/block:" not in texts(app)
    app.text_input(key="_field_topics_new_file").set_value("topics.csv").run()
    assert "use the absolute path" in texts(app)


def test_active_jobs_are_above_ended_ones_with_progress_and_a_way_to_stop(site):
    job_stories.server_says(site.state_dir)
    job_id = job_stories.ask(site.state_dir, "backtest", {"grid": job_stories.GRID})
    job_stories.tell(site.state_dir, job_id, state="running", done=12, total=40)
    job_stories.finish(site.state_dir, job_stories.ask(site.state_dir, "flaps", {}), "None.", {})
    app = site.open("jobs")
    assert_calm(app)
    active, over = [one.value for one in app.dataframe]
    assert list(active["job"]) == [job_id]
    running = active.iloc[0]
    assert (running["cluster"], running["progress"], running["stop"]) == ("fleet", 30, "Stop")
    assert "12 of 40" in running["result"]
    assert list(over["result"]) == ["None."]
    assert not app.get("progress")
    assert {one.label: one.value for one in app.metric}["Done"] == "1"


def test_a_new_job_is_started_from_the_dialog_that_an_address_opens(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    job_stories.server_says(site.state_dir)
    app = site.open("jobs")
    assert not [one for one in app.button if one.key == "_start_trends"]
    app.button(key="_new_job").click().run()
    assert_calm(app)
    app.button(key="_start_trends").click().run()
    assert_calm(app)
    (job,) = jobs.jobs(TrimtabConfig(state_dir=site.state_dir))
    assert job.kind == "trends"
    assert app.query_params["job"] == job.id
    assert "kind" not in app.query_params


def test_a_job_is_started_in_one_step_with_its_defaults(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    job_stories.server_says(site.state_dir)
    app = site.open("jobs")
    app.button(key="_start_next").click().run()
    assert_calm(app)
    (job,) = jobs.jobs(TrimtabConfig(state_dir=site.state_dir))
    assert (job.kind, job.request.parameters["clusters"]) == ("trends", ["fleet"])
    assert "job" not in app.query_params, "the list shows how far it is"
    (rows,) = [one.value for one in app.dataframe]
    assert list(rows["state"]) == ["◔ queued"]
    app.selectbox(key="_next_job_kind").set_value("topics").run()
    assert app.button(key="_start_next").disabled
    assert "Required parameters: Topic file" in texts(app)


def test_ratios_are_asked_for_in_percent(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    app = site.open("jobs", kind="what_if")
    assert app.number_input(key="_field_what_if_new_target").label == "Target, %"
