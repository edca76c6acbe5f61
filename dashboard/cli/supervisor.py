"""Child processes of one command: started together, started again, ended together, never left.

Every child has one end of a socket as its standard input. When the parent is gone, however it went,
the socket ends and the child ends itself; what the child writes there are its signs of life
(:func:`end_with_parent`). How the children are is in ``supervisor.json`` next to their logs, for
the pages (:mod:`dashboard.services.processes`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
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
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final, Self

import filelock
import msgspec

from core.errors import ConfigError, OpsError
from core.files import make_private, write_whole
from dashboard import services
from dashboard.cli.output import note
from dashboard.services.processes import (
    HEARTBEAT_S,
    SUPERVISOR_ENV,
    ProcessState,
    Supervision,
    title_of,
)

END_GRACE_S: Final = 8.0
"""How long children may take to end before they are killed."""
_QUIET_END_S: Final = 1.0
"""An end that takes longer says that it is under way."""

READY_S: Final = 300.0
"""How long a child may take to be ready, on a busy machine; nothing waits for an ended one."""

_POLL_S: Final = 0.1
_LOOK_S: Final = 0.5
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0
_RUNS_WELL_S: Final = 60.0
"""A child that ran so long before it ended is started again soon."""
_QUIET_S: Final = 30.0
"""A child without a sign of life for so long counts as down."""
_HUNG_S: Final = 120.0
"""A child without a sign of life for so long is killed, and started again."""
_PAUSED_S: Final = 10.0
"""Where the parent itself did not run for so long (a frozen container), the children did not."""
_PROBE_TIMEOUT_S: Final = 2.0
_PORTS_TRIED: Final = 100
_FOLDERS_TRIED: Final = 100
_LOG_BYTES: Final = 10 * 1024 * 1024
"""A log that is longer is moved to ``.log.1``; there is one of these."""
_TAIL_BYTES: Final = 4096
_MAX_WORDS: Final = 300
_STATE: Final = "supervisor.json"


class ChildEndedError(OpsError):
    """A child process ended although it was needed."""

    code = "child_ended"


@dataclass
class Child:
    """One child process.

    Attributes:
        name: What it is called.
        log: Where its output goes; what a former process wrote stays.
        run: Starts a process, and returns it with our end of its standard input.
        is_read: The others read it, and would wait for its answers: it ends after them.
        is_restarted: It is started again whenever it ends.
        log_format: ``text`` or ``json``, of the line that begins the log of each process.
        restarts: How often it was started again.
        since: Since when it is up, or down; aware UTC.
        last_end: How its latest process ended, in a few words; empty: none has.
        due_s: When it is started again, on the monotonic clock; ``None``: it runs.
        due_at: The same as a moment, aware UTC.
    """

    name: str
    log: Path
    run: Callable[[], tuple[subprocess.Popen[bytes], socket.socket]] = field(repr=False)
    is_read: bool = False
    is_restarted: bool = False
    log_format: str = "text"
    restarts: int = 0
    since: datetime = field(default_factory=services.now)
    last_end: str = ""
    due_s: float | None = None
    due_at: datetime | None = None

    def __post_init__(self) -> None:
        self._wait_s = _FIRST_WAIT_S
        self._was_up = False
        self._log_from = 0
        self._start(time.monotonic())

    @property
    def title(self) -> str:
        """The name as the beginning of a sentence."""
        return title_of(self.name)

    @property
    def has_ended(self) -> bool:
        """Whether it is not running any more."""
        return self.process.poll() is not None

    def is_up(self, now_s: float) -> bool:
        """Return whether it runs, and gave a sign of life a moment ago."""
        is_running = self.due_s is None and not self.has_ended
        return is_running and self._seen_s is not None and now_s - self._seen_s < _QUIET_S

    def last_words(self) -> str:
        """Return the last line that its latest process wrote, for one sentence."""
        return last_line(self.log, self._log_from)

    def look(self, now_s: float) -> None:
        """Start the child again where it has ended and its time has come.

        Args:
            now_s: On the monotonic clock.
        """
        self._hear(now_s)
        if self.due_s is None:
            if self.has_ended:
                self._ended(now_s)
            elif now_s - self._heard_s > (READY_S if self._seen_s is None else _HUNG_S):
                self._kill_hung(now_s)
        elif now_s >= self.due_s:
            try:
                self._start(now_s)
            except OSError as exc:  # no memory, no process: what ended it may be why
                note(f"{self.title} cannot be started: {exc.strerror}. Free memory or disk space.")
                self._later(now_s)
            else:
                self.restarts += 1
        if self.is_up(now_s) is not self._was_up:
            self._was_up, self.since = not self._was_up, services.now()

    def excuse(self, now_s: float) -> None:
        """Take a sign of life as given: nothing could be heard."""
        self._heard_s = now_s

    def state(self, home: Path) -> ProcessState:
        """Return the state for the pages; the path of the log is relative to ``home``."""
        log = self.log.relative_to(home) if self.log.is_relative_to(home) else self.log
        return ProcessState(
            name=self.name,
            pid=self.process.pid,
            is_up=self._was_up,
            since=self.since,
            restarts=self.restarts,
            next_start_at=self.due_at,
            last_end=self.last_end,
            log=str(log),
        )

    def let_go(self) -> None:
        """Close the socket whose end makes the child end; it was terminated, or has ended."""
        self._line.close()

    def bound_log(self) -> None:
        """Move the log away where it is too long; the process goes on writing at its beginning."""
        before = self.log.with_name(f"{self.log.name}.1")
        with contextlib.suppress(OSError):
            if self.log.stat().st_size > _LOG_BYTES:
                before.unlink(missing_ok=True)  # first: what it takes may be all that is free
                try:
                    shutil.copyfile(self.log, before)
                except OSError:  # the disk is full, and others need what is left of it
                    before.unlink(missing_ok=True)
                os.truncate(self.log, 0)
                self._log_from = 0

    def _start(self, now_s: float) -> None:
        with contextlib.suppress(OSError):  # a full disk: it starts all the same
            with _sink(self.log) as sink:
                sink.write(_first_line(self.name, self.log_format))
            self._log_from = self.log.stat().st_size
        self.process, self._line = self.run()
        self.due_s = self.due_at = None
        self._silent_s = 0.0
        self._started_s = self._heard_s = now_s
        self._seen_s: float | None = None

    def _hear(self, now_s: float) -> None:
        with contextlib.suppress(OSError):  # nothing was written, or it has ended
            while self._line.recv(_TAIL_BYTES):
                self._seen_s = self._heard_s = now_s

    def _ended(self, now_s: float) -> None:
        if now_s - self._started_s >= _RUNS_WELL_S:
            self._wait_s = _FIRST_WAIT_S
        self.last_end = (
            f"no heartbeat for {self._silent_s:.0f} s"
            if self._silent_s
            else describe_end(self.process.returncode)
        )
        self.let_go()
        # one that was killed wrote nothing about it
        words = self.last_words() if self.process.returncode > 0 else ""
        wait_s = self._wait_s
        self._later(now_s)
        note(
            f"{self.title} ended ({self.last_end})"
            + (f": {words.rstrip('.')}" if words else "")
            + f". Restart in {wait_s:.0f} s; log: {self.log}"
        )

    def _kill_hung(self, now_s: float) -> None:
        if not self._silent_s:
            self._silent_s = now_s - self._heard_s
            note(f"{self.title} sent no heartbeat for {self._silent_s:.0f} s and is killed.")
        self.process.kill()

    def _later(self, now_s: float) -> None:
        self.due_s = now_s + self._wait_s
        self.due_at = services.now() + timedelta(seconds=self._wait_s)
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)


@dataclass
class Supervisor:
    """Starts, watches and ends the children of one command; use it as a context manager.

    Attributes:
        log_dir: One log file a child. Another supervisor with the same folder gets one next to it.
        stop: Set when the command should end (Ctrl-C, SIGTERM).
        grace_s: How long children may take to end before they are killed.
        log_format: ``text`` or ``json``, of the line that begins the log of each process.
    """

    log_dir: Path
    stop: threading.Event = field(default_factory=threading.Event)
    grace_s: float = END_GRACE_S
    log_format: str = "text"
    children: list[Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock: filelock.BaseFileLock | None = None
        self._looked_s = time.monotonic()
        self._written: tuple[float, list[ProcessState]] = (0.0, [])
        self._could_write = True

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
        is_restarted: bool = False,
    ) -> Child:
        """Start one child; its output is added to ``<log_dir>/<name>.log``.

        Args:
            name: What it is called.
            command: Program and arguments.
            environment: In addition to this process' own.
            is_read: The others read it: it ends after them.
            is_restarted: It is started again whenever it ends.
        """
        self.claim()
        log = self.log_dir / f"{name}.log"
        variables = {
            **services.child_environment(),
            **os.environ,
            **(environment or {}),
            "TRIMTAB_CHILD": "1",
            SUPERVISOR_ENV: str(self.log_dir / _STATE),
        }

        def run() -> tuple[subprocess.Popen[bytes], socket.socket]:
            ours, theirs = socket.socketpair()
            try:
                with theirs, _sink(log) as sink:
                    process = subprocess.Popen(  # noqa: S603 - our own commands, no shell
                        list(command),
                        stdin=theirs.fileno(),
                        stdout=sink,
                        stderr=subprocess.STDOUT,
                        env=variables,
                        start_new_session=True,  # Ctrl-C reaches us alone; we end them in order
                    )
            except OSError:
                ours.close()
                raise
            ours.setblocking(False)
            return process, ours

        child = Child(
            name, log, run, is_read=is_read, is_restarted=is_restarted, log_format=self.log_format
        )
        self.children.append(child)
        return child

    def claim(self, *, is_alone: bool = False) -> None:
        """Take the folder of the logs for this supervisor; once is enough.

        Args:
            is_alone: No other one may run with the same folder.
        Raises:
            ConfigError: Another one does.
        """
        if self._lock is not None:
            return
        first = self.log_dir
        for number in range(1, _FOLDERS_TRIED):
            self.log_dir = first if number == 1 else first.with_name(f"{first.name}-{number}")
            self.log_dir.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(self.log_dir / ".lock", thread_local=False)
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                if is_alone:
                    break
                continue
            self._lock = lock
            if number > 1:
                note(
                    f"Another command runs these processes in {first.parent}; this command is on "
                    f"standby. Logs: {self.log_dir}"
                )
            return
        raise ConfigError(
            f"Another command runs in {first.parent} and writes its logs to {first}.",
            hint="Stop it with Ctrl-C, or pass another --state-dir.",
        )

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
            self.look()
            if self.stop.wait(_POLL_S):
                raise KeyboardInterrupt
        raise ChildEndedError(
            f"{what} was not ready after {deadline_s:.0f} s.",
            hint=f"See the logs in {self.log_dir}.",
        )

    def raise_for_ended(self, needed: Sequence[Child]) -> None:
        """Check that the needed children run.

        One that is started again counts only where its first process ended by itself: its
        configuration is wrong, for example. Whatever killed it may be over the next time.

        Raises:
            ChildEndedError: One of them ended; the message names its log and its last words.
        """
        for child in needed:
            if not child.has_ended:
                continue
            code = child.process.returncode
            if child.is_restarted and (child.restarts or code < 0):
                continue
            words = child.last_words()
            raise ChildEndedError(
                f"{child.title} exited unexpectedly ({describe_end(code)})"
                + (f": {words}" if words else "."),
                hint=f"Its log is {child.log}.",
            )

    def look(self) -> None:
        """Restart ended children, trim the logs, and write the state of the children."""
        now_s = time.monotonic()
        was_paused = now_s - self._looked_s > _PAUSED_S
        self._looked_s = now_s
        for child in self.children:
            if was_paused:
                child.excuse(now_s)
            if child.is_restarted:
                child.look(now_s)
            child.bound_log()
        self._write_state(now_s)

    def watch(self, needed: Sequence[Child] = ()) -> None:
        """Stay until the command has to end.

        Args:
            needed: None of them may end.

        Raises:
            ChildEndedError: A needed child ended.
        """
        while not self.stop.wait(_LOOK_S):
            self.raise_for_ended(needed)
            self.look()

    def end(self) -> None:
        """End all children, those that others read last; kill those that do not end in time."""
        ending = threading.Timer(_QUIET_END_S, note, ["Stopping…"])
        ending.daemon = True
        ending.start()
        try:
            for is_read in (False, True):
                self._end([child for child in reversed(self.children) if child.is_read is is_read])
        finally:
            ending.cancel()
        self.children.clear()
        if self._lock is not None:
            with contextlib.suppress(OSError):
                (self.log_dir / _STATE).unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

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
                note(f"{child.title} did not stop within {self.grace_s:.0f} s and is killed.")
                child.process.kill()
                child.process.wait()

    def _write_state(self, now_s: float) -> None:
        states = [child.state(self.log_dir.parent) for child in self.children if child.is_restarted]
        written_s, written = self._written
        if states == written and now_s - written_s < HEARTBEAT_S:
            return
        path = self.log_dir / _STATE
        supervision = Supervision(pid=os.getpid(), last_seen_at=services.now(), processes=states)
        try:
            self._keep_folder()
            write_whole(path, msgspec.json.encode(supervision), is_durable=False)
        except OSError as exc:
            if self._could_write:
                note(
                    f"{path} cannot be written: {exc.strerror}. Until then, /readyz and the "
                    "Fleet page have no process status."
                )
            self._could_write = False
        else:
            self._written, self._could_write = (now_s, states), True

    def _keep_folder(self) -> None:
        """Create the log folder again if it was removed.

        Raises:
            OSError: It cannot be made.
        """
        if not self.log_dir.is_dir():
            make_private(self.log_dir)
            note(
                f"The log folder {self.log_dir} was removed and is created again. A process that "
                "runs logs nothing until its next start."
            )


def _sink(log: Path) -> BinaryIO:
    """Open a log for appending; if impossible, our own standard error."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("ab")
    except OSError:
        return os.fdopen(os.dup(2), "wb")


