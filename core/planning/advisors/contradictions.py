"""What does not go together in the settings that decide over a topic's data."""

from __future__ import annotations

from collections.abc import Iterator

from core.planning.advisors.retention import FOREVER, RetentionRule

_MIB_BYTES = 1024**2
_TTL_CHECKS = 2.0


def contradictions(
    rule: RetentionRule,
    *,
    consumed_after_minutes: float | None,
    bytes_per_s: float,
    quota_megabytes: float = FOREVER,
) -> tuple[str, ...]:
    """Return one sentence for everything that does not go together; empty: nothing.

    Args:
        rule: Retention and time to live.
        consumed_after_minutes: When the last subscription acknowledges; ``None`` if never.
        bytes_per_s: What the topic takes in.
        quota_megabytes: ``backlogQuotaDefaultLimitBytes`` in MiB; -1: none.
    Source:
        Pulsar ``ManagedLedgerImpl#internalTrimLedgers`` (data stay only inside both limits),
        ``PersistentTopic#checkMessageExpiry``, ``BacklogQuotaManager``; the vivo report (a time to
        live as long as the retention).
    """
    return (
        *_of_retention(rule),
        *_of_ttl(rule, consumed_after_minutes),
        *_of_backlog(rule, consumed_after_minutes, bytes_per_s, quota_megabytes),
    )


def _of_retention(rule: RetentionRule) -> Iterator[str]:
    minutes, megabytes = rule.retention_minutes, rule.retention_megabytes
    if minutes != 0 and megabytes == 0:
        yield (
            "A retention time with a size of 0 retains nothing: data is retained "
            "only within both limits. Set the size to -1, or to the amount to "
            "retain."
        )
    if minutes == 0 and megabytes != 0:
        yield (
            "A retention size with a time of 0 retains nothing: data is retained "
            "only within both limits. Set the time to -1, or to the time to retain."
        )
    if 0 < minutes < rule.rollover_minutes:
        yield (
            f"Ledgers stay open for up to {rule.rollover_minutes:g} min and only "
            "closed ledgers are deleted: data lives well beyond the retention of "
            f"{minutes:g} min."
        )


def _of_ttl(rule: RetentionRule, consumed_after: float | None) -> Iterator[str]:
    if not rule.ttl_s:
        return
    ttl, kept = rule.ttl_s / 60, rule.retention_minutes
    if 0 < kept < ttl:
        yield (
            f"The time to live ({ttl:g} min) exceeds the retention ({kept:g} min): "
            "unread messages outlive read ones, so slow subscriptions fill the "
            "disk. The usual advice is to set both to the same value."
        )
    if kept == FOREVER or kept > ttl:
        end = "unlimited" if kept == FOREVER else f"{kept:g} min"
        yield (
            f"The time to live ({ttl:g} min) acknowledges unread messages while "
            f"retention ({end}) still keeps them: a subscription skips data that "
            "exists; only a reset reads it."
        )
    if consumed_after is not None and ttl < consumed_after:
        yield (
            f"The slowest subscription needs {consumed_after:g} min, the time to "
            f"live is {ttl:g} min: messages are skipped before they are read."
        )
    if rule.ttl_s < _TTL_CHECKS * rule.expiry_check_s:
        yield (
            f"The time to live ({rule.ttl_s:g} s) is short compared with its check "
            f"interval ({rule.expiry_check_s:g} s, "
            "messageExpiryCheckIntervalInMinutes): messages live up to "
            f"{(rule.ttl_s + rule.expiry_check_s) / rule.ttl_s:.1f} times as long."
        )


def _of_backlog(
    rule: RetentionRule, consumed_after: float | None, bytes_per_s: float, quota: float
) -> Iterator[str]:
    if consumed_after is None and not rule.ttl_s:
        yield (
            "No consumer reads, and no time to live is set: the backlog grows "
            "without limit" + ("." if quota < 0 else f" until the backlog quota of {quota:g} MiB.")
        )
    if quota < 0:
        return
    ends = [one for one in (consumed_after, rule.ttl_s / 60 if rule.ttl_s else None) if one]
    if not ends:
        return
    backlog = min(ends) * 60 * bytes_per_s / _MIB_BYTES
    if backlog > quota:
        yield (
            f"At this rate {backlog:,.0f} MiB are unread at any time, more than the "
            f"backlog quota of {quota:,.0f} MiB: producers are blocked, or messages "
            "evicted, in normal operation."
        )
    if quota >= 0 and 0 < rule.retention_megabytes < quota:
        yield (
            f"The backlog quota ({quota:g} MiB) exceeds the retention size "
            f"({rule.retention_megabytes:g} MiB): unread data may use more disk "
            "than read data."
        )
