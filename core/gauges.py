"""Figures of a cluster at one moment, for monitoring systems: name, labels, value."""

from __future__ import annotations

from typing import NamedTuple


class Gauge(NamedTuple):
    """One figure.

    Attributes:
        name: Without the prefix of the product, in the form of Prometheus, with its unit.
        help: What it is, one sentence; the same for all of one name.
        labels: Names and values; all of one name have the same names.
        value: In the unit of the name.
    """

    name: str
    help: str
    labels: tuple[tuple[str, str], ...]
    value: float
