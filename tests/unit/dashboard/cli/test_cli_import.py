"""``trimtab import`` and ``import-zk``: what they print and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from places import FIXTURES

from core.snapshot.store import load_snapshot
from dashboard.cli.main import run as run_command

COMPLETE = {
    "persistentTopicsEnabled": True,
    "nonPersistentTopicsEnabled": True,
    "startTimestamp": 1795800000000,
}
REPORTS = FIXTURES / "reports" / "serving"


def run(capsys, *words):
    code = run_command([*map(str, words)])
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.fixture
def reports(tmp_path) -> list[Path]:
    files = []
    for line in (REPORTS / "iadmin.jsonl").read_text().splitlines():
        entry = json.loads(line)
        path = tmp_path / f"{entry['path'].rpartition('/')[2].replace(':', '_')}.json"
        path.write_text(json.dumps(entry["value"] | COMPLETE, indent=2))
        files.append(path)
    return files


def test_each_file_is_named_with_what_it_is(capsys, reports, tmp_path):
    out = tmp_path / "snap"
    code, text, _ = run(capsys, "import", *reports, "--out", out, "--cluster", "prod")
    assert code == 0
    assert "b-0_8080.json" in text
    assert "load report (broker-stats load-report)" in text
    assert "get-runtime-config" in text
    assert load_snapshot(out).manifest.cluster == "prod"


def test_a_report_that_lacks_numbers_ends_with_3(capsys, reports, tmp_path):
    reports[0].write_text('{"webServiceUrl": "http://b-0:8080", "lastStats": {}}')
    code, _, err = run(capsys, "import", *reports, "--out", tmp_path / "snap")
    assert code == 3
    assert "load report of b-0:8080" in err


def test_json_is_that_of_import_zk_with_the_files(capsys, reports, tmp_path):
    _, text, _ = run(capsys, "import", *reports, "--out", tmp_path / "a", "--json")
    _, dumped, _ = run(
        capsys, "import-zk", REPORTS / "iadmin.jsonl", "--out", tmp_path / "b", "--json"
    )
    body = json.loads(text)
    assert body.keys() - json.loads(dumped).keys() == {"files"}
    assert [one["about"] for one in body["files"]] == [f"b-{n}:8080, 3 bundles" for n in range(3)]
    assert body["tables"]["bundles"]["rows"] == 9


def test_what_is_not_recognized_ends_with_one_sentence(capsys, reports, tmp_path):
    odd = tmp_path / "odd.txt"
    odd.write_text("just a log\n")
    code, text, _ = run(capsys, "import", *reports, odd, "--out", tmp_path / "a", "--json")
    error = json.loads(text)["error"]
    assert code == 1
    assert "odd.txt is not recognized" in error["message"]
    assert not (tmp_path / "a").exists()


def test_many_problems_of_one_kind_are_counted(capsys, tmp_path):
    lines = (REPORTS / "i13973.jsonl").read_text()
    report = {"path": "/loadbalance/bundle-data/acme/orders/0x{:08x}_0x{:08x}", "value": {}}
    more = "".join(
        json.dumps(report | {"path": report["path"].format(at, at + 1)}) + "\n"
        for at in range(1, 90)
    )
    dump = tmp_path / "dump.jsonl"
    dump.write_text(lines + more)
    code, _, err = run(capsys, "import-zk", dump, "--out", tmp_path / "a")
    assert code == 3  # averages are missing
    assert len(err.splitlines()) < 25
    assert "Examples:" in err
    _, text, _ = run(capsys, "import-zk", dump, "--out", tmp_path / "b", "--json")
    assert len(json.loads(text)["problems"]) > 25
