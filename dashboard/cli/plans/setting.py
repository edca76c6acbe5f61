"""``trimtab set``: a plan that changes dynamic settings of a cluster; nothing is changed yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.plan.codec import dump_plan
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.pulsar.plan.preview import OtherPreview, preview_plan
from core.pulsar.plan.setting import build_setting_plan
from dashboard import services
from dashboard.cli.config import configured, words_of
from dashboard.cli.output import Answer, UsageFaultError, emit, say
from dashboard.cli.plans import answers
from dashboard.cli.plans.unload import nothing_to_do, refusal, tell_plan_file, write_plan
from dashboard.cli.source import pulsar_cluster


def _requested(changes: Sequence[str], unset: Sequence[str]) -> dict[str, str | None]:
    """Return key to value, in the order given.

    Raises:
        UsageFaultError: No ``=``, a key named twice, or nothing at all.
    """
    pairs: list[tuple[str, str | None]] = []
    for change in changes:
        key, sign, value = change.partition("=")
        if not sign:
            raise UsageFaultError(
                f"{change!r} has no value.", hint="Write KEY=VALUE, or --unset KEY."
            )
        pairs.append((key.strip(), value))
    pairs += [(key.strip(), None) for key in unset]
    found = dict(pairs)
    if not found:
        raise UsageFaultError("No setting was named.", hint="Write KEY=VALUE, or --unset KEY.")
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise UsageFaultError(f"{twice} is named twice.", hint="Name each setting once.")
    return found


def set_settings(
    config_file: Path | None,
    name: str,
    changes: Sequence[str],
    *,
    unset: Sequence[str],
    plan_file: Path | None,
    reason: str,
    as_json: bool,
) -> int:
    """``trimtab set``.

    Args:
        config_file: The configuration; ``None``: the usual one.
        name: Of the cluster.
        changes: ``KEY=VALUE``, VALUE as brokers write it.
        unset: Keys whose dynamic value is removed.
        plan_file: Where the plan goes; ``None``: nowhere.
        reason: Recorded in the plan.
        as_json: Whether one JSON object is printed.
    """
    wanted = _requested(changes, unset)
    config = configured(config_file)
    cluster = pulsar_cluster(config, name)
    snapshot = services.capture(cluster)
    terms = PlanOptions(now=services.now(), reason=reason, exclusions=frozenset(cluster.exclusions))
    plan = build_setting_plan(snapshot, wanted, terms)
    if errors := plan.by_severity("error"):
        raise refusal(errors)
    if not plan.steps:
        return nothing_to_do(plan.diagnostics, as_json=as_json)
    if plan_file is not None:
        write_plan(plan_file, dump_plan(plan))
    others = preview_plan(snapshot, plan).others
    body = {
        "plan": answers.plan(plan),
        "steps": [answers.other(item) for item in others],
        "path": str(plan_file) if plan_file else None,
    }
    more = words_of(config)
    return emit(Answer(body, lambda: _show(plan, others, plan_file, more)), as_json=as_json)


def _show(
    plan: Plan, others: Sequence[OtherPreview], plan_file: Path | None, config_words: str
) -> None:
    for item in others:
        say(item.sentence)
        say(f"  {item.command}")
        say(f"  {item.rest}")
    for found in plan.diagnostics:
        say(f"{found.severity}: {found.sentence} {found.hint}".rstrip())
    tell_plan_file(plan, plan_file, config_words)
