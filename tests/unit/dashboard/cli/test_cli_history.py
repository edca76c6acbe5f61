"""``trimtab history``: minutes, events, agreement, past minutes, files in and out, times."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fleet_builder import NOON, make_history, make_snapshot
from pegasus_snapshots import snapshot_of, whole

from core.history.analysis.accuracy.pulsar import PulsarShadow
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.snapshot.store import SnapshotStore, load_snapshot, save_snapshot
from dashboard.cli.history.moments import moment
from dashboard.cli.history.recorded import gaps_in
from dashboard.cli.main import run
from dashboard.cli.output import UsageFaultError

MINUTES = make_history(5, brokers=4, bundles=24)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory whose history has five minutes up to noon, and what was predicted then."""
    state = tmp_path_factory.mktemp("recorded")
    store = HistoryStore(HistoryLocation(str(state / "history")))
    recorder, shadow = Recorder(store, "fleet"), PulsarShadow()
    for snapshot in MINUTES:
        recorder.record(snapshot)
        store.append("shadow", "fleet", shadow.decide(snapshot))
    return state


@pytest.fixture
def site(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration that names it, and an empty folder."""
    file = tmp_path / "trimtab.toml"
    file.write_text(f'state_dir = "{recorded}"\n[[clusters]]\nname = "fleet"\nzookeeper = "z:1"\n')
    monkeypatch.setenv("TRIMTAB_CONFIG", str(file))
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert run(["history", *words, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_minutes_are_listed_with_what_they_take(site: Path, capsys) -> None:
    found = answer(capsys, "minutes", "fleet")
    assert [one["snapshot_id"] for one in found["minutes"]] == [one.snapshot_id for one in MINUTES]
    assert found["minutes"][-1]["taken_at"] == "2026-11-21T12:00:00.000Z"
    assert found["gaps"] == []
    assert found["kinds"]["brokers"]["rows"] == 20


def test_minutes_of_a_range_for_people(site: Path, capsys) -> None:
    assert run(["history", "minutes", "fleet", "--from", "2026-11-21T11:58"]) == 0
    assert "2 min, 2026-11-21 11:58:00 to" in capsys.readouterr().out
    assert run(["history", "minutes", "fleet", "--from", "2027-01-01"]) == 0
    assert "No snapshot of" in capsys.readouterr().out


def test_gaps_are_where_minutes_are_much_farther_apart_than_usual() -> None:
    assert gaps_in([0, 60, 120, 600, 660]) == [(120, 600)]
    assert gaps_in([0]) == gaps_in([]) == []
    past, live = [*range(0, 2_400, 120)], [*range(2_400, 3_000, 10)]
    assert gaps_in([*past, *live]) == []
    assert gaps_in([*past, *live, 3_600, 3_610]) == [(2_990, 3_600)]


def test_events_can_be_narrowed_down(site: Path, capsys) -> None:
    every = answer(capsys, "events", "fleet")["events"]
    assert {one["kind"] for one in every} >= {"broker_up"}
    assert answer(capsys, "events", "fleet", "--kind", "split")["events"] == []
    assert answer(capsys, "events", "fleet", "--by", "trimtab")["events"] == []
    assert run(["history", "events", "fleet"]) == 0
    assert "broker_up" in capsys.readouterr().out


def test_agreement_is_told(site: Path, capsys) -> None:
    found = answer(capsys, "agreement", "fleet")
    assert found["strategy"] == "ThresholdShedder"
    assert sum(found["counts"].values()) == len(found["rounds"]) == 4
    assert run(["history", "agreement", "fleet"]) == 0
    assert "shedding was off" in capsys.readouterr().out


def test_agreement_is_predicted_again_from_the_record(site: Path, capsys) -> None:
    found = answer(capsys, "agreement", "fleet", "--replay")
    assert found["strategy"] == "ThresholdShedder"
    assert found["rounds"]
    other = answer(capsys, "agreement", "fleet", "--replay", "--strategy", "UniformLoadShedder")
    assert other["strategy"] == "UniformLoadShedder"
    unknown = ("agreement", "fleet", "--replay", "--strategy", "UniformShedder")
    refused = answer(capsys, *unknown, code=1)
    assert "UniformLoadShedder" in refused["error"]["hint"]


def test_agreement_of_a_strategy_that_predicted_nothing_offers_those_that_did(
    site: Path, capsys
) -> None:
    found = answer(capsys, "agreement", "fleet", "--strategy", "ThresholdSheder", code=1)
    assert "ThresholdShedder" in found["error"]["hint"]


def test_past_minute_comes_out_as_the_snapshot_that_it_was(site: Path, capsys) -> None:
    found = answer(
        capsys, "snapshot", "fleet", "--at", "2026-11-21T11:58:30Z", "--out", str(site / "out")
    )
    assert found["taken_at"] == "2026-11-21T11:58:00.000Z"
    assert load_snapshot(site / "out").snapshot_id == MINUTES[2].snapshot_id == found["snapshot_id"]
    assert run(["health", str(site / "out")]) == 0


def test_minute_before_the_first_is_refused(site: Path, capsys) -> None:
    found = answer(
        capsys, "snapshot", "fleet", "--at", "2020-01-01", "--out", str(site / "out"), code=1
    )
    assert found["error"]["code"] == "history"
    assert not (site / "out").exists()


def test_cluster_that_was_never_recorded_offers_those_that_were(site: Path, capsys) -> None:
    found = answer(capsys, "minutes", "fleeet", code=1)
    assert found["error"]["code"] == "unknown_name"
    assert "fleet" in found["error"]["hint"]


def test_range_goes_through_a_file_under_another_name(site: Path, capsys) -> None:
    file, elsewhere = str(site / "hour.file"), str(site / "elsewhere")
    out = answer(capsys, "export", "fleet", "--to", "2026-11-21T12:00", "--out", file)
    assert out["minutes"] == 5  # from the beginning of the hour
    taken = answer(capsys, "import", file, "--as", "copy", "--history", elsewhere)
    assert taken["minutes"] == 5
    found = answer(capsys, "minutes", "copy", "--history", elsewhere)
    assert len(found["minutes"]) == 5
    assert answer(capsys, "import", file, "--as", "copy", "--history", elsewhere)["minutes"] == 0


def test_export_says_what_range_was_really_written(site: Path, capsys) -> None:
    wish = ["history", "export", "fleet", "--from", "2026-11-21T11:58", "--out", str(site / "file")]
    assert run(wish) == 0
    told = capsys.readouterr().out
    assert "5 snapshots over 4 min of fleet, 2026-11-21 11:56:00 to 2026-11-21 12:00" in told
    assert "begins before --from" in told


def test_snapshot_directories_of_a_cluster_become_a_file(site: Path, capsys) -> None:
    snapshot_store = SnapshotStore(site / "shelf")
    for snapshot in MINUTES:
        snapshot_store.put(snapshot)
    source, file = str(site / "shelf" / "fleet"), str(site / "file")
    out = answer(capsys, "export", source, "--out", file)
    assert (out["cluster"], out["minutes"]) == ("fleet", 5)
    assert out["from"] == "2026-11-21T11:56:00.000Z"
    uri = ["--history", str(site / "elsewhere")]
    assert answer(capsys, "import", file, *uri)["minutes"] == 5
    found = answer(capsys, "export", source, "--from", "-2h", "--out", file + "2", code=2)
    assert "Omit --from" in found["error"]["hint"]


def test_export_writes_over_nothing(site: Path, capsys) -> None:
    (site / "there").write_text("mine")
    found = answer(capsys, "export", "fleet", "--out", str(site / "there"), code=2)
    assert "already exists" in found["error"]["message"]
    assert (site / "there").read_text() == "mine"


def test_snapshot_directory_and_shelf_become_minutes(site: Path, capsys) -> None:
    uri = ["--history", str(site / "h")]
    save_snapshot(MINUTES[0], site / "one")
    assert answer(capsys, "import", str(site / "one"), *uri)["minutes"] == 1
    snapshot_store = SnapshotStore(site / "shelf")
    for snapshot in [*MINUTES, snapshot_of(whole(), cluster="kv", taken_at=NOON)]:
        snapshot_store.put(snapshot)
    assert answer(capsys, "import", str(site / "shelf"), *uri)["minutes"] == 5
    assert answer(capsys, "import", str(site / "shelf" / "fleet"), *uri)["minutes"] == 0
    found = answer(capsys, "import", str(site / "shelf" / "fleet"), "--as", "copy", *uri)
    assert found["minutes"] == 5
    assert len(answer(capsys, "minutes", "copy", *uri)["minutes"]) == 5
    assert len(answer(capsys, "minutes", "kv", *uri)["minutes"]) == 1


def test_damaged_snapshot_of_a_shelf_is_named(site: Path, capsys) -> None:
    kept = [SnapshotStore(site / "shelf").put(one) for one in MINUTES[:2]]
    (kept[0].path / "bundles.parquet").write_bytes(b"no table")
    found = answer(capsys, "import", str(site / "shelf"), "--history", str(site / "h"), code=1)
    assert kept[0].path.name in found["error"]["message"]


def test_folder_without_snapshots_is_refused(site: Path, capsys) -> None:
    found = answer(capsys, "import", str(site), "--history", str(site / "h"), code=1)
    assert "No snapshot in" in found["error"]["message"]
    assert answer(capsys, "import", str(site / "nowhere"), code=2)["error"]["code"] == "usage"


def test_history_is_put_in_order(site: Path, capsys) -> None:
    save_snapshot(make_snapshot(brokers=4, bundles=24), site / "one")
    uri = ["--history", str(site / "h")]
    answer(capsys, "import", str(site / "one"), *uri)
    (one,) = answer(capsys, "compact", *uri)["clusters"]
    assert one["cluster"] == "fleet"
    assert one["bytes"] > 0
    assert answer(capsys, "compact", "nobody", *uri, code=1)["error"]["code"] == "unknown_name"
    assert run(["history", "compact", "--history", str(site / "empty")]) == 0
    assert "No history is recorded" in capsys.readouterr().out


NOW = datetime(2026, 11, 22, 6, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", NOW),
        ("-2h", NOW - timedelta(hours=2)),
        ("-90min", NOW - timedelta(minutes=90)),
        ("- 1.5d", NOW - timedelta(hours=36)),
        ("2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ("2026-11-21T12:00", NOON),
        ("2026-11-21 12:00:00Z", NOON),
        ("2026-11-21T14:00+02:00", NOON),
    ],
)
def test_times_are_understood(text: str, meant: datetime) -> None:
    assert moment(text, NOW) == meant


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2h", "-2", "-2y", "12:00", "2026-13-01", "-99999999999w"]
)
def test_anything_else_is_no_time(text: str) -> None:
    with pytest.raises(UsageFaultError, match="is not a time"):
        moment(text, NOW)


def test_times_are_refused_as_bad_usage(site: Path, capsys) -> None:
    found = answer(capsys, "minutes", "fleet", "--from", "noon", code=2)
    assert "2026-11-21T12:00" in found["error"]["hint"]
    found = answer(capsys, "minutes", "fleet", "--from", "2026-11-22", "--to", "2026-11-21", code=2)
    assert "before it begins" in found["error"]["message"]
    assert answer(capsys, "minutes", "fleet", "--from", "-2000w")["minutes"]


def test_unknown_kind_of_event_is_bad_usage_with_near_names(site: Path, capsys) -> None:
    found = answer(capsys, "events", "fleet", "--kind", "moves", code=2)
    assert found["error"]["hint"] == "Did you mean move?"
    assert answer(capsys, "events", "fleet", "--by", "trimtap", code=2)["error"]
    assert (
        answer(capsys, "events", "fleet", "--kind", "move", "--by", "cluster")["events"] is not None
    )


def test_what_comes_from_elsewhere_says_how_the_pages_show_it(site: Path, capsys) -> None:
    file = str(site / "hour.file")
    answer(capsys, "export", "fleet", "--out", file)
    assert run(["history", "import", file, "--as", "case 7", "--history", str(site / "h")]) == 0
    said = capsys.readouterr().out
    assert "5 new snapshots" in said
    assert "accept the name case 7" in said
    found = answer(capsys, "import", file, "--as", " ", "--history", str(site / "h"), code=2)
    assert found["error"]["message"] == "--as is empty."
