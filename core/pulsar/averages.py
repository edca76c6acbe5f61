"""The leader's time averages: what the reports of one round make of them.

Source: Pulsar ``ModularLoadManagerImpl#updateBundleData``, ``TimeAverageBrokerData#reset``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.arrays import column_values
from core.pulsar.load import LONG_SAMPLES, SHORT_SAMPLES, part_left
from core.pulsar.quotas import quota_seeds
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Flags = NDArray[np.bool_]

TERMS: Final = (("short", SHORT_SAMPLES), ("long", LONG_SAMPLES))
"""The two averages, and how many samples each holds at most."""

AVERAGES: Final = tuple(f"{term}_{rate}" for term, _ in TERMS for rate in RATES)
"""Columns that bundles and brokers have of them."""


def seeds_of(snapshot: PulsarSnapshot) -> Mapping[str, Floats]:
    """Return the initial averages of bundles, by rate; empty without own values."""
    return {} if snapshot.manifest.load_manager == "extensible" else quota_seeds(snapshot)


def after_each(
    bundles: pa.Table,
    reported: Flags,
    seeds: Mapping[str, Floats],
    counts: Sequence[int],
    since: Ints | None = None,
) -> pa.Table:
    """Return bundles after the samples of some rounds, one after the other.

    Args:
        bundles: With rates, averages and their numbers of samples.
        reported: Whether a report names the bundle.
        seeds: Of :func:`seeds_of`.
        counts: Samples of each round.
        since: First round whose samples each bundle takes; ``None`` if all take all.
    """
    lasts = {rate: column_values(bundles, rate) for rate in RATES}
    changed: dict[str, pa.Array] = {}
    for term, before in term_averages(bundles).items():
        after = before.after(lasts, reported, seeds, counts, since)
        if after is not before:
            changed |= after.columns(term)
    return set_columns(bundles, changed)


def term_averages(bundles: pa.Table) -> dict[str, TermAverages]:
    """Return the averages of bundles by term."""
    return {
        term: TermAverages(
            {rate: column_values(bundles, f"{term}_{rate}") for rate in RATES},
            np.nan_to_num(column_values(bundles, f"{term}_samples")).astype(np.int64),
            most,
        )
        for term, most in TERMS
    }


@dataclass(frozen=True, eq=False)
class TermAverages:
    """The averages of one term.

    Attributes:
        values: By rate, shape ``(n_bundles,)``; NaN: none.
        held: Number of samples of each bundle.
        most: So many are held at most.
    """

    values: Mapping[str, Floats]
    held: Ints
    most: int

    def after(
        self,
        lasts: Mapping[str, Floats],
        reported: Flags,
        seeds: Mapping[str, Floats],
        counts: Sequence[int],
        since: Ints | None = None,
    ) -> TermAverages:
        """Return them after the samples of some rounds; the same where nothing changes.

        Args:
            lasts: What is sampled, by rate; NaN: unknown.
            reported: Whether a report names the bundle.
            seeds: Of :func:`seeds_of`.
            counts: Samples of each round.
            since: First round whose samples each bundle takes; ``None`` if all take all.
        """
        held, averages, most = self.held, dict(self.values), self.most
        if _is_at_rest(lasts, reported, averages, held >= most):
            return self
        for number, count in enumerate(counts):
            if number and _is_at_rest(lasts, reported, averages, held >= most):
                break
            taken = reported if since is None else reported & (since <= number)
            if not seeds and taken.all() and _are_known(lasts, averages):
                left = part_left(held, count, most)
                for rate, last in lasts.items():
                    averages[rate] = last + (averages[rate] - last) * left
                held = np.minimum(held + count, most)
                continue
            counted = held
            for rate, last in lasts.items():
                begun = seeds.get(rate), (held, most)
                values, filled = sampled(averages[rate], last, taken, count, begun)
                averages[rate] = values
                counted = np.where(taken & np.isfinite(last), filled, counted)
            held = counted
        return TermAverages(averages, held, most)

    def columns(self, term: str) -> dict[str, pa.Array]:
        """Return them as columns of bundles."""
        found = {
            f"{term}_{rate}": pa.array(values, pa.float64(), mask=np.isnan(values))
            for rate, values in self.values.items()
        }
        found[f"{term}_samples"] = pa.array(self.held, pa.int64())
        return found


def _are_known(*columns: Mapping[str, Floats]) -> bool:
    """Return whether every number is known."""
    return all(np.isfinite(values).all() for one in columns for values in one.values())


def _is_at_rest(
    lasts: Mapping[str, Floats], reported: Flags, averages: Mapping[str, Floats], is_full: Flags
) -> bool:
    """Return whether further samples of the same statistics change nothing."""
    for rate, values in averages.items():
        last = lasts[rate]
        if (reported & np.isfinite(last) & ((values != last) | ~is_full)).any():
            return False
    return True


def sampled(
    values: Floats,
    last: Floats,
    taken: Flags,
    count: int | Ints,
    begun: tuple[Floats | None, tuple[Ints, int]],
) -> tuple[Floats, Ints]:
    """Return averages after a round, and how many samples they are of.

    Args:
        values: Before; NaN: none.
        last: What is sampled; NaN: unknown.
        taken: Which bundles.
        count: Samples, of each bundle or of all.
        begun: What averages begin with; samples before, and the most that count.
    """
    seed, (held, most) = begun
    is_sampled = taken & np.isfinite(last)
    samples = np.where(np.isfinite(values), held, 0)
    begins = values
    if seed is not None:  # a quota counts for as many samples as an average holds
        is_seeded = np.isnan(values) & np.isfinite(seed)
        begins = np.where(is_seeded, seed, values)
        samples = np.where(is_seeded, most, samples)
    known = begins if np.isfinite(begins).all() else np.nan_to_num(begins)
    average = last + (known - last) * part_left(samples, count, most)
    return np.where(is_sampled, average, values), np.minimum(samples + count, most)


def sums(reporter: Ints | NDArray[np.int32], values: Floats, brokers: int) -> Floats:
    """Return the sum over the bundles that each broker reports, in their order."""
    here = (reporter >= 0) & np.isfinite(values)
    if not here.all():  # what counts for no broker adds zero to the first one
        rows, values = np.where(here, reporter, 0), np.where(here, values, 0.0)
    else:
        rows = reporter
    if not brokers:
        return np.zeros(0)
    found = np.bincount(rows, weights=values, minlength=brokers)
    return np.asarray(found, np.float64)


def known_sums(brokers: pa.Table, name: str, totals: Floats) -> pa.Array:
    """Return sums as a column; a broker of which nothing is known keeps that."""
    unknown = np.isnan(column_values(brokers, name)) & (totals == 0)
    return pa.array(totals, pa.float64(), mask=unknown)


def set_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """Return a table with one column replaced."""
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(name), values)


def set_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return a table with some columns replaced; the same one where there are none."""
    if not columns:
        return table
    names = table.schema.names
    return pa.Table.from_arrays(
        [columns.get(name, table.column(name)) for name in names], schema=table.schema
    )
