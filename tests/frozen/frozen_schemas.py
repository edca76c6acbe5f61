"""Schemas of what Trimtab writes as Arrow: the tables of jobs and the files of ``--out``.

Each with nullability and metadata, its number of rows and its first rows.
"""

from __future__ import annotations

import json
import shlex
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from fleet_builder import NOON
from frozen_cases import commands
from frozen_world import command, inside, masked, still

from connectors.config.model import TrimtabConfig
from connectors.jobs.catalogue import checked, kinds
from connectors.jobs.model import JobAnswer, JobContext
from core.history.store.store import HistoryLocation, HistoryStore
from core.progress import NoProgress

_ROWS: Final = 2
_LATER: Final = (NOON + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
_BOTH: Final = {"clusters": ["prod", "store"], "workers": 1}

REQUESTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "backtest": {"grid": {"clusters": ["prod"], "shedding": ["recorded", "ThresholdShedder"]}},
    "trends": {"period": "hour"},
    "flaps": {},
    "pipeline": {},
    "health": {"workers": 1},
    "diagnose": _BOTH,
    "drill": _BOTH,
    "shed": {"rounds": 2, "workers": 1},
    "place": {"workers": 1},
    "simulate": {"rounds": 3, "workers": 1},
    "what_if": {"workers": 1},
    "topics": {"clusters": ["prod"]},
    "balance": {"rounds": 2, "workers": 1},
}
"""What each kind of job is asked."""

_UNREAD: Final = {"clusters": ["prod", "quiet"], "at": _LATER, "workers": 1}
"""A minute that one of the clusters has not: it becomes a row of ``problems``."""

OUT_LINES: Final[Mapping[str, str]] = {
    "topics": "topics topics.csv --snapshot small --out out",
    "diagnose": "diagnose small --out out",
    "diagnose-pegasus": "diagnose peg --out out",
    "pegasus balance": "pegasus balance peg --out out",
    "drill": "drill small --out out",
    "drill-pegasus": "drill peg --out out",
    "history trends": "history trends prod --out out",
    "history flaps": "history flaps prod --out out",
    "history load": "history load prod --out out",
    "history fleet": "history fleet prod --out out",
    "history snapshot": "history snapshot prod --at 2026-11-21T11:50:00Z --out out",
    "history export": "history export prod --out out",
    "backtest": "backtest --grid grid.json --out out",
    "capture": "capture prod --out out",
    "capture-pegasus": "capture store --out out",
    "import": "import b-0_8080.json b-1_8080.json b-2_8080.json --out out",
    "import-zk": "import-zk dump.jsonl --out out",
}
"""The command line behind each frozen ``--out``."""

NO_OUT: Final[Mapping[str, str]] = {
    "leader record": "listens to ZooKeeper, until Ctrl-C",
    "history growth": "the fixed moment has no whole day; `test_growth` has its table",
    "pipeline export": "the minutes of the fixed moment are in an hour that has not ended",
}
"""Commands whose ``--out`` is not frozen, with the reason."""


def commands_with_out() -> set[str]:
    """Return the commands that have ``--out``."""
    return {
        name
        for name, one in commands().items()
        if any("--out" in param.opts for param in one.params)
    }


def job_texts(world: Path, folder: Path) -> dict[str, str]:
    """Return sentence, figures and tables of each kind of job, by file."""
    shutil.copytree(world, folder)
    found = {}
    with still(), inside(folder):
        config = TrimtabConfig.load(None, ())
        for name, request in REQUESTS.items():
            found[f"jobs/{name}.txt"] = _job(config, folder, name, request)
        found["jobs/health-problems.txt"] = _job(config, folder, "health", _UNREAD)
    return {name: masked(text, folder) for name, text in found.items()}


def _job(config: TrimtabConfig, folder: Path, name: str, values: Mapping[str, Any]) -> str:
    out = folder / "results"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    location = HistoryLocation(str(config.state_dir / "history"))
    context = JobContext(
        config=config,
        out=out,
        progress=NoProgress(),
        spark=_no_spark,
        history=lambda: HistoryStore(location),
    )
    kind = kinds()[name]
    more = {"file": str(folder / "topics.csv")} if name == "topics" else {}
    answer: JobAnswer = kind.run(context, checked(kind, {**values, **more}))
    schema = {name: one for name, one in kind.schema().items() if name != "description"}
    request = json.dumps(schema, sort_keys=True)
    lines = [
        f"{kind.title}: {kind.answers}",
        f"system: {kind.system}, role: {kind.role}",
        f"request: {request}",
        f"answer: {answer.sentence}",
        f"facts: {json.dumps(dict(answer.facts))}",
        *(f"table {table}: {about}" for table, about in answer.tables.items()),
    ]
    return "\n".join(lines) + "\n" + "".join(_tables(out))


def _no_spark() -> Any:
    raise AssertionError("A frozen job runs in this process.")


def out_texts(world: Path, folder: Path) -> dict[str, str]:
    """Return what each command with ``--out`` writes, by file."""
    found = {}
    for number, (name, line) in enumerate(OUT_LINES.items()):
        copy = folder / str(number)
        shutil.copytree(world, copy)
        with still(), inside(copy):
            result = command(shlex.split(line))
        assert result.code in (0, 3), (line, result)
        out, is_archive = copy / "out", (copy / "out").is_file()
        tables = _tables(_unpacked(out, copy) if is_archive else out, is_in_any_order=is_archive)
        text = f"$ trimtab {line}\n" + "".join(tables)
        found[f"out/{name.replace(' ', '-')}.txt"] = masked(text, copy)
    return found


def _unpacked(out: Path, folder: Path) -> Path:
    """Return an exported history as files; its rows have the order of files with random names."""
    with zipfile.ZipFile(out) as packed:
        packed.extractall(folder / "unpacked")
    return folder / "unpacked"


def _tables(folder: Path, *, is_in_any_order: bool = False) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
            name = path.relative_to(folder).with_suffix("").as_posix()
            yield f"\n== {name}: {table.num_rows} rows\n{schema_text(table.schema)}"
            rows = rows_text(table)
            if is_in_any_order:
                rows.sort()
            yield "".join(f"{row}\n" for row in rows[:_ROWS])


def schema_text(schema: pa.Schema) -> str:
    """Return a schema: a line a field, with nullability and metadata."""
    fields = [
        f"{one.name}: {one.type}{'' if one.nullable else ' not null'}{_metadata(one.metadata)}"
        for one in schema
    ]
    return "\n".join([*fields, f"metadata:{_metadata(schema.metadata)}"]) + "\n"


def _metadata(given: Mapping[bytes, bytes] | None) -> str:
    texts = {key.decode(): value.decode() for key, value in (given or {}).items()}
    texts.pop("PARQUET:field_id", None)
    return f" {json.dumps(texts, sort_keys=True)}" if texts else ""


def rows_text(table: pa.Table) -> list[str]:
    """Return rows as JSON, one a line."""
    return [json.dumps(row, default=str, ensure_ascii=False) for row in table.to_pylist()]


def schema_texts(world: Path, folder: Path) -> dict[str, str]:
    """Return every frozen schema, by file."""
    return job_texts(world, folder / "jobs") | out_texts(world, folder / "out")
