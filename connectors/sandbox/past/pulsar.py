"""The simulated past of the Pulsar sandbox: its own workload, backwards from the first snapshot.

Loads are those of the first real snapshot, times what the workload had at the past moment over what
it has then: the last simulated minute goes over into the first real one. Who owned what follows
from a story, derived backwards from the owners in that snapshot:

* the newest broker joins 40 minutes before the start;
* those that were started within the day were restarted, one after the other;
* shedding was switched on for some hours: single moves off fuller brokers, and one bundle that
  goes back and forth;
* two runs of Trimtab.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from connectors.sandbox.past.columns import (
    STEP_MS,
    Floats,
    Rows,
    named,
    of_moment,
    scaled,
    with_columns,
)
from connectors.sandbox.pulsar.layout import plan_layout
from connectors.sandbox.pulsar.options import SandboxOptions
from connectors.sandbox.pulsar.state import Broker, FleetState
from connectors.sandbox.pulsar.workload import (
    CPU_LIMIT,
    DIRECT_LIMIT_MIB,
    HEAP_LIMIT_MIB,
    NIC_LIMIT_KBIT_S,
    Workload,
    host_usage,
    noisy_broker,
    per_owner,
)
from core.snapshot import PulsarSnapshot

_RATES: Final = ("msg_rate_in", "msg_throughput_in", "msg_rate_out", "msg_throughput_out")
_COUNTS: Final = ("topic_count", "producer_count", "consumer_count")
_HOUR_MS: Final = 3_600_000
_SHEDDING: Final = "loadBalancerSheddingEnabled"
_SHEDDING_HOURS: Final = (-14.0, -2.0)
_SHED_MOVES: Final = 16
_RUNS: Final = (
    (-3.5, "Simulated: rebalance before the peak", 4),
    (-1.5, "Simulated: unload a hot bundle", 1),
)
"""Hour, reason and unloads of the runs of Trimtab."""
_RESTARTED_AFTER: Final = -24.0
_UPTIME_BEFORE_MS: Final = 9 * 24 * _HOUR_MS
_FLAP_HOUR: Final = -5.0
_FLAP_TURNS: Final = 6
_FLAP_STEPS: Final = 9
_DOWN_STEPS: Final = 2
_AVERAGED: Final = 5
"""Minutes of the past that make a short-term average: ten of the clock."""

_LATENCIES: Final = ("write_p99_ms", "publish_p99_ms", "lookup_p99_ms")


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run of Trimtab in the past.

    Attributes:
        at_ms: When it was requested.
        reason: What is recorded with it.
        bundles: What it unloads, and to which broker.
    """

    at_ms: int
    reason: str
    bundles: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Changes:
    """Changes of owners, latest first.

    Attributes:
        at_ms: First moment that shows each.
        bundle: Its row.
        source: Row of the broker before.
    """

    at_ms: Rows
    bundle: Rows
    source: Rows

    @classmethod
    def of(cls, changes: Sequence[tuple[int, int, int]]) -> _Changes:
        """Return changes in order, of moment, bundle and source."""
        columns = np.array(sorted(changes, reverse=True), np.int64).reshape(-1, 3)
        return cls(columns[:, 0], columns[:, 1], columns[:, 2])

    def before(self, owner: Rows, moment_ms: int) -> Rows:
        """Return the owners at a moment, from the final owners."""
        later = self.at_ms > moment_ms
        found = owner.copy()
        found[self.bundle[later]] = self.source[later]  # of several the earliest is written last
        return found


