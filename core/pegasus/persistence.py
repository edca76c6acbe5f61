"""Since when a state lasts, as far as earlier snapshots of the cluster show it.

One snapshot does not show whether a primary changes or none is found; two do.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

import pyarrow.compute as pc

from core.pegasus.partition import PartitionConfig, ReplicaEntry, ReplicaStatus
from core.snapshot.pegasus import PegasusSnapshot

PATIENCE_S: Final = 60.0
"""An ordinary change of primary is over long before: looks are 10 s apart, reports 30 s."""
Gpid = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A replica that a server reports of a partition without a primary.

    Attributes:
        node: Of the server.
        status: Role by the server's own account, a word of upstream's in small letters.
        ballot: Of its configuration.
        committed: Last write that is committed.
        prepared: Last write that it has prepared.
        disk: Tag of its disk.
    """

    node: str
    status: str
    ballot: int
    committed: int
    prepared: int
    disk: str


def copies_text(replicas: Iterable[tuple[str, ReplicaEntry]]) -> str:
    """Return replicas, with their nodes, as JSON, as a snapshot stores them."""
    found = [
        Copy(
            node=node,
            status=ReplicaStatus(one.status).name.lower(),
            ballot=one.ballot,
            committed=one.last_committed_decree,
            prepared=one.last_prepared_decree,
            disk=one.disk,
        )
        for node, one in replicas
    ]
    return json.dumps([asdict(one) for one in found])


def parse_copies(text: str | None) -> tuple[Copy, ...] | None:
    """Return the replicas that a snapshot keeps; ``None`` if they were not read."""
    return None if text is None else tuple(Copy(**one) for one in json.loads(text))


def ddd_remedy(
    config: PartitionConfig, alive: Collection[str], copies: tuple[Copy, ...] | None
) -> str:
    """Return the remedy for a partition that lost every replica.

    Only a node that is down can be waited for. Where every former member lives, what is left are
    copies on any server, open or closed, and replicas whose folders were moved away.

    Args:
        alive: Names of the living nodes.
        copies: Replicas that servers report of it; ``None`` if they were not read.

    Source: Pegasus ``partition_guardian::on_missing_primary`` (the last two decide),
    ``fs_manager`` and ``disk_cleaner`` (``.err``, ``.gar``, ``.ori``).
    """
    last = config.last_drops[-2:]
    down = [name for name in last if name not in alive]
    if down:
        back = [name for name in last if name in alive]
        rest = (
            f" If that is impossible, make {back[-1]} primary of {config.gpid} once ddd_diagnose "
            "confirms its data."
            if back
            else ""
        )
        return f"Start {' and '.join(down)} with the existing data, needed by {config.gpid}.{rest}"
    names = " and ".join(last)
    head = f"Already alive: {names}."
    if copies:
        best = max(copies, key=lambda one: (one.committed, one.ballot))
        gap = config.last_committed_decree - best.committed
        lost = f", {gap:,} writes fewer than the configuration" if gap > 0 else ""
        return (
            f"{head} {best.node} has the newest copy of {config.gpid} (ballot "
            f"{best.ballot}, committed {best.committed:,}{lost}): check it with "
            f"`ddd_diagnose -g {config.gpid}`, then make it primary."
        )
    if copies is None:
        return f"{head} Compare their data with `ddd_diagnose -g {config.gpid}`."
    return (
        f"{head} No server reports a replica of {config.gpid}. On each, search for a "
        f"folder that was moved away ({config.gpid}.pegasus.*.err, .gar or .ori in "
        "the data directories), move it back and restart the server."
    )


def unserved_since(
    now: PegasusSnapshot, earlier: Sequence[PegasusSnapshot]
) -> Mapping[Gpid, datetime]:
    """Return since when partitions have no primary and nothing of them changes.

    Args:
        earlier: Snapshots before it, the newest last.

    Returns:
        By ``(app_id, index)``: when the first of the snapshots was taken that, without a gap, has
        the partition without a primary and with the ballot of now; only those of which an earlier
        one has it so.
    """
    left = _headless(now)
    since: dict[Gpid, datetime] = {}
    for one in reversed(earlier):
        if not left or one.manifest.taken_at >= now.manifest.taken_at:
            continue
        then = _headless(one)
        left = {gpid: ballot for gpid, ballot in left.items() if then.get(gpid) == ballot}
        since |= dict.fromkeys(left, one.manifest.taken_at)
    return since


def _headless(snapshot: PegasusSnapshot) -> dict[Gpid, int]:
    """Return ballot by partition, of those without a primary, split children left out."""
    table = snapshot.tables["partitions"].select(["app_id", "index", "ballot", "primary"])
    rows = table.filter(pc.and_(pc.is_null(table["primary"]), pc.greater_equal(table["ballot"], 0)))
    columns = [rows[name].to_pylist() for name in ("app_id", "index", "ballot")]
    return {(app, index): ballot for app, index, ballot in zip(*columns, strict=True)}


def splits_since(
    now: PegasusSnapshot, earlier: Sequence[PegasusSnapshot]
) -> Mapping[int, datetime]:
    """Return since when no further child of a table's partition split has registered, by id."""
    left = _children(now)
    since: dict[int, datetime] = {}
    for one in reversed(earlier):
        if not left or one.manifest.taken_at >= now.manifest.taken_at:
            continue
        then = _children(one)
        left = {app: children for app, children in left.items() if then.get(app) == children}
        since |= dict.fromkeys(left, one.manifest.taken_at)
    return since


def _children(snapshot: PegasusSnapshot) -> dict[int, frozenset[int]]:
    table = snapshot.tables["partitions"].select(["app_id", "index", "ballot", "primary"])
    rows = table.filter(pc.and_(pc.is_null(table["primary"]), pc.less(table["ballot"], 0)))
    found: dict[int, set[int]] = {}
    for app, index in zip(rows["app_id"].to_pylist(), rows["index"].to_pylist(), strict=True):
        found.setdefault(app, set()).add(index)
    return {app: frozenset(children) for app, children in found.items()}
