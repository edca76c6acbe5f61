"""One search over nodes and tables of a Pegasus snapshot."""

from __future__ import annotations

from typing import Final

from core.pegasus.snapshot import PegasusFacts
from core.units import is_whole, pluralize
from dashboard.presenters.search import Hit

PER_KIND: Final = 5


def search_pegasus(facts: PegasusFacts, query: str) -> list[Hit]:
    """Return the matches of the query, at most a few of each kind, exact names first.

    Args:
        facts: Where to look.
        query: Part of a name, any case; a table's id; or ``table.partition`` by its numbers.
    """
    needle = query.strip().lower()
    if not needle:
        return []
    nodes = dict(zip(facts.columns.nodes, facts.columns.node_statuses, strict=True))
    hits = [
        Hit(kind="node", name=name, detail=nodes[name], page="pegasus", params={"node": name})
        for name in _matching(list(nodes), needle)
    ]
    app_id, _, index = needle.partition(".")
    for table in sorted(facts.tables.values(), key=lambda one: one.name):
        is_named = is_whole(app_id) and table.app_id == int(app_id)
        if is_named and is_whole(index) and int(index) < table.partition_count:
            hits.append(
                Hit(
                    kind="partition",
                    name=f"{table.app_id}.{int(index)}",
                    detail=f"of {table.name}",
                    page="pegasus_tables",
                    params={"table": table.name, "partition": str(int(index))},
                )
            )
    by_name = {table.name: table for table in facts.tables.values()}
    named = [one.name for one in by_name.values() if str(one.app_id) == needle]
    for name in dict.fromkeys([*named, *_matching(list(by_name), needle)]):
        table = by_name[name]
        detail = f"id {table.app_id}, {pluralize(table.partition_count, 'partition')}"
        hits.append(
            Hit(
                kind="table",
                name=name,
                detail=detail,
                page="pegasus_tables",
                params={"table": name},
            )
        )
    return hits


def _matching(names: list[str], needle: str) -> list[str]:
    """Names that hold ``needle``: equal first, then beginning with it, then the others."""
    found = [name for name in names if needle in name.lower()]
    found.sort(key=lambda name: (name.lower() != needle, not name.lower().startswith(needle), name))
    return found[:PER_KIND]
