"""``trimtab policy`` and ``trimtab isolation``: policies, their changes, misplaced bundles."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import UnknownNameError
from core.plan.model import describe_usage_after
from core.plan.options import PlanOptions
from core.planning.isolation_fixes import FixFinder
from core.planning.limits.effects import limit_effects
from core.pulsar.anti_affinity import Collision, GroupSpread
from core.pulsar.isolation import failure_domains
from core.pulsar.plan.policy.build import DesiredPolicy
from core.pulsar.plan.policy.impact import PolicyImpact
from core.pulsar.plan.policy.moves import PolicyOutlook, change_policies
from core.pulsar.plan.policy.state import policies_of
from core.pulsar.plan.preview import OtherPreview, overload_limit, overloaded, preview_plan
from core.pulsar.policy_kinds import POLICY_KINDS, policy_kind
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.serving import ROLES, Serving, ServingRow
from core.pulsar.steps.base import policy_changes
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.units import by_name, format_ratio, listed, severity_label
from dashboard import services
from dashboard.cli import plan_answers
from dashboard.cli.config import configured
from dashboard.cli.options import Config, Json, PlanFile, PlanReason, Source
from dashboard.cli.output import Answer, emit, print_line, table
from dashboard.cli.plan_answers import nothing_to_do, refusal, show_plan_file, write_plan
from dashboard.cli.pulsar import plan_answers as pulsar_plans
from dashboard.cli.pulsar.source import active_settings, pulsar_cluster, pulsar_snapshot
from dashboard.cli.source import current_snapshot
from dashboard.presenters.pulsar.isolation_words import (
    CODES,
    ROLE_WORDS,
    Violation,
    destinations_note,
    impact_sentence,
    row_name,
    violations,
    who_serves,
)
from dashboard.services import pulsar

_SHOWN = 12


app = typer.Typer()

Cluster = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="Cluster name in the configuration.")
]
Kind = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="isolation, anti_affinity, failure_domain, resource_group, namespace_resource_group, "
        "publish_rate, dispatch_rate, subscription_dispatch_rate, replicator_dispatch_rate, "
        "subscribe_rate, resource_quota.",
    ),
]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the policy, namespace or bundle.")
]
Unloads = Annotated[bool, typer.Option("--unload", help="Also unload misplaced bundles.")]


@app.command("list")
def list_policies(
    cluster: Cluster,
    kind: Annotated[str, typer.Argument(metavar="[KIND]", help="Only this kind.")] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """List the policies."""
    kinds = [policy_kind(kind)] if kind else list(POLICY_KINDS.values())
    loaded = configured(config)
    snapshot = current_snapshot(loaded, pulsar_cluster(loaded, cluster), pulsar.capture)
    found = {one.name: policies_of(snapshot, one.name) for one in kinds}

    def show() -> None:
        rows = [
            (policy, subject, value)
            for policy, values in found.items()
            for subject, value in values.items()
        ]
        table(("policy", "of", "value"), rows)
        if not rows:
            print_line("No policy of that kind is set.")

    body = {
        policy: {key: _decoded(value) for key, value in v.items()} for policy, v in found.items()
    }
    return emit(Answer({"cluster": cluster, "policies": body}, show), as_json=as_json)


def _decoded(value: str) -> Any:
    """Return a document as JSON, a text as it is."""
    return json.loads(value) if value.startswith("{") else value


@app.command("set")
def set_policy(
    cluster: Cluster,
    kind: Kind,
    name: Name,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Value: JSON, or a plain name.")],
    plan_file: PlanFile = None,
    unload: Unloads = False,
    reason: PlanReason = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Validate and plan a policy; run it with `apply`."""
    policy = DesiredPolicy(kind, name, value)
    return _plan_policy(
        config, cluster, policy, plan_file, reason, with_unloads=unload, as_json=as_json
    )


