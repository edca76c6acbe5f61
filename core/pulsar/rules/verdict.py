"""The verdict on a Pulsar cluster: every rule of health and of settings, and what was examined."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from core.findings.engine import worst_first
from core.findings.finding import Finding
from core.findings.verdict import PROBLEMS, Area, Verdict
from core.progress import NO_PROGRESS, Progress
from core.pulsar.leader_activity import leader_activity
from core.pulsar.liveness import liveness_of
from core.pulsar.measures import Measures, Target, measure
from core.pulsar.rules.bundle_facts import BundleFacts
from core.pulsar.rules.doctor.examine import examine
from core.pulsar.rules.fleet import is_from_files, leader_is_unread
from core.pulsar.rules.recorded_past import RecordedPast
from core.pulsar.rules.registry import AREAS, assess
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.snapshot import PulsarSnapshot
from core.units import pluralize

AREA_OF_DOCTOR: Final[Mapping[str, str]] = {
    "settings": "settings",
    "brokers": "settings",
    "capacity": "measurements",
    "policies": "policies",
    "record": "measurements",
}
"""The area of the verdict that an area of the settings doctor belongs to."""

_SAME: Final[Mapping[str, str]] = {
    "mixed_releases": "mixed_versions",
    "no_limit": "capacity_missing",
    "network_limit_odd": "nic_limit_suspicious",
}
"""Code of the doctor to the code of health that says the same."""

_DUMP: Final = "not in this dump"
_NO_ENTRIES: Final = "ownership entries are read from ZooKeeper only"
_FILES: Final = "not in these files"


def verdict_of(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings | None = None,
    *,
    target: Target | None = None,
    bundles: BundleFacts | None = None,
    past: RecordedPast | None = None,
    earlier: Sequence[pa.Table] = (),
    moved: Collection[str] = frozenset(),
    progress: Progress = NO_PROGRESS,
) -> Verdict:
    """Judge one snapshot by every rule, those of the settings doctor included.

    By its own settings it is judged once, however many pages and commands ask.

    Args:
        snapshot: Any snapshot; an area that it lacks the data of is named as not examined.
        settings: The active settings; by default those of the snapshot.
        target: What counts as balanced; by default the cluster's own target.
        bundles: Who holds the bundles, where the snapshot does not.
        past: What was recorded of the cluster.
        earlier: Brokers of the minutes before the snapshot, oldest first; see
            :class:`core.pulsar.rules.context.HealthContext`.
        moved: Bundles whose owner changed in the minutes before.
        progress: Called before each rule.
    """
    chosen = effective_settings(snapshot) if settings is None else settings
    judge = partial(_judged, snapshot, chosen, target, bundles, past, earlier, moved, progress)
    if all(one is None for one in (settings, target, bundles, past)) and not (earlier or moved):
        known: Verdict = snapshot.derived.get("verdict", judge)
        return known
    return judge()


def _judged(
    snapshot: PulsarSnapshot,
    chosen: EffectiveSettings,
    target: Target | None,
    bundles: BundleFacts | None,
    past: RecordedPast | None,
    earlier: Sequence[pa.Table],
    moved: Collection[str],
    progress: Progress,
) -> Verdict:
    health = assess(
        snapshot, chosen, target=target, bundles=bundles, moved=moved, progress=progress
    )
    progress.step(0, 0, "settings doctor")
    doctor = examine(snapshot, chosen, past, earlier).diagnoses
    found = worst_first((*health, *_problems_of_doctor(doctor, health)))
    case = _Case(snapshot, chosen, measure(snapshot, chosen), bundles is not None)
    areas = tuple(Area(name=name, unexamined=case.unexamined(name)) for name in AREAS)
    return Verdict(findings=found, areas=areas)


def _problems_of_doctor(
    doctor: tuple[Finding, ...], health: tuple[Finding, ...]
) -> Iterator[Finding]:
    """Yield the doctor's problems that health does not have; its notes stay with it."""
    problems = [one for one in health if one.severity in PROBLEMS]
    known = {(one.code, subject) for one in problems for subject in (one.subject, "")}
    for one in doctor:
        code = _SAME.get(one.code, one.code)
        is_same = (code, one.subject) in known or (code, "") in known
        if one.severity in PROBLEMS and not is_same:
            yield replace(one, area=AREA_OF_DOCTOR.get(one.area, "settings"))


