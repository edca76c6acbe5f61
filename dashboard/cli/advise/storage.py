"""``trimtab advise ledger``, ``retention`` and ``disks``: what they compute and how they answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc

from core.errors import IncompleteSnapshotError, UnknownNameError
from core.planning.advisors.contradictions import contradictions
from core.planning.advisors.disks import disk_picture, disks_words
from core.planning.advisors.ledger import Rollover, RolloverRule, next_rollover
from core.planning.advisors.retention import RetentionRule, held_words, life_of_message
from core.snapshot.store import load_snapshot
from dashboard.cli.output import Answer, UsageFaultError, emit, say, table
from dashboard.cli.releases import active_settings
from dashboard.presenters.advisors_facts import (
    live_ledger,
    live_settings,
    live_storage,
    namespace_facts,
)
from dashboard.presenters.advisors_inputs import LEDGER, RETENTION, Knob, Live, Number

_MEASURED: Final = frozenset({"entries", "written"})


@dataclass(frozen=True, kw_only=True)
class StorageRequest:
    """What is asked of an advisor of storage.

    Attributes:
        given: Inputs by key, in the units of the page; ``None``: from the snapshot, or the default.
        snapshot: Whose settings and rates fill what is not given.
        namespace: Whose average topic it is.
    """

    given: Mapping[str, Number | None]
    snapshot: Path | None = None
    namespace: str | None = None


@dataclass(frozen=True)
class _Inputs:
    values: Mapping[str, Number]
    words: Mapping[str, str]

    def tell(self) -> None:
        """Say what was taken from the snapshot."""
        rows = [(key, f"{self.values[key]:,.6g}", words) for key, words in self.words.items()]
        if rows:
            table(("taken from the snapshot", "value", "where from"), rows)


def ledger(request: StorageRequest, *, entries: float, size: float, as_json: bool) -> int:
    """``trimtab advise ledger``: the next rollover."""
    inputs = _filled(request, LEDGER)
    held = inputs.values
    found = next_rollover(
        _rule(held),
        entries_per_s=float(held["entries"]),
        bytes_per_s=held["written"] * 1e6,
        age_minutes=float(held["age"]),
        entries=entries,
        size_bytes=size,
    )
    body: dict[str, Any] = {
        "rollover": dataclasses.asdict(found) if found else None,
        "inputs": dict(held),
        "taken_from_snapshot": dict(inputs.words),
    }

    def show() -> None:
        say(_rollover_words(found))
        inputs.tell()

    return emit(Answer(body, show), as_json=as_json)


def _rollover_words(found: Rollover | None) -> str:
    if found is None:
        return "Never: nothing is written, and an empty ledger is not rolled over."
    held = " (full earlier; the least age keeps it open)" if found.held_by_minimum else ""
    return (
        f"In {found.in_minutes:,.1f} min by {found.cause}{held}, with {found.entries:,.0f} "
        f"entries and {found.size_bytes / 1024**2:,.0f} MiB."
    )


def retention(request: StorageRequest, *, consumed_after: float | None, as_json: bool) -> int:
    """``trimtab advise retention``: the life of a message."""
    inputs = _filled(request, RETENTION)
    held = inputs.values
    rule = RetentionRule(
        retention_minutes=float(held["defaultRetentionTimeInMinutes"]),
        retention_megabytes=float(held["defaultRetentionSizeInMB"]),
        ttl_s=float(held["ttlDurationDefaultInSeconds"]),
        rollover_minutes=float(held["managedLedgerMaxLedgerRolloverTimeMinutes"]),
        expiry_check_s=held["messageExpiryCheckIntervalInMinutes"] * 60.0,
        retention_check_s=float(held["retentionCheckIntervalInSeconds"]),
        copies=int(held["managedLedgerDefaultWriteQuorum"]),
    )
    bytes_per_s = held["written"] * 1e6
    phases = life_of_message(rule, consumed_after_minutes=consumed_after, bytes_per_s=bytes_per_s)
    told = contradictions(
        rule,
        consumed_after_minutes=consumed_after,
        bytes_per_s=bytes_per_s,
        quota_megabytes=float(held["backlogQuotaDefaultLimitBytes"]),
    )
    stored = held_words(rule, phases, bytes_per_s)
    body = {
        "phases": [dataclasses.asdict(phase) for phase in phases],
        "held": stored,
        "contradictions": list(told),
        "inputs": {key: value for key, value in held.items() if key != "consumed"},
        "taken_from_snapshot": dict(inputs.words),
    }

    def show() -> None:
        rows = [
            (
                phase.name,
                f"{phase.begins:,.1f} min",
                "without end" if phase.ends is None else f"{phase.ends:,.1f} min",
                phase.why,
            )
            for phase in phases
        ]
        table(("phase", "from", "until at the latest", "why"), rows)
        if stored:
            say(f"Until then {stored}.")
        for sentence in told:
            say(f"warning: {sentence}")
        inputs.tell()

    return emit(Answer(body, show), as_json=as_json)


def disks(directory: Path, directories: int, *, as_json: bool) -> int:
    """``trimtab advise disks``: how evenly the ledgers of a cluster fill a bookie's directories."""
    snapshot = load_snapshot(directory)
    request = StorageRequest(given=dict.fromkeys(_MEASURED, 0), snapshot=directory)
    rule = _rule(_filled(request, LEDGER).values)
    movable = snapshot.bundles.filter(pc.invert(snapshot.bundles["is_broker_bound"]))
    found = disk_picture(movable, rule, directories)
    if found is None:
        raise IncompleteSnapshotError(
            f"No topic is known from {directory}.", hint="Capture the cluster with its load data."
        )
    body = {
        "ledgers": found.ledgers,
        "rule": dataclasses.asdict(rule),
        "largest_to_mean": found.largest_ratio,
        "by_rate": [float(one) for one in found.uneven.size_bytes],
        "all_alike": [float(one) for one in found.even.size_bytes],
        "fullest_above_mean": found.uneven.unevenness,
        "fullest_above_mean_if_alike": found.even.unevenness,
    }

    def show() -> None:
        say(disks_words(found, directories))
        rows = [
            (str(number), f"{size / 1024**3:,.1f} GiB", str(ledgers))
            for number, (size, ledgers) in enumerate(
                zip(found.uneven.size_bytes, found.uneven.ledgers, strict=True)
            )
        ]
        table(("directory", "holds", "ledgers"), rows)
        say(
            "Assumed: topics of a bundle all alike, one ledger each, numbered by chance, all on "
            "one bookie."
        )

    return emit(Answer(body, show), as_json=as_json)


