"""Answers of commands: one JSON object, or tables and sentences for people.

With ``--json`` exactly one object goes to standard output; progress and logs always go to standard
error. Exit codes: 0 done, 1 refused or failed, 2 bad usage, 3 answered, but incomplete: something
could not be read or is not as it was written, 130 ended with Ctrl-C.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol, TextIO

from core.errors import InputError, InvariantError, OpsError
from core.units import MISLEADING, is_whole, visible
from dashboard.cli.progress import STATUS

EXIT_DONE: Final = 0
EXIT_REFUSED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INCOMPLETE: Final = 3
"""Answered, but something could not be read or is not as it was written: ``problems`` names it."""
EXIT_STOPPED: Final = 130
"""Ended with Ctrl-C before it was done: what shells use for it."""


class UsageFaultError(OpsError):
    """An option's value that cannot be: exit code 2."""

    code = "usage"


class StoppedError(OpsError):
    """A person ended the command before it was done."""

    code = "stopped"


@dataclass(frozen=True)
class Answer:
    """Answer of a command.

    Attributes:
        body: The JSON object of ``--json``.
        show: Prints the same for people.
        exit_code: 0 unless the verdict itself is a refusal.
    """

    body: Mapping[str, Any]
    show: Callable[[], None] = field(default=lambda: None)
    exit_code: int = EXIT_DONE


_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_QUOTED: Final = re.compile("`[^`]*`")
_MARK: Final = re.compile(r"\s*(?:\d+\. |- |(?:ERROR|WARNING|UNKNOWN|INFO) +)?")
"""What a line begins with: its other lines are indented to the text after it."""
_INSIDE: Final = "\x1f"
"""Stands for the spaces of a command in backquotes, which is not folded; no text contains it."""

IS_WIDE: ContextVar[bool] = ContextVar("is_wide", default=False)
"""Whether tables may be wider than the terminal: ``--wide``."""

LABELS: ContextVar[Mapping[str, str]] = ContextVar("labels", default=MappingProxyType({}))
"""Labels of brokers or nodes by address, of the cluster that the command reads."""

_WARNINGS: Final[ContextVar[list[str]]] = ContextVar("warnings")
"""Warnings of the command that runs, in the order in which they came up."""

RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)
"""Takes what a command prints, where it runs for a caller; ``None``: it goes to the terminal."""


class Recorder(Protocol):
    """Takes what a command prints."""

    body: dict[str, Any] | None

    def line(self, text: str, *, is_prose: bool = False, is_aside: bool = False) -> None:
        """Take a line; an aside is for standard error."""
        ...

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str]
    ) -> None:
        """Take a table."""
        ...


def warn(text: str) -> None:
    """Print a warning to standard error once; ``emit`` adds it to the ``warnings`` of the JSON."""
    known = _WARNINGS.get(None)
    if known is None:
        _WARNINGS.set(known := [])
    if text not in known:
        known.append(text)
        note(f"Warning: {text}")


def forget_warnings() -> None:
    """Start a command without the warnings, and the labels, of another."""
    _WARNINGS.set([])
    LABELS.set({})


def emit(answer: Answer, *, as_json: bool) -> int:
    """Print the answer and return the exit code."""
    if as_json:
        print_json(with_warnings(answer.body))
    else:
        answer.show()
    sys.stdout.flush()
    return answer.exit_code


