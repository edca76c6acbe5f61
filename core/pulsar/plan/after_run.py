"""Load right after a run, of brokers that have not reported since its end.

An unload takes seconds, a load report up to minutes. In between a snapshot has the new owner of a
bundle and the old load of both brokers. The load of the run's bundles is then moved as a projection
moves it, so that what follows (an undo) is compared with the load that brokers really have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.actions.views import RunView, StepView
from core.arrays import Floats, column_values
from core.plan.model import Diagnostic
from core.pulsar.cluster import BrokerLoads
from core.pulsar.load_transfer import CARRIED, amounts_of
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms, pluralize

PREDICTED: Final = "load_predicted"
"""Code of the finding that names the brokers whose load is predicted."""

_COUNT: Final = CARRIED.index("bundle_count")
_MAX_NAMED: Final = 3


@dataclass(frozen=True)
class LoadAfterRun:
    """Snapshot with the load that a run left.

    Attributes:
        snapshot: The snapshot; the very same one if every broker has reported since.
        brokers: Brokers whose load is predicted.
    """

    snapshot: PulsarSnapshot
    brokers: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """The finding that names the brokers; empty if all load is measured."""
        if not self.brokers:
            return ()
        named = ", ".join(self.brokers[:_MAX_NAMED])
        more = len(self.brokers) - _MAX_NAMED
        names = f"{named} and {more:,} more" if more > 0 else named
        have = "has" if len(self.brokers) == 1 else "have"
        return (
            Diagnostic(
                severity="info",
                code=PREDICTED,
                subject=self.brokers[0],
                sentence=f"{pluralize(len(self.brokers), 'broker')} {have} not reported load since "
                f"the run ({names}): usage and traffic before the undo are predicted from the "
                "bundles that the run moved.",
            ),
        )


def load_after_run(
    view: RunView, snapshot: PulsarSnapshot, start: PulsarSnapshot | None = None
) -> LoadAfterRun:
    """Return a snapshot with the load of the bundles that a run moved on their present owners.

    Only brokers whose report is older than the end of a step change.

    Args:
        view: A run that has ended.
        snapshot: Taken after its end.
        start: A snapshot of when it began: the load of bundles that no report has at present;
            ``None`` if there is none.
    """
    brokers, bundles = snapshot.brokers, snapshot.bundles
    moved = list(_unreported(view, snapshot))
    if not moved:
        return LoadAfterRun(snapshot)
    rows, leaves_at, comes_at = (np.array(column, np.int64) for column in zip(*moved, strict=True))
    own = bundles.take(pa.array(rows))
    former = None if start is None else _rows_of(own["bundle"], start.bundles)

    def bundle_column(name: str) -> Floats:
        values = column_values(own, name)
        if former is None:
            return values
        return np.where(np.isnan(values), column_values(former, name), values)

    amounts = amounts_of(
        bundle_column,
        lambda name: column_values(brokers, name),
        np.where(leaves_at >= 0, leaves_at, comes_at),
    )
    amounts[:, _COUNT] = 0.0  # ownership is read, not reported
    delta = np.zeros((brokers.num_rows, len(CARRIED)))
    for at, sign in ((leaves_at, -1.0), (comes_at, 1.0)):
        np.add.at(delta, at[at >= 0], sign * amounts[at >= 0])
    touched = np.unique(np.concatenate([leaves_at, comes_at]))
    touched = touched[touched >= 0]
    is_touched = np.zeros(brokers.num_rows, np.bool_)
    is_touched[touched] = True
    loads = BrokerLoads.of(brokers).moved(touched, delta[touched])
    names = brokers["broker"].to_pylist()
    counted = _counted_by(bundles, rows, names, comes_at)
    return LoadAfterRun(
        snapshot.with_predicted({"brokers": loads.table(brokers, is_touched), "bundles": counted}),
        tuple(names[row] for row in touched.tolist()),
    )


def unreported_brokers(view: RunView, snapshot: PulsarSnapshot) -> tuple[str, ...]:
    """Return the brokers whose load in a snapshot is from before the moves of a run."""
    names = snapshot.brokers["broker"].to_pylist()
    rows = {at for _, *ends in _unreported(view, snapshot) for at in ends if at >= 0}
    return tuple(names[row] for row in sorted(rows))


def _unreported(view: RunView, snapshot: PulsarSnapshot) -> Iterator[tuple[int, int, int]]:
    """Yield the moved bundles: its row, the broker that reports it still, and the one that will.

    Both are rows of brokers, -1 for one that has reported since.
    """
    broker_rows = {name: row for row, name in enumerate(snapshot.brokers["broker"].to_pylist())}
    bundle_rows = {name: row for row, name in enumerate(snapshot.bundles["bundle"].to_pylist())}
    reported_ms = column_values(snapshot.brokers, "reported_at")
    for step in view.steps:
        source, destination = _way(step, broker_rows)
        row = bundle_rows.get(step.step.subject, -1)
        if row < 0 or step.ended_at is None or source == destination:
            continue
        owner = broker_rows.get(snapshot.bundles["owner"][row].as_py(), -1)
        ended_ms = datetime_to_ms(step.ended_at)
        # comparisons with NaN are false: without a time of the report its load counts as it is
        leaves, comes = (
            at if at >= 0 and reported_ms[at] < ended_ms else -1 for at in (source, destination)
        )
        if owner == destination and max(leaves, comes) >= 0:  # else it moved on since
            yield row, leaves, comes


def _rows_of(names: pa.ChunkedArray, bundles: pa.Table) -> pa.Table:
    """Return the rows of some bundles, in their order; of nulls where a bundle is not there."""
    return bundles.take(pc.index_in(names, bundles["bundle"]))


def _way(step: StepView, broker_rows: dict[str, int]) -> tuple[int, int]:
    """Return the broker rows before and after a step; twice -1: it moved nothing."""
    result = step.result
    before = step.before.holder if step.before else None
    after = result.after.holder if result is not None and result.after else None
    if before is None or after is None:
        return -1, -1
    return broker_rows.get(before, -1), broker_rows.get(after, -1)


def _counted_by(
    bundles: pa.Table, rows: np.ndarray, brokers: list[str], comes_at: np.ndarray
) -> pa.Table:
    """Return the bundles, those whose load came to their owner counted there."""
    reporters = bundles["reported_by"].to_pylist()
    for row, at in zip(rows.tolist(), comes_at.tolist(), strict=True):
        if at >= 0:
            reporters[row] = brokers[at]
    at = bundles.schema.get_field_index("reported_by")
    return bundles.set_column(at, bundles.schema.field(at), pa.array(reporters, pa.string()))
