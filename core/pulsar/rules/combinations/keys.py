"""Keys that are confused with others, are not read, or have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from core.findings.engine import Rule
from core.findings.finding import Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.catalogue import Value
from core.pulsar.rules.combinations.model import PLACEMENT, Case
from core.pulsar.settings import SETTING_BY_KEY, SETTINGS
from core.pulsar.shedding import strategies_run_by

_OLD_PLACEMENT: Final = "loadBalancerPlacementStrategy"
_OLD_PLACEMENTS: Final = ("leastLoadedServer", "weightedRandomSelection")
_READ_ANYWAY: Final = (
    "loadBalancerBrokerOverloadedThresholdPercentage",
    "loadBalancerHistoryResourcePercentage",
)
"""Settings of shedding strategies that placement reads, too."""
_FIRST_STATS: Final = "statsUpdateInitialDelayInSecs"
_STATS: Final = "statsUpdateFrequencyInSecs"
_DELETE: Final = (
    "Brokers refuse to delete a key that is not dynamic (412): remove it "
    "from /admin/configuration in the metadata store."
)
OLD_TIMEOUTS: Final[Mapping[str, str]] = {
    "zooKeeperSessionTimeoutMillis": "metadataStoreSessionTimeoutMillis",
    "zooKeeperOperationTimeoutSeconds": "metadataStoreOperationTimeoutSeconds",
}
"""Old names that count while they are above 0."""


def misspelt(case: Case) -> Iterator[Finding]:
    """The misspelt old key counts while the new one is exactly 1.

    Source:
        Pulsar ``ServiceConfiguration#getLoadBalancerBandwidthInResourceWeight``.
    """
    for direction in ("In", "Out"):
        new, old = (
            f"loadBalancer{word}{direction}ResourceWeight" for word in ("Bandwidth", "Bandwith")
        )
        weight, held = case.number(new), case.number(old)
        if held == 1.0 or not case.settings.has(new):
            continue
        counts = weight == 1.0
        wanted: dict[str, Value] = {new: held, old: 1.0} if counts else {old: 1.0}
        yield Finding(
            code="similar_keys",
            title="Misspelled and correct weight differ",
            measured=Quantity(held),
            limit=Quantity(weight),
            severity="warning",
            keys=(old, new),
            sentence=f"The misspelled key {old} is {held:g} while {new} is {weight:g}.",
            consequence=f"The misspelled key takes precedence: the active weight is {held:g}."
            if counts
            else f"{new} takes precedence because it is not 1; the misspelled key has no effect.",
            hint="Use only the correct key.",
            fix=Fix(wanted=wanted),
        )


def old_timeouts(case: Case) -> Iterator[Finding]:
    """Old names of timeouts, which win over the new ones.

    Source:
        Pulsar ``ServiceConfiguration#getMetadataStoreSessionTimeoutMillis``,
        ``#getMetadataStoreOperationTimeoutSeconds``.
    """
    for old, new in OLD_TIMEOUTS.items():
        held, other = case.number(old), case.number(new)
        if held <= 0 or not (case.settings.has(old) and case.settings.has(new)):
            continue
        yield Finding(
            code="similar_timeouts",
            title="Two similar timeouts differ",
            measured=Quantity(held),
            limit=Quantity(other),
            severity="warning" if held != other and case.is_changed(new) else "info",
            keys=(old, new),
            sentence=f"{old} is {held:g} while {new} is {other:g}.",
            consequence=f"The old name takes precedence while it is above 0, so {held:g} is "
            "effective.",
            hint="Keep only the new key.",
            fix=Fix(wanted={new: round(held), old: -1}),
        )


def taken_for_another(case: Case) -> Iterator[Finding]:
    """Keys whose names promise what another one does."""
    if case.load_manager != "simple" and case.is_changed(_OLD_PLACEMENT):
        held = case.settings.text(_OLD_PLACEMENT)
        is_value = held in _OLD_PLACEMENTS
        yield Finding(
            code="similar_placement",
            title="Placement setting of the simple manager",
            measured=Quantity(held),
            severity="warning",
            keys=(_OLD_PLACEMENT,),
            sentence=f"{_OLD_PLACEMENT} is {held}"
            + (
                "." if is_value else f", which is not a valid value ({', '.join(_OLD_PLACEMENTS)})."
            ),
            consequence="Only the legacy simple manager reads that key, so it has no effect "
            "here: "
            + (
                "the extensible manager places bundles by load."
                if case.is_extensible
                else f"bundles are placed by {PLACEMENT}."
                if case.settings.has(PLACEMENT)
                else f"release {case.settings.target.name} always places by the message rate."
            ),
            hint="Remove it"
            + (
                "."
                if case.is_extensible or not case.settings.has(PLACEMENT)
                else f"; to choose the placement strategy, set {PLACEMENT}."
            ),
        )
    if case.is_changed(_FIRST_STATS) and not case.is_changed(_STATS):
        yield Finding(
            code="similar_stats",
            title="Two similar statistics settings differ",
            measured=Quantity(case.number(_FIRST_STATS)),
            limit=Quantity(case.number(_STATS)),
            severity="info",
            keys=(_FIRST_STATS, _STATS),
            sentence=f"{_FIRST_STATS} is {case.number(_FIRST_STATS):g}, "
            f"{_STATS} {case.number(_STATS):g}.",
            consequence="The first is only the delay after a start: rates are updated every "
            f"{case.number(_STATS):g} s.",
            hint=f"The period is {_STATS}.",
        )


def not_felt(case: Case) -> Iterator[Finding]:
    """Dynamic values that brokers only read when they start."""
    settings = case.settings
    late = [
        setting.key
        for setting in SETTINGS
        if setting.takes_effect == "restart" and settings.origin(setting.key) == "dynamic"
    ]
    if late:
        yield Finding(
            code="effective_after_restart",
            title="Dynamic change needs a restart",
            measured=Quantity(len(late), "settings" if len(late) > 1 else "setting"),
            severity="info",
            keys=tuple(late),
            sentence=f"Set dynamically, but read only when a broker starts: {', '.join(late)}.",
            consequence="The effective value of running brokers may differ from the value they "
            "show.",
            hint="Restart the brokers one by one, or compare with the value at their start.",
        )


def not_read(case: Case) -> Iterator[Finding]:
    """Changed settings that this cluster's load manager does not read."""
    manager = case.load_manager if case.load_manager in ("extensible", "simple") else "modular"
    idle = [
        one.key
        for one in SETTINGS
        if not one.is_read_by(manager) and one.key != _OLD_PLACEMENT and case.is_changed(one.key)
    ]
    if idle:
        yield Finding(
            code="not_read",
            title="Changed setting is not read",
            measured=Quantity(len(idle), "settings" if len(idle) > 1 else "setting"),
            severity="info",
            keys=tuple(idle),
            sentence=f"Changed, but not read by the {manager} load manager: {', '.join(idle)}.",
            consequence="The change has no effect.",
        )


