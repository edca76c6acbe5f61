"""One search over brokers, bundles, namespaces, topics, policies and settings of Pulsar."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from core.errors import OpsError
from core.pulsar.lookup import TopicLookup, lookup_topic
from core.pulsar.settings import SETTINGS
from core.snapshot import PulsarSnapshot
from core.units import format_bytes_per_s
from dashboard.presenters.search import Hit

PER_KIND: Final = 5
BUNDLES: Final = 4
"""Bundles that are listed by name; the last hit lists all of them."""
_RATES: Final = ("msg_throughput_in", "msg_throughput_out")


def search(snapshot: PulsarSnapshot, query: str) -> list[Hit]:
    """Return the matches of the query, at most a few of each kind, exact names first.

    Args:
        snapshot: Where to look.
        query: Part of a name, any case; a full topic name is resolved by the ring.
    """
    text = query.strip()
    if len(text) < 2:
        return []
    hits = _topic(snapshot, text)
    needle = text.lower()
    for name in _matching(snapshot.brokers["broker"], needle):
        hits.append(
            Hit(kind="broker", name=name, detail="", page="broker", params={"broker": name})
        )
    for name in _matching(snapshot.namespaces["namespace"], needle):
        params = {"namespace": name}
        hits.append(Hit(kind="namespace", name=name, detail="", page="bundles", params=params))
    hits += _bundles(snapshot, needle)
    policies = snapshot.policies.filter(pc.field("kind") == "isolation")
    for name in _matching(policies["name"], needle):
        hits.append(
            Hit(kind="policy", name=name, detail="", page="isolation", params={"policy": name})
        )
    return [*hits, *_settings(needle)]


def _bundles(snapshot: PulsarSnapshot, needle: str) -> list[Hit]:
    """Return the bundles that match, most traffic first, and the list of all if there are more."""
    bundles = snapshot.bundles
    matches = bundles.filter(pc.match_substring(bundles["bundle"], needle, ignore_case=True))
    rates = [pc.fill_null(matches[name], 0.0) for name in _RATES]
    is_exact = pc.equal(pc.utf8_lower(matches["bundle"]), needle)
    order = pc.sort_indices(
        pa.table({"is_exact": is_exact.cast(pa.int8()), "traffic": pc.add(*rates)}),
        sort_keys=[("is_exact", "descending"), ("traffic", "descending")],
    )
    hits = []
    for row in matches.take(order[:BUNDLES]).to_pylist():
        known = [row[name] for name in _RATES if row[name] is not None]
        traffic = f"{format_bytes_per_s(sum(known))} " if known else ""
        hits.append(
            Hit(
                kind="bundle",
                name=row["bundle"],
                detail=f"{traffic}{_where(row['owner'], row['owner_source'])}",
                page="bundle",
                params={"bundle": row["bundle"]},
            )
        )
    if matches.num_rows > len(hits):
        hits.append(
            Hit(
                kind="bundle",
                name=f"All {matches.num_rows:,} bundles",
                detail=f"with {needle} in the name",
                page="bundles",
                params={"contains": needle},
            )
        )
    return hits


def _settings(needle: str) -> list[Hit]:
    """Return the settings with a matching key, then those with a matching meaning."""
    named = [setting for setting in SETTINGS if needle in setting.key.lower()]
    meant = [
        setting
        for setting in SETTINGS
        if setting not in named and needle in setting.meaning.lower()
    ]
    return [
        Hit(
            kind="setting",
            name=one.key,
            detail=one.meaning,
            page="settings",
            params={"setting": one.key},
        )
        for one in (*named, *meant)[:PER_KIND]
    ]


def _topic(snapshot: PulsarSnapshot, text: str) -> list[Hit]:
    if not looks_like_topic(text):
        return []
    try:
        found = lookup_topic(snapshot, text)
    except OpsError:
        return []
    return [
        Hit(
            kind="topic",
            name=found.topic,
            detail=f"{found.bundle}, {_where(found.owner, found.is_owner_known)}"
            f"{', not served' if _is_refused(found) else ''}",
            page="lookup",
            params={"topic": found.topic},
        )
    ]


def _is_refused(lookup: TopicLookup) -> bool:
    return bool(lookup.owner) and lookup.service is not None and lookup.service.is_served is False


def _where(owner: str | None, source: object) -> str:
    return f"on {owner}" if owner else "unassigned" if source else "owner unknown"


def looks_like_topic(text: str) -> bool:
    """Return whether the text reads as a full topic name, with or without its domain."""
    domain, sign, rest = text.partition("://")
    name = rest if sign and domain in ("persistent", "non-persistent") else "" if sign else text
    parts = name.split("/")
    return len(parts) >= 3 and all(parts) and not parts[-1].startswith("0x")


def _matching(column: pa.ChunkedArray, needle: str) -> list[str]:
    return [column[row].as_py() for row in _matching_rows(column, needle)]


def _matching_rows(column: pa.ChunkedArray, needle: str) -> list[int]:
    """Return the rows that contain ``needle``: equal first, then as a prefix, then the others."""
    mask = pc.match_substring(column, needle, ignore_case=True)
    rows: list[int] = pc.indices_nonzero(mask)[:200].to_pylist()

    def rank(row: int) -> tuple[bool, bool, int]:
        name = column[row].as_py().lower()
        return name != needle, not name.startswith(needle), row

    return sorted(rows, key=rank)[:PER_KIND]
