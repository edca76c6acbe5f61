"""Set a policy: everything Trimtab knows about this kind of step but how to send it.

The other half is :mod:`connectors.pulsar.actions.policy`; the policies there are, with their
addresses and documents, are :mod:`core.pulsar.policy_kinds`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from core.ids import namespace_of
from core.pulsar.policy_kinds import ATTACHED, DEFAULT_QUOTA_NAME, PolicyChange, policy_kind
from core.pulsar.steps.base import AdminRequest, Checks, PulsarStep
from core.step import Diagnostic, Executed, Inverse, Phrase, SettingChange

NOT_THERE: Final = "not set"
"""Label of a policy that does not exist."""

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


class SetPolicy(PulsarStep, frozen=True, kw_only=True, tag="set_policy"):
    """Set a policy of the cluster or of a namespace, or remove it.

    Attributes:
        policy: Its kind, a key of :data:`core.pulsar.policy_kinds.POLICY_KINDS`.
        name: Of the policy, or of the namespace or bundle whose it is.
        before: What it was when the plan was made, ``None`` if it was not set. The precondition.
        value: What it shall be, a JSON document or a plain text; ``None`` if removed.
        cluster: The cluster's own name, part of some addresses.
    """

    phrase: ClassVar[Phrase] = Phrase("change", "policy", "changed", "was changed", order=3)

    policy: str
    name: str
    before: str | None = None
    value: str | None = None
    cluster: str = ""

    @property
    def subject(self) -> str:
        """Kind and name."""
        return self.policy_change.subject

    @property
    def namespace(self) -> str | None:
        """The namespace whose it is."""
        scope = policy_kind(self.policy).scope
        if scope == "namespace":
            return self.name
        is_bundle = scope == "bundle" and self.name != DEFAULT_QUOTA_NAME
        return namespace_of(self.name) if is_bundle else None

    # -- capabilities ---------------------------------------------------------------------------

    @property
    def policy_change(self) -> PolicyChange:
        """The policy, as code that knows no kind of step reads it."""
        return PolicyChange(
            policy=self.policy,
            name=self.name,
            before=self.before,
            value=self.value,
            cluster=self.cluster,
        )

    @property
    def setting(self) -> SettingChange:
        """The policy."""
        return SettingChange(self.before, self.value, is_persistent=True)

    @property
    def is_assumed(self) -> bool:
        """Unloads after it are checked under the policy."""
        return True

    @property
    def lets_others_move(self) -> bool:
        """Brokers do where it is about placement."""
        return not policy_kind(self.policy).is_limit

    @property
    def not_undone(self) -> str:
        """Effects on brokers and clients under the policy."""
        return policy_kind(self.policy).not_undone

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return ``Set the publish rate of namespace acme/x to {...} (until now not set)``."""
        if self.value is None:
            return f"Remove the {self.subject}, which is {self.before}"
        return f"Set the {self.subject} to {self.value} ({self._describe_before()})"

    def describe_progress(self) -> str:
        """Return ``Setting the publish rate of namespace acme/x``."""
        return f"{'Removing' if self.value is None else 'Setting'} the {self.subject}"

    def describe_dry_run(self, holder: str | None = None) -> str:
        """Return the policy that would be set or removed."""
        del holder
        if self.value is None:
            return f"The {self.subject}, {self.before}, would be removed."
        return f"The {self.subject} would be set to {self.value} ({self._describe_before()})."

    def _describe_before(self) -> str:
        return f"currently {NOT_THERE if self.before is None else self.before}"

    def admin_words(self) -> list[str]:
        """Return the words that set or remove its kind."""
        setting, removing = policy_kind(self.policy).admin
        words = [*(removing if self.value is None else setting).split(), *self._name_words()]
        return words if self.value is None else [*words, *self._value_words(self.value)]

    def _name_words(self) -> Iterator[str]:
        match policy_kind(self.policy).scope:
            case "cluster" if self.policy == "failure_domain":
                yield from (self.cluster, "--domain-name", self.name)
            case "cluster":
                yield from (self.cluster, self.name)
            case "bundle":
                if self.name != DEFAULT_QUOTA_NAME:
                    yield from ("--namespace", namespace_of(self.name))
                    yield from ("--bundle", self.name.rpartition("/")[2])
            case _:
                yield self.name

    def _value_words(self, value: str) -> Iterator[str]:
        if self.policy == "namespace_resource_group":
            yield from ("--resource-group-name", value)
        elif self.policy == "anti_affinity":
            yield from ("--group", value)
        else:
            body: dict[str, Any] = json.loads(value)
            if self.policy == "isolation":
                yield from _isolation_words(body)
            elif self.policy == "failure_domain":
                yield from ("--broker-list", ",".join(body["brokers"]))
            for field, option in _OPTIONS.get(self.policy, {}).items():
                if field in body:
                    yield from (option, f"{body[field]}")
            if body.get("relativeToPublishRate"):
                yield "--relative-to-publish-rate"

    def request(self) -> AdminRequest:
        """Return the request that sets its document, or the ``DELETE``."""
        method = "DELETE" if self.value is None else policy_kind(self.policy).put
        body = None if self.policy == ATTACHED else self.value
        return AdminRequest(method, self.policy_change.path, body)

    # -- precondition and inverse ---------------------------------------------------------------

    def check(self, checks: Checks) -> Diagnostic | None:
        """Check that it can be set and does no harm, with the policies that are set before it."""
        return checks.policy(self)

    def inverse(self, done: Executed, checks: Checks) -> Inverse:
        """Return the step that sets the policy of before, unless it was changed since."""
        if done.state == "UNKNOWN":
            return self._stays(
                "undo_unknown",
                f"Whether the {self.subject} was changed is unknown: it is not reverted.",
                "Check it, and set it manually if needed.",
            )
        if done.state != "DONE" or done.before is None:
            return Inverse()
        before = done.before.value
        kind = policy_kind(self.policy)
        held = checks.stored_policy(self.policy, self.name)
        if kind.is_same(held, before):
            return Inverse(
                finding=Diagnostic(
                    severity="info",
                    code="undo_not_needed",
                    sentence=f"The {self.subject} is already {held or NOT_THERE}, as before.",
                    subject=self.subject,
                )
            )
        if kind.is_same(held, self.value):
            return Inverse(SetPolicy(policy=self.policy, name=self.name, before=held, value=before))
        return self._stays(
            "undo_changed_since",
            f"The {self.subject} is now {held or NOT_THERE}; the run left it at "
            f"{self.value or NOT_THERE}: it was changed externally.",
            "Find out who changed it, and set it manually if it still has to be reverted.",
        )

    def _stays(self, code: str, sentence: str, hint: str) -> Inverse:
        return Inverse(
            finding=Diagnostic(
                severity="warning", code=code, sentence=sentence, subject=self.subject, hint=hint
            )
        )


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
    text = ",".join(f"{key}={parameters[key]}" for key in sorted(parameters))
    yield from ("--auto-failover-policy-params", text)
    if body.get("unload_scope"):
        yield from ("--unload-scope", str(body["unload_scope"]))
