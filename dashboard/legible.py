"""Names of others as people can read them: nothing invisible, nothing endless, no links.

What a cluster reports is text that anybody may have chosen: with characters that turn the direction
of writing, that take no room, that a terminal obeys, or thousands of letters long. Every border to
a person (Markdown, tables, charts, the terminal) shows text through this module, and only there:
the data keeps its own names.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from core.units import MISLEADING, visible

MAX_NAME: Final = 120
"""Characters of a name that are shown whole."""

_HEAD: Final = 72
_TAIL: Final = 24
_WORD: Final = re.compile(rf"\S{{{MAX_NAME + 1},}}")
_MAX_KNOWN: Final = 20_000
_TAG: Final = re.compile(r"<(?=\s*/?\s*(?:a|span)\b)", re.IGNORECASE)
_LINKED: Final = re.compile(r"\bhttps?://|\bwww(?=\.)|(?<=[-.\w+])@(?=[-\w]+\.)", re.IGNORECASE)
"""Where Markdown begins to see an address: GitHub's extended autolinks."""
_JOINER: Final = "\u2060"

_PICTURE: Final = re.compile(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+")
"""A picture of ours in a cell: cut, it would be none."""

_CARE: Final = re.compile(f"{MISLEADING.pattern}|{_TAG.pattern}", re.IGNORECASE)

_ADDRESS: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|(?<![\w.\-])[\w.\-]+):\d{1,5}(?![\w:])")
"""What may be a server's address in a sentence."""

_originals: dict[str, str] = {}
_labels_of: Callable[[], Mapping[str, str]] = dict


def use_labels(labels_of: Callable[[], Mapping[str, str]]) -> None:
    """Show labels instead of addresses, see :mod:`core.labels`.

    Args:
        labels_of: Returns the labels by address, for who looks at the page that is drawn now.
    """
    global _labels_of  # noqa: PLW0603  # set once, when the pages are loaded
    _labels_of = labels_of


def labels() -> Mapping[str, str]:
    """Return the labels by address, for who looks at the page that is drawn now."""
    return _labels_of()


def labeled(text: str, *, is_full: bool = False) -> str:
    """Return a sentence with labels instead of addresses.

    Args:
        text: The sentence.
        is_full: Each label is followed by its address.
    """
    return _labeled(text, _labels_of(), is_full=is_full)


def searchable(text: str) -> str:
    """Return a text with its labels behind it: a filter finds a server by either of its names."""
    shown = labeled(text)
    return text if shown == text else f"{text} {shown}"


def addresses_labeled(part: str) -> list[str]:
    """Return the addresses of the servers whose label contains ``part``, in any case."""
    needle = part.casefold()
    return [address for address, label in _labels_of().items() if needle in label.casefold()]


def _labeled(text: str, labels: Mapping[str, str], *, is_full: bool = False) -> str:
    if not labels or ":" not in text:
        return text

    def shown(match: re.Match[str]) -> str:
        address = match.group()
        label = labels.get(address, address)
        return f"{label} ({address})" if is_full and address not in label else label

    return _ADDRESS.sub(shown, text)


def legible(text: str) -> str:
    """Return a name as it is shown: invisible characters as their code, the middle cut out."""
    if len(text) <= MAX_NAME and not MISLEADING.search(text):
        return text
    shown = _shortened(visible(text))
    if len(_originals) >= _MAX_KNOWN:
        _originals.clear()
    _originals[shown] = text
    return shown


def option(name: str) -> str:
    """Return a name as a choice offers it: whole, since addresses and typed text match it."""
    return visible(name)


def original(shown: str) -> str:
    """Return the original of a :func:`legible` name, or the name with this label."""
    named = (address for address, label in _labels_of().items() if label == shown)
    return _originals.get(shown) or next(named, shown)


def sentence(text: str) -> str:
    """Return a sentence as it is shown: the same for each name in it."""
    return _WORD.sub(lambda word: _shortened(word.group()), visible(text))


def without_links(text: str) -> str:
    """Return text in which Markdown finds no address to link; any other text stays as it is."""
    return _LINKED.sub(lambda found: f"{found.group()}{_JOINER}", text)


def without_tags(text: str) -> str:
    """Return text in which a chart finds no link: charts know a few HTML tags."""
    return _TAG.sub("&lt;", text)


def legible_frame(frame: Any) -> Any:
    """Return a table with legible texts; other values are returned as they are."""
    if not isinstance(frame, pd.DataFrame):
        return frame
    labels = _labels_of()
    cell = partial(_cell, labels=labels)
    changed = {
        name: frame[name].astype(object).map(cell)
        for name in frame.columns
        if _may_hold_text(frame[name]) and _needs_care(frame[name], labels)
    }
    return frame.assign(**changed) if changed else frame


def _may_hold_text(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype | pd.StringDtype) or column.dtype == object


def needs_care(values: Any) -> bool:
    """Return whether a text among ``values`` (nested as they may be) is not shown as it is."""
    return _needs_care(values, _labels_of())


def _needs_care(values: Any, labels: Mapping[str, str]) -> bool:
    return any(
        len(text) > MAX_NAME or _CARE.search(text) or (labels and _labeled(text, labels) != text)
        for text in texts_of(values)
    )


def texts_of(values: Any) -> list[str]:
    """Return every text in lists, tuples, arrays and columns, however they are nested."""
    if isinstance(values, str):
        return [values]
    if isinstance(values, pd.Series) and isinstance(values.dtype, pd.CategoricalDtype):
        values = values.cat.categories
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OUS":
        return []
    if isinstance(values, list | tuple | np.ndarray | pd.Series | pd.Index):
        return [text for value in values for text in texts_of(value)]
    return []


def _cell(value: object, labels: Mapping[str, str]) -> object:
    if isinstance(value, str):
        if _PICTURE.fullmatch(value):
            return value
        text = _labeled(value, labels)
        # a sentence keeps its words, a name loses its middle
        return sentence(text) if " " in text.strip() else legible(text)
    return [_cell(one, labels) for one in value] if isinstance(value, list) else value


def legible_values(values: Any) -> Any:
    """Return a chart's texts as they are shown, in whatever lists or arrays they come."""
    return _legible_values(values, _labels_of())


def _legible_values(values: Any, labels: Mapping[str, str]) -> Any:
    if isinstance(values, str):
        text = _labeled(values, labels)
        return without_tags(legible(text)) if len(text) <= MAX_NAME else _label(text)
    if isinstance(values, list | tuple):
        return [_legible_values(value, labels) for value in values]
    if isinstance(values, np.ndarray) and values.dtype.kind in "OUS":
        return np.array([_legible_values(one, labels) for one in values.tolist()], dtype=object)
    return values


def _label(text: str) -> str:
    # texts of ours for a tooltip have line breaks: each line is cut by itself
    return "<br>".join(without_tags(sentence(part)) for part in text.split("<br>"))


def _shortened(text: str) -> str:
    """Cut the middle out; a checksum keeps apart names with the same ends."""
    if len(text) <= MAX_NAME:
        return text
    check = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    return f"{text[:_HEAD]}…{check:08x}…{text[-_TAIL:]}"


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet may take a text for a formula.

    Signs of the OWASP list (CSV injection), in their full-width forms as well, and the tab,
    carriage return and line feed that some spreadsheets pass over before they look.
    """
    if text[:1] in ("\t", "\r", "\n"):
        return True
    first = unicodedata.normalize("NFKC", text.lstrip()[:1])
    return first[:1] in ("=", "+", "-", "@") and bool(first)
