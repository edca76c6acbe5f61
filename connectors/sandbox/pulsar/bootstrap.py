"""The first state of a sandbox: who owns what, what has been averaged, what ZooKeeper holds."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

from connectors.sandbox.pulsar import documents
from connectors.sandbox.pulsar.options import SandboxOptions
from connectors.sandbox.pulsar.policies import Policies
from connectors.sandbox.pulsar.state import NO_BROKER, FleetState, Rows
from connectors.sandbox.pulsar.workload import Workload, per_owner
from connectors.sandbox.pulsar.zksession import ZkSession, wait_for_all
from core.pulsar.isolation import matcher_of
from core.pulsar.load import LONG_SAMPLES, SHORT_SAMPLES
from core.pulsar.ring import initial_boundaries

_AT_ONCE: Final = 5000
_PAST_MOMENTS: Final = 12
_SYSTEM_NAMESPACES: Final = ("public/default", "pulsar/system")
_SYSTEM_BUNDLES: Final = 16
encode: Final = msgspec.json.Encoder().encode


def usage_targets(brokers: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the initial traffic shares: two hot brokers of twelve, ten of 300.

    The last broker is new and owns nothing; a fleet of one or two has no idle one.
    """
    targets = np.linspace(0.66, 0.26, max(brokers, 1))
    hot = max(1, round(brokers**0.5 / 1.7)) if brokers > 2 else 0
    targets[:hot] = np.linspace(1.12, 0.98, max(hot, 1))[:hot]
    if brokers > 2:
        targets[-1] = 0.0
    return targets


def share_out(state: FleetState, weight: np.ndarray[Any, Any], policies: Policies) -> None:
    """Give every bundle a first owner so that traffic follows :func:`usage_targets`.

    Args:
        state: Owners are set here.
        weight: Traffic of every bundle, any unit.
        policies: The isolation policy is respected.
    """
    targets = usage_targets(len(state.brokers))
    left = targets / targets.sum() * weight.sum()
    allowed = _isolated_hosts(state, policies)
    isolated = {state.layout.isolated} if allowed is not None else set()
    paired = [set(), set()]  # type: list[set[int]]
    order = np.argsort(-weight, kind="stable")
    first = [row for row in order.tolist() if int(state.namespace[row]) in isolated]
    pairs = [row for row in order.tolist() if int(state.namespace[row]) in state.layout.paired]
    taken = set(first) | set(pairs)
    for row in first:
        _give(state, left, weight, row, allowed)
    turn = np.flatnonzero(targets > 0)
    for place, row in enumerate(pairs):
        side = state.layout.paired.index(int(state.namespace[row]))
        choices = turn[side::2] if len(turn) > 1 else turn
        broker = int(choices[place % len(choices)])
        paired[side].add(broker)
        state.owner[row] = broker
        left[broker] -= weight[row]
    shared = (
        np.ones(len(state.brokers), np.bool_) if allowed is None else ~_primary(state, policies)
    )
    rest = shared & (targets > 0)
    for row in order.tolist():
        if row not in taken:
            _give(state, left, weight, row, np.flatnonzero(rest if rest.any() else targets > 0))


def _give(state: FleetState, left: Any, weight: Any, row: int, choices: Rows | None) -> None:
    if choices is None or not len(choices):
        return
    broker = int(choices[int(np.argmax(left[choices]))])
    state.owner[row] = broker
    left[broker] -= weight[row]


def _primary(state: FleetState, policies: Policies) -> np.ndarray[Any, np.dtype[np.bool_]]:
    patterns = [
        pattern for policy in (policies.isolation or {}).values() for pattern in policy["primary"]
    ]
    is_primary = matcher_of(patterns)
    return np.array([is_primary(broker.host) for broker in state.brokers], np.bool_)


def _isolated_hosts(state: FleetState, policies: Policies) -> Rows | None:
    return np.flatnonzero(_primary(state, policies)) if policies.isolation else None


def remember_past(state: FleetState, workload: Workload, quarters: int) -> None:
    """Fill the averages as if the fleet had run for a day: means over moments of the past."""
    moments = -np.linspace(0, quarters, _PAST_MOMENTS, endpoint=False)
    total = np.zeros_like(state.long)
    for moment in moments.tolist():
        served = np.where(
            state.owner[state.topic_bundle] != NO_BROKER, state.topic_bundle, NO_BROKER
        )
        total += per_owner(workload.rates_at(moment), served, len(state.names))
    known = state.served_by != NO_BROKER
    for side in (state.leading, state.following):
        side.long[known] = (total / _PAST_MOMENTS)[known]
        side.short[known] = state.rates[known]
        side.short_samples[known] = SHORT_SAMPLES
        side.long_samples[known] = min(400, LONG_SAMPLES)


def persistent_nodes(
    options: SandboxOptions, state: FleetState, policies: Policies
) -> dict[str, bytes]:
    """Return path and value of everything in ZooKeeper that belongs to no broker."""
    base = f"/admin/clusters/{options.cluster}"
    nodes: dict[str, bytes] = {
        base: encode(documents.cluster(state.brokers[0])),
        "/admin/configuration": encode(policies.dynamic),
        "/loadbalance/brokers": b"",
        "/loadbalance/broker-time-average": b"",
        "/loadbalance/bundle-data": b"",
        "/namespace": b"",
    }
    if policies.isolation is not None:
        nodes[f"{base}/namespaceIsolationPolicies"] = encode(policies.isolation)
    nodes |= {
        f"{base}/failureDomain/{name}": encode(domain) for name, domain in policies.domains.items()
    }
    for name, bounds in zip(state.namespaces, state.boundaries, strict=True):
        nodes[f"/admin/policies/{name.partition('/')[0]}"] = _tenant(options, ["admin"])
        nodes[f"/admin/policies/{name}"] = encode(policies.document(name, bounds, options.cluster))
        local = documents.local_policies(bounds, policies.groups.get(name))
        nodes[f"/admin/local-policies/{name}"] = encode(local)
    whole = np.array(initial_boundaries(_SYSTEM_BUNDLES))
    for name in _SYSTEM_NAMESPACES:
        nodes[f"/admin/policies/{name.partition('/')[0]}"] = _tenant(options, [])
        nodes[f"/admin/policies/{name}"] = encode(documents.policies(whole, options.cluster))
    for name, count in state.layout.partitions.items():
        namespace, _, topic = name.rpartition("/")
        path = f"/admin/partitioned-topics/{namespace}/persistent/{topic}"
        nodes[path] = encode({"partitions": count, "deleted": False})
    return nodes


def _tenant(options: SandboxOptions, roles: list[str]) -> bytes:
    return encode({"adminRoles": roles, "allowedClusters": [options.cluster]})


async def write_nodes(session: ZkSession, nodes: dict[str, bytes]) -> None:
    """Create nodes and whatever parents they need, thousands of requests in flight."""
    whole = dict(nodes)
    for path in nodes:
        parts = path.split("/")
        for depth in range(2, len(parts)):
            whole.setdefault("/".join(parts[:depth]), b"")
    ordered = sorted(whole, key=lambda path: path.count("/"))
    for start in range(0, len(ordered), _AT_ONCE):
        batch = ordered[start : start + _AT_ONCE]
        await wait_for_all([session.create(path, whole[path]) for path in batch])
