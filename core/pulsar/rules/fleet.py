"""Rules about the fleet as a whole: its leader, its versions, its load managers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.liveness import UNKNOWN
from core.pulsar.rules.addresses import broker_at
from core.pulsar.rules.context import HealthContext
from core.snapshot import PulsarSnapshot


def is_from_files(snapshot: PulsarSnapshot) -> bool:
    """Return whether a snapshot was made from selected files: missing data is unknown."""
    entry = snapshot.manifest.tables.get("brokers")
    return entry is not None and entry.source == "file"


def leader_is_unread(snapshot: PulsarSnapshot) -> bool:
    """Return whether a snapshot without a leader was made from parts of a cluster only.

    A dump of load reports alone has neither how znodes are held nor who owns what.
    """
    entry = snapshot.manifest.tables.get("brokers")
    is_part = entry is not None and entry.source == "dump" and not snapshot.claims.num_rows
    return is_part or is_from_files(snapshot)


def leader_missing(context: HealthContext) -> Iterator[Finding]:
    """There is no leader: no shedding, no splitting, no averages are written."""
    manifest = context.snapshot.manifest
    brokers = context.snapshot.brokers["broker"].to_pylist()
    if not brokers:
        yield Finding(
            code="no_brokers",
            title="No broker is known",
            measured=Quantity(0),
            limit=Quantity(1),
            severity="unknown",
            subject_kind="cluster",
            subject="",
            sentence="No broker is known; the health of the cluster cannot be evaluated.",
            hint="Check the problems of the snapshot.",
        )
    elif manifest.leader is None and leader_is_unread(context.snapshot):
        return  # who leads was not read; the verdict names that as not examined
    elif manifest.leader is None:
        yield Finding(
            code="no_leader",
            title="Cluster has no leader",
            measured=Quantity(0),
            limit=Quantity(1),
            severity="warning",
            subject_kind="cluster",
            subject="",
            sentence=f"None of the {len(brokers)} brokers is known to be the leader.",
            hint="Without a leader nothing is shed or split; a new one should be "
            "elected within seconds.",
        )
    elif (
        manifest.leader not in brokers
        and broker_at(context, manifest.leader) is None
        and context.liveness.state_of(manifest.leader) == UNKNOWN
    ):
        yield Finding(
            code="leader_gone",
            title="Leader is not alive",
            severity="warning",
            subject_kind="broker",
            subject=manifest.leader,
            sentence=f"The leader {manifest.leader} is not among the active brokers.",
            hint="An election should follow within seconds; check again.",
        )


def mixed_versions(context: HealthContext) -> Iterator[Finding]:
    """Brokers of several releases: normal during an upgrade only."""
    counts = _counts(context, "version")
    if len(counts) > 1:
        text = ", ".join(f"{count} \u00d7 {name}" for name, count in counts.most_common())
        yield Finding(
            code="mixed_versions",
            title="Brokers run different versions",
            measured=Quantity(len(counts), "versions"),
            limit=Quantity(1),
            severity="info",
            subject_kind="cluster",
            subject="",
            sentence=f"The brokers run {len(counts)} versions: {text}.",
            evidence={"brokers_by_version": dict(counts)},
            hint="Defaults differ between releases; finish the upgrade before tuning.",
        )


def mixed_load_managers(context: HealthContext) -> Iterator[Finding]:
    """Brokers with different load managers do not place bundles on each other."""
    counts = _counts(context, "load_manager")
    if len(counts) > 1:
        short = {name.rpartition(".")[2]: count for name, count in counts.items()}
        text = ", ".join(f"{count} \u00d7 {name}" for name, count in short.items())
        yield Finding(
            code="mixed_load_managers",
            title="Brokers run different load managers",
            measured=Quantity(len(counts), "load managers"),
            limit=Quantity(1),
            severity="warning",
            subject_kind="cluster",
            subject="",
            sentence=f"The brokers run different load managers: {text}.",
            evidence={"brokers_by_load_manager": short},
            hint="Bundles are placed only on brokers with the leader's load manager; "
            "finish the migration.",
        )


def unsupported_load_manager(context: HealthContext) -> Iterator[Finding]:
    """Areas that this load manager hides: unknown, not healthy."""
    manifest = context.snapshot.manifest
    if manifest.load_manager == "simple":
        yield Finding(
            code="load_manager_unsupported",
            title="Load manager is not supported",
            measured=Quantity("SimpleLoadManagerImpl"),
            severity="unknown",
            subject_kind="cluster",
            subject="",
            sentence="The cluster runs the legacy SimpleLoadManagerImpl, which cannot be read.",
            hint="Migrate to ModularLoadManagerImpl, the default.",
        )
    for sentence in manifest.unavailable:
        yield Finding(
            code="not_available",
            title="Data is not available",
            severity="unknown",
            subject_kind="cluster",
            subject="",
            sentence=sentence,
        )


def _counts(context: HealthContext, column: str) -> Counter[str]:
    return Counter(
        value for value in context.snapshot.brokers[column].to_pylist() if value is not None
    )
