"""Bundles in their grace period, as a person names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from core.units import pluralize

_MAX_NAMED: Final = 5


@dataclass(frozen=True)
class RecentBundles:
    """Recently unloaded bundles that a snapshot has, and a warning about the others.

    Attributes:
        names: In the given order.
        warning: Names those that the snapshot does not have; empty: it has all.
    """

    names: tuple[str, ...] = ()
    warning: str = ""

    @property
    def notices(self) -> tuple[str, ...]:
        """The warning, for standard error."""
        return (f"warning: {self.warning}",) if self.warning else ()

    def as_json(self) -> dict[str, list[str]]:
        """Return the part of an answer; empty if all bundles are known."""
        return {"warnings": [self.warning]} if self.warning else {}


def recent_bundles(bundles: pa.Table, named: Sequence[str]) -> RecentBundles:
    """Return the named bundles that a snapshot has.

    Args:
        bundles: Of the snapshot; at least those that are named, with their column ``bundle``.
        named: Names of bundles.
    """
    if not named:
        return RecentBundles()
    known = set(bundles["bundle"].to_pylist())
    missing = [name for name in dict.fromkeys(named) if name not in known]
    if not missing:
        return RecentBundles(tuple(named))
    shown = ", ".join(missing[:_MAX_NAMED])
    more = f" and {len(missing) - _MAX_NAMED:,} more" if len(missing) > _MAX_NAMED else ""
    warning = (
        f"--recently-unloaded: {pluralize(len(missing), 'bundle')} not in the snapshot and "
        f"ignored: {shown}{more}. A split may have changed the boundaries."
    )
    return RecentBundles(tuple(name for name in named if name in known), warning)
