"""An answer as it is sent to another process: JSON, tables, and the text that people read.

The other process needs neither the operation's kernels nor its types of answers, so that a client
of another version reads it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
import pyarrow as pa

from core.operations.operation import Aged, Answer, Aside, Cells, Listing, Prose, plain
from core.request import Request
from core.units import datetime_to_ms, format_ago

MEDIA_TYPE: Final = "application/vnd.trimtab.answer"


class TextLine(msgspec.Struct, frozen=True, tag="text"):
    """A line of text.

    Attributes:
        text: The line.
        is_prose: It wraps on a terminal, whatever it ends with.
        is_aside: It is for standard error.
    """

    text: str
    is_prose: bool = False
    is_aside: bool = False


class TextTable(msgspec.Struct, frozen=True, tag="table"):
    """A table as it is shown.

    Attributes:
        head: Headings.
        rows: Texts by row.
        spare: Headings of the columns to omit first on a narrow terminal.
        rest: What follows the table; empty: nothing.
        wide: Headings of the columns for which a terminal has no room.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    spare: tuple[str, ...] = ()
    rest: str = ""
    wide: tuple[str, ...] = ()


Shown = TextLine | TextTable


class SentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it is sent.

    Attributes:
        body: The JSON object.
        lines: The text for people.
        tables: The tables as Arrow streams.
        warnings: Of the answer, and about the release of the cluster.
        labels: Labels of brokers or nodes by address.
    """

    body: dict[str, Any]
    lines: tuple[Shown, ...]
    tables: dict[str, bytes]
    warnings: tuple[str, ...] = ()
    labels: dict[str, str] = {}  # msgspec copies it


def lines_of(
    answer: Answer, request: Request, taken_at: datetime, now: datetime
) -> Iterator[Shown]:
    """Yield the text of an answer, line by line.

    Args:
        answer: The answer.
        request: The request that it answers.
        taken_at: Time of the snapshot.
        now: The present moment.
    """
    for line in answer.text(request):
        if isinstance(line, Listing):
            yield _listed(line, datetime_to_ms(taken_at))
        elif isinstance(line, Cells):
            rest = f"... and {line.rest} more." if line.rest else ""
            yield TextTable(line.head, tuple(map(tuple, line.rows)), rest=rest, wide=line.wide)
        elif isinstance(line, Aged):
            yield TextLine(line.format(age=_age((now - taken_at).total_seconds())))
        else:
            yield TextLine(str(line), isinstance(line, Prose), isinstance(line, Aside))


def _age(seconds: float) -> str:
    return f"taken {format_ago(seconds)}" if seconds >= 0 else format_ago(seconds)


def _listed(listing: Listing, now_ms: int) -> TextTable:
    columns = listing.columns
    rows = listing.rows.slice(0, listing.most).to_pylist()
    more = listing.rows.num_rows - len(rows)
    return TextTable(
        tuple(one.heading for one in columns.values()),
        tuple(tuple(one.text(row[one.name], now_ms) for one in columns.values()) for row in rows),
        tuple(columns[name].heading for name in listing.spare),
        f"... and {more:,} more; {listing.rest}" if more and listing.rest else "",
    )


class KeptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as a job keeps it.

    Attributes:
        taken_at: Time of the snapshot.
        answer: The answer.
    """

    taken_at: datetime
    answer: SentAnswer


def sent_answer(
    answer: Answer,
    request: Request,
    taken_at: datetime,
    now: datetime,
    warnings: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
) -> SentAnswer:
    """Return an answer as it is sent.

    Args:
        answer: The answer.
        request: The request that it answers.
        taken_at: Time of the snapshot.
        now: The present moment.
        warnings: About the release of the cluster.
        labels: Labels of brokers or nodes by address.
    """
    return SentAnswer(
        body=plain(answer),
        lines=tuple(lines_of(answer, request, taken_at, now)),
        tables={name: arrow_bytes(table) for name, table in answer.tables.items()},
        warnings=(*answer.warnings, *warnings),
        labels=dict(labels or {}),
    )


def packed(sent: SentAnswer | KeptAnswer) -> bytes:
    """Return an answer as bytes."""
    return msgspec.msgpack.encode(sent)


def unpacked(content: bytes) -> SentAnswer:
    """Return an answer of its bytes.

    Raises:
        msgspec.ValidationError: It is none.
    """
    return msgspec.msgpack.decode(content, type=SentAnswer)


def arrow_bytes(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def arrow_table(content: bytes) -> pa.Table:
    """Return the table of an Arrow stream."""
    return pa.ipc.open_stream(content).read_all()
