"""Defaults of retention, time to live and ledgers that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.findings.engine import Rule
from core.findings.finding import Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.rules.combinations.model import Case

_TIME: Final = "defaultRetentionTimeInMinutes"
_SIZE: Final = "defaultRetentionSizeInMB"
_TTL: Final = "ttlDurationDefaultInSeconds"
_TTL_CHECK: Final = "messageExpiryCheckIntervalInMinutes"
_SHORTEST: Final = "managedLedgerMinLedgerRolloverTimeMinutes"
_LONGEST: Final = "managedLedgerMaxLedgerRolloverTimeMinutes"
_MINUTE_S: Final = 60.0


def half_a_retention(case: Case) -> Iterator[Finding]:
    """A limit of 0 together with one that should retain something.

    Source:
        Pulsar ``ManagedLedgerImpl#internalTrimLedgers``: data stay only inside both limits.
    """
    minutes, megabytes = case.number(_TIME), case.number(_SIZE)
    if (minutes == 0) is (megabytes == 0):
        return
    zero = _SIZE if megabytes == 0 else _TIME
    yield Finding(
        code="retention_incomplete",
        title="Retention time and size disagree",
        measured=Quantity(minutes, "min"),
        limit=Quantity(megabytes, "MB"),
        severity="warning",
        keys=(_TIME, _SIZE),
        sentence=f"{_TIME} is {minutes:g}, {_SIZE} is {megabytes:g}.",
        consequence="Acknowledged data is retained only within both limits, so the 0 "
        "retains nothing.",
        hint="-1 means no limit on that side; 0 in both deliberately retains nothing.",
        fix=Fix(wanted={zero: -1}),
    )


def retention_of_open_ledgers(case: Case) -> Iterator[Finding]:
    """A retention shorter than ledgers stay open."""
    minutes, open_for = case.number(_TIME), case.number(_LONGEST)
    if 0 < minutes < open_for:
        yield Finding(
            code="retention_below_rollover",
            title="Retention is shorter than ledger rollover",
            measured=Quantity(minutes, "min"),
            limit=Quantity(open_for, "min"),
            severity="info",
            keys=(_TIME, _LONGEST),
            sentence=f"Data is retained for {minutes:g} min, but a ledger stays open for up "
            f"to {open_for:g} min.",
            consequence="Only closed ledgers are deleted: on a slow topic data lives for up to "
            f"{minutes + open_for:g} min.",
            hint="Size the disks for the longer time, or close ledgers sooner.",
        )


def time_to_live(case: Case) -> Iterator[Finding]:
    """A time to live that its check, or the retention, belies."""
    ttl, every = case.number(_TTL), case.number(_TTL_CHECK) * _MINUTE_S
    retained_s = case.number(_TIME) * _MINUTE_S
    if 0 < ttl < every:
        yield Finding(
            code="expiry_after_ttl",
            title="Expiry check is slower than TTL",
            measured=Quantity(every, "s"),
            limit=Quantity(ttl, "s"),
            severity="warning",
            keys=(_TTL, _TTL_CHECK),
            sentence=f"Unread messages expire after {ttl:g} s, but the check runs every "
            f"{every:g} s.",
            consequence=f"They live up to {ttl + every:g} s.",
            hint="Check at least as often as the time to live.",
            fix=Fix(wanted={_TTL_CHECK: max(1, int(ttl // _MINUTE_S))}),
        )
    if 0 < retained_s < ttl:
        yield Finding(
            code="ttl_beyond_retention",
            title="TTL exceeds retention",
            measured=Quantity(ttl, "s"),
            limit=Quantity(retained_s, "s"),
            severity="info",
            keys=(_TTL, _TIME),
            sentence=f"Unread messages live {ttl:g} s, acknowledged ones are retained for "
            f"{retained_s:g} s.",
            consequence="Unread data outlives read data: slow subscriptions fill the disks.",
            hint="The usual advice is to set both to the same value.",
        )


def rollover(case: Case) -> Iterator[Finding]:
    """A ledger's shortest life beyond its longest.

    Source:
        Pulsar ``ManagedLedgerImpl#currentLedgerIsFull``.
    """
    shortest, longest = case.number(_SHORTEST), case.number(_LONGEST)
    if 0 < longest < shortest:
        yield Finding(
            code="rollover_crossed",
            title="Ledger rollover bounds are crossed",
            measured=Quantity(longest, "min"),
            limit=Quantity(shortest, "min"),
            severity="warning",
            keys=(_SHORTEST, _LONGEST),
            sentence=f"A ledger is closed after {longest:g} min, and not before {shortest:g} min.",
            consequence=f"Every ledger stays open for {shortest:g} min, regardless of its content.",
            hint="Set the min below the max; the upstream defaults are 10 and 240.",
            fix=Fix(wanted={_SHORTEST: 10 if longest > 10 else 0}),
        )


RULES: Final[tuple[Rule[Case], ...]] = (
    half_a_retention,
    retention_of_open_ledgers,
    time_to_live,
    rollover,
)
