"""``trimtab pegasus nodes``, ``tables`` and ``health``: the state of a cluster. Only reading."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from core.findings.request import HealthRequest
from core.operations.health import OPERATION
from core.operations.health.pegasus import head_json, pegasus_health
from core.pegasus.levels import ALLOWANCES, FunctionLevel
from core.pegasus.snapshot import STORED_LEVEL, PegasusFacts
from core.pegasus.summary import summarize_nodes, summarize_tables
from core.units import format_count, format_mb
from dashboard.cli import operations
from dashboard.cli.options import Config, Json, Source
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.cli.pegasus.live import earlier_of, note_problems, pegasus_snapshot
from dashboard.cli.progress import STATUS

app = typer.Typer()


@app.command()
def nodes(source: Source, config: Config = None, as_json: Json = False) -> int:
    """Show the replica servers: replicas, load, disks."""
    snapshot = pegasus_snapshot(source, config)
    found = summarize_nodes(PegasusFacts(snapshot))

    def show() -> None:
        rows = [
            (
                one.name,
                one.status,
                str(one.primaries),
                str(one.secondaries),
                format_mb(one.carried.size_mb),
                format_count(one.carried.read_rate),
                format_count(one.carried.write_rate),
                _share(one.disk_available_mb, one.disk_capacity_mb),
                format_mb(one.memory_mb),
                _number(one.learning),
            )
            for one in found
        ]
        head = ("node", "status", "primaries", "secondaries", "size", "read/s", "write/s")
        table((*head, "disk free", "memory", "learning"), rows, spare=("learning", "memory"))
        note_problems(snapshot)

    body = {**head_json(snapshot), "nodes": [asdict(one) for one in found]}
    return emit(Answer(body, show), as_json=as_json)


@app.command()
def tables(source: Source, config: Config = None, as_json: Json = False) -> int:
    """Show the tables: size, load, health."""
    snapshot = pegasus_snapshot(source, config)
    found = summarize_tables(PegasusFacts(snapshot))

    def show() -> None:
        rows = [
            (
                str(one.app_id),
                one.name,
                str(one.partition_count),
                str(one.max_replica_count),
                format_mb(one.carried.size_mb),
                format_count(one.carried.read_rate),
                format_count(one.carried.write_rate),
                *(_number(count) for count in (one.listed or dict.fromkeys("1234")).values()),
                _number(one.unwritable),
            )
            for one in found
        ]
        head = ("id", "table", "partitions", "replicas", "size", "read/s", "write/s")
        health_words = ("fully healthy", "unhealthy", "write unhealthy", "read unhealthy")
        table((*head, *health_words, "unwritable"), rows, spare=("read/s", "write/s"))
        for one in found:
            if one.notes:  # what denies or limits its clients is not left out where room is short
                print_line(f"{one.name}: {'; '.join(one.notes)}.", is_prose=True)
        print_line("Counts as in `ls -d` of the Pegasus shell. Details: `trimtab pegasus health`.")
        note_problems(snapshot)

    facts = PegasusFacts(snapshot)
    body = {
        **head_json(snapshot),
        "tables": [asdict(one) for one in found],
        "duplications": facts.rows("duplications"),
        "backup_policies": facts.rows("backup_policies"),
    }
    return emit(Answer(body, show), as_json=as_json)


@app.command()
def health(source: Source, config: Config = None, as_json: Json = False) -> int:
    """Show unhealthy partitions and the balance of the cluster.

    Shows the counts of the shell, the guardian and the replicas.
    """
    snapshot = pegasus_snapshot(source, config)
    facts = PegasusFacts(snapshot, earlier_of(source, snapshot, config))
    found = pegasus_health(facts, HealthRequest(), STATUS)
    taken_at = snapshot.manifest.taken_at
    done = operations.Answered.of(found, HealthRequest(), taken_at, 0.0, ())
    return emit(operations.printable(OPERATION, done), as_json=as_json)


def show_level(source: str, config: Path | None, *, as_json: bool) -> int:
    """Show the function level, stored and effective."""
    snapshot = pegasus_snapshot(source, config)
    facts = PegasusFacts(snapshot)
    stored, effective = facts.stored_level, facts.effective_level
    body = {
        **head_json(snapshot),
        "stored": _word(stored),
        "stored_number": snapshot.settings.get(STORED_LEVEL),
        "effective": _word(effective),
        "allows": None if effective is None else asdict(ALLOWANCES[effective]),
        "operations": None if facts.operations is None else asdict(facts.operations),
    }

    def show() -> None:
        print_line(f"stored     {_word(stored) or 'unknown'}")
        print_line(f"effective  {_word(effective) or 'unknown'}")
        if effective is not None:
            print_line(ALLOWANCES[effective].sentence)
        if stored is not None and effective is not None and stored is not effective:
            print_line(
                "They differ because too few nodes are alive: the meta server is in protection "
                "mode."
            )
        note_problems(snapshot)

    return emit(Answer(body, show), as_json=as_json)


def _word(level: FunctionLevel | None) -> str | None:
    return None if level is None else level.word


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _share(part: float | None, whole: float | None) -> str:
    return "unknown" if part is None or not whole else f"{part / whole:.0%}"
