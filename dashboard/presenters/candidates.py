"""Candidates of a back-test by what distinguishes them, and why some could not be simulated."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

_BETWEEN: Final = " · "
_SET: Final = "="
_FEWEST: Final = 3
_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_PREFIX: Final = ["load", "Balancer"]


def shortened(labels: Collection[str], untouched: str) -> tuple[dict[str, str], str]:
    """Return the distinct part of each label, and the part that those of a grid share.

    Besides a grid of settings there are candidates without any (the record replayed, no shedding):
    where enough have settings, only these share, and the others keep their names.

    Args:
        labels: Of all candidates, each once.
        untouched: The label of what really happened; it shares nothing with candidates.
    Returns:
        Label to its own part, and the common part, empty where nothing is common or there are too
        few candidates to be worth it.
    """
    every = {label: label.split(_BETWEEN) for label in labels if label != untouched}
    turned = {label: parts for label, parts in every.items() if _SET in label}
    parts = turned if len(turned) >= _FEWEST else every
    own = {label: label for label in labels}
    if len(parts) < _FEWEST:
        return own, ""
    first, *others = parts.values()
    common = [part for part in first if all(part in other for other in others)]
    if not common:
        return own, ""
    for label, whole in parts.items():
        rest = [part for part in whole if part not in common]
        own[label] = _BETWEEN.join(rest) if rest else "no other changes"
    return own, _BETWEEN.join(common)


def short_keys(labels: Collection[str]) -> dict[str, str]:
    """Return each setting that candidates name, as short as still tells it from the others.

    The words that all of them begin or end with go, and ``loadBalancer`` in any case: in a narrow
    column settings would else be cut off before they differ.

    Example:
        >>> short_keys(["loadBalancerRateShedderThreshold=1 · loadBalancerSizeShedderThreshold=2"])
        {'loadBalancerRateShedderThreshold': 'Rate', 'loadBalancerSizeShedderThreshold': 'Size'}
    """
    parts = {part for label in labels for part in label.split(_BETWEEN) if _SET in part}
    keys = sorted({part.partition(_SET)[0] for part in parts})
    split = {key: _WORD.findall(key) for key in keys}
    if any("".join(found) != key for key, found in split.items()):
        return {key: key for key in keys}  # named in another manner
    begun = ending = 0
    if len(keys) > 1:
        begun = _common_length(list(split.values()))
        ending = _common_length([found[begun:][::-1] for found in split.values()])
    short = {}
    for key, found in split.items():
        start = max(begun, len(_PREFIX) if found[: len(_PREFIX)] == _PREFIX else 0)
        short[key] = "".join(found[start : len(found) - ending]) or key
    return short if len(set(short.values())) == len(keys) else {key: key for key in keys}


def _common_length(words: Sequence[Sequence[str]]) -> int:
    """Return the number of leading words in common; at least one of each is left over."""
    limit = min(len(word) for word in words) - 1
    return next((at for at in range(limit) if len({word[at] for word in words}) > 1), max(limit, 0))


def with_short_keys(names: Mapping[str, str], short: Mapping[str, str]) -> dict[str, str]:
    """Return the names with each setting in its short form; the names as they are where two met."""

    def describe(part: str) -> str:
        key, mark, value = part.partition(_SET)
        return f"{short.get(key, key)}{mark}{value}" if mark else part

    short_names = {
        label: _BETWEEN.join(describe(part) for part in name.split(_BETWEEN))
        for label, name in names.items()
    }
    return (
        short_names if len(set(short_names.values())) == len(set(names.values())) else dict(names)
    )


def not_simulated(rows: Iterable[Mapping[Any, Any]]) -> list[str]:
    """Return the reasons for candidates not simulated, each once, with the candidates."""
    excluded: dict[str, list[str]] = {}
    for row in rows:
        if isinstance(row["problem"], str):  # pandas has NaN for none
            excluded.setdefault(row["problem"], []).append(row["candidate"])
    found = []
    for reason, names in excluded.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        found.append(f"Not simulated: {', '.join(names[:3])}{more}. {reason}")
    return found


def own_names(labels: Collection[str], untouched: str) -> tuple[dict[str, str], str]:
    """Return the same as :func:`shortened`, the own parts all different: whole labels else."""
    own, common = shortened(labels, untouched)
    if len(set(own.values())) < len(own):
        return {label: label for label in labels}, ""
    return own, common
