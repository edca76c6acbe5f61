"""Conversions between the units of the real systems and ours, and how quantities are written.

Inside: messages/s, bytes/s, ratios 0..1, aware UTC times. Percent and MB exist in upstream settings
and on screen only.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

KBIT_BYTES = 125


def ms_to_datetime(epoch_ms: int) -> datetime:
    """Return an aware UTC time for milliseconds since the epoch."""
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC)


def datetime_to_ms(moment: datetime) -> int:
    """Return milliseconds since the epoch of an aware time."""
    return round(moment.timestamp() * 1000)


def _scaled(value: float, base: float, names: tuple[str, ...]) -> str:
    size = abs(value)
    power = 0
    while size >= base and power < len(names) - 1:
        size /= base
        power += 1
    number = value / base**power
    digits = 0 if power == 0 or abs(number) >= 100 else 1
    return f"{number:.{digits}f}{names[power]}"


def format_bytes_per_s(value: float | None) -> str:
    """Return for example ``38.1 MB/s`` (decimal units), or ``unknown`` for ``None``."""
    if value is None:
        return "unknown"
    return _scaled(value, 1000.0, (" B/s", " kB/s", " MB/s", " GB/s", " TB/s"))


def format_mb(value: float | None) -> str:
    """Return megabytes as for example ``312 MB`` or ``1.2 GB``, or ``unknown`` for ``None``."""
    if value is None:
        return "unknown"
    return _scaled(value, 1024.0, (" MB", " GB", " TB"))


def format_msgs_per_s(value: float | None) -> str:
    """Return for example ``12.3 k msg/s``, or ``unknown`` for ``None``."""
    if value is None:
        return "unknown"
    return _scaled(value, 1000.0, (" msg/s", " k msg/s", " M msg/s", " G msg/s"))


def format_ratio(value: float | None) -> str:
    """Return a ratio 0..1 as percent with one digit, or ``unknown`` for ``None``."""
    return "unknown" if value is None else f"{value * 100:.1f} %"


def format_age(seconds: float | None) -> str:
    """Return a span the short way: ``4 s``, ``3 min``, ``2 h``; ``unknown`` for ``None``."""
    if seconds is None:
        return "unknown"
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (name == "min" and seconds >= 90):
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s" if seconds > -1 else f"-{format_age(-seconds)}"


def format_ago(seconds: float | None) -> str:
    """Return how long ago: ``3 min ago``; a moment in the future is ``clock ahead by 100 d``."""
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


def one_line(text: str) -> str:
    """Return somebody's text on one line, without what a terminal would obey."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


_INVISIBLE = (
    "\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5"  # fillers and joiners that count as letters
)
MISLEADING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufe00-\ufe0f\ufeff\ufff0-\ufffb\U000e0000-\U000e0fff"
    f"{_INVISIBLE}]"
)
"""Characters that nobody sees: controls, directions of writing, zero widths, lone surrogates."""


def visible(text: str) -> str:
    """Return text with each character that nobody sees written as its code, ``<U+202E>``."""
    return MISLEADING.sub(lambda found: _code(found.group()), text)


def _code(letter: str) -> str:
    return f"<U+{ord(letter):04X}>"
