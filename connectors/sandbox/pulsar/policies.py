"""What operators configured: isolation, failure domains, groups, dynamic settings, quotas."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

import msgspec

from connectors.sandbox.pulsar import documents
from connectors.sandbox.pulsar.documents import Json
from connectors.sandbox.pulsar.options import VERSION, SandboxOptions
from connectors.sandbox.pulsar.state import Broker, FleetState
from core.pulsar.presets import upstream_words
from core.pulsar.releases import Release
from core.pulsar.settings import SETTING_BY_KEY, SETTINGS

RATE_FIELDS: Final = {
    "publishRate": "publishMaxMessageRate",
    "dispatchRate": "topicDispatchRate",
    "subscriptionDispatchRate": "subscriptionDispatchRate",
    "replicatorDispatchRate": "replicatorDispatchRate",
    "subscribeRate": "clusterSubscribeRate",
}
"""Last part of a rate's address, and where it is in the policies of a namespace."""

ISOLATION_NAME: Final = "payments-apart"
GROUP_NAME: Final = "books"
_INTEGER: Final = re.compile(r"[+-]?\d+\Z")
_DECIMAL: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z")


@dataclass(slots=True)
class Policies:
    """Cluster-wide configuration as the brokers see it.

    Attributes:
        isolation: Isolation policies by name; ``None`` until the first one was made.
        domains: Failure domains by name.
        groups: Anti-affinity group by namespace.
        dynamic: Dynamic settings that are set, as the operator wrote them.
        quotas: Resource quotas by bundle; the key ``default`` is everybody's.
        resource_groups: Limits by name.
        attached: Resource group by namespace.
        rates: By namespace: field of its policies to the rate there.
        storage: By namespace: fields of its policies that are about its data.
        file_values: Value of every setting at start.
        dynamic_names: Settings that may be set while the brokers run.
    """

    isolation: dict[str, Json] | None
    domains: dict[str, Json]
    groups: dict[str, str]
    dynamic: dict[str, str]
    file_values: dict[str, str]
    dynamic_names: tuple[str, ...]
    quotas: dict[str, Json] = field(default_factory=dict)
    resource_groups: dict[str, Json] = field(default_factory=dict)
    attached: dict[str, str] = field(default_factory=dict)
    rates: dict[str, dict[str, Json]] = field(default_factory=dict)
    storage: dict[str, Json] = field(default_factory=dict)

    def document(self, namespace: str, boundaries: Any, cluster: str) -> Json:
        """Return ``/admin/policies`` of a namespace with its rates and its resource group."""
        whole = documents.policies(boundaries, cluster) | self.storage.get(namespace, {})
        return whole | self.limits(namespace, cluster)

    def limits(self, namespace: str, cluster: str) -> Json:
        """Return the fields of a namespace's policies that limit it."""
        rates = self.rates.get(namespace, {}).items()
        found: Json = {name: {cluster: rate} for name, rate in rates}
        if namespace in self.attached:
            found["resource_group_name"] = self.attached[namespace]
        return found

    def running_values(self) -> dict[str, str]:
        """Return the value of every setting as it runs: a value of the wrong type never takes.

        Source:
            Observed on 4.2.4: ``abc`` for a number keeps the old one, ``maybe`` for a switch is
            ``false``.
        """
        values = dict(self.file_values)
        for name, text in self.dynamic.items():
            values[name] = _taken(values.get(name, ""), text)
        return values


def _taken(current: str, text: str) -> str:
    if current in ("true", "false"):
        return "true" if text.lower() == "true" else "false"
    if _INTEGER.match(current):
        return text if _INTEGER.match(text) else current
    if _DECIMAL.match(current):
        return str(float(text)) if _DECIMAL.match(text) else current
    return text


_LIMITS: Final[dict[str, dict[str, Json]]] = {
    "acme/orders": {
        "publishMaxMessageRate": {
            "publishThrottlingRateInMsg": 250,
            "publishThrottlingRateInByte": -1,
        }
    },
    "globex/payments": {
        "publishMaxMessageRate": {
            "publishThrottlingRateInMsg": 270,
            "publishThrottlingRateInByte": 1_000_000,
        }
    },
    "initech/telemetry": {
        "topicDispatchRate": {
            "dispatchThrottlingRateInMsg": 1_000,
            "dispatchThrottlingRateInByte": -1,
            "relativeToPublishRate": False,
            "ratePeriodInSecond": 1,
        }
    },
}
"""Rates of each topic, by namespace, of a sandbox that has limits."""


def plan_policies(options: SandboxOptions, state: FleetState, zookeeper: str) -> Policies:
    """Return the configuration that the sandbox starts with."""
    release = Release.of(options.release)
    known = _known_settings()
    values = _of_release(release, {**known["values"], **options.file_settings()}, options)
    dynamic_names = tuple(name for name in known["dynamic"] if _is_dynamic(release, name))
    for name in ("metadataStoreUrl", "configurationMetadataStoreUrl"):
        values[name] = f"zk:{zookeeper}"
    layout = state.layout
    isolation = None
    if layout.isolated is not None and _hosts_differ(state.brokers):
        hosts = [re.escape(broker.host) for broker in state.brokers[-4:-1]]
        isolation = {
            ISOLATION_NAME: documents.isolation_policy(
                layout.namespaces[layout.isolated], hosts[:2], hosts[2:]
            )
        }
    return Policies(
        isolation=isolation,
        domains=_domains(state.brokers),
        groups={layout.namespaces[row]: GROUP_NAME for row in layout.paired},
        dynamic={
            name: text for name, text in options.dynamic.items() if _is_dynamic(release, name)
        },
        file_values=values,
        dynamic_names=dynamic_names,
        storage={name: documents.storage_policies() for name in layout.namespaces[1:2]},
        rates={
            name: dict(_LIMITS[name])
            for name in layout.namespaces
            if options.has_limits and name in _LIMITS
        },
    )


def _hosts_differ(brokers: list[Broker]) -> bool:
    return len({broker.host for broker in brokers}) == len(brokers)


def _domains(brokers: list[Broker]) -> dict[str, Json]:
    racks = min(3, len(brokers))
    return {
        f"rack-{'abc'[rack]}": {"brokers": [broker.broker_id for broker in brokers[rack::racks]]}
        for rack in range(racks)
    }


def _of_release(
    release: Release, values: dict[str, str], options: SandboxOptions
) -> dict[str, str]:
    """Return the running values that a broker of a release has."""
    if options.release == VERSION:
        return values
    own = options.file_settings()
    found = dict(values)
    for setting in SETTINGS:
        if not setting.exists_in(release):
            found.pop(setting.key, None)
        elif setting.key not in own:
            found[setting.key] = upstream_words(setting.default_for(release))
    return found


def _is_dynamic(release: Release, name: str) -> bool:
    setting = SETTING_BY_KEY.get(name)
    return setting is None or setting.is_dynamic_in(release)


def _known_settings() -> dict[str, Any]:
    text = resources.files("connectors.sandbox.pulsar").joinpath("settings_4_2.json").read_bytes()
    known: dict[str, Any] = msgspec.json.decode(text)
    return known
