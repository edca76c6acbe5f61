"""One bundle of a snapshot, as the split rules look at it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from core.errors import UnknownNameError
from core.pulsar.quotas import long_averages
from core.pulsar.split.model import SplitSubject
from core.snapshot import PulsarSnapshot


def split_subject(snapshot: PulsarSnapshot, bundle: str) -> SplitSubject:
    """Return the facts about a bundle.

    Raises:
        UnknownNameError: The snapshot has no such bundle.
    """
    bundles = snapshot.bundles
    at = pc.index(bundles.column("bundle"), bundle).as_py()
    if at < 0:
        known = bundles.column("bundle").to_pylist()
        place = f"the snapshot of {snapshot.manifest.cluster}"
        raise UnknownNameError.of("bundle", bundle, known, place=place)
    row = bundles.slice(at, 1).to_pylist()[0]
    long_msgs_per_s, long_bytes_per_s = (_known(rates[at]) for rates in long_averages(snapshot))
    is_stored = _total(row, "long_msg_rate_in", "long_msg_rate_out") is not None
    return SplitSubject(
        bundle=bundle,
        namespace=row["namespace"],
        lower=row["lower"],
        upper=row["upper"],
        owner=row["owner"],
        reporter=row["reported_by"],
        is_broker_bound=row["is_broker_bound"],
        topic_count=row["topic_count"],
        sessions=_total(row, "producer_count", "consumer_count"),
        msg_rate=_total(row, "msg_rate_in", "msg_rate_out"),
        throughput=_total(row, "msg_throughput_in", "msg_throughput_out"),
        long_msg_rate=long_msgs_per_s,
        long_throughput=long_bytes_per_s,
        bundles_in_namespace=_bundle_count(snapshot, row["namespace"]),
        brokers=snapshot.brokers.num_rows,
        is_from_quota=long_msgs_per_s is not None and not is_stored,
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _total(row: Mapping[str, Any], *names: str) -> Any:
    """Sum of what is known; ``None`` when nothing is."""
    known = [row[name] for name in names if row[name] is not None]
    return sum(known) if known else None


def _bundle_count(snapshot: PulsarSnapshot, namespace: str) -> int:
    """By the boundaries, where they are known; a report names loaded bundles only."""
    spaces = snapshot.namespaces
    at = pc.index(spaces.column("namespace"), namespace).as_py()
    boundaries = spaces.column("boundaries")[at].as_py() if at >= 0 else None
    if boundaries:
        return len(boundaries) - 1
    seen = pc.equal(snapshot.bundles.column("namespace"), namespace)
    return int(pc.sum(seen).as_py() or 0)
