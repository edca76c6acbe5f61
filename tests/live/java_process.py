"""One Java server of the real cluster as a child process that cannot outlive the test run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

POLL_S: Final = 0.1
_LOG_TAIL_LINES: Final = 12
# The kernel kills the child when the thread that started it ends, kill -9 included: 1 is
# PR_SET_PDEATHSIG. Set in a small interpreter that then becomes Java, because code between fork and
# exec of a process with threads may deadlock. The check closes the gap of a parent gone already.
_LEASH: Final = """
import ctypes, os, signal, sys
parent = int(sys.argv[1])
if sys.platform == "linux":
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)
if os.getppid() != parent:
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class ServerDiedError(Exception):
    """A server ended, or did not get ready in time; the message carries the end of its log."""


def wait_until(what: str, ready: Callable[[], bool], *, within_s: float) -> float:
    """Poll ``ready`` until it is true and return the seconds that took.

    Raises:
        TimeoutError: It was not true within ``within_s``; the message names ``what``.
    """
    start = monotonic()
    pause = threading.Event()
    while not ready():
        if monotonic() - start > within_s:
            raise TimeoutError(f"{what}: not within {within_s:.0f} s")
        pause.wait(POLL_S)
    return monotonic() - start


class JavaProcess:
    """A named child process with a log file; start it from a thread that lives as long as it."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = tuple(command)
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs, ``None`` otherwise."""
        return self._child.pid if self._child is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether the process is there; a paused one is."""
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        """Start it; the log is appended to."""
        if self.is_running:
            return
        with self.log.open("ab") as sink:
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()), *self._command],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C in a terminal is for us, we stop it in order
            )

    def wait_ready(self, ready: Callable[[], bool], *, within_s: float) -> None:
        """Wait until ``ready`` is true.

        Raises:
            ServerDiedError: The process ended, or time is over.
        """

        def ready_or_dead() -> bool:
            return not self.is_running or ready()

        try:
            wait_until(self.name, ready_or_dead, within_s=within_s)
        except TimeoutError as late:
            raise ServerDiedError(f"{late}\n{self.log_tail()}") from late
        if not self.is_running:
            code = self._child.returncode if self._child else None
            raise ServerDiedError(f"{self.name} ended with code {code}\n{self.log_tail()}")

    def wait_end(self, *, within_s: float) -> int:
        """Wait until it ended by itself and return its exit code.

        Raises:
            ServerDiedError: It did not end in time; it was killed.
        """
        if self._child is None:
            return 0
        try:
            return self._child.wait(within_s)
        except subprocess.TimeoutExpired as late:
            self.kill()
            raise ServerDiedError(
                f"{self.name} did not end within {within_s:.0f} s\n{self.log_tail()}"
            ) from late

    def stop(self, *, within_s: float = 30.0) -> None:
        """Ask it to end in order (SIGTERM), and kill it when it does not."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(ServerDiedError):
            self.wait_end(within_s=within_s)

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would."""
        self._signal(signal.SIGKILL)
        if self._child is not None:
            self._child.wait(30.0)

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its ports accept connections and never answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def log_tail(self) -> str:
        """Return the last lines of the log, for messages."""
        if not self.log.is_file():
            return f"(no log at {self.log})"
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"end of {self.log}:", *lines[-_LOG_TAIL_LINES:]])

    def _signal(self, how: signal.Signals) -> None:
        if self._child is not None and self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.send_signal(how)
