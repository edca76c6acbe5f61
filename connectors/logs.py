"""Logs of processes that serve: lines for people, or one JSON object a line with what it is about.

What a line is about (cluster, cycle, run, job, page, session) is bound where it begins, with
``structlog.contextvars.bound_contextvars``, and is in every line until it ends.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any, Final, Literal, Protocol

import structlog

LogFormat = Literal["text", "json"]

_MAX_WORDS: Final = 60
_MAX_KNOWN: Final = 100

_BEFORE: Final[list[Any]] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
]


class ProcessEvent(Protocol):
    """Event of a collector or worker."""

    @property
    def cluster(self) -> str:
        """Name."""
        ...

    @property
    def kind(self) -> str:
        """A word of the process; ``failed`` is one of each."""
        ...

    @property
    def sentence(self) -> str:
        """Description of the event."""
        ...


def set_up_logging(log_format: LogFormat) -> None:
    """Let every logger of this process write to standard error in one form.

    Text is for warnings and errors, next to what the process says anyway. JSON has everything.

    Args:
        log_format: ``text`` or ``json``.
    """
    root = logging.getLogger()
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        handler.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=_BEFORE,
                processors=[
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.EventRenamer("message"),
                    structlog.processors.format_exc_info,
                    structlog.processors.JSONRenderer(sort_keys=True),
                ],
            )
        )
        logging.getLogger("trimtab").setLevel(logging.INFO)
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for earlier in root.handlers[:]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    # asyncio writes two thousand tracebacks for each connection that finds no descriptor left
    logging.getLogger("asyncio").filters[:] = [RepeatFilter()]


class RepeatFilter(logging.Filter):
    """Lets a message through once in a while, however often it is written.

    Args:
        every_s: How long the same words are left out.
    """

    def __init__(self, every_s: float = 60.0) -> None:
        super().__init__()
        self._every_s = every_s
        self._again_at_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        now_s, words = monotonic(), str(record.msg)[:_MAX_WORDS]
        if now_s < self._again_at_s.get(words, 0.0):
            return False
        if len(self._again_at_s) >= _MAX_KNOWN:
            self._again_at_s.clear()
        self._again_at_s[words] = now_s + self._every_s
        return True


def reporter(
    process: str, log_format: LogFormat, tell: Callable[[str], None]
) -> Callable[[ProcessEvent], None]:
    """Return the event handler of a process: lines for people, or log entries.

    Args:
        process: ``collector`` or ``worker``.
        log_format: ``text`` or ``json``.
        tell: Prints a line.
    """
    if log_format == "text":
        return lambda event: tell(str(event))
    log = logging.getLogger(f"trimtab.{process}")

    def write(event: ProcessEvent) -> None:
        level = logging.WARNING if event.kind == "failed" else logging.INFO
        log.log(level, event.sentence, extra={"cluster": event.cluster, "what": event.kind})

    return write
