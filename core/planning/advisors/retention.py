"""The life of a message, backlog to deletion, and when bookies give its space back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.errors import InputError
from core.units import pluralize

FOREVER: Final = -1
_MIB_BYTES: Final = 1024**2
_EXPIRY_CHECK_S: Final = 300.0
_RETENTION_CHECK_S: Final = 120.0


@dataclass(frozen=True, kw_only=True)
class RetentionRule:
    """Retention rules of a topic's data.

    Attributes:
        retention_minutes: ``defaultRetentionTimeInMinutes`` or the namespace's; -1: without end.
        retention_megabytes: ``defaultRetentionSizeInMB`` or the namespace's; -1: without end.
        ttl_s: ``ttlDurationDefaultInSeconds`` or the namespace's; 0: off.
        rollover_minutes: How old a ledger becomes: only closed ones are deleted.
        expiry_check_s: ``messageExpiryCheckIntervalInMinutes`` in seconds.
        retention_check_s: ``retentionCheckIntervalInSeconds``.
        copies: ``managedLedgerDefaultWriteQuorum`` or the namespace's: bookies with each entry.
    """

    retention_minutes: float = 0.0
    retention_megabytes: float = 0.0
    ttl_s: float = 0.0
    rollover_minutes: float = 240.0
    expiry_check_s: float = _EXPIRY_CHECK_S
    retention_check_s: float = _RETENTION_CHECK_S
    copies: int = 2

    def __post_init__(self) -> None:
        limits = {
            "time (minutes)": self.retention_minutes,
            "size (MiB)": self.retention_megabytes,
        }
        for name, value in limits.items():
            if not (value >= 0 or value == FOREVER):
                raise InputError(
                    f"The retention {name} is {value:g}; use 0 or more, or -1 for unlimited."
                )
        if not (self.ttl_s >= 0 and self.rollover_minutes >= 0):
            raise InputError(
                "The time to live or the ledger age is negative or not a number.",
                hint="0 disables the time to live.",
            )
        if not (self.expiry_check_s > 0 and self.retention_check_s > 0):
            raise InputError("The check intervals for retention and time to live must be above 0.")
        if self.copies < 1:
            raise InputError(
                f"The write quorum is {self.copies}.", hint="Each entry needs at least one copy."
            )


@dataclass(frozen=True)
class Phase:
    """One part of a message's life, minutes since it was published.

    Attributes:
        name: ``backlog``, ``kept`` or ``waits for deletion``.
        begins: Start.
        ends: End at the latest; ``None`` if unlimited.
        why: One sentence.
    """

    name: str
    begins: float
    ends: float | None
    why: str


def life_of_message(
    rule: RetentionRule, *, consumed_after_minutes: float | None, bytes_per_s: float
) -> tuple[Phase, ...]:
    """Return the phases of a message's life on a topic with steady traffic.

    Args:
        rule: What decides.
        consumed_after_minutes: When the last subscription acknowledges it; ``None`` if never.
        bytes_per_s: What the topic takes in.
    Raises:
        InputError: A negative number.
    Source:
        Pulsar ``ManagedLedgerImpl#internalTrimLedgers``: oldest first, data stay only while within
        both the time and the size; a time to live acknowledges for the subscriptions.
    """
    if not (bytes_per_s >= 0 and (consumed_after_minutes or 0) >= 0):
        raise InputError("A rate or time is negative or not a number.", hint="Specify 0 or more.")
    expiry = (rule.ttl_s + rule.expiry_check_s) / 60 if rule.ttl_s else None
    acked, why = consumed_after_minutes, "until every subscription has acknowledged it"
    if expiry is not None and (acked is None or rule.ttl_s / 60 < acked):
        acked = expiry
        why = "until its time to live ends and the next check acknowledges it"
    if acked is None:
        endless = "no subscription acknowledges it, and there is no time to live"
        return (Phase("backlog", 0.0, None, endless),)
    backlog = Phase("backlog", 0.0, acked, why)
    limit = kept_minutes(rule, bytes_per_s)
    if limit is None:
        return (backlog, Phase("kept", acked, None, "retention is unlimited"))
    until = max(acked, limit)
    phases = [backlog]
    if until > acked:
        phases.append(Phase("kept", acked, until, _kept_by(rule, bytes_per_s)))
    gone = until + rule.rollover_minutes + rule.retention_check_s / 60
    phases.append(
        Phase(
            "waits for deletion",
            until,
            gone,
            "its ledger must be closed, and every message in it acknowledged or expired",
        )
    )
    return tuple(phases)


def held_words(rule: RetentionRule, phases: Sequence[Phase], bytes_per_s: float) -> str:
    """Return the max data of a topic, alone and with all copies, or "" if unlimited."""
    last = phases[-1].ends
    if last is None:
        return ""
    gigabytes = last * 60 * bytes_per_s / 1e9
    return (
        f"the topic holds up to {gigabytes:,.1f} GB, {gigabytes * rule.copies:,.1f} GB on the "
        f"bookies with {pluralize(rule.copies, 'copy')}"
    )


def kept_minutes(rule: RetentionRule, bytes_per_s: float) -> float | None:
    """Return the age at which acknowledged data may be deleted, or ``None`` if never."""
    limits: list[float] = []
    if rule.retention_minutes != FOREVER:
        limits.append(rule.retention_minutes)
    if rule.retention_megabytes == 0:
        limits.append(0.0)
    elif rule.retention_megabytes != FOREVER and bytes_per_s > 0:
        limits.append(rule.retention_megabytes * _MIB_BYTES / bytes_per_s / 60)
    return min(limits) if limits else None


def _kept_by(rule: RetentionRule, bytes_per_s: float) -> str:
    limit = kept_minutes(rule, bytes_per_s)
    if limit is not None and limit == rule.retention_minutes:
        return f"retention time, {rule.retention_minutes:g} min"
    return f"retention size, {rule.retention_megabytes:g} MB at this rate"


@dataclass(frozen=True, kw_only=True)
class CompactionRule:
    """When a bookie rewrites entry logs; class defaults of BookKeeper 4.17.3.

    Attributes:
        minor_threshold: Share of live data below which a minor compaction takes a log.
        minor_interval_s: Seconds between two of them.
        major_threshold: The same for a major one.
        major_interval_s: Seconds between two of those.
    """

    minor_threshold: float = 0.2
    minor_interval_s: float = 3_600.0
    major_threshold: float = 0.8
    major_interval_s: float = 86_400.0

    def __post_init__(self) -> None:
        for name in ("minor_threshold", "major_threshold"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name):g}; use a ratio from 0 to 1.")
        if self.minor_threshold > self.major_threshold:
            raise InputError(
                "The threshold of minor compaction is above that of major compaction.",
                hint="A bookie refuses to start with that.",
            )


@dataclass(frozen=True)
class LogFate:
    """Outcome of an entry log.

    Attributes:
        action: ``deleted``, ``minor``, ``major`` or ``stays``.
        within_s: At the latest after so many seconds; ``None`` if not at this share.
        freed_ratio: Share of its size that comes back.
        rewritten_ratio: Share of its size that is written again for it.
    """

    action: str
    within_s: float | None
    freed_ratio: float
    rewritten_ratio: float


def fate_of_log(rule: CompactionRule, live_ratio: float) -> LogFate:
    """Return a bookie's treatment of an entry log with a share of live data.

    Args:
        rule: Thresholds.
        live_ratio: Share of its bytes that belongs to ledgers that exist, 0..1.
    Raises:
        InputError: A share outside 0..1.
    """
    if not 0 <= live_ratio <= 1:
        raise InputError(f"The live ratio {live_ratio} is not between 0 and 1.")
    if live_ratio == 0:
        return LogFate("deleted", rule.minor_interval_s, 1.0, 0.0)
    if live_ratio < rule.minor_threshold:
        return LogFate("minor", rule.minor_interval_s, 1 - live_ratio, live_ratio)
    if live_ratio < rule.major_threshold:
        return LogFate("major", rule.major_interval_s, 1 - live_ratio, live_ratio)
    return LogFate("stays", None, 0.0, 0.0)
