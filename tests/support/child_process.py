"""A command of the product in a process of its own, and limits that come and go while it runs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).parents[2]
_PAUSE = threading.Event()


def wait_s(seconds: float) -> None:
    _PAUSE.wait(seconds)


def until(holds: Callable[[], object], what: str, within_s: float = 60.0) -> None:
    """Wait for a state; fail with its name when it never comes."""
    deadline = monotonic() + within_s
    while not holds():
        assert monotonic() < deadline, f"{what}: not within {within_s:.0f} s"
        wait_s(0.05)


@contextmanager
def running(
    log: Path,
    *words: str,
    module: str = "dashboard.cli",
    descriptors: int = 0,
    config: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module of the product, and end it.

    Args:
        log: Where all that it says goes.
        words: Its arguments.
        module: Which one.
        descriptors: How many it may have open; 0: as many as this process.
        config: The configuration of the pages.
    """

    environment = {name: text for name, text in os.environ.items() if "TRIMTAB" not in name}
    if config is not None:
        environment["TRIMTAB_CONFIG"] = str(config)
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
    if descriptors:  # before it has opened much: its interpreter starts for longer than this
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def full_disk(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let no file of a process grow meanwhile, its log included: as if every disk were full."""
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)


def open_files(process: subprocess.Popen[bytes]) -> int:
    return sum(1 for _ in Path(f"/proc/{process.pid}/fd").iterdir())


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
