"""``trimtab runs``: the list, one run, the export, and the check of the journal."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from journal_entries import (
    ONE_OF_EACH,
    RUN,
    SHEDDING,
    begun,
    chain_of,
    claimed,
    ended,
    record_of,
    requested,
)
from signed_requests import as_requested

from connectors.journal.journal import SqlJournal
from core.actions.events import (
    ControlRequested,
    ExternalMove,
    RunEnded,
    SettingChanged,
    SettingRestored,
    SettingSaved,
)
from core.actions.model import RunId
from core.actions.runs import fold
from dashboard.cli.apply import RunProgress
from dashboard.cli.clusters import note_open_runs
from dashboard.cli.main import run

MEASURED = ONE_OF_EACH[-1]
EVENTS = (
    requested(3),
    claimed(),
    SettingSaved(key=SHEDDING, before=None, during="false"),
    SettingChanged(key=SHEDDING),
    begun(0),
    ended(0),
    begun(1),
    ended(1, "DONE", "landed_elsewhere", "b9:8080"),
    ControlRequested(control="stop", reason="enough"),
    ended(2, "SKIPPED", "stopped", None),
    ExternalMove(
        subject="x/y/z", source="b1", destination="b2", sentence="x/y/z moved, not by us."
    ),
    SettingRestored(key=SHEDDING, result="restored", sentence="It was put back."),
    RunEnded(state="STOPPED", sentence="Stopped as ann asked."),
    MEASURED,
)
LATER = RunId("20261121-130000-fedcba")


@pytest.fixture
def site(tmp_path, monkeypatch) -> Path:
    """A configuration, and a journal with a whole run, a queued one and a damaged one."""
    (tmp_path / "trimtab.toml").write_text(
        'state_dir = "state"\n[[clusters]]\nname = "prod"\nzookeeper = "z:1"\n'
    )
    monkeypatch.setenv("TRIMTAB_CONFIG", str(tmp_path / "trimtab.toml"))
    journal = SqlJournal(f"sqlite:///{tmp_path / 'state' / 'journal.db'}")
    for second, event in enumerate(EVENTS):
        journal.append(as_requested(record_of(event, second=second)))
    undo = requested(1, undoes=RUN, reason="wrong idea")
    journal.append(as_requested(record_of(undo, run_id=LATER, second=60, actor="ben")))
    for event in (requested(1), begun(0)):
        record = record_of(event, run_id=RunId("damaged"), cluster="old", second=90)
        journal.append(as_requested(record))
    journal.close()
    return tmp_path


@pytest.fixture
def trimtab(site, capsys):
    def call(*words: object) -> tuple[int, str, str]:
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_runs_are_listed_newest_first(trimtab) -> None:
    code, out, err = trimtab("runs", "--json")
    found = json.loads(out)["runs"]
    assert trimtab("runs", "list", "--json")[1] == out
    assert code == 3
    assert err.startswith("Run damaged is damaged: ")
    assert [item["run_id"] for item in found] == ["damaged", LATER, RUN]
    assert found[2]["state"] == "STOPPED"
    assert found[2]["counts"] == {"DONE": 2, "SKIPPED": 1}
    assert found[2]["steps"] == 3
    assert found[1]["undoes"] == RUN
    assert found[1]["requested_by"] == "ben"
    assert found[0]["damage"]
    assert found[1]["damage"] is None


def test_the_list_for_people_says_who_and_why(trimtab) -> None:
    _, out, _ = trimtab("runs", "--wide")
    assert "too hot" in out
    assert f"undoes {RUN}: wrong idea" in out
    assert "DAMAGED" in out
    assert "ann" in out


def test_a_narrow_run_keeps_where_bundles_landed(trimtab, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    _, out, err = trimtab("runs", RUN)
    assert "landed" in out
    assert "b9:8080" in out
    assert "from" not in err  # bundles have lines of their own


def test_runs_can_be_chosen_by_cluster_and_number(trimtab) -> None:
    _, out, _ = trimtab("runs", "--cluster", "old", "--json")
    assert [item["run_id"] for item in json.loads(out)["runs"]] == ["damaged"]
    _, out, _ = trimtab("runs", "--last", "1", "--json")
    assert len(json.loads(out)["runs"]) == 1
    code, out, _ = trimtab("runs", "--cluster", "none")
    assert code == 0
    assert out.startswith("The journal sqlite://")
    assert out.rstrip().endswith("journal.db has no runs on none.")


def test_unsigned_entries_of_a_run_are_named(site, trimtab) -> None:
    unsigned = record_of(ControlRequested(control="stop"), run_id=LATER, second=70)
    with closing(SqlJournal(f"sqlite:///{site / 'state' / 'journal.db'}")) as journal:
        seq = journal.append(unsigned).seq
    code, out, _ = trimtab("runs", LATER, "--json")
    body = json.loads(out)
    assert code == 0
    assert [entry["seq"] for entry in body["entries"]] == [len(EVENTS) + 1, seq]
    assert body["unsigned"] == [seq]
    assert body["run"]["control"] is None
    said = " ".join(trimtab("runs", LATER)[1].split())
    assert f"Not genuine: 1 entry ({seq})" in said
    code, _, err = trimtab("runs")
    assert code == 3
    assert f"Run {LATER}: Not genuine: 1 entry ({seq})" in " ".join(err.split())


def test_one_run_is_told_whole(trimtab) -> None:
    code, out, _ = trimtab("runs", RUN, "--json")
    body = json.loads(out)
    view = body["run"]
    assert code == 0
    assert [step["state"] for step in view["steps"]] == ["DONE", "DONE", "SKIPPED"]
    assert view["steps"][0]["before"]["holder"] == "b1:8080"
    assert view["steps"][0]["after"]["holder"] == "b2:8080"
    assert view["steps"][1]["code"] == "landed_elsewhere"
    assert [move["owner"] for move in view["next_moves"]] == ["b9:8080"]
    assert view["settings"][0]["result"] == "restored"
    assert view["external_changes"][0]["subject"] == "x/y/z"
    assert view["expected"]["brokers"][0]["usage_after"] == 0.5
    assert view["measured"]["throughput_deviation"] == 0.125
    assert [entry["seq"] for entry in body["entries"]] == list(range(1, len(EVENTS) + 1))


def test_one_run_for_people_says_what_matters(trimtab) -> None:
    _, out, _ = trimtab("runs", RUN)
    for words in (
        "is STOPPED: 2 done, 1 skipped. Stopped as ann asked.",
        "b9:8080",
        "may still move from b9:8080 to b2:8080",
        "It was put back.",
        "moved, not by us",
        "40% before, 10% predicted, 12.5% measured",
        "Requested: stop the run. enough",
        "Step 3: It is stopped.",
    ):
        assert words in out


def test_steps_skipped_for_one_reason_are_told_together(trimtab, site) -> None:
    journal = SqlJournal(f"sqlite:///{site / 'state' / 'journal.db'}")
    events = (
        requested(3),
        claimed(),
        begun(0),
        ended(0, "FAILED", "timed_out", None),
        ended(1, "SKIPPED", "too_many_failures", None),
        ended(2, "SKIPPED", "too_many_failures", None),
        RunEnded(state="FAILED", sentence="One step failed."),
    )
    failed = RunId("20261121-140000-abcdef")
    for second, event in enumerate(events):
        journal.append(record_of(event, run_id=failed, second=200 + second))
    journal.close()
    code, out, _ = trimtab("runs", failed)
    assert code == 0
    reason = ended(1, "SKIPPED", "too_many_failures", None).result.sentence
    assert out.count(f"Step 2: {reason}") == 1
    assert "same reason as step 2: step 3." in out


def test_a_setting_that_was_set_again_is_told_once_more(capsys) -> None:
    again = "meta level is steady again: set to lively again for the run."
    events = (
        requested(1),
        claimed(),
        SettingSaved(key="meta level", before="steady", during="lively"),
        SettingChanged(key="meta level"),
        SettingSaved(key="meta level", before="steady", during="lively", sentence=again),
        SettingChanged(key="meta level"),
    )
    progress = RunProgress()
    entries = chain_of(events)
    for count in range(1, len(entries) + 1):
        progress.note_new(fold(entries[:count]))
    assert capsys.readouterr().err.count(again) == 1


def test_a_run_that_is_not_there_is_refused_with_near_names(trimtab) -> None:
    code, out, _ = trimtab("runs", RUN[:-1] + "0", "--json")
    assert code == 1
    assert RUN in json.loads(out)["error"]["hint"]


def test_the_export_holds_every_entry_as_it_is_sealed(trimtab, site) -> None:
    out_file = site / "audit.jsonl"
    code, out, _ = trimtab("runs", "--export", out_file, "--json")
    lines = [json.loads(line) for line in out_file.read_text().splitlines()]
    assert code == 0
    assert json.loads(out) == {"export": str(out_file), "entries": len(lines)}
    assert [line["seq"] for line in lines] == list(range(1, len(EVENTS) + 4))
    assert lines[1]["previous"] == lines[0]["digest"]
    assert lines[0]["record"]["event"]["kind"] == "RunRequested"


def test_the_export_can_be_of_a_run_or_a_cluster(trimtab, site) -> None:
    out_file = site / "audit.jsonl"
    _, out, _ = trimtab("runs", LATER, "--export", out_file, "--json")
    assert json.loads(out)["entries"] == 1
    _, out, _ = trimtab("runs", "--cluster", "old", "--export", out_file, "--json")
    assert json.loads(out)["entries"] == 2
    code, _, err = trimtab("runs", "--export", site / "no" / "audit.jsonl")
    assert code == 1
    assert "cannot be written" in err


def test_a_sound_journal_is_verified_and_its_hash_is_printed(trimtab) -> None:
    code, out, _ = trimtab("runs", "--verify", "--json")
    body = json.loads(out)
    assert code == 0
    assert body["is_sound"]
    assert body["entries"] == body["newest"]["seq"] == len(EVENTS) + 3
    code, out, _ = trimtab("runs", "--verify", "--expect", body["newest"]["digest"])
    assert code == 0
    assert body["newest"]["digest"] in out


def damage(site: Path, statement: str) -> None:
    """As somebody with the file would: the triggers are the first to go."""
    with sqlite3.connect(site / "state" / "journal.db") as connection:
        connection.execute("DROP TRIGGER trimtab_no_update")
        connection.execute("DROP TRIGGER trimtab_no_delete")
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        ("UPDATE trimtab_entries SET body = replace(body, 'too hot', 'so so') WHERE seq = 1", 1),
        ("DELETE FROM trimtab_entries WHERE seq = 9", 9),
        ("UPDATE trimtab_entries SET actor = 'nobody' WHERE seq = 9", 9),
    ],
)
def test_a_damaged_journal_is_exit_code_1_and_names_the_entry(
    trimtab, site, statement, seq
) -> None:
    damage(site, statement)
    code, out, _ = trimtab("runs", "--verify", "--json")
    body = json.loads(out)
    assert code == 1
    assert not body["is_sound"]
    assert body["damage"]["seq"] == seq
    code, out, _ = trimtab("runs", "--verify")
    assert f"DAMAGED at entry {seq}" in out


def test_a_cut_end_needs_the_hash_kept_elsewhere(trimtab, site) -> None:
    _, out, _ = trimtab("runs", "--verify", "--json")
    kept = json.loads(out)["newest"]["digest"]
    damage(site, f"DELETE FROM trimtab_entries WHERE seq > {len(EVENTS)}")
    code, out, _ = trimtab("runs", "--verify", "--json")
    assert json.loads(out)["damage"] is None
    code, out, _ = trimtab("runs", "--verify", "--expect", kept)
    assert code == 1
    assert "truncated" in out


@pytest.mark.parametrize(
    "words", [("--expect", "x"), ("--verify", "--export", "f"), (RUN, "--verify")]
)
def test_options_that_exclude_each_other_are_bad_usage(trimtab, words) -> None:
    assert trimtab("runs", *words)[0] == 2


def test_a_run_is_asked_to_stop_with_a_reason_that_no_terminal_obeys(trimtab, site) -> None:
    code, out, _ = trimtab("runs", LATER, "--stop", "--reason", "too \x1b[31mhot\nnow")
    assert code == 0
    assert f"Stop of run {LATER} requested" in out
    entry = SqlJournal(f"sqlite:///{site / 'state' / 'journal.db'}").entries(run_id=LATER)[-1]
    event = entry.record.event
    assert isinstance(event, ControlRequested)
    assert (event.control, event.reason) == ("stop", "too [31mhot now")


def test_what_is_left_open_is_said_when_the_pages_end(site, capsys) -> None:
    note_open_runs(site / "trimtab.toml")
    said = capsys.readouterr().err
    assert said == "Open: 1 run. The next worker continues.\n"


@pytest.mark.parametrize(
    "words", [["--stop"], [LATER, "--stop", "--pause"], [LATER, "--stop", "--verify"]]
)
def test_one_thing_is_asked_of_one_run(trimtab, words) -> None:
    code, _, err = trimtab("runs", *words)
    assert code == 2
    assert "cannot be combined" in err
