"""Two pipelines, killed at random moments while late minutes come, lose and count nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from history_rows import CLUSTER, recorded, store_in
from history_worlds import pulsar_minutes
from tier_rows import after, check_hours, whole

from core.history.store.layout import DAY_MS
from core.history.store.reading import TimeRange
from core.history.store.writer import Recorder
from core.history.tiers import pipeline

HERE = Path(__file__).parent
PROGRAM = HERE / "rolling_pipeline.py"


class RollingPipeline:
    """A pipeline in a process of its own."""

    def __init__(self, folder: Path, now_ms: int) -> None:
        paths = [str(HERE.parents[1]), str(HERE.parent / "support")]
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder), str(now_ms)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        assert self._output.read(1) == b"b"  # it has begun

    def kill(self, after_s: float = 0.0) -> bool:
        """Kill it after a while; return whether that was within a turn."""
        with pytest.raises(subprocess.TimeoutExpired):  # it never ends by itself
            self._process.wait(after_s)
        self._process.kill()
        self._process.wait()
        with self._output:
            return not self._output.read().endswith(b"e")


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_pipelines_leave_the_hours_of_their_minutes(kills, tmp_path) -> None:
    rng = np.random.default_rng(kills)
    snapshots = pulsar_minutes(3, 24 + kills, every_s=900.0)
    late = set(rng.permutation(len(snapshots))[:kills].tolist())
    store, now_ms = store_in(tmp_path), after(snapshots) + 15 * DAY_MS  # the month is merged, too
    recorded(store, [one for place, one in enumerate(snapshots) if place not in late])
    pipelines = [RollingPipeline(tmp_path, now_ms) for _ in range(2)]
    within = 0
    for place in sorted(late):
        Recorder(store, CLUSTER).record(snapshots[place])
        at = int(rng.integers(2))
        within += pipelines[at].kill(after_s=float(rng.uniform(0.0, 0.4)))
        pipelines[at] = RollingPipeline(tmp_path, now_ms)
    for one in pipelines:
        one.kill()
    assert within > kills // 3

    pipeline.roll_up(store, CLUSTER, now_ms)
    left = whole(store)
    check_hours(left["hours"], snapshots)
    pipeline.roll_up(store, CLUSTER, now_ms, only=TimeRange())
    assert whole(store) == left
    assert pipeline.verify(store, CLUSTER, 100, seed=1)[1] == []
