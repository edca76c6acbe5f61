"""The table of pages: sections of the navigation, and what each page answers."""

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
        answers: The question that it answers, shown on hover; empty: not in the navigation.
        folder: In ``app_pages/``; empty: as the name.
    """

    name: str
    title: str
    icon: str = ""
    answers: str = ""
    folder: str = ""

    @property
    def file(self) -> str:
        """Its script, from the folder ``dashboard``."""
        return f"app_pages/{self.folder or self.name}/page.py"


SECTIONS: Final[Mapping[str, tuple[Entry, ...]]] = {
    "": (
        Entry(
            "fleet",
            "Fleet overview",
            "hub",
            "Every cluster in one row: balance, worst broker, findings, freshness.",
        ),
        Entry(
            "diagnose",
            "Diagnose",
            "troubleshoot",
            "Why the load is uneven or restless, each cause proven by a simulation of its fix.",
        ),
        Entry(
            "activity",
            "Activity",
            "history",
            "Who applied what, when and why, and what came of it: runs and the journal.",
        ),
        Entry(
            "history",
            "History",
            "timeline",
            "What happened, minute by minute: load over time, every event, and any past minute.",
        ),
        Entry(
            "backtest",
            "Back-test",
            "science",
            "Which settings keep this cluster balanced, replayed on its own history.",
        ),
        Entry(
            "jobs",
            "Jobs",
            "calculate",
            "Trends, what-ifs and drills over whole fleets: requested, followed, read.",
        ),
        Entry("run", "Run"),
    ),
    "Pulsar": (
        Entry(
            "brokers",
            "Brokers",
            "dns",
            "Load of every broker over time, its limiting resource and its place to the mean.",
            folder="pulsar/brokers",
        ),
        Entry(
            "bundles",
            "Bundles",
            "donut_small",
            "Every bundle: where the load is, by broker or namespace, and the hash ring.",
            folder="pulsar/bundles",
        ),
        Entry(
            "rebalance",
            "Rebalance",
            "balance",
            "What the cluster's balancer would do, what would be better, and doing it.",
            folder="pulsar/rebalance",
        ),
        Entry(
            "unload",
            "Unload preview",
            "swap_horiz",
            "What would happen if bundles were unloaded: who takes them, and who notices.",
            folder="pulsar/unload",
        ),
        Entry(
            "splits",
            "Splits",
            "call_split",
            "Which bundles are near a split, where they would be cut, and whether it helps.",
            folder="pulsar/splits",
        ),
        Entry(
            "advisors",
            "Advisors",
            "calculate",
            "How many bundles and partitions, which queues, ledgers and retention: the arithmetic.",
            folder="pulsar/advisors",
        ),
        Entry(
            "lookup",
            "Placement & lookup",
            "travel_explore",
            "Where a topic lives and why; where a bundle would be placed.",
            folder="pulsar/lookup",
        ),
        Entry(
            "ownership",
            "Ownership",
            "key",
            "Who owns what, orphans and double claims, sessions, leaders, and a broker's death.",
            folder="pulsar/ownership",
        ),
        Entry(
            "policies",
            "Policies & quotas",
            "speed",
            "Who is limited to what, who is at a limit, and changing it: groups, rates, quotas.",
            folder="pulsar/policies",
        ),
        Entry(
            "isolation",
            "Isolation & domains",
            "shield",
            "Who may serve what, what lies where it may not, and changing policies with a preview.",
            folder="pulsar/isolation",
        ),
        Entry(
            "settings",
            "Settings",
            "tune",
            "Conflicts and fixes of the settings; every value and its origin.",
            folder="pulsar/settings",
        ),
        Entry("broker", "Broker", folder="pulsar/broker"),
        Entry("bundle", "Bundle", folder="pulsar/bundle"),
    ),
    "Pegasus": (
        Entry(
            "pegasus",
            "Cluster",
            "schema",
            "Is it whole and balanced: level, nodes, partitions by state, settings.",
            folder="pegasus/cluster",
        ),
        Entry(
            "pegasus_tables",
            "Tables & partitions",
            "table_rows",
            "Every table: health, traffic, size, nodes of its partitions; unhealthy ones first.",
            folder="pegasus/tables",
        ),
        Entry(
            "pegasus_balance",
            "Balance",
            "balance",
            "What the cluster's balancer would do, round by round, what would be better, doing it.",
            folder="pegasus/balance",
        ),
        Entry(
            "pegasus_maintenance",
            "Maintenance",
            "construction",
            "Take nodes out of service and back, one step after another.",
            folder="pegasus/maintenance",
        ),
        Entry("pegasus_undo", "Undo", folder="pegasus/undo"),
    ),
}
"""By the head of the section; the first page is the one that opens."""

KINDS: Final = tuple(head.lower() for head in SECTIONS if head)
"""Kinds of clusters that have pages of their own, as the configuration names them."""

FILES: Final[Mapping[str, str]] = {
    entry.name: entry.file for entries in SECTIONS.values() for entry in entries
}
"""Every page's script by its name, from the folder ``dashboard``."""


def kinds_of(page: str) -> tuple[str, ...]:
    """Return the kinds of clusters that a page is about: one, or all.

    Args:
        page: Its name.
    """
    head = next(
        (head for head, entries in SECTIONS.items() if any(one.name == page for one in entries)), ""
    )
    return (head.lower(),) if head else KINDS