def with_warnings(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a JSON object with the warnings of the command added."""
    known = body.get("warnings", [])
    more = [text for text in _WARNINGS.get([]) if text not in known]
    return {**body, "warnings": [*known, *more]} if more else body


def print_json(body: Mapping[str, Any]) -> None:
    """Print one JSON object; NaN and infinities, which JSON does not have, are refused."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False)
    if (recorder := RECORDER.get()) is not None:
        recorder.body = json.loads(text)
        return
    STATUS.stop()
    sys.stdout.write(MISLEADING.sub(_escaped, text) + "\n")


def _escaped(match: re.Match[str]) -> str:
    """Return a character as JSON escapes it: it reads back the same, and no terminal obeys it."""
    return json.dumps(match.group())[1:-1]


def fail(error: OpsError, *, as_json: bool) -> int:
    """Print the error and the fix, and return the exit code."""
    if as_json:
        try:
            print_json({"error": error.as_json()})
            sys.stdout.flush()
        except OSError as unwritable:
            note(f"trimtab: {error}")
            discard(unwritable)
    else:
        note(f"trimtab: {error}")
    return exit_code(error)


def exit_code(error: OpsError) -> int:
    """Return the exit code of a command that ends with an error."""
    return EXIT_USAGE if isinstance(error, UsageFaultError) else EXIT_REFUSED


class OutputError(OSError):
    """Standard output cannot be written; no other error of a file is one of these."""


class StandardOutput(io.TextIOWrapper):
    """Standard output that names itself when it cannot be written."""

    def write(self, text: str, /) -> int:
        """Write a text; see :class:`io.TextIOWrapper`."""
        with _named():
            return super().write(text)

    def flush(self) -> None:
        """Write the rest; see :class:`io.TextIOWrapper`."""
        with _named():
            super().flush()


@contextlib.contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # its reader has seen enough
        raise
    except OSError as error:
        raise OutputError(error.errno, error.strerror) from error


def unwritable(error: OutputError) -> InputError:
    """Return the sentence for people."""
    why = "it is closed" if error.errno == errno.EBADF else error.strerror
    return InputError(
        f"Standard output cannot be written: {why}.",
        hint="Free space at its destination, or redirect it elsewhere.",
    )


def discard(error: OSError | None = None, *, number: int = 1) -> None:
    """Send a standard stream nowhere: Python would fail once more when it ends.

    Args:
        error: Of standard output; one that no reader has closed is named.
        number: Of the stream: 1, or 2 for standard error.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
    if isinstance(error, OutputError):
        note(f"trimtab: {unwritable(error)}")


def print_line(text: str = "", *, is_prose: bool = False) -> None:
    """Print a line to standard output.

    Args:
        text: The line; a sentence is folded on a terminal.
        is_prose: It is to be folded, however it ends.
    """
    if (recorder := RECORDER.get()) is not None:
        recorder.line(text, is_prose=is_prose)
        return
    STATUS.stop()
    sys.stdout.write(_lines_of(_harmless(text), sys.stdout, is_prose=is_prose) + "\n")


def note(text: str) -> None:
    """Print a line to standard error; one that is closed or full ends nothing."""
    if (recorder := RECORDER.get()) is not None:
        recorder.line(text, is_aside=True)
        return
    try:
        STATUS.clear()
        sys.stderr.write(_lines_of(_harmless(text), sys.stderr) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError):
            if getattr(error, "errno", None) in _NO_ROOM:
                # this line is lost; a process that runs on has room for later ones, perhaps
                sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
            else:
                discard(number=2)  # the exit code is all that is left


def require_terminal(*, as_json: bool, hint: str) -> None:
    """Refuse to go on where a person has to confirm and cannot be asked.

    Args:
        as_json: The answer is for a program.
        hint: What to add to the command.
    Raises:
        UsageFaultError: There is no terminal, or the answer is for a program.
    """
    if as_json:
        raise UsageFaultError("--json does not prompt for confirmation.", hint=hint)
    if RECORDER.get() is not None or not sys.stdin.isatty():
        raise UsageFaultError("No terminal for the confirmation.", hint=hint)


def confirm(question: str, name: str = "") -> None:
    """Ask a person, and go on only with a yes, or with a name.

    Args:
        question: What is about to be done.
        name: That has to be typed; empty: a yes will do.
    Raises:
        StoppedError: The answer is another one.
    """
    require_terminal(as_json=False, hint="Add --yes.")
    note(f"{question} Type {name or 'yes'}:")
    STATUS.stop()  # nothing may be written into what is typed
    typed = sys.stdin.readline().strip()
    if typed != name if name else typed.lower() not in ("y", "yes"):
        raise StoppedError("Nothing was changed.")


def _harmless(text: str) -> str:
    """Show control and invisible characters as codes: names come from elsewhere."""
    return visible(text)


def _lines_of(text: str, stream: TextIO, *, is_prose: bool = False) -> str:
    """Fold a sentence between words on a terminal; a line to copy, such as a command, stays one."""
    if not stream.isatty() or not (is_prose or text.endswith((".", ":", "?"))):
        return text
    mark = _MARK.match(text)
    indent = " " * len(mark.group() if mark else "")
    whole = _QUOTED.sub(lambda found: found.group().replace(" ", _INSIDE), text)
    folded = textwrap.fill(
        whole,
        shutil.get_terminal_size().columns,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return folded.replace(_INSIDE, " ")


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, spare: Collection[str] = ()
) -> None:
    """Print a table; numbers are aligned right.

    It fits the terminal, or the width that COLUMNS names: prose is folded between words, names are
    shortened in the middle, and columns that have no room are left out and named on standard error.
    With ``--wide``, or where standard output is no terminal, every cell is printed as it is.

    Args:
        columns: Headings.
        rows: Cells by row.
        spare: Columns to leave out first, in this order.
    """
    if not rows:
        return
    from dashboard.cli.fitting import fitted  # noqa: PLC0415 - only an answer for people needs it

    columns, rows = _with_labels(columns, rows)
    if (recorder := RECORDER.get()) is not None:
        recorder.table(columns, rows, tuple(spare))
        return
    STATUS.stop()
    width = None if IS_WIDE.get() else terminal_width()
    cells = [[_harmless(cell) for cell in row] for row in rows]
    is_right = [all(_is_number(row[at]) for row in cells) for at in range(len(columns))]
    lines, left_out = fitted(columns, cells, is_right, width, spare)
    is_bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for number, line in enumerate(lines.head + lines.body):
        is_head = is_bold and number < len(lines.head)
        sys.stdout.write(f"\x1b[1m{line}\x1b[0m\n" if is_head else f"{line}\n")
    if left_out:
        sys.stdout.flush()
        note(f"Hidden columns: {', '.join(left_out)}. Show them with --wide.")


def _with_labels(
    columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Add a column of labels next to the first column of addresses that have any."""
    labels = LABELS.get()
    at = next((n for n in range(len(columns)) if any(row[n] in labels for row in rows)), None)
    if not labels or at is None:
        return columns, rows
    end = at + 1
    return (*columns[:end], "label", *columns[end:]), [
        (*row[:end], labels.get(row[at], ""), *row[end:]) for row in rows
    ]


def set_wide(value: bool) -> None:
    """Let tables be wider than the terminal, or not."""
    IS_WIDE.set(value)


def terminal_width() -> int | None:
    """Return the columns that standard output has; ``None``: nothing limits them."""
    named = os.environ.get("COLUMNS", "")
    if is_whole(named) and int(named):
        return int(named)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _is_number(text: str) -> bool:
    if ":" in text or "-" in text[1:]:  # an address, a time, the id of a run
        return False
    return text == "unknown" or text[:1].isdigit() or text[:2].lstrip("+-")[:1].isdigit()


def report_bug(kind: type[BaseException], error: BaseException, *, as_json: bool) -> None:
    """Print in one sentence that Trimtab itself failed; TRIMTAB_DEBUG=1 shows where."""
    bug = InvariantError(
        f"Internal error: {kind.__name__}: {error}.",
        hint="Please report it; TRIMTAB_DEBUG=1 prints the details.",
    )
    fail(bug, as_json=as_json)
    if os.environ.get("TRIMTAB_DEBUG"):
        traceback.print_exception(error, file=sys.stderr)
