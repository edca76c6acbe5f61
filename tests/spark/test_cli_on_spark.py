"""``--engine spark`` prints what a command prints without, for one snapshot and for several."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fleet_builder import make_snapshot

from core.snapshot.store import load_snapshot, save_snapshot
from core.spark.size import MAX_BUNDLES
from dashboard.cli.main import run

NAMES = ("east", "west")
COMMANDS = {
    "health": (),
    "shed": ("--strategy", "ThresholdShedder", "--rounds", "2", "--strategy-only"),
    "place": ("--candidates", "10.1.0.1:8080,10.1.0.2:8080", "--bundle"),  # and its name
    "simulate": (
        *("--rounds", "2", "--add-broker", "10.1.0.33:8080", "--fail-broker", "10.1.0.2:8080"),
        *("--fail-domain", "zone-a"),
    ),
}


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("snapshots")
    for seed, name in enumerate(NAMES):
        save_snapshot(
            make_snapshot(brokers=4, bundles=60, seed=seed, cluster=name), root / f"{name} 1"
        )
    return [root / f"{name} 1" for name in NAMES]


@pytest.fixture(autouse=True)
def _session_of_the_folder(spark, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_SPARK__MASTER", "local[2]")  # of the session that runs already


def words_of(name: str, snapshots: list[Path]) -> list[str]:
    first = load_snapshot(snapshots[0]).bundles["bundle"][0].as_py()
    return [*COMMANDS[name], *([first] if name == "place" else [])]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, object]:
    code = run([*words, "--json"])
    return code, _without_times(json.loads(capsys.readouterr().out))


def _without_times(body: object) -> object:
    if isinstance(body, dict):
        return {key: _without_times(one) for key, one in body.items() if key != "elapsed_ms"}
    return [_without_times(one) for one in body] if isinstance(body, list) else body


@pytest.mark.parametrize("name", COMMANDS)
def test_one_snapshot_and_several_get_the_same_objects_from_both_engines(name, snapshots, capsys):
    words = words_of(name, snapshots)
    paths = list(map(str, snapshots))
    alone = {
        cluster: printed(capsys, name, path, *words)
        for cluster, path in zip(NAMES, paths, strict=True)
    }
    together = (
        max(code for code, _ in alone.values()),
        {"clusters": {cluster: body for cluster, (_, body) in alone.items()}},
    )
    assert printed(capsys, name, *paths, *words) == together
    assert printed(capsys, name, *paths, *words, "--engine", "spark") == together
    assert printed(capsys, name, paths[0], *words, "--engine", "spark") == alone[NAMES[0]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["health", "place", "shed", "simulate"],
)
def test_what_is_too_large_for_one_task_is_told_the_same(name, snapshots, tmp_path, capsys):
    directory = tmp_path / "large"
    shutil.copytree(snapshots[0], directory)
    manifest = directory / "manifest.json"
    body = json.loads(manifest.read_text())
    body["manifest"]["tables"]["bundles"]["rows"] = MAX_BUNDLES + 1  # as it says itself
    manifest.write_text(json.dumps(body))
    words = [name, str(directory), *words_of(name, snapshots)]
    spread, here = (printed(capsys, *words, *more) for more in (("--engine", "spark"), ()))
    for _, found in (spread, here):  # sought on small snapshots only
        found.get("explain", {}).pop("turning_points", None)
    assert spread == here


def test_people_read_the_same_under_the_name_of_each_cluster(snapshots, capsys):
    assert run(["shed", *map(str, snapshots)]) == 0
    here = capsys.readouterr().out
    assert run(["shed", *map(str, snapshots), "--engine", "spark"]) == 0
    assert capsys.readouterr().out == here
    assert here.startswith("== east\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine", "sparc"), "spark"),
        (("--engine", "spark", "--plan", "plan.json"), "one cluster"),
    ],
)
def test_what_no_engine_can_do_is_bad_usage(snapshots, capsys, words, said):
    assert run(["shed", str(snapshots[0]), *words]) == 2
    assert said in capsys.readouterr().err
