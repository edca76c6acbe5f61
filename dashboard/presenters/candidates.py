"""Candidates of a back-test by what tells them apart, and why some could not be played."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pandas as pd

_BETWEEN: Final = " · "
_FEWEST: Final = 3


def shortened(labels: Collection[str], untouched: str) -> tuple[dict[str, str], str]:
    """Return what tells each candidate from the others, and what all of them share.

    Args:
        labels: Of all candidates, each once.
        untouched: The label of what really happened; it shares nothing with candidates.
    Returns:
        Label to its own part, and the common part, empty where nothing is common or there are too
        few candidates to be worth it.
    """
    parts = {label: label.split(_BETWEEN) for label in labels if label != untouched}
    own = {label: label for label in labels}
    if len(parts) < _FEWEST:
        return own, ""
    first, *others = parts.values()
    common = [part for part in first if all(part in other for other in others)]
    if not common:
        return own, ""
    for label, whole in parts.items():
        rest = [part for part in whole if part not in common]
        own[label] = _BETWEEN.join(rest) if rest else "nothing else"
    return own, _BETWEEN.join(common)


def not_played(ranking: pd.DataFrame) -> list[str]:
    """Return why candidates could not be played, each reason once, with whom it kept out."""
    rows = ranking[ranking["problem"].notna()]
    found = []
    for reason, its in rows.groupby("problem", sort=False):
        names = [str(one) for one in its["candidate"]]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        found.append(f"Not played: {', '.join(names[:3])}{more}. {reason}")
    return found


def own_names(labels: Collection[str], untouched: str) -> tuple[dict[str, str], str]:
    """Return the same as :func:`shortened`, the own parts all different: whole labels else."""
    own, common = shortened(labels, untouched)
    if len(set(own.values())) < len(own):
        return {label: label for label in labels}, ""
    return own, common
