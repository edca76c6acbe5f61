"""What storage says when a history cannot be used, in sentences of ours: which table, day, file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

import pyarrow.parquet as pq

from core.history.store.layout import HistoryError

_FILE: Final = re.compile(r"cluster=([^/\s]+)/day=(\d{4}-\d\d-\d\d)/([^/\s'\"]+?\.parquet)")
_LOG: Final = ("delta log", "commit files", "json error", "delta kernel")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_TRACE: Final = re.compile(r"\s0: .*", re.DOTALL)
_MAX: Final = 300
_SCHEMES: Final = frozenset(
    {"file", "s3", "s3a", "az", "azure", "abfs", "abfss", "adl", "gs", "hdfs", "memory"}
)


def fault(address: str, exc: Exception) -> HistoryError:
    """Return the error of a table.

    Args:
        address: Of the table; its last part is the kind of its rows.
        exc: What a library says.
    """
    text = short(exc)
    # the file may be named far behind in what the library says
    named = _FILE.search(" ".join(str(exc).split()))
    if named is not None:
        return damaged(address, named[0], is_there="not found" not in str(exc).lower())
    said = text.lower()
    if "credentials" in said:
        return HistoryError(
            f"{address} cannot be opened: no credentials found.",
            hint="Set them in the environment (S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) "
            "or in [history.options].",
        )
    if any(word in said for word in _LOG):
        return HistoryError(
            f"The log of the table {address} is damaged: {text[:120]}",
            hint="Restore its _delta_log from a copy; other tables may be intact.",
        )
    return HistoryError(
        f"The history at {address} cannot be used: {text}",
        hint="Check that the location exists, is writable and has free space.",
    )


def damaged(table: str, file: str, *, is_there: bool = True) -> HistoryError:
    """Return the error of a file of rows.

    Args:
        table: Address of its table.
        file: Its address; the path has cluster and day.
        is_there: Whether it is there.
    """
    named = _FILE.search(file)
    cluster, day, name = named.groups() if named is not None else ("?", "?", file)
    what = "cannot be read" if is_there else "is missing"
    return HistoryError(
        f"A file of {table} {what}: day {day} of cluster {unquote(cluster)}, {name}.",
        hint="Exclude that day with --from or --to, or restore the file from a copy.",
    )


def first_damaged(files: Sequence[str]) -> tuple[str, bool] | None:
    """Look for the first local Parquet file that cannot be opened.

    Returns:
        Its path, and whether it is there; ``None`` if all open.
    """
    for file in files:
        try:
            pq.read_metadata(file)
        except FileNotFoundError:
            return file, False
        except (OSError, ValueError):  # Arrow's own errors are ValueErrors
            return file, True
    return None


def check_scheme(uri: str) -> None:
    """Look whether an address is of a kind that tables can be stored at.

    Raises:
        HistoryError: It is none.
    """
    scheme, found, _ = uri.partition("://")
    if found and scheme.lower() not in _SCHEMES:
        raise HistoryError(
            f"{uri} is not supported: unknown scheme {scheme}://.",
            hint="Use a directory, or s3://, az://, abfss://, gs:// or hdfs://.",
        )


def short(exc: Exception) -> str:
    """Return a library's error message on one line, without colors and stack."""
    plain = _TRACE.sub("", _COLOURS.sub("", str(exc)))
    return " ".join(plain.split())[:_MAX]
