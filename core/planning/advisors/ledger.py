"""Ledgers: when the next one begins, how big they become, and how they spread over disks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

_MIB_BYTES: Final = 1024**2
_TIMER_SPREAD: Final = 0.05

Cause = Literal["entries", "size", "age"]


@dataclass(frozen=True, kw_only=True)
class RolloverRule:
    """When a managed ledger closes its current ledger.

    Attributes:
        min_minutes: ``managedLedgerMinLedgerRolloverTimeMinutes``; 0: no lower bound.
        max_minutes: ``managedLedgerMaxLedgerRolloverTimeMinutes``.
        max_entries: ``managedLedgerMaxEntriesPerLedger``.
        max_megabytes: ``managedLedgerMaxSizePerLedgerMbytes``, of 1,048,576 bytes.
    """

    min_minutes: float = 10.0
    max_minutes: float = 240.0
    max_entries: int = 50_000
    max_megabytes: int = 2048

    def __post_init__(self) -> None:
        bounds = (self.max_minutes, self.max_entries, self.max_megabytes)
        if not (self.min_minutes >= 0 and all(bound > 0 for bound in bounds)):
            raise InputError(
                "A bound of the rollover rule is not above 0.",
                hint="Only the min age can be 0.",
            )
        if self.max_minutes < self.min_minutes:
            raise InputError(
                f"The max age ({self.max_minutes:g} min) is below the min age "
                f"({self.min_minutes:g} min).",
                hint="A broker refuses to start with that.",
            )

    def is_full(self, *, entries: float, size_bytes: float, age_minutes: float) -> bool:
        """Return whether the ledger is closed at the next entry.

        Source:
            Pulsar ``ManagedLedgerImpl#currentLedgerIsFull``.
        """
        over = (
            entries >= self.max_entries
            or size_bytes >= self.max_megabytes * _MIB_BYTES
            or age_minutes >= self.max_minutes
        )
        return over and (self.min_minutes == 0 or age_minutes > self.min_minutes)


@dataclass(frozen=True)
class Rollover:
    """The next end of a ledger at a steady rate.

    Attributes:
        cause: Which bound it reaches first.
        age_minutes: Of the ledger then.
        latest_minutes: The same when the timer is as late as it may be; only ``age`` has a timer.
        in_minutes: From now.
        entries: In it by then.
        size_bytes: Of it by then.
        held_by_minimum: Whether it is full earlier and the least age keeps it open.
    """

    cause: Cause
    age_minutes: float
    latest_minutes: float
    in_minutes: float
    entries: float
    size_bytes: float
    held_by_minimum: bool


def next_rollover(
    rule: RolloverRule,
    *,
    entries_per_s: float,
    bytes_per_s: float,
    age_minutes: float = 0.0,
    entries: float = 0.0,
    size_bytes: float = 0.0,
) -> Rollover | None:
    """Return the end of the current ledger, or ``None`` if it is empty and nothing is written.

    Args:
        rule: The bounds.
        entries_per_s: Entries, that is batches, written.
        bytes_per_s: Written.
        age_minutes: Of the ledger now.
        entries: In it now.
        size_bytes: Of it now.
    Raises:
        InputError: A negative number.
    """
    given = (entries_per_s, bytes_per_s, age_minutes, entries, size_bytes)
    if not all(0 <= one < np.inf for one in given):
        raise InputError(
            "A rate, age or size is negative or not a number.", hint="Specify 0 or more."
        )
    if entries_per_s == 0 and entries == 0:
        return None
    max_bytes = rule.max_megabytes * _MIB_BYTES
    ages: dict[Cause, float] = {
        "entries": age_minutes + _minutes(rule.max_entries - entries, entries_per_s),
        "size": age_minutes + _minutes(max_bytes - size_bytes, bytes_per_s),
        "age": rule.max_minutes,
    }
    cause = min(ages, key=lambda name: ages[name])
    reached = ages[cause]
    at = max(reached, rule.min_minutes, age_minutes)
    passed_s = (at - age_minutes) * 60
    return Rollover(
        cause=cause,
        age_minutes=at,
        latest_minutes=at * (1 + _TIMER_SPREAD) if cause == "age" else at,
        in_minutes=at - age_minutes,
        entries=entries + entries_per_s * passed_s,
        size_bytes=size_bytes + bytes_per_s * passed_s,
        held_by_minimum=reached < rule.min_minutes and age_minutes < rule.min_minutes,
    )


def _minutes(missing: float, per_s: float) -> float:
    if missing <= 0:
        return 0.0
    return missing / per_s / 60 if per_s > 0 else np.inf


@dataclass(frozen=True, eq=False)
class DiskSpread:
    """Ledgers over the directories of one bookie.

    Attributes:
        ledgers: Per directory.
        size_bytes: Per directory.
    """

    ledgers: NDArray[np.int64]
    size_bytes: NDArray[np.float64]

    @property
    def unevenness(self) -> float:
        """Deviation of the fullest directory from the mean, share of the mean; 0 without data."""
        mean = float(self.size_bytes.mean())
        return float(self.size_bytes.max()) / mean - 1 if mean else 0.0


def spread_over_disks(
    ledger_ids: NDArray[np.int64], sizes: NDArray[np.float64], directories: int
) -> DiskSpread:
    """Return a bookie's directory of each ledger: its number modulo the directories.

    Args:
        ledger_ids: Numbers.
        sizes: Bytes, same length.
        directories: ``ledgerDirectories`` of the bookie.
    Raises:
        InputError: No directory, or lengths that differ.
    Source:
        The vivo report: ledger id modulo directories; even ledgers make even disks.
    """
    if directories < 1:
        raise InputError(f"A bookie needs at least 1 ledger directory, not {directories}.")
    if ledger_ids.shape != sizes.shape:
        raise InputError(f"{ledger_ids.size} ledgers, but {sizes.size} sizes.")
    at = ledger_ids % directories
    return DiskSpread(
        np.bincount(at, minlength=directories),
        np.bincount(at, weights=sizes, minlength=directories).astype(np.float64),
    )
