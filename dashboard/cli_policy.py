"""``trimtab policy``: the policies of a cluster, and plans that change them; nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.plan.bare import Terms
from core.plan.codec import dump_plan
from core.plan.model import Plan
from core.plan.policy import PolicyWish, build_policy_plan
from core.plan.policy_impact import PolicyImpact, policy_impact
from core.plan.policy_kinds import POLICY_KINDS, policy_kind
from core.plan.policy_state import policies_of
from core.plan.preview import OtherPreview, preview_plan
from core.plan.steps import SetPolicy
from core.pulsar.settings import effective_settings
from dashboard import cli_plan_json, services
from dashboard.cli_config import configured, words_of
from dashboard.cli_output import Answer, emit, say, table
from dashboard.cli_plans import refusal, tell_plan_file, write_plan

_SHOWN = 12


@dataclass(frozen=True)
class PolicyChange:
    """What is to be changed.

    Attributes:
        wish: The policy.
        plan_file: Where the plan goes.
        reason: Why; kept in the plan.
    """

    wish: PolicyWish
    plan_file: Path | None
    reason: str = ""


def show_policies(config_file: Path | None, name: str, kind: str, *, as_json: bool) -> int:
    """``trimtab policy list``: what is set, of one kind or of all."""
    kinds = [policy_kind(kind)] if kind else list(POLICY_KINDS.values())
    snapshot = services.capture(configured(config_file).cluster(name))
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
    cluster = config.cluster(name)
    snapshot = services.capture(cluster)
    terms = Terms(
        now=services.now(), reason=change.reason, exclusions=frozenset(cluster.exclusions)
    )
    plan = build_policy_plan(snapshot, [change.wish], terms)
    if errors := plan.by_severity("error"):
        raise refusal(errors)
    if not plan.steps:
        raise refusal(plan.diagnostics)
    if change.plan_file is not None:
        write_plan(change.plan_file, dump_plan(plan))
    others = preview_plan(snapshot, plan).others
    steps = [step for step in plan.steps if isinstance(step, SetPolicy)]
    impact = policy_impact(snapshot, effective_settings(snapshot), steps)
    body = {
        "plan": cli_plan_json.plan(plan),
        "steps": [cli_plan_json.other(item) for item in others],
        "impact": _impact_json(impact),
        "path": str(change.plan_file) if change.plan_file else None,
    }
    more = words_of(config)
    shown = _Shown(plan, others, impact, change.plan_file, more)
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
        "idle_brokers": list(impact.idle_brokers),
    }


@dataclass(frozen=True)
class _Shown:
    """A planned change, for people."""

    plan: Plan
    others: Sequence[OtherPreview]
    impact: PolicyImpact
    plan_file: Path | None
    config_words: str

    def say(self) -> None:
        """Print it."""
        for item in self.others:
            say(item.sentence)
            say(f"  {item.command}")
        for finding in self.plan.diagnostics:
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
        tell_plan_file(self.plan, self.plan_file, self.config_words)


def _brokers(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
