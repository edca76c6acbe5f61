"""When brokers split a bundle by themselves: every condition of both managers, with its distance.

Source:
    Pulsar ``ModularLoadManagerImpl#checkNamespaceBundleSplit`` and ``BundleSplitterTask``;
    ``SplitScheduler`` and ``DefaultNamespaceBundleSplitStrategyImpl`` of the extensible manager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from core.pulsar.settings import EffectiveSettings
from core.pulsar.split.algorithms import Positions, SplitLimits, default_algorithm
from core.pulsar.split.model import ConditionKind, SplitCondition, SplitSubject
from core.units import format_bytes_per_s, format_msgs_per_s

CUT: Final = "boundary of the default algorithm"
"""Name of the condition on what the default algorithm yields."""

_LEADER: Final = "the leader"
_OWNER: Final = "the owner"
_FEWEST_TOPICS: Final = 2
_MIN_WIDTH: Final = 2
_HITS: Final = "loadBalancerNamespaceBundleSplitConditionHitCountThreshold"


def _plain(value: float) -> str:
    return f"{value:,.0f}"


@dataclass(frozen=True)
class _Comparison:
    """One number against one threshold, both in a unit, in words."""

    name: str
    kind: ConditionKind
    setting: str
    unit: str
    text: Callable[[float], str] = _plain

    def more_than(self, measured: float | None, threshold: float) -> SplitCondition:
        """Met when strictly more."""
        if measured is None:
            return self._unknown(threshold)
        is_met = measured > threshold
        words = "more than" if is_met else "not more than"
        return self._known(measured, threshold, is_met=is_met, words=words, away=threshold)

    def at_least(self, measured: float | None, threshold: float) -> SplitCondition:
        """Met when as much or more."""
        if measured is None:
            return self._unknown(threshold)
        is_met = measured >= threshold
        words = "enough: it needs" if is_met else "less than"
        return self._known(measured, threshold, is_met=is_met, words=words, away=threshold)

    def less_than(self, measured: float, threshold: float) -> SplitCondition:
        """Met when strictly less."""
        is_met = measured < threshold
        words = "less than" if is_met else "not less than"
        return self._known(
            measured, threshold, is_met=is_met, words=words, away=2 * measured - threshold
        )

    def _known(
        self, measured: float, threshold: float, *, is_met: bool, words: str, away: float
    ) -> SplitCondition:
        shown, line = self.text(measured), self.text(threshold)
        pair = f"{shown} is {words} {line}"
        if shown == line:  # two numbers that read the same say nothing
            apart = abs(measured - threshold)
            side = "over" if measured > threshold else "under"
            pair = (
                f"{shown} is {self.text(apart)} {side} the threshold"
                if apart
                else f"{pair} exactly"
            )
        return SplitCondition(
            name=self.name,
            kind=self.kind,
            setting=self.setting,
            measured=measured,
            threshold=threshold,
            unit=self.unit,
            is_met=is_met,
            distance=away - measured,
            sentence=f"{self.name}: {pair}{self._key()}.",
        )

    def _unknown(self, threshold: float) -> SplitCondition:
        return SplitCondition(
            name=self.name,
            kind=self.kind,
            setting=self.setting,
            measured=None,
            threshold=threshold,
            unit=self.unit,
            is_met=None,
            distance=None,
            sentence=f"{self.name}: unknown, the threshold is {self.text(threshold)}{self._key()}.",
        )

    def _key(self) -> str:
        return f" ({self.setting})" if self.setting else ""


def _switch(settings: EffectiveSettings, key: str) -> SplitCondition:
    is_on = settings.flag(key)
    return SplitCondition(
        name=key,
        kind="switch",
        setting=key,
        measured=float(is_on),
        threshold=1.0,
        unit="",
        is_met=is_on,
        distance=1.0 - is_on,
        sentence=f"{key} is {'on' if is_on else 'off: no bundle is split automatically'}.",
    )


def _fact(
    name: str, kind: ConditionKind, sentence: str, *, is_met: bool | None, setting: str = ""
) -> SplitCondition:
    return SplitCondition(
        name=name,
        kind=kind,
        setting=setting,
        measured=None,
        threshold=None,
        unit="",
        is_met=is_met,
        distance=None,
        sentence=sentence,
    )


def triggers(
    subject: SplitSubject, limits: SplitLimits, *, by_average: bool
) -> tuple[SplitCondition, ...]:
    """Return the four limits; one that is exceeded suffices. All are strict.

    Args:
        subject: The bundle.
        limits: The lines.
        by_average: Modular: long-term averages; else what was measured last.
    """
    prefix = "loadBalancerNamespaceBundleMax"
    averages = (subject.long_msg_rate, subject.long_throughput) if by_average else (None, None)
    last = (subject.msg_rate, subject.throughput)
    rate, flow = (now if held is None else held for held, now in zip(averages, last, strict=True))
    spans = [_span(subject, held) if by_average else "" for held in averages]
    sessions = _Comparison("sessions", "trigger", f"{prefix}Sessions", "producers + consumers")
    return (
        _Comparison("topics", "trigger", f"{prefix}Topics", "topics").more_than(
            subject.topic_count, limits.topics
        ),
        sessions.more_than(subject.sessions, limits.sessions)
        if limits.sessions > 0
        else _fact("sessions", "trigger", "sessions: switched off.", is_met=False),
        _Comparison(
            f"{spans[0]}message rate", "trigger", f"{prefix}MsgRate", "msg/s", format_msgs_per_s
        ).more_than(rate, limits.msgs_per_s),
        _Comparison(
            f"{spans[1]}throughput",
            "trigger",
            f"{prefix}BandwidthMbytes",
            "bytes/s",
            format_bytes_per_s,
        ).more_than(flow, limits.bytes_per_s),
    )


def _span(subject: SplitSubject, average: float | None) -> str:
    """Name what the leader's average is made of; a missing one begins with its next sample."""
    if average is None:
        return "last measured (its average is not stored) "
    return "long-term (begun with its quota) " if subject.is_from_quota else "long-term "


