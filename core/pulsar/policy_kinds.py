"""The policies of a Pulsar cluster that a step can set: where each lives, and its one form.

Brokers fill in what a request leaves out and answer in their own order of fields, so two texts of
one policy are compared in the form that :meth:`PolicyKind.canonical` gives.

Source: Pulsar ``admin.v2`` (``ResourceGroups``, ``Namespaces``, ``Clusters``, ``ResourceQuotas``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal
from urllib.parse import quote

from core.errors import InputError, UnknownNameError
from core.ids import namespace_of

_MOVED: Final = "Bundles that moved under the policy stay until they are unloaded."
_LIMITED: Final = "Messages that a limit delayed or let through stay delayed or sent."

Scope = Literal["cluster", "namespace", "bundle", "group"]
"""What the name of a policy names: itself, a namespace, a bundle (or ``default``), a group."""

DEFAULT_QUOTA_NAME: Final = "default"
UNLIMITED: Final = -1
ATTACHED: Final = "namespace_resource_group"
"""The one kind whose value is part of its address."""


@dataclass(frozen=True, kw_only=True)
class PolicyKind:
    """One kind of policy.

    Attributes:
        name: Stable name, recorded in plans.
        title: For people, with the name behind it.
        scope: What its name names.
        resource: Last part of its address.
        fields: Fields of its body and what brokers take for one that is left out; empty: its body
            is a plain text.
        optional: Fields that are stored if given and not filled in otherwise.
        put: Method that sets it.
        admin: ``pulsar-admin`` words that set it, without its values, and that remove it.
    """

    name: str
    title: str
    scope: Scope
    resource: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    put: Literal["POST", "PUT"] = "POST"
    admin: tuple[str, str]

    @property
    def not_undone(self) -> str:
        """Effects that remain after the value is reverted, one sentence."""
        is_placement = self.name in ("isolation", "anti_affinity", "failure_domain")
        return _MOVED if is_placement or self.scope == "bundle" else _LIMITED

    @property
    def is_limit(self) -> bool:
        """Whether it limits clients of namespaces."""
        return self.not_undone == _LIMITED

    @property
    def is_text(self) -> bool:
        """Whether it is a name, not a document."""
        return not self.fields

    def path(self, name: str, cluster: str) -> str:
        """Return its address below ``/admin/v2/``.

        Args:
            name: Of the policy, namespace or bundle.
            cluster: The cluster's own name.
        """
        if self.scope == "cluster":
            return f"clusters/{quote(cluster, safe='')}/{self.resource}/{quote(name, safe='')}"
        if self.scope == "group":
            return f"{self.resource}/{quote(name, safe='')}"
        if self.scope == "namespace":
            return f"namespaces/{quote(name, safe='/')}/{self.resource}"
        if name == DEFAULT_QUOTA_NAME:
            return self.resource
        bundle = quote(name.rpartition("/")[2], safe="")
        return f"{self.resource}/{quote(namespace_of(name), safe='/')}/{bundle}"

    def canonical(self, text: str) -> str:
        """Return the one form of a value: known fields only, those left out filled in.

        Raises:
            InputError: It is no such document.
        """
        if self.is_text:
            return text
        try:
            body = json.loads(text)
        except (ValueError, RecursionError) as exc:
            raise InputError(
                f"A {self.title} must be JSON; {text[:60]!r} is not: {exc}.", hint=self._form_hint()
            ) from exc
        if not isinstance(body, dict):
            raise InputError(
                f"A {self.title} must be a JSON object, not {text[:60]!r}.", hint=self._form_hint()
            )
        whole = {key: _like(default, body.get(key)) for key, default in self.fields.items()}
        whole |= {key: body[key] for key in self.optional if body.get(key) is not None}
        return json.dumps(whole, sort_keys=True, separators=(",", ":"))

    def _form_hint(self) -> str:
        return f"Use fields and values, for example {json.dumps(dict(self.fields))}."

    def check_fields(self, text: str) -> None:
        """Refuse a document with an unknown field, which brokers would drop silently.

        Raises:
            InputError: It is no such document.
            UnknownNameError: A field that there is not.
        """
        self.canonical(text)
        for field_name in () if self.is_text else json.loads(text):
            if field_name not in (*self.fields, *self.optional):
                known = (*self.fields, *self.optional)
                raise UnknownNameError.of("field", field_name, known, place=f"the {self.title}")

    def is_same(self, left: str | None, right: str | None) -> bool:
        """Return whether two values mean the same; ``None`` if not set."""
        if left is None or right is None:
            return left is right
        try:
            return self.canonical(left) == self.canonical(right)
        except InputError:
            return left == right


def _like(default: Any, value: Any) -> Any:
    """Return a value in the form of its default; lists of names have no order."""
    if value is None:
        return default
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(str(value))  # endless beyond a double's range, where float(int) raises
    if isinstance(default, tuple) and isinstance(value, list):
        return sorted(value, key=str)
    return value


def _fields(**defaults: Any) -> Mapping[str, Any]:
    return MappingProxyType(defaults)


_DISPATCH: Final = _fields(
    dispatchThrottlingRateInMsg=UNLIMITED,
    dispatchThrottlingRateInByte=UNLIMITED,
    relativeToPublishRate=False,
    ratePeriodInSecond=1,
)

POLICY_KINDS: Final[Mapping[str, PolicyKind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            PolicyKind(
                name="resource_group",
                title="resource group",
                scope="group",
                resource="resourcegroups",
                fields=_fields(
                    publishRateInMsgs=UNLIMITED,
                    publishRateInBytes=UNLIMITED,
                    dispatchRateInMsgs=UNLIMITED,
                    dispatchRateInBytes=UNLIMITED,
                ),
                put="PUT",
                admin=("resourcegroups update", "resourcegroups delete"),
            ),
            PolicyKind(
                name="namespace_resource_group",
                title="resource group of namespace",
                scope="namespace",
                resource="resourcegroup",
                admin=("namespaces set-resource-group", "namespaces remove-resource-group"),
            ),
            PolicyKind(
                name="publish_rate",
                title="publish rate of namespace",
                scope="namespace",
                resource="publishRate",
                fields=_fields(
                    publishThrottlingRateInMsg=UNLIMITED, publishThrottlingRateInByte=UNLIMITED
                ),
                admin=("namespaces set-publish-rate", "namespaces remove-publish-rate"),
            ),
            PolicyKind(
                name="dispatch_rate",
                title="dispatch rate of namespace",
                scope="namespace",
                resource="dispatchRate",
                fields=_DISPATCH,
                admin=("namespaces set-dispatch-rate", "namespaces remove-dispatch-rate"),
            ),
            PolicyKind(
                name="subscription_dispatch_rate",
                title="subscription dispatch rate of namespace",
                scope="namespace",
                resource="subscriptionDispatchRate",
                fields=_DISPATCH,
                admin=(
                    "namespaces set-subscription-dispatch-rate",
                    "namespaces remove-subscription-dispatch-rate",
                ),
            ),
            PolicyKind(
                name="replicator_dispatch_rate",
                title="replicator dispatch rate of namespace",
                scope="namespace",
                resource="replicatorDispatchRate",
                fields=_DISPATCH,
                admin=(
                    "namespaces set-replicator-dispatch-rate",
                    "namespaces remove-replicator-dispatch-rate",
                ),
            ),
            PolicyKind(
                name="subscribe_rate",
                title="subscribe rate of namespace",
                scope="namespace",
                resource="subscribeRate",
                fields=_fields(subscribeThrottlingRatePerConsumer=UNLIMITED, ratePeriodInSecond=30),
                admin=("namespaces set-subscribe-rate", "namespaces remove-subscribe-rate"),
            ),
            PolicyKind(
                name="resource_quota",
                title="resource quota of bundle",
                scope="bundle",
                resource="resource-quotas",
                fields=_fields(
                    msgRateIn=0.0,
                    msgRateOut=0.0,
                    bandwidthIn=0.0,
                    bandwidthOut=0.0,
                    memory=0.0,
                    dynamic=True,
                ),
                admin=("resource-quotas set", "resource-quotas reset-namespace-bundle-quota"),
            ),
            PolicyKind(
                name="isolation",
                title="isolation policy",
                scope="cluster",
                resource="namespaceIsolationPolicies",
                fields=_fields(namespaces=(), primary=(), secondary=(), auto_failover_policy=None),
                optional=("unload_scope",),
                admin=("ns-isolation-policy set", "ns-isolation-policy delete"),
            ),
            PolicyKind(
                name="anti_affinity",
                title="anti-affinity group of namespace",
                scope="namespace",
                resource="antiAffinity",
                admin=(
                    "namespaces set-anti-affinity-group",
                    "namespaces delete-anti-affinity-group",
                ),
            ),
            PolicyKind(
                name="failure_domain",
                title="failure domain",
                scope="cluster",
                resource="failureDomains",
                fields=_fields(brokers=()),
                admin=("clusters update-failure-domain", "clusters delete-failure-domain"),
            ),
        )
    }
)
"""By name, in the order in which people are shown them."""


def policy_kind(name: str) -> PolicyKind:
    """Return a kind of policy.

    Raises:
        UnknownNameError: There is none of that name; the hint offers near ones.
    """
    if name not in POLICY_KINDS:
        raise UnknownNameError.of("kind of policy", name, POLICY_KINDS)
    return POLICY_KINDS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """One policy that is set or removed.

    Attributes:
        policy: Its kind, a key of :data:`POLICY_KINDS`.
        name: Of the policy, or of its namespace or bundle.
        before: Value when the change was planned; ``None`` if not set.
        value: New value, a JSON document or a plain text; ``None`` if removed.
        cluster: The cluster's own name, part of some addresses.
    """

    policy: str
    name: str
    before: str | None = None
    value: str | None = None
    cluster: str = ""

    @property
    def subject(self) -> str:
        """Kind and name."""
        return f"{policy_kind(self.policy).title} {self.name}"

    @property
    def path(self) -> str:
        """Address of the request below ``/admin/v2/``, with the value where that is part of it."""
        path = policy_kind(self.policy).path(self.name, self.cluster)
        if self.policy != ATTACHED or self.value is None:
            return path
        return f"{path}/{quote(self.value, safe='')}"
