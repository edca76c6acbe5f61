"""Causes of uneven load, proven by simulation, as tables: for jobs."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec
import pyarrow as pa

from core.diagnosis.model import Cause
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose
from core.operations.operation import Job, JobSummary, Operation, Rows, Tables, counted_summary
from core.progress import Progress
from core.units import pluralize

DIAGNOSES: Final = pa.schema(
    [
        pa.field("answer", pa.string(), nullable=False),
        pa.field("causes", pa.int64(), nullable=False),
        pa.field("tried", pa.int64(), nullable=False),
        pa.field("untried", pa.int64(), nullable=False),
        pa.field("notes", pa.string(), nullable=False),
        pa.field("took_ms", pa.float64(), nullable=False, metadata={"unit": "ms"}),
    ]
)
"""One row a cluster."""

CAUSES: Final = pa.schema(
    [
        pa.field("rank", pa.int64(), nullable=False),
        pa.field("code", pa.string(), nullable=False),
        pa.field("summary", pa.string(), nullable=False),
        pa.field("keys", pa.string(), nullable=False),
        pa.field("objects", pa.string(), nullable=False),
        pa.field("hint", pa.string(), nullable=False),
        pa.field("fix", pa.string(), nullable=False),  # lines of a configuration, or JSON
        pa.field("deviation_before", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("deviation_after", pa.float64(), metadata={"unit": "ratio"}),
        # null: a fact, which has no effect on balance
        pa.field("moves_before", pa.int64()),
        pa.field("moves_after", pa.int64()),
        pa.field("returned_after", pa.int64()),
        pa.field("converges_after", pa.bool_()),
    ]
)
"""One row a cluster and cause, the first to act on first."""


def diagnose_cluster(facts: Any, request: DiagnoseRequest, _: Progress) -> Rows:
    """Return the causes of a cluster's uneven load.

    Raises:
        UnknownNameError: The broker, bundle or node of the request is not there.
    """
    started = time.perf_counter()
    found = diagnose(facts.snapshot, request)
    row = {
        "answer": found.answer,
        "causes": len(found.causes),
        "tried": found.tried,
        "untried": found.untried + found.untried_pairs,
        "notes": " ".join(found.notes),
        "took_ms": (time.perf_counter() - started) * 1000,
    }
    rows = [
        {
            "rank": number,
            "code": cause.code,
            "summary": cause.summary,
            "keys": ", ".join(cause.keys),
            "objects": ", ".join(cause.objects),
            "hint": cause.hint,
            "fix": "\n".join(cause.fix.lines)
            or msgspec.json.encode(dict(cause.fix.wanted)).decode(),
            **_effect(cause),
        }
        for number, cause in enumerate(found.causes, 1)
    ]
    return Rows(
        {
            "diagnoses": pa.Table.from_pylist([row], schema=DIAGNOSES),
            "causes": pa.Table.from_pylist(rows, schema=CAUSES),
        }
    )


def _effect(cause: Cause) -> dict[str, Any]:
    if cause.effect is None:
        return {}
    before, after = cause.effect.before, cause.effect.after
    return {
        "deviation_before": before.deviation,
        "deviation_after": after.deviation,
        "moves_before": before.moves,
        "moves_after": after.moves,
        "returned_after": after.returned,
        "converges_after": after.converges,
    }


def _summary(found: Tables) -> JobSummary:
    """Return the number of causes."""
    causes = found["causes"].num_rows
    words = f"{pluralize(causes, 'cause')} found." if causes else "no cause found."
    return counted_summary(found, "diagnoses", words)


OPERATION: Final = Operation(
    name="diagnose",
    module=__name__,
    help="""Find the causes of uneven load, verified by simulation.""",
    request=DiagnoseRequest,
    answers={"pulsar": diagnose_cluster, "pegasus": diagnose_cluster},
    job=Job(
        title="Diagnosis of clusters",
        question="Which settings, policies or data make the load of each cluster uneven?",
        tables={
            "causes": "Each cause with the simulated effect of its fix, best first.",
            "diagnoses": "Changes tried and summary of each cluster.",
        },
        summary=_summary,
        schemas={"diagnoses": DIAGNOSES, "causes": CAUSES},
    ),
)
