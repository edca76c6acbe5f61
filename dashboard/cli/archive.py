"""``trimtab archive``: old entries of the journal, moved to a file that verifies with the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.units import pluralize
from dashboard import services
from dashboard.cli.config import configured_journal
from dashboard.cli.history.moments import moment
from dashboard.cli.options import Config, Json
from dashboard.cli.output import (
    Answer,
    UsageFaultError,
    confirm,
    emit,
    print_line,
    require_terminal,
)
from dashboard.services import access

app = typer.Typer()


@app.command()
def archive(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file, JSON lines.")],
    before: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Date; only older entries are moved; default: keep_days ago."
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason (recorded in the audit log).")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Archive without confirmation.")] = False,
    config_file: Config = None,
    as_json: Json = False,
) -> int:
    """Move old entries of the journal to a file.

    Moves complete, ended runs older than keep_days under [audit]. Requires the role admin. Verify
    both with `trimtab runs --verify --archive FILE`.
    """
    config = configured_journal(config_file)
    if not reason.strip():
        raise UsageFaultError("An archive needs a reason.", hint="Pass --reason TEXT.")
    if not yes:
        require_terminal(as_json=as_json, hint="Pass --yes.")
    limit = None if before is None else moment(before, services.now())
    by = access.command_identity(config)
    old_entries = services.old_entries(config, limit, by)
    if not yes:
        confirm(f"Move entries {old_entries.first} to {old_entries.last} of the journal to {file}?")
    made = services.archive(config, old_entries, file, reason, by)
    count = made.last - made.first + 1

    def show() -> None:
        print_line(f"{pluralize(count, 'entry')} moved to {file}: {made.first} to {made.last}.")
        if old_entries.open_run:
            print_line(
                f"Run {old_entries.open_run} has not ended; its entries and later ones stay."
            )

    body = {
        "archive": str(file),
        "first": made.first,
        "last": made.last,
        "digest": made.digest,
        "sha256": made.sha256,
        "open_run": old_entries.open_run,
    }
    return emit(Answer(body, show), as_json=as_json)
