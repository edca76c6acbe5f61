"""Commands of operations: options from the request, one JSON and one text for every answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from core.errors import InputError, OpsError
from core.facts import Assumed, facts_module, facts_of
from core.operations.operation import Answer, Cells, Listing, Operation, Prose, plain
from core.request import Request
from core.snapshot.store import Storable, load_manifest
from core.units import datetime_to_ms
from dashboard import services
from dashboard.cli import output
from dashboard.cli.config import read_config
from dashboard.cli.engine import is_spark, spark_session, write_tables
from dashboard.cli.options import (
    Config,
    EngineName,
    Json,
    OutTables,
    Release,
    Settings,
    Source,
    Sources,
)
from dashboard.cli.output import UsageFaultError, emit, fail, print_json, print_line, table
from dashboard.cli.progress import STATUS
from dashboard.cli.requests import takes
from dashboard.cli.source import (
    check_kind,
    is_path,
    kind_of,
    labeled,
    single_source,
    spelled_out,
    unknown_source,
)


@dataclass(frozen=True)
class _Options:
    """The options beside the request."""

    sources: Sequence[str]
    out: Path | None
    settings: Sequence[str]
    release: str | None
    on_spark: bool
    config: Path | None


@dataclass(frozen=True)
class _Answered:
    """The answer for one cluster.

    Attributes:
        answer: The answer.
        now_ms: Time of the snapshot.
        elapsed_ms: Time that it took.
        warnings: About the release of the cluster.
    """

    answer: Answer
    now_ms: int
    elapsed_ms: float
    warnings: Sequence[str] = ()


Loads = Mapping[str, Callable[[], Storable]]
"""By name of a source: reads its snapshot."""


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
        on_spark = is_spark(engine)
        sources = _sources(operation, source, config)
        options = _Options(sources, out, settings or (), release, on_spark, config)
        return _answer(operation, request, options, as_json=as_json)

    if operation.is_many:
        command.__annotations__["source"] = Sources
    unknown = {
        *(() if operation.can_assume else ("settings", "release")),
        *(() if operation.job else ("out",)),
        *(() if operation.job or operation.spread else ("engine",)),
    }
    command.__doc__ = operation.help
    app = typer.Typer()
    app.command(operation.name)(takes(operation.request, without=unknown)(command))
    return app


def _sources(
    operation: Operation[Any, Any], given: str | list[str], config: Path | None
) -> list[str]:
    if isinstance(given, str):
        return [single_source(given, config)]
    return list(spelled_out(given, config, _only_kind(operation)))


def _only_kind(operation: Operation[Any, Any]) -> str:
    """Return the one system with an answer; empty: there are several."""
    first, *others = operation.answers
    return "" if others else first


def _answer(
    operation: Operation[Any, Any], request: Request, options: _Options, *, as_json: bool
) -> int:
    kinds = [_kind(operation, source, options.config) for source in options.sources]
    try:
        assumed = facts_module(kinds[0]).assumed(options.settings, options.release)
    except InputError as exc:
        raise UsageFaultError(exc.message, hint=exc.hint) from exc
    loads = {
        name: _load(source, kind, options.config)
        for name, source, kind in zip(_names(options.sources), options.sources, kinds, strict=True)
    }
    run = _on_spark if options.on_spark else _here
    answers = run(operation, request, options, loads, assumed)
    if len(answers) > 1:
        return _print_all(operation, request, answers, as_json=as_json)
    (only,) = answers.values()
    if isinstance(only, OpsError):
        raise only
    write_tables(options.out, only.answer.tables)
    return emit(_printable(operation, request, only), as_json=as_json)


def _printable(operation: Operation[Any, Any], request: Request, done: _Answered) -> output.Answer:
    """Return an answer as a command prints it, after its warnings."""
    for sentence in (*done.answer.warnings, *done.warnings):
        output.warn(sentence)
    body = plain(done.answer)
    if operation.is_timed:
        warnings = {"warnings": body.pop("warnings")} if "warnings" in body else {}
        body |= {"elapsed_ms": round(done.elapsed_ms, 3), **warnings}
    return output.Answer(body, lambda: show(done.answer, request, done.now_ms))


def _print_all(
    operation: Operation[Any, Any],
    request: Request,
    answers: Mapping[str, _Answered | OpsError],
    *,
    as_json: bool,
) -> int:
    """Print the answers of several clusters; the worst exit code is the result."""
    code = output.EXIT_DONE
    bodies: dict[str, Mapping[str, Any]] = {}
    for number, (name, done) in enumerate(answers.items()):
        if not as_json:
            if number:
                print_line()
            print_line(f"== {name}")
        if isinstance(done, OpsError):
            code = max(code, output.exit_code(done) if as_json else fail(done, as_json=False))
            bodies[name] = {"error": done.as_json()}
            continue
        printable = _printable(operation, request, done)
        bodies[name] = output.with_warnings(printable.body)
        if not as_json:
            printable.show()
    if as_json:
        print_json({"clusters": bodies})
    return code


def _here(
    operation: Operation[Any, Any],
    request: Request,
    _: _Options,
    loads: Loads,
    assumed: Assumed,
) -> Mapping[str, _Answered | OpsError]:
    answers: dict[str, _Answered | OpsError] = {}
    for name, load in loads.items():
        try:
            facts = facts_of(load(), assumed)
            warnings = _release_warnings(facts)
            started = time.perf_counter()
            answer = operation.answer(facts, request, STATUS)
        except OpsError as error:
            answers[name] = error
        else:
            elapsed_ms = (time.perf_counter() - started) * 1000
            now_ms = datetime_to_ms(facts.snapshot.manifest.taken_at)
            answers[name] = _Answered(answer, now_ms, elapsed_ms, warnings)
    return answers


def _release_warnings(facts: Any) -> Sequence[str]:
    warnings: Sequence[str] = getattr(getattr(facts, "settings", None), "release_warnings", ())
    return warnings


def _on_spark(
    operation: Operation[Any, Any],
    request: Request,
    options: _Options,
    loads: Loads,
    assumed: Assumed,
) -> Mapping[str, _Answered | OpsError]:
    from core.spark.engine import Engine, InMemory, is_spread  # noqa: PLC0415  # no pyspark before it
    from core.spark.fleet import InDirectory  # noqa: PLC0415  # the same

    sources: dict[str, InDirectory | InMemory] = {}
    found: dict[str, tuple[int, Sequence[str]]] = {}
    warnings: Sequence[str]
    for (name, load), given in zip(loads.items(), options.sources, strict=True):
        if is_path(given) and is_spread(operation, InDirectory(given)):
            sources[name] = InDirectory(given)  # too large to be read here
            manifest, warnings = load_manifest(Path(given))[1], ()
        else:
            facts = facts_of(load(), assumed)
            sources[name] = InMemory(facts.snapshot)
            manifest, warnings = facts.snapshot.manifest, _release_warnings(facts)
        found[name] = datetime_to_ms(manifest.taken_at), warnings
    engine = Engine(spark_session(read_config(options.config)))
    started = time.perf_counter()
    answers = engine.map(operation, sources, request, STATUS, assumed)
    elapsed_ms = (time.perf_counter() - started) * 1000
    return {
        name: one if isinstance(one, OpsError) else _Answered(one, now_ms, elapsed_ms, warnings)
        for name, (now_ms, warnings) in found.items()
        for one in (answers[name],)
    }


def _kind(operation: Operation[Any, Any], source: str, config: Path | None) -> str:
    """Return the system of a source.

    Raises:
        SnapshotError: The directory holds no snapshot.
        UnknownNameError: There is neither such a directory nor such a cluster.
        UsageFaultError: Its system has no answer.
    """
    kind = kind_of(source, config)
    only = _only_kind(operation)
    if not kind:
        is_one = only and not operation.is_many
        clusters = read_config(config).clusters
        names = [one.name for one in clusters if not is_one or one.kind == only]
        raise unknown_source(source, names, f"{only.capitalize()} cluster" if is_one else "cluster")
    if kind in operation.answers:
        return kind
    if only:
        check_kind(source, kind, only)
    raise UsageFaultError(
        f"{source} is a {kind} cluster; this command does not support it.",
        hint=f"Supported kinds: {', '.join(operation.answers)}.",
    )


def _names(sources: Sequence[str]) -> list[str]:
    """Name each source by its cluster; by its directory where two are of one cluster."""
    clusters = [load_manifest(Path(one))[1].cluster if is_path(one) else one for one in sources]
    return [
        cluster if clusters.count(cluster) == 1 else source
        for cluster, source in zip(clusters, sources, strict=True)
    ]


def _load(source: str, kind: str, config: Path | None) -> Callable[[], Storable]:
    """Return what reads the snapshot of a directory; a configured cluster is read at once.

    Raises:
        RemoteError: The cluster cannot be read.
    """
    if is_path(source):
        return lambda: facts_module(kind).load(Path(source))
    loaded = read_config(config)
    cluster = loaded.cluster(source)
    STATUS.start(f"trimtab: reading {source}")
    snapshot = labeled(cluster, services.snapshot_of(loaded, cluster))
    return lambda: snapshot


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
