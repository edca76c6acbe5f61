"""Conversions between the units of the real systems and ours, and how quantities are written.

Inside: messages/s, bytes/s, ratios 0..1, aware UTC times. Percent and MB exist in upstream settings
and on screen only.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache

KBIT_BYTES = 125


def ms_to_datetime(epoch_ms: int) -> datetime:
    """Return an aware UTC time for milliseconds since the epoch."""
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC)


def datetime_to_ms(moment: datetime) -> int:
    """Return milliseconds since the epoch of an aware time."""
    return round(moment.timestamp() * 1000)


UNKNOWN = "unknown"


def _digits(number: float) -> str:
    """Return a number by the one rule of precision: whole from 100 on, one digit below."""
    return f"{number:.0f}" if abs(number) >= 99.95 else f"{number:.1f}".removesuffix(".0")


_GIGA = 3
"""Steps of a thousand."""


def _scaled(value: float | None, prefixes: tuple[str, ...], unit: str, gap: str) -> str:
    """Return a value in the largest SI step in which it is at least 1."""
    if value is None or math.isnan(value):
        return UNKNOWN
    power = 0
    while power < len(prefixes) - 1 and abs(value) >= 999.5:
        value /= 1000.0
        power += 1
    if power == 0 and abs(value) >= 9.95 and not prefixes[0]:
        return f"{value:.0f}{gap}{unit}"  # no fraction of a byte or message
    # traffic in gigabytes: one digit would hide what a broker carries
    is_fine = unit == "B/s" and power >= _GIGA and abs(value) < 9.995
    number = f"{value:.2f}".rstrip("0").removesuffix(".") if is_fine else _digits(value)
    return f"{number}{gap}{prefixes[power]}{unit}"


def format_bytes_per_s(value: float | None) -> str:
    """Return ``188 MB/s`` or ``1.03 GB/s`` (decimal steps), or ``unknown`` for ``None``."""
    return _scaled(value, ("", "k", "M", "G", "T"), "B/s", " ")


def format_bytes(value: float | None) -> str:
    """Return for example ``1.2 GB`` (decimal steps), or ``unknown`` for ``None``."""
    return _scaled(value, ("", "k", "M", "G", "T"), "B", " ")


def format_bits_per_s(value: float | None) -> str:
    """Return for example ``10 Gbit/s`` (decimal steps), or ``unknown`` for ``None``."""
    return _scaled(value, ("", "k", "M", "G", "T"), "bit/s", " ")


def format_mb(value: float | None) -> str:
    """Return megabytes as for example ``312 MB`` or ``1.2 GB``, or ``unknown`` for ``None``."""
    return _scaled(value, ("M", "G", "T", "P"), "B", " ")


def size_unit(sizes_mb: Iterable[float]) -> tuple[str, float]:
    """Return the unit for a column of sizes, and its factor: the one of the size in the middle.

    Args:
        sizes_mb: Megabytes; NaN and zero do not count.
    """
    known = sorted(size for size in sizes_mb if size > 0)
    middle_mb = known[(len(known) - 1) // 2] if known else math.inf
    units = (("GB", 1e-3), ("MB", 1.0), ("kB", 1e3))
    return next((one for one in units if middle_mb * one[1] >= 1), units[-1])


def format_count(value: float | None) -> str:
    """Return a large count the short way, ``53.9k``; ``unknown`` for ``None``."""
    return _scaled(value, ("", "k", "M", "G"), "", "")


def format_per_s(value: float | None, unit: str) -> str:
    """Return a rate of what is counted, ``53.9k op/s``; ``unknown`` for ``None``."""
    return UNKNOWN if value is None or math.isnan(value) else f"{format_count(value)} {unit}/s"


def format_msgs_per_s(value: float | None) -> str:
    """Return for example ``53.9k msg/s``, or ``unknown`` for ``None``."""
    return format_per_s(value, "msg")


def format_percent(value: float | None) -> str:
    """Return percent, ``61.4%`` or ``134%``, or ``unknown`` for ``None``."""
    return UNKNOWN if value is None or math.isnan(value) else f"{_digits(value)}%"


def format_ratio(value: float | None) -> str:
    """Return a ratio 0..1 as percent, ``61.4%`` or ``134%``, or ``unknown`` for ``None``."""
    return format_percent(None if value is None else value * 100)


def format_demand(value: float | None) -> str:
    """Return a predicted usage: ``97%``, and above the capacity ``a demand of 116%``."""
    is_over = value is not None and value > 1.0
    return f"a demand of {format_ratio(value)}" if is_over else format_ratio(value)


_SEVERITY_LABELS = {"info": "Note", "warning": "Warning", "error": "Error"}


def severity_label(severity: str) -> str:
    """Return the word that begins a remark of a severity: ``Note``, ``Warning`` or ``Error``."""
    return _SEVERITY_LABELS.get(severity, severity)


def format_deviation(value: float | None) -> str:
    """Return a signed ratio, a distance from the mean, as ``+134%``; ``unknown`` for ``None``."""
    text = format_ratio(value)
    return f"+{text}" if value is not None and value > 0 and text != "0%" else text


def format_band(ratio: float | None) -> str:
    """Return a tolerance to both sides as ``±20%``."""
    return UNKNOWN if ratio is None else f"±{format_ratio(ratio)}"


def format_ms(value: float | None) -> str:
    """Return milliseconds as ``47 ms`` or ``1.2 s``, or ``unknown`` for ``None``."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if value >= 999.5:
        return f"{_digits(value / 1000)} s"
    return f"{value:.0f} ms" if value >= 9.95 else f"{_digits(value)} ms"


