"""What puts the balancer on hold as a whole: tables on the move or split, disks not reported.

Source: Pegasus ``server_state::can_run_balancer``, ``check_all_partitions`` and
``greedy_load_balancer``, which plans nothing before all replica servers have reported the disk of
each replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from core.diagnosis.model import Cause
from core.diagnosis.pegasus.context import PegasusDiagnosisContext
from core.units import pluralize


def balancer_on_hold(context: PegasusDiagnosisContext) -> Iterator[Cause]:
    """A table that is being created, dropped or split, or a replica whose disk is unknown."""
    if not context.opened.is_ready:
        return
    proof = context.proven(replace(context.opened, is_ready=False), context.opened)
    if proof is None:
        return
    tables = context.staging_tables
    if tables:
        yield Cause(
            code="table_staging",
            objects=tables,
            summary=f"{pluralize(len(tables), 'table')} ({tables[0]}) being created or "
            "dropped: balancing is blocked.",
            effect=proof.effect,
            hint=f"Wait until {tables[0]} is ready or dropped. If it does not finish, check "
            "the meta server's log.",
            measured=float(len(tables)),
            threshold=0.0,
            unit="tables",
        )
        return
    splitting = context.view.splitting_tables
    if splitting:
        left = len(context.view.children)
        yield Cause(
            code="table_splitting",
            objects=splitting,
            summary=f"{splitting[0]} is being split: {pluralize(left, 'child partition')} not "
            "registered. Balancing is blocked until then.",
            effect=proof.effect,
            hint=f"Wait until every child partition of {splitting[0]} is registered.",
            measured=float(left),
            threshold=0.0,
            unit="partitions",
        )
        return
    silent = tuple(context.facts.columns.nodes_with("not answering"))
    yield Cause(
        code="disks_unreported",
        keys=("config_sync_interval_ms",),
        objects=silent,
        summary="The operation count is -1: the meta server does not have the disk of every "
        "replica and plans nothing.",
        effect=proof.effect,
        hint=f"Check {silent[0]}: it does not answer."
        if silent
        else "Wait for the next report of the replica servers (30 s). After a restart, "
        "the meta server needs one report of each.",
        measured=-1.0,
        threshold=0.0,
        unit="operations",
    )
