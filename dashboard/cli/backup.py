"""``trimtab backup`` and ``trimtab restore``: copies of journal, users and key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.units import pluralize
from dashboard import services
from dashboard.cli.config import configured_journal
from dashboard.cli.options import Config, Json
from dashboard.cli.output import Answer, emit, print_line

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the backup.")]

app = typer.Typer()


@app.command()
def backup(folder: Folder, config_file: Config = None, as_json: Json = False) -> int:
    """Back up journal, users and key while they are in use.

    The history is not included; export it with `trimtab history export`.
    """
    return _answer(
        services.back_up(configured_journal(config_file), folder), folder, as_json=as_json
    )


@app.command()
def restore(folder: Folder, config_file: Config = None, as_json: Json = False) -> int:
    """Restore a backup; overwrite no file.

    Stop every process of Trimtab first.
    """
    return _answer(
        services.restore(configured_journal(config_file), folder), folder, as_json=as_json
    )


def _answer(found: services.BackupMade, folder: Path, *, as_json: bool) -> int:
    def show() -> None:
        print_line(f"{folder}: {', '.join(found.files)}.")
        if found.entries is None:
            print_line(
                "The journal is on a database server: copy it with the tools of that server."
            )
        else:
            print_line(
                f"The journal has {pluralize(found.entries, 'entry')}, newest hash {found.digest}."
            )

    body = {
        "folder": str(folder),
        "files": list(found.files),
        "entries": found.entries,
        "digest": found.digest or None,
    }
    return emit(Answer(body, show), as_json=as_json)
