"""The shape of a sandbox fleet: tenants, namespaces, bundle ranges, topics. A function of the seed.

Topic names are made until every bundle of a namespace holds one, so each topic's hash really falls
into the range of its bundle.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.sandbox.pulsar.options import SandboxOptions

_TENANTS: Final = ("acme", "globex", "initech")
_SUBJECTS: Final = (
    "orders",
    "clicks",
    "telemetry",
    "logs",
    "payments",
    "inventory",
    "search",
    "sessions",
    "billing",
    "audit",
)
_SHARES: Final = (128, 128, 96, 64, 64, 48, 32, 24, 12, 4)  # of 600
_TOPICS_PER_BUNDLE: Final = 3.0
_FULL: Final = 1 << 32
_MAX_OF_A_BROKER: Final = 0.35  # what the hottest topic takes of one broker with a mean load
_ISOLATED: Final = 4  # payments: only the first brokers may own it
_PAIRED: Final = (8, 9)  # billing and audit keep away from each other


@dataclass(frozen=True, slots=True)
class Topics:
    """Columns of all topics; rows in the order of their namespaces.

    Attributes:
        names: Full names, for example ``persistent://acme/orders/item-000017``.
        namespace: Row of the namespace.
        hashes: CRC-32 of the full name.
        weight: Relative message rate, heavy-tailed.
        message_bytes: Mean message size.
        fan_out: How many times a message is read.
        producers: Producers connected.
        consumers: Consumers connected.
    """

    names: tuple[str, ...]
    namespace: NDArray[np.int32]
    hashes: NDArray[np.int64]
    weight: NDArray[np.float64]
    message_bytes: NDArray[np.float64]
    fan_out: NDArray[np.int64]
    producers: NDArray[np.int64]
    consumers: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """A fleet as it was laid out, before bundles have owners.

    Attributes:
        namespaces: Full names.
        boundaries: One array of ``n + 1`` bounds a namespace.
        topics: All topics.
        partitions: Partitioned topics: name without domain part (``tenant/ns/name``) to count.
        isolated: Row of the namespace with an isolation policy, or ``None``.
        paired: Rows of the namespaces of one anti-affinity group.
    """

    namespaces: tuple[str, ...]
    boundaries: tuple[NDArray[np.int64], ...]
    topics: Topics
    partitions: dict[str, int]
    isolated: int | None
    paired: tuple[int, ...]


def plan_layout(options: SandboxOptions) -> Layout:
    """Return the fleet's layout."""
    rng = np.random.default_rng(options.seed)
    counts = _bundle_counts(options.bundles, options.namespace_count)
    names = _namespace_names(len(counts))
    boundaries = tuple(initial_bounds(count) for count in counts)
    parts, partitions = [], {}
    for row, name in enumerate(names):
        topic_names, hashes, partitioned = _topics_of(name, boundaries[row], rng)
        partitions.update(partitioned)
        parts.append((topic_names, hashes, np.full(len(hashes), row, np.int32)))
    hashes = np.concatenate([part[1] for part in parts])
    topics = _with_traffic(
        tuple(name for part in parts for name in part[0]),
        np.concatenate([part[2] for part in parts]),
        hashes,
        most=_MAX_OF_A_BROKER / options.brokers,
        rng=rng,
    )
    has_all = len(names) >= len(_SUBJECTS)
    return Layout(
        names,
        boundaries,
        topics,
        partitions,
        _ISOLATED if has_all and options.brokers > 3 else None,
        _PAIRED if has_all else (),
    )


