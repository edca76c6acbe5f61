"""A condition of the shedding strategy does not hold, so nothing is unloaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.diagnosis.pulsar.context import Candidate, DiagnosisContext, with_setting
from core.diagnosis.pulsar.trials import SHEDDING
from core.diagnosis.pulsar.values import alternatives
from core.pulsar.settings import SETTING_BY_KEY
from core.pulsar.shedding import Gate
from core.units import pluralize

_AMOUNTS: Final = (
    "minUnloadMessage",
    "minUnloadMessageThroughput",
    "loadBalancerBundleUnloadMinThroughputThreshold",
)
"""Settings that forbid a round for too small an amount."""

_COUNTS: Final = (
    "loadBalancerAvgShedderHitCountLowThreshold",
    "loadBalancerAvgShedderHitCountHighThreshold",
    "loadBalancerSheddingConditionHitCountThreshold",
)
"""Settings that count rounds before one acts."""


def code_of(key: str) -> str:
    """Return the code of a cause that one deciding setting is."""
    if key in _AMOUNTS:
        return "unload_too_small"
    return "hit_count" if key in _COUNTS else "threshold_not_reached"


def condition_not_met(context: DiagnosisContext) -> Iterator[Candidate]:
    """Nothing is shed though the load is uneven: the settings that decide it, one by one."""
    if not context.is_idle or context.settings.shedding_off:
        return
    if not context.end.converges:
        return  # it sheds: where to, is the question
    gate = _shut_gate(context)
    idle = context.idle_brokers
    for key in context.strategy.deciding:
        values = alternatives(key, context.settings, context.view)
        if not values or key not in context.reads():
            continue
        code = code_of(key)
        if idle and code == "threshold_not_reached":
            code = "broker_gets_nothing"
        yield Candidate(
            code=code,
            keys=(key, *(other for other in context.strategy.deciding if other != key)),
            objects=idle or tuple(filter(None, (context.busiest,))),
            summary=_summary(context, key, gate),
            changes=with_setting(context, key, *values),
            measured=gate.measured if gate else None,
            threshold=gate.threshold if gate else None,
            unit=gate.unit if gate else "",
        )


def absolute_usage(context: DiagnosisContext) -> Iterator[Candidate]:
    """The strategy uses absolute usage only: brokers below its limit are never balanced."""
    if context.strategy.evens_load or not context.is_idle:
        return
    limits = " and ".join(
        f"{key} ({context.settings.number(key):g})" for key in context.strategy.deciding
    )
    yield Candidate(
        code="strategy_ignores_spread",
        keys=(SHEDDING,),
        summary=f"{context.strategy.name} relieves only brokers above {limits}; smaller "
        "differences are ignored.",
        changes=tuple(
            change
            for name in alternatives(SHEDDING, context.settings, context.view)
            for change in with_setting(context, SHEDDING, name)
        ),
        tier=1,
    )


def _shut_gate(context: DiagnosisContext) -> Gate | None:
    """Return the condition that keeps the busiest broker from shedding."""
    gate = context.explanation.deciding_gate(context.busiest) if context.busiest else None
    if gate is not None and not gate.is_open:
        return gate
    shut = [
        gate
        for trace in context.explanation.of_cluster
        for gate in trace.gates
        if not gate.is_open and not gate.is_alternative
    ]
    return shut[0] if shut else gate


def _summary(context: DiagnosisContext, key: str, gate: Gate | None) -> str:
    setting = SETTING_BY_KEY[key]
    value = (
        f"{context.settings.value(key)}".lower()
        if setting.kind == "bool"
        else (f"{context.settings.number(key):g}")
    )
    idle = context.idle_brokers
    who = idle[0] if len(idle) == 1 else pluralize(len(idle), "broker")
    head = f"Almost no load on {who}: " if idle else ""
    if gate is None:
        return f"{head}{context.strategy.name} sheds nothing; {key} is {value}."
    is_own = gate.name == "usage" and bool(context.busiest)
    source = context.usage_source(context.busiest) if is_own else ""
    text = f"{context.busiest} {gate.sentence}" if is_own else gate.sentence
    if not head and not is_own:  # names of brokers stay as they are
        text = f"{text[:1].upper()}{text[1:]}"
    return f"{head}{text}{f' ({source})' if source else ''}; {key} is {value}."