def of_other_strategies(case: Case) -> Iterator[Finding]:
    """Changed settings that belong to shedding strategies which are not active.

    What placement reads counts whatever sheds, and is not named.
    """
    active = case.strategy
    if case.is_extensible or active is None or active.manager != "modular":
        return
    owners: dict[str, list[str]] = {}
    for other in strategies_run_by("modular"):
        for key in other.adjustable:
            owners.setdefault(key, []).append(other.name)
    idle = {
        key: names
        for key, names in owners.items()
        if key not in active.adjustable and key not in _READ_ANYWAY and case.is_changed(key)
    }
    if not idle:
        return
    listed = ", ".join(f"{key} ({' and '.join(names)})" for key, names in idle.items())
    yield Finding(
        code="of_other_strategy",
        title="Changed setting belongs to another strategy",
        measured=Quantity(len(idle), "settings" if len(idle) > 1 else "setting"),
        severity="info",
        keys=tuple(idle),
        sentence=f"Changed, and read by another shedding strategy only: {listed}.",
        consequence=f"No effect: {active.name} does not read what was changed.",
    )


def stored_in_vain(case: Case) -> Iterator[Finding]:
    """Dynamic values that are stored, and without effect on any broker.

    Source:
        Pulsar ``BrokerService#handleDynamicConfigurationUpdates``: keys that are no dynamic field,
        and values that do not parse, are logged and passed over.
    """
    for key, text in sorted(case.settings.stored.items()):
        setting = SETTING_BY_KEY.get(key)
        if setting is None:
            near = get_close_matches(key, SETTING_BY_KEY, n=1)
            yield Finding(
                code="unknown_key",
                title="Stored setting is unknown to brokers",
                measured=Quantity(text),
                severity="warning",
                keys=(key,),
                sentence=f"{key} = {text} is stored as a dynamic setting, but brokers do not "
                "have this setting.",
                consequence="Brokers ignore it.",
                hint=(f"Similar: {near[0]}. " if near else "") + _DELETE,
            )
        elif not setting.is_dynamic:
            yield Finding(
                code="stored_not_dynamic",
                title="Stored setting is not dynamic",
                measured=Quantity(text),
                limit=Quantity(case.settings.text(key)),
                severity="warning",
                keys=(key,),
                sentence=f"{key} = {text} is stored as a dynamic setting; brokers run with "
                f"{case.settings.text(key)}.",
                consequence="It is not a dynamic setting: brokers ignore it, even after a restart.",
                hint=f"Set it in broker.conf if it is intended. {_DELETE}",
            )
        else:
            yield Finding(
                code="stored_not_applied",
                title="Stored setting is not applied",
                measured=Quantity(text),
                limit=Quantity(case.settings.text(key)),
                severity="warning",
                keys=(key,),
                sentence=f"{key} = {text} is stored as a dynamic setting; brokers run with "
                f"{case.settings.text(key)}.",
                consequence="Brokers could not read the value, or have not applied it yet: they "
                "keep the previous value.",
                hint="Check again in a minute; then set it again or delete it.",
                fix=Fix(wanted={key: None}),
            )


RULES: Final[tuple[Rule[Case], ...]] = (
    misspelt,
    old_timeouts,
    taken_for_another,
    stored_in_vain,
    not_felt,
    not_read,
    of_other_strategies,
)