def format_age(seconds: float | None) -> str:
    """Return a span the short way: ``4 s``, ``3 min``, ``2 h``; ``unknown`` for ``None``."""
    if seconds is None:
        return "unknown"
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (name == "min" and seconds >= 90):
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s" if seconds > -1 else f"-{format_age(-seconds)}"


def format_ago(seconds: float | None) -> str:
    """Return an age: ``3 min ago``; a future moment is ``clock ahead by 100 d``."""
    if seconds is None:
        return "unknown"
    if seconds <= -1:
        return f"clock ahead by {format_age(-seconds)}"
    return f"{format_age(max(seconds, 0.0))} ago"


def pluralize(number: int, noun: str) -> str:
    """Return ``1 broker``, ``2 brokers``, ``12,000 brokers``, ``2 policies``."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}s"


_NUMBERS = re.compile(r"([0-9]+)")


def listed(names: Sequence[str], limit: int = 3) -> str:
    """Return ``a, b and 4 more``."""
    shown = list(names[:limit])
    rest = len(names) - len(shown)
    if rest > 0:
        return f"{', '.join(shown)} and {rest:,} more"
    return ", ".join(shown[:-1]) + " and " + shown[-1] if len(shown) > 1 else "".join(shown)


def same_problem(count: int, noun: str) -> str:
    """Return ``39 other brokers with the same problem``.

    Args:
        count: How many.
        noun: Singular, for example ``other broker``.
    """
    return f"{pluralize(count, noun)} with the same problem"


def by_name(names: Iterable[str]) -> list[str]:
    """Return names in order, numbers in them compared as numbers: ``b-2`` before ``b-10``."""
    return sorted(names, key=number_parts)


@lru_cache(maxsize=32)
def ranks_by_name(names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the place of each name in the order of :func:`by_name`, to break ties by it."""
    place = {name: at for at, name in enumerate(by_name(set(names)))}
    return tuple(place[name] for name in names)


def number_parts(name: str) -> list[tuple[int, str]]:
    """Return the parts of a name to compare it by: words, and numbers as numbers.

    Numbers are compared by their length and digits: Python converts none of thousands of digits,
    and names come from clusters.
    """
    parts = _NUMBERS.split(name)  # words and numbers by turns
    parts[1::2] = [part.lstrip("0") for part in parts[1::2]]
    return [(len(part), part) if at % 2 else (-1, part) for at, part in enumerate(parts)]


MAX_DIGITS = 18
"""So many digits fit into 64 bits."""


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number, 0 or more, in range.

    Texts of clusters and people may be thousands of digits, or digits of another alphabet.
    """
    return len(text) <= MAX_DIGITS and text.isascii() and text.isdecimal()


def one_line(text: str) -> str:
    """Return external text on one line, without terminal control characters."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


_INVISIBLE = (
    # fillers, joiners, selectors and a blank that count as letters or signs
    "\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\u180b-\u180d\u180f\u2800"
)
MISLEADING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufe00-\ufe0f\ufeff\ufff0-\ufffb\U000e0000-\U000e0fff"
    f"{_INVISIBLE}]"
)
"""Characters that nobody sees: controls, directions of writing, zero widths, lone surrogates."""


def visible(text: str) -> str:
    """Return text with each invisible character as its code, ``<U+202E>``."""
    return MISLEADING.sub(lambda found: _code(found.group()), text)


MAX_NAME = 255
"""Characters of a person's name: as many as the journal's column of actors has."""


def name_fault(name: str) -> str:
    """Return the reason an external person's name is refused, a clause, or "".

    A name that looks like another one, by what is invisible in it or by letters in another form
    (NFKC), would let a person act in the journal under what reads like the name of another.
    """
    if not name:
        return "is empty"
    if len(name) > MAX_NAME:
        return f"is too long: {len(name):,} characters, max {MAX_NAME}"
    if visible(one_line(name)) != name:
        return "has invisible characters or extra blanks"
    if unicodedata.normalize("NFKC", name) != name:
        return "has letters not in normalized form (Unicode NFKC)"
    return ""


def _code(letter: str) -> str:
    return f"<U+{ord(letter):04X}>"
