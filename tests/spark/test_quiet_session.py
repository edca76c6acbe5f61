"""A terminal on which Spark runs shows what Trimtab says, and nothing of Spark's own log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
from connectors.sandbox.java import find_java
from core.spark.session import SparkOptions, end_session, session
print(session(SparkOptions(master="local[1]", java_home=find_java().home)).range(3).count())
end_session()
"""


@pytest.mark.slow
def test_a_session_that_starts_counts_and_ends_says_nothing():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout == "3\n"
    assert done.stderr == ""
