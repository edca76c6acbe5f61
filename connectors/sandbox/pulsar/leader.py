"""What the leader's load manager decides: the broker for a bundle without a destination."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from connectors.sandbox.pulsar import documents
from connectors.sandbox.pulsar.options import MODULAR
from connectors.sandbox.pulsar.policies import Policies
from connectors.sandbox.pulsar.state import NO_BROKER, FleetState, WrittenReport
from connectors.sandbox.pulsar.workload import (
    CPU_LIMIT,
    DIRECT_LIMIT_MIB,
    HEAP_LIMIT_MIB,
    NIC_LIMIT_KBIT_S,
    Floats,
)
from core.pulsar.placement import PlacementMemory, place_bundle
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings, effective_settings
from core.pulsar.view import LoadView
from core.snapshot import Manifest, PulsarSnapshot
from core.units import ms_to_datetime

_RATES: Final = ("msg_rate_in", "msg_throughput_in", "msg_rate_out", "msg_throughput_out")


_LIMITS: Final = {
    "cpu": CPU_LIMIT,
    "memory": HEAP_LIMIT_MIB,
    "direct_memory": DIRECT_LIMIT_MIB,
    "bandwidth_in": NIC_LIMIT_KBIT_S,
    "bandwidth_out": NIC_LIMIT_KBIT_S,
}
_NO_REPORT: Final = WrittenReport(
    np.zeros(0, np.int64), np.zeros((0, 4)), np.zeros(4, np.int64), np.zeros(len(_LIMITS))
)


class SandboxLeader:
    """The leading broker's view of the fleet and its memory between picks.

    The view is that of the last change of a load report; what was placed since is remembered apart,
    as upstream's preallocation.

    Args:
        state: The cluster.
        policies: Its configuration.
        seed: Of the pick among brokers with equal chances.
    """

    def __init__(self, state: FleetState, policies: Policies, seed: int) -> None:
        self._state, self._policies = state, policies
        self._rng = np.random.default_rng([seed, 3])
        self._memory = PlacementMemory()
        self._view: LoadView | None = None
        self._settings: EffectiveSettings | None = None
        self._settings_of: dict[str, str] | None = None

    def update(self) -> None:
        """Take in that some load report changed: the next question gets a new view.

        AvgShedder finds a plan by the averages of its bundle and loses it once they change.
        """
        self._view = None
        self._memory = replace(self._memory, preallocated={}, planned={})

    def look_again(self) -> None:
        """Take in that policies changed; they count at once."""
        self._view = None

    def depose(self) -> None:
        """Forget everything: another broker leads now."""
        self._view = None
        self._memory = PlacementMemory()

    def settings(self) -> EffectiveSettings:
        """Return the active settings."""
        if self._settings is None or self._settings_of != self._policies.dynamic:
            self._settings_of = dict(self._policies.dynamic)
            bare = PulsarSnapshot.build(_manifest(self._state), {"settings": self._setting_rows()})
            self._settings = effective_settings(bare)
            self._view = None
        return self._settings

    def view(self) -> LoadView:
        """Return the load of the fleet as the leader knows it."""
        settings = self.settings()  # where these changed, the view goes with them
        if self._view is None:
            view = LoadView.of(self._snapshot(), settings)
            self._view = replace(view, further_reports=self._further_reports(view))
        return self._view

    def _further_reports(self, view: LoadView) -> NDArray[np.int64]:
        """Return rows of bundle and broker where two reports name a bundle that moved."""
        state = self._state
        ids = {name: row for row, name in enumerate(view.brokers)}
        places = {str(name): row for row, name in enumerate(view.bundles)}
        pairs = [
            (places[state.names[row]], ids[state.brokers[broker].broker_id])
            for broker, report in state.reports.items()
            for row in report.rows[state.reported_by[report.rows] != broker].tolist()
            if state.names[row] in places and state.brokers[broker].broker_id in ids
        ]
        return np.array(pairs, np.int64).reshape(-1, 2)

    def choose(self, row: int) -> int:
        """Return the row of the broker that gets a bundle, ``NO_BROKER`` when none is eligible."""
        settings, view = self.settings(), self.view()
        name = self._state.names[row]
        placement = place_bundle(view, name, settings, memory=self._memory)
        if not placement.distribution:
            return NO_BROKER
        brokers = list(placement.distribution)
        broker = brokers[
            int(self._rng.choice(len(brokers), p=list(placement.distribution.values())))
        ]
        self._memory = placement.after.with_placed(view, name, broker)
        ids = {known.broker_id: known.row for known in self._state.brokers}
        return ids[broker]

    def _snapshot(self) -> PulsarSnapshot:
        tables = {
            "brokers": self._broker_table(),
            "bundles": self._bundle_table(),
            "namespaces": self._namespace_table(),
            "settings": self._setting_rows(),
            "policies": self._policy_table(),
        }
        return PulsarSnapshot.build(_manifest(self._state), tables)

    def _broker_table(self) -> pa.Table:
        state = self._state
        known = [broker for broker in state.brokers if broker.is_registered]
        known.sort(key=lambda broker: broker.broker_id)
        rows = [broker.row for broker in known]
        reports = [state.reports.get(row, _NO_REPORT) for row in rows]
        counts = np.array([report.counts for report in reports]).reshape(-1, 4)
        usage = np.array([report.usage for report in reports]).reshape(-1, len(_LIMITS))
        rates = np.array([report.rates.sum(axis=0) for report in reports]).reshape(-1, 4)
        columns: dict[str, object] = {
            "broker": [broker.broker_id for broker in known],
            "version": [broker.version for broker in known],
            "load_manager": [MODULAR] * len(known),
            "is_leader": [False] * len(known),
            **_rate_columns("", rates),
            "topic_count": counts[:, 0],
            "bundle_count": counts[:, 3],
        }
        for at, (name, limit) in enumerate(_LIMITS.items()):
            columns[f"{name}_usage"] = usage[:, at]
            columns[f"{name}_limit"] = np.full(len(rows), limit)
        averages = documents.broker_averages(state)
        for term in ("short", "long"):
            values = np.array(
                [
                    [
                        averages[row][f"{term}TermMsg{what}"]
                        for what in ("RateIn", "ThroughputIn", "RateOut", "ThroughputOut")
                    ]
                    for row in rows
                ]
            ).reshape(len(rows), len(_RATES))
            columns.update(_rate_columns(f"{term}_", values))
        return pa.table(columns)

    def _bundle_table(self) -> pa.Table:
        state = self._state
        rows = np.concatenate(state.bundles_of)
        ids = np.array([broker.broker_id for broker in state.brokers] + [None], object)
        names = np.array(state.names, object)
        namespaces = np.array(state.namespaces, object)
        unknown = state.short_samples[rows] == 0
        return pa.table(
            {
                "bundle": names[rows],
                "namespace": namespaces[state.namespace[rows]],
                "lower": state.lower[rows],
                "upper": state.upper[rows],
                "owner": ids[state.owner[rows]],
                "reported_by": ids[state.reported_by[rows]],
                "is_broker_bound": np.zeros(len(rows), np.bool_),
                **_rate_columns("", state.reported[rows]),
                **_rate_columns("short_", state.short[rows], unknown),
                **_rate_columns("long_", state.long[rows], unknown),
                "topic_count": state.counts[rows, 0],
            }
        )

    def _namespace_table(self) -> pa.Table:
        names = self._state.namespaces
        groups = self._policies.groups
        return pa.table(
            {
                "namespace": pa.array(names, pa.string()),
                "tenant": [name.partition("/")[0] for name in names],
                "anti_affinity_group": pa.array([groups.get(name) for name in names], pa.string()),
                "is_broker_bound": np.zeros(len(names), np.bool_),
            }
        )

    def _setting_rows(self) -> pa.Table:
        values = self._policies.running_values()
        known = [name for name in sorted(values) if name in SETTING_BY_KEY]
        return pa.table(
            {
                "broker": pa.nulls(len(known), pa.string()),
                "name": known,
                "value": [values[name] for name in known],
                "origin": ["file"] * len(known),
            }
        )

    def _policy_table(self) -> pa.Table:
        rows = [
            (kind, name, msgspec.json.encode(body).decode())
            for kind, bodies in (
                ("isolation", self._policies.isolation or {}),
                ("failure_domain", self._policies.domains),
            )
            for name, body in bodies.items()
        ]
        columns = ("kind", "name", "body")
        return pa.table(
            {
                name: pa.array([row[at] for row in rows], pa.string())
                for at, name in enumerate(columns)
            }
        )


def _rate_columns(
    prefix: str, rates: Floats, unknown: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None
) -> dict[str, pa.Array]:
    return {prefix + name: pa.array(rates[:, at], mask=unknown) for at, name in enumerate(_RATES)}


def _manifest(state: FleetState) -> Manifest:
    started = max(broker.started_ms for broker in state.brokers)
    return Manifest(
        cluster="sandbox",
        taken_at=ms_to_datetime(started),
        tables={},
        load_manager="modular",
        release=state.brokers[0].version,
    )
