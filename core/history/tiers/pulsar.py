"""Tiers of brokers, bundles, namespaces and tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.history.store.layout import quoted
from core.history.tiers.model import (
    EventCount,
    GrowthContext,
    Measure,
    SystemTiers,
    TierSubject,
    largest,
    number,
    owned,
)
from core.pulsar.settings import effective_settings

if TYPE_CHECKING:
    from core.snapshot.model import PulsarSnapshot

_NAMESPACE: Final = "regexp_replace(subject, '/[^/]*$', '')"
_TENANT: Final = "split_part(subject, '/', 1)"
_RESOURCES: Final = tuple(
    f"{one}_ratio" for one in ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
)
_SHED: Final = tuple(one for one in _RESOURCES if one != "memory_ratio")
"""Resources that load managers compare: heap is none of them by default."""

_OVERLOADED: Final = "loadBalancerBrokerOverloadedThresholdPercentage"

_FLOWS: Final = (
    Measure("msg_throughput", number("msg_throughput_in", "msg_throughput_out"), is_binned=True),
    Measure("msg_rate", number("msg_rate_in", "msg_rate_out"), is_binned=True),
    Measure("msg_throughput_in", number("msg_throughput_in")),
    Measure("msg_rate_in", number("msg_rate_in")),
    Measure("topics", number("topic_count"), scale=1),
    Measure("producers", number("producer_count"), scale=1),
    Measure("consumers", number("consumer_count"), scale=1),
)
_FLOW_COLUMNS: Final = (
    *("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out"),
    *("topic_count", "producer_count", "consumer_count"),
)
_BY_TRIMTAB: Final = "\"by\" = 'trimtab'"


def _moves(key: str) -> tuple[EventCount, ...]:
    return (
        EventCount("moves", ("move",), key),
        EventCount("moves_by_trimtab", ("move",), key, _BY_TRIMTAB),
        EventCount("splits", ("split",), key),
    )


def _bundle(name: str) -> str:
    return f"bundle = {quoted(name)}"


def _bundles_below(name: str) -> str:
    return f"bundle >= {quoted(f'{name}/')} AND bundle < {quoted(f'{name}0')}"  # 0 follows /


def _context(snapshot: PulsarSnapshot) -> GrowthContext:
    limit = effective_settings(snapshot).number(_OVERLOADED)
    bundles = snapshot.bundles
    return GrowthContext(owned(bundles["bundle"], bundles["owner"]), limit / 100, _OVERLOADED)


PULSAR_TIERS: Final = SystemTiers(
    system="pulsar",
    subjects=(
        TierSubject(
            kind="broker",
            rows="brokers",
            columns=("broker", *_FLOW_COLUMNS, "bundle_count", *_RESOURCES),
            key="broker",
            measures=(
                *_FLOWS,
                Measure("usage", largest(*_SHED), scale=1_000_000, is_binned=True),
                *(Measure(one, number(one), scale=1_000_000) for one in _RESOURCES),
                Measure("bundles", number("bundle_count"), scale=1),
            ),
            counts=(
                EventCount("moves_in", ("move",), "after"),
                EventCount("moves_out", ("move",), "before"),
                EventCount("server_losses", ("broker_down",), "subject"),
            ),
            is_server=True,
        ),
        TierSubject(
            kind="bundle",
            rows="bundle_loads",
            columns=("bundle", *_FLOW_COLUMNS),
            key="bundle",
            measures=_FLOWS,
            counts=_moves("subject"),
            members=_bundle,
        ),
        *(
            TierSubject(
                kind=kind,
                of="bundle",
                key=key,
                measures=(*_FLOWS, Measure("bundles", scale=1)),
                counts=_moves(key),
                members=_bundles_below,
            )
            for kind, key in (("namespace", _NAMESPACE), ("tenant", _TENANT))
        ),
    ),
    flow="msg_throughput",
    context=_context,
    usage="usage",
    counts=(
        *_moves("''"),
        EventCount("merges", ("merge",), "''"),
        EventCount("server_losses", ("broker_down",), "''"),
        EventCount("leader_changes", ("leader",), "''"),
    ),
)
