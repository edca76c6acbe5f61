"""Benchmarks take minutes: asked for help, each says what it is and starts nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted((ROOT / "bench").glob("*.py")), ids=lambda path: str(path.stem)
)
def test_a_benchmark_asked_for_help_starts_nothing(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path), "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
