"""``trimtab isolation``: who may serve what, and what lies where it may not."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import UnknownNameError
from core.health.findings import assess
from core.planning.isolation_fixes import Mender
from core.pulsar.anti_affinity import Crowd, Spread
from core.pulsar.isolation import failure_domains
from core.pulsar.plan.policy import DesiredPolicy
from core.pulsar.serving import ROLES, Serving, ServingRow
from core.pulsar.view import LoadView
from dashboard.cli.output import Answer, emit, say, table
from dashboard.cli.releases import active_settings
from dashboard.cli.source import pulsar_snapshot
from dashboard.presenters.isolation_words import (
    CODES,
    ROLE_WORDS,
    Violation,
    row_name,
    violations,
    who_serves,
)
from dashboard.presenters.naming import listed


@dataclass(frozen=True)
class _Told:
    """Everything that is told of a cluster."""

    serving: Serving
    spread: Spread
    crowds: tuple[Crowd, ...]
    domains: dict[str, tuple[str, ...]]
    wrong: list[Violation]

    def say(self) -> None:
        """Print it."""
        for row, policy in enumerate(self.serving.rows):
            say(f"{row_name(policy)}: {listed(policy.namespaces, 3) or 'no namespace'}")
            for role, brokers in self.brokers_of(row).items():
                say(f"  {ROLE_WORDS[role]}: {listed(brokers, 6)}")
        for name, fault in self.serving.view.unreadable_policies.items():
            say(f"{name}: unreadable ({fault}); the namespaces it governs are unknown")
        table(
            ("group", "namespace", "bundles", "brokers", "domains"),
            [
                (
                    group,
                    one.namespace,
                    str(one.bundles),
                    listed(one.brokers, 3),
                    ", ".join(one.domains),
                )
                for group in self.spread.view.groups
                for one in self.spread.members(group)
            ],
        )
        table(
            ("domain", "brokers"),
            [(name, listed(brokers, 6)) for name, brokers in self.domains.items()],
        )
        for one in self.wrong:
            say(f"{one.severity}: {one.sentence} {one.hint}".rstrip())
            for mend in one.mends:
                say(f"  {mend.label}: {mend.why}")
                for wish in mend.wishes:
                    say(f"    {self._line(wish)}")
        if not self.wrong:
            say("Every bundle lies where it may, and no policy is odd.")

    def _line(self, wish: DesiredPolicy) -> str:
        """Return the command that plans a change; the cluster as the snapshot names it."""
        name = self.serving.view.cluster
        words = ["trimtab", "policy", "set", name, wish.policy, wish.name]
        if wish.value is None:
            words[2] = "delete"
        return shlex.join([*words, *([] if wish.value is None else [wish.value])])

    def brokers_of(self, row: int) -> dict[str, list[str]]:
        """Return the brokers of a row by their role, those that are nothing to it left out."""
        found: dict[str, list[str]] = {}
        roles = self.serving.roles[row].tolist()
        for broker, role in zip(self.serving.view.brokers, roles, strict=True):
            if role:
                found.setdefault(ROLES[role], []).append(broker)
        return found

    def as_json(self) -> dict[str, Any]:
        """Return it as one JSON object."""
        return {
            "cluster": self.serving.view.cluster,
            "policies": [self._policy_json(at, row) for at, row in enumerate(self.serving.rows)],
            "unreadable_policies": dict(self.serving.view.unreadable_policies),
            "anti_affinity": {
                group: [
                    {
                        "namespace": one.namespace,
                        "bundles": one.bundles,
                        "brokers": list(one.brokers),
                        "domains": list(one.domains),
                    }
                    for one in self.spread.members(group)
                ]
                for group in self.spread.view.groups
            },
            "failure_domains": {name: list(brokers) for name, brokers in self.domains.items()},
            "violations": [
                {
                    "severity": one.severity,
                    "sentence": one.sentence,
                    "hint": one.hint,
                    "unload": list(one.bundles),
                    "mends": [
                        {"why": mend.why, "commands": [self._line(wish) for wish in mend.wishes]}
                        for mend in one.mends
                    ],
                }
                for one in self.wrong
            ],
            "misplaced": _names(self.serving),
        }

    def _policy_json(self, at: int, row: ServingRow) -> dict[str, Any]:
        return {
            "policy": None if row.policy is None else row.policy.name,
            "namespaces": list(row.namespaces),
            "bundles": row.bundles,
            "misplaced": row.misplaced,
            "min_limit": None if row.policy is None else row.policy.min_limit,
            "is_short": row.is_short,
            "brokers": self.brokers_of(at),
        }


def _names(serving: Serving) -> list[str]:
    names: list[str] = serving.view.bundles[serving.misplaced].tolist()
    return names


def show_isolation(
    source: str, namespace: str | None, config: Path | None, *, as_json: bool
) -> int:
    """``trimtab isolation``: of a whole cluster, or of one namespace."""
    snapshot = pulsar_snapshot(source, config)
    settings = active_settings(snapshot)
    view = LoadView.of(snapshot, settings)
    serving = Serving.of(view, settings)
    if namespace is not None:
        return _of_namespace(serving, namespace, as_json=as_json)
    spread = Spread(view, settings, serving)
    crowds = tuple(crowd for group in view.groups for crowd in spread.crowds(group))
    found = [one for one in assess(snapshot, settings) if one.code in CODES]
    told = _Told(
        serving,
        spread,
        crowds,
        failure_domains(snapshot.policies),
        violations(found, Mender(snapshot, serving), crowds),
    )
    return emit(Answer(told.as_json(), told.say), as_json=as_json)


def _of_namespace(serving: Serving, namespace: str, *, as_json: bool) -> int:
    view = serving.view
    if namespace not in view.namespace_index:
        place = f"the snapshot of {view.cluster}"
        raise UnknownNameError.of("namespace", namespace, view.namespaces, place=place)
    at = view.namespace_index[namespace]
    number = int(view.namespace_policy[at])
    wrong = [name for name in _names(serving) if name.startswith(f"{namespace}/")]
    body = {
        "cluster": view.cluster,
        "namespace": namespace,
        "policy": None if number < 0 else view.policies[number].name,
        "brokers": list(serving.brokers_of(namespace)),
        "misplaced": wrong,
    }

    def show() -> None:
        say(who_serves(serving, namespace))
        _say_wrong(wrong)

    return emit(Answer(body, show), as_json=as_json)


def _say_wrong(bundles: Sequence[str]) -> None:
    if not bundles:
        say("All its bundles lie where they may.")
    else:
        say(f"Lie where they may not: {listed(bundles, 6)}.")
