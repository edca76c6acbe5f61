"""The job server's one session: made once, and made anew when its Java has died."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from connectors.jobs.warm import Warm
from connectors.sandbox.java import find_java
from core.spark.session import SparkOptions, session
from pyspark import SparkContext

made = []
def make():
    made.append(1)
    return session(SparkOptions("local[1]", find_java().home))

warm = Warm(make)
first = warm()
assert warm() is first
SparkContext._gateway.proc.kill()
SparkContext._gateway.proc.wait()
second = warm()
assert second is not first
assert second.range(7).count() == 7
warm.end()
warm.end()
print("made anew")
"""


@pytest.mark.slow
def test_a_session_whose_java_died_is_made_anew() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.endswith("made anew\n"), done.stderr[-2000:]
