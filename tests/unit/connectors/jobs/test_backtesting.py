"""A whole back-test on a recorded history: as a function, as a job, on the command line."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from backtest_clusters import PEGASUS, PULSAR, START, history_in, living
from history_worlds import pegasus_minutes

from connectors.config.model import TrimtabConfig
from connectors.jobs.kinds.backtest import KINDS, BacktestJob
from connectors.jobs.model import JobContext
from core.errors import InputError, UnknownNameError
from core.history.backtest.advice import is_plannable
from core.history.backtest.job import TABLES, Backtest, Outcome, run_here, tasks_of
from core.history.backtest.model import AS_RECORDED
from core.history.backtest.parsing import grid_of
from core.history.backtest.pegasus.reading import tape_of_history, tape_of_snapshots
from core.history.backtest.plan import recommended_plan
from core.history.backtest.schemas import RESULT_TABLES
from core.history.store.layout import HistoryError
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.plan.codec import load_plan
from core.plan.options import PlanOptions
from core.progress import JobStoppedError, NoProgress
from core.pulsar.settings import SETTING_BY_KEY, SETTINGS
from core.systems import STEPS
from dashboard.cli import backtest as backtest_command
from dashboard.cli.main import _WithoutPandas, run
from dashboard.presenters.candidates import shortened
from dashboard.services import spark

PEGASUS_GRID = {
    "policies": ["app"],
    "switches": {"level": ["lively"], "only_move_primary": [False, True]},
    "seeds": [1, 2],
    "window_minutes": 6,
    "target": {"deviation": 1.35, "unloads_per_day": 1e9},
}
PULSAR_GRID = {
    "shedding": ["ThresholdShedder", "none"],
    "settings": {
        "loadBalancerBrokerThresholdShedderPercentage": [3, 10],
        "loadBalancerBundleUnloadMinThroughputThreshold": [0.01],
    },
    "seeds": [1],
}
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a history of both clusters, twelve minutes each."""
    folder = tmp_path_factory.mktemp("backtest")
    history_in(folder)
    return folder


@pytest.fixture
def store(place: Path) -> HistoryStore:
    return HistoryStore(HistoryLocation(str(place / "history")))


def outcome_of(store: HistoryStore, grid: Mapping[str, Any]) -> Outcome:
    work = Backtest.prepared(store, grid_of(grid))
    return Outcome.of(work.grid, run_here(work, NoProgress()), work.records)


# -- the record ------------------------------------------------------------------------------------


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_the_history_gives_the_tape_that_its_snapshots_give(tmp_path, seed):
    snapshots = pegasus_minutes(seed, 20)
    store = HistoryStore(HistoryLocation(str(tmp_path)))
    for number, snapshot in enumerate(snapshots):
        if number % 7 == 0:  # a writer that was started anew
            recorder = Recorder(store, PEGASUS)
        recorder.record(snapshot)
    times = [one.manifest.taken_at for one in snapshots]
    read = tape_of_history(store, PEGASUS, times[0], times[-1] + MINUTE)
    made = tape_of_snapshots(snapshots)
    for name in ("at_ms", "is_alive", "exists", "reads", "writes", "size_mb", "settings"):
        assert same(getattr(read, name), getattr(made, name)), name
    for name in ("members", "member_disks", "app_ids", "first_rows", "nodes"):
        assert same(getattr(read.start, name), getattr(made.start, name)), name
    assert read.changes.keys() == made.changes.keys()
    assert all(same(read.changes[at].members, made.changes[at].members) for at in read.changes)


def test_a_window_without_a_minute_is_told(store):
    with pytest.raises(HistoryError, match="No history of 'peg' is recorded"):
        tape_of_history(store, PEGASUS, START - 9 * MINUTE, START - 5 * MINUTE)
    with pytest.raises(InputError, match="Pulsar cluster"):
        tape_of_history(store, PULSAR, START, START + MINUTE)


