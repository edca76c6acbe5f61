"""Semantic versions as Pulsar's broker version filter compares them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,9})"
"""Digits of Java's ``int``; a longer number makes a text no version."""
_IDENTIFIER: Final = r"[0-9A-Za-z-]+"
_PRE_RELEASE: Final = rf"(?:{_NUMBER}|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_PRE_RELEASE}(?:\.{_PRE_RELEASE})*))?"
    rf"(?:\+{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?\Z"
)

VersionKey = tuple[tuple[int, int, int], tuple[object, ...]]


def version_key(text: str | None) -> VersionKey | None:
    """Return a key that sorts as versions do; ``None`` for what is no version.

    The build part is ignored: Pulsar's filter looks for the latest with it, and then keeps every
    version that is equal but for the build.

    Example:
        >>> version_key("4.2.4") > version_key("4.2.4-SNAPSHOT")
        True
        >>> version_key("4.2") is None
        True
    """
    match = _VERSION.match(text or "")
    if match is None:
        return None
    numbers = (int(match[1]), int(match[2]), int(match[3]))
    # no pre-release comes after any pre-release
    return numbers, (0, _identifiers(match[4])) if match[4] else (1,)


def _identifiers(text: str) -> tuple[tuple[int, int, str], ...]:
    """Numbers come before words and compare as numbers."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in text.split("."))


def version_ranks(texts: Sequence[str | None]) -> NDArray[np.int64]:
    """Return a rank per version, larger for later; equal versions share one; -1: no version."""
    keys = {text: version_key(text) for text in set(texts)}
    ordered = sorted({key for key in keys.values() if key is not None})
    rank_by_key = {key: rank for rank, key in enumerate(ordered)}
    ranks = [-1 if (key := keys[text]) is None else rank_by_key[key] for text in texts]
    return np.array(ranks, np.int64)
