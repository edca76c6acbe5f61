"""The text of an answer that was computed elsewhere, on this terminal."""

from __future__ import annotations

from collections.abc import Iterable

from core.operations.sent import Shown, TextLine
from dashboard.cli import output
from dashboard.cli.output import note, print_line, table


def show(lines: Iterable[Shown]) -> None:
    """Print the text of an answer."""
    is_narrow = not output.IS_WIDE.get() and output.terminal_width() is not None
    left_out: dict[str, None] = {}
    for line in lines:
        if isinstance(line, TextLine):
            if line.is_aside:
                note(line.text)
            else:
                print_line(line.text, is_prose=line.is_prose)
            continue
        hidden = [line.head.index(one) for one in line.wide] if line.rows and is_narrow else []
        shown = [at for at in range(len(line.head)) if at not in hidden]
        rows = [[row[at] for at in shown] for row in line.rows]
        table([line.head[at] for at in shown], rows, spare=line.spare)
        left_out |= dict.fromkeys(line.head[at] for at in hidden)
        if line.rest:
            print_line(line.rest)
    if left_out:
        note(f"Hidden columns: {', '.join(left_out)}. Show them with --wide.")