def describe_end(code: int) -> str:
    """Return the end of a process as text: ``exit code 1``, ``SIGKILL``."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _first_line(name: str, log_format: str) -> bytes:
    """Return the line that separates the log of a process from those of earlier ones."""
    at = services.now().isoformat(timespec="seconds")
    if log_format == "json":
        entry = {"at": at, "level": "info", "logger": "trimtab.supervisor", "message": "started"}
        return f"{json.dumps(entry)}\n".encode()
    return f"--- {at} {name} started\n".encode()


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


def end_with_parent(is_well: Callable[[], bool] = lambda: True) -> None:
    """End this process when its parent is gone, and give signs of life until then.

    Does nothing outside a supervisor. Called by commands that run as children: the parent says so
    with ``TRIMTAB_CHILD=1``.

    Args:
        is_well: Asked before each sign of life, in a thread of its own.
    """
    if os.environ.pop("TRIMTAB_CHILD", "") != "1":  # children of this one have another input
        return
    line = sys.__stdin__.fileno() if sys.__stdin__ else 0

    def watch() -> None:
        with contextlib.suppress(OSError, ValueError):
            while os.read(line, 1024):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(END_GRACE_S)
        os._exit(1)

    def beat() -> None:
        pause = threading.Event()
        with contextlib.suppress(OSError):
            while True:
                if is_well():
                    os.write(line, b".")
                pause.wait(HEARTBEAT_S)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
    threading.Thread(target=beat, name="signs-of-life", daemon=True).start()


def free_port(wanted: int) -> int:
    """Return ``wanted``, or the next port that is free on loopback; that one is named.

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
        if port != wanted:
            note(f"Port {wanted} is in use; the pages use port {port}.")
        return port
    raise ConfigError(
        f"No port from {wanted} to {wanted + _PORTS_TRIED - 1} is free.",
        hint="Specify a port with --port.",
    )


def answers(address: str, port: int, path: str, timeout_s: float = _PROBE_TIMEOUT_S) -> bool:
    """Return whether our own server answers a GET with 200.

    Args:
        address: On which it listens; of all addresses of the machine, loopback is asked.
        port: Its port.
        path: What is asked for.
        timeout_s: How long it may take to go on answering.
    """
    url = f"http://{reachable(address)}:{port}{path}"
    request = urllib.request.Request(url, headers={"Host": "localhost"})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:  # noqa: S310 - the same
            return bool(response.status == 200)
    except (OSError, ValueError, urllib.error.URLError):
        return False


def reachable(address: str) -> str:
    """Return an address to listen on as a URL names it; where it is every address, loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 - not bound here
    return f"[{host}]" if ":" in host else host


def last_line(log: Path, start: int = 0) -> str:
    """Return the last words of a log, for one sentence.

    Args:
        log: The file.
        start: Where the process that is meant began to write, bytes.
    """
    try:
        with log.open("rb") as source:
            size = source.seek(0, os.SEEK_END)
            source.seek(max(min(start, size), size - _TAIL_BYTES))
            lines = source.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip().removeprefix("trimtab: ")[:_MAX_WORDS] if lines else ""
