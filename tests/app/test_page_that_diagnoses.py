"""The Diagnose page: causes of both systems, and what leads on from them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fleet_builder import make_history
from fleet_edit import with_settings
from pegasus_snapshots import snapshot_of, whole
from snapshot_site import Site, assert_calm, texts

from core.diagnosis.model import Cause, Diagnosis, Effect, Outcome
from core.diagnosis.systems import system_of as diagnosis_of
from core.findings.finding import Fix
from core.history.analysis.diagnosis import PeriodDiagnosis
from core.history.analysis.prevention import Prevention, Replay
from core.snapshot.store import SnapshotStore, load_snapshot
from dashboard.app_pages.diagnose import model, over_time, queries, view
from dashboard.app_pages.diagnose.system import NextPage, OptimalPlan

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    made = Site(tmp_path_factory.mktemp("diagnose"), pegasus=("peg",))
    moment = NOW - timedelta(seconds=5)
    made.put(
        *make_history(2, brokers=4, bundles=60, now=moment), snapshot_of(whole(), taken_at=moment)
    )
    return made


def ready(site: Site, monkeypatch: pytest.MonkeyPatch, **params: str):
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    app = site.open("diagnose", **params)
    for _ in range(100):
        if "Searching for causes" not in texts(app):
            break
        assert app.get("progress"), "a page that waits shows how far it is"
        app.run()
    assert_calm(app)
    return app


def test_a_cause_comes_with_its_effect_and_with_two_ways_on(site, monkeypatch):
    app = ready(site, monkeypatch)
    said = texts(app)
    assert "loadBalancerSheddingEnabled" in said
    assert "trimtab set fleet loadBalancerSheddingEnabled=true" in said
    assert {"Simulate fix", "Plan fix"} <= {button.label for button in app.button}


def test_the_search_on_a_large_cluster_runs_in_a_process_with_the_same_result(site, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    stored = SnapshotStore(site.state_dir / "snapshots").latest("fleet", NOW)
    key = ("pulsar", stored)
    here = queries.diagnosed.wait(key, 60.0)
    monkeypatch.setattr(queries, "_LARGE_ROWS", 10)
    counts: list[int] = []
    monkeypatch.setattr(queries.search, "step", lambda done, total, words: counts.append(done))
    apart = queries._diagnosed(key)
    assert (apart.diagnosis, apart.deviation) == (here.diagnosis, here.deviation)
    assert max(counts) == here.diagnosis.tried > 0


def test_causes_are_a_table_with_effects_and_the_best_is_explained(site, monkeypatch):
    app = ready(site, monkeypatch)
    rows = next(one.value for one in app.dataframe if "cause" in one.value)
    assert "Shedding off" in rows["cause"].tolist()
    assert rows["now"][0] > rows["fixed"][0]
    shown = {one.label: one.value for one in app.metric}
    assert int(shown["Causes"]) == len(rows)
    assert int(shown["Simulated changes"]) > 0


def test_the_picture_and_the_figure_are_of_the_best_fix():
    def cause(title, after):
        end = Outcome(moves=3, returned=0, deviation=1.2, converges=True, rounds=1)
        return Cause(
            code=title,
            title=title,
            summary="",
            hint="",
            effect=Effect(before=end, after=replace(end, deviation=after)),
        )

    found = Diagnosis(tried=2, problem="uneven", causes=(cause("a", 0.56), cause("b", 0.37)))
    pairs = model.effects_of(found)
    assert (list(pairs.brokers), pairs.after.tolist()) == (["b", "a"], [0.37, 0.56])
    assert model.rows_of(found)["cause"].tolist() == ["b", "a"], "by what the fix leaves"
    assert view._opened(found).code == "b"
    page = NextPage(label="Preview", page="rebalance", params={}, icon="")
    optimal = OptimalPlan(moves=9, deviation=0.12, next_page=page)
    shown = {one.label: one for one in model.key_figures(found, 1.2, optimal)}
    assert shown["With the best fix"].value == "37%"
    assert (shown["With the optimal plan"].value, shown["With the optimal plan"].note) == (
        "12%",
        "9 moves",
    )
    costly = replace(cause("c", 0.9), severity="error")
    assert view._opened(replace(found, causes=(costly, *found.causes))).code == "c"
    assert model.effects_of(Diagnosis()) is None


@pytest.mark.parametrize(
    ("present", "wanted", "shown"),
    [
        (0.9, 0.2, "0.9 → 0.2"),
        (False, True, "false → true"),
        ("org.a.Old", "org.b.New", "Old → New"),
    ],
)
def test_a_setting_has_its_change_whatever_was_measured(present, wanted, shown):
    cause = Cause(
        code="setting",
        summary="",
        keys=("k",),
        present={"k": present},
        fix=Fix(wanted={"k": wanted}),
    )
    assert model.change_words(cause) == shown
    assert f"k: {shown}" in model.facts_of(cause)
    assert model.change_words(replace(cause, present={})) == ""


def test_a_further_visitor_has_the_same_causes_while_the_state_is_about_the_same(site, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    store = SnapshotStore(site.state_dir / "snapshots")
    *_, newest = store.entries("fleet")
    first = store.marks("fleet", newest.taken_at)[0]
    assert first.taken_at < newest.taken_at
    assert queries.to_diagnose(newest) == queries.to_diagnose(first) == first
    snapshot = load_snapshot(newest.path)
    state = diagnosis_of("pulsar").state(snapshot)
    broker = next(iter(state.deviations))
    for ratio, holds in ((0.05, True), (0.15, False)):
        other = {**state.deviations, broker: state.deviations[broker] + ratio}
        assert state.is_about(replace(state, deviations=other)) is holds
    changed = with_settings(snapshot, (None, "minUnloadMessage", "7", "dynamic"))
    assert not state.is_about(diagnosis_of("pulsar").state(changed))


def test_the_first_remedy_is_even_enough_with_the_fewest_moves():
    assert model.remedy_rank(0.094, 50, 0.1) < model.remedy_rank(0.023, 257, 0.1)
    assert model.remedy_rank(0.3, 50, 0.2) > model.remedy_rank(0.25, 257, 0.2)
    assert model.remedy_rank(None, 1, 0.2) > model.remedy_rank(2.0, 500, 0.2)


def test_a_healthy_cluster_says_how_many_changes_were_tried():
    shown = {one.label: one for one in model.key_figures(Diagnosis(tried=4), 0.1)}
    assert shown["Max deviation"].status == "ok"
    assert shown["Causes"].value == "0"
    assert (shown["Simulated changes"].value, shown["Simulated changes"].note) == (
        "4",
        "not required",
    )


def test_a_pegasus_cluster_has_its_own_causes(site, monkeypatch):
    said = texts(ready(site, monkeypatch, cluster="peg"))
    assert "broker" not in said.lower()
    assert "Level below lively" in said


def test_what_would_have_prevented_it_comes_with_its_lines(site, monkeypatch):
    line = "loadBalancerLoadPlacementStrategy=org.apache.pulsar.broker.loadbalance.impl.AvgShedder"
    end = Outcome(moves=2, returned=0, deviation=0.1, converges=True, rounds=1)
    run = Replay(label="AvgShedder", moves=2, returned=0, deviation=0.1, rows=())
    prevention = Prevention(
        minutes=40,
        tried=3,
        recorded=replace(run, label="recorded", moves=9, returned=8),
        replayed=replace(run, label="again", moves=9, returned=8),
        best=run,
        effect=Effect(before=end, after=end),
        fix=Fix(wanted={"minUnloadMessage": 500}, lines=(line,), restart=True),
    )
    found = PeriodDiagnosis(
        start=NOW - timedelta(hours=1),
        end=NOW,
        moves=9,
        returned=8,
        flapping=(),
        verdicts=(("Nothing to unload.", 3),),
        samples=3,
        moved=(),
        worst_at=NOW,
        worst=Diagnosis(),
        prevention=prevention,
    )
    monkeypatch.setattr(over_time, "span_end", lambda *_: NOW)
    monkeypatch.setattr(over_time.over_time, "wait", lambda *_: found)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    app = site.open("diagnose", diagnosed="Over time")
    assert_calm(app)
    [code] = [one.value for one in app.code]
    command = "trimtab set fleet minUnloadMessage=500 --plan plan.json"
    assert code.splitlines() == [command, line]


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (None, (0.0, "Waiting for another search.")),
        (model.SearchProgress(0, 1.0), (0.0, "Reading the history.")),
        (model.SearchProgress(3, 1.0, 0, "simulating changes"), (0.0, "Simulating changes.")),
        (
            model.SearchProgress(3, 1.0, 12, "reading recorded minutes"),
            (0.25, "Reading recorded minutes: 3 of 12."),
        ),
    ],
)
def test_a_search_on_recorded_time_shows_its_step(progress, expected):
    assert model.replay_progress(progress) == expected
