"""Releases on the command line: which one decides, an unknown one, settings that one lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fleet_builder import NOON
from places import FIXTURES

from core.snapshot import Manifest
from dashboard.cli.main import run
from dashboard.components.pulsar.system import release_badge

DUMP = FIXTURES / "pulsar" / "zk-dump-idle.jsonl"
EXCLUDED = "loadBalancerSheddingExcludedNamespaces"
LACKS = (
    f"Release 4.0.8 has no setting {EXCLUDED}, so its value has no effect. "
    "Available in 4.0.11 and later."
)
UNKNOWN = "Release 6.0.1 is unknown: the rules of 5.0 are assumed."


@pytest.fixture
def snapshot_of(tmp_path: Path) -> Any:
    """Import the recorded dump as if its brokers ran another release."""

    def build(version: str) -> str:
        dump, out = tmp_path / f"{version}.jsonl", tmp_path / version
        dump.write_text(DUMP.read_text().replace("4.2.4", version))
        assert run(["import-zk", str(dump), "--out", str(out), "--json"]) == 0
        return str(out)

    return build


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, Any], str]:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    told = capsys.readouterr()
    return json.loads(told.out), told.err


@pytest.mark.parametrize(
    ("version", "line", "strategy"),
    [
        ("2.8.4", "2.8", "OverloadShedder"),
        ("2.9.5", "2.9", "OverloadShedder"),
        ("3.0.12", "3.0", "ThresholdShedder"),
        ("3.3.7", "3.3", "ThresholdShedder"),
        ("4.1.2", "4.1", "ThresholdShedder"),
        ("4.2.4", "4.2", "ThresholdShedder"),
    ],
)
def test_the_brokers_own_version_decides(
    version: str,
    line: str,
    strategy: str,
    snapshot_of: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, told = _json(capsys, "explain", snapshot_of(version))
    assert (found["release"], found["strategy"]) == (line, strategy)
    assert "warnings" not in found
    assert "warning" not in told


@pytest.mark.parametrize("command", ["health", "explain", "shed", "doctor"])
def test_an_unknown_release_is_shown_everywhere(
    command: str, snapshot_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    found, told = _json(capsys, command, snapshot_of("6.0.1"))
    assert UNKNOWN in found["warnings"]
    assert f"Warning: {UNKNOWN}" in told
    known, _ = _json(capsys, command, snapshot_of("4.1.2"))
    assert "warnings" not in known


@pytest.mark.parametrize("command", ["shed", "explain", "doctor", "simulate", "optimize"])
def test_a_setting_that_the_release_lacks_is_a_warning(
    command: str, snapshot_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (snapshot_of("4.2.4"), "--set", f'{EXCLUDED}=["public/default"]')
    found, told = _json(capsys, command, *options, "--release", "4.0")
    assert found["warnings"] == [LACKS]
    assert told.count(LACKS) == 1
    for release in ("4.0.11", "4.1", "4.2"):
        found, told = _json(capsys, command, *options, "--release", release)
        assert "warnings" not in found, release
        assert LACKS not in told


def test_a_wrong_release_is_one_sentence_with_the_lines(
    snapshot_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["shed", snapshot_of("4.2.4"), "--release", "6.0"]) == 2
    told = capsys.readouterr().err
    assert told == (
        "trimtab: Release line '6.0' does not exist. Use one of 2.8, 2.9, 2.10, 2.11, 3.0, 3.1, "
        "3.2, 3.3, 4.0, 4.1, 4.2, 5.0, or a version of a line such as 4.0.8.\n"
    )


def test_a_sandbox_of_a_wrong_release_is_the_same_bad_usage(capsys) -> None:
    assert run(["sandbox", "--release", "6.0"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("trimtab: Release line '6.0' does not exist. Use one of 2.8, 2.9, ")


def test_the_header_names_an_unknown_release() -> None:
    def manifest(release: str) -> Manifest:
        return Manifest(cluster="c", taken_at=NOON, tables={}, release=release)

    badge = release_badge(manifest("6.0.1"))
    assert badge is not None
    assert (badge.text, badge.help) == ("release 6.0.1 (unknown, as 5.0)", UNKNOWN)
    assert release_badge(manifest("2.9.5")) is None
