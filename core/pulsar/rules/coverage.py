"""Rules about what could not be read: unknown is never green."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.findings.coverage import coverage_of, problems_of
from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.rules.context import HealthContext

_WRITTEN: Final = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"


def partial_tables(context: HealthContext) -> Iterator[Finding]:
    """Tables that hold fewer rows than there should be."""
    return coverage_of(context.snapshot.manifest)


def problems_of_the_reading(context: HealthContext) -> Iterator[Finding]:
    """Read problems, grouped by kind: numbers are missing because of them."""
    return problems_of(context.snapshot.manifest)


def averages_of_few(context: HealthContext) -> Iterator[Finding]:
    """The leader keeps averages of more bundles than it writes: choices of its are not ours.

    Source:
        Pulsar ``ModularLoadManagerImpl#writeBundleDataOnZooKeeper`` (``selectTopKBundle``).
    """
    if context.snapshot.manifest.load_manager != "modular":
        return
    each = int(context.settings.number(_WRITTEN))
    brokers = context.snapshot.brokers.num_rows
    owned = context.measures.owned_bundle_count  # of others the leader has no averages
    bundles = context.bundles.count if owned is None else owned
    if each <= 0 or bundles <= (written := each * max(1, brokers)):
        return
    yield Finding(
        code="averages_of_some_bundles",
        title="Leader averages cover few bundles",
        measured=Quantity(written, "bundles"),
        limit=Quantity(bundles, "bundles"),
        severity="info",
        subject_kind="cluster",
        subject="",
        sentence=(
            f"The leader writes the averages of its {written} busiest bundles only, "
            f"of {bundles} assigned ones: for the others it uses in-memory data, so "
            "predictions may select other bundles than the leader."
        ),
        evidence={_WRITTEN: each, "brokers": brokers, "written": written, "bundles": bundles},
        hint=f"Set {_WRITTEN} to 0 to predict its choices: all averages are then written.",
    )