def test_a_gap_in_the_record_counts_for_nobody_and_is_told(tmp_path):
    store = HistoryStore(HistoryLocation(str(tmp_path)))
    recorder = Recorder(store, PEGASUS)
    for number, snapshot in enumerate(living(15)):
        if not 5 <= number < 10:
            recorder.record(snapshot)
    outcome = outcome_of(store, {**PEGASUS_GRID, "window_minutes": 50})
    runs = outcome.tables["runs"].to_pylist()
    assert not [row["problem"] for row in runs if row["problem"]]
    assert {(row["window"], row["minutes"]) for row in runs} == {(0, 5), (1, 5)}
    assert "1 gap" in outcome.sentence


# -- results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [PEGASUS_GRID, PULSAR_GRID], ids=["pegasus", "pulsar"])
def test_every_table_has_its_schema_and_every_unit_its_run(store, grid):
    work = Backtest.prepared(store, grid_of(grid))
    outcome = outcome_of(store, grid)
    assert list(outcome.tables) == list(TABLES)
    for name, schema in RESULT_TABLES.items():
        assert outcome.tables[name].schema.equals(schema), name
    runs = outcome.tables["runs"].to_pylist()
    assert len(runs) == len(work.units)
    assert not [row["problem"] for row in runs if row["problem"]]
    candidates = outcome.tables["candidates"].to_pylist()
    ranks = [row["rank"] for row in candidates if row["rank"]]
    only_compared = {row["candidate"] for row in candidates if row["rank"] is None}
    assert ranks == list(range(1, len(ranks) + 1))
    assert only_compared <= {AS_RECORDED, "no shedding"}
    assert work.simulated_minutes == sum(row["minutes"] for row in runs)
    assert {work.minutes} == {row["minutes"] for row in candidates}


def test_a_better_policy_is_recommended_with_what_to_set(store):
    rows = outcome_of(store, PEGASUS_GRID).tables["recommended"].to_pylist()
    assert {"key": "level", "old": '"steady"', "new": '"lively"'}.items() <= rows[0].items()
    assert "moves from 0.0" in rows[0]["why"]


def test_an_answer_keeps_to_the_terms_of_its_system(store):
    pegasus = outcome_of(store, PEGASUS_GRID)
    words = f"{pegasus.sentence} {pegasus.tables['candidates']['sentence'].to_pylist()}"
    assert "max node deviation" in words
    assert "moves a day" in words
    assert "unload" not in words
    assert "broker" not in words


def test_tasks_are_of_one_window_and_keep_the_order(store):
    units = Backtest.prepared(store, grid_of(PEGASUS_GRID)).units
    for count in (1, 2, 5, 100):
        tasks = tasks_of(units, count)
        assert [unit for task in tasks for unit in task] == list(units)
        assert all(len({unit.window.number for unit in task}) == 1 for task in tasks)
    assert len(tasks_of(units, 100)) == len(units)


@pytest.mark.parametrize(
    ("grid", "error", "words"),
    [
        ({**PEGASUS_GRID, "clusters": ["pge"]}, UnknownNameError, "peg"),
        ({**PEGASUS_GRID, "clusters": [PULSAR]}, InputError, "fleet is a Pulsar"),
        ({**PULSAR_GRID, "clusters": [PEGASUS]}, InputError, "peg is a Pegasus"),
        ({**PULSAR_GRID, "from": "2027-01-01T00:00:00Z"}, InputError, "No recorded minute"),
    ],
    ids=["misspelt", "pulsar", "pegasus", "range"],
)
def test_what_cannot_be_played_is_refused_before_it_begins(store, grid, error, words):
    with pytest.raises(error, match=words):
        Backtest.prepared(store, grid_of(grid))


class Stopping:
    """A person who has seen enough."""

    def step(self, done: int, total: int, words: str) -> None:
        assert total
        assert words
        if done == 2:
            raise JobStoppedError("Stopped.")


