"""``trimtab pipeline``: what it prints and its exit codes."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from history_rows import CLUSTER, recorded, store_in
from history_worlds import pulsar_minutes

from connectors.config.model import TrimtabConfig
from connectors.config.storage import History, Pipeline
from connectors.jobs.kinds.history import KINDS, PipelineJob
from connectors.jobs.model import JobContext
from connectors.recording.status import RecordingStatus, pipeline_lag_s
from connectors.recording.upkeep import keep_in_order
from core.history.store.layout import HOUR_MS, HistoryError
from core.history.tiers import pipeline
from core.history.tiers.local import LocalTiers, hours_here
from core.history.tiers.registry import tier_tables
from core.progress import NoProgress
from core.units import datetime_to_ms
from dashboard.cli.main import run

SNAPSHOTS = pulsar_minutes(6, 6)
LATER_MS = datetime_to_ms(SNAPSHOTS[-1].manifest.taken_at + timedelta(hours=2))


@pytest.fixture
def store(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_STATE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    store = store_in(tmp_path)
    recorded(store, SNAPSHOTS)
    return store


def answer(capsys, *arguments: str, code: int = 0) -> dict:
    assert run(["pipeline", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_from_due_to_verified(store, capsys) -> None:
    due = answer(capsys, "status")["clusters"][0]
    assert (due["hours"], due["due"], due["first"], due["position"]) == (0, 1, None, None)
    done = answer(capsys, "run", CLUSTER)["clusters"][0]
    assert (done["hours"], done["days"]) == (1, 1)
    there = answer(capsys, "status")["clusters"][0]
    assert (there["hours"], there["days"], there["due"]) == (1, 1, 0)
    assert there["first"] == there["last"] == "2026-11-21T11:00:00.000Z"
    assert answer(capsys, "verify")["clusters"] == [
        {"cluster": CLUSTER, "compared": 1, "differences": []}
    ]
    assert run(["pipeline", "status"]) == 0
    assert "2026-11-21 11:00" in capsys.readouterr().out


def test_what_differs_is_incomplete_until_it_is_backfilled(store, capsys) -> None:
    answer(capsys, "run")
    hours = tier_tables(store).table("hours")
    hours.update(predicate="kind = 'broker'", updates={"topics_max": "1234.5"})
    found = answer(capsys, "verify", code=3)["clusters"][0]
    assert [one["tier"] for one in found["differences"]] == ["hours", "days"]
    assert run(["pipeline", "verify"]) == 3
    assert "2 differences" in capsys.readouterr().out
    assert answer(capsys, "backfill", "--from", "2026-11-22")["clusters"][0]["hours"] == 0
    part = ("--from", "2026-11-21T11:52", "--to", "2026-11-21T11:54")
    assert answer(capsys, "backfill", *part)["clusters"][0]["hours"] == 1
    assert answer(capsys, "verify")["clusters"][0]["differences"] == []


def test_a_cluster_that_is_not_recorded_is_refused(store, capsys) -> None:
    assert answer(capsys, "run", "fleat", code=1)["error"]["code"] == "unknown_name"


def test_upkeep_rolls_up_before_it_drops(store) -> None:
    now = SNAPSHOTS[-1].manifest.taken_at + timedelta(hours=30)
    done = keep_in_order(store, CLUSTER, History(max_age_days=0.5), now, Pipeline())
    assert (done.rolled_up, done.days, done.not_rolled_up) == (1, ("2026-11-21",), None)
    state = pipeline.status(store, CLUSTER, datetime_to_ms(now))
    assert (state.hours, state.days) == (1, 1)


def test_minutes_that_are_not_rolled_up_are_dropped_for_their_size_only(store, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise HistoryError("The tiers cannot be written.")

    monkeypatch.setattr(pipeline, "roll_up", fails)
    now = SNAPSHOTS[-1].manifest.taken_at + timedelta(hours=30)
    limits = History(max_age_days=0.5)
    done = keep_in_order(store, CLUSTER, limits, now, Pipeline())
    assert done.days == ()
    assert done.not_rolled_up is not None
    small = History(max_age_days=0.5, max_bytes=1)
    assert keep_in_order(store, CLUSTER, small, now, Pipeline()).days == ("2026-11-21",)


def test_upkeep_can_leave_the_tiers_to_others(store) -> None:
    now = SNAPSHOTS[-1].manifest.taken_at + timedelta(hours=4)
    assert keep_in_order(store, CLUSTER, History(), now, Pipeline(is_enabled=False)).rolled_up == 0


def test_a_day_that_cannot_be_read_stops_no_other(store) -> None:
    later = pulsar_minutes(7, 2, every_s=2 * 86_400.0)[1:]
    recorded(store, later)
    now = later[-1].manifest.taken_at + timedelta(hours=4)

    def damaged(store, cluster, system, hours):
        if hours[0] < datetime_to_ms(SNAPSHOTS[-1].manifest.taken_at):
            raise HistoryError("A file is damaged.")
        return hours_here(store, cluster, system, hours)

    with pytest.raises(HistoryError, match="A file is damaged"):
        pipeline.roll_up(store, CLUSTER, datetime_to_ms(now), engine=LocalTiers(hours=damaged))
    state = pipeline.status(store, CLUSTER, datetime_to_ms(now))
    assert (state.hours, state.due) == (1, 1)


def test_old_hours_are_dropped_when_the_days_have_them_and_minutes_are_gone(store) -> None:
    recorded(store, pulsar_minutes(7, 2, every_s=3_600.0)[1:])
    ended = SNAPSHOTS[-1].manifest.taken_at + timedelta(days=2)
    pipeline.roll_up(store, CLUSTER, datetime_to_ms(SNAPSHOTS[0].manifest.taken_at) + 3_600_000)
    pipeline.roll_up(store, CLUSTER, datetime_to_ms(ended))
    tiers = tier_tables(store)
    assert len(tiers.table("hours").file_uris()) == 2
    assert pipeline.keep_in_order(store, CLUSTER, datetime_to_ms(ended), 1.0) == []
    assert len(tiers.table("hours").file_uris()) == 1  # merged
    assert pipeline.verify(store, CLUSTER, 5, seed=0)[1] == []
    store.tables.table("minutes").delete("true")
    tiers.table("days").update(predicate="kind = 'cluster'", updates={"revision": "1"})
    assert pipeline.keep_in_order(store, CLUSTER, datetime_to_ms(ended), 1.0) == []
    pipeline.roll_up(store, CLUSTER, datetime_to_ms(ended))
    assert pipeline.keep_in_order(store, CLUSTER, datetime_to_ms(ended), 1.0) == ["2026-11-21"]
    state = pipeline.status(store, CLUSTER, datetime_to_ms(ended))
    assert (state.hours, state.days) == (0, 1)


def test_a_late_minute_of_a_day_without_hours_does_not_replace_the_day(store) -> None:
    ended = datetime_to_ms(SNAPSHOTS[-1].manifest.taken_at + timedelta(days=2))
    pipeline.roll_up(store, CLUSTER, ended)
    store.tables.table("minutes").delete("true")
    assert pipeline.keep_in_order(store, CLUSTER, ended, 1.0) == ["2026-11-21"]
    recorded(store, pulsar_minutes(7, 2, every_s=3_600.0)[1:])
    done = pipeline.roll_up(store, CLUSTER, ended)
    assert (done.hours, done.days) == (1, 0)


@pytest.mark.parametrize(
    ("engine", "master", "large", "is_spark"),
    [
        ("auto", "spark://host:7077", True, True),
        ("auto", "spark://host:7077", False, False),
        ("auto", "local[*]", True, False),
        ("local", "spark://host:7077", True, False),
        ("spark", "local[*]", False, True),
    ],
)
def test_the_engine_follows_from_size_and_configuration(
    store, monkeypatch, engine, master, large, is_spark
) -> None:
    size = sum(one.bytes for one in store.sizes(CLUSTER).values())
    monkeypatch.setattr(pipeline, "SPARK_BYTES", size if large else size + 1)
    assert pipeline.is_for_spark(store, CLUSTER, LATER_MS, None, engine, master) is is_spark


def test_nothing_to_do_needs_no_spark(store, monkeypatch) -> None:
    monkeypatch.setattr(pipeline, "SPARK_BYTES", 0)
    pipeline.roll_up(store, CLUSTER, LATER_MS)
    assert not pipeline.is_for_spark(store, CLUSTER, LATER_MS, None, "auto", "yarn")


def test_upkeep_leaves_hours_to_spark_and_reports_them_as_due(store) -> None:
    now = SNAPSHOTS[-1].manifest.taken_at + timedelta(hours=2)
    left = keep_in_order(store, CLUSTER, History(), now, Pipeline(engine="spark"))
    hour = datetime_to_ms(SNAPSHOTS[0].manifest.taken_at) // HOUR_MS * HOUR_MS
    assert (left.rolled_up, left.due, left.rolled_up_to) == (0, 1, hour)
    done = keep_in_order(store, CLUSTER, History(), now, Pipeline())
    assert (done.rolled_up, done.due, done.tier_rows > 0) == (1, 0, True)
    assert done.rolled_up_to == pipeline.open_hour(datetime_to_ms(now))


ROLLED_UP_TO = datetime(2026, 11, 21, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("last_minute", "due", "after", "lag_s"),
    [
        (ROLLED_UP_TO + timedelta(minutes=9), 0, timedelta(minutes=30), 0.0),  # the hour is open
        (ROLLED_UP_TO + timedelta(minutes=9), 0, timedelta(minutes=90), 1_800.0),
        (ROLLED_UP_TO - timedelta(minutes=1), 0, timedelta(hours=9), 0.0),  # nothing is recorded
        (None, 0, timedelta(hours=9), 0.0),  # a standby collector
        (ROLLED_UP_TO - timedelta(minutes=1), 3, timedelta(hours=9), 8 * 3_600.0),  # imported
    ],
)
def test_lag_counts_from_the_end_of_the_first_hour_that_is_not_rolled_up(
    tmp_path, last_minute, due, after, lag_s
) -> None:
    config = TrimtabConfig(state_dir=tmp_path)
    assert pipeline_lag_s(config, "prod", ROLLED_UP_TO) is None
    status = RecordingStatus(
        place="",
        last_minute_at=last_minute and last_minute.isoformat(),
        rolled_up_to=ROLLED_UP_TO.isoformat(),
        hours_due=due,
    )
    folder = tmp_path / "collectors"
    folder.mkdir()
    (folder / "prod.json").write_bytes(msgspec.json.encode({"history": status}))
    assert pipeline_lag_s(config, "prod", ROLLED_UP_TO + after) == lag_s
    off = TrimtabConfig(state_dir=tmp_path, pipeline=Pipeline(is_enabled=False))
    assert pipeline_lag_s(off, "prod", ROLLED_UP_TO + after) is None


def test_minutes_that_wait_for_spark_are_not_deleted_for_their_age(store) -> None:
    now = SNAPSHOTS[-1].manifest.taken_at + timedelta(hours=30)
    limits = History(max_age_days=0.5)
    assert keep_in_order(store, CLUSTER, limits, now, Pipeline(engine="spark")).days == ()
    pipeline.roll_up(store, CLUSTER, datetime_to_ms(now))
    done = keep_in_order(store, CLUSTER, limits, now, Pipeline(engine="spark"))
    assert done.days == ("2026-11-21",)


def test_tiers_are_exported_as_parquet_and_csv(store, tmp_path, capsys) -> None:
    answer(capsys, "run")
    parquet, csv = tmp_path / "hours.parquet", tmp_path / "days.csv"
    hours = answer(capsys, "export", CLUSTER, "--tier", "hours", "--out", str(parquet))
    rows = pq.read_table(parquet)
    assert (hours["rows"], hours["tier"]) == (rows.num_rows, "hours")
    assert {"msg_throughput_bins", "msg_throughput_p95"} <= set(rows.column_names)
    assert "request_rate_mean" not in rows.column_names
    days = answer(capsys, "export", CLUSTER, "--kind", "broker", "--out", str(csv))
    lines = csv.read_text().splitlines()
    assert len(lines) == days["rows"] + 1
    assert "msg_throughput_p95" in lines[0]
    assert "bins" not in lines[0]
    assert stat.S_IMODE(csv.stat().st_mode) == stat.S_IMODE(parquet.stat().st_mode)
    again = answer(capsys, "export", CLUSTER, "--out", str(csv), code=2)
    assert "already exists" in again["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--tier", "weeks", "--out", "a.csv"), 2, "weeks"),
        (("--out", "a.xls"), 2, ".xls"),
        (("--out", "a.csv"), 1, "No rows of"),
        (("--out", "a.csv", "--kind", "node"), 1, "No rows of"),
        (("--out", "a.csv", "--kind", "it's"), 2, "it's"),
    ],
)
def test_an_export_of_nothing_creates_no_file(store, capsys, arguments, code, message) -> None:
    refused = answer(capsys, "export", CLUSTER, *arguments, code=code)
    assert message in refused["error"]["message"]
    assert not list(Path.cwd().glob("a.*"))


def test_a_job_that_rolls_up_names_every_cluster_that_failed(store, tmp_path: Path) -> None:
    for name in ("east", "west"):
        recorded(store, SNAPSHOTS, name)
    for path in tmp_path.rglob("*.parquet"):
        if CLUSTER not in str(path):
            path.write_bytes(b"damaged")
    context = JobContext(
        config=TrimtabConfig(clusters=[], state_dir=tmp_path),
        out=tmp_path,
        progress=NoProgress(),
        spark=lambda: pytest.fail("no Spark for so little"),
        history=lambda: store,
    )
    with pytest.raises(HistoryError) as caught:
        next(kind for kind in KINDS if kind.name == "pipeline").run(
            context, PipelineJob(engine="local")
        )
    assert caught.value.message.startswith("2 clusters not rolled up; east: ")
    assert " west: " in caught.value.message
    assert caught.value.hint == "1 other cluster rolled up."
