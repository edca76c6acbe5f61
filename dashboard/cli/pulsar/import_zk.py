"""``trimtab import-zk``: a snapshot of a ZooKeeper dump."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from core.pulsar.snapshot.zkdump import import_zk_dump
from core.snapshot.store import save_snapshot
from dashboard.cli.options import Json
from dashboard.cli.output import emit
from dashboard.cli.systems import captured

app = typer.Typer()


@app.command("import-zk")
def import_zk(
    dump: Annotated[
        Path, typer.Argument(metavar="DUMP.jsonl", help="ZooKeeper dump, one znode per line.")
    ],
    out: Annotated[Path, typer.Option(help="Directory to create.")],
    cluster: Annotated[
        str | None, typer.Option(help="Cluster name; default: the file name.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Convert a ZooKeeper dump to a snapshot."""
    name = cluster or dump.name.removesuffix(".jsonl")
    snapshot = import_zk_dump(dump, name, now=datetime.now(tz=UTC))
    save_snapshot(snapshot, out)
    return emit(captured(snapshot, out), as_json=as_json)
