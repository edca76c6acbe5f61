"""The worked examples of CONTRIBUTING do what they say, together and with their tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_documents import EXAMPLES, ROOT
from test_rules_of_the_house import tracked_files

TESTS = (
    "tests/unit/core/pulsar/rules/test_health_rules.py",
    "tests/unit/core/findings/test_finding_titles.py",
    "tests/unit/core/pulsar/shedding/test_median_shedder.py",
    "tests/property/test_shedding_gates_property.py",
    "tests/unit/core/pulsar/steps/test_shutdown_step.py",
    "tests/unit/test_role_matrix.py",
    "tests/unit/core/operations/test_domains.py",
    "tests/unit/dashboard/api/test_api.py",
    "tests/unit/dashboard/test_guides.py",
    "tests/architecture/test_step_kinds.py",
    "tests/architecture/test_strategies_are_closed.py",
    "tests/architecture/test_settings_table.py",
)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_examples_work(tmp_path: Path) -> None:
    for file in tracked_files():
        place = tmp_path / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place, follow_symlinks=False)
    (tmp_path / "dashboard" / "guides").symlink_to(Path("..") / "docs" / "guides")
    for name in EXAMPLES:
        diff = ROOT / "docs" / "examples" / f"{name}.diff"
        subprocess.run(["git", "apply", "-C1", str(diff)], cwd=tmp_path, check=True)
    for command in (("ruff", "check", "."), ("mypy",), ("pytest", "-q", *TESTS)):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
