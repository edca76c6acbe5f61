"""``trimtab policy``: the policies of a cluster, and plans that change them; nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.plan.codec import dump_plan
from core.plan.options import PlanOptions
from core.planning.limit_effects import limit_effects
from core.pulsar.plan.policy import DesiredPolicy
from core.pulsar.plan.policy_impact import PolicyImpact
from core.pulsar.plan.policy_moves import PolicyOutlook, change_policies
from core.pulsar.plan.policy_state import policies_of
from core.pulsar.plan.preview import OtherPreview, preview_plan
from core.pulsar.policy_kinds import POLICY_KINDS, policy_kind
from core.pulsar.steps.policy import policy_steps
from dashboard import services
from dashboard.cli import plan_answers
from dashboard.cli.config import configured, words_of
from dashboard.cli.output import Answer, emit, say, table
from dashboard.cli.plan_answers import nothing_to_do, refusal, tell_plan_file, write_plan
from dashboard.cli.releases import active_settings
from dashboard.cli.source import pulsar_cluster

_SHOWN = 12


@dataclass(frozen=True)
class PolicyChange:
    """What is to be changed.

    Attributes:
        wish: The policy.
        plan_file: Where the plan goes.
        reason: Why; kept in the plan.
        with_unloads: Whether the plan also unloads what would lie wrong and nobody unloads.
    """

    wish: DesiredPolicy
    plan_file: Path | None
    reason: str = ""
    with_unloads: bool = False


def show_policies(config_file: Path | None, name: str, kind: str, *, as_json: bool) -> int:
    """``trimtab policy list``: what is set, of one kind or of all."""
    kinds = [policy_kind(kind)] if kind else list(POLICY_KINDS.values())
    snapshot = services.capture(pulsar_cluster(configured(config_file), name))
    found = {one.name: policies_of(snapshot, one.name) for one in kinds}

    def show() -> None:
        rows = [
            (policy, subject, value)
            for policy, values in found.items()
            for subject, value in values.items()
        ]
        table(("policy", "of", "value"), rows)
        if not rows:
            say("Nothing of that kind is set.")

    body = {policy: {key: _told(value) for key, value in v.items()} for policy, v in found.items()}
    return emit(Answer({"cluster": name, "policies": body}, show), as_json=as_json)


def _told(value: str) -> Any:
    """Return a document as JSON, a text as it is."""
    return json.loads(value) if value.startswith("{") else value


def change_policy(
    config_file: Path | None, name: str, change: PolicyChange, *, as_json: bool
) -> int:
    """``trimtab policy set`` and ``delete``: the plan, what it would do, and to whom."""
    config = configured(config_file)
    cluster = pulsar_cluster(config, name)
    snapshot = services.capture(cluster)
    terms = PlanOptions(
        now=services.now(), reason=change.reason, exclusions=frozenset(cluster.exclusions)
    )
    seen = change_policies(snapshot, [change.wish], terms, with_unloads=change.with_unloads)
    plan, impact = seen.plan, seen.impact
    if errors := plan.by_severity("error"):
        raise refusal(errors)
    if not plan.steps or impact is None:
        return nothing_to_do(plan.diagnostics, as_json=as_json)
    if change.plan_file is not None:
        write_plan(change.plan_file, dump_plan(plan))
    others = preview_plan(snapshot, plan).others
    limits = policy_steps(plan.steps)
    effects = limit_effects(snapshot, active_settings(snapshot), limits)
    body = {
        "plan": plan_answers.plan(plan),
        "steps": [plan_answers.other(item) for item in others],
        "impact": _impact_json(impact) | {"expected": _expected_json(seen)},
        "effects": effects,
        "path": str(change.plan_file) if change.plan_file else None,
    }
    more = words_of(config)
    shown = _Shown(seen, others, impact, change.plan_file, more, effects)
    return emit(Answer(body, shown.say), as_json=as_json)


def _impact_json(impact: PolicyImpact) -> dict[str, Any]:
    return {
        "namespaces": [
            {
                "namespace": one.namespace,
                "before": list(one.before),
                "after": list(one.after),
                "bundles": one.bundles,
                "must_move": list(one.misplaced),
            }
            for one in impact.changes
        ],
        "unloaded": list(impact.unloaded),
        "astray": list(impact.astray),
        "short": list(impact.short),
        "idle_brokers": list(impact.idle_brokers),
    }


def _expected_json(seen: PolicyOutlook) -> list[dict[str, Any]]:
    """Return where the bundles that are placed anew may land, a row a bundle."""
    if seen.course is None:
        return []
    return [
        {
            "bundle": one.step.bundle,
            "from": one.step.owner,
            "to": dict(one.placement.distribution),
        }
        for one in seen.course.steps
    ]


@dataclass(frozen=True)
class _Shown:
    """A planned change, for people."""

    seen: PolicyOutlook
    others: Sequence[OtherPreview]
    impact: PolicyImpact
    plan_file: Path | None
    config_words: str
    effects: Sequence[str]

    def say(self) -> None:
        """Print it."""
        for item in self.others:
            say(item.sentence)
            say(f"  {item.command}")
        for sentence in self.effects:
            say(sentence)
        for finding in self.seen.plan.diagnostics:
            say(f"{finding.severity}: {finding.sentence} {finding.hint}".rstrip())
        changes = self.impact.changes[:_SHOWN]
        table(
            ("namespace", "brokers before", "after", "bundles", "must move"),
            [
                (
                    one.namespace,
                    _brokers(one.before),
                    _brokers(one.after),
                    str(one.bundles),
                    str(len(one.misplaced)),
                )
                for one in changes
            ],
        )
        if len(self.impact.changes) > len(changes):
            say(f"... and {len(self.impact.changes) - len(changes)} more namespaces.")
        self._say_course()
        tell_plan_file(self.seen.plan, self.plan_file, self.config_words)

    def _say_course(self) -> None:
        """Print where bundles are expected to land, by broker."""
        if self.seen.course is None:
            return
        rows = self.seen.course.before_after.select(["broker", "departures", "arrivals"])
        touched = [row for row in rows.to_pylist() if row["departures"] or row["arrivals"]]
        table(
            ("broker", "leave", "come, expected"),
            [
                (row["broker"], f"{row['departures']:.0f}", f"{row['arrivals']:.1f}")
                for row in touched
            ],
        )


def _brokers(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
