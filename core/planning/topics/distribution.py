"""Where millions of topics land: topic -> hash -> bundle -> broker -> load.

A file of topics that exist, or are planned, is laid over the bundles of a snapshot. It
shows what no single lookup does: which bundles get most, how many partitions of one topic share a
bundle, and what each broker would carry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.planning.topics.files import TopicPart, read_part
from core.planning.topics.ring import NOWHERE, Ints, TopicNames, TopicRing
from core.progress import Progress
from core.schemas.pulsar import RATES
from core.units import pluralize

Floats = NDArray[np.float64]

_SUFFIX: Final = r"-partition-\d+$"
MAX_WORST: Final = 1_000
"""Partitioned topics that are listed by name, the most concentrated first."""

TALLY: Final = pa.schema(
    [
        pa.field("part", pa.int64()),
        pa.field("bundle", pa.int64()),  # row of the ring; -1: none is known; -2: no topic name
        pa.field("base", pa.string()),  # partitioned topic; null: the row is a bundle's sum
        pa.field("topics", pa.int64()),
        *(pa.field(name, pa.float64()) for name in RATES),
    ]
)
"""What one part of a file comes to: sums by bundle, and partitions by topic and bundle."""

_NO_NAME: Final = -2

BUNDLE_LOADS: Final = pa.schema(
    [
        pa.field("bundle", pa.string(), nullable=False),
        pa.field("namespace", pa.string(), nullable=False),
        pa.field("owner", pa.string()),
        pa.field("topics", pa.int64(), nullable=False),
        pa.field("msg_rate_in", pa.float64(), metadata={"unit": "msgs/s"}),
        pa.field("msg_rate_out", pa.float64(), metadata={"unit": "msgs/s"}),
        pa.field("msg_throughput_in", pa.float64(), metadata={"unit": "bytes/s"}),
        pa.field("msg_throughput_out", pa.float64(), metadata={"unit": "bytes/s"}),
        pa.field("namespace_share", pa.float64(), metadata={"unit": "ratio"}),
    ]
)
"""One row a bundle that holds topics of the file, most throughput first, then most topics.
``namespace_share``: of its namespace's throughput, or of its topics where no rate is known."""

BROKER_LOADS: Final = pa.schema(
    [
        pa.field("broker", pa.string()),  # null: bundles without an owner
        pa.field("bundles", pa.int64(), nullable=False),
        pa.field("topics", pa.int64(), nullable=False),
        *(BUNDLE_LOADS.field(name) for name in RATES),
    ]
)
"""One row a broker, most throughput first."""

CONCENTRATED: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partitions", pa.int64(), nullable=False),
        pa.field("bundles", pa.int64(), nullable=False),
        pa.field("most_in_one_bundle", pa.int64(), nullable=False),
        pa.field("bundle", pa.string()),
    ]
)
"""Partitioned topics, those with most partitions in one bundle first."""

SPREAD: Final = pa.schema(
    [
        pa.field("partitions", pa.int64(), nullable=False),
        pa.field("most_in_one_bundle", pa.int64(), nullable=False),
        pa.field("topics", pa.int64(), nullable=False),
    ]
)
"""How many partitioned topics there are of each size and each crowding."""


@dataclass(frozen=True, eq=False)
class TopicShares:
    """Distribution of one topic's partitions over bundles.

    Attributes:
        concentrated: ``base``, ``partitions``, ``bundles``, ``most``, ``bundle``: where most of
            them are, the first of equal ones; at least the :data:`MAX_WORST` most concentrated.
        spread: ``partitions``, ``most``, ``topics``: how many topics there are of each.
    """

    concentrated: pa.Table
    spread: pa.Table


@dataclass(frozen=True, eq=False)
class TopicLoads:
    """Distribution of a file's topics.

    Attributes:
        bundles: Table of :data:`BUNDLE_LOADS`.
        brokers: Table of :data:`BROKER_LOADS`.
        concentrated: Table of :data:`CONCENTRATED`, at most :data:`MAX_WORST` rows.
        spread: Table of :data:`SPREAD`.
        topics: Topics that were placed.
        unmatched: Topics of namespaces or ranges that the snapshot does not have.
        invalid: Rows whose name is no topic name.
        sentence: The answer.
    """

    bundles: pa.Table
    brokers: pa.Table
    concentrated: pa.Table
    spread: pa.Table
    topics: int
    unmatched: int
    invalid: int
    sentence: str


def tally(ring: TopicRing, topics: pa.Table, part: int = 0) -> pa.Table:
    """Return the sums of topics by bundle; table of :data:`TALLY`.

    Args:
        ring: The bundles.
        topics: Columns of :data:`core.planning.topics.files.TOPICS`; unknown rates count as none.
        part: Number of the part, stored in the rows.
    Cost:
        About 0.7 s a million topics; no Python loop but the one over CRC-32.
    """
    names = TopicNames.of(topics["topic"].combine_chunks())
    rows = ring.bundles_of(ring.spaces_of(names), names.hashes())
    is_named = np.asarray(pc.is_valid(names.full).to_numpy(zero_copy_only=False), np.bool_)
    rows = np.where(is_named, rows, _NO_NAME)
    held, place = np.unique(rows, return_inverse=True)
    sums = {
        name: np.bincount(place, weights=_rate(topics[name]), minlength=held.size) for name in RATES
    }
    whole = {
        "part": np.full(held.size, part),
        "bundle": held,
        "base": pa.nulls(held.size, pa.string()),
        "topics": np.bincount(place, minlength=held.size),
        **sums,
    }
    return pa.concat_tables([pa.table(whole, schema=TALLY), _partitions(names, rows, part)])


