"""One broker dies: what happens when, where its bundles go, who gets hot, which groups lack room.

The bundles land as in :mod:`core.operations.drill.pulsar`; this is one of its losses in detail.

Source:
    ZooKeeper ``SessionTrackerImpl`` (expiry), Pulsar ``LeaderElectionService``,
    ``ModularLoadManagerImpl#handleDataNotification``, ``NamespaceService`` (lookups),
    ``ServiceUnitStateChannelImpl#handleBrokerDeletionEvent``; the client's ``Backoff``,
    ``keepAliveIntervalSeconds`` and ``sendTimeout`` as shipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from core.errors import UnknownNameError
from core.operations.drill.placing import place_losses
from core.operations.drill.pulsar import losses_of, simulate_losses
from core.operations.drill.request import DrillRequest
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.units import format_bytes_per_s, format_ratio, pluralize

SESSION_KEYS: Final = ("zooKeeperSessionTimeoutMillis", "metadataStoreSessionTimeoutMillis")
"""The old name wins where it is set, as in ``getMetadataStoreSessionTimeoutMillis``."""

_KEEP_ALIVE_S: Final = 30
_SEND_TIMEOUT_S: Final = 30.0
_REPORT_KEY: Final = "loadBalancerReportUpdateMinIntervalMillis"
_ROUND_KEY: Final = "loadBalancerSheddingIntervalMinutes"

LANDING: Final = pa.schema(
    [
        pa.field("bundle", pa.string(), nullable=False),
        pa.field("to", pa.string()),  # null: no broker may take it
        pa.field("clients", pa.int64()),
        pa.field("throughput", pa.float64(), metadata={"unit": "bytes/s"}),
    ]
)
"""One row a bundle of the dead broker, the most traffic first."""


@dataclass(frozen=True, slots=True)
class FailureEvent:
    """Something that happens after the broker died.

    Attributes:
        from_s: Seconds after it died.
        to_s: Until when; the same: at that moment.
        title: What.
        detail: What it means here, one or two sentences.
    """

    from_s: float
    to_s: float
    title: str
    detail: str


@dataclass(frozen=True, kw_only=True, eq=False)
class BrokerFailure:
    """Effect of the failure of one broker.

    Attributes:
        broker: Broker id.
        failure: Its row of :data:`core.operations.drill.tables.FAILURES`.
        hot: Table of :data:`core.operations.drill.tables.HOT`.
        groups: Table of :data:`core.operations.drill.tables.GROUPS`.
        landing: Table of :data:`LANDING`.
        session_s: How long its bundles stay taken.
        session_key: Upstream key that this follows from.
        moments: What happens when, in order.
        sentence: In words.
    """

    broker: str
    failure: dict[str, Any]
    hot: pa.Table
    groups: pa.Table
    landing: pa.Table
    session_s: float
    session_key: str
    moments: tuple[FailureEvent, ...]
    sentence: str


def session_timeout(settings: EffectiveSettings) -> tuple[float, str]:
    """Return the session timeout of a dead broker, s, and its setting."""
    old, new = SESSION_KEYS
    key = old if settings.number(old) > 0 else new
    return settings.number(key) / 1000.0, key


def broker_failure_effects(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, broker: str, *, seed: int = 1
) -> BrokerFailure:
    """Return the effect of a broker failure.

    Args:
        snapshot: The cluster.
        settings: Effective ones.
        broker: Broker id.
        seed: Order of the lookups and draws follow from it.
    Raises:
        UnknownNameError: There is no such broker.
        InputError: The load manager is not one that can be simulated.
    """
    view = LoadView.of(snapshot, settings)
    if broker not in view.broker_index:
        raise UnknownNameError.of("broker", broker, view.brokers, place="this snapshot")
    request = DrillRequest(domains=False, only=(broker,), seed=seed)
    losses = losses_of(view, request)
    tables = simulate_losses(snapshot, settings, losses, request)
    failure = tables["failures"].to_pylist()[0]
    landing = _landing(snapshot, view, settings, request)
    session_s, key = session_timeout(settings)
    return BrokerFailure(
        broker=broker,
        failure=failure,
        hot=tables["hot"],
        groups=tables["groups"],
        landing=landing,
        session_s=session_s,
        session_key=key,
        moments=tuple(_moments(snapshot, settings, failure, session_s, key)),
        sentence=_sentence(failure, session_s),
    )


def _landing(
    snapshot: PulsarSnapshot, view: LoadView, settings: EffectiveSettings, request: DrillRequest
) -> pa.Table:
    landed = place_losses(view, settings, losses_of(view, request), request.seed)[0]
    rows = snapshot.bundles.take(pa.array(landed.bundles))
    names = np.array([*view.brokers, None], object)
    clients = [
        np.nan_to_num(np.asarray(rows[name].to_numpy(zero_copy_only=False), np.float64))
        for name in ("producer_count", "consumer_count")
    ]
    table = pa.table(
        {
            "bundle": rows["bundle"],
            "to": pa.array(names[landed.ends], pa.string()),
            "clients": np.sum(clients, axis=0).astype(np.int64),
            "throughput": view.bundle_throughput[landed.bundles],
        },
        schema=LANDING,
    )
    return table.sort_by([("throughput", "descending"), ("bundle", "ascending")])


def _moments(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings,
    failure: dict[str, Any],
    session_s: float,
    key: str,
) -> Iterator[FailureEvent]:
    bundles = pluralize(failure["bundles"], "bundle")
    clients = pluralize(failure["clients"], "client")
    yield FailureEvent(
        0,
        0,
        "The broker fails",
        f"{clients} lose their connection: at once if the process ends, within "
        f"{2 * _KEEP_ALIVE_S} s if the machine fails (twice "
        "keepAliveIntervalSeconds).",
    )
    often = ""
    if session_s >= _SEND_TIMEOUT_S:
        often = (
            " The sendTimeout of producers (default 30 s) expires in that time: their sends fail."
        )
    yield FailureEvent(
        0,
        session_s,
        "Its session is still valid",
        f"{bundles} stay owned for {session_s:g} s ({key}): lookups return the "
        f"dead broker, and clients retry with increasing backoff.{often}",
    )
    yield FailureEvent(session_s, session_s, "The session ends", _at_the_end(snapshot, failure))
    if snapshot.manifest.leader == failure["failure"]:
        yield FailureEvent(
            session_s,
            session_s + 1,
            "Another leader is elected",
            "It was the leader: shedding, splits and averages stopped, and its "
            "in-memory state is lost.",
        )
    yield _taken_over(snapshot, settings, failure, session_s)
    report_s = settings.number(_REPORT_KEY) / 1000.0
    yield FailureEvent(
        session_s + report_s,
        session_s + 60.0 * settings.number(_ROUND_KEY) + 60,
        "The other brokers report and shed",
        _afterwards(settings, failure),
    )


def _at_the_end(snapshot: PulsarSnapshot, failure: dict[str, Any]) -> str:
    if snapshot.manifest.load_manager == "extensible":
        return (
            "ZooKeeper deletes its registration; every broker's watch fires, and "
            "the leader starts the cleanup."
        )
    return (
        f"ZooKeeper deletes its registration and {failure['bundles']:,} znodes "
        "of bundles at once; every broker's watch on /loadbalance/brokers "
        "fires, and the leader drops its averages."
    )


def _taken_over(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings,
    failure: dict[str, Any],
    session_s: float,
) -> FailureEvent:
    unassigned = failure["unassigned"]
    lost = f" {pluralize(unassigned, 'bundle')} stay unassigned." if unassigned else ""
    if snapshot.manifest.load_manager == "extensible":
        return FailureEvent(
            session_s,
            session_s + 10,
            "The leader reassigns its bundles",
            "It overrides their owner in the channel without waiting for a lookup: "
            f"{failure['bundles']:,} bundles.{lost}",
        )
    placement = settings.text("loadBalancerLoadPlacementStrategy").rpartition(".")[2]
    return FailureEvent(
        session_s,
        session_s + 60,
        "Lookups reassign its bundles",
        "Each bundle is assigned on the first lookup of one of its topics, by "
        f"{placement}: most within seconds, those with the longest client "
        "backoff within a minute. Bundles without clients stay "
        f"unassigned.{lost}",
    )


def _afterwards(settings: EffectiveSettings, failure: dict[str, Any]) -> str:
    rise = "No broker's usage rises noticeably."
    if failure["pressed"] is not None:
        before, after = (format_ratio(failure[f"pressed_{side}"]) for side in ("before", "after"))
        rise = f"{failure['pressed']} rises most, from {before} to {after}."
    off = settings.shedding_off
    if off:
        return f"{rise} The load stays uneven: {off[0]} is false."
    return f"{rise} The next shedding round uses it once statistics are a minute old."


def _sentence(failure: dict[str, Any], session_s: float) -> str:
    broker = failure["failure"]
    if not failure["bundles"]:
        return f"{broker} owns no bundle that other brokers could serve; nothing moves."
    traffic = format_bytes_per_s(failure["moved_bytes_per_s"])
    head = (
        f"Without {broker}, {pluralize(failure['bundles'], 'bundle')} "
        f"({traffic}, {pluralize(failure['clients'], 'client')}) are down for "
        f"at least {session_s:g} s"
    )
    ends = []
    if failure["unassigned"]:
        ends.append(f"{failure['unassigned']:,} stay unassigned")
    if failure["newly_hot"]:
        ends.append(f"{pluralize(failure['newly_hot'], 'more hot broker')}")
    if failure["groups_without_room"]:
        groups = pluralize(failure["groups_without_room"], "isolation group")
        ends.append(f"{groups} without an eligible broker")
    if not ends:
        ends.append("then all are assigned, and no broker becomes hot")
    return f"{head}; {', '.join(ends)}."
