"""``trimtab import``: one snapshot of outputs of ``pulsar-admin``, metrics and dumps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.snapshot.store import save_snapshot
from dashboard import services
from dashboard.cli.options import Json
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.cli.systems import captured
from dashboard.services import pulsar

app = typer.Typer()


@app.command("import")
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Outputs of pulsar-admin, /metrics texts, ZooKeeper dumps."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory to create.")],
    cluster: Annotated[str, typer.Option(help="Cluster name.")] = "imported",
    as_json: Json = False,
) -> int:
    """Convert outputs of pulsar-admin and metrics to a snapshot.

    Each file is recognized by its content; together they make one snapshot.
    """
    made = pulsar.import_outputs(files, cluster, services.now())
    save_snapshot(made.snapshot, out)
    answer = captured(made.snapshot, out)
    body = {
        **answer.body,
        "files": [
            {"file": str(file.path), "kind": file.kind, "about": file.about} for file in made.files
        ],
    }

    def show() -> None:
        table(
            ("file", "kind", "about"),
            [(file.path.name, file.kind, file.about) for file in made.files],
        )
        answer.show()
        for sentence in made.snapshot.manifest.unavailable:
            print_line(f"Missing: {sentence}", is_prose=True)

    return emit(Answer(body, show, exit_code=answer.exit_code), as_json=as_json)
