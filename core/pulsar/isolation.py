"""Isolation policies, and the two methods by which Pulsar matches brokers against them.

The load manager matches the *host* of a broker id; the REST view
``/namespaceIsolationPolicies/brokers`` matches ``host:port``. A policy may therefore look right in
one and leave no broker at all in the other.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow as pa

from core.ids import host_of
from core.pulsar.java.pattern import PatternError, PatternSet, UnsupportedPatternError

Role = Literal["primary", "secondary", "none"]

UNREADABLE: Final = (
    *(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError),
)
"""What a stored policy may hold that cannot be read; PatternError is a ValueError."""

_PORT: Final = re.compile(r":(?:\d+|\.\*|\\d\+|\[0-9\]\+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationPolicy:
    """One namespace isolation policy of a cluster.

    Attributes:
        name: Its name.
        namespaces: Regular expressions over ``tenant/namespace``.
        primary: Regular expressions over brokers that serve these namespaces.
        secondary: Regular expressions over brokers that step in.
        min_limit: Secondaries step in while fewer primaries than this are there.
        usage_threshold: Percent; stored, yet placement does not use it.
        unload_scope: What setting the policy unloads; ``None`` means ``changed``.
    """

    name: str
    namespaces: tuple[str, ...]
    primary: tuple[str, ...]
    secondary: tuple[str, ...]
    min_limit: int
    usage_threshold: int
    unload_scope: str | None = None
    _expressions: dict[str, PatternSet] = field(default_factory=dict, repr=False, compare=False)

    def governs(self, namespace: str) -> bool:
        """Return whether one of the namespace expressions matches the whole name."""
        return self._expressions["namespaces"].match(namespace)

    def role_of(self, text: str) -> Role:
        """Return the role of a host, or of a ``host:port``, whichever text is given."""
        if self._expressions["primary"].match(text):
            return "primary"
        return "secondary" if self._expressions["secondary"].match(text) else "none"

    def placement_role_of(self, broker: str, release: str) -> Role:
        """Return the role that placement gives to a broker id.

        Args:
            broker: ``host:port``.
            release: Since 5.0 the whole id may match as well as the host.
        Source:
            Pulsar ``NamespaceIsolationPolicyImpl#isPrimaryBroker``, called with the host by
            ``LoadManagerShared#applyNamespacePolicies``.
        """
        by_host = self.role_of(host_of(broker))
        if by_host == "primary" or release < "5.0":
            return by_host
        by_id = self.role_of(broker)
        return by_id if by_id == "primary" or by_host == "none" else by_host


@dataclass(frozen=True, slots=True, kw_only=True)
class MatcherDifference:
    """A broker whose role under a policy differs between placement and the REST view."""

    policy: str
    broker: str
    placement_role: Role
    rest_role: Role

    @property
    def sentence(self) -> str:
        """The message."""
        return (
            f"Isolation policy {self.policy!r}: placement treats {self.broker} as "
            f"{_ROLE_WORDS[self.placement_role]}, the REST view as "
            f"{_ROLE_WORDS[self.rest_role]}; placement matches only the host, so an "
            "expression must not contain a port."
        )


_ROLE_WORDS: Final = {"primary": "primary", "secondary": "secondary", "none": "neither"}


def parse_isolation_policies(
    policies: pa.Table,
) -> tuple[tuple[IsolationPolicy, ...], tuple[str, ...]]:
    """Return the isolation policies in stored order, and sentences about unreadable ones.

    Args:
        policies: Table of :data:`core.schemas.pulsar.POLICIES`.
    """
    parsed, faults = _read_policies(policies)
    problems = []
    for name, exc in faults:
        effect = "apply it" if isinstance(exc, UnsupportedPatternError) else "may ignore it"
        problems.append(
            f"Isolation policy {name!r} cannot be read ({exc}); it is skipped, so "
            f"placement may be more restricted than shown. Brokers {effect}."
        )
    return tuple(parsed), tuple(problems)


def unreadable_isolation_policies(policies: pa.Table) -> dict[str, str]:
    """Return ``{name: reason}`` of the isolation policies that cannot be read, in stored order.

    Args:
        policies: Table of :data:`core.schemas.pulsar.POLICIES`.
    """
    return {name: str(exc) for name, exc in _read_policies(policies)[1]}


def _read_policies(
    policies: pa.Table,
) -> tuple[list[IsolationPolicy], list[tuple[str, Exception]]]:
    """Return the policies that can be read, and name and fault of those that cannot."""
    parsed: list[IsolationPolicy] = []
    faults: list[tuple[str, Exception]] = []
    for row in policies.to_pylist():
        if row["kind"] != "isolation":
            continue
        try:
            parsed.append(_parse_policy(row["name"], json.loads(row["body"])))
        except UNREADABLE as exc:
            faults.append((row["name"], exc))
    return parsed, faults


def _parse_policy(name: str, body: dict[str, object]) -> IsolationPolicy:
    texts = {key: _texts(body, key) for key in ("namespaces", "primary", "secondary")}
    failover = body.get("auto_failover_policy") or {}
    parameters = failover.get("parameters") or {}  # type: ignore[attr-defined]  # the caller names what is not an object
    scope = body.get("unload_scope")
    return IsolationPolicy(
        name=name,
        namespaces=texts["namespaces"],
        primary=texts["primary"],
        secondary=texts["secondary"],
        min_limit=int(parameters["min_limit"]),
        usage_threshold=int(parameters.get("usage_threshold", 100)),
        unload_scope=None if scope is None else str(scope),
        _expressions={key: _field_patterns(key, values) for key, values in texts.items()},
    )


def _field_patterns(key: str, expressions: tuple[str, ...]) -> PatternSet:
    try:
        return _compile(expressions)
    except PatternError as exc:
        raise type(exc)(f"the {key} expression {exc}") from exc


def _texts(body: dict[str, object], key: str) -> tuple[str, ...]:
    values = body.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{key} is not a list of strings")
    return tuple(values)


@functools.lru_cache(maxsize=1024)
def _compile(expressions: tuple[str, ...]) -> PatternSet:
    return PatternSet(expressions)


def host_expression(host: str) -> str:
    """Return an expression for just the host of a broker, as placement compares it."""
    return re.escape(host).replace("\\-", "-")


def without_port(expression: str) -> str:
    """Return an expression without the port that placement never compares."""
    return _PORT.sub("", expression)


def matcher_of(expressions: Iterable[str]) -> Callable[[str], bool]:
    """Return a matcher of whole texts for Java expressions.

    Raises:
        PatternError: One of them cannot be evaluated.
    """
    return _compile(tuple(expressions)).match


def matcher_differences(
    policies: Iterable[IsolationPolicy], brokers: Iterable[str], release: str
) -> tuple[MatcherDifference, ...]:
    """Return the differences of the REST view of a policy from placement."""
    brokers = tuple(brokers)
    found = []
    for policy in policies:
        for broker in brokers:
            placement_role = policy.placement_role_of(broker, release)
            rest_role = policy.role_of(broker)
            if placement_role != rest_role:
                found.append(
                    MatcherDifference(
                        policy=policy.name,
                        broker=broker,
                        placement_role=placement_role,
                        rest_role=rest_role,
                    )
                )
    return tuple(found)


def governing_policy(policies: Iterable[IsolationPolicy], namespace: str) -> IsolationPolicy | None:
    """Return the first policy, in stored order, that matches the namespace.

    Source:
        Pulsar ``NamespaceIsolationPolicies#getPolicyByNamespace``.
    """
    return next((policy for policy in policies if policy.governs(namespace)), None)


def parse_failure_domains(policies: pa.Table) -> dict[str, str]:
    """Return ``{broker id: domain}`` out of the ``failure_domain`` rows; unreadable rows add none.

    Source:
        Pulsar ``LoadManagerShared#refreshBrokerToFailureDomainMap``.
    """
    return {
        broker: domain
        for domain, brokers in failure_domains(policies).items()
        for broker in brokers
    }


def failure_domains(policies: pa.Table) -> dict[str, tuple[str, ...]]:
    """Return the brokers of each failure domain, as stored; unreadable rows have none."""
    found: dict[str, tuple[str, ...]] = {}
    for row in policies.to_pylist():
        if row["kind"] != "failure_domain":
            continue
        try:
            brokers = json.loads(row["body"]).get("brokers")
        except UNREADABLE:
            brokers = None
        is_list = isinstance(brokers, list)
        found[row["name"]] = tuple(str(one) for one in brokers) if is_list else ()
    return found
