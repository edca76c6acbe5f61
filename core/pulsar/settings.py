"""The active settings on a cluster: which value each has, and where that value comes from."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from core.errors import InputError, UnknownNameError
from core.pulsar.catalogue import SETTINGS, Setting, Value
from core.pulsar.releases import (
    CLASS_HISTORY,
    NEWEST_STABLE,
    RELEASES,
    Release,
    Rules,
    releases_with,
)
from core.pulsar.setting_values import parse_upstream_value, typed_value
from core.schemas.pulsar import STORED_PREFIX
from core.snapshot import PulsarSnapshot

__all__ = [
    "NEWEST_STABLE",
    "RELEASES",
    "SETTINGS",
    "SETTING_BY_KEY",
    "EffectiveSettings",
    "Setting",
    "effective_settings",
    "find_release",
    "parse_set_options",
]

Origin = Literal["default", "file", "dynamic", "override", "assumed"]

SHEDDING_SWITCHES: Final = ("loadBalancerEnabled", "loadBalancerSheddingEnabled")
"""Both have to be on for a cluster to shed by itself."""

SETTING_BY_KEY: Final[Mapping[str, Setting]] = {setting.key: setting for setting in SETTINGS}

_CLASS_SETTINGS: Final = ("loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy")


def find_release(text: str) -> Release:
    """Return the release that a user names: a line or one of its versions.

    Raises:
        UnknownNameError: The text is no version of a known line.
    """
    release = Release.of(text)
    if not release.is_known:
        raise UnknownNameError(
            f"Release line {text!r} does not exist.",
            hint=f"Use one of {', '.join(RELEASES)}, or a version of a line such as 4.0.8.",
            kind="release line",
            name=text,
        )
    return release


def known_setting(key: str) -> Setting:
    """Return the setting with that upstream key.

    Raises:
        UnknownNameError: There is none; the hint offers near names.
    """
    setting = SETTING_BY_KEY.get(key)
    if setting is None:
        raise UnknownNameError.of("load-balancer setting", key, SETTING_BY_KEY)
    return setting


def parse_set_options(options: Iterable[str]) -> dict[str, object]:
    """Return ``{key: typed value}`` of ``--set KEY=VALUE`` options, VALUE being JSON.

    Raises:
        UnknownNameError: A key that no setting has.
        InputError: No ``=``, a value that is not JSON, or one of the wrong type.
    """
    values: dict[str, object] = {}
    for option in options:
        key, sign, text = option.partition("=")
        if not sign:
            raise InputError(
                f"--set {option!r} has no value.", hint="Use --set KEY=VALUE with a JSON value."
            )
        setting = known_setting(key.strip())
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as exc:
            raise InputError(
                "A string needs double quotes: --set KEY='\"text\"'.",
                hint="A text needs double quotes: --set KEY='\"text\"'.",
            ) from exc
        values[setting.key] = typed_value(setting, value)
    return values


@dataclass(frozen=True, kw_only=True)
class EffectiveSettings:
    """Typed values of all settings, each with its origin.

    Attributes:
        target: The release whose defaults and rules apply.
        problems: Sentences about values that could not be read; the default is assumed for them.
        stored: Dynamic values that are stored and without effect on any broker, as texts.
        without_effect: Keys that have a value although the release does not have the setting.
    """

    target: Release
    problems: tuple[str, ...] = ()
    stored: Mapping[str, str] = field(default_factory=dict)
    without_effect: tuple[str, ...] = ()
    _values: Mapping[str, Value] = field(default_factory=dict, repr=False)
    _origins: Mapping[str, Origin] = field(default_factory=dict, repr=False)
    _by_broker: Mapping[str, Mapping[str, Value]] = field(default_factory=dict, repr=False)

    @classmethod
    def defaults(
        cls, release: Release | str = NEWEST_STABLE, overrides: Mapping[str, object] | None = None
    ) -> EffectiveSettings:
        """Return the class defaults of a release, with ``overrides`` on top.

        Args:
            release: A line or one of its versions.
            overrides: ``{key: value}``.

        Raises:
            UnknownNameError: A release or an override that does not exist.
            InputError: An override of the wrong type.
        """
        target = find_release(release) if isinstance(release, str) else release
        return _merge(target, {}, {}, overrides or {})

    @property
    def release(self) -> str:
        """The release line, for example ``4.2``."""
        return self.target.line

    @property
    def rules(self) -> Rules:
        """Rules of the load manager that differ between releases."""
        return self.target.rules

    def has(self, key: str) -> bool:
        """Return whether the release has the setting."""
        return known_setting(key).key not in _missing_in(self.target)

    def default_of(self, key: str) -> Value:
        """Return the release's default; the built-in value if the release lacks the setting."""
        return _defaults_of(self.target)[known_setting(key).key]

    @property
    def release_warnings(self) -> tuple[str, ...]:
        """Sentences: an unknown release, and values that the release does not read."""
        found = [self.target.warning, *map(self._without_effect, self.without_effect)]
        for key in _CLASS_SETTINGS:
            name = self.text(key).rpartition(".")[2]
            if self.has(key) and not self.target.has_class(name):
                found.append(missing_class(self.target, name))
        return tuple(text for text in found if text)

    def _without_effect(self, key: str) -> str:
        return missing_setting(self.target, known_setting(key))

    def value(self, key: str) -> Value:
        """Return the typed value.

        Raises:
            UnknownNameError: No setting has that key.
        """
        known_setting(key)
        return self._values[key] if key in self._values else _defaults_of(self.target)[key]

    def number(self, key: str) -> float:
        """Return a numeric value as float; an unset optional number is NaN."""
        value = self.value(key)
        return float(value) if isinstance(value, int | float) else math.nan

    def flag(self, key: str) -> bool:
        """Return a boolean value."""
        return self.value(key) is True

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list value."""
        value = self.value(key)
        return value if isinstance(value, tuple) else ()

    @property
    def shedding_off(self) -> tuple[str, ...]:
        """The :data:`SHEDDING_SWITCHES` that are off."""
        return tuple(key for key in SHEDDING_SWITCHES if not self.flag(key))

    @property
    def excluded_namespaces(self) -> frozenset[str]:
        """Namespaces that the balancer does not shed."""
        return frozenset(self.names("loadBalancerSheddingExcludedNamespaces"))

    def text(self, key: str) -> str:
        """Return a text value."""
        return str(self.value(key))

    def origin(self, key: str) -> Origin:
        """Return the source of the value; ``assumed`` if the snapshot does not report it."""
        known_setting(key)
        return self._origins.get(key, "assumed")

    def differing(self) -> dict[str, dict[str, Value]]:
        """Return ``{key: {broker: value}}`` of the settings that are not the same everywhere."""
        return {
            key: dict(values)
            for key, values in sorted(self._by_broker.items())
            if len(set(values.values())) > 1
        }


def effective_settings(
    snapshot: PulsarSnapshot,
    *,
    overrides: Mapping[str, object] | None = None,
    release: str | None = None,
) -> EffectiveSettings:
    """Return the active settings on the snapshot's cluster.

    Where brokers differ, the leader's value holds, for it is the leader that decides; without a
    known leader the most common one.

    Args:
        snapshot: Its ``settings`` table, and the brokers' versions for the release line.
        overrides: ``{key: value}`` of a what-if, which win over everything.
        release: A line or version; ``None`` for the version that most brokers run. A line
            that the brokers run is used in place of their own version.
    Raises:
        UnknownNameError: A release or an override that does not exist.
        InputError: An override of the wrong type.
    """
    assumed = tuple(sorted((key, repr(value)) for key, value in (overrides or {}).items()))
    target = Release.of(_common_version(snapshot))
    if release is not None and (release != target.line or not target.is_known):
        target = find_release(release)
    return snapshot.derived.get(
        ("settings", target, assumed), lambda: _effective(snapshot, overrides or {}, target)
    )


def _effective(
    snapshot: PulsarSnapshot, overrides: Mapping[str, object], target: Release
) -> EffectiveSettings:
    everywhere: dict[str, tuple[str, Origin]] = {}
    per_broker: dict[str, dict[str, tuple[str, Origin]]] = {}
    stored: dict[str, str] = {}
    for row in snapshot.settings.to_pylist():
        entry = (row["value"], row["origin"])
        if row["origin"] == "stored":
            stored[row["name"].removeprefix(STORED_PREFIX)] = row["value"]
        elif row["broker"] is None:
            everywhere[row["name"]] = entry
        else:
            per_broker.setdefault(row["name"], {})[row["broker"]] = entry
    brokers = snapshot.brokers.column("broker").to_pylist()
    deciding = snapshot.manifest.leader
    texts: dict[str, tuple[str, Origin]] = dict(everywhere)
    by_broker: dict[str, dict[str, tuple[str, Origin]]] = {}
    for key, own in per_broker.items():
        shared = dict.fromkeys(brokers, everywhere[key]) if key in everywhere else {}
        by_broker[key] = {**shared, **own}
        common = Counter(by_broker[key].values()).most_common(1)[0][0]
        texts[key] = by_broker[key].get(deciding or "", common)
    return replace(_merge(target, texts, by_broker, overrides), stored=stored)


@functools.cache
def _defaults_of(target: Release) -> Mapping[str, Value]:
    return {setting.key: setting.default_for(target) for setting in SETTINGS}


@functools.cache
def _missing_in(target: Release) -> frozenset[str]:
    return frozenset(setting.key for setting in SETTINGS if not setting.exists_in(target))


def missing_setting(release: Release, setting: Setting) -> str:
    """Return the sentence on a setting that a release does not have."""
    return (
        f"Release {release.name} has no setting {setting.key}, so its value has no effect. "
        f"Available in {setting.available_in}."
    )


def missing_class(release: Release, name: str) -> str:
    """Return the sentence on a strategy class that a release does not have."""
    return (
        f"Release {release.name} has no {name}. Available in {releases_with(CLASS_HISTORY[name])}."
    )


def _common_version(snapshot: PulsarSnapshot) -> str | None:
    if snapshot.manifest.release:
        return snapshot.manifest.release
    versions = Counter(text for text in snapshot.brokers.column("version").to_pylist() if text)
    return versions.most_common(1)[0][0] if versions else None


def _merge(
    target: Release,
    texts: Mapping[str, tuple[str, Origin]],
    by_broker: Mapping[str, Mapping[str, tuple[str, Origin]]],
    overrides: Mapping[str, object],
) -> EffectiveSettings:
    values: dict[str, Value] = {}
    origins: dict[str, Origin] = {}
    problems: list[str] = []
    # a broker has hundreds of settings; only the load balancer's matter here
    known = {key: entry for key, entry in texts.items() if key in SETTING_BY_KEY}
    chosen = {key: typed_value(known_setting(key), value) for key, value in overrides.items()}
    missing = _missing_in(target) & {*known, *chosen}
    for key in known.keys() - missing:
        text, origin = known[key]
        try:
            values[key] = parse_upstream_value(SETTING_BY_KEY[key], text)
        except InputError as exc:
            problems.append(f"{exc} The default is assumed.")
        else:
            origins[key] = origin
    for key in chosen.keys() - missing:
        values[key] = chosen[key]
        origins[key] = "override"
    has_value = {key for key in missing if key in chosen or known[key][1] != "default"}
    return EffectiveSettings(
        target=target,
        problems=tuple(sorted(problems)),
        without_effect=tuple(sorted(has_value)),
        _values=values,
        _origins=origins,
        _by_broker=_typed_by_broker(by_broker),
    )


def _typed_by_broker(
    by_broker: Mapping[str, Mapping[str, tuple[str, Origin]]],
) -> dict[str, dict[str, Value]]:
    typed: dict[str, dict[str, Value]] = {}
    for key, entries in by_broker.items():
        setting = SETTING_BY_KEY.get(key)
        if setting is None:
            continue
        for broker, (text, _) in entries.items():
            try:
                value = parse_upstream_value(setting, text)
            except InputError:
                value = text  # shown as it is: it differs, and that is what matters here
            typed.setdefault(key, {})[broker] = value
    return typed
