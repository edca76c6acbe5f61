"""Pegasus, as header, frame and runs use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.pegasus.system import PEGASUS as PEGASUS_SYSTEM
from core.systems import KnownSystem
from dashboard import state
from dashboard.components.pegasus.page import PegasusPage
from dashboard.components.system import StepsTable
from dashboard.presenters.finding_counts import Counts, count_listed
from dashboard.presenters.findings import FindingAction, FindingLinks
from dashboard.presenters.freshness import Badge, coverage_badge
from dashboard.presenters.pegasus import headline, outcome
from dashboard.presenters.pegasus.search import search_pegasus
from dashboard.presenters.search import Hit
from dashboard.queries.pegasus.snapshots import pegasus_reading

if TYPE_CHECKING:
    import pandas as pd

    from core.actions.views import RunView
    from core.snapshot import Manifest
    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Config


def _order(rows: pd.DataFrame) -> list[str]:
    """Return the order of the columns; source and destination come last, if any row has them."""
    ends = [name for name in ("before", "after") if any(rows[name])]
    return ["no", "state", "result", "bundle", "asked", "elapsed_s", *ends]


class PegasusPages:
    """Pegasus; see :class:`dashboard.components.system.PageSystem`."""

    system: KnownSystem = PEGASUS_SYSTEM
    page = PegasusPage
    example = """[[clusters]]
name = "sessions"
kind = "pegasus"
meta_servers = ["meta1:34601", "meta2:34601"]
"""
    actions = (
        Hit(
            kind="action",
            name="Set level…",
            detail="stopped, blind, freezed, steady, lively",
            page="pegasus",
        ),
        Hit(kind="action", name="Balance replicas", detail="Preview", page="pegasus_balance"),
        Hit(
            kind="action",
            name="Drain node…",
            detail="Pegasus: plan, then apply",
            page="pegasus_maintenance",
            params={state.PICK: "Drain"},
        ),
    )
    undo_page = "pegasus_undo"
    steps_table = StepsTable(ends=118, asked=320, order=_order)

    finding_links = FindingLinks(
        subjects={
            "node": ("pegasus", "node"),
            "pegasus_table": ("pegasus_tables", "table"),
        },
        actions={
            "not_balanced": FindingAction(label="Balance", page="pegasus_balance"),
            "balance_unknown": FindingAction(label="Balance", page="pegasus_balance"),
            "level_low": FindingAction(label="Level", page="pegasus"),
            "level_unknown": FindingAction(label="Level", page="pegasus"),
            "node_dead": FindingAction(
                label="Maintenance", page="pegasus_maintenance", parameter="node"
            ),
            **dict.fromkeys(
                ("disk_short", "disk_scarce"),
                FindingAction(label="Balance", page="pegasus_balance"),
            ),
            **dict.fromkeys(
                ("partition_lost", "partitions_dead", "partitions_unreadable"),
                FindingAction(label="Partitions", page="pegasus_tables", parameter="table"),
            ),
        },
        overview="pegasus",
    )

    def search(self, stored: CachedSnapshot, query: str) -> list[Hit]:
        """Return the nodes, tables and the partition that a query names."""
        return search_pegasus(pegasus_reading(stored).facts, query)

    def badges(self, manifest: Manifest, stored: CachedSnapshot) -> list[Badge]:
        """Return the coverage and the problems of a snapshot."""
        trouble = headline.trouble(pegasus_reading(stored).facts)
        return [coverage_badge(manifest, trouble=trouble)]

    def count_findings(self, config: Config, stored: CachedSnapshot) -> Counts:
        """Return the number of findings that each page lists."""
        del config  # the snapshot has everything
        count = count_listed(pegasus_reading(stored).findings)
        return {"pegasus": count, "fleet": count}

    def subject_page(self, view: RunView, subject: str) -> tuple[str, dict[str, str]] | None:
        """Return the page of a node or a partition."""
        return outcome.subject_page(view, subject)


PEGASUS: Final = PegasusPages()
