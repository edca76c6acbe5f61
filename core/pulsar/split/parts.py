"""What the parts of a split bundle would carry."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from core.ids import FULL_UPPER
from core.pulsar.split.algorithms import TopicLoads
from core.pulsar.split.model import SplitPart, SplitSubject


def split_parts(
    subject: SplitSubject, positions: Sequence[int], topics: TopicLoads | None
) -> tuple[SplitPart, ...]:
    """Return the parts in ring order; they tile the bundle's range.

    Each topic goes where its hash falls. Where the topics were not read, the load is distributed by
    the width of the parts, and each part says so.

    Args:
        subject: The bundle.
        positions: Inner boundaries, ascending.
        topics: Its topics; ``None``: not read.
    """
    bounds = (subject.lower, *positions, subject.upper)
    if topics is None:
        width = max(subject.upper - subject.lower, 1)
        return tuple(
            _by_width(subject, lower, upper, (upper - lower) / width)
            for lower, upper in pairwise(bounds)
        )
    # only the ring's very last bound belongs to the part below it
    edges = np.array([*bounds[1:-1], bounds[-1] + (bounds[-1] == FULL_UPPER)], np.int64)
    part = np.searchsorted(edges, topics.hashes, side="right")
    inside = part < len(edges)
    flow = _per_part(part, topics.throughput, inside, len(edges))
    rate = _per_part(part, topics.msg_rate, inside, len(edges))
    sessions = _per_part(part, topics.sessions.astype(np.float64), inside, len(edges))
    count = np.bincount(part[inside], minlength=len(edges))
    measure = flow if flow.sum() > 0 else rate
    total = measure.sum()
    return tuple(
        SplitPart(
            lower=lower,
            upper=upper,
            topic_count=int(count[index]),
            msg_rate=float(rate[index]),
            throughput=float(flow[index]),
            sessions=int(sessions[index]),
            share=float(measure[index] / total) if total > 0 else None,
            is_assumed=False,
        )
        for index, (lower, upper) in enumerate(pairwise(bounds))
    )


def _per_part(part: np.ndarray, values: np.ndarray, inside: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(part[inside], weights=values[inside], minlength=count)


def _by_width(subject: SplitSubject, lower: int, upper: int, share: float) -> SplitPart:
    return SplitPart(
        lower=lower,
        upper=upper,
        topic_count=None,
        msg_rate=_dealt(subject.msg_rate, share),
        throughput=_dealt(subject.throughput, share),
        sessions=None,
        share=share,
        is_assumed=True,
    )


def _dealt(total: float | None, share: float) -> float | None:
    return None if total is None else total * share
