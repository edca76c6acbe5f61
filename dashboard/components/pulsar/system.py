"""Pulsar, as header, frame and runs use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.pulsar.releases import Release
from core.pulsar.system import PULSAR as PULSAR_SYSTEM
from core.systems import KnownSystem
from dashboard import state
from dashboard.components.pulsar.page import PulsarPage
from dashboard.components.system import StepsTable
from dashboard.presenters.finding_counts import Counts, count_listed
from dashboard.presenters.findings import FindingAction, FindingLinks
from dashboard.presenters.freshness import Badge, coverage_badge
from dashboard.presenters.pulsar.search import search
from dashboard.presenters.search import Hit
from dashboard.queries.pulsar.examinations import examination
from dashboard.queries.pulsar.snapshots import reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.actions.views import RunView
    from core.findings.finding import Finding
    from core.snapshot import Manifest
    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Config


def release_badge(manifest: Manifest) -> Badge | None:
    """Return the badge of a Pulsar release that is unknown; ``None`` if it is known."""
    release = Release.of(manifest.release)
    if release.is_known or manifest.release is None:
        return None
    return Badge(
        text=f"release {release.label}",
        icon=":material/help:",
        tone="orange",
        help=release.warning,
    )


_BY_UNLOAD: Final = ("broker_overloaded", "traffic_deviation", "usage_spread")
_BY_PLAN: Final = ("idle_broker", "balance_unknown")
_BY_SPLIT: Final = ("hot_bundle", "single_bundle_namespace")
_BY_SETTINGS: Final = (
    *("settings_differ", "setting_not_effective", "setting_without_effect", "release_unknown"),
    *("bundle_limit_reached", "bundle_limit_near", "capacity_missing", "nic_limit_suspicious"),
    "many_unloads",
)
_BY_ISOLATION: Final = (
    *("isolation_violated", "isolation_port_in_regex", "isolation_view_misleads"),
    *("isolation_without_brokers", "isolation_overlaps", "isolation_idle", "isolation_short"),
    *("isolation_nothing_shared", "isolation_intruded", "isolation_unreadable"),
    *("domain_twice", "domain_missing", "anti_affinity_shared_broker"),
)
_BY_OWNERSHIP: Final = (
    *("refused_bundles", "bound_elsewhere"),
    *("orphaned_bundles", "double_ownership", "stuck_ownership", "permanent_ownership"),
    *("stale_sessions", "unowned_with_traffic", "unowned_bundles", "owner_unknown", "lookups_fail"),
    *("no_leader", "leader_gone"),
)


_OF_LOAD: Final = ("broker", "bundle", "namespace", "cluster", "table")
"""Kinds of subjects of the findings on Brokers; those of other pages are not among them."""
LISTING: Final = ("isolation", "ownership")
"""Pages that list the findings that they can fix; Policies, their first page, lists both."""


_CALCULATORS: Final = {
    "bundles": "bundles of a namespace",
    "partitions": "partitions of a topic",
    "producer": "producer queue",
    "ledgers": "ledger rollover",
    "retention": "retention",
    "lookups": "lookups",
}
"""As the page of calculators names them in its address, and what they compute."""


class PulsarPages:
    """Pulsar; see :class:`dashboard.components.system.PageSystem`."""

    system: KnownSystem = PULSAR_SYSTEM
    page = PulsarPage
    example = """[[clusters]]
name = "orders"
zookeeper = "zk1:2181,zk2:2181,zk3:2181"
admin_urls = ["http://broker1:8080"]
"""
    actions = (
        Hit(kind="action", name="Unload bundles…", detail="Preview, then apply", page="unload"),
        Hit(
            kind="action", name="Rebalance", detail="Compare plans and apply one", page="rebalance"
        ),
        Hit(
            kind="action",
            name="Drain broker…",
            detail="Select a broker, unload its bundles",
            page="brokers",
        ),
        Hit(kind="action", name="Split bundles…", detail="Preview, then apply", page="splits"),
        Hit(kind="action", name="Change settings…", detail="Simulate first", page="settings"),
        Hit(kind="action", name="Change policies…", detail="Limits and quotas", page="policies"),
        Hit(kind="action", name="Look up topic…", detail="Bundle and broker", page="lookup"),
        *(
            Hit(
                kind="action",
                name=f"Calculate {what}",
                detail="Calculator",
                page="advisors",
                params={state.VIEW: name},
            )
            for name, what in _CALCULATORS.items()
        ),
    )
    undo_page = "unload"
    steps_table = StepsTable(ends=118, asked=118)

    finding_links = FindingLinks(
        subjects={
            "broker": ("broker", "broker"),
            "bundle": ("bundle", "bundle"),
            "namespace": ("bundles", "namespace"),
            "setting": ("settings", "setting"),
            "policy": ("isolation", "policy"),
        },
        actions={
            **dict.fromkeys(
                _BY_UNLOAD, FindingAction(label="Unload…", page="broker", parameter="broker")
            ),
            **dict.fromkeys(_BY_PLAN, FindingAction(label="Rebalance", page="rebalance")),
            **dict.fromkeys(_BY_SPLIT, FindingAction(label="Split…", page="splits")),
            **dict.fromkeys(_BY_SETTINGS, FindingAction(label="Settings", page="settings")),
            **dict.fromkeys(_BY_ISOLATION, FindingAction(label="Isolation", page="isolation")),
            **dict.fromkeys(_BY_OWNERSHIP, FindingAction(label="Ownership", page="ownership")),
        },
        overview="brokers",
    )

    def search(self, stored: CachedSnapshot, query: str) -> list[Hit]:
        """Return the brokers, namespaces, bundles and the topic that a query names."""
        return search(reading(stored).snapshot, query)

    def badges(self, manifest: Manifest, stored: CachedSnapshot) -> list[Badge]:
        """Return the coverage, and a badge for an unknown release."""
        saved = reading(stored)
        unknown = release_badge(manifest)
        coverage = coverage_badge(manifest, saved.uncounted)
        return [coverage, *([unknown] if unknown is not None else [])]

    def findings_of(self, page: str, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings that a page lists; its entry in the navigation counts them.

        Args:
            page: ``brokers``, ``isolation``, ``ownership``, or ``policies`` for both of these.
            findings: Of the cluster.
        """
        listing = LISTING if page == "policies" else (page,)
        if page != "brokers":
            return [one for one in findings if self._page_of(one) in listing]
        apart = (*LISTING, "settings")
        return [
            one
            for one in findings
            if one.subject_kind in _OF_LOAD and self._page_of(one) not in apart
        ]

    def _page_of(self, finding: Finding) -> str:
        action = self.finding_links.actions.get(finding.code)
        return action.page if action is not None else self.finding_links.target(finding)[0]

    def count_findings(self, config: Config, stored: CachedSnapshot) -> Counts:
        """Return the number of findings that each page lists; settings as the doctor judges."""
        one = reading(stored)
        judged = examination(config, one.snapshot.manifest.cluster, stored).of_settings
        listed = {"fleet": one.findings, "settings": judged} | {
            page: self.findings_of(page, one.findings) for page in ("brokers", *LISTING)
        }
        return {page: count_listed(findings) for page, findings in listed.items()}

    def subject_page(self, view: RunView, subject: str) -> tuple[str, dict[str, str]] | None:
        """Return the page of a bundle."""
        del view  # the name of a bundle is enough
        return ("bundle", {"bundle": subject}) if "/" in subject else None


PULSAR: Final = PulsarPages()
