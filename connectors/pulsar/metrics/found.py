"""Metrics that were read, by broker and bundle, from any source."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from core.snapshot.problems import ProblemLog

Values = dict[str, float]
Source = Literal["prometheus", "scrape"]


@dataclass(slots=True)
class MetricValues:
    """Measures of brokers and bundles; non-finite values are excluded as unknown.

    Attributes:
        source: Where they were read.
        brokers: Measures by broker id; names as in :mod:`connectors.pulsar.metrics.measures`.
        bundles: Rates by bundle and broker id: two brokers may both say that they serve a bundle.
        windows_s: Over which counters became rates, by broker id; absent where they did not.
    """

    source: Source
    brokers: dict[str, Values] = field(default_factory=dict)
    bundles: dict[tuple[str, str], Values] = field(default_factory=dict)
    windows_s: dict[str, float] = field(default_factory=dict)

    def note(self, broker: str, measure: str, value: float) -> None:
        """Note one number of a broker."""
        if math.isfinite(value):
            self.brokers.setdefault(broker, {})[measure] = value

    def note_bundle(self, bundle: str, broker: str, measure: str, value: float) -> None:
        """Note one rate of a bundle."""
        if math.isfinite(value):
            self.bundles.setdefault((bundle, broker), {})[measure] = value

    def lacking(self, wanted: Iterable[str]) -> list[str]:
        """Return the measures that no broker reports."""
        reported = {name for values in self.brokers.values() for name in values}
        return [name for name in wanted if name not in reported]


class BrokerNames:
    """Brokers by label value.

    A value is a broker's id (``host:webPort``), or its host, or the first part of its host's name
    (the pod of a stateful set): each only where it is one broker's alone.

    Args:
        brokers: Their ids.
    """

    def __init__(self, brokers: Iterable[str]) -> None:
        ids = list(brokers)
        self._levels: list[Mapping[str, str]] = [
            {broker: broker for broker in ids},
            _unique((_host(broker), broker) for broker in ids),
            _unique((_short(_host(broker)), broker) for broker in ids),
        ]

    def broker_of(self, value: str) -> str | None:
        """Return the id of the broker; ``None`` if no broker matches, or several do."""
        host = _host(value)
        for level, key in zip(self._levels, (value, host, _short(host)), strict=True):
            if key in level:
                return level[key]
        return None


def found_by_broker(
    values: Iterable[str], names: BrokerNames, place: str, problems: ProblemLog
) -> dict[str, str]:
    """Return the broker of each value of the label, each broker once.

    Args:
        values: What the label holds.
        names: Who is meant.
        place: Where it was read, for the problems.
        problems: Receives values without a broker, and a second name of a broker.
    """
    of_value: dict[str, str] = {}
    strangers: list[str] = []
    taken: set[str] = set()
    for value in sorted(values, key=lambda text: (names.broker_of(text) != text, text)):
        broker = names.broker_of(value)
        if broker is None:
            strangers.append(value)
        elif broker in taken:
            problems.add(
                "inconsistent",
                place,
                f"{value} is {broker}, which also has metrics under another name.",
                done="The metrics of the first name are shown.",
            )
        else:
            taken.add(broker)
            of_value[value] = broker
    if strangers:
        more = f" and {len(strangers) - 3} more" if strangers[3:] else ""
        problems.add(
            "inconsistent",
            place,
            f"Metrics of {', '.join(strangers[:3])}{more} belong to no broker of the cluster.",
            done="They are excluded; see broker_label and labels of [clusters.prometheus].",
        )
    return of_value


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for key, broker in pairs:
        found.setdefault(key, set()).add(broker)
    return {key: brokers.pop() for key, brokers in found.items() if len(brokers) == 1}


def _host(text: str) -> str:
    host, colon, port = text.rpartition(":")
    return host if colon and port.isdigit() else text


def _short(host: str) -> str:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.partition(".")[0]
    return host