class PulsarPast:
    """Makes snapshots of the time before the first real one.

    Args:
        first: The first real snapshot.
        options: Size, seed and pace of the sandbox.
    """

    def __init__(self, first: PulsarSnapshot, options: SandboxOptions) -> None:
        self._first = first
        self._end_ms = round(first.manifest.taken_at.timestamp() * 1000)
        self._rng = np.random.default_rng([options.seed, 4])
        layout = plan_layout(options)
        fleet = FleetState(layout, [Broker(row, "", 0, 0) for row in range(options.brokers)])
        self._topic_bundle = fleet.topic_bundle
        self._known = len(fleet.names)
        self._workload = Workload(layout, seed=options.seed, day_s=options.day_s)
        self._brokers: list[str] = first.brokers["broker"].to_pylist()
        self._names = pa.array(self._brokers, pa.string())
        in_order = sorted(range(options.brokers), key=lambda at: _address(self._brokers[at]))
        self._sandbox_row = np.argsort(in_order)
        self._noisy = noisy_broker(options.brokers)
        bundles = first.bundles
        self._row = np.array([fleet.row_of.get(name, -1) for name in bundles["bundle"].to_pylist()])
        self._owner = _places(bundles["owner"], self._names)
        self._rates = np.column_stack([_numbers(bundles[name]) for name in _RATES])
        self._now = self._bundle_rates(0)
        special = {layout.isolated, *layout.paired}
        self._special = [name for row, name in enumerate(layout.namespaces) if row in special]

    # -- the story ------------------------------------------------------------------------------

    @cached_property
    def _free(self) -> Rows:
        """Bundles that no policy binds, which may have been anywhere."""
        bundles = self._first.bundles
        is_bound = pc.is_in(bundles["namespace"], value_set=pa.array(self._special, pa.string()))
        return np.flatnonzero((self._row >= 0) & (self._owner >= 0) & ~is_bound.to_numpy())

    @cached_property
    def _started_ms(self) -> Rows:
        """When the process of each broker was started."""
        return _numbers(self._first.brokers["started_at"]).astype(np.int64)

    def _hour(self, hours: float) -> int:
        return self._end_ms + round(hours * _HOUR_MS)

    @cached_property
    def _story(self) -> tuple[_Changes, tuple[PastRun, ...]]:
        names = self._first.bundles["bundle"]
        moves = self._moves_to_tell()
        runs = []
        changes: list[tuple[int, int, int]] = []  # at, bundle, source
        for hours, reason, count in _RUNS:
            mine, moves = moves[:count], moves[count:]
            if mine:
                at_ms = self._hour(hours)
                changes += [(at_ms, row, source) for row, source in mine]
                unloads = {names[row].as_py(): self._brokers[self._owner[row]] for row, _ in mine}
                runs.append(PastRun(at_ms, reason, unloads))
        if moves:
            changes += self._flaps(*moves.pop())
        start, end = _SHEDDING_HOURS
        when = self._rng.uniform(start + 0.2, min(end, _FLAP_HOUR) - 1, len(moves))
        changes += [
            (self._hour(hour), row, source)
            for hour, (row, source) in zip(when.tolist(), moves, strict=True)
        ]
        changes += self._restarts(_Changes.of(changes).before(self._owner, self._hour(start)))
        return _Changes.of(changes), tuple(runs)

    def _moves_to_tell(self) -> list[tuple[int, int]]:
        """Return bundles, each with a fuller broker that it may have come from."""
        free, brokers = self._free, len(self._brokers)
        traffic = self._rates[:, 1] + self._rates[:, 3]
        load = np.bincount(self._owner[free], traffic[free], minlength=brokers)
        order = np.argsort(-load)[: np.count_nonzero(load)]
        full, cool = np.array_split(order, 2)
        coming = free[np.isin(self._owner[free], cool)]
        if not len(full) or not len(coming):
            return []
        # the heaviest stay: what they came off would have been beyond its capacity
        coming = coming[np.argsort(traffic[coming])][: max(1, 3 * len(coming) // 4)]
        count = min(_SHED_MOVES + sum(count for _, _, count in _RUNS), len(coming))
        rows = self._rng.choice(coming, count, replace=False)
        return list(zip(rows.tolist(), self._rng.choice(full, count).tolist(), strict=True))

    def _flaps(self, row: int, away: int) -> list[tuple[int, int, int]]:
        """Return the changes of a bundle that goes to a fuller broker and back, and again."""
        home = int(self._owner[row])
        return [
            (self._hour(_FLAP_HOUR) + turn * _FLAP_STEPS * STEP_MS, row, (home, away)[turn % 2])
            for turn in range(_FLAP_TURNS)
        ]

    def _restarts(self, owner: Rows) -> list[tuple[int, int, int]]:
        """Return the changes of a rolling restart: bundles leave a broker, and come back to it."""
        changes = []
        is_special = np.isin(np.arange(len(owner)), self._free, invert=True)
        for broker in np.flatnonzero(self._is_restarted).tolist():
            started_ms = int(self._started_ms[broker])
            for special in (False, True):
                mine = np.flatnonzero(
                    (owner == broker) & (self._row >= 0) & (is_special == special)
                )
                others = owner[(self._row >= 0) & (is_special == special) & (owner >= 0)]
                others = np.unique(others[others != broker])
                hosts = self._rng.choice(others, len(mine)) if len(others) else -np.ones(len(mine))
                for row, host in zip(mine.tolist(), hosts.astype(int).tolist(), strict=True):
                    changes.append((started_ms - _DOWN_STEPS * STEP_MS, row, broker))
                    changes.append((started_ms + STEP_MS, row, host))
        return changes

    @cached_property
    def _is_restarted(self) -> NDArray[np.bool_]:
        """Brokers that were started within the past, and were there before."""
        return (self._started_ms > self._hour(_RESTARTED_AFTER)) & ~self._is_new

    @cached_property
    def _is_new(self) -> NDArray[np.bool_]:
        """Brokers that own none of the workload's bundles: they have just joined."""
        owned = self._owner[(self._row >= 0) & (self._owner >= 0)]
        joined: NDArray[np.bool_] = np.bincount(owned, minlength=len(self._brokers)) == 0
        return joined

    @property
    def runs(self) -> tuple[PastRun, ...]:
        """The runs of Trimtab, oldest first."""
        return self._story[1]

    def _is_up(self, moment_ms: int) -> NDArray[np.bool_]:
        is_started = moment_ms >= self._started_ms
        is_before = moment_ms < self._started_ms - _DOWN_STEPS * STEP_MS
        up: NDArray[np.bool_] = is_started | (is_before & ~self._is_new)
        return up

    # -- snapshots ------------------------------------------------------------------------------

    def snapshots(self, moments_ms: Sequence[int]) -> Iterator[PulsarSnapshot]:
        """Return the snapshot of each moment, oldest first.

        Args:
            moments_ms: Ascending, of the time before the first snapshot.
        """
        recent: deque[Floats] = deque(maxlen=_AVERAGED)
        for moment_ms in moments_ms:
            ratio = self._ratio((moment_ms - self._end_ms) / 1000)
            recent.append(ratio)
            yield self._snapshot(moment_ms, ratio, np.mean(recent, axis=0))

    def _bundle_rates(self, seconds: float) -> Floats:
        return per_owner(self._workload.rates_at(seconds), self._topic_bundle, self._known)

    def _ratio(self, seconds: float) -> Floats:
        """Return the rates of every bundle over those of now; 1 where the workload has none."""
        ratio = np.ones((len(self._row), len(_RATES)))
        is_known = self._row >= 0
        then, now = self._bundle_rates(seconds), self._now
        share = np.divide(then, now, out=np.ones_like(then), where=now > 0)
        ratio[is_known] = share[self._row[is_known]]
        return ratio

    def _snapshot(self, moment_ms: int, ratio: Floats, short: Floats) -> PulsarSnapshot:
        first = self._first
        owner = self._story[0].before(self._owner, moment_ms)
        is_up = self._is_up(moment_ms)
        owner[(owner >= 0) & ~is_up[owner]] = -1
        rates = self._rates * ratio
        tables = dict(first.tables)
        bundles = scaled(
            first.bundles,
            {name: ratio[:, at] for at, name in enumerate(_RATES)}
            | {f"short_{name}": short[:, at] for at, name in enumerate(_RATES)},
        )
        owners = named(self._names, owner)
        bundles = with_columns(bundles, {"owner": owners, "reported_by": owners})
        gone = pa.array([f"pulsar/{name}" for name in np.array(self._brokers)[~is_up]], pa.string())
        tables["bundles"] = _without(bundles, "namespace", gone)
        tables["namespaces"] = _without(first.namespaces, "namespace", gone)
        brokers = self._broker_columns(moment_ms, owner, rates)
        tables["brokers"] = with_columns(first.brokers, brokers).filter(pa.array(is_up))
        tables["settings"] = self._settings(moment_ms)
        tables["claims"] = self._claims(owner, is_up)
        tables["broker_metrics"] = self._broker_metrics(brokers, moment_ms)
        tables["bundle_metrics"] = self._bundle_metrics(tables["bundles"])
        return PulsarSnapshot.build(of_moment(first.manifest, moment_ms, tables), tables)

    def _broker_columns(self, moment_ms: int, owner: Rows, rates: Floats) -> dict[str, Any]:
        brokers, first = len(self._brokers), self._first
        served = np.where(self._row >= 0, owner, -1)
        sums = per_owner(rates, served, brokers)
        on = served >= 0
        counts = {
            name: np.bincount(
                served[on], _numbers(first.bundles[name])[on], minlength=brokers
            ).astype(np.int64)
            for name in _COUNTS
        }
        noise = self._workload.cpu_noise_at(
            (moment_ms - self._end_ms) / 1000, brokers, self._noisy
        )[self._sandbox_row]
        usage = host_usage(sums, counts["topic_count"].astype(np.float64), noise)
        used = {
            "cpu": (usage.cpu, CPU_LIMIT),
            "memory": (usage.heap_mib, HEAP_LIMIT_MIB),
            "direct_memory": (usage.direct_mib, DIRECT_LIMIT_MIB),
            "bandwidth_in": (usage.bandwidth_in_kbit_s, NIC_LIMIT_KBIT_S),
            "bandwidth_out": (usage.bandwidth_out_kbit_s, NIC_LIMIT_KBIT_S),
        }
        started = np.where(
            self._is_restarted & (moment_ms < self._started_ms),
            self._started_ms - _UPTIME_BEFORE_MS,
            self._started_ms,
        )
        return {
            **{f"{name}_usage": value for name, (value, _) in used.items()},
            **{f"{name}_ratio": value / limit for name, (value, limit) in used.items()},
            **{name: sums[:, at] for at, name in enumerate(_RATES)},
            **{f"short_{name}": sums[:, at] for at, name in enumerate(_RATES)},
            **counts,
            "bundle_count": np.bincount(served[on], minlength=brokers),
            "reported_at": np.full(brokers, moment_ms),
            "started_at": started,
        }

    def _settings(self, moment_ms: int) -> pa.Table:
        """Return the settings, shedding switched on for some hours."""
        settings = self._first.settings
        start, end = (self._hour(hours) for hours in _SHEDDING_HOURS)
        if not start <= moment_ms < end:
            return settings
        is_it = pc.equal(settings["name"], _SHEDDING)
        return with_columns(
            settings,
            {
                "value": pc.if_else(is_it, "true", settings["value"]).combine_chunks(),
                "origin": pc.if_else(is_it, "dynamic", settings["origin"]).combine_chunks(),
            },
        )

    @cached_property
    def _claimed(self) -> tuple[Rows, Rows, pa.Array]:
        """Bundle and broker of each claim, and the session of each broker."""
        claims = self._first.tables["claims"]
        bundles = self._first.bundles["bundle"].combine_chunks()
        is_bundle = pc.equal(claims["subject_kind"], "bundle")
        subjects = pc.if_else(is_bundle, claims["subject"], None).combine_chunks()
        own = claims.filter(pc.equal(claims["subject_kind"], "broker"))
        sessions = own["session_id"].combine_chunks()
        at = pc.index_in(self._names, value_set=own["broker"].combine_chunks())
        return _places(subjects, bundles), _places(claims["broker"], self._names), sessions.take(at)

    def _claims(self, owner: Rows, is_up: NDArray[np.bool_]) -> pa.Table:
        claims = self._first.tables["claims"]
        if not claims.num_rows:
            return claims
        bundle, broker, sessions = self._claimed
        holder = np.where(bundle >= 0, owner[bundle], broker)
        found = with_columns(
            claims,
            {
                "broker": named(self._names, holder),
                "session_id": named(sessions, holder),
                "created_at": np.full(len(holder), self._hour(_RESTARTED_AFTER)),
            },
        )
        return found.filter(pa.array((holder >= 0) & is_up[holder]))

    def _broker_metrics(self, brokers: dict[str, Any], moment_ms: int) -> pa.Table:
        metrics = self._first.tables["broker_metrics"]
        places = _places(metrics["broker"], self._names)
        if not metrics.num_rows or (places < 0).any():
            return metrics.slice(0, 0)
        values = {name: brokers[name][places] for name in brokers if name in metrics.schema.names}
        before = self._rates_of_brokers[places]
        load = brokers["msg_throughput_in"][places] / np.maximum(before, 1.0)
        # a queue grows faster than its traffic; where there was none nothing is known
        latency = np.where(before > 0, np.clip(load, 0.2, 3.0) ** 1.5, 1.0)
        found = with_columns(
            scaled(metrics, dict.fromkeys(_LATENCIES, latency)),
            values
            | {
                "sampled_at": np.full(len(places), moment_ms),
                "process_started_at": brokers["started_at"][places],
            },
        )
        return found.filter(pa.array(self._is_up(moment_ms)[places]))

    @cached_property
    def _rates_of_brokers(self) -> Floats:
        """Throughput into each broker now, bytes/s."""
        served = np.where(self._row >= 0, self._owner, -1)
        return per_owner(self._rates, served, len(self._brokers))[:, 1]

    def _bundle_metrics(self, bundles: pa.Table) -> pa.Table:
        metrics = self._first.tables["bundle_metrics"]
        at = pc.index_in(metrics["bundle"], value_set=bundles["bundle"].combine_chunks())
        held = bundles.take(at.combine_chunks())
        found = with_columns(
            metrics,
            {name: held[name].combine_chunks() for name in _RATES}
            | {"broker": held["owner"].combine_chunks()},
        )
        return found.filter(pc.is_valid(found["broker"]))


def _address(name: str) -> tuple[int, ...]:
    """Return a broker's address as numbers, which are in the order of the sandbox's rows."""
    return tuple(int(part) for part in name.replace(":", ".").split("."))


def _numbers(column: pa.ChunkedArray) -> Floats:
    numbers: Floats = np.nan_to_num(column.to_numpy().astype(np.float64))
    return numbers


def _places(values: Any, known: pa.Array) -> Rows:
    """Return the position of each value among the known ones; -1 if missing or null."""
    found = pc.fill_null(pc.index_in(values, value_set=known), -1)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    places: Rows = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _without(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table[column], value_set=values)))
