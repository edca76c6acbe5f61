"""Is a history whole? What is damaged or missing by name, and how it is set aside.

Storage says when a file cannot be opened. It does not say when a log lost its last entry or a table
is gone: then there is simply less. Here the files on disk are compared with the logs that name
them, and with the checksums that were written with them. Only histories in a directory of this
machine are looked at; object stores have checksums of their own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from core.files import make_private, write_whole
from core.history.store.layout import (
    MINUTES,
    HistoryError,
    day_of,
)
from core.history.store.tables import SUMS, Tables, local_folder, sum_file, translated
from core.snapshot.record import (
    CLUSTER,
    DAY,
    SEGMENT,
    TAKEN_AT,
    Kind,
)
from core.units import ms_to_datetime, pluralize

QUARANTINE: Final = "quarantine"
RECORD: Final = "repairs.jsonl"
_LOG: Final = "_delta_log"
_CHUNK: Final = 1 << 20

What = Literal["missing", "size", "changed", "unreadable", "unnamed", "log", "table"]


@dataclass(frozen=True, slots=True)
class IntegrityProblem:
    """Something of a history that is not as it was written.

    Attributes:
        kind: Of its rows.
        what: ``missing``, ``size``, ``changed`` or ``unreadable``: a file that the log names;
            ``unnamed``: a file that no log names, with rows that nothing else has; ``log``: the log
            itself; ``table``: all of it is gone.
        file: Path below the history.
        rows: Rows in it; ``None`` if unknown.
        first: Time of the first (ms); ``None`` if unknown.
        last: Time of the last (ms).
        detail: Of the damage.
    """

    kind: str
    what: What
    file: str
    rows: int | None = None
    first: int | None = None
    last: int | None = None
    detail: str = ""

    def __str__(self) -> str:
        size = f" ({pluralize(self.rows, 'row')}{self._times()})" if self.rows else ""
        return f"{self.file}{size} {_SENTENCES[self.what]}{self.detail}."

    def _times(self) -> str:
        if self.first is None or self.last is None:
            return ""
        first, last = (ms_to_datetime(one) for one in (self.first, self.last))
        return f", {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"


_SENTENCES: Final[dict[What, str]] = {
    "missing": "is missing",
    "size": "was truncated or extended",
    "changed": "was changed after it was written",
    "unreadable": "cannot be read",
    "unnamed": "is not in the log of its table: a log entry is missing",
    "log": "is damaged",
    "table": "is missing, and rows were recorded in it",
}


def problems(
    tables: Tables,
    cluster: str | None,
    kinds: Iterable[str] | None = None,
    days: tuple[str | None, str | None] = (None, None),
    *,
    is_deep: bool = True,
) -> list[IntegrityProblem]:
    """Return the damage of a history; empty if it cannot be checked from here.

    Args:
        tables: The history.
        cluster: Whose files; ``None`` for all. A log belongs to all clusters.
        kinds: Which tables; ``None`` for all.
        days: The first and the last one, ``2026-11-21``; ``None`` if unbounded.
        is_deep: Compare checksums, which reads the files; else only names and sizes.
    """
    root = local_folder(tables.uri)
    if root is None or not root.is_dir():
        return []
    found: list[IntegrityProblem] = []
    for name in tables.kinds.names if kinds is None else kinds:
        found += _of_kind(
            tables, root, tables.kinds.of(name), _Scope(cluster, *days), is_deep=is_deep
        )
    return found


@dataclass(frozen=True, slots=True)
class _Scope:
    cluster: str | None
    first_day: str | None
    last_day: str | None

    def has(self, cluster: str, day: str) -> bool:
        return (
            self.cluster in (None, cluster)
            and (self.first_day is None or day >= self.first_day)
            and (self.last_day is None or day <= self.last_day)
        )


_ALL: Final = _Scope(None, None, None)


def _of_kind(
    tables: Tables, root: Path, kind: Kind, scope: _Scope, *, is_deep: bool
) -> list[IntegrityProblem]:
    folder = root / kind.name
    if _unfinished(root, kind).is_file():
        return [
            IntegrityProblem(
                kind.name, "log", kind.name, detail=": an earlier repair did not finish"
            )
        ]
    if not (folder / _LOG).is_dir():
        was_there = (root / SUMS / kind.name).is_dir() or any(_files(folder, _ALL))
        return [IntegrityProblem(kind.name, "table", kind.name)] if was_there else []
    try:
        named = _named(tables, kind)
    except HistoryError as exc:
        return [
            IntegrityProblem(
                kind.name, "log", f"{kind.name}/{_LOG}", detail=f": {exc.message[-120:]}"
            )
        ]
    found = [
        problem
        for row in named.to_pylist()
        if scope.has(row[CLUSTER], row[DAY])
        and (problem := _file_problem(root, kind.name, row, is_deep=is_deep)) is not None
    ]
    known = {row["path"] for row in named.to_pylist()} | _removed(folder)
    strays = [one for one in _files(folder, scope) if str(one.relative_to(folder)) not in known]
    return found + [one for file in strays if (one := _stray(tables, root, kind, file)) is not None]


def _named(tables: Tables, kind: Kind) -> pa.Table:
    """The files of a table's log: ``path``, ``cluster``, ``day``, ``bytes``, ``rows``, times."""
    table = tables.table(kind.name)
    if table is None:
        return pa.table({"path": pa.array([], pa.string())})
    with translated(tables.address(kind.name)):
        actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    names = {
        "path": "path",
        CLUSTER: f"partition.{CLUSTER}",
        DAY: f"partition.{DAY}",
        "bytes": "size_bytes",
        "rows": "num_records",
        "first": f"min.{TAKEN_AT}",
        "last": f"max.{TAKEN_AT}",
    }
    if not actions.num_rows:
        return pa.table({"path": pa.array([], pa.string())})
    columns = {ours: actions[theirs] for ours, theirs in names.items()}
    columns["path"] = pa.array([unquote(one) for one in actions["path"].to_pylist()], pa.string())
    return pa.table(columns)