def initial_bounds(count: int) -> NDArray[np.int64]:
    """Return the bounds of ``count`` equal bundles, as a new namespace gets them.

    Source:
        Pulsar ``NamespaceBundleFactory#getBundles`` of a fresh namespace.
    """
    bounds = np.arange(count + 1, dtype=np.int64) * (_FULL // count)
    bounds[-1] = _FULL - 1
    return bounds


def crc32_of(prefix: str, width: int, count: int) -> NDArray[np.int64]:
    """Return the CRC-32 of ``prefix`` followed by 0, 1 ... ``count - 1`` written with ``width``.

    Cost:
        ``width`` array steps, no loop over the numbers.
    """
    crc = np.full(count, 0xFFFFFFFF, np.uint32)
    for byte in prefix.encode():
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    numbers = np.arange(count)
    for place in range(width - 1, -1, -1):
        digit = (numbers // 10**place % 10 + ord("0")).astype(np.uint32)
        crc = _CRC_TABLE[(crc ^ digit) & 0xFF] ^ (crc >> 8)
    return (crc ^ np.uint32(0xFFFFFFFF)).astype(np.int64)


def _crc_table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table.astype(np.uint32)


_CRC_TABLE: Final = _crc_table()


def _bundle_counts(bundles: int, namespaces: int) -> list[int]:
    shares = np.array([_SHARES[row % len(_SHARES)] for row in range(namespaces)], float)
    if namespaces > len(_SHARES):
        shares = np.maximum(shares, 48)  # of a big fleet no namespace is tiny
        shares[list(_PAIRED)] = (12, 4)
    counts = np.maximum(1, np.floor(shares / shares.sum() * bundles)).astype(int)
    counts[0] += max(bundles - int(counts.sum()), 1 - int(counts[0]))
    return [int(count) for count in counts]


def _namespace_names(count: int) -> tuple[str, ...]:
    tenants = max(len(_TENANTS), count // 20)
    names = []
    for row in range(count):
        tenant = row % tenants
        owner = _TENANTS[tenant] if tenant < len(_TENANTS) else f"tenant-{tenant:03d}"
        turn = row // len(_SUBJECTS)
        subject = _SUBJECTS[row % len(_SUBJECTS)]
        names.append(f"{owner}/{subject}" + (f"-{turn:03d}" if turn else ""))
    return tuple(names)


def _topics_of(
    namespace: str, bounds: NDArray[np.int64], rng: np.random.Generator
) -> tuple[list[str], NDArray[np.int64], dict[str, int]]:
    """Return names and hashes of a namespace's topics, at least one a bundle."""
    bundles = len(bounds) - 1
    partitions = max(2, bundles // 4)
    stem = f"persistent://{namespace}/stream-partition-"
    names = [f"{stem}{number}" for number in range(partitions)]
    hashes = [zlib.crc32(name.encode()) for name in names]
    wanted = rng.geometric(1 / _TOPICS_PER_BUNDLE, bundles)
    stem = f"persistent://{namespace}/item-"
    candidates = crc32_of(stem, 6, min(999_999, round(bundles * (6 * np.log(bundles + 2) + 30))))
    home = np.clip(np.searchsorted(bounds, candidates, side="right") - 1, 0, bundles - 1)
    order = np.argsort(home, kind="stable")
    starts = np.searchsorted(home[order], np.arange(bundles))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - starts[home[order]]
    chosen = np.flatnonzero(rank < wanted[home])
    names += [f"{stem}{number:06d}" for number in chosen]
    return (
        names,
        np.concatenate([np.array(hashes, np.int64), candidates[chosen]]),
        {f"{namespace}/stream": partitions},
    )


def _with_traffic(
    names: tuple[str, ...],
    namespace: NDArray[np.int32],
    hashes: NDArray[np.int64],
    *,
    most: float,
    rng: np.random.Generator,
) -> Topics:
    count = len(names)
    rank = rng.permutation(count) + 1
    fan_out = rng.choice([1, 1, 1, 2, 2, 3], count)
    weight = np.asarray(rank**-0.85, np.float64)
    return Topics(
        names=names,
        namespace=namespace,
        hashes=hashes,
        weight=np.minimum(weight, most * weight.sum()),
        message_bytes=rng.lognormal(np.log(900), 0.5, count),
        fan_out=fan_out,
        producers=rng.integers(1, 4, count),
        consumers=fan_out + rng.integers(0, 3, count),
    )