def test_a_person_stops_it(store):
    with pytest.raises(JobStoppedError):
        run_here(Backtest.prepared(store, grid_of(PEGASUS_GRID)), Stopping())


# -- the job ---------------------------------------------------------------------------------------


def test_the_job_writes_its_tables_and_answers(store, tmp_path):
    (kind,) = KINDS
    context = JobContext(
        config=TrimtabConfig(state_dir=tmp_path),
        out=tmp_path,
        progress=NoProgress(),
        spark=lambda: pytest.fail("no Spark is needed"),
        history=lambda: store,
    )
    answer = kind.run(context, kind.scope.model_validate({"grid": PEGASUS_GRID}))
    assert "would have had" in answer.sentence
    assert {path.stem for path in tmp_path.glob("*.parquet")} == set(answer.tables)
    assert answer.facts["runs"] == pq.read_table(tmp_path / "runs.parquet").num_rows
    assert answer.facts["failed"] == 0


def test_the_job_refuses_a_grid_that_cannot_be():
    with pytest.raises(ValueError, match="sheding"):
        BacktestJob(grid={"sheding": ["AvgShedder"]})


# -- the command -----------------------------------------------------------------------------------


def words_of(place: Path, tmp_path: Path, grid: Mapping[str, Any], *more: str) -> list[str]:
    tmp_path.mkdir(exist_ok=True)
    file = tmp_path / "grid.json"
    file.write_text(json.dumps(grid))
    where = ["--history", str(place / "history"), "--grid", str(file)]
    return ["backtest", *where, "--out", str(tmp_path / "out"), *more]


