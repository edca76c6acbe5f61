"""Findings about what could not be read of any snapshot: unknown is never green."""

from __future__ import annotations

from collections.abc import Iterator

from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.snapshot import Manifest
from core.units import format_ratio


def coverage_of(manifest: Manifest) -> Iterator[Finding]:
    """Tables of any snapshot that hold fewer rows than there should be."""
    for name, entry in manifest.tables.items():
        coverage = entry.coverage_ratio
        if coverage is None or coverage >= 1.0:
            continue
        yield Finding(
            code="coverage",
            title="Table is incomplete",
            measured=Quantity(coverage, "ratio"),
            limit=Quantity(1.0, "ratio"),
            severity="unknown",
            subject_kind="table",
            subject=name,
            sentence=(
                f"{entry.rows} of {entry.expected} {name} could be read "
                f"({format_ratio(coverage)}); the others are unknown."
            ),
            evidence={"rows": entry.rows, "expected": entry.expected, "source": entry.source},
            hint="Check the problems of the snapshot.",
        )


def problems_of(manifest: Manifest) -> Iterator[Finding]:
    """Read problems of any snapshot, grouped by kind."""
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
            title="Capture failed in part",
            measured=Quantity(count, "problems" if count > 1 else "problem"),
            severity="unknown",
            subject_kind="cluster",
            subject=places[0] if count == 1 else "",
            sentence=f"{examples[code]}{more}",
            evidence={"problem": code, "count": count, "rows": places[:10]},
            hint="Run `trimtab check`: it tests every endpoint and lists fixes.",
        )
