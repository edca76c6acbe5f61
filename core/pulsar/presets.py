"""Sets of settings that go together: upstream's defaults by release, and sets from the field."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from core.errors import UnknownNameError
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import RELEASES, SETTING_BY_KEY, SETTINGS, EffectiveSettings, Setting

_IMPL: Final = "org.apache.pulsar.broker.loadbalance.impl."
_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A set of settings that go together.

    Attributes:
        name: Short, for the address of a page and the command line.
        title: For people.
        summary: What it is for, one sentence.
        values: Upstream key to value.
        notes: What a person decides for the own cluster besides.
    """

    name: str
    title: str
    summary: str
    values: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One setting that a preset has otherwise than the cluster.

    Attributes:
        setting: Which.
        present: Active value.
        wanted: Value of the preset.
        origin: Where the active value comes from.
    """

    setting: Setting
    present: Any
    wanted: Any
    origin: str

    @property
    def is_dynamic(self) -> bool:
        """Whether it can be set dynamically."""
        return self.setting.is_dynamic


_BY_RATE: Final[Mapping[str, Any]] = {
    "loadBalancerEnabled": True,
    "loadBalancerSheddingEnabled": True,
    "loadBalancerSheddingIntervalMinutes": 1,
    "loadBalancerLoadSheddingStrategy": _IMPL + "UniformLoadShedder",
    _PLACEMENT: _IMPL + "LeastLongTermMessageRate",
    "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": 4.0,
    "maxUnloadPercentage": 0.5,
    "loadBalancerReportUpdateMinIntervalMillis": 5000,
    "loadBalancerReportUpdateMaxIntervalMinutes": 15,
    "loadBalancerReportUpdateThresholdPercentage": 10,
    "loadBalancerAutoBundleSplitEnabled": True,
    "loadBalancerAutoUnloadSplitBundlesEnabled": False,
    "loadBalancerNamespaceMaximumBundles": 512,
    "loadBalancerNamespaceBundleMaxTopics": 100,
    "loadBalancerNamespaceBundleMaxSessions": 1000,
    "loadBalancerNamespaceBundleMaxMsgRate": 10_000,
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": 100,
}
"""A guide's list for many topics of similar size: rates decide, bundles stay small."""

_OPEN_OF_RATES: Final = (
    "Not set: loadBalancerMsgRateDifferenceShedderThreshold, maxUnloadBundleNumPerShedding.",
    "Hardware overload sheds only above loadBalancerBrokerOverloadedThresholdPercentage.",
)

_BANDWIDTH: Final[Mapping[str, Any]] = {
    "loadBalancerLoadSheddingStrategy": _IMPL + "ThresholdShedder",
    "loadBalancerBrokerThresholdShedderPercentage": 10,
    "loadBalancerBundleUnloadMinThroughputThreshold": 10.0,
    "loadBalancerHistoryResourcePercentage": 0.9,
    "loadBalancerCPUResourceWeight": 0.0,
    "loadBalancerMemoryResourceWeight": 0.0,
    "loadBalancerDirectMemoryResourceWeight": 0.0,
    "loadBalancerBandwidthInResourceWeight": 1.0,
    "loadBalancerBandwidthOutResourceWeight": 1.0,
    "loadBalancerAutoBundleSplitEnabled": False,
    "loadBalancerAutoUnloadSplitBundlesEnabled": False,
}
"""What vivo reports to run with: bandwidth alone counts, and bundles are numbered beforehand."""

_OPEN_OF_BANDWIDTH: Final = (
    "Plan defaultNumberOfNamespaceBundles with it: the report has 180 for 120 partitions.",
)


def _defaults_of(release: str) -> Preset:
    mark = " (as documented)" if release == RELEASES[-1] else ""
    return Preset(
        name=f"defaults-{release}",
        title=f"Upstream defaults of {release}{mark}",
        summary=f"Class default of every setting in release {release}.",
        values=MappingProxyType(
            {
                setting.key: setting.default_for(release)
                for setting in SETTINGS
                if setting.exists_in(release)
            }
        ),
        notes=("A shipped broker.conf may differ from the class default.",),
    )


PRESETS: Final[tuple[Preset, ...]] = (
    Preset(
        name="even-rates",
        title="Even message rates, small bundles",
        summary="For many topics of similar size: balances by message rate, and splits "
        "bundles early without unloading the parts.",
        values=MappingProxyType(dict(_BY_RATE)),
        notes=_OPEN_OF_RATES,
    ),
    Preset(
        name="bandwidth-only",
        title="Bandwidth only, planned bundles",
        summary="For brokers limited by network bandwidth: CPU and memory have weight "
        "0, and nothing is split automatically.",
        values=MappingProxyType(dict(_BANDWIDTH)),
        notes=_OPEN_OF_BANDWIDTH,
    ),
    *(_defaults_of(release) for release in RELEASES),
)
"""In the order in which people are shown them."""

PRESET_BY_NAME: Final[Mapping[str, Preset]] = {preset.name: preset for preset in PRESETS}


def find_preset(name: str) -> Preset:
    """Return the preset with that name.

    Raises:
        UnknownNameError: There is none; the hint offers near names.
    """
    preset = PRESET_BY_NAME.get(name)
    if preset is None:
        raise UnknownNameError.of("preset", name, PRESET_BY_NAME)
    return preset


def differences(preset: Preset, settings: EffectiveSettings) -> Iterator[Difference]:
    """Yield the differences of the preset, in the order of the catalog.

    Settings that the cluster's release does not have are passed over.

    Args:
        preset: One of :data:`PRESETS`.
    """
    for key in SETTING_BY_KEY:
        setting = SETTING_BY_KEY[key]
        if key not in preset.values or not setting.exists_in(settings.target):
            continue
        present, wanted = settings.value(key), typed_value(setting, preset.values[key])
        if present != wanted:
            yield Difference(
                setting=setting, present=present, wanted=wanted, origin=settings.origin(key)
            )


def upstream_words(value: Any) -> str:
    """Return a typed value as brokers write it; ``None`` if empty.

    Example:
        >>> upstream_words(True), upstream_words(("a", "b")), upstream_words(0.5)
        ('true', 'a,b', '0.5')
        >>> upstream_words([])
        ''
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list | tuple) else str(value)


def set_option(key: str, value: Any) -> str:
    """Return ``KEY=VALUE`` with VALUE as JSON, as ``--set`` and the pages' address have it."""
    return f"{key}={json.dumps(value)}"


def set_command(wanted: Mapping[str, Any], cluster: str, more: str = "") -> str:
    """Return the ``trimtab set`` that makes a plan of dynamic settings; empty without any.

    Args:
        wanted: Upstream key to value; ``None`` resets it to the default.
        cluster: Name of the cluster.
        more: Further words of the command, such as the configuration.
    """
    if not wanted:
        return ""
    parts = [
        f"--unset {key}" if value is None else shlex.quote(f"{key}={upstream_words(value)}")
        for key, value in wanted.items()
    ]
    return f"trimtab set {shlex.quote(cluster)} {' '.join(parts)} --plan plan.json{more}"
