"""Tables that are not balanced, and tables with too few partitions for the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from core.diagnosis.model import Cause
from core.diagnosis.pegasus.context import PegasusDiagnosisContext
from core.units import pluralize

_MAX_SPLITS: Final = 4
_MAX_NAMED: Final = 8


def bulk_loading(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """A table in a bulk load is passed over."""
    loading = {
        app_id: table.name
        for app_id, table in context.facts.tables.items()
        if table.is_bulk_loading
    }
    if not loading:
        return
    proof = context.proven(context.opened, replace(context.opened, tables=tuple(loading)))
    if proof is None:
        return
    names = tuple(loading.values())
    yield Cause(
        code="table_bulk_loading",
        objects=names[:_MAX_NAMED],
        summary=f"{pluralize(len(names), 'table')} ({names[0]}) in a bulk load: the balancer "
        f"skips them{proof.scope}.",
        effect=proof.effect,
        hint=f"Finish or cancel the bulk load of {names[0]}, then set the level to lively.",
        measured=float(len(names)),
        threshold=0.0,
        unit="tables",
    )


def too_few_partitions(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """Fewer partitions than nodes: some node leads nothing, whatever the balancer does."""
    view = context.view
    nodes, partitions = len(context.alive), view.partition_count
    if not partitions or partitions >= nodes:
        return
    for splits in range(1, _MAX_SPLITS + 1):
        is_last = partitions * 2**splits >= nodes or splits == _MAX_SPLITS
        if not is_last:
            continue
        split = replace(context.opened, splits=splits)
        proof = context.proven(context.opened, split, adds_places=True)
        if proof is None:
            return
        yield Cause(
            code="too_few_partitions",
            keys=("partition_count",),
            objects=view.app_names[:_MAX_NAMED],
            summary=f"{pluralize(partitions, 'partition')} on {nodes:,} nodes: "
            f"{nodes - partitions:,} nodes have no primary.",
            effect=proof.effect,
            hint=f"Split the partitions {splits} time{'' if splits == 1 else 's'} "
            f"(partition count x{2**splits}), then balance at level lively.",
            measured=float(partitions),
            threshold=float(nodes),
            unit="partitions",
        )
        return