def _guards(subject: SplitSubject, limits: SplitLimits) -> list[SplitCondition]:
    """Conditions that both managers check before a split."""
    return [
        _Comparison("topics in the bundle", "guard", "", "topics").at_least(
            subject.topic_count, _FEWEST_TOPICS
        ),
        _Comparison(
            "bundles of the namespace", "guard", "loadBalancerNamespaceMaximumBundles", "bundles"
        ).less_than(subject.bundles_in_namespace, limits.bundles),
        _Comparison("width of the range", "guard", "", "positions").at_least(
            subject.upper - subject.lower, _MIN_WIDTH
        ),
    ]


def split_conditions(
    subject: SplitSubject,
    settings: EffectiveSettings,
    *,
    is_extensible: bool,
    by_default: Positions,
) -> tuple[SplitCondition, ...]:
    """Return every condition, in the order in which the manager checks.

    Args:
        subject: The bundle.
        is_extensible: Which manager decides.
        by_default: Of :func:`default_positions`; the extensible manager wants one boundary.
    """
    limits = SplitLimits.of(settings)
    triggered = triggers(subject, limits, by_average=not is_extensible)
    switch = _switch(settings, "loadBalancerAutoBundleSplitEnabled")
    if not is_extensible:
        least = 2 if settings.rules.splits_need_second else 1
        brokers = _Comparison("brokers", "guard", "", "brokers").at_least(subject.brokers, least)
        reported = _fact(
            "named in a report",
            "guard",
            f"{subject.reporter} reports the bundle."
            if subject.reporter
            else "No load report has the bundle: the leader checks only reported bundles.",
            is_met=subject.reporter is not None,
        )
        cut = _cut(settings, by_default, who=_LEADER)
        return (switch, brokers, reported, *triggered, *_guards(subject, limits), cut)
    owned = _fact(
        "has an owner",
        "guard",
        f"{subject.owner} owns the bundle, and checks its own bundles."
        if subject.owner
        else "The bundle is unassigned, and each broker checks only its own bundles.",
        is_met=subject.owner is not None,
    )
    enabled = _switch(settings, "loadBalancerEnabled")
    memory = _extensible_memory(settings)
    cut = _cut(settings, by_default, who=_OWNER)
    return (enabled, switch, owned, *triggered, *_guards(subject, limits), cut, *memory)


def _cut(settings: EffectiveSettings, by_default: Positions, *, who: str) -> SplitCondition:
    """Whether the default algorithm returns boundaries that the manager can use.

    Source:
        Pulsar ``BundleSplitterTask``: the split is requested without positions, and a refusal is
        logged; ``DefaultNamespaceBundleSplitStrategyImpl``: anything but one boundary is a failure.
    """
    name = f"{default_algorithm(settings)} (defaultNamespaceBundleSplitAlgorithm)"
    found = len(by_default.values)
    is_one = who == _OWNER
    if not by_default.is_known:
        sentence = f"The boundary of {name} is unknown: the topics were not read."
    elif not found:
        sentence = f"With {name} {who} splits nothing, at every check. {by_default.why}"
    else:
        words = f"{name} names {found} boundar{'y' if found == 1 else 'ies'}"
        sentence = f"{words}; this manager takes exactly one." if is_one else f"{words}."
    is_met = found == 1 if is_one else found > 0
    return _fact(
        CUT,
        "guard",
        sentence,
        is_met=is_met if by_default.is_known else None,
        setting="defaultNamespaceBundleSplitAlgorithm",
    )


def _extensible_memory(settings: EffectiveSettings) -> tuple[SplitCondition, ...]:
    hits = int(settings.number(_HITS))
    period = int(settings.number("loadBalancerSplitIntervalMinutes"))
    return (
        _fact(
            "consecutive checks",
            "memory",
            f"It is split at consecutive check number {hits + 1} that exceeds a "
            f"limit; the owner checks every {period} min and does not publish the "
            "count.",
            is_met=None,
            setting=_HITS,
        ),
        _fact(
            "no other split in progress",
            "memory",
            "A bundle waits while one that shares a boundary with it is being split.",
            is_met=None,
        ),
    )


def is_due(conditions: tuple[SplitCondition, ...]) -> bool | None:
    """Return whether the brokers split it automatically, or ``None`` if unknown."""
    must = [item.is_met for item in conditions if item.kind in ("switch", "guard")]
    any_of = [item.is_met for item in conditions if item.kind == "trigger"]
    if False in must or not any(met is not False for met in any_of):
        return False
    return True if None not in must and True in any_of else None
