"""``trimtab owners``: who owns what, and which bundles have ownership problems."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import typer

from core.errors import UnknownNameError
from core.pulsar.owner_sessions import session_text, session_words
from core.pulsar.owner_spread import spread_of, spread_sentence
from core.pulsar.owners import WRONG, Ownership, meaning_of, ownership_of, worst_first
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.served import Services, services_of
from core.pulsar.view import LoadView
from core.units import datetime_to_ms, format_age, format_bytes_per_s
from dashboard.cli.options import Config, Json, Source
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.cli.pulsar import answers
from dashboard.cli.pulsar.source import active_settings, pulsar_snapshot

_MOST_SHOWN: Final = 20


app = typer.Typer()


@app.command()
def owners(
    source: Source,
    namespace: Annotated[
        str | None, typer.Option(metavar="TENANT/NAMESPACE", help="Only this namespace.")
    ] = None,
    only_problems: Annotated[
        bool,
        typer.Option("--orphans", help="Only bundles with ownership problems."),
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show ownership: sessions, orphans, double claims.

    Also shows namespaces on few brokers.
    """
    snapshot = pulsar_snapshot(source, config)
    snapshot.require("bundles")
    started = time.perf_counter()
    settings = active_settings(snapshot)
    ownership = ownership_of(snapshot, settings)
    services = services_of(snapshot, settings, ownership)
    spread = spread_of(LoadView.of(snapshot, settings))
    elapsed_ms = (time.perf_counter() - started) * 1000
    elsewhere = verdict_of(snapshot, settings).elsewhere(("serving",))
    bundles = _chosen(ownership, namespace, only_problems=only_problems)
    if namespace is not None:
        spread = spread.filter(pc.equal(spread["namespace"], namespace))
    body = {
        "answer": ownership.sentence,
        "spread": spread_sentence(spread),
        "counts": ownership.counts,
        "bundles": [_bundle_json(row, services) for row in bundles.to_pylist()],
        "sessions": ownership.sessions.to_pylist(),
        "namespaces": spread.to_pylist(),
        "notes": list(ownership.notes),
        "elsewhere": elsewhere or None,
        "elapsed_ms": round(elapsed_ms, 3),
    }

    def show() -> None:
        now_ms = datetime_to_ms(snapshot.manifest.taken_at)
        print_line(ownership.sentence)
        _explain(ownership, services)
        if only_problems or namespace is not None:
            _show_bundles(bundles, now_ms)
        if not only_problems:
            _show_sessions(ownership.sessions, now_ms)
            print_line()
            print_line(spread_sentence(spread))
        for note in ownership.notes:
            print_line(f"Note: {note}")
        if elsewhere:
            print_line(elsewhere)

    return emit(Answer(body, show), as_json=as_json)


def _explain(ownership: Ownership, services: Services) -> None:
    """Print the meaning of each wrong state and the fix for the first bundle in it."""
    for state in ownership.counts:
        if state not in WRONG:
            continue
        print_line(f"{state}: {meaning_of(state)}")
        row = worst_first(ownership.bundles, (state,)).slice(0, 1).to_pylist()[0]
        service = services.of(row)
        words = " ".join(filter(None, (service.sentence, service.next_lookup, service.fix)))
        if words:
            print_line(f"{row['bundle']}: {words}")


def _chosen(ownership: Ownership, namespace: str | None, *, only_problems: bool) -> pa.Table:
    bundles = (
        worst_first(ownership.bundles, WRONG) if only_problems else worst_first(ownership.bundles)
    )
    if namespace is None:
        return bundles
    known = pc.unique(ownership.bundles["namespace"]).to_pylist()
    if namespace not in known:
        raise UnknownNameError.of("namespace", namespace, known, place="this snapshot")
    return bundles.filter(pc.equal(bundles["namespace"], namespace))


def _bundle_json(row: dict[str, Any], services: Services) -> dict[str, Any]:
    more = answers.service(services.of(row))
    return {**row, "session": session_text(row["session_id"]), **more}


def _show_bundles(bundles: pa.Table, now_ms: int) -> None:
    print_line()
    table(
        ("bundle", "state", "owner", "also claimed by", "session", "owned for"),
        [
            (
                row["bundle"],
                row["state"],
                row["owner"] or "no broker",
                row["claimant"] or "",
                session_words(row["session_id"]),
                _age(now_ms, row["held_since"]),
            )
            for row in bundles.slice(0, _MOST_SHOWN).to_pylist()
        ],
        spare=("session", "also claimed by"),
    )
    if bundles.num_rows > _MOST_SHOWN:
        print_line(f"... and {bundles.num_rows - _MOST_SHOWN:,} more; --json lists all.")


def _show_sessions(sessions: pa.Table, now_ms: int) -> None:
    print_line()
    table(
        ("broker", "session", "min age", "bundles", "traffic", "registered", "leads"),
        [
            (
                row["broker"],
                session_words(row["session_id"]),
                _age(now_ms, row["oldest_at"]),
                f"{row['bundles']:,}",
                format_bytes_per_s(row["throughput"]),
                "yes" if row["is_registered"] else "no",
                "yes" if row["leads"] else "",
            )
            for row in sessions.slice(0, _MOST_SHOWN).to_pylist()
        ],
        spare=("session", "min age"),
    )
    if sessions.num_rows > _MOST_SHOWN:
        print_line(f"... and {sessions.num_rows - _MOST_SHOWN:,} more; --json lists all.")


def _age(now_ms: int, at_ms: int | None) -> str:
    return "unknown" if at_ms is None else format_age((now_ms - at_ms) / 1000.0)