def test_the_command_ranks_and_recommends_for_people(place, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(words_of(place, tmp_path, PEGASUS_GRID)) == 0
    shown = capsys.readouterr()
    assert "as recorded" in shown.out
    assert "peg, " in shown.out
    assert "takes effect" in shown.out
    assert "14 runs" in shown.err
    found = pq.read_table(tmp_path / "out" / "candidates.parquet")
    assert found.num_rows == 4


def test_a_minute_is_as_configured_where_the_grid_says_nothing(
    place, tmp_path, capsys, monkeypatch
):
    config = tmp_path / "trimtab.toml"
    config.write_text(f'state_dir = "{tmp_path}"\n[history]\nminute_s = 120\n')
    monkeypatch.setenv("TRIMTAB_CONFIG", str(config))
    grid = {"clusters": [PULSAR], "shedding": ["none"]}
    simulated = []
    for name, given in ("own", {"minute_s": 60}), ("configured", {}):
        words = words_of(place, tmp_path / name, {**grid, **given})
        assert run(words) == 0
        capsys.readouterr()
        runs = pq.read_table(tmp_path / name / "out" / "runs.parquet")
        simulated.append(max(runs["minutes"].to_pylist()))
    assert simulated[1] <= simulated[0] / 2 + 1


def test_the_command_prints_one_object_and_the_plan_can_be_read(
    place, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    plan = tmp_path / "plan.json"
    words = words_of(place, tmp_path, PEGASUS_GRID, "--json", "--plan", str(plan))
    assert run(words) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["candidates"][0]["rank"] == 1
    assert body["recommended"][0]["new"] == "lively"
    made = load_plan(plan.read_bytes(), STEPS)
    assert made.cluster == PEGASUS
    assert len(made.steps) == len(body["recommended"])


def test_a_plan_of_pulsar_sets_dynamic_settings(place, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = tmp_path / "plan.json"
    grid = {**PULSAR_GRID, "target": {"deviation": 100, "unloads_per_day": 1e9}}
    grid["shedding"] = ["UniformLoadShedder"]
    assert run(words_of(place, tmp_path, grid, "--json", "--plan", str(plan))) == 0
    body = json.loads(capsys.readouterr().out)
    changed = {row["key"] for row in body["recommended"] if is_plannable(row)}
    steps = load_plan(plan.read_bytes(), STEPS).steps if plan.exists() else ()
    assert {step.subject for step in steps} == changed


MISFITS = [
    (("--engine", "sparc"), 2, "spark"),
    (("--cluster", "pge"), 1, "peg"),
]


@pytest.mark.parametrize("misfit", MISFITS, ids=["engine", "cluster"])
def test_what_does_not_fit_together_is_said(place, tmp_path, capsys, monkeypatch, misfit):
    more, code, words = misfit
    monkeypatch.chdir(tmp_path)
    assert run(words_of(place, tmp_path, PEGASUS_GRID, *more)) == code
    assert words in capsys.readouterr().err


def test_a_folder_with_other_things_is_left_alone(place, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letters.txt").write_text("dear")
    assert run(words_of(place, tmp_path, PEGASUS_GRID)) == 2
    assert "letters.txt" in capsys.readouterr().err


def test_an_earlier_result_is_not_written_over(place, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(words_of(place, tmp_path, PEGASUS_GRID)) == 0
    assert run(words_of(place, tmp_path, PEGASUS_GRID)) == 2
    assert "files are not overwritten" in capsys.readouterr().err


def test_a_master_means_spark():
    assert backtest_command._on_spark("local", "local[2]")
    assert not backtest_command._on_spark("local", None)


def change(key: str, new: object) -> dict[str, Any]:
    setting = SETTING_BY_KEY[key]
    return {
        "key": key,
        "new": json.dumps(new),
        "is_dynamic": setting.is_dynamic,
        "takes_effect": setting.takes_effect,
    }


def test_what_needs_a_restart_is_left_out_of_the_plan_which_says_so(store):
    late = next(one.key for one in SETTINGS if one.takes_effect == "restart" and one.kind == "int")
    last = store.span(PULSAR)[1]
    snapshot = store.snapshot_at(PULSAR, last)
    terms = PlanOptions(now=last, reason="why", exclusions=frozenset())
    rows = [change("loadBalancerBrokerThresholdShedderPercentage", 25), change(late, 7)]
    plan = recommended_plan(snapshot, rows, terms)
    assert [step.subject for step in plan.steps] == [rows[0]["key"]]
    (told,) = [one for one in plan.diagnostics if one.code == "setting_needs_restart"]
    assert f"{late}=7" in told.hint
    with pytest.raises(InputError) as refused:
        recommended_plan(snapshot, rows[1:], terms)
    assert f"Add to broker.conf and restart the brokers one by one: {late}=7." in str(
        refused.value.hint
    )


def test_ctrl_c_ends_it_in_good_order(place, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGINT)

    class Pressed(backtest_command._BacktestProgress):
        def step(self, done: int, total: int, words: str) -> None:
            if done == 1 and not self.is_stopped:
                signal.raise_signal(signal.SIGINT)
            super().step(done, total, words)

    monkeypatch.setattr(backtest_command, "_BacktestProgress", Pressed)
    assert run(words_of(place, tmp_path, PEGASUS_GRID)) == 1
    assert "Stopped; nothing was written" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())
    assert signal.getsignal(signal.SIGINT) is before


def test_whoever_starts_spark_finds_pandas_again():
    before = list(sys.meta_path)
    sys.meta_path.insert(0, _WithoutPandas())
    try:
        spark.show_pandas()
        assert sys.meta_path == before
    finally:
        sys.meta_path[:] = before


def test_what_all_candidates_share_is_said_once() -> None:
    labels = ["as recorded", "A · x=1 · y=2", "A · x=1 · y=3", "A · x=1"]
    own, common = shortened(labels, "as recorded")
    assert common == "A · x=1"
    assert [own[label] for label in labels] == ["as recorded", "y=2", "y=3", "no other changes"]
    assert shortened(labels[:3], "as recorded") == ({label: label for label in labels[:3]}, "")
    assert shortened(["as recorded", "A", "B", "C"], "as recorded")[1] == ""