def _rule(held: Mapping[str, Number]) -> RolloverRule:
    return RolloverRule(
        min_minutes=float(held["managedLedgerMinLedgerRolloverTimeMinutes"]),
        max_minutes=float(held["managedLedgerMaxLedgerRolloverTimeMinutes"]),
        max_entries=int(held["managedLedgerMaxEntriesPerLedger"]),
        max_megabytes=int(held["managedLedgerMaxSizePerLedgerMbytes"]),
    )


def _filled(request: StorageRequest, knobs: Sequence[Knob]) -> _Inputs:
    """Take what is given, else what the snapshot shows, else the release's default.

    Raises:
        UsageFaultError: A rate that neither tells.
    """
    live = _live(request, knobs)
    values: dict[str, Number] = {}
    words: dict[str, str] = {}
    for knob in knobs:
        given = request.given.get(knob.key)
        if given is not None:
            values[knob.key] = given
        elif knob.key in live:
            values[knob.key], words[knob.key] = live[knob.key].value, live[knob.key].words
        elif knob.key in _MEASURED:
            raise UsageFaultError(
                "The rate or the throughput is not given.",
                hint="Give --rate and --throughput, or --snapshot and --namespace.",
            )
        else:
            values[knob.key] = knob.value
    return _Inputs(values, words)


def _live(request: StorageRequest, knobs: Sequence[Knob]) -> dict[str, Live]:
    if request.snapshot is None:
        if request.namespace is not None:
            raise UsageFaultError(
                "A namespace is one of a snapshot.", hint="Give --snapshot with --namespace."
            )
        return {}
    snapshot = load_snapshot(request.snapshot)
    found = live_settings(active_settings(snapshot), knobs)
    if request.namespace is None:
        return found
    facts = namespace_facts(snapshot.bundles, request.namespace, snapshot.brokers.num_rows)
    if not facts.bundles:
        known = pc.unique(snapshot.bundles["namespace"]).to_pylist()
        raise UnknownNameError.of(
            "namespace", request.namespace, known, place=str(request.snapshot)
        )
    own = live_storage(snapshot, request.namespace)
    asked = {knob.key for knob in knobs}
    found |= {key: one for key, one in own.items() if key in asked}
    return found | live_ledger(facts, None)
