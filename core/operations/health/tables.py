"""Health of a cluster of any system: its tables, and the lines of its findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from core.findings.finding import Finding, findings_sentence
from core.findings.verdict import Verdict
from core.system import Manifest
from core.units import datetime_to_ms

HEALTH: Final = pa.schema(
    [
        pa.field("system", pa.string(), nullable=False),
        pa.field("snapshot_id", pa.string(), nullable=False),
        pa.field("taken_at", pa.int64(), metadata={"unit": "ms"}),
        pa.field("state", pa.string(), nullable=False),  # bad | attention | unknown | ok
        pa.field(
            "verdict", pa.string(), nullable=False
        ),  # balanced | unbalanced | not_balanced | unknown
        pa.field("answer", pa.string(), nullable=False),
        pa.field("findings", pa.string(), nullable=False),
        pa.field("scope", pa.string(), nullable=False),  # what was examined, what was not, and why
    ]
)
"""One row a cluster."""

MEASURES: Final = pa.schema(
    [
        pa.field("measure", pa.string(), nullable=False),
        pa.field("unit", pa.string(), nullable=False),
        pa.field("mean", pa.float64()),
        pa.field("std", pa.float64()),
        pa.field("maximum", pa.float64()),
        pa.field("minimum", pa.float64()),
        pa.field("max_deviation_ratio", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("worst", pa.string()),
        pa.field("known", pa.int64(), nullable=False),  # brokers or nodes
        pa.field("count", pa.int64(), nullable=False),
    ]
)
"""One row a cluster and measure."""

FINDINGS: Final = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),
        pa.field("code", pa.string(), nullable=False),
        pa.field("subject_kind", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("sentence", pa.string(), nullable=False),
        pa.field("hint", pa.string(), nullable=False),
        pa.field("evidence", pa.string(), nullable=False),  # JSON
    ]
)
"""One row a finding, worst first."""


def health_tables(
    identity: tuple[str, Manifest],
    verdict: tuple[str, str],
    spreads: list[dict[str, Any]],
    found: Verdict,
) -> Mapping[str, pa.Table]:
    """Return the tables of one cluster.

    Args:
        identity: Id and manifest of the snapshot.
        verdict: How even its load is, as a code and as a sentence.
        spreads: Rows of :data:`MEASURES`.
        found: The verdict on it.
    """
    snapshot_id, manifest = identity
    row = {
        "system": manifest.kind,
        "snapshot_id": snapshot_id,
        "taken_at": datetime_to_ms(manifest.taken_at),
        "state": found.state,
        "verdict": verdict[0],
        "answer": verdict[1],
        "findings": findings_sentence(found.findings),
        "scope": found.scope,
    }
    findings = [
        {
            "number": number,
            "severity": one.severity,
            "code": one.code,
            "subject_kind": one.subject_kind,
            "subject": one.subject,
            "sentence": one.sentence,
            "hint": one.hint,
            "evidence": msgspec.json.encode(dict(one.evidence)).decode(),
        }
        for number, one in enumerate(found.findings, 1)
    ]
    return {
        "health": pa.Table.from_pylist([row], schema=HEALTH),
        "measures": pa.Table.from_pylist(spreads, schema=MEASURES),
        "findings": pa.Table.from_pylist(findings, schema=FINDINGS),
    }


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the text of findings."""
    for item in findings:
        yield ""
        yield f"{item.severity.upper():8}{item.sentence}"
        if item.hint:
            yield f"{'':8}{item.hint}"
