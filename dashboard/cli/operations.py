"""Commands of operations: options from the request, one JSON and one text for every answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from core.errors import InputError, OpsError
from core.facts import Assumed, facts_module, facts_of
from core.operations.operation import Answer, Cells, Listing, Operation, Prose, plain
from core.request import Request
from core.snapshot import Manifest
from core.snapshot.store import Storable, load_manifest
from core.units import datetime_to_ms
from dashboard import services
from dashboard.cli import output
from dashboard.cli.config import read_config
from dashboard.cli.engine import is_spark, spark_session, write_tables
from dashboard.cli.options import Config, EngineName, Json, OutTables, Release, Settings, Source
from dashboard.cli.output import UsageFaultError, emit, print_line, table, warn
from dashboard.cli.progress import STATUS
from dashboard.cli.requests import takes
from dashboard.cli.source import (
    check_kind,
    is_path,
    kind_of,
    labeled,
    single_source,
    unknown_source,
)


@dataclass(frozen=True)
class _Options:
    """The options beside the request."""

    source: str
    out: Path | None
    settings: Sequence[str]
    release: str | None
    on_spark: bool
    config: Path | None


def app_of(operation: Operation[Any, Any]) -> typer.Typer:
    """Return the command of an operation."""

    def command(
        request: Request,
        source: Source,
        out: OutTables = None,
        settings: Settings = None,
        release: Release = None,
        engine: EngineName = "local",
        config: Config = None,
        as_json: Json = False,
    ) -> int:
        source = single_source(source, config)
        options = _Options(source, out, settings or (), release, is_spark(engine), config)
        return _answer(operation, request, options, as_json=as_json)

    unknown = {
        *(() if operation.can_assume else ("settings", "release")),
        *(() if operation.job else ("out", "engine")),
    }
    command.__doc__ = operation.help
    app = typer.Typer()
    app.command(operation.name)(takes(operation.request, without=unknown)(command))
    return app


def _answer(
    operation: Operation[Any, Any], request: Request, options: _Options, *, as_json: bool
) -> int:
    first = next(iter(operation.answers))
    kind = kind_of(options.source, options.config) or first  # a missing source is reported below
    _check_kind(operation, options.source, kind)
    try:
        assumed = facts_module(kind).assumed(options.settings, options.release)
    except InputError as exc:
        raise UsageFaultError(exc.message, hint=exc.hint) from exc
    run = _on_spark if options.on_spark else _here
    answer, manifest, took_ms = run(operation, request, options, kind, assumed)
    write_tables(options.out, answer.tables)
    body = plain(answer) | ({"elapsed_ms": round(took_ms, 3)} if operation.is_timed else {})
    now_ms = datetime_to_ms(manifest.taken_at)
    return emit(output.Answer(body, lambda: show(answer, request, now_ms)), as_json=as_json)


_Timed = tuple[Answer, Manifest, float]
"""An answer, the manifest of its snapshot, and how long it took, ms."""


def _here(
    operation: Operation[Any, Any],
    request: Request,
    options: _Options,
    kind: str,
    assumed: Assumed,
) -> _Timed:
    facts = _facts(_snapshot(options, kind), assumed)
    started = time.perf_counter()
    answer = operation.answer(facts, request, STATUS)
    return answer, facts.snapshot.manifest, (time.perf_counter() - started) * 1000


def _facts(snapshot: Storable, assumed: Assumed) -> Any:
    """Return the facts of a snapshot, after warnings about its release."""
    facts = facts_of(snapshot, assumed)
    for sentence in getattr(getattr(facts, "settings", None), "release_warnings", ()):
        warn(sentence)
    return facts


def _on_spark(
    operation: Operation[Any, Any],
    request: Request,
    options: _Options,
    kind: str,
    assumed: Assumed,
) -> _Timed:
    from core.spark.engine import Engine, InMemory, is_spread  # noqa: PLC0415  # no pyspark before it
    from core.spark.fleet import InDirectory  # noqa: PLC0415  # the same

    source: InDirectory | InMemory = InDirectory(options.source)
    if is_path(options.source) and is_spread(operation, source):
        manifest = load_manifest(Path(options.source))[1]  # too large to be read here
    else:
        snapshot = _facts(_snapshot(options, kind), assumed).snapshot
        source, manifest = InMemory(snapshot), snapshot.manifest
    engine = Engine(spark_session(read_config(options.config)))
    started = time.perf_counter()
    answers = engine.map(operation, {manifest.cluster: source}, request, STATUS, assumed)
    answer = answers[manifest.cluster]
    if isinstance(answer, OpsError):
        raise answer
    return answer, manifest, (time.perf_counter() - started) * 1000


def _check_kind(operation: Operation[Any, Any], source: str, kind: str) -> None:
    if kind in operation.answers:
        return
    only, *others = operation.answers
    if not others:
        check_kind(source, kind, only)
    raise UsageFaultError(
        f"{source} is a {kind} cluster; this command does not support it.",
        hint=f"Supported kinds: {', '.join(operation.answers)}.",
    )


def _snapshot(options: _Options, kind: str) -> Storable:
    """Return the snapshot in a directory, or a fresh one of a cluster of the configuration.

    Raises:
        SnapshotError: The directory holds none.
        UnknownNameError: There is neither such a directory nor such a cluster.
        RemoteError: It cannot be read.
    """
    if is_path(options.source):
        loaded: Storable = facts_module(kind).load(Path(options.source))
        return loaded
    config = read_config(options.config)
    names = [one.name for one in config.clusters if one.kind == kind]
    if options.source not in names:
        raise unknown_source(options.source, names, f"{kind.capitalize()} cluster")
    cluster = config.cluster(options.source)
    return labeled(cluster, services.snapshot_of(config, cluster))


def show(answer: Answer, request: Request, now_ms: int) -> None:
    """Print an answer for people.

    Args:
        answer: The answer.
        request: The request that it answers.
        now_ms: Time of the snapshot.
    """
    for line in answer.text(request):
        if isinstance(line, Listing):
            _show_rows(line, now_ms)
        elif isinstance(line, Cells):
            table(line.head, line.rows)
            if line.rest:
                print_line(f"... and {line.rest} more.")
        else:
            print_line(line, is_prose=isinstance(line, Prose))


def _show_rows(listing: Listing, now_ms: int) -> None:
    columns = listing.columns
    rows = listing.rows.slice(0, listing.most).to_pylist()
    table(
        [one.heading for one in columns.values()],
        [[one.text(row[one.name], now_ms) for one in columns.values()] for row in rows],
        spare=[columns[name].heading for name in listing.spare],
    )
    more = listing.rows.num_rows - len(rows)
    if more and listing.rest:
        print_line(f"... and {more:,} more; {listing.rest}")
