"""Brokers against each other: groups of equal brokers, and what distinguishes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from core.pulsar.presets import upstream_words
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot
from core.units import KBIT_BYTES, by_name, format_bytes_per_s

_KBIT_STEP: Final = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerGroup:
    """Brokers that are equal in everything that differs somewhere in the fleet.

    Attributes:
        brokers: Ids, in the order of the snapshot.
        values: What they have, by the names of :attr:`Comparison.rows`.
        has_leader: Whether the leader is among them.
    """

    brokers: tuple[str, ...]
    values: Mapping[str, str]
    has_leader: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Differences between brokers.

    Attributes:
        rows: Setting keys and words such as ``Heap``: what is not the same everywhere.
        groups: The largest first.
        common: The most frequent value of each row.
        brokers: How many there are.
    """

    rows: tuple[str, ...]
    groups: tuple[BrokerGroup, ...]
    common: Mapping[str, str] = field(default_factory=dict)
    brokers: int = 0


def compare_brokers(snapshot: PulsarSnapshot, settings: EffectiveSettings) -> Comparison:
    """Return the groups of equal brokers.

    Args:
        snapshot: For versions, load managers and limits.
        settings: For what differs between brokers.
    """
    names: list[str] = snapshot.brokers["broker"].to_pylist()
    columns = {
        **{row: _column(snapshot, name, words) for row, name, words in _FACTS},
        **{
            key: [value_words(by_broker.get(name)) for name in names]
            for key, by_broker in settings.differing().items()
        },
    }
    differing = {row: values for row, values in columns.items() if len(set(values)) > 1}
    members: dict[tuple[str, ...], list[str]] = {}
    for name, *values in zip(names, *differing.values(), strict=True):
        members.setdefault(tuple(values), []).append(name)
    leader = snapshot.manifest.leader
    groups = [
        BrokerGroup(
            brokers=tuple(by_name(same)),
            values=dict(zip(differing, values, strict=True)),
            has_leader=leader in same,
        )
        for values, same in members.items()
    ]
    return Comparison(
        rows=tuple(differing),
        groups=tuple(sorted(groups, key=lambda group: -len(group.brokers))),
        common={row: Counter(values).most_common(1)[0][0] for row, values in differing.items()},
        brokers=len(names),
    )


def value_words(value: Any) -> str:
    """Return a setting's value as brokers write it, without Pulsar's package."""
    if value is None or value in ((), ""):
        return "(empty)"
    return upstream_words(value).replace("org.apache.pulsar.broker.loadbalance.", "")


def _column(snapshot: PulsarSnapshot, name: str, words: Callable[[Any], str]) -> Sequence[str]:
    values = snapshot.brokers[name].to_pylist()
    return ["unknown" if value is None else words(value) for value in values]


def _cores(percent: float) -> str:
    return f"{percent / 100:g} cores"


def _mib(value: float) -> str:
    return f"{value:,.0f} MiB"


def speed_words(kbit: float) -> str:
    """Return a network limit as cards are sold."""
    if kbit <= 0:
        return "no limit"
    return (
        f"{kbit / 1e6:.3g} Gbit/s" if kbit >= _KBIT_STEP**2 else f"{kbit / _KBIT_STEP:.3g} Mbit/s"
    )


def flow_words(kbit: float) -> str:
    """Return a network rate in bytes, as text."""
    return format_bytes_per_s(kbit * KBIT_BYTES)


def class_name(full: str) -> str:
    """Class name without its package."""
    return full.rpartition(".")[2]


_FACTS: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("Release", "version", str),
    ("Load manager", "load_manager", class_name),
    ("CPU", "cpu_limit", _cores),
    ("Heap", "memory_limit", _mib),
    ("Direct memory", "direct_memory_limit", _mib),
    ("Network in", "bandwidth_in_limit", speed_words),
    ("Network out", "bandwidth_out_limit", speed_words),
)
