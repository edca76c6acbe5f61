"""Bundles that no broker serves: stuck in transfer, or owned by a broker that is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import Floats, column_values
from core.diagnosis.pulsar.context import Candidate, DiagnosisContext
from core.diagnosis.pulsar.trials import Change
from core.pulsar.defects import UNLOAD_HANGS, defect_note
from core.pulsar.liveness import DEAD, UNKNOWN, liveness_of
from core.pulsar.owners import ORPHANED, STUCK, ownership_of, worst_first
from core.pulsar.plan.outcomes import Scenario
from core.pulsar.plan.project import project_scenario
from core.pulsar.rules.liveness import registration_fix
from core.pulsar.served import REGISTRATIONS, services_of
from core.pulsar.settings import effective_settings
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms, format_age, pluralize

_IN_FLIGHT: Final = "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis"
_MONITOR: Final = "loadBalancerServiceUnitStateMonitorIntervalInSeconds"
_MAX_NAMED: Final = 3
_MS_PER_S: Final = 1_000.0


def stuck_bundles(context: DiagnosisContext) -> Iterator[Candidate]:
    """Bundles that stay in Assigning, Releasing or Splitting: lookups of their topics wait."""
    rows = context.unserved_rows(STUCK)
    if not rows.size:
        return
    units = _units(context.snapshot, rows)
    taken_ms = datetime_to_ms(context.snapshot.manifest.taken_at)
    age_s = max(taken_ms - row["changed_at"] for row in units) / _MS_PER_S
    wait_s = context.settings.number(_IN_FLIGHT) / _MS_PER_S
    repaired_s = wait_s + context.settings.number(_MONITOR)
    counts = Counter(row["state"] for row in units).most_common()
    states = ", ".join(f"{count:,} {state}" for state, count in counts)
    brokers = dict.fromkeys(str(row["broker"]) for row in units if row["broker"])
    leader = context.snapshot.manifest.leader or "the leader"
    effect = "the split does not finish" if set(dict(counts)) == {"Splitting"} else "clients wait"
    hint = f"The leader repairs this within {repaired_s:g} s of the change; check again."
    if age_s > repaired_s:
        hint = (
            f"The leader did not repair this within {repaired_s:g} s: restart {leader}; "
            "the next leader repairs the bundles."
        )
    if any(row["state"] == "Releasing" for row in units):
        hint = f"{hint} {defect_note(UNLOAD_HANGS, context.settings.target)}".rstrip()
    yield Candidate(
        code="stuck_ownership",
        keys=(_IN_FLIGHT, _MONITOR),
        objects=(*_names(context.snapshot, rows), *brokers),
        summary=f"{pluralize(rows.size, 'bundle')} stuck in transfer ({states}) for up to "
        f"{format_age(age_s)}, limit {wait_s:g} s: {effect}.",
        changes=(_assigned(context, rows, "stuck bundles assigned"),),
        hint=hint,
        measured=age_s,
        threshold=wait_s,
        unit="s",
        tier=-1,
    )


def stale_owners(context: DiagnosisContext) -> Iterator[Candidate]:
    """Bundles owned by a broker that is dead or not registered: lookups lead nowhere."""
    rows = context.unserved_rows(ORPHANED)
    if not rows.size:
        return
    bundles = context.snapshot.bundles
    found = ownership_of(context.snapshot, context.settings)
    orphans = worst_first(found.bundles, (ORPHANED,))
    owners = Counter(bundles["owner"].take(pa.array(rows)).to_pylist()).most_common()
    named = " and ".join(owner for owner, _ in owners[:_MAX_NAMED])
    verdicts = [found.liveness.by_broker.get(owner) for owner, _ in owners]
    only = verdicts[0] if len(owners) == 1 else None
    condition = "dead or not registered"
    if only is not None and only.state != UNKNOWN:
        condition = only.reason
    hint = services_of(context.snapshot, context.settings, found).fix_of(orphans)
    dead = [one for one in verdicts if one is not None and one.state == DEAD and one.is_registered]
    if dead and f"{REGISTRATIONS}{dead[0].broker}" not in hint:
        hint += f" {registration_fix(dead, context.settings.target)}"
    yield Candidate(
        code="stale_owner",
        objects=(*(owner for owner, _ in owners[:_MAX_NAMED]), *_names(context.snapshot, rows)),
        summary=f"{pluralize(rows.size, 'bundle')} owned by {named} ({condition}); no broker "
        "serves them.",
        changes=(_assigned(context, rows, "orphaned bundles assigned"),),
        hint=hint,
        measured=float(rows.size),
        threshold=0.0,
        unit="bundles",
        tier=-1,
    )


def _names(snapshot: PulsarSnapshot, rows: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the bundles with the most traffic."""
    traffic = _traffic(snapshot.bundles)[rows]
    picked = rows[np.argsort(-traffic, kind="stable")][:_MAX_NAMED]
    return tuple(snapshot.bundles["bundle"].take(pa.array(picked)).to_pylist())


def _units(snapshot: PulsarSnapshot, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    names = snapshot.bundles["bundle"].take(pa.array(rows))
    units = snapshot.unit_states
    mine = units.filter(pc.is_in(units["bundle"], value_set=names.combine_chunks()))
    found: list[dict[str, Any]] = mine.to_pylist()
    return found


def _assigned(context: DiagnosisContext, rows: NDArray[np.int64], data: str) -> Change:
    change = Change(data=data, edit=partial(_with_owners, rows=rows))
    return context.base.also(change) if context.settings.shedding_off else change


def _with_owners(snapshot: PulsarSnapshot, rows: NDArray[np.int64]) -> PulsarSnapshot:
    """Return the snapshot with these bundles at their destination, else on the idlest broker."""
    dead = liveness_of(snapshot, effective_settings(snapshot)).dead
    traffic = zip(
        snapshot.brokers["broker"].to_pylist(), _traffic(snapshot.brokers).tolist(), strict=True
    )
    load = {name: value for name, value in traffic if name not in dead}
    if not load:
        return snapshot
    names = snapshot.bundles["bundle"].take(pa.array(rows)).to_pylist()
    wanted = {row["bundle"]: row["broker"] for row in _units(snapshot, rows)}
    carried = _traffic(snapshot.bundles)[rows]
    ends: list[str | None] = [None] * rows.size
    for at in np.argsort(-carried, kind="stable").tolist():
        meant = wanted.get(names[at])
        end = str(meant) if meant in load else min(load, key=lambda name: load[name])
        load[end] += float(carried[at])
        ends[at] = end
    served = project_scenario(snapshot, rows, Scenario(1.0, tuple(ends)))
    is_mine = pc.is_in(snapshot.claims["subject"], value_set=pa.array(names, pa.string()))
    units = snapshot.unit_states.filter(
        pc.invert(pc.is_in(snapshot.unit_states["bundle"], value_set=pa.array(names, pa.string())))
    )
    tables = {
        **served.tables,
        "claims": snapshot.claims.filter(pc.invert(is_mine)),
        "unit_states": units,
    }
    return PulsarSnapshot.build(snapshot.manifest, tables)


def _traffic(table: pa.Table) -> Floats:
    both = column_values(table, "msg_throughput_in") + column_values(table, "msg_throughput_out")
    return np.nan_to_num(both)
