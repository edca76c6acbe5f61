"""Names that Tab completes: clusters, brokers, nodes, bundles and runs, and snapshot directories.

Tab must answer at once and with no cluster: the names come from the configuration's text, from the
newest snapshot on disk and from the journal's file. Whatever cannot be read has no names.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_CONFIG_ENV: Final = "TRIMTAB_CONFIG"
_CONFIG: Final = "trimtab.toml"
_MANIFEST: Final = "manifest.json"
_RUNS: Final = 50
_LATEST_RUNS: Final = (
    "SELECT run_id FROM trimtab_entries GROUP BY run_id ORDER BY MAX(seq) DESC LIMIT ?"
)
_SQLITE: Final = "sqlite:///"
_COLUMNS: Final = {"bundles": "bundle", "brokers": "broker", "nodes": "node"}
"""By table of a snapshot, the column with its names."""

Names = Callable[[Any], Iterator[str]]
"""Yields names; called with the context of the command that is typed."""


def clusters(context: Any) -> Iterator[str]:
    """Yield the clusters of the configuration."""
    yield from (one["name"] for one in _config(context).get("clusters", ()) if "name" in one)


def selections(context: Any) -> Iterator[str]:
    """Yield the groups and tags of the configuration, as commands on several clusters take them."""
    clusters_of = _config(context).get("clusters", ())
    yield from dict.fromkeys(
        f"group:{cluster['group']}" for cluster in clusters_of if cluster.get("group")
    )
    yield from dict.fromkeys(
        f"tag:{tag}" for cluster in clusters_of for tag in cluster.get("tags", ())
    )


def sources(context: Any) -> Iterator[str]:
    """Yield the clusters of the configuration, and the snapshot directories here."""
    yield from clusters(context)
    yield from selections(context)
    yield from snapshots(context)


def snapshots(context: Any) -> Iterator[str]:  # noqa: ARG001 - all have one signature
    """Yield the snapshot directories of the working directory."""
    yield from sorted(str(path.parent) for path in Path().glob(f"*/{_MANIFEST}"))


def bundles(context: Any) -> Iterator[str]:
    """Yield the bundles of the snapshot or cluster that was typed."""
    yield from _column(context, "bundles")


def brokers(context: Any) -> Iterator[str]:
    """Yield the brokers of the snapshot or cluster that was typed."""
    yield from _column(context, "brokers")


def nodes(context: Any) -> Iterator[str]:
    """Yield the replica servers of the snapshot or cluster that was typed."""
    yield from _column(context, "nodes")


def runs(context: Any) -> Iterator[str]:
    """Yield the latest runs of the journal, where it is a SQLite file."""
    url = os.environ.get("TRIMTAB_JOURNAL_URL") or _config(context).get("journal_url")
    path = _state_dir(context) / "journal.db"
    if url:
        if not url.startswith(_SQLITE):
            return
        path = _config_path(context).parent / url.removeprefix(_SQLITE)
    if not path.is_file():
        return
    import sqlite3  # noqa: PLC0415  # commands start fast

    journal = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        yield from (run_id for (run_id,) in journal.execute(_LATEST_RUNS, (_RUNS,)))
    except sqlite3.Error:  # not a journal, or none yet: no names
        return
    finally:
        journal.close()


def jobs(context: Any) -> Iterator[str]:
    """Yield the jobs of the state directory, the latest first."""
    folder = _state_dir(context) / "jobs"
    if folder.is_dir():
        yield from sorted((path.name for path in folder.iterdir() if path.is_dir()), reverse=True)


_BY_WORD: Final[Mapping[str, Names]] = {
    "cluster": clusters,
    "snapshot": snapshots,
    "bundle": bundles,
    "topics-of": bundles,
    "broker": brokers,
    "fail-broker": brokers,
    "remove-broker": brokers,
    "run": runs,
    "job": jobs,
    "node": nodes,
}


def names_of(parameter: Any) -> Names | None:
    """Return the function that lists the values of a parameter; ``None`` if it has no names.

    Args:
        parameter: Typer's; its option or its metavar says what it takes.
    """
    words = str(parameter.metavar or "").strip("[]{}.").lower()
    if "cluster" in words and "snapshot" in words:
        return sources
    if "|" in words and " " not in words:
        return lambda _: iter(words.split("|"))
    option = parameter.opts[0].removeprefix("--")
    return _BY_WORD.get(option) or _BY_WORD.get(words)


def completed(names: Names, context: Any, incomplete: str) -> list[str]:
    """Return the names that begin so; none where something cannot be read."""
    try:
        return [name for name in dict.fromkeys(names(context)) if name.startswith(incomplete)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _column(context: Any, table: str) -> Iterator[str]:
    """Yield a column of the newest snapshot of the typed cluster; of every cluster without one."""
    import pyarrow.parquet as pq  # noqa: PLC0415  # other names need no tables

    column = _COLUMNS[table]
    for directory in _directories(context):
        file = directory / f"{table}.parquet"
        if file.is_file():
            yield from sorted(
                set(pq.read_table(file, columns=[column])[column].to_pylist()) - {None}
            )


def _directories(context: Any) -> Iterator[Path]:
    """Yield the snapshot directories that the words typed so far mean."""
    typed = [
        str(value)
        for given in context.params.values()
        for value in (given if isinstance(given, list | tuple) else (given,))
    ]
    here = [Path(word) for word in typed if (Path(word) / _MANIFEST).is_file()]
    if here:
        yield from here
        return
    stored = _state_dir(context) / "snapshots"
    known = list(clusters(context))
    for name in [one for one in known if one in typed] or known:
        saved = sorted((stored / name).iterdir(), reverse=True) if (stored / name).is_dir() else []
        yield from (path for path in saved[:1] if (path / _MANIFEST).is_file())


def _config(context: Any) -> dict[str, Any]:
    """Return the configuration as it is written; empty: there is none."""
    path = _config_path(context)
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _config_path(context: Any) -> Path:
    given = context.params.get("config") or context.params.get("config_file")
    return Path(given or os.environ.get(_CONFIG_ENV) or _CONFIG)


def _state_dir(context: Any) -> Path:
    named = os.environ.get("TRIMTAB_STATE_DIR") or _config(context).get("state_dir")
    if not named:
        import platformdirs  # noqa: PLC0415  # commands start fast

        return Path(platformdirs.user_state_dir("trimtab", appauthor=False))
    return _config_path(context).parent / Path(named).expanduser()