@app.command("delete")
def delete_policy(
    cluster: Cluster,
    kind: Kind,
    name: Name,
    plan_file: PlanFile = None,
    unload: Unloads = False,
    reason: PlanReason = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Plan the removal of a policy; run it with `apply`."""
    policy = DesiredPolicy(kind, name, None)
    return _plan_policy(
        config, cluster, policy, plan_file, reason, with_unloads=unload, as_json=as_json
    )


def _plan_policy(
    config_file: Path | None,
    name: str,
    policy: DesiredPolicy,
    plan_file: Path | None,
    reason: str,
    *,
    with_unloads: bool,
    as_json: bool,
) -> int:
    """Plan a change of one policy, and print its effects on namespaces."""
    config = configured(config_file)
    cluster = pulsar_cluster(config, name)
    snapshot = current_snapshot(config, cluster, pulsar.capture)
    options = PlanOptions(
        now=services.now(), reason=reason, exclusions=frozenset(cluster.exclusions)
    )
    seen = change_policies(snapshot, [policy], options, with_unloads=with_unloads)
    plan, impact = seen.plan, seen.impact
    if errors := plan.by_severity("error"):
        raise refusal(errors)
    if not plan.steps or impact is None:
        return nothing_to_do(plan.diagnostics, as_json=as_json)
    if plan_file is not None:
        write_plan(plan_file, plan)
    others = preview_plan(snapshot, plan).others
    limits = policy_changes(plan.steps)
    effects = limit_effects(snapshot, active_settings(snapshot), limits)
    body = {
        "plan": plan_answers.plan(plan),
        "steps": [pulsar_plans.other(item) for item in others],
        "impact": _impact_json(impact)
        | {"expected": _expected_json(seen), "brokers": _brokers_json(seen, snapshot)},
        "effects": effects,
        "path": str(plan_file) if plan_file else None,
    }
    limit = overload_limit(active_settings(snapshot))
    shown = _PlannedPolicy(seen, others, impact, plan_file, effects, limit)
    return emit(Answer(body, shown.print), as_json=as_json)


def _impact_json(impact: PolicyImpact) -> dict[str, Any]:
    return {
        "namespaces": [
            {
                "namespace": change.namespace,
                "before": list(change.before),
                "after": list(change.after),
                "bundles": change.bundles,
                "must_move": list(change.misplaced),
                "staying": change.staying,
            }
            for change in impact.changes
        ],
        "unloaded": list(impact.unloaded),
        "staying": impact.staying,
        "astray": list(impact.astray),
        "short": list(impact.short),
        "idle_brokers": list(impact.idle_brokers),
    }


def _expected_json(outlook: PolicyOutlook) -> list[dict[str, Any]]:
    """Return the possible destinations of the bundles that are placed again, a row each."""
    if outlook.preview is None:
        return []
    return [
        {
            "bundle": step.step.bundle,
            "from": step.step.owner,
            "to": dict(step.placement.distribution),
        }
        for step in outlook.preview.steps
    ]


def _brokers_json(outlook: PolicyOutlook, snapshot: PulsarSnapshot) -> list[dict[str, Any]]:
    """Return the brokers that are touched, with their usage now and expected."""
    if outlook.preview is None:
        return []
    limit = overload_limit(active_settings(snapshot))
    over = {row["broker"] for row in overloaded(outlook.preview.before_after, limit)}
    return [
        {
            "broker": row["broker"],
            "departures": row["departures"],
            "arrivals": row["arrivals"],
            "usage_before": row["usage_ratio_before"],
            "usage_after": row["usage_ratio_after"],
            "is_over_limit": row["broker"] in over,
        }
        for row in outlook.preview.before_after.to_pylist()
        if row["is_touched"]
    ]


@dataclass(frozen=True)
class _PlannedPolicy:
    """A planned change, for people."""

    seen: PolicyOutlook
    others: Sequence[OtherPreview]
    impact: PolicyImpact
    plan_file: Path | None
    effects: Sequence[str]
    limit: float

    def print(self) -> None:
        """Print it."""
        for item in self.others:
            print_line(item.sentence)
            print_line(f"  {item.command}")
        for sentence in self.effects:
            print_line(sentence)
        if self.impact.changes or self.impact.unloaded:
            print_line(impact_sentence(self.seen))
        for finding in self.seen.plan.diagnostics:
            print_line(
                f"{severity_label(finding.severity)}: {finding.sentence} {finding.hint}".rstrip()
            )
        changes = self.impact.changes[:_SHOWN]
        table(
            ("namespace", "brokers before", "after", "bundles", "must move", "stay"),
            [
                (
                    change.namespace,
                    _brokers(change.before),
                    _brokers(change.after),
                    str(change.bundles),
                    str(len(change.misplaced)),
                    str(change.staying),
                )
                for change in changes
            ],
        )
        if len(self.impact.changes) > len(changes):
            print_line(f"... and {len(self.impact.changes) - len(changes)} more namespaces.")
        self._print_destinations()
        show_plan_file(self.seen.plan, self.plan_file)

    def _print_destinations(self) -> None:
        """Print the expected destinations by broker; those over the limit are marked."""
        preview = self.seen.preview
        if preview is None:
            return
        over = {row["broker"] for row in overloaded(preview.before_after, self.limit)}
        touched = [
            row for row in preview.before_after.to_pylist() if row["departures"] or row["arrivals"]
        ]
        table(
            ("broker", "leave", "arrive (expected)", "current usage", "expected", "limit"),
            [
                (
                    row["broker"],
                    f"{row['departures']:.0f}",
                    f"{row['arrivals']:.1f}",
                    format_ratio(row["usage_ratio_before"]),
                    describe_usage_after(row["usage_ratio_before"], row["usage_ratio_after"]),
                    f"{format_ratio(self.limit)}{' exceeded' if row['broker'] in over else ''}",
                )
                for row in touched
            ],
        )
        print_line(destinations_note(self.seen))


def _brokers(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")


@dataclass(frozen=True)
class _Report:
    """Isolation of a cluster as printed and returned."""

    serving: Serving
    spread: GroupSpread
    collisions: tuple[Collision, ...]
    domains: dict[str, tuple[str, ...]]
    wrong: list[Violation]
    elsewhere: str

    def print(self) -> None:
        """Print it."""
        for row, policy in enumerate(self.serving.rows):
            print_line(f"{row_name(policy)}: {listed(policy.namespaces, 3) or 'no namespace'}")
            for role, brokers in self.brokers_of(row).items():
                print_line(f"  {ROLE_WORDS[role]}: {listed(brokers, 6)}", is_prose=True)
        for name, fault in self.serving.view.unreadable_policies.items():
            print_line(f"{name}: unreadable ({fault}); the namespaces it governs are unknown")
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
            print_line(f"{severity_label(one.severity)}: {one.sentence} {one.hint}".rstrip())
            for fix in one.fixes:
                print_line(f"  {fix.label}: {fix.why}")
                for change in fix.desired:
                    print_line(f"    {self._line(change)}")
        clear = "" if self.wrong else "Isolation policies and anti-affinity groups: no conflict."
        for line in filter(None, (clear, self.elsewhere)):
            print_line(line)

    def _line(self, policy: DesiredPolicy) -> str:
        """Return the command that plans a change; the cluster as the snapshot names it."""
        name = self.serving.view.cluster
        words = ["trimtab", "policy", "set", name, policy.policy, policy.name]
        if policy.value is None:
            words[2] = "delete"
        return shlex.join([*words, *([] if policy.value is None else [policy.value])])

    def brokers_of(self, row: int) -> dict[str, list[str]]:
        """Return the brokers of a row by their role, those that are nothing to it left out."""
        found: dict[str, list[str]] = {}
        roles = self.serving.roles[row].tolist()
        for broker, role in zip(self.serving.view.brokers, roles, strict=True):
            if role:
                found.setdefault(ROLES[role], []).append(broker)
        return {role: by_name(names) for role, names in found.items()}

    def as_json(self) -> dict[str, Any]:
        """Return it as one JSON object."""
        return {
            "cluster": self.serving.view.cluster,
            "policies": [self._policy_json(at, row) for at, row in enumerate(self.serving.rows)],
            "unreadable_policies": dict(self.serving.view.unreadable_policies),
            "anti_affinity": {
                group: [
                    {
                        "namespace": member.namespace,
                        "bundles": member.bundles,
                        "brokers": list(member.brokers),
                        "domains": list(member.domains),
                    }
                    for member in self.spread.members(group)
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
                    "fixes": [
                        {
                            "why": fix.why,
                            "commands": [self._line(policy) for policy in fix.desired],
                        }
                        for fix in one.fixes
                    ],
                }
                for one in self.wrong
            ],
            "misplaced": _names(self.serving),
            "elsewhere": self.elsewhere or None,
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


@app.command()
def isolation(
    source: Source,
    namespace: Annotated[
        str | None, typer.Option(metavar="TENANT/NAMESPACE", help="Only this namespace.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show which brokers may serve which namespaces.

    Also shows misplaced bundles.
    """
    snapshot = pulsar_snapshot(source, config)
    settings = active_settings(snapshot)
    view = LoadView.of(snapshot, settings)
    serving = Serving.of(view, settings)
    if namespace is not None:
        return _of_namespace(serving, namespace, as_json=as_json)
    spread = GroupSpread(view, settings, serving)
    collisions = tuple(crowd for group in view.groups for crowd in spread.collisions(group))
    verdict = verdict_of(snapshot, settings)
    found = [finding for finding in verdict.findings if finding.code in CODES]
    report = _Report(
        serving,
        spread,
        collisions,
        failure_domains(snapshot.policies),
        violations(found, FixFinder(snapshot, serving), collisions),
        verdict.elsewhere(("policies",)),
    )
    return emit(Answer(report.as_json(), report.print), as_json=as_json)


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
        print_line(who_serves(serving, namespace))
        _print_misplaced(wrong)

    return emit(Answer(body, show), as_json=as_json)


def _print_misplaced(bundles: Sequence[str]) -> None:
    if not bundles:
        print_line("All its bundles are on allowed brokers.")
    else:
        print_line(f"Misplaced: {listed(bundles, 6)}.")
