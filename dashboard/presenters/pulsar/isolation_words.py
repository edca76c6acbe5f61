"""Isolation in words, for pages and commands: roles, what is wrong, who serves a namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.findings.finding import Finding, Severity
from core.planning.isolation_fixes import FixFinder, IsolationFix
from core.pulsar.anti_affinity import Collision
from core.pulsar.plan.policy.moves import MAX_MOVES, PolicyOutlook
from core.pulsar.serving import Serving, ServingRow
from core.units import listed, pluralize

ROLE_WORDS: Final[Mapping[str, str]] = {
    "none": "no",
    "primary": "primary",
    "secondary": "secondary (active)",
    "standby": "secondary (standby)",
    "shared": "shared",
    "silent": "no load report",
}
NO_POLICY: Final = "no policy"
MAX_UNLOADED: Final = 50
"""Bundles that one link hands to the unload preview."""

_BY_UNLOADING: Final = ("isolation_violated", "isolation_intruded")
_OF_DOMAINS: Final = ("domain_twice", "domain_missing")
_HARMLESS: Final = ("isolation_view_misleads",)
CODES: Final = frozenset(
    {
        *_BY_UNLOADING,
        *_OF_DOMAINS,
        "isolation_unreadable",
        "isolation_without_brokers",
        "isolation_port_in_regex",
        "isolation_view_misleads",
        "isolation_overlaps",
        "isolation_idle",
        "isolation_short",
        "isolation_nothing_shared",
    }
)
"""Findings that the page is about; those on anti-affinity it makes itself, by domain too."""


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A current violation, with its fix.

    Attributes:
        finding: What is wrong, and what to do.
        bundles: To be unloaded, at most :data:`MAX_UNLOADED`.
        policy: To be changed; blank: none.
        is_domain: Domains are to be changed.
        fixes: Changes that would fix it, the best first.
    """

    finding: Finding
    bundles: tuple[str, ...] = ()
    policy: str = ""
    is_domain: bool = False
    fixes: tuple[IsolationFix, ...] = ()

    @property
    def severity(self) -> Severity:
        """As of the finding."""
        return self.finding.severity

    @property
    def sentence(self) -> str:
        """The violation with its numbers, one sentence."""
        return self.finding.sentence

    @property
    def hint(self) -> str:
        """The fix, one sentence."""
        return self.finding.hint


def row_name(row: ServingRow) -> str:
    """Return the label of a row of the matrix."""
    return NO_POLICY if row.policy is None else row.policy.name


def violations(
    findings: Sequence[Finding], mender: FixFinder, collisions: Sequence[Collision]
) -> list[Violation]:
    """Return the violations in the order of the findings, crowded groups last."""
    found = [
        Violation(
            finding=one,
            bundles=_to_unload(one, mender.serving),
            policy=one.subject
            if one.subject_kind == "policy" and one.code not in _HARMLESS
            else "",
            is_domain=one.code in _OF_DOMAINS,
            fixes=mender.fixes_of(one),
        )
        for one in findings
        if one.code in CODES
    ]
    found += [
        Violation(finding=_crowded(crowd), bundles=crowd.bundles[:MAX_UNLOADED])
        for crowd in collisions
    ]
    return found


def _crowded(crowd: Collision) -> Finding:
    return Finding(
        code="anti_affinity_crowded",
        severity="info",
        subject_kind="namespace",
        subject=crowd.members[0],
        title="Anti-affinity conflict",
        sentence=crowd.sentence,
        hint=f"Unload {pluralize(len(crowd.bundles), 'bundle')} of the namespaces with fewer "
        "bundles there; placement spreads the group.",
    )


def _to_unload(finding: Finding, serving: Serving) -> tuple[str, ...]:
    if finding.code not in _BY_UNLOADING or finding.is_rest:
        return ()
    view, rows = serving.view, serving.misplaced
    spaces = view.bundle_namespace[rows]
    if finding.subject_kind == "namespace":
        meant = spaces == view.namespace_index.get(finding.subject, -1)
    else:
        meant = view.namespace_policy[spaces] < 0
    chosen = rows[meant]
    hottest = chosen[np.argsort(-view.bundle_throughput[chosen], kind="stable")]
    return tuple(view.bundles[hottest[:MAX_UNLOADED]].tolist())


def who_serves(serving: Serving, namespace: str) -> str:
    """Return the eligible brokers of one namespace in a sentence."""
    view = serving.view
    at = view.namespace_index[namespace]
    number = int(view.namespace_policy[at])
    by = "no matching isolation policy" if number < 0 else f"by {view.policies[number].name}"
    brokers = serving.brokers_of(namespace)
    who = f"eligible brokers: {listed(brokers, 6)}" if brokers else "no eligible broker"
    return f"{namespace}: {who} ({by})."


def impact_sentence(change: PolicyOutlook) -> str:
    """Return the effect of a change of policies in a sentence."""
    impact = change.impact
    if impact is None:
        return "No effect."
    parts = [
        f"Namespaces with other candidates: {len(impact.changes):,}",
        f"bundles to move: {len(impact.misplaced):,}, unchanged: {impact.staying:,}",
    ]
    if impact.unloaded:
        parts.append(f"unloaded by brokers: {len(impact.unloaded):,}")
    if impact.without_brokers:
        parts.append(f"without an eligible broker: {listed(impact.without_brokers)}")
    if impact.idle_brokers:
        parts.append(f"eligible for no namespace: {listed(impact.idle_brokers)}")
    return "; ".join(parts) + "."


def destinations_note(change: PolicyOutlook) -> str:
    """Return the scope of the expected destinations."""
    more = change.moving - MAX_MOVES
    text = (
        f"{pluralize(change.moving, 'bundle')} placed by the new policies: unloaded by brokers "
        "when the policy is set, or by the plan."
    )
    if more > 0:
        text += f" Only the {MAX_MOVES} busiest are included; {more:,} are not."
    return text
