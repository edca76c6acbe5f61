"""What the advisors of bundles, partitions and lookups say: sentences, tables, chart numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.ids import range_text
from core.planning.advisors.bundle_reasons import BundleAdvice
from core.planning.advisors.lookups import UnloadPressure
from core.planning.advisors.partitions import CountAdvice, PartitionSpread
from core.planning.advisors.surgery import PartitionNeed, Surgery
from core.units import counted, format_bytes_per_s, format_ratio
from dashboard.charts.advisors import Tally
from dashboard.charts.ring import RingData

Floats = NDArray[np.float64]

_PERCENT: Final = 100.0
_BOUNDS: Final = {"least": "at least", "most": "at most", "cost": "cost"}
EXAMPLE: Final[Mapping[str, int]] = {"partitions": 30, "even": 180, "each": 1}
EXAMPLE_TOPIC: Final = "persistent://acme/orders/search-raw"
"""A name whose partitions fall as those of the hot topic in the vivo report did."""

EXAMPLE_WORDS: Final = (
    "vivo reported a hot topic of 30 partitions over 180 bundles: 4 of them fell into one bundle, "
    "and balancing moved bundles about 200 times a day. With 120 partitions it was about 10 times."
)


# -- how many bundles ------------------------------------------------------------------------------


def bundles_answer(advice: BundleAdvice, present: int) -> str:
    """Return the advice, beside what the namespace has."""
    if not present:
        return advice.sentence
    if present == advice.bundles:
        return f"{advice.sentence} It has exactly that."
    if present > advice.bundles:
        return f"{advice.sentence} It has {present}: enough, and bundles are never merged."
    return f"{advice.sentence} It has {present}, {advice.bundles - present} too few."


def reasons_table(advice: BundleAdvice) -> pd.DataFrame:
    """Return one row a reason."""
    return pd.DataFrame(
        [
            {
                "name": one.name,
                "bound": _BOUNDS[one.bound],
                "bundles": one.bundles,
                "formula": one.formula,
                "why": one.why,
            }
            for one in advice.reasons
        ]
    )


def basis_words(advice: BundleAdvice, topics: int | None) -> str:
    """Return what the topics are that the curve is computed from."""
    if advice.is_assumed:
        return (
            "The topics are assumed: all alike, at places by chance. Fetch the topics to compute "
            "with their real places and loads."
        )
    return f"Computed from the real places and loads of {counted(topics or 0, 'topic')}."


# -- partitions over bundles -----------------------------------------------------------------------


def spread_answer(surgery: Surgery, expected: float, partitions: int) -> str:
    """Return how the partitions fall, as one sentence."""
    before = surgery.before
    bundles = before.boundaries.size - 1
    share = before.worst / partitions
    luck = "as a random name would" if before.worst <= np.ceil(expected) else "worse than chance"
    return (
        f"{counted(partitions, 'partition')} over {counted(bundles, 'bundle')}: the fullest bundle "
        f"gets {before.worst} of them, {format_ratio(share)} of the topic's traffic, "
        f"{share * bundles:.1f} times the mean bundle; {luck} ({expected:.1f} expected)."
    )


def tally(surgery: Surgery, partitions: int) -> Tally:
    """Return the distribution of partitions per bundle, beside that of balls thrown into bins."""
    before, bundles = surgery.before, surgery.before.boundaries.size - 1
    size = max(before.worst, surgery.after.worst) + 2
    held = np.arange(size)
    return Tally(
        held=held.tolist(),
        bundles=_filled(before, size),
        random=bundles * _binomial(partitions, bundles, size),
        after=_filled(surgery.after, size) if surgery.cuts else (),
    )


def _filled(spread: PartitionSpread, size: int) -> list[int]:
    counts: list[int] = np.bincount(spread.per_bundle, minlength=size).tolist()
    return counts


def _binomial(balls: int, bins: int, size: int) -> Floats:
    """Chance that one of ``bins`` holds 0, 1 ... of ``balls``, exactly."""
    held = np.arange(size)
    if bins == 1:
        return np.asarray(held == balls, np.float64)
    ratios = np.zeros(size)
    ratios[0] = balls * np.log1p(-1 / bins)
    with np.errstate(divide="ignore"):  # more than there are: a chance of 0
        steps = np.log(np.maximum(balls - held[:-1], 0)) - np.log(held[1:]) - np.log(bins - 1)
    ratios[1:] = ratios[0] + np.cumsum(steps)
    return np.asarray(np.exp(ratios), np.float64)


def counts_table(counts: Sequence[CountAdvice], partitions: int) -> pd.DataFrame:
    """Return one row a number of partitions."""
    return pd.DataFrame(
        [
            {
                "partitions": one.partitions,
                "mark": "◆ asked" if one.partitions == partitions else "",
                "worst": one.worst,
                "expected": one.expected_worst,
                "share": one.bundle_share * _PERCENT,
                "unevenness": one.unevenness,
            }
            for one in counts
        ]
    )


def owners_words(owners: Mapping[str, int]) -> str:
    """Return who would serve most of the partitions with the present owners."""
    if not owners:
        return ""
    name, most = next(iter(owners.items()))
    total = sum(owners.values())
    return (
        f"With the present owners {name} serves most of them, {most} of {total}; "
        f"{counted(len(owners), 'broker')} serve at least one."
    )


def need_words(need: PartitionNeed, partitions: int) -> str:
    """Return whether splits can help at all; empty where the traffic is not given."""
    if need.bytes_per_s <= 0:
        return ""
    each, limit = format_bytes_per_s(need.bytes_per_s), format_bytes_per_s(need.limit_bytes_per_s)
    if need.is_enough:
        return f"One partition carries {each}, within the {limit} of a bundle: splits can help."
    return (
        f"One partition alone carries {each}, over the {limit} that a bundle may: no split helps. "
        f"The topic needs {counted(need.least, 'partition')} or more, not {partitions}."
    )


def cuts_table(surgery: Surgery) -> pd.DataFrame:
    """Return one row a cut."""
    return pd.DataFrame(
        [
            {
                "range": range_text(cut.lower, cut.upper),
                "at": f"0x{cut.position:08x}",
                "held": cut.partitions_before,
                "left": cut.partitions_left,
                "right": cut.partitions_before - cut.partitions_left,
            }
            for cut in surgery.cuts
        ],
        columns=["range", "at", "held", "left", "right"],
    )


def spread_ring(spread: PartitionSpread, *, most: int) -> RingData:
    """Return a ring whose bundles are as long as they hold partitions, each of these a tick.

    Args:
        spread: Partitions over bundles.
        most: Partitions of a bundle that are wanted: those with more are coloured apart.
    """
    held = spread.per_bundle
    owners = np.where(held > most, f"more than {most}", np.where(held > 0, "within", "none"))
    return RingData(
        lower=spread.boundaries[:-1],
        upper=spread.boundaries[1:],
        owners=owners.tolist(),
        values=held.astype(np.float64),
        unit="count",
        topic_hashes=spread.hashes[:2_000].tolist(),
    )


def thin_ring(data: RingData, limit: int = 1_024) -> RingData:
    """Return the ring with at most ``limit`` bundles: only those that hold something beyond it."""
    if data.lower.size <= limit:
        return data
    rows = np.argsort(-data.values, kind="stable")[:limit]
    rows.sort()
    return replace(
        data,
        lower=data.lower[rows],
        upper=data.upper[rows],
        owners=[data.owners[row] for row in rows.tolist()],
        values=data.values[rows],
    )


# -- lookups ---------------------------------------------------------------------------------------


def pressure_words(found: UnloadPressure) -> list[str]:
    """Return the arithmetic behind the sentence."""
    per_bundle = found.clients / found.bundles if found.bundles else 0.0
    worst = found.worst_bundle.rpartition("/")[2]
    told = [
        f"At once: {counted(found.bundles, 'bundle')}, {found.at_once:,} lookups at one moment.",
        f"One by one: {per_bundle:,.0f} clients a bundle, {found.worst_clients:,} in {worst}.",
        f"Then {found.clients:,} / ({found.minutes:,.1f} min x 60) = {found.per_s:,.1f} a second.",
    ]
    if found.unknown_bundles:
        unknown = counted(found.unknown_bundles, "bundle")
        told.append(f"The clients of {unknown} are unknown and not counted.")
    return told
