"""The table of pages: sections of the navigation, pages under them, and what each page answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One page.

    Attributes:
        name: In the address, and of its folder where that does not say otherwise.
        title: In the navigation.
        icon: Name of a Material symbol.
        answers: The question that it answers, shown on hover; empty: only other pages open it.
        folder: In ``app_pages/``; empty: as the name.
        kind: Kind of clusters it is about, as the configuration names it; empty: every kind.
        parent: Name of the entry under which it is reached; empty: it is in the navigation.
    """

    name: str
    title: str
    icon: str = ""
    answers: str = ""
    folder: str = ""
    kind: str = ""
    parent: str = ""

    @property
    def file(self) -> str:
        """Its script, from the folder ``dashboard``."""
        return f"app_pages/{self.folder or self.name}/page.py"


def _of(
    kind: str,
    name: str,
    title: str,
    icon: str = "",
    answers: str = "",
    *,
    parent: str = "",
    folder: str = "",
) -> PageEntry:
    """Return a page about the clusters of one kind, which has a folder of that name."""
    return PageEntry(name, title, icon, answers, f"{kind}/{folder or name}", kind, parent)


SECTIONS: Final[Mapping[str, tuple[PageEntry, ...]]] = {
    "Monitor": (
        PageEntry(
            "fleet",
            "Fleet",
            "hub",
            "Every cluster in one row: balance, worst broker, findings, freshness.",
        ),
        PageEntry(
            "alerts",
            "Alerts",
            "notifications",
            "Firing, pending and silenced alerts with values and limits; thresholds.",
        ),
        _of(
            "pulsar",
            "brokers",
            "Brokers",
            "dns",
            "Load, limiting resource and deviation of every broker over time.",
        ),
        _of("pulsar", "broker", "Broker", parent="brokers"),
        _of(
            "pulsar",
            "bundles",
            "Bundles",
            "donut_small",
            "Bundles by load and broker; select bundles to unload.",
        ),
        _of(
            "pulsar",
            "splits",
            "Splits",
            "call_split",
            "Bundles close to a split, with the split position and its effect.",
            parent="bundles",
        ),
        _of(
            "pulsar",
            "unload",
            "Unload",
            "swap_horiz",
            "Preview of an unload: destinations and affected clients.",
            parent="bundles",
        ),
        _of("pulsar", "bundle", "Bundle", parent="bundles"),
        PageEntry(
            "history",
            "History",
            "timeline",
            "Load and events on one time axis, for any past minute.",
        ),
    ),
    "Balance": (
        PageEntry(
            "diagnose",
            "Diagnose",
            "troubleshoot",
            "Causes of imbalance with the simulated effect of each fix.",
        ),
        _of(
            "pulsar",
            "rebalance",
            "Rebalance",
            "balance",
            "Compare, edit and apply plans that balance the cluster.",
        ),
    ),
    "Configure": (
        _of(
            "pulsar",
            "policies",
            "Policies",
            "speed",
            "Use and limits of namespaces, groups and tenants; change rates and quotas.",
        ),
        _of(
            "pulsar",
            "isolation",
            "Isolation",
            "shield",
            "Isolation policies, failure domains and misplaced bundles; preview changes.",
            parent="policies",
        ),
        _of(
            "pulsar",
            "ownership",
            "Ownership",
            "key",
            "Owners, orphans, double claims, sessions, leaders and broker failure.",
            parent="policies",
        ),
        _of(
            "pulsar",
            "settings",
            "Settings",
            "tune",
            "Values, descriptions and conflicts of all settings; preview changes.",
        ),
    ),
    "Analyze": (
        _of(
            "pulsar",
            "lookup",
            "Lookup",
            "travel_explore",
            "Bundle and broker of a topic; placement of a bundle.",
        ),
        PageEntry(
            "backtest",
            "Back-test",
            "science",
            "Compare settings on the recorded history: balance vs. moves.",
        ),
        _of(
            "pulsar",
            "advisors",
            "Calculators",
            "calculate",
            "Calculate bundles, partitions, queues, ledgers and retention.",
        ),
    ),
    "Pegasus": (
        _of(
            "pegasus",
            "pegasus",
            "Cluster",
            "schema",
            "Level, balance, nodes, partitions by state and settings.",
            folder="cluster",
        ),
        _of(
            "pegasus",
            "pegasus_tables",
            "Tables",
            "table_rows",
            "Health, traffic, size and nodes of every table, unhealthy tables first.",
            parent="pegasus",
            folder="tables",
        ),
        _of(
            "pegasus",
            "pegasus_balance",
            "Replica balance",
            "move_group",
            "Compare and apply plans that balance the replicas.",
            parent="pegasus",
            folder="balance",
        ),
        _of(
            "pegasus",
            "pegasus_undo",
            "Undo",
            parent="pegasus",
            folder="undo",
        ),
        _of(
            "pegasus",
            "pegasus_maintenance",
            "Maintenance",
            "construction",
            "Drain, update or remove nodes step by step.",
            folder="maintenance",
        ),
    ),
    "Activity": (
        PageEntry(
            "activity",
            "Runs",
            "history",
            "Runs with user, time, reason and result; journal.",
        ),
        PageEntry(
            "jobs",
            "Jobs",
            "pending_actions",
            "Background computations over one or all clusters.",
            parent="activity",
        ),
        PageEntry("run", "Run", parent="activity"),
    ),
}
"""By the head of the section; the first page is the one that opens."""

ENTRIES: Final[Mapping[str, PageEntry]] = {
    entry.name: entry for entries in SECTIONS.values() for entry in entries
}
"""Every page by its name."""

KINDS: Final = tuple(dict.fromkeys(entry.kind for entry in ENTRIES.values() if entry.kind))
"""Kinds of clusters that have pages of their own, as the configuration names them."""

FILES: Final[Mapping[str, str]] = {name: entry.file for name, entry in ENTRIES.items()}
"""Every page's script by its name, from the folder ``dashboard``."""


def kinds_of(page: str) -> tuple[str, ...]:
    """Return the kinds of clusters that a page is about: one, or all.

    Args:
        page: Its name.
    """
    kind = ENTRIES[page].kind if page in ENTRIES else ""
    return (kind,) if kind else KINDS


def top_of(page: str) -> PageEntry:
    """Return the entry of the navigation under which a page is reached: its parent, or its own."""
    entry = ENTRIES[page]
    return ENTRIES[entry.parent or entry.name]


def family_of(page: str) -> tuple[PageEntry, ...]:
    """Return the pages that share an entry of the navigation, that entry first.

    Args:
        page: Its name.
    Returns:
        Empty where there is nowhere else to go: a page without others under it.
    """
    top = top_of(page)
    under = [one for one in ENTRIES.values() if one.parent == top.name and one.answers]
    return (top, *under) if under or page != top.name else ()
