"""The candidates that a grid makes for Pulsar: strategies and settings, each combination once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final

from core.history.backtest.model import AGAIN, RECORD, RECORDED, Candidate, Grid
from core.pulsar.placement import PAIRED_NAMES
from core.pulsar.shedding import SHEDDING_STRATEGIES

_READ_BY_OTHERS: Final = frozenset({"loadBalancerBrokerOverloadedThresholdPercentage"})
"""Settings of a shedder that placement goes by as well."""


def pulsar_candidates(grid: Grid) -> tuple[Candidate, ...]:
    """Return every candidate of a grid once, what really happened and its replay first.

    A setting that only other shedders read is left out of a candidate, so that it makes no second
    candidate that does the same. Some shed and place as a pair.
    """
    found: dict[str, Candidate] = {RECORD.label: RECORD, AGAIN.label: AGAIN}
    for shedding, placement in product(grid.shedding, grid.placement):
        paired = _paired(shedding, placement)
        for settings in _combined(grid.settings):
            candidate = Candidate(
                shedding=shedding,
                placement=paired,
                settings={k: v for k, v in settings.items() if _is_read(k, shedding)},
            )
            found.setdefault(candidate.label, candidate)
    return tuple(found.values())


def _paired(shedding: str | None, placement: str | None) -> str | None:
    """A pair sheds to where its own placement then sends; neither half works alone."""
    if shedding in PAIRED_NAMES:
        return shedding
    return None if placement in PAIRED_NAMES and shedding != RECORDED else placement


def _is_read(key: str, shedding: str | None) -> bool:
    """Whether a candidate reads a setting; settings of other shedders do not count."""
    if shedding == RECORDED or key in _READ_BY_OTHERS:
        return True
    readers = {one.name for one in SHEDDING_STRATEGIES if key in one.deciding}
    return not readers or shedding in readers


def _combined(settings: Mapping[str, tuple[object, ...]]) -> Iterator[dict[str, object]]:
    keys = list(settings)
    for values in product(*settings.values()):
        yield dict(zip(keys, values, strict=True))
