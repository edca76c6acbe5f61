"""Commands of operations: options from the request, one JSON and one text for every answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer

from core.errors import InputError, OpsError, UnknownNameError
from core.facts import Assumed, facts_module, facts_of, release_warnings
from core.operations.operation import Answer, Operation, plain
from core.operations.sent import SentAnswer, Shown, lines_of
from core.request import Request
from core.snapshot.store import Selection, load_manifest
from dashboard import services
from dashboard.cli import output
from dashboard.cli.config import config_words, read_config
from dashboard.cli.engine import is_spark, spark_session, write_tables
from dashboard.cli.options import (
    Config,
    EngineName,
    Json,
    OutTables,
    Release,
    Server,
    Settings,
    Source,
    Sources,
)
from dashboard.cli.output import UsageFaultError, emit, fail, print_json, print_line
from dashboard.cli.progress import STATUS
from dashboard.cli.requests import takes
from dashboard.cli.shown import show
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
class Options:
    """The options next to the request."""

    sources: Sequence[str]
    out: Path | None
    settings: Sequence[str]
    release: str | None
    on_spark: bool
    config: Path | None
    server: str | None


@dataclass(frozen=True)
class Answered:
    """The answer for one cluster.

    Attributes:
        body: The JSON object.
        lines: Returns the text for people.
        tables: The tables by name.
        elapsed_ms: Time that it took.
        warnings: Of the answer, and about the release of the cluster.
    """

    body: dict[str, Any]
    lines: Callable[[], Iterable[Shown]]
    tables: Mapping[str, pa.Table]
    elapsed_ms: float
    warnings: Sequence[str]

    @classmethod
    def of(
        cls,
        answer: Answer,
        request: Request,
        taken_at: datetime,
        elapsed_ms: float,
        warnings: Sequence[str],
    ) -> Answered:
        """Return an answer that was computed here."""
        lines = partial(lines_of, answer, request, taken_at, services.now())
        told = (*answer.warnings, *warnings)
        return cls(plain(answer), lines, answer.tables, elapsed_ms, told)


Loads = Mapping[str, Callable[[], Any]]
"""By name of a source: reads its facts."""


def app_of(operation: Operation[Any, Any]) -> typer.Typer:
    """Return the command of an operation."""

    def command(
        request: Request,
        source: Source,
        out: OutTables = None,
        settings: Settings = None,
        release: Release = None,
        engine: EngineName = "local",
        server: Server = None,
        config: Config = None,
        as_json: Json = False,
    ) -> int:
        on_spark = is_on_spark(engine, server)
        sources = sources_of(operation, source, config, server)
        options = Options(sources, out, settings or (), release, on_spark, config, server)
        return answer(operation, request, options, as_json=as_json)

    if operation.is_many:
        command.__annotations__["source"] = Sources
    unknown = {
        *(() if operation.can_assume else ("settings", "release")),
        *(() if operation.job and not operation.is_many else ("out",)),
        *(() if operation.job or operation.spread else ("engine",)),
    }
    command.__doc__ = operation.help
    app = typer.Typer()
    app.command(operation.name)(takes(operation.request, without=unknown)(command))
    return app


def is_on_spark(engine: str, server: str | None) -> bool:
    """Return whether an answer is computed on Spark.

    Raises:
        UsageFaultError: There is no such engine, or a server computes the answer.
    """
    on_spark = is_spark(engine)
    if server is not None and on_spark:
        raise UsageFaultError(
            "--server and --engine spark cannot be combined.", hint="Omit one of them."
        )
    return on_spark


def sources_of(
    operation: Operation[Any, Any],
    given: str | list[str],
    config: Path | None,
    server: str | None,
) -> list[str]:
    """Return the sources that a command line names, with the clusters of groups, tags and views.

    Raises:
        UnknownNameError: There is none of that name, or it has no cluster of the system.
        UsageFaultError: A command of one source gets several.
    """
    if server is not None:  # its configuration has the clusters
        return [given] if isinstance(given, str) else list(dict.fromkeys(given))
    if isinstance(given, str):
        return [single_source(given, config)]
    return list(spelled_out(given, config, _only_kind(operation)))


def _only_kind(operation: Operation[Any, Any]) -> str:
    """Return the one system with an answer; empty: there are several."""
    first, *others = operation.answers
    return "" if others else first


def answer(
    operation: Operation[Any, Any], request: Request, options: Options, *, as_json: bool
) -> int:
    """Answer for each source and print it: one object, or all of them by cluster."""
    if options.server is not None:
        answers = _on_server(operation, request, options, options.server)
    else:
        loads, assumed = prepared(operation, options)
        run = _on_spark if options.on_spark else _here
        answers = run(operation, request, options, loads, assumed)
    if len(answers) > 1:
        return _print_all(operation, answers, as_json=as_json)
    (only,) = answers.values()
    if isinstance(only, OpsError):
        raise only
    write_tables(options.out, only.tables)
    return emit(printable(operation, only), as_json=as_json)


def prepared(operation: Operation[Any, Any], options: Options) -> tuple[Loads, Assumed]:
    """Return what reads the facts of each source, and the assumptions.

    Raises:
        UsageFaultError: A system has no answer, or an assumption does not fit.
        UnknownNameError: There is neither such a directory nor such a cluster.
        RemoteError: A cluster cannot be read.
    """
    kinds = [_kind(operation, source, options.config) for source in options.sources]
    assumed = _assumed(options, kinds[0])
    loads = {
        name: _load(source, kind, options.config, assumed, operation.reads_earlier.get(kind))
        for name, source, kind in zip(_names(options.sources), options.sources, kinds, strict=True)
    }
    return loads, assumed


def _assumed(options: Options, kind: str) -> Assumed:
    """Return the settings and the release to assume.

    Raises:
        UsageFaultError: One of them does not fit.
    """
    try:
        assumed: Assumed = facts_module(kind).assumed(options.settings, options.release)
    except InputError as exc:
        raise UsageFaultError(exc.message, hint=exc.hint) from exc
    return assumed


def _on_server(
    operation: Operation[Any, Any], request: Request, options: Options, server: str
) -> Mapping[str, Answered | OpsError]:
    """Return the answers of a running Trimtab.

    Raises:
        InputError: Its address is none.
        RemoteError: It cannot be reached.
        UnknownNameError: It has no such cluster.
        UsageFaultError: The system of a cluster has no answer, or an assumption does not fit.
    """
    from trimtab.client import Client  # noqa: PLC0415  # commands must start fast

    client = Client(server)
    STATUS.start(f"trimtab: asking {client.server}")
    kinds = {one["name"]: one["kind"] for one in client.clusters()}
    for name in options.sources:
        if name not in kinds:
            raise UnknownNameError.of("cluster", name, kinds, place=client.server)
        _check_answers(operation, name, kinds[name])
    _assumed(options, kinds[options.sources[0]])
    answers: dict[str, Answered | OpsError] = {}
    for name in options.sources:
        started = time.perf_counter()
        try:
            found = client.answer(
                operation, name, request, settings=options.settings, release=options.release
            )
        except OpsError as error:
            answers[name] = error
        else:
            elapsed_ms = (time.perf_counter() - started) * 1000
            sent = found.sent
            lines = partial(_labeled_lines, sent)
            answers[name] = Answered(sent.body, lines, found.tables, elapsed_ms, sent.warnings)
    return answers


def _labeled_lines(sent: SentAnswer) -> Iterable[Shown]:
    output.LABELS.set(sent.labels)
    return sent.lines


def printable(operation: Operation[Any, Any], done: Answered) -> output.Answer:
    """Return an answer as a command prints it, after its warnings."""
    for sentence in done.warnings:
        output.warn(sentence)
    body = dict(done.body)
    if operation.is_timed:
        warnings = {"warnings": body.pop("warnings")} if "warnings" in body else {}
        body |= {"elapsed_ms": round(done.elapsed_ms, 3), **warnings}
    return output.Answer(body, lambda: show(done.lines()))


def _print_all(
    operation: Operation[Any, Any],
    answers: Mapping[str, Answered | OpsError],
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
        shown = printable(operation, done)
        bodies[name] = output.with_warnings(shown.body)
        if not as_json:
            shown.show()
    if as_json:
        print_json({"clusters": bodies})
    return code


def _here(
    operation: Operation[Any, Any],
    request: Request,
    options: Options,
    loads: Loads,
    _: Assumed,
) -> Mapping[str, Answered | OpsError]:
    words = config_words(options.config)
    answers: dict[str, Answered | OpsError] = {}
    for name, load in loads.items():
        try:
            facts = load()
            warnings = release_warnings(facts)
            started = time.perf_counter()
            answer = operation.answer(facts, request, STATUS).with_words(words)
        except OpsError as error:
            answers[name] = error
        else:
            elapsed_ms = (time.perf_counter() - started) * 1000
            taken_at = facts.snapshot.manifest.taken_at
            if name in options.sources and not is_path(name):
                loaded = read_config(options.config)
                answer = answer.dated(services.finding_spans(loaded, name), taken_at)
            answers[name] = Answered.of(answer, request, taken_at, elapsed_ms, warnings)
    return answers


def _on_spark(
    operation: Operation[Any, Any],
    request: Request,
    options: Options,
    loads: Loads,
    assumed: Assumed,
) -> Mapping[str, Answered | OpsError]:
    from core.spark.engine import Engine, InMemory, is_spread  # noqa: PLC0415  # no pyspark before it
    from core.spark.fleet import InDirectory  # noqa: PLC0415  # the same

    sources: dict[str, InDirectory | InMemory] = {}
    found: dict[str, tuple[datetime, Sequence[str]]] = {}
    warnings: Sequence[str]
    for (name, load), given in zip(loads.items(), options.sources, strict=True):
        if is_path(given) and is_spread(operation, InDirectory(given)):
            sources[name] = InDirectory(given)  # too large to be read here
            manifest, warnings = load_manifest(Path(given))[1], ()
        else:
            facts = load()
            sources[name] = InMemory(facts.snapshot, facts.earlier)
            manifest, warnings = facts.snapshot.manifest, release_warnings(facts)
        found[name] = manifest.taken_at, warnings
    words = config_words(options.config)
    engine = Engine(spark_session(read_config(options.config)))
    started = time.perf_counter()
    answers = engine.map(operation, sources, request, STATUS, assumed)
    elapsed_ms = (time.perf_counter() - started) * 1000
    return {
        name: one
        if isinstance(one, OpsError)
        else Answered.of(one.with_words(words), request, taken_at, elapsed_ms, warnings)
        for name, (taken_at, warnings) in found.items()
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
    _check_answers(operation, source, kind)
    return kind


def _check_answers(operation: Operation[Any, Any], source: str, kind: str) -> None:
    """Refuse a cluster whose system has no answer.

    Raises:
        UsageFaultError: It has none.
    """
    if kind in operation.answers:
        return
    if only := _only_kind(operation):
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


def _load(
    source: str, kind: str, config: Path | None, assumed: Assumed, earlier: Selection | None
) -> Callable[[], Any]:
    """Return what reads the facts of a directory; a configured cluster is read at once.

    Raises:
        RemoteError: The cluster cannot be read.
    """
    if is_path(source):
        return lambda: facts_of(facts_module(kind).load(Path(source)), assumed)
    loaded = read_config(config)
    cluster = loaded.cluster(source)
    STATUS.start(f"trimtab: reading {source}")
    snapshot = labeled(cluster, services.snapshot_of(loaded, cluster))
    before = services.earlier_snapshots(loaded, snapshot, earlier) if earlier else ()
    return lambda: facts_of(snapshot, assumed, before)
