"""What ``import-zk`` does, and what every command says about a snapshot it wrote."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from core.snapshot import PulsarSnapshot
from core.snapshot.store import save_snapshot
from core.snapshot.zkdump import import_zk_dump
from dashboard import cli_json
from dashboard.cli_output import Answer, emit, note, say


def import_zk(dump: Path, out: Path, cluster: str | None, *, as_json: bool) -> int:
    """``trimtab import-zk``."""
    name = cluster or dump.name.removesuffix(".jsonl")
    snapshot = import_zk_dump(dump, name, now=datetime.now(tz=UTC))
    save_snapshot(snapshot, out)
    return emit(captured_answer(snapshot, out), as_json=as_json)


def captured_answer(snapshot: PulsarSnapshot, out: Path) -> Answer:
    """Return what ``capture`` and ``import-zk`` say about the snapshot they wrote."""

    def show() -> None:
        counts = ", ".join(
            f"{entry.num_rows} {name}" for name, entry in snapshot.tables.items() if entry.num_rows
        )
        say(f"{out}: {counts or 'nothing'} of {snapshot.manifest.cluster}.")
        for problem in snapshot.manifest.problems:
            note(f"{problem.severity}: {problem.place}: {problem.what} {problem.done}".rstrip())

    return Answer(cli_json.captured(snapshot, out), show)
