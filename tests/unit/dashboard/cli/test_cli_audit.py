"""``trimtab audit``: entries by person, cluster, kind and time; exports."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from journal_entries import NOON, ONE_OF_EACH, RUN, record_of

from connectors.journal.journal import SqlJournal
from dashboard.cli.main import run as run_command


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    journal = SqlJournal(f"sqlite:///{folder / 'state' / 'journal.db'}")
    for minute, event in enumerate(ONE_OF_EACH):
        journal.append(record_of(event, run_id=RUN, second=60 * minute))
    journal.close()
    file = folder / "trimtab.toml"
    file.write_text(f'state_dir = "{folder / "state"}"\n')
    return file


def entries(capsys, config: Path, *words: str) -> list[dict]:
    assert run_command(["audit", *words, "--config", str(config), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["entries"]


def test_all_are_listed_the_newest_last(config, capsys):
    found = entries(capsys, config)
    assert [one["seq"] for one in found] == list(range(1, len(ONE_OF_EACH) + 1))
    assert [one["seq"] for one in entries(capsys, config, "--last", "2")] == [
        one["seq"] for one in found[-2:]
    ]


def test_filters_narrow_what_is_listed(config, capsys):
    every = entries(capsys, config)
    for word, key in (("--who", "actor"), ("--cluster", "cluster")):
        value = every[0]["record"][key]
        found = entries(capsys, config, word, value)
        assert found == [one for one in every if one["record"][key] == value]
    assert entries(capsys, config, "--who", "nobody") == []
    started = entries(capsys, config, "--kind", "step started")
    assert {one["record"]["event"]["kind"] for one in started} == {"StepStarted"}
    third = every[2]["record"]["at"]
    late = entries(capsys, config, "--from", third)
    assert [one["seq"] for one in late] == [one["seq"] for one in every[2:]]
    assert len(entries(capsys, config, "--to", third)) == 3


def test_a_table_for_people_has_the_cluster_and_what_happened(config, capsys):
    assert run_command(["audit", "--last", "3", "--config", str(config)]) == 0
    assert f"{NOON:%Y-%m-%d}" in capsys.readouterr().out
    assert run_command(["audit", "--who", "nobody", "--config", str(config)]) == 0
    assert "matches" in capsys.readouterr().out


def test_an_export_has_every_entry_with_its_hash(config, capsys, tmp_path):
    every = entries(capsys, config)
    lines = tmp_path / "all.jsonl"
    assert run_command(["audit", "--export", str(lines), "--config", str(config)]) == 0
    assert [json.loads(line) for line in lines.read_text().splitlines()] == every
    sheet = tmp_path / "all.csv"
    assert run_command(["audit", "--export", str(sheet), "--config", str(config)]) == 0
    with sheet.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["hash"] for row in rows] == [one["digest"] for one in every]
    assert all(row["kind"] and row["what"] for row in rows)


def test_what_a_spreadsheet_would_compute_is_text(tmp_path, capsys):
    journal = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")
    journal.append(record_of(ONE_OF_EACH[0], run_id=RUN, actor='=HYPERLINK("x")'))
    journal.close()
    file, sheet = tmp_path / "trimtab.toml", tmp_path / "a.csv"
    file.write_text(f'state_dir = "{tmp_path}"\n')
    assert run_command(["audit", "--export", str(sheet), "--config", str(file)]) == 0
    with sheet.open(newline="") as opened:
        assert next(csv.DictReader(opened))["who"] == '\'=HYPERLINK("x")'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--kind", "gone"), "No kind 'gone'"),
        (("--from", "soon"), "'soon' is not a time"),
        (("--export", "x.xlsx"), "neither .jsonl nor .csv"),
    ],
)
def test_wrong_words_are_named(config, capsys, words, said):
    assert run_command(["audit", *words, "--config", str(config)]) == 2
    assert said in capsys.readouterr().err
