"""One command on one snapshot or several, in process or on Spark.

A command is the same function everywhere: on Spark it runs in a task, and what it would print comes
back. So an engine changes how long an answer takes, never the answer.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from core.errors import OpsError, UnknownNameError
from core.snapshot.store import load_manifest
from core.spark.fleet import each_on_spark
from dashboard.cli.config import read_config
from dashboard.cli.output import EXIT_DONE, UsageFaultError, fail, note, print_json, print_line
from dashboard.cli.progress import STATUS
from dashboard.services import spark as services_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES: Final = ("local", "spark")
_PRINTED: Final = "printed"

Command = Callable[..., int]
"""Called with a snapshot directory and ``as_json``; prints and returns an exit code."""


@dataclass(frozen=True)
class PrintedOutput:
    """Output of a command.

    Attributes:
        text: To standard output.
        notes: To standard error.
        code: Its exit code.
    """

    text: str
    notes: str
    code: int


@dataclass(frozen=True)
class CommandEngine:
    """The place where commands run.

    Attributes:
        name: ``local`` or ``spark``.
        config: File with Spark's master and options.
    """

    name: str = "local"
    config: Path | None = None

    def session(self) -> SparkSession:
        """Return the session; making it takes seconds."""
        note("Starting Spark ...")
        return services_spark.session(read_config(self.config))


def each(
    snapshots: Sequence[Path],
    command: Command,
    engine: CommandEngine,
    *,
    as_json: bool,
    large: Callable[..., Command | None] | None = None,
) -> int:
    """Run a command on each snapshot.

    Args:
        snapshots: Snapshot directories.
        command: What is run; it can be pickled.
        engine: Where.
        as_json: Print one object: the command's own for one snapshot, else all of them by cluster.
        large: Returns what to run instead on Spark where one snapshot is too large for one task;
            ``None``: it is not. Called with the session, the directory and where progress goes.
    """
    if engine.name not in ENGINES:
        error = UnknownNameError.of("engine", engine.name, ENGINES)
        raise UsageFaultError(error.message, hint=error.hint)
    if engine.name == "local" and len(snapshots) == 1:
        return command(snapshots[0], as_json=as_json)
    directories = _named(snapshots)
    if engine.name == "local":
        is_terminal = sys.stdout.isatty()
        printed = {
            name: answer_with(command, path, as_json, is_terminal=is_terminal)
            for name, path in directories.items()
        }
        return _repeat(printed, as_json=as_json)
    spark = engine.session()
    if large is not None and len(snapshots) == 1:
        instead = large(spark, snapshots[0], STATUS)
        if instead is not None:
            return instead(snapshots[0], as_json=as_json)
    return _repeat(_on_spark(spark, directories, command, as_json), as_json=as_json)


class _PrintBuffer(io.StringIO):
    """Buffer of output, in lines of the width of the terminal it will be printed on.

    On Spark that is 80 columns: its tasks do not know the terminal.
    """

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def answer_with(
    command: Command, directory: Path, as_json: bool, *, is_terminal: bool = False
) -> PrintedOutput:
    """Run a command and return its output, refusals included.

    Args:
        command: What is run.
        directory: The snapshot.
        as_json: It prints one JSON object.
        is_terminal: It is printed on a terminal, which tables and sentences have to fit.
    """
    text, notes = _PrintBuffer(is_terminal=is_terminal), _PrintBuffer(is_terminal=is_terminal)
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(notes):
        try:
            code = command(directory, as_json=as_json)
        except OpsError as error:
            code = fail(error, as_json=as_json)
    return PrintedOutput(text.getvalue(), notes.getvalue(), code)


def _on_spark(
    spark: SparkSession,
    directories: Mapping[str, Path],
    command: Command,
    as_json: bool,
) -> dict[str, PrintedOutput]:
    paths = {name: path.absolute() for name, path in directories.items()}
    is_terminal = sys.stdout.isatty()

    def answer(name: str) -> Mapping[str, pa.Table]:
        printed = answer_with(command, paths[name], as_json, is_terminal=is_terminal)
        row = {"text": printed.text, "notes": printed.notes, "code": printed.code}
        return {_PRINTED: pa.Table.from_pylist([row])}

    found = each_on_spark(spark, paths, answer, STATUS)
    rows = {name: tables[_PRINTED].to_pylist()[0] for name, tables in found}
    return {name: PrintedOutput(**rows[name]) for name in directories}


def _named(snapshots: Sequence[Path]) -> dict[str, Path]:
    """Name each snapshot by its cluster; by its directory where two are of one cluster."""
    clusters = [load_manifest(path)[1].cluster for path in snapshots]
    return {
        cluster if clusters.count(cluster) == 1 else str(path): path
        for cluster, path in zip(clusters, snapshots, strict=True)
    }


def _repeat(printed: Mapping[str, PrintedOutput], *, as_json: bool) -> int:
    """Print the output of a command that ran elsewhere; the worst exit code is the result."""
    for one in printed.values():
        sys.stderr.write(one.notes)
    if len(printed) == 1:
        sys.stdout.write(next(iter(printed.values())).text)
    elif as_json:
        bodies: dict[str, Any] = {name: json.loads(one.text) for name, one in printed.items()}
        print_json({"clusters": bodies})
    else:
        for number, (name, one) in enumerate(printed.items()):
            if number:
                print_line()
            print_line(f"== {name}")
            sys.stdout.write(one.text)
    sys.stdout.flush()
    return max((one.code for one in printed.values()), default=EXIT_DONE)
