"""What would fix an isolation policy or a failure domain: the very document, and why that one.

A fix is a change like one that an operator enters: it is previewed and checked before it is sent.
Nothing is suggested where only a person can know, such as which rack a broker is in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from core.findings.finding import Finding
from core.ids import host_of
from core.pulsar.isolation import (
    IsolationPolicy,
    failure_domains,
    governing_policy,
    host_expression,
    matcher_of,
    without_port,
)
from core.pulsar.plan.policy.build import DesiredPolicy
from core.pulsar.plan.policy.state import policies_of
from core.pulsar.policy_kinds import policy_kind
from core.pulsar.serving import Serving
from core.snapshot import PulsarSnapshot
from core.units import pluralize

_MAX_NAMED: Final = 50
"""Namespaces that take the place of an expression; more would be no policy to read."""


@dataclass(frozen=True, kw_only=True)
class IsolationFix:
    """A change that fixes a finding.

    Attributes:
        label: In a few words.
        why: What is set, why just that, and what it costs; a sentence.
        desired: The changes.
    """

    label: str
    why: str
    desired: tuple[DesiredPolicy, ...]


@dataclass(frozen=True, eq=False)
class FixFinder:
    """Suggests fixes for the findings of one snapshot.

    Attributes:
        snapshot: The cluster.
        serving: Who may serve what there.
    """

    snapshot: PulsarSnapshot
    serving: Serving

    def fixes_of(self, finding: Finding) -> tuple[IsolationFix, ...]:
        """Return the fixes of a finding, best first; empty where a person must decide."""
        make = _FIXES.get(finding.code)
        return () if make is None or finding.is_rest else tuple(make(self, finding.subject))

    @cached_property
    def _policies(self) -> Mapping[str, IsolationPolicy]:
        return {policy.name: policy for policy in self.serving.view.policies}

    @cached_property
    def _bodies(self) -> Mapping[str, str]:
        return policies_of(self.snapshot, "isolation")

    @cached_property
    def _namespaces(self) -> tuple[str, ...]:
        declared = self.snapshot.namespaces["namespace"].to_pylist()
        return tuple(sorted({*declared, *self.serving.view.namespaces}))

    @cached_property
    def _hosts(self) -> Mapping[str, tuple[int, ...]]:
        """Host to the rows of its brokers, those with the least traffic first."""
        view = self.serving.view
        found: dict[str, tuple[int, ...]] = {}
        for row in view.broker_throughput.argsort(kind="stable").tolist():
            host = host_of(view.brokers[row])
            found[host] = (*found.get(host, ()), row)
        return found

    @cached_property
    def _governors(self) -> Mapping[str, IsolationPolicy | None]:
        """Namespace to its policy, the first that matches, or ``None`` if none does."""
        policies = self.serving.view.policies
        return {name: governing_policy(policies, name) for name in self._namespaces}

    @cached_property
    def _is_governed(self) -> bool:
        """Whether every namespace matches a policy, so that no shared broker is needed."""
        return None not in self._governors.values()

    def _primaries(self, policy: IsolationPolicy) -> list[str]:
        view = self.serving.view
        return [
            broker
            for broker in view.brokers
            if policy.placement_role_of(broker, view.release) == "primary"
        ]

    def _changed(self, name: str, **fields: Any) -> DesiredPolicy:
        body = {**json.loads(self._bodies[name]), **fields}
        value = policy_kind("isolation").canonical(json.dumps(body))
        return DesiredPolicy("isolation", name, value)

    def _spare(self, policy: IsolationPolicy) -> list[str]:
        """Return hosts that are primary nowhere: the policy's secondaries, then the calmest."""
        view = self.serving.view
        taken = np.asarray(view.is_primary.any(axis=0))
        free = [host for host, rows in self._hosts.items() if not taken[list(rows)].any()]
        return sorted(free, key=lambda host: policy.role_of(host) != "secondary")

    def _more_primaries(self, name: str, primary: Sequence[str]) -> Iterator[IsolationFix]:
        """Add as many brokers as min_limit requires, if any stays for what has no policy."""
        policy, view = self._policies[name], self.serving.view
        lacking = max(policy.min_limit, 1) - len(self._primaries(policy))
        spare, chosen, count = self._spare(policy), list[str](), 0
        while spare and count < lacking:
            chosen.append(spare.pop(0))
            count += len(self._hosts[chosen[-1]])
        if count < lacking or (not spare and not self._is_governed):
            return
        added = ", ".join(view.brokers[row] for host in chosen for row in self._hosts[host])
        stepped = sum(policy.role_of(host) == "secondary" for host in chosen)
        which = (
            "its secondaries" if stepped == len(chosen) else "the brokers with the least traffic"
        )
        yield IsolationFix(
            label=f"Add {pluralize(count, 'primary broker')}",
            why=f"Adds {added} to primary, as min_limit {policy.min_limit} requires: "
            f"{which} among the brokers that no policy reserves. They then serve "
            "only this policy.",
            desired=(self._changed(name, primary=[*primary, *map(host_expression, chosen)]),),
        )

    def short(self, name: str) -> Iterator[IsolationFix]:
        """Add primaries, or require as many as there are."""
        policy = self._policies[name]
        yield from self._more_primaries(name, policy.primary)
        there = len(self._primaries(policy))
        if not there:
            return
        failover = json.loads(self._bodies[name])["auto_failover_policy"]
        parameters = {**failover["parameters"], "min_limit": str(there)}
        yield IsolationFix(
            label=f"Lower min_limit to {there}",
            why=f"Lowers min_limit from {policy.min_limit} to {there}, the number of "
            "active primaries; secondaries are then on standby until one of these "
            "fails.",
            desired=(
                self._changed(name, auto_failover_policy={**failover, "parameters": parameters}),
            ),
        )

    def portless(self, name: str) -> Iterator[IsolationFix]:
        """Take ports out of the expressions."""
        policy = self._policies[name]
        bare = {
            field: [without_port(one) for one in getattr(policy, field)]
            for field in ("primary", "secondary")
        }
        named = [
            f"{old} becomes {new}"
            for field, texts in bare.items()
            for old, new in zip(getattr(policy, field), texts, strict=True)
            if old != new
        ]
        if named:
            yield IsolationFix(
                label="Remove the port",
                why=f"{'; '.join(named[:3])}{'; and more' if named[3:] else ''}: placement "
                "compares the host of a broker, never its port.",
                desired=(self._changed(name, **bare),),
            )

    def without_brokers(self, name: str) -> Iterator[IsolationFix]:
        """Let a policy match brokers that are there: without ports, or more of them."""
        policy = self._policies[name]
        bare = [without_port(one) for one in policy.primary]
        if bare != list(policy.primary) and any(map(matcher_of(bare), self._hosts)):
            yield from self.portless(name)
        else:
            yield from self._more_primaries(name, policy.primary)

    def overlapping(self, name: str) -> Iterator[IsolationFix]:
        """Leave to the first policy what is its own already."""
        later = self._policies[name]
        mine = {one for one, policy in self._governors.items() if policy is later}
        covering: list[str] = []
        for expression in later.namespaces:
            matched = list(filter(matcher_of([expression]), self._namespaces))
            own = [_escaped(one) for one in matched if one in mine]
            covering += [expression] if len(own) == len(matched) else own
        if len(covering) > _MAX_NAMED:
            return
        if not mine:
            yield IsolationFix(
                label="Delete it",
                why=f"Deletes {name}: every namespace that it matches is matched by an "
                "earlier policy, so it has no effect. Its primary brokers then serve "
                "other namespaces.",
                desired=(DesiredPolicy("isolation", name, None),),
            )
            return
        yield IsolationFix(
            label="Narrow its expressions",
            why=f"Restricts {name} to {pluralize(len(mine), 'namespace')} that no "
            "earlier policy matches. Nothing moves: the earlier policy already "
            "applies to the others. Add new namespaces manually.",
            desired=(self._changed(name, namespaces=list(dict.fromkeys(covering))),),
        )

    def idle(self, name: str) -> Iterator[IsolationFix]:
        """Delete a policy that keeps brokers for nothing."""
        count = len(self._primaries(self._policies[name]))
        yield IsolationFix(
            label="Delete it",
            why=f"Deletes {name}: it reserves {pluralize(count, 'broker')} for "
            "namespaces that do not exist. They then serve namespaces without a "
            "policy, and no bundle has to move.",
            desired=(DesiredPolicy("isolation", name, None),),
        )

    def unshared(self, _: str) -> Iterator[IsolationFix]:
        """Take the calmest broker out of a policy that has more than it requires."""
        for host, rows in self._hosts.items():
            held = [one for one in self._policies.values() if _is_primary(self, one, rows)]
            if all(len(self._primaries(one)) - len(rows) >= max(one.min_limit, 1) for one in held):
                yield self._without(host, rows, held)
                return

    def _without(
        self, host: str, rows: Sequence[int], held: Sequence[IsolationPolicy]
    ) -> IsolationFix:
        names = ", ".join(self.serving.view.brokers[row] for row in rows)
        desired = []
        for domain in held:
            hosts = dict.fromkeys(host_of(one) for one in self._primaries(domain))
            left = [host_expression(one) for one in hosts if one != host]
            desired.append(self._changed(domain.name, primary=left))
        return IsolationFix(
            label=f"Share {names}",
            why=f"Removes {names} from primary of "
            f"{', '.join(one.name for one in held)}: of the brokers that "
            "min_limit can spare it has the least traffic. The remaining primaries "
            "are listed one by one.",
            desired=tuple(desired),
        )

    def twice(self, broker: str) -> Iterator[IsolationFix]:
        """Leave a broker in one domain, a fix for each: which is right only a person knows."""
        domains = failure_domains(self.snapshot.policies)
        held = [name for name, brokers in domains.items() if broker in brokers]
        for domain in held:
            others = [name for name in held if name != domain]
            yield IsolationFix(
                label=f"Keep it in {domain}",
                why=f"Removes {broker} from {', '.join(others)}: correct if it fails "
                f"together with the others of {domain}.",
                desired=tuple(_domain_without(name, domains[name], broker) for name in others),
            )


def _is_primary(finder: FixFinder, policy: IsolationPolicy, rows: Sequence[int]) -> bool:
    view = finder.serving.view
    roles = [policy.placement_role_of(view.brokers[row], view.release) for row in rows]
    return "primary" in roles


def _escaped(namespace: str) -> str:
    return re.escape(namespace).replace("\\-", "-")


def _domain_without(name: str, brokers: Sequence[str], broker: str) -> DesiredPolicy:
    body = json.dumps({"brokers": [one for one in brokers if one != broker]})
    return DesiredPolicy("failure_domain", name, policy_kind("failure_domain").canonical(body))


_FIXES: Final = {
    "isolation_short": FixFinder.short,
    "isolation_port_in_regex": FixFinder.portless,
    "isolation_without_brokers": FixFinder.without_brokers,
    "isolation_overlaps": FixFinder.overlapping,
    "isolation_idle": FixFinder.idle,
    "isolation_nothing_shared": FixFinder.unshared,
    "domain_twice": FixFinder.twice,
}
