"""Rules about what could not be read: unknown is never green."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.health.findings import Finding, HealthContext
from core.snapshot import Manifest
from core.units import format_ratio

_WRITTEN: Final = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"


def partial_tables(context: HealthContext) -> Iterator[Finding]:
    """Tables that hold fewer rows than there should be."""
    return coverage_of(context.snapshot.manifest)


def problems_of_the_reading(context: HealthContext) -> Iterator[Finding]:
    """What could not be read, gathered by its kind: numbers are missing because of it."""
    return problems_of(context.snapshot.manifest)


def averages_of_few(context: HealthContext) -> Iterator[Finding]:
    """The leader keeps averages of more bundles than it writes: choices of its are not ours.

    Source:
        Pulsar ``ModularLoadManagerImpl#writeBundleDataOnZooKeeper`` (``selectTopKBundle``).
    """
    if context.snapshot.manifest.load_manager != "modular":
        return
    each = int(context.settings.number(_WRITTEN))
    brokers, bundles = context.snapshot.brokers.num_rows, context.bundles.count
    if each <= 0 or bundles <= (written := each * max(1, brokers)):
        return
    yield Finding(
        code="averages_of_few",
        severity="info",
        subject_kind="cluster",
        subject="",
        sentence=(
            f"The leader writes the averages of its {written} busiest bundles only, of {bundles}: "
            "for the others it decides by figures that nobody else sees, and what is foretold here "
            "may pick other bundles than it does."
        ),
        evidence={_WRITTEN: each, "brokers": brokers, "written": written, "bundles": bundles},
        hint=f"Set {_WRITTEN} to 0 where its choices are to be foretold: all are written then.",
    )


def coverage_of(manifest: Manifest) -> Iterator[Finding]:
    """Tables of any snapshot that hold fewer rows than there should be."""
    for name, entry in manifest.tables.items():
        coverage = entry.coverage_ratio
        if coverage is None or coverage >= 1.0:
            continue
        yield Finding(
            code="coverage",
            severity="unknown",
            subject_kind="table",
            subject=name,
            sentence=(
                f"{entry.rows} of {entry.expected} {name} could be read "
                f"({format_ratio(coverage)}); the others are unknown."
            ),
            evidence={"rows": entry.rows, "expected": entry.expected, "source": entry.source},
            hint="Look at the problems of the reading.",
        )


def problems_of(manifest: Manifest) -> Iterator[Finding]:
    """What could not be read of any snapshot, gathered by its kind."""
    gathered: dict[str, list[str]] = {}
    examples: dict[str, str] = {}
    for problem in manifest.problems:
        if problem.severity == "error":
            gathered.setdefault(problem.code, []).append(problem.place)
            examples.setdefault(problem.code, problem.what)
    for code, places in gathered.items():
        count = len(places)
        more = "" if count == 1 else f" And {count - 1} more of this kind."
        yield Finding(
            code="reading_problem",
            severity="unknown",
            subject_kind="cluster",
            subject=places[0] if count == 1 else "",
            sentence=f"{examples[code]}{more}",
            evidence={"problem": code, "count": count, "rows": places[:10]},
            hint="`trimtab check` tries every endpoint and says how to mend it.",
        )
