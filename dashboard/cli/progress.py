"""Progress of a command: one line on the terminal of standard error, from two seconds on.

It is written over while the command computes and goes away before anything is printed, so it is
never part of an answer; after a line of progress it comes back. Where standard error is no terminal
there is no such line.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from contextvars import ContextVar
from typing import Final

from core.progress import Deadline

UNTIL_S: ContextVar[float | None] = ContextVar("until_s", default=None)
"""Moment of the monotonic clock at which the computation of the command ends; ``None``: none."""

_AFTER_S: Final = 2.0
_EVERY_S: Final = 0.5
_CLEARED: Final = "\r\x1b[K"


class StatusLine:
    """The line; it is a :class:`core.progress.Progress`, too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""
        self._ended: threading.Event | None = None
        self._is_drawn = False

    def start(self, text: str) -> None:
        """Show a text, with the seconds since then, once two have passed.

        Where it is shown or due already, only the text changes: its seconds are the command's.

        Args:
            text: What is being done.
        """
        self._text = text
        if self._ended is None and sys.stderr.isatty():
            self._ended = threading.Event()
            threading.Thread(target=self._draw, args=(self._ended,), daemon=True).start()

    def step(self, done: int, total: int, words: str) -> None:
        """Show the progress.

        Raises:
            TooLongError: The time of the command is over.
        """
        if (until_s := UNTIL_S.get()) is not None:
            Deadline(until_s).step(done, total, words)
            return
        text = f"{words}: {done:,} of {total:,}" if total else f"{words}: {done:,}"
        if self._ended is None:
            self.start(text)
        self._text = text

    def clear(self) -> None:
        """Make room for a line of progress; the status line comes back below it."""
        with self._lock:
            self._clear()

    def stop(self) -> None:
        """Take the line away."""
        with self._lock:
            if self._ended is not None:
                self._ended.set()
                self._ended = None
            self._clear()

    def _clear(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            sys.stderr.write(_CLEARED)
            sys.stderr.flush()

    def _draw(self, ended: threading.Event) -> None:
        began = time.monotonic()
        pause_s = _AFTER_S
        while not ended.wait(pause_s):
            pause_s = _EVERY_S
            with self._lock:
                if ended.is_set():
                    return
                columns = shutil.get_terminal_size().columns
                line = f"{self._text}, {time.monotonic() - began:.0f} s"
                sys.stderr.write(_CLEARED + line[: columns - 1])
                sys.stderr.flush()
                self._is_drawn = True


STATUS: Final = StatusLine()
"""The one line that there is: a process has one terminal."""
