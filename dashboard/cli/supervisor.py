"""Child processes of one command: started together, watched, ended together, never left behind.

Every child holds the reading end of a pipe as its standard input; when the parent is gone, however
it went, the pipe ends and the child ends itself (:func:`end_with_parent`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from core.errors import ConfigError, OpsError
from dashboard.cli.output import note

END_GRACE_S: Final = 8.0
"""How long children may take to end before they are killed."""
_QUIET_END_S: Final = 1.0
"""An end that takes longer says that it is under way."""

_POLL_S: Final = 0.1
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0
_RUNS_WELL_S: Final = 60.0
"""A child that ran so long before it ended is started again soon."""
_PROBE_TIMEOUT_S: Final = 2.0
_PORTS_TRIED: Final = 100


class ChildEndedError(OpsError):
    """A child process ended although it was needed."""

    code = "child_ended"


@dataclass
class Child:
    """One child process.

    Attributes:
        name: What it is called.
        process: It runs, or has ended.
        log: Where its output goes.
        again: Starts it once more.
        is_read: The others read it, and would wait for its answers: it ends after them.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    again: Callable[[], subprocess.Popen[bytes]] = field(repr=False)
    is_read: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether it is not running any more."""
        return self.process.poll() is not None

    def let_go(self) -> None:
        """Close the pipe whose end makes the child end; it was terminated, or has ended."""
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()


@dataclass
class Restarted:
    """A child that the others do not need: it is started again when it ends.

    Attributes:
        child: The child.
        wait_s: How long it is waited before the next start; doubled while it does not stay.
        started_at: On the monotonic clock, s.
        due_at: When it is started again; ``None``: it runs.
    """

    child: Child
    wait_s: float = _FIRST_WAIT_S
    started_at: float = field(default_factory=time.monotonic)
    due_at: float | None = None

    def look(self, now: float) -> None:
        """Start the child again where it has ended and its time has come.

        Args:
            now: On the monotonic clock, s.
        """
        if self.due_at is None:
            if self.child.has_ended:
                self._ended(now)
        elif now >= self.due_at:
            self.due_at, self.started_at = None, now
            try:
                self.child.process = self.child.again()
            except OSError as exc:  # no memory, no process: what ended it may be why
                note(f"The {self.child.name} could not be started: {exc.strerror}.")
                self._later(now)

    def _ended(self, now: float) -> None:
        if now - self.started_at >= _RUNS_WELL_S:
            self.wait_s = _FIRST_WAIT_S
        code, wait_s = self.child.process.returncode, self.wait_s
        self.child.let_go()
        self._later(now)
        note(
            f"The {self.child.name} ended (exit code {code}); it is started again "
            f"in {wait_s:.0f} s, the rest goes on. Its log is {self.child.log}."
        )

    def _later(self, now: float) -> None:
        self.due_at = now + self.wait_s
        self.wait_s = min(2 * self.wait_s, _LONGEST_WAIT_S)


@dataclass
class Supervisor:
    """Starts, watches and ends the children of one command; use it as a context manager.

    Attributes:
        log_dir: One log file a child.
        stop: Set when the command should end (Ctrl-C, SIGTERM).
        grace_s: How long children may take to end before they are killed.
    """

    log_dir: Path
    stop: threading.Event = field(default_factory=threading.Event)
    grace_s: float = END_GRACE_S
    children: list[Child] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        is_read: bool = False,
    ) -> Child:
        """Start one child; its output goes to ``<log_dir>/<name>.log``.

        Args:
            name: What it is called.
            command: Program and arguments.
            environment: In addition to this process' own.
            is_read: The others read it: it ends after them.
        """
        self.log_dir.mkdir(parents=True, exist_ok=True)
        log = self.log_dir / f"{name}.log"

        def run(mode: str) -> subprocess.Popen[bytes]:
            with log.open(mode) as sink:
                return subprocess.Popen(  # noqa: S603 - our own commands, no shell
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environment or {}), "TRIMTAB_CHILD": "1"},
                    start_new_session=True,  # Ctrl-C reaches us alone; we end them in order
                )

        child = Child(name, run("wb"), log, again=lambda: run("ab"), is_read=is_read)
        self.children.append(child)
        return child

    def wait_until(
        self, is_ready: Callable[[], bool], what: str, deadline_s: float, needed: Sequence[Child]
    ) -> None:
        """Wait until something is ready.

        Raises:
            ChildEndedError: A needed child ended, or it took too long.
            KeyboardInterrupt: The command was asked to end.
        """
        for _ in range(int(deadline_s / _POLL_S)):
            if is_ready():
                return
            self.raise_for_ended(needed)
            if self.stop.wait(_POLL_S):
                raise KeyboardInterrupt
        raise ChildEndedError(
            f"{what} was not ready after {deadline_s:.0f} s.",
            hint=f"See the logs in {self.log_dir}.",
        )

    def raise_for_ended(self, needed: Sequence[Child]) -> None:
        """Check that the needed children run.

        Raises:
            ChildEndedError: One of them ended; the message names its log and its last words.
        """
        for child in needed:
            if child.has_ended:
                words = last_line(child.log)
                raise ChildEndedError(
                    f"The {child.name} ended by itself (exit code {child.process.returncode})"
                    + (f": {words}" if words else "."),
                    hint=f"Its log is {child.log}.",
                )

    def watch(self, needed: Sequence[Child], restarted: Sequence[Child] = ()) -> None:
        """Stay until the command has to end.

        Args:
            needed: None of them may end.
            restarted: Children that are started again when they end.

        Raises:
            ChildEndedError: A needed child ended.
        """
        again = [Restarted(child) for child in restarted]
        while not self.stop.wait(5 * _POLL_S):
            self.raise_for_ended(needed)
            for each in again:
                each.look(time.monotonic())

    def end(self) -> None:
        """End all children, those that others read last; who does not end in time is killed."""
        ending = threading.Timer(_QUIET_END_S, note, ["Stopping…"])
        ending.daemon = True
        ending.start()
        try:
            for is_read in (False, True):
                self._end([child for child in reversed(self.children) if child.is_read is is_read])
        finally:
            ending.cancel()
        self.children.clear()

    def _end(self, children: Sequence[Child]) -> None:
        """End some children together; they share the time that they have."""
        for child in children:
            if not child.has_ended:
                child.process.terminate()
        until = time.monotonic() + self.grace_s
        for child in children:
            child.let_go()
            try:
                child.process.wait(max(until - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                note(f"The {child.name} did not end in {self.grace_s:.0f} s; it is killed.")
                child.process.kill()
                child.process.wait()


@contextlib.contextmanager
def shutting_down(stop: threading.Event) -> Iterator[threading.Event]:
    """Let Ctrl-C and SIGTERM set ``stop`` for the time of the block."""

    def set_stop(*_: object) -> None:
        # Event.set takes a lock that whoever was interrupted may hold, a first signal's own
        # handler included: only another thread can wait for it
        threading.Thread(target=stop.set, daemon=True).start()

    before = {number: signal.signal(number, set_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with_parent() -> None:
    """End this process when its parent is gone; does nothing outside a supervisor.

    Called by commands that run as children: the parent says so with ``TRIMTAB_CHILD=1``.
    """
    if os.environ.get("TRIMTAB_CHILD") != "1":
        return

    def watch() -> None:
        with contextlib.suppress(OSError, ValueError):
            while os.read(sys.__stdin__.fileno() if sys.__stdin__ else 0, 1024):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(END_GRACE_S)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def free_port(wanted: int) -> int:
    """Return ``wanted``, or the next port that is free on loopback.

    Raises:
        ConfigError: None of the next hundred is free.
    """
    for port in range(wanted, min(wanted + _PORTS_TRIED, 65_536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ConfigError(
        f"No port from {wanted} to {wanted + _PORTS_TRIED - 1} is free.",
        hint="Name one with --port.",
    )


def answers(url: str) -> bool:
    """Return whether a GET of our own loopback address is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=_PROBE_TIMEOUT_S) as response:  # noqa: S310 - loopback, built here
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def last_line(log: Path) -> str:
    """Return the last words of a log, for one sentence."""
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip()[:200] if lines else ""
