"""The table of pages: sections of the navigation, pages under them, and what each page answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Entry:
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
) -> Entry:
    """Return a page about the clusters of one kind, which has a folder of that name."""
    return Entry(name, title, icon, answers, f"{kind}/{folder or name}", kind, parent)


SECTIONS: Final[Mapping[str, tuple[Entry, ...]]] = {
    "Monitor": (
        Entry(
            "fleet",
            "Fleet",
            "hub",
            "Every cluster in one row: balance, worst broker, findings, freshness.",
        ),
        Entry(
            "alerts",
            "Alerts",
            "notifications",
            "What fires now, since when and beyond which limit; what is silenced; all thresholds.",
        ),
        _of(
            "pulsar",
            "brokers",
            "Brokers",
            "dns",
            "Load of every broker over time, its limiting resource and its deviation.",
        ),
        _of("pulsar", "broker", "Broker", parent="brokers"),
        _of(
            "pulsar",
            "bundles",
            "Bundles",
            "donut_small",
            "Which bundles carry the load, on which broker; select some to unload.",
        ),
        _of(
            "pulsar",
            "splits",
            "Splits",
            "call_split",
            "Which bundles are near a split, where they would be cut, and whether it helps.",
            parent="bundles",
        ),
        _of(
            "pulsar",
            "unload",
            "Unload",
            "swap_horiz",
            "What would happen if bundles were unloaded: destinations and affected clients.",
            parent="bundles",
        ),
        _of("pulsar", "bundle", "Bundle", parent="bundles"),
        Entry(
            "history",
            "History",
            "timeline",
            "What happened and when: load and events on one time axis, any past minute.",
        ),
    ),
    "Balance": (
        Entry(
            "diagnose",
            "Diagnose",
            "troubleshoot",
            "Why the load is uneven, and how much each fix improves it, simulated.",
        ),
        _of(
            "pulsar",
            "rebalance",
            "Rebalance",
            "balance",
            "Which plan balances the cluster at what cost: compare, edit, apply.",
        ),
    ),
    "Configure": (
        _of(
            "pulsar",
            "policies",
            "Policies",
            "speed",
            "Use and limit of every namespace, group and tenant; changing rates and quotas.",
        ),
        _of(
            "pulsar",
            "isolation",
            "Isolation",
            "shield",
            "Isolation policies and failure domains, misplaced bundles, changes with a preview.",
            parent="policies",
        ),
        _of(
            "pulsar",
            "ownership",
            "Ownership",
            "key",
            "Owners, orphans and double claims, sessions, leaders, and the failure of a broker.",
            parent="policies",
        ),
        _of(
            "pulsar",
            "settings",
            "Settings",
            "tune",
            "Value and meaning of every setting, conflicts and changed ones first; changing them.",
        ),
    ),
    "Analyze": (
        _of(
            "pulsar",
            "lookup",
            "Lookup",
            "travel_explore",
            "Bundle and broker of a topic, whether it exists, where its bundle would be placed.",
        ),
        Entry(
            "backtest",
            "Back-test",
            "science",
            "Which settings balance this cluster with the fewest moves, replayed on its history.",
        ),
        _of(
            "pulsar",
            "advisors",
            "Calculators",
            "calculate",
            "How many bundles and partitions, which queues, ledgers and retention: the arithmetic.",
        ),
    ),
    "Pegasus": (
        _of(
            "pegasus",
            "pegasus",
            "Cluster",
            "schema",
            "Is it whole and balanced: level, nodes, partitions by state, settings.",
            folder="cluster",
        ),
        _of(
            "pegasus",
            "pegasus_tables",
            "Tables",
            "table_rows",
            "Every table: health, traffic, size, nodes of its partitions; unhealthy ones first.",
            parent="pegasus",
            folder="tables",
        ),
        _of(
            "pegasus",
            "pegasus_balance",
            "Replica balance",
            "move_group",
            "Which plan balances the replicas at what cost: compare, select, apply.",
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
            "Take nodes out of service and back, one step after another.",
            folder="maintenance",
        ),
    ),
    "Activity": (
        Entry(
            "activity",
            "Runs",
            "history",
            "Who applied what, when and why, and the result: runs and the journal.",
        ),
        Entry(
            "jobs",
            "Jobs",
            "pending_actions",
            "Computations over whole fleets: start one, follow it, read the results.",
            parent="activity",
        ),
        Entry("run", "Run", parent="activity"),
    ),
}
"""By the head of the section; the first page is the one that opens."""

ENTRIES: Final[Mapping[str, Entry]] = {
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


def top_of(page: str) -> Entry:
    """Return the entry of the navigation under which a page is reached: its parent, or its own."""
    entry = ENTRIES[page]
    return ENTRIES[entry.parent or entry.name]


def family_of(page: str) -> tuple[Entry, ...]:
    """Return the pages that share an entry of the navigation, that entry first.

    Args:
        page: Its name.
    Returns:
        Empty where there is nowhere else to go: a page without others under it.
    """
    top = top_of(page)
    under = [one for one in ENTRIES.values() if one.parent == top.name and one.answers]
    return (top, *under) if under or page != top.name else ()
