"""Averages that a real leader wrote: how many follow, bit for bit, from what is recorded?

    .venv/bin/python bench/averages.py [--recording uniform]

An average follows if some number of samples of the statistics known at its last write and at this
one gives exactly what was written: what a history of snapshots could leave out. In the second
count, every report in between is known as well, which no snapshot has. The number of samples is
known from the recording; once the long average is full, none shows it.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.pulsar.leader.reports import BundleData, decode_bundle_data, decode_report, rates_of
from core.pulsar.load import LONG_SAMPLES

FOLDER: Final = Path(__file__).parent.parent / "tests" / "fixtures" / "pulsar" / "leader"
AVERAGES: Final = "/loadbalance/bundle-data/"
REPORTS: Final = "/loadbalance/brokers/"
MOST_REPORTS: Final = 5
"""With more between two writes, the divisions of the samples are too many to try."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Write:
    """A write of one bundle's averages: before, after, and the statistics reported meanwhile."""

    before: BundleData
    after: BundleData
    reported: Sequence[Floats]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--recording", default="uniform", help="name in tests/fixtures")
    options = arguments.parse_args()
    writes = list(writes_of(FOLDER / f"{options.recording}.jsonl.gz"))
    shown = sum(follows(one, (one.reported[0], one.reported[-1])) for one in writes)
    known = sum(
        follows(one, one.reported) or follows(one, (one.reported[0], one.reported[-1]))
        for one in writes
    )
    print(f"{len(writes)} writes of averages after a first one")
    print(f"  {shown} ({shown / len(writes):.0%}) follow from the statistics at both writes")
    print(f"  {known} ({known / len(writes):.0%}) follow where each report in between is known")


def writes_of(path: Path) -> Iterator[Write]:
    """Return the writes of a recording that another write of the same bundle precedes."""
    statistics: dict[str, list[Floats]] = {}
    last: dict[str, BundleData] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for event in map(json.loads, lines):
            place, value = event.get("path", ""), event.get("value")
            if value and place.startswith(REPORTS):
                names, rates, _ = rates_of(decode_report(value))
                for name, column in zip(names, rates.T, strict=True):
                    statistics.setdefault(name, []).append(column)
            elif value and place.startswith(AVERAGES):
                name, after = place.removeprefix(AVERAGES), decode_bundle_data(value)
                reported = statistics.get(name, [])
                if name in last and reported:
                    yield Write(last[name], after, reported)
                last[name] = after
                statistics[name] = reported[-1:]


def follows(write: Write, reported: Sequence[Floats]) -> bool:
    """Return whether samples of these statistics, one after the other, give what was written."""
    held = write.before.samples[1]
    samples = write.after.samples[1] - held
    if samples < 0 or len(reported) > MOST_REPORTS:
        return False
    wanted = np.array(write.after.rates[1])
    for ends in combinations_with_replacement(range(samples + 1), len(reported) - 1):
        counts = np.diff((0, *ends, samples))
        values = np.array(write.before.rates[1])
        for number, last in enumerate(np.repeat(np.array(reported), counts, axis=0), start=1):
            size = min(held + number, LONG_SAMPLES)
            values = ((size - 1) * values + last) / size
        if np.array_equal(values, wanted):
            return True
    return False


if __name__ == "__main__":
    main()