def _file_problem(
    root: Path, kind: str, row: dict[str, Any], *, is_deep: bool
) -> IntegrityProblem | None:
    file = root / kind / row["path"]
    facts = (f"{kind}/{row['path']}", row["rows"], row["first"], row["last"])
    try:
        size = file.stat().st_size
    except OSError:
        return IntegrityProblem(kind, "missing", *facts)
    if size != row["bytes"]:
        detail = f" ({size:,} bytes instead of {row['bytes']:,})"
        return IntegrityProblem(kind, "size", *facts, detail=detail)
    if not is_deep:
        return None
    expected = sum_file(root, kind, file.name)
    try:
        if expected.is_file() and expected.read_text().strip() != checksum(file):
            return IntegrityProblem(kind, "changed", *facts)
        pq.read_metadata(file)
    except (OSError, ValueError) as exc:
        return IntegrityProblem(kind, "unreadable", *facts, detail=f": {str(exc)[:80]}")
    return None


def checksum(file: Path) -> str:
    """Return the SHA-256 of a file's content, in hex."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def _files(folder: Path, scope: _Scope) -> Iterator[Path]:
    """Parquet files on disk, by the cluster and day in their path."""
    for file in sorted(folder.glob(f"{CLUSTER}=*/{DAY}=*/*.parquet")):
        cluster = unquote(file.parent.parent.name.partition("=")[2])
        if scope.has(cluster, file.parent.name.partition("=")[2]):
            yield file


def _removed(folder: Path) -> set[str]:
    """Paths that the log took out of its table: they stay on disk for a day."""
    gone: set[str] = set()
    for entry in (folder / _LOG).glob("*.json"):
        try:
            lines = entry.read_text(errors="replace").splitlines()
        except OSError:
            continue  # whoever reads the log names it
        for line in lines:
            if '"remove"' in line:
                try:
                    gone.add(unquote(json.loads(line)["remove"]["path"]))
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue
    return gone


def _stray(tables: Tables, root: Path, kind: Kind, file: Path) -> IntegrityProblem | None:
    """Return a file that no log names where it has rows that the history should have.

    What a killed writer or a lost race left is no damage: its rows belong to no minute, or are
    there already.
    """
    name = str(file.relative_to(root))
    try:
        # by itself: with its folders Arrow would add their partitions as columns
        rows = pq.ParquetFile(file).read([TAKEN_AT, SEGMENT])
    except (OSError, ValueError, KeyError):
        return None  # half of a file, of a writer that was killed
    cluster = unquote(file.parent.parent.name.partition("=")[2])
    lost = _lost_minutes(tables, kind, cluster, rows)
    if not lost:
        return None
    return IntegrityProblem(kind.name, "unnamed", name, rows.num_rows, min(lost), max(lost))


def _lost_minutes(tables: Tables, kind: Kind, cluster: str, rows: pa.Table) -> set[int]:
    times = set(rows[TAKEN_AT].to_pylist())
    first_day = _first_day(tables, cluster)
    if first_day is not None and day_of(max(times)) < first_day:
        return set()  # of a day that retention dropped
    of_cluster = f"{CLUSTER} = '{cluster.replace(chr(39), chr(39) * 2)}'"
    span = f"{of_cluster} AND {TAKEN_AT} >= {min(times)} AND {TAKEN_AT} <= {max(times)}"
    try:
        here = _pairs(tables.scan(kind, [TAKEN_AT, SEGMENT], span))
        committed = (
            here if kind is MINUTES else _pairs(tables.scan(MINUTES, [TAKEN_AT, SEGMENT], span))
        )
    except HistoryError:
        return set()  # that file is named by itself
    mine = _pairs(rows)
    if kind is MINUTES:
        return {at for at, _ in mine - here if at not in {one for one, _ in here}}
    return {at for at, segment in mine - here if segment is None or (at, segment) in committed}


def _first_day(tables: Tables, cluster: str) -> str | None:
    table = tables.table(MINUTES.name)
    partitions = [] if table is None else table.partitions()
    days = [str(one[DAY]) for one in partitions if one[CLUSTER] == cluster]
    return min(days, default=None)


def _pairs(rows: pa.Table) -> set[tuple[int, int | None]]:
    return set(zip(rows[TAKEN_AT].to_pylist(), rows[SEGMENT].to_pylist(), strict=True))


# -- repair ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Repair:
    """Repair action of a problem.

    Attributes:
        problem: It.
        action: ``isolate``: the file is set aside, its rows are lost; ``restore``: its rows are
            put back into the table; ``rebuild``: the log is made again from the files.
        lost: Rows that are lost; ``None`` if unknown.
    """

    problem: IntegrityProblem
    action: Literal["isolate", "restore", "rebuild"]
    lost: int | None

    def __str__(self) -> str:
        rows = "an unknown number of rows" if self.lost is None else pluralize(self.lost, "row")
        then = {
            "isolate": f"is moved aside; {rows} of {self.problem.kind} are lost",
            "restore": "is added back to its table; no data is lost",
            "rebuild": "is rebuilt from the remaining files",
        }
        return f"{self.problem} It {then[self.action]}."


def planned(found: Sequence[IntegrityProblem]) -> list[Repair]:
    """Return the repair action of each problem."""
    return [_repair_of(problem) for problem in found]


def _repair_of(problem: IntegrityProblem) -> Repair:
    if problem.what == "unnamed":
        return Repair(problem, "restore", 0)
    if problem.what in ("log", "table"):
        return Repair(problem, "rebuild", None)
    return Repair(problem, "isolate", problem.rows)


def repair(tables: Tables, found: Sequence[IntegrityProblem], now: datetime) -> list[Repair]:
    """Set damaged files aside, and put back what can be: see :class:`Repair`.

    What is set aside goes to ``quarantine/<kind>/`` in the history, with a line in
    ``quarantine/repairs.jsonl``; nothing is deleted.

    Raises:
        HistoryError: Something cannot be moved or written; what was done before stays done.
    """
    root = local_folder(tables.uri)
    if root is None:
        raise HistoryError(
            f"{tables.uri} is not a local directory.",
            hint="Restore the damaged files with the tools of the object store.",
        )
    done = planned(found)
    try:
        for one in sorted(done, key=lambda item: item.action != "rebuild"):
            _execute(tables, root, one, now)
    except OSError as exc:
        raise HistoryError(
            f"{exc.filename or root} cannot be moved: {exc.strerror}.",
            hint="Check the owner, mode and free space of the history.",
        ) from exc
    return done


def _execute(tables: Tables, root: Path, one: Repair, now: datetime) -> None:
    problem, kind = one.problem, tables.kinds.of(one.problem.kind)
    if one.action == "rebuild":
        _rebuild(tables, root, kind, now)
    elif one.action == "restore":
        file = root / problem.file
        _append(tables, kind, file)
        _set_aside(root, problem.file, now)
    else:
        _set_aside(root, problem.file, now)
        with translated(tables.address(kind.name)):
            tables.fresh(kind).repair()  # takes files out of the table that are not there
    _note(root, one, now)


def _append(tables: Tables, kind: Kind, file: Path) -> None:
    rows = _placed(pq.ParquetFile(file).read(), file.parent)
    tables.append(kind, rows)


def _rebuild(tables: Tables, root: Path, kind: Kind, now: datetime) -> None:
    """Make a table again from its files; rows that compaction wrote twice are taken once.

    The folders that it reads are noted until it is done, so that one that was interrupted is named
    as damage, and done again from the same files.
    """
    marker = _unfinished(root, kind)
    sources = marker.read_text(encoding="utf-8").splitlines() if marker.is_file() else []
    if (root / kind.name).exists():
        sources.append(str(_quarantined(root, kind.name, now).relative_to(root)))
        make_private(marker.parent)
        write_whole(marker, "\n".join(sources).encode())
        _set_aside(root, kind.name, now)
    tables.forget(kind.name)
    if not sources:
        shutil.rmtree(root / SUMS / kind.name, ignore_errors=True)
        return
    partitions: dict[Path, list[Path]] = {}
    for source in sources:
        for file in _files(root / source, _ALL):
            partitions.setdefault(file.parent.relative_to(root / source), []).append(file)
    for place, files in sorted(partitions.items()):
        whole = _whole(place, files)
        if whole is not None:
            whole = whole.select(kind.stored.names)
            tables.append(kind, whole.group_by(whole.schema.names).aggregate([]))
    marker.unlink()


def _unfinished(root: Path, kind: Kind) -> Path:
    """Return the file that names what the rebuilding of a table reads, while it is under way."""
    return root / QUARANTINE / f"unfinished-{kind.name}"


def _whole(place: Path, files: Sequence[Path]) -> pa.Table | None:
    """Return the rows of the readable files of one cluster and day; the others stay aside."""
    parts = []
    for file in files:
        with suppress(OSError, ValueError):
            parts.append(pq.ParquetFile(file).read())
    return _placed(pa.concat_tables(parts, promote_options="default"), place) if parts else None


def _placed(rows: pa.Table, place: Path) -> pa.Table:
    """Return rows with the cluster and the day that are in their path."""
    for name, folder in ((CLUSTER, place.parent.name), (DAY, place.name)):
        if name not in rows.schema.names:
            text = pa.scalar(unquote(folder.partition("=")[2]))
            rows = rows.append_column(name, pa.repeat(text, rows.num_rows))
    return rows


def _quarantined(root: Path, name: str, now: datetime) -> Path:
    return root / QUARANTINE / now.strftime("%Y%m%dT%H%M%SZ") / name


def _set_aside(root: Path, name: str, now: datetime) -> Path:
    """Move a file or a folder of the history into quarantine; return where it is now."""
    target = _quarantined(root, name, now)
    target.parent.mkdir(parents=True, exist_ok=True)
    source = root / name
    if source.exists():
        os.replace(source, target)  # noqa: PTH105  # of a folder as well
    return target


def _note(root: Path, one: Repair, now: datetime) -> None:
    line = {"at": now.isoformat(timespec="seconds"), "action": one.action, "lost": one.lost}
    line |= asdict(one.problem)
    record = root / QUARANTINE / RECORD
    record.parent.mkdir(parents=True, exist_ok=True)
    with record.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def isolated(tables: Tables) -> list[dict[str, Any]]:
    """Return the data set aside by earlier repairs, oldest first."""
    root = local_folder(tables.uri)
    record = None if root is None else root / QUARANTINE / RECORD
    if record is None or not record.is_file():
        return []
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines() if line]
