"""``trimtab audit``: who did what and when, filtered, for people and for spreadsheets."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, TextIO

import typer

from core.actions.describe import KINDS, describe_event
from core.actions.events import Entry, EntryFilter
from core.errors import InputError
from core.files import whole_text
from core.units import pluralize
from dashboard import services
from dashboard.cli import run_answers
from dashboard.cli.config import configured_journal
from dashboard.cli.history.moments import span
from dashboard.cli.options import Config, Json
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line, table
from dashboard.cli.runs import entry_row
from dashboard.cli.served import check_whole

_COLUMNS = ("entry", "at", "run", "cluster", "who", "kind", "what", "why", "hash")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

app = typer.Typer()


@app.command()
def audit(
    cluster: Annotated[str | None, typer.Option(help="Only entries of this cluster.")] = None,
    run: Annotated[str | None, typer.Option(help="Only entries of this run.")] = None,
    who: Annotated[str | None, typer.Option(help="Only entries of this person or worker.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only entries of this kind, for example 'step started'.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Start, for example -24h.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="End.")] = None,
    last: Annotated[int, typer.Option(min=1, help="Number of entries to list.")] = 50,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Export all matching entries to a .jsonl or .csv file."),
    ] = None,
    config_file: Config = None,
    as_json: Json = False,
) -> int:
    """List and export the journal: who did what, and when.

    The newest entry comes last. `trimtab runs --verify` verifies the entries.
    """
    config = configured_journal(config_file)
    check_whole(run or cluster)
    since, until = span(start, end, services.now())
    entry_filter = EntryFilter(
        run_id=run, cluster=cluster, actor=who, kind=_event_of(kind), since=since, until=until
    )
    journal = services.journal(config)
    entries = journal.selected(entry_filter, None if export else last)
    if export is not None:
        _write(export, entries)
        body = {"export": str(export), "entries": len(entries)}
        count = pluralize(len(entries), "entry")
        return emit(
            Answer(body, lambda: print_line(f"{count} written to {export}.")), as_json=as_json
        )

    def show() -> None:
        if not entries:
            print_line(f"No entry of the journal {journal.place} matches.")
            return
        rows = [
            [*entry_row(entry)[:3], entry.record.cluster, entry_row(entry)[3]] for entry in entries
        ]
        table(("entry", "at (UTC)", "who", "cluster", "what"), rows, spare=("who", "cluster"))

    return emit(
        Answer({"entries": [run_answers.entry(entry) for entry in entries]}, show), as_json=as_json
    )


def _event_of(word: str | None) -> str | None:
    """Return the event's name for a kind as people write it."""
    if word is None:
        return None
    found = [name for name, said in KINDS.items() if word.lower() in (said, name.lower())]
    if not found:
        raise UsageFaultError(f"No kind {word!r}.", hint=f"Available: {', '.join(KINDS.values())}.")
    return found[0]


def _write(path: Path, entries: Sequence[Entry]) -> None:
    if path.suffix not in (".jsonl", ".csv"):
        raise UsageFaultError(
            f"{path} is neither .jsonl nor .csv.", hint="Use one of the two extensions."
        )
    write = _csv if path.suffix == ".csv" else _json_lines
    try:
        with whole_text(path, newline="") as file:
            write(file, entries)
    except OSError as exc:
        raise InputError(
            f"{path} cannot be written: {exc.strerror}.", hint="Specify another file."
        ) from exc


def _json_lines(file: TextIO, entries: Iterable[Entry]) -> None:
    lines = (
        json.dumps(run_answers.entry(entry), sort_keys=True, ensure_ascii=True) for entry in entries
    )
    file.writelines(f"{line}\n" for line in lines)


def _csv(file: TextIO, entries: Iterable[Entry]) -> None:
    out = csv.writer(file)
    out.writerow(_COLUMNS)
    for entry in entries:
        record = entry.record
        words = describe_event(record.event)
        cells = (record.run_id, record.cluster, record.actor, KINDS[type(record.event).__name__])
        texts = [_plain(cell) for cell in (*cells, words.what, words.why)]
        out.writerow([entry.seq, record.at.isoformat(), *texts, entry.digest])


def _plain(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
