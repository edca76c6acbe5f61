"""Fifty browsers that vanish, killed or frozen with their machine: nothing of them is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from child_process import running, until
from fleet_builder import make_snapshot
from pages_server import ask, free_port

from core.snapshot.store import SnapshotStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]

PROGRAM = Path(__file__).parents[1] / "support" / "visitors.py"
VISITORS = 50
GONE_WITHIN_S = 180.0
"""How long a frozen browser is waited for, and then the minute in which it may come back."""


@dataclass(frozen=True)
class Held:
    """What a process holds."""

    threads: int
    loops: int  # of events; each session has one of its own
    files: int
    megabytes: float

    @classmethod
    def by(cls, pid: int) -> Held:
        found, opened = psutil.Process(pid), Path(f"/proc/{pid}/fd").iterdir()
        return cls(
            threads=found.num_threads(),
            loops=sum(_target(one) == "anon_inode:[eventpoll]" for one in opened),
            files=found.num_fds(),
            megabytes=found.memory_info().rss / 1e6,
        )


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # it was closed meanwhile
        return ""


@contextmanager
def visitors(port: int) -> Iterator[subprocess.Popen[str]]:
    """Fifty browsers in one process, all of which have their page."""
    command = [sys.executable, str(PROGRAM), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "all\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_nothing_is_left_of_visitors_that_vanish(tmp_path: Path) -> None:
    config, port = tmp_path / "trimtab.toml", free_port()
    config.write_text('state_dir = "state"\n[[clusters]]\nname = "c"\nzookeeper = "127.0.0.1:1"\n')
    SnapshotStore(tmp_path / "state" / "snapshots").put(make_snapshot(cluster="c"))

    def is_up() -> bool:
        try:
            return ask(port, "/healthz", host="127.0.0.1").status == 200
        except OSError:
            return False

    words = ("127.0.0.1", str(port))
    with running(tmp_path / "log", *words, module="dashboard.serve", config=config) as server:
        until(is_up, "the pages", 300)
        before = Held.by(server.pid)
        held: list[Held] = []
        for fate in (signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL):
            with visitors(port) as browsers:
                during = Held.by(server.pid)
                assert during.loops > VISITORS
                os.kill(browsers.pid, fate)
                until(
                    lambda: Held.by(server.pid).loops <= before.loops + 2,
                    f"the end of {fate.name} visitors (before {before}, with them {during})",
                    GONE_WITHIN_S,
                )
                held.append(Held.by(server.pid))
        sys.stderr.write(f"\nbefore {before}, after each fifty: {held}\n")
        # the first fifty leave pools of threads and of connections to the journal
        assert max(one.threads for one in held) <= held[0].threads + 5
        assert max(one.files for one in held) <= held[0].files + 15
        assert held[-1].megabytes <= held[0].megabytes * 1.2 + 20
        assert is_up()
    assert "Traceback" not in (tmp_path / "log").read_text()