class _Case:
    """Missing parts of a snapshot, by area."""

    def __init__(
        self,
        snapshot: PulsarSnapshot,
        settings: EffectiveSettings,
        measures: Measures,
        bundles_elsewhere: bool,  # noqa: FBT001  # a fact of the case, no switch
    ) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._measures = measures
        self._bundles_elsewhere = bundles_elsewhere

    def unexamined(self, area: str) -> str:
        """Return the reason an area was not or only partly examined, or ""."""
        if not self._snapshot.brokers.num_rows:
            return "no broker is known"
        reason = _REASONS.get(area)
        return reason(self) if reason is not None else ""

    @property
    def _is_dump(self) -> bool:
        return any(one.source == "dump" for one in self._snapshot.manifest.tables.values())

    def _absent(self, otherwise: str) -> str:
        if is_from_files(self._snapshot):
            return _FILES
        return _DUMP if self._is_dump else otherwise

    def load(self) -> str:
        """Brokers without a load report, and bundles without rates."""
        spread = self._measures.throughput
        total = len(spread.brokers)
        lacking = spread.unknown_count
        if lacking == total:
            return "no broker has a load report"
        if lacking:
            return f"{lacking} of {pluralize(total, 'broker')} have no load report"
        return ""

    def serving(self) -> str:
        """Ownership entries are in ZooKeeper, or in the channel of the extensible manager."""
        bundles = self._snapshot.bundles
        if self._bundles_elsewhere:
            manifest = self._snapshot.manifest
            claims = manifest.tables.get("claims")
            is_unread = manifest.load_manager != "extensible" and not (claims and claims.rows)
            if is_unread:
                return self._absent(_NO_ENTRIES)
            return "ownership sessions are evaluated only for snapshots in memory"
        entry = self._snapshot.manifest.tables.get("bundles")
        if entry is not None and entry.coverage_ratio is not None and entry.coverage_ratio < 1:
            return f"{entry.rows:,} of {entry.expected or 0:,} bundles were read"
        unknown = int(_null_owners(bundles))
        if unknown:
            return f"the owner of {pluralize(unknown, 'bundle')} is unknown"
        return self._owners_unread() if bundles.num_rows else ""

    def _owners_unread(self) -> str:
        snapshot = self._snapshot
        if snapshot.manifest.load_manager == "extensible":
            is_read = pc.any(pc.equal(snapshot.bundles["owner_source"], "channel")).as_py()
            is_read = is_read or snapshot.unit_states.num_rows
            return "" if is_read else self._absent("the ownership channel was not read")
        is_read = pc.any(pc.equal(snapshot.claims["subject_kind"], "bundle")).as_py()
        return "" if is_read else self._absent(_NO_ENTRIES)

    def liveness(self) -> str:
        """Sessions decide, and the time of a broker's last report."""
        liveness = liveness_of(self._snapshot, self._settings)
        rows = [row for row in liveness.rows if row.is_registered]
        lacking = sum(row.reported_at is None for row in rows)
        if not lacking:
            return liveness.unexamined
        total = pluralize(len(rows), "broker")
        return f"the time of the last report of {lacking} of {total} is unknown"

    def leader(self) -> str:
        """Return the reason leader data is missing: its times are in ZooKeeper only."""
        if self._snapshot.manifest.leader is None and leader_is_unread(self._snapshot):
            return self._absent("")
        return leader_activity(self._snapshot, self._settings).unexamined

    def settings(self) -> str:
        """Without a line of the running configuration every value is a default, assumed."""
        origins = set(self._snapshot.settings["origin"].to_pylist())
        if not origins - {"dynamic", "stored"}:
            found = "" if not origins else ": only dynamic ones"
            why = self._absent("read, which requires admin_urls").removeprefix("not ")
            return f"settings are not {why}{found}"
        return ""

    def policies(self) -> str:
        """Policies are in ZooKeeper, or read over REST."""
        entry = self._snapshot.manifest.tables.get("policies")
        if entry is None or entry.source == "none":
            return self._absent("policies were not read")
        return ""

    def addresses(self) -> str:
        """Service addresses are in the load reports."""
        brokers = self._snapshot.brokers
        urls = pc.coalesce(brokers["service_url"], brokers["service_url_tls"])
        lacking = urls.null_count
        if lacking == brokers.num_rows:
            return self._absent("no load report has service URLs")
        if lacking:
            return f"{lacking} of {pluralize(brokers.num_rows, 'broker')} report no service URL"
        return ""

    def splits(self) -> str:
        """Bundles are split by their rates and topics."""
        if self._bundles_elsewhere or not self._snapshot.bundles.num_rows:
            return "" if self._bundles_elsewhere else "no bundle is known"
        rates = self._snapshot.bundles["msg_rate_in"]
        return "rates of bundles are unknown" if rates.null_count == len(rates) else ""


def _null_owners(bundles: pa.Table) -> int:
    unknown = bundles["owner"].is_null().to_numpy(zero_copy_only=False)
    unread = bundles["owner_source"].is_null().to_numpy(zero_copy_only=False)
    return int((unknown & unread).sum())


_REASONS: Final[Mapping[str, Callable[[_Case], str]]] = {
    "load": _Case.load,
    "serving": _Case.serving,
    "liveness": _Case.liveness,
    "leader": _Case.leader,
    "measurements": _Case.load,
    "settings": _Case.settings,
    "policies": _Case.policies,
    "addresses": _Case.addresses,
    "splits": _Case.splits,
}