def _rate(column: pa.ChunkedArray) -> Floats:
    values = np.asarray(column.to_numpy(), np.float64)
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _partitions(names: TopicNames, rows: Ints, part: int) -> pa.Table:
    """Count partitions by topic and bundle."""
    is_one = pc.fill_null(pc.match_substring_regex(names.full, _SUFFIX), fill_value=False)
    counts = np.flatnonzero(np.asarray(is_one.to_numpy(zero_copy_only=False)) & (rows >= 0))
    texts = names.full.take(pa.array(counts))
    coded = pc.replace_substring_regex(texts, _SUFFIX, "").dictionary_encode()
    width = int(rows.max(initial=0)) + 1
    keys = np.asarray(coded.indices.to_numpy(), np.int64) * width + rows[counts]
    pairs, count = np.unique(keys, return_counts=True)
    zeros = np.zeros(pairs.size)
    columns = {
        "part": np.full(pairs.size, part),
        "bundle": pairs % width,
        "base": coded.dictionary.take(pa.array(pairs // width)),
        "topics": count,
        **dict.fromkeys(RATES, zeros),
    }
    return pa.table(columns, schema=TALLY)


def place_topics(ring: TopicRing, parts: Sequence[TopicPart], progress: Progress) -> TopicLoads:
    """Return the distribution of a file's topics, part by part in this process.

    Raises:
        InputError: A part cannot be read.
        JobStoppedError: It was stopped.
    """

    def tallied() -> Iterator[pa.Table]:
        for number, part in enumerate(parts):
            progress.step(number, len(parts), "placing topics")
            yield tally(ring, read_part(part), number)

    tallies = list(tallied())
    progress.step(len(parts), len(parts), "adding up")
    return loads_of(ring, tallies)


def loads_of(ring: TopicRing, tallies: Iterable[pa.Table]) -> TopicLoads:
    """Add up what the parts of a file came to; in the order of the parts, whatever theirs is."""
    whole = pa.concat_tables([TALLY.empty_table(), *tallies])
    is_sum = pc.is_null(whole["base"])
    sums = whole.filter(is_sum).sort_by([("part", "ascending"), ("bundle", "ascending")])
    pairs = whole.filter(pc.invert(is_sum)).select(["base", "bundle", "topics"])
    return answer(ring, sums, _shares(pairs))


def _shares(pairs: pa.Table) -> TopicShares:
    """Add up partitions by topic and bundle.

    Args:
        pairs: ``base``, ``bundle``, ``topics``: partitions of a topic in a bundle, in any order,
            and a pair in several rows where several parts of the file have some of it.
    """
    coded = pairs["base"].combine_chunks().dictionary_encode()
    width = int(pc.max(pairs["bundle"]).as_py() or 0) + 1
    keys = np.asarray(coded.indices.to_numpy(), np.int64) * width + pairs["bundle"].to_numpy()
    unique, place = np.unique(keys, return_inverse=True)
    count = np.bincount(place, weights=pairs["topics"].to_numpy(), minlength=unique.size)
    base, bundle = np.divmod(unique, width)
    size = len(coded.dictionary)
    partitions = np.bincount(base, weights=count, minlength=size).astype(np.int64)
    order = np.lexsort((bundle, -count, base))  # of equal counts the first bundle
    first = order[np.searchsorted(base, np.arange(size))]
    concentrated = pa.table(
        {
            "base": coded.dictionary,
            "partitions": partitions,
            "bundles": np.bincount(base, minlength=size),
            "most": count[first].astype(np.int64),
            "bundle": bundle[first],
        }
    )
    counted = concentrated.group_by(["partitions", "most"]).aggregate([("base", "count")])
    spread = counted.select(["partitions", "most", "base_count"])
    # few of them are as concentrated as the worst: only those need an order by name
    least = np.sort(concentrated["most"].to_numpy())[-MAX_WORST:][:1]
    worst = concentrated.filter(
        pa.array(concentrated["most"].to_numpy() >= (least[0] if least.size else 0))
    )
    return TopicShares(worst, spread.rename_columns(["partitions", "most", "topics"]))


def answer(ring: TopicRing, sums: pa.Table, shares: TopicShares) -> TopicLoads:
    """Return the tables of a result.

    Args:
        ring: The bundles.
        sums: Rows of :data:`TALLY` that are sums, in the order in which they are added up.
        shares: How partitions share bundles.
    """
    rows = sums["bundle"].to_numpy()
    known = rows >= 0
    size = ring.bundle_count
    topics = np.bincount(rows[known], weights=sums["topics"].to_numpy()[known], minlength=size)
    rates = {name: _summed(rows[known], sums[name].to_numpy()[known], size) for name in RATES}
    lost = [int(sums["topics"].to_numpy()[rows == code].sum()) for code in (NOWHERE, _NO_NAME)]
    bundles = _bundles(ring, topics.astype(np.int64), rates)
    spread = pa.table(
        [shares.spread[name].cast(pa.int64()) for name in ("partitions", "most", "topics")],
        schema=SPREAD,
    ).sort_by([("most_in_one_bundle", "descending"), ("partitions", "descending")])
    placed = int(topics.sum())
    return TopicLoads(
        bundles=bundles,
        brokers=_brokers(ring, topics.astype(np.int64), rates),
        concentrated=_concentrated(ring, shares.concentrated),
        spread=spread,
        topics=placed,
        unmatched=lost[0],
        invalid=lost[1],
        sentence=_sentence(bundles, spread, placed, lost),
    )


def _summed(places: Ints, values: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(places, weights=values, minlength=size), np.float64)


def _flow(rates: dict[str, Floats]) -> Floats:
    return rates["msg_throughput_in"] + rates["msg_throughput_out"]


def _bundles(ring: TopicRing, topics: Ints, rates: dict[str, Floats]) -> pa.Table:
    held = np.flatnonzero(topics)
    weight = _flow(rates) if _flow(rates).any() else topics.astype(np.float64)
    spaces = ring.namespace_of
    whole = np.bincount(spaces, weights=weight, minlength=len(ring.namespaces))[spaces]
    share = np.divide(weight, whole, out=np.zeros_like(weight), where=whole > 0)
    order = held[np.lexsort((held, -topics[held], -_flow(rates)[held]))]
    owner = ring.owner[order]
    return pa.table(
        {
            "bundle": ring.names(order),
            "namespace": ring.namespaces.take(pa.array(spaces[order])),
            "owner": _named(ring, owner),
            "topics": topics[order],
            **{name: values[order] for name, values in rates.items()},
            "namespace_share": share[order],
        },
        schema=BUNDLE_LOADS,
    )


def _named(ring: TopicRing, owner: NDArray[np.int32]) -> pa.Array:
    names = pa.array(ring.brokers, pa.string())
    return names.take(pa.array(owner, mask=owner < 0))


def _brokers(ring: TopicRing, topics: Ints, rates: dict[str, Floats]) -> pa.Table:
    size = len(ring.brokers) + 1  # the last place is for no owner
    at = np.where(ring.owner < 0, size - 1, ring.owner)
    held = topics > 0
    bundles = np.bincount(at[held], minlength=size)
    sums = {name: _summed(at, values, size) for name, values in rates.items()}
    count = np.bincount(at, weights=topics, minlength=size).astype(np.int64)
    filled = np.append(np.arange(size - 1), [size - 1] if bundles[-1] else []).astype(np.int64)
    order = filled[np.lexsort((filled, -count[filled], -_flow(sums)[filled]))]
    return pa.table(
        {
            "broker": _named(ring, np.where(order == size - 1, NOWHERE, order).astype(np.int32)),
            "bundles": bundles[order],
            "topics": count[order],
            **{name: values[order] for name, values in sums.items()},
        },
        schema=BROKER_LOADS,
    )


def _concentrated(ring: TopicRing, concentrated: pa.Table) -> pa.Table:
    order = [("most", "descending"), ("partitions", "descending"), ("base", "ascending")]
    worst = concentrated.sort_by(order).slice(0, MAX_WORST)
    columns = [worst[name] for name in ("base", "partitions", "bundles", "most")]
    names = ring.names(np.asarray(worst["bundle"].to_numpy(), np.int64))
    return pa.table([*columns, pa.array(names, pa.string())], schema=CONCENTRATED)


def _sentence(bundles: pa.Table, spread: pa.Table, placed: int, lost: Sequence[int]) -> str:
    if not placed:
        return "No topic of the file is in a bundle of the snapshot."
    most = pc.max(bundles["topics"]).as_py()
    mean = placed / bundles.num_rows
    where = f"{pluralize(placed, 'topic')} in {pluralize(bundles.num_rows, 'bundle')}"
    words = [f"{where}: mean {mean:,.1f}, max {most:,}"]
    if spread.num_rows:
        shared = spread.filter(pc.greater(spread["most_in_one_bundle"], 1))
        several = pc.sum(shared["topics"]).as_py() or 0
        whole = pc.sum(spread["topics"]).as_py()
        worst = spread["most_in_one_bundle"][0].as_py()
        words.append(
            f"{several:,} of {pluralize(whole, 'partitioned topic')} with several "
            f"partitions in one bundle, max {worst:,}"
        )
    for count, why in zip(lost, ("in no known bundle", "without a topic's name"), strict=True):
        if count:
            words.append(f"{pluralize(count, 'row')} {why} excluded")
    return "; ".join(words) + "."
