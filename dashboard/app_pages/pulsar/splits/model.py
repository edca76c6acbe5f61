"""Data of the page of splits: bundles near a split, the boundaries, the resulting parts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.errors import InputError
from core.ids import FULL_UPPER
from core.pulsar.split import BY_HAND, SplitWhatIf
from core.pulsar.split.watch import NEAR_RATIO
from dashboard.app_pages.pulsar.splits.charts import CutData
from dashboard.charts.ring import RingData

SPECIFIED: Final = BY_HAND
_MEASURES: Final = {
    "topics": "topics",
    "sessions": "sessions",
    "msg_rate": "message rate",
    "throughput": "throughput",
}
_VERDICTS: Final = {
    "helps": "● helps",
    "assumed": "◐ assumed",
    "no_change": "○ no effect",
    "cannot_help": "✕ cannot help",
    "refused": "✕ refused",
    "unknown": "? unknown",
}
_PERCENT: Final = 100.0


@dataclass(frozen=True, slots=True)
class SplitProximity:
    """Numbers of bundles near a split.

    Attributes:
        due: Split at the next check.
        over: Over a limit, those included.
        near: Above :data:`NEAR_RATIO` of one and not over it.
    """

    due: int
    over: int
    near: int


def near_counts(watch: pa.Table, due: Collection[str]) -> SplitProximity:
    """Count the bundles of the watch table by how near they are."""
    ratio = watch["ratio"].to_numpy(zero_copy_only=False)
    over = int(np.count_nonzero(ratio > 1.0))
    return SplitProximity(len(due), over, int(np.count_nonzero(ratio >= NEAR_RATIO)) - over)


def answer(counts: SplitProximity, *, limit: int, is_extensible: bool, is_on: bool) -> str:
    """Return the number of bundles that are split next, and of those near a split."""
    line = f"{NEAR_RATIO * _PERCENT:.0f}%"
    if not counts.over:
        return f"Bundles over a limit: 0, above {line} of a limit: {counts.near:,}."
    least = "at least " if counts.over >= limit else ""
    start = (
        f"Bundles over a limit: {least}{counts.over:,}, above {line} of a limit: {counts.near:,}"
    )
    if not is_on:
        return f"{start}. Automatic splits are off."
    who = "owner brokers" if is_extensible else "the leader"
    return f"{start}. Split at the next check, by {who}: {counts.due:,}."


def watch_table(watch: pa.Table, due: Collection[str]) -> pd.DataFrame:
    """Return the bundles nearest to a split."""
    frame: pd.DataFrame = watch.to_pandas()
    marks = [
        _mark(ratio, is_due=name in due, is_single=is_single)
        for name, ratio, is_single in zip(
            frame["bundle"], frame["ratio"], frame["is_single"], strict=True
        )
    ]
    return pd.DataFrame(
        {
            "bundle": frame["bundle"],
            "mark": marks,
            "nearest": frame["nearest"].map(_MEASURES),
            "reached": frame["ratio"] * _PERCENT,
            "topics": frame["topics"],
            "sessions": frame["sessions"],
            "msg_rate": frame["msg_rate"],
            "throughput": frame["throughput"] / 1e6,
            "owner": frame["owner"],
        }
    )


def _mark(ratio: float, *, is_due: bool, is_single: bool) -> str:
    if is_due:
        return "◆ split next"
    if not np.isfinite(ratio):
        return "? unknown"
    if ratio > 1.0:
        return "▲ over, one topic" if is_single else "▲ over"
    return "△ near" if ratio >= NEAR_RATIO else ""


def largest_share(what_if: SplitWhatIf) -> float | None:
    """Return the share of the load that the largest part keeps; ``None``: unknown."""
    shares = [part.share for part in what_if.parts]
    known = [share for share in shares if share is not None]
    return max(known) if known and len(known) == len(shares) else None


def algorithms_table(what_ifs: Sequence[SplitWhatIf]) -> pd.DataFrame:
    """Return one row an algorithm: its boundary and the share of the largest part."""
    rows = []
    for one in what_ifs:
        share = largest_share(one)
        is_assumed = any(part.is_assumed for part in one.parts)
        rows.append(
            {
                "algorithm": one.algorithm,
                "verdict": _VERDICTS[one.verdict.code],
                "at": position_text(one.positions) or "nowhere",
                "largest": share * _PERCENT if share is not None and one.positions else None,
                "basis": "hash range (assumed)" if is_assumed else "topics",
                "why": f"{one.verdict.sentence} {one.verdict.hint}".strip(),
            }
        )
    return pd.DataFrame(rows)


def parts_table(what_if: SplitWhatIf) -> pd.DataFrame:
    """Return the load of each part."""
    return pd.DataFrame(
        [
            {
                "part": part.range,
                "topics": part.topic_count,
                "sessions": part.sessions,
                "msg_rate": part.msg_rate,
                "throughput": None if part.throughput is None else part.throughput / 1e6,
                "share": None if part.share is None else part.share * _PERCENT,
            }
            for part in what_if.parts
        ]
    )


def cut_data(what_if: SplitWhatIf, topics: pa.Table | None) -> CutData:
    """Return the parts laid flat, with the topics where they were read."""
    parts = what_if.parts
    shares = [np.nan if part.share is None else part.share * _PERCENT for part in parts]
    held = topics.to_pylist() if topics is not None else []
    return CutData(
        lower=np.array([part.lower for part in parts], np.int64),
        upper=np.array([part.upper for part in parts], np.int64),
        shares=np.array(shares, np.float64),
        hashes=[row["hash"] for row in held],
        topics=[row["topic"] for row in held],
        loads=[(row["msg_throughput_in"] or 0) + (row["msg_throughput_out"] or 0) for row in held],
    )


def ring_after(before: RingData, what_if: SplitWhatIf) -> RingData:
    """Return the ring with the bundle replaced by its parts."""
    row = before.marked
    if row is None or len(what_if.parts) < 2:
        return before
    count = len(what_if.parts)
    loads = [np.nan if part.throughput is None else part.throughput for part in what_if.parts]
    lower = np.array([part.lower for part in what_if.parts], np.int64)
    upper = np.array([part.upper for part in what_if.parts], np.int64)
    owners = list(before.owners)
    return replace(
        before,
        lower=np.concatenate([before.lower[:row], lower, before.lower[row + 1 :]]),
        upper=np.concatenate([before.upper[:row], upper, before.upper[row + 1 :]]),
        owners=[*owners[:row], *([owners[row]] * count), *owners[row + 1 :]],
        values=np.concatenate([before.values[:row], loads, before.values[row + 1 :]]),
        marked=int(row + np.nanargmax(np.nan_to_num(loads))),
    )


def position_text(positions: Sequence[int]) -> str:
    """Return positions as people write them; :func:`parsed_positions` reads them."""
    return ", ".join(f"0x{position:08x}" for position in positions)


def parsed_positions(text: str) -> tuple[int, ...]:
    """Return positions such as ``0x40000000, 1073741900``.

    Raises:
        InputError: One is no number, or not on the ring.
    """
    values = []
    for part in text.replace(";", ",").split(","):
        if not part.strip():
            continue
        try:
            value = int(part.strip(), 0)
        except ValueError as exc:
            raise InputError(
                f"{part.strip()!r} is not a valid position.",
                hint="Specify positions like 0x20000000, 0x60000000.",
            ) from exc
        if not 0 <= value <= FULL_UPPER:
            raise InputError(
                f"{part.strip()} is outside the hash ring.",
                hint="Specify a position from 0x00000000 to 0xffffffff.",
            )
        values.append(value)
    return tuple(values)


def splittable(bundles: pa.Table, name: str) -> bool:
    """Return whether the snapshot has that bundle and it is an ordinary one."""
    row = pc.index(bundles["bundle"], name).as_py()
    return row >= 0 and not bundles["is_broker_bound"][row].as_py()
