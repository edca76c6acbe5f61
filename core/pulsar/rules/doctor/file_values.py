"""Values of a configuration file that no broker can use: classes, periods, addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from functools import partial
from typing import Final

from core.findings.engine import Rule
from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.placement.selectors import PAIRED_NAMES
from core.pulsar.rules.addresses import ADVERTISED, LISTENERS, Address
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.doctor.file_keys import file_values
from core.pulsar.rules.doctor.model import about_settings
from core.pulsar.settings import SETTING_BY_KEY
from core.pulsar.shedding import SHEDDING_STRATEGIES

_PACKAGE: Final = "org.apache.pulsar.broker.loadbalance"
_MANAGER: Final = "loadManagerClassName"
_SHEDDER: Final = "loadBalancerLoadSheddingStrategy"
_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"
_CLASSES: Final = {
    _MANAGER: (
        f"{_PACKAGE}.impl.ModularLoadManagerImpl",
        f"{_PACKAGE}.extensions.ExtensibleLoadManagerImpl",
        f"{_PACKAGE}.impl.SimpleLoadManagerImpl",
        f"{_PACKAGE}.NoopLoadManager",
    ),
    _SHEDDER: tuple(f"{one.package}.{one.name}" for one in SHEDDING_STRATEGIES),
    _PLACEMENT: (
        f"{_PACKAGE}.impl.LeastLongTermMessageRate",
        f"{_PACKAGE}.impl.LeastResourceUsageWithWeight",
        f"{_PACKAGE}.impl.RoundRobinBrokerSelector",
        *(f"{one.package}.{one.name}" for one in SHEDDING_STRATEGIES if one.name in PAIRED_NAMES),
    ),
}
_NO_CLASS: Final = {
    _MANAGER: "Brokers cannot load it and run the simple load manager instead.",
    _SHEDDER: "Brokers cannot load it: by release they do not start, or run another strategy.",
    _PLACEMENT: "Brokers cannot load it: the load manager does not start with it.",
}
_PERIODS: Final = (
    "loadBalancerSheddingIntervalMinutes",
    "loadBalancerResourceQuotaUpdateIntervalMinutes",
    "loadBalancerHostUsageCheckIntervalMinutes",
)
_INTERNAL: Final = "internalListenerName"


def unknown_classes(context: HealthContext) -> Iterator[Finding]:
    """Load managers and strategies of Pulsar that do not exist, or lack their package.

    A class of another package may be the operator's own.
    """
    values = dict(file_values(context))
    is_extensible = context.snapshot.manifest.load_manager == "extensible"
    for key, known in _CLASSES.items():
        value = values.get(key, "").strip()
        about = partial(
            Finding,
            **about_settings(key),
            measured=Quantity(value),
        )
        is_own = "." in value and not value.startswith("org.apache.pulsar.")
        if not value or value in known or (is_extensible and key != _MANAGER):
            continue
        if is_own:
            yield about(
                code="foreign_class",
                title="Class is not of Pulsar",
                severity="unknown",
                sentence=f"{key} is {value}, which is not a class of Pulsar.",
                consequence="Its decisions are unknown: they were not examined.",
            )
            continue
        simple = {name.rpartition(".")[2]: name for name in known}
        near = get_close_matches(value.rpartition(".")[2], simple, n=1)
        yield about(
            code="unknown_class",
            title="Class does not exist",
            severity="error",
            sentence=f"{key} is {value}: Pulsar has no such class.",
            consequence=_NO_CLASS[key],
            hint=f"Did you mean {simple[near[0]]}?"
            if near
            else f"Name the class with its package, for example {known[0]}.",
            evidence={"near": [simple[name] for name in near]},
        )


def periods_of_zero(context: HealthContext) -> Iterator[Finding]:
    """Periods of tasks that are not positive: a scheduler refuses them.

    Source:
        Pulsar ``PulsarService#startLoadManagementService``, ``#startLeaderElectionService``
        (``scheduleAtFixedRate``, which takes no period below 1).
    """
    for key, value in file_values(context):
        if key not in _PERIODS or not SETTING_BY_KEY[key].is_read_by(
            context.snapshot.manifest.load_manager
        ):
            continue
        text = value.strip()
        if not text.lstrip("-").isdecimal() or int(text) > 0:
            continue
        yield Finding(
            code="value_out_of_range",
            title="Value is out of range",
            severity="error",
            **about_settings(key),
            measured=Quantity(int(text), "min"),
            limit=Quantity(1, "min"),
            sentence=f"{key} is {text}; it must be 1 or more (min).",
            consequence="The task has no valid period: it does not run, or runs without a pause.",
            hint=f"Set a period of 1 min or more; the default is {SETTING_BY_KEY[key].default}.",
        )


def addresses_of_file(context: HealthContext) -> Iterator[Finding]:
    """Advertised addresses that clients cannot use, and listeners that a broker refuses.

    Source:
        Pulsar ``MultipleListenerValidator#validateAndAnalysisAdvertisedListener``.
    """
    values = dict(file_values(context))
    found = [Address.of("", "id", values[ADVERTISED].strip())] if values.get(ADVERTISED) else []
    entries = [part.strip() for part in values.get(LISTENERS, "").split(",") if part.strip()]
    listeners = [(name, url) for name, _, url in (part.partition(":") for part in entries)]
    found += [Address.of("", f"listener {name}", url) for name, url in listeners]
    for one in found:
        if not (one.is_unspecified or one.is_malformed or one.is_loopback):
            continue
        key = ADVERTISED if one.kind == "id" else LISTENERS
        is_loopback = one.is_loopback and not one.is_malformed
        yield Finding(
            code="loopback_address" if is_loopback else "unroutable_address",
            title="Broker advertises a loopback address"
            if is_loopback
            else "Broker advertises an unusable address",
            severity="warning" if is_loopback else "error",
            **about_settings(key),
            measured=Quantity(one.text),
            sentence=f"{key} has {one.text}, "
            + (
                "which directs every client to its own host."
                if is_loopback
                else "which is not a valid address."
            ),
            consequence="Only clients on the broker's host reach it."
            if is_loopback
            else "Clients that are sent there cannot reach the broker.",
            hint=f"Set {key} on each broker to its own address that clients can reach.",
        )
    schemes = Counter((name, Address.of("", "", url).scheme.lower()) for name, url in listeners)
    for (name, scheme), count in schemes.items():
        if count > 1:
            yield _refused(
                f"{LISTENERS} has {count} {scheme} addresses of listener {name}.",
                "Keep one address per listener and scheme.",
            )
    internal = values.get(_INTERNAL, "").strip()
    if internal and listeners and internal not in {name for name, _ in listeners}:
        yield _refused(
            f"{_INTERNAL} is {internal}, a listener that {LISTENERS} does not have.",
            f"Add the listener to {LISTENERS}, or name one of its listeners.",
            _INTERNAL,
        )


def _refused(sentence: str, hint: str, *more: str) -> Finding:
    return Finding(
        code="listeners_refused",
        title="Listeners are invalid",
        severity="error",
        **about_settings(*more, LISTENERS),
        sentence=sentence,
        consequence="A broker does not start with it.",
        hint=hint,
    )


RULES: Final[tuple[Rule[HealthContext], ...]] = (
    unknown_classes,
    periods_of_zero,
    addresses_of_file,
)
