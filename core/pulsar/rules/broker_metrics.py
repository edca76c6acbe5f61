"""The metrics of brokers lined up with their rows, for rules and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import column_values
from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.rules.context import HealthContext
from core.snapshot import PulsarSnapshot

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BrokerMetrics:
    """Columns of ``broker_metrics`` in the row order of ``brokers``; NaN where unknown."""

    snapshot: PulsarSnapshot

    @cached_property
    def is_there(self) -> bool:
        """Whether anything was read."""
        return bool(self.snapshot.broker_metrics.num_rows)

    @cached_property
    def source(self) -> str:
        """Its source: ``prometheus``, ``scrape``, or nothing."""
        return str(self.snapshot.broker_metrics["source"][0]) if self.is_there else ""

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        names = self.snapshot.broker_metrics["broker"].to_pylist()
        return {name: row for row, name in enumerate(names)}

    @cached_property
    def _taken(self) -> NDArray[np.int64]:
        names = self.snapshot.brokers["broker"].to_pylist()
        return np.array([self._rows.get(name, -1) for name in names], np.int64)

    def column(self, name: str) -> Floats:
        """Return a column, shape ``(n_brokers,)``."""
        if not self.is_there:
            return np.full(self.snapshot.brokers.num_rows, np.nan)
        values = np.append(column_values(self.snapshot.broker_metrics, name), np.nan)
        return values[self._taken]

    @cached_property
    def throughput(self) -> Floats:
        """Bytes/s in plus out."""
        return self.column("msg_throughput_in") + self.column("msg_throughput_out")

    @cached_property
    def msg_rate(self) -> Floats:
        """Messages/s in plus out."""
        return self.column("msg_rate_in") + self.column("msg_rate_out")

    def of(self, broker: str) -> dict[str, Any] | None:
        """Return a broker's row; ``None`` where it has none."""
        row = pc.index(self.snapshot.broker_metrics["broker"], broker).as_py()
        rows: list[dict[str, Any]] = self.snapshot.broker_metrics.slice(max(row, 0), 1).to_pylist()
        return None if row < 0 else rows[0]


def broker_finding(
    context: HealthContext,
    row: int,
    code: str,
    sentence: str,
    evidence: Mapping[str, float | None],
    hint: str,
    *,
    title: str,
    measured: Quantity,
    limit: Quantity,
) -> Finding:
    """Return a warning about a broker that rests on its metrics.

    Args:
        context: The snapshot, measured.
        row: Of the broker.
        code: Of the rule.
        sentence: With ``{broker}`` where its name goes.
        evidence: Figures; their source is added.
        hint: What to do.
        title: At most eight words.
        measured: What the metrics have.
        limit: What it should not pass.
    """
    broker = context.measures.usage.brokers[row]
    return Finding(
        code=code,
        title=title,
        measured=measured,
        limit=limit,
        severity="warning",
        subject_kind="broker",
        subject=broker,
        sentence=sentence.format(broker=broker),
        evidence={**evidence, "source": BrokerMetrics(context.snapshot).source},
        hint=hint,
    )
