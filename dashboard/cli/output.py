"""How a command answers: one JSON object, or tables and sentences for people.

With ``--json`` exactly one object goes to standard output; progress and logs always go to standard
error. Exit codes: 0 done, 1 refused or failed, 2 bad usage, 3 answered, but incomplete: something
could not be read or is not as it was written.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from core.errors import InvariantError, OpsError
from core.units import MISLEADING, visible

EXIT_DONE: Final = 0
EXIT_REFUSED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INCOMPLETE: Final = 3
"""Answered, but something could not be read or is not as it was written: ``problems`` names it."""


class UsageFaultError(OpsError):
    """An option's value that cannot be: exit code 2."""

    code = "usage"


class StoppedError(OpsError):
    """A person ended the command before it was done."""

    code = "stopped"


@dataclass(frozen=True)
class Answer:
    """What a command found out.

    Attributes:
        body: The JSON object of ``--json``.
        show: Prints the same for people.
        exit_code: 0 unless the verdict itself is a refusal.
    """

    body: Mapping[str, Any]
    show: Callable[[], None] = field(default=lambda: None)
    exit_code: int = EXIT_DONE


_UNCUT: Final = 1_000_000
"""Characters of a line that is not for a terminal."""

_WARNINGS: Final[list[str]] = []
"""Warnings of the command that runs, in the order in which they came up."""


def warn(text: str) -> None:
    """Print a warning to standard error once; ``emit`` adds it to the ``warnings`` of the JSON."""
    if text not in _WARNINGS:
        _WARNINGS.append(text)
        note(f"warning: {text}")


def forget_warnings() -> None:
    """Start a command without the warnings of another."""
    _WARNINGS.clear()


def emit(answer: Answer, *, as_json: bool) -> int:
    """Print the answer and return the exit code."""
    if as_json:
        known = answer.body.get("warnings", [])
        more = [text for text in _WARNINGS if text not in known]
        print_json({**answer.body, "warnings": [*known, *more]} if more else answer.body)
    else:
        answer.show()
    sys.stdout.flush()
    return answer.exit_code


def print_json(body: Mapping[str, Any]) -> None:
    """Print one JSON object; NaN and infinities, which JSON does not have, are refused."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(MISLEADING.sub(_escaped, text) + "\n")


def _escaped(found: re.Match[str]) -> str:
    """Return a character as JSON escapes it: it reads back the same, and no terminal obeys it."""
    return json.dumps(found.group())[1:-1]


def fail(error: OpsError, *, as_json: bool) -> int:
    """Print what is wrong and the fix, and return the exit code."""
    if as_json:
        print_json({"error": error.as_json()})
    else:
        note(f"trimtab: {error}")
    return EXIT_USAGE if isinstance(error, UsageFaultError) else EXIT_REFUSED


def say(text: str = "") -> None:
    """Print a line to standard output."""
    sys.stdout.write(_harmless(text) + "\n")


def note(text: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(_harmless(text) + "\n")
    sys.stderr.flush()


def _harmless(text: str) -> str:
    """Show control and invisible characters as codes: names come from elsewhere."""
    return visible(text)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; numbers are aligned right.

    On a terminal it fits the width and long cells are folded; elsewhere no width cuts a line.
    """
    if not rows:
        return
    from rich.console import Console  # noqa: PLC0415 - only an answer for people needs it
    from rich.table import Table  # noqa: PLC0415 - only an answer for people needs it
    from rich.text import Text  # noqa: PLC0415 - only an answer for people needs it

    is_terminal = sys.stdout.isatty()
    drawn = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    for index, name in enumerate(columns):
        is_right = all(_is_number(row[index]) for row in rows)
        drawn.add_column(
            Text(name, style="bold"),
            justify="right" if is_right else "left",
            overflow="fold",
        )
    for row in rows:
        drawn.add_row(*(Text(_harmless(cell)) for cell in row))
    if is_terminal:
        Console().print(drawn)
        return
    plain = Console(file=io.StringIO(), width=_UNCUT, color_system=None)
    with plain.capture() as lines:
        plain.print(drawn)
    for line in lines.get().splitlines():
        say(line.rstrip())


def _is_number(text: str) -> bool:
    return text == "unknown" or text[:1].isdigit() or text[:2].lstrip("+-")[:1].isdigit()


def report_bug(kind: type[BaseException], error: BaseException, *, as_json: bool) -> None:
    """Say in one sentence that Trimtab itself failed; TRIMTAB_DEBUG=1 shows where."""
    bug = InvariantError(
        f"Trimtab failed by itself: {kind.__name__}: {error}.",
        hint="Please report it; run the command again with TRIMTAB_DEBUG=1 for the details.",
    )
    fail(bug, as_json=as_json)
    if os.environ.get("TRIMTAB_DEBUG"):
        traceback.print_exception(error, file=sys.stderr)
