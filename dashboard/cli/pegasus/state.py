"""``trimtab pegasus nodes``, ``tables`` and ``health``: the state of a cluster. Only reading."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from core.pegasus.levels import ALLOWANCES, FunctionLevel
from core.pegasus.rules.registry import pegasus_verdict
from core.pegasus.snapshot import STORED_LEVEL, PegasusFacts
from core.pegasus.summary import guardian_unhealthy, summarize_nodes, summarize_tables
from core.snapshot.pegasus import PegasusSnapshot
from core.units import format_count, format_mb, pluralize
from dashboard.cli import answers
from dashboard.cli.options import Config, Json, Source
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.cli.pegasus.live import earlier_of, note_problems, pegasus_snapshot
from dashboard.presenters.pegasus.headline import answer

app = typer.Typer()

_MAX_SHOWN = 20
_STATE_WORDS = {"writable_ill": "degraded"}
"""What a state is called where that is not its name in the counting."""


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

    body = {**_head(snapshot), "nodes": [asdict(one) for one in found]}
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
        **_head(snapshot),
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
    facts = PegasusFacts(snapshot)
    found, unhealthy, verdict = summarize_tables(facts), guardian_unhealthy(facts), facts.verdict()
    judged = pegasus_verdict(facts, earlier_of(source, snapshot, config))
    headline = answer(facts, verdict)
    ddds = [row for row in facts.rows("partitions") if row["ddd_reason"] is not None]
    down = facts.columns.nodes_with("down")
    silent = facts.columns.nodes_with("not answering")
    body = {
        **_head(snapshot),
        "answer": headline,
        **answers.verdict(judged),
        "balance": asdict(verdict),
        "target_percent": round(facts.target_ratio * 100, 3),
        "max_deviation": {
            name: facts.columns.max_deviation(primaries_only=name == "primaries")
            for name in ("primaries", "replicas")
        },
        "nodes_set_aside": facts.columns.set_aside,
        "nodes_down": down,
        "nodes_not_answering": silent,
        "states": {one.name: one.states for one in found},
        "listed": {one.name: one.listed for one in found},
        "unwritable": {one.name: one.unwritable for one in found},
        "guardian": {"ill": unhealthy, "is_complete": facts.has_all_partitions},
        "ddd": [
            {
                "gpid": f"{row['app_id']}.{row['index']}",
                "last_drops": row["last_drops"],
                "reason": row["ddd_reason"],
            }
            for row in ddds
        ],
    }

    def show() -> None:
        print_line(headline)
        print_line(judged.sentence)
        print_line(f"Nodes down: {', '.join(down) or 'none'}.")
        if silent:
            print_line(f"Nodes not answering: {', '.join(silent)}.")
        print_line("Partitions by state:")
        words = [word for one in found for word in one.states or ()]
        columns = tuple(dict.fromkeys(words))
        rows = [
            (one.name, *(_number((one.states or {}).get(word)) for word in columns))
            for one in found
        ]
        table(("table", *(_STATE_WORDS.get(word, word) for word in columns)), rows)
        if not facts.has_all_partitions:
            print_line("Some partitions were not read and are not included.")
        count = pluralize(len(unhealthy), "unhealthy partition")
        print_line(f"The meta server's guardian reports {count}{_few(unhealthy)}.")
        for one in body["ddd"]:
            print_line(f"{one['gpid']} lost every replica: {one['reason']}")
        for item in judged.findings:
            print_line()
            print_line(f"{item.severity.upper():8}{item.sentence}")
            if item.hint:
                print_line(f"{'':8}{item.hint}")
        note_problems(snapshot)

    return emit(Answer(body, show), as_json=as_json)


def show_level(source: str, config: Path | None, *, as_json: bool) -> int:
    """Show the function level, stored and effective."""
    snapshot = pegasus_snapshot(source, config)
    facts = PegasusFacts(snapshot)
    stored, effective = facts.stored_level, facts.effective_level
    body = {
        **_head(snapshot),
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


def _head(snapshot: PegasusSnapshot) -> dict[str, Any]:
    manifest = snapshot.manifest
    return {
        "cluster": manifest.cluster,
        "taken_at": manifest.taken_at.isoformat(),
        "snapshot_id": snapshot.snapshot_id,
        "leader": manifest.leader,
        "problems": [
            {
                "code": problem.code,
                "place": problem.place,
                "what": problem.what,
                "done": problem.done,
                "severity": problem.severity,
            }
            for problem in manifest.problems
        ],
    }


def _word(level: FunctionLevel | None) -> str | None:
    return None if level is None else level.word


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _share(part: float | None, whole: float | None) -> str:
    return "unknown" if part is None or not whole else f"{part / whole:.0%}"


def _few(names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return f": {', '.join(names[:_MAX_SHOWN])}{more}"
