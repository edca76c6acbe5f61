"""The ``pulsar-admin`` line that sets or removes a policy by hand."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from core.ids import namespace_of
from core.plan.policy_kinds import DEFAULT_QUOTA_NAME, policy_kind
from core.plan.steps import SetPolicy

_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "resource_group": {
        "publishRateInMsgs": "--msg-publish-rate",
        "publishRateInBytes": "--byte-publish-rate",
        "dispatchRateInMsgs": "--msg-dispatch-rate",
        "dispatchRateInBytes": "--byte-dispatch-rate",
    },
    "publish_rate": {
        "publishThrottlingRateInMsg": "--msg-publish-rate",
        "publishThrottlingRateInByte": "--byte-publish-rate",
    },
    "dispatch_rate": {
        "dispatchThrottlingRateInMsg": "--msg-dispatch-rate",
        "dispatchThrottlingRateInByte": "--byte-dispatch-rate",
        "ratePeriodInSecond": "--dispatch-rate-period",
    },
    "subscription_dispatch_rate": {
        "dispatchThrottlingRateInMsg": "--msg-dispatch-rate",
        "dispatchThrottlingRateInByte": "--byte-dispatch-rate",
        "ratePeriodInSecond": "--dispatch-rate-period",
    },
    "replicator_dispatch_rate": {
        "dispatchThrottlingRateInMsg": "--msg-dispatch-rate",
        "dispatchThrottlingRateInByte": "--byte-dispatch-rate",
        "ratePeriodInSecond": "--dispatch-rate-period",
    },
    "subscribe_rate": {
        "subscribeThrottlingRatePerConsumer": "--subscribe-rate",
        "ratePeriodInSecond": "--subscribe-rate-period",
    },
    "resource_quota": {
        "msgRateIn": "--msgRateIn",
        "msgRateOut": "--msgRateOut",
        "bandwidthIn": "--bandwidthIn",
        "bandwidthOut": "--bandwidthOut",
        "memory": "--memory",
    },
}
"""By kind: field to option."""


def policy_line(step: SetPolicy) -> str:
    """Return the line, quoted for a shell."""
    kind = policy_kind(step.policy)
    words = ["pulsar-admin", *kind.admin[0 if step.value is not None else 1].split()]
    words += list(_name_words(step))
    if step.value is not None:
        words += list(_value_words(step, step.value))
    return shlex.join(words)


def _name_words(step: SetPolicy) -> Iterator[str]:
    match policy_kind(step.policy).scope:
        case "cluster" if step.policy == "failure_domain":
            yield from (step.cluster, "--domain-name", step.name)
        case "cluster":
            yield from (step.cluster, step.name)
        case "bundle":
            if step.name != DEFAULT_QUOTA_NAME:
                yield from ("--namespace", namespace_of(step.name))
                yield from ("--bundle", step.name.rpartition("/")[2])
        case _:
            yield step.name


def _value_words(step: SetPolicy, value: str) -> Iterator[str]:
    if step.policy == "namespace_resource_group":
        yield from ("--resource-group-name", value)
    elif step.policy == "anti_affinity":
        yield from ("--group", value)
    else:
        body: dict[str, Any] = json.loads(value)
        if step.policy == "isolation":
            yield from _isolation_words(body)
        elif step.policy == "failure_domain":
            yield from ("--broker-list", ",".join(body["brokers"]))
        for field, option in _OPTIONS.get(step.policy, {}).items():
            if field in body:
                yield from (option, f"{body[field]}")
        if body.get("relativeToPublishRate"):
            yield "--relative-to-publish-rate"


def _isolation_words(body: Mapping[str, Any]) -> Iterator[str]:
    for field, option in (
        ("namespaces", "--namespaces"),
        ("primary", "--primary"),
        ("secondary", "--secondary"),
    ):
        if body.get(field):
            yield from (option, ",".join(body[field]))
    failover = body.get("auto_failover_policy") or {}
    parameters = failover.get("parameters", {})
    yield from ("--auto-failover-policy-type", str(failover.get("policy_type", "min_available")))
    told = ",".join(f"{key}={parameters[key]}" for key in sorted(parameters))
    yield from ("--auto-failover-policy-params", told)
    if body.get("unload_scope"):
        yield from ("--unload-scope", str(body["unload_scope"]))
