"""Requests that only one kind of cluster answers."""

from __future__ import annotations

from core.errors import InputError
from core.snapshot import PulsarSnapshot
from core.snapshot.pegasus import PegasusSnapshot
from core.spark.fleet import Snapshot


def pulsar_of(snapshot: Snapshot, what: str) -> PulsarSnapshot:
    """Return the snapshot of a Pulsar cluster.

    Args:
        snapshot: Of any cluster.
        what: What only Pulsar clusters do.
    Raises:
        InputError: It is of another kind.
    """
    if isinstance(snapshot, PulsarSnapshot):
        return snapshot
    raise InputError(
        f"{snapshot.manifest.cluster} is a Pegasus cluster: it does not {what}.",
        hint="Name Pulsar clusters only.",
    )


def pegasus_of(snapshot: Snapshot, what: str) -> PegasusSnapshot:
    """Return the snapshot of a Pegasus cluster.

    Args:
        snapshot: Of any cluster.
        what: What only Pegasus clusters do.
    Raises:
        InputError: It is of another kind.
    """
    if isinstance(snapshot, PegasusSnapshot):
        return snapshot
    raise InputError(
        f"{snapshot.manifest.cluster} is a Pulsar cluster: it does not {what}.",
        hint="Name Pegasus clusters only.",
    )
