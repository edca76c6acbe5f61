r"""Regular expressions of the brokers, evaluated in linear time.

Isolation policies hold patterns of ``java.util.regex``, matched as a whole (``matches()``). They
come from a cluster, so they may be hostile: a backtracking engine needs exponential time for some.
A pattern is translated here to RE2, whose time is linear in the text, with Java's meaning: ``\d``,
``\w`` and ``\s`` are ASCII, the dot stops at line terminators, ``i`` folds ASCII letters only,
classes nest and intersect, ``{`` is always a repetition. Lookaheads at the beginning and
lookbehinds at the end of an alternative become conditions of their own.

What RE2 cannot express is refused by name: other lookarounds, back references, possessive
quantifiers, atomic groups, comments mode, Unicode case folding and Unicode classes. ``\b`` looks at
ASCII letters, as Java does from release 19 on; the names that brokers accept are ASCII.

Source:
    ``java.util.regex.Pattern`` of Java 17 (grammar in ``sequence``, ``closure``, ``clazz``,
    ``escape``, ``RemoveQEQuoting``); Pulsar ``NamespaceIsolationPolicyImpl``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import re2

MAX_LENGTH: Final = 50_000
"""Characters of one pattern; an alternation of 1,000 full host names has about as many."""
_MAX_DEPTH: Final = 100
_MAX_INTERSECTIONS: Final = 50
_MAX_CONDITIONS: Final = 100
"""Each alternative with a lookaround is matched by itself."""
_MAX_MEMORY: Final = 2 * 2**20
"""Bytes that a compiled pattern may take; RE2 refuses larger ones instead of growing."""
_MAX_JOINED_MEMORY: Final = 16 * 2**20
_MAX_PREFIXES: Final = 50
_MAX_REMEMBERED: Final = 20_000
_MAX_SHOWN: Final = 80
_PLAIN: Final = re.compile(r"(?:[\w:/-]|\\[.-])+")
_MAX_CODE: Final = 0x10FFFF
_MAX_COUNT: Final = 2**31 - 1

Compiled = Any
"""A compiled pattern of RE2, whose package has no types."""
Ranges = tuple[tuple[int, int], ...]
"""Code points of a class: sorted, disjoint, both ends included."""


class PatternError(ValueError):
    """A pattern that cannot be evaluated."""


class InvalidPatternError(PatternError):
    """Java refuses it as well."""


class UnsupportedPatternError(PatternError):
    """Java takes it; RE2 has nothing like it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Required or excluded context at an end of the text.

    Attributes:
        text: RE2 pattern.
        is_ahead: Whether it is about the beginning of the text, else about its end.
        is_negative: Whether it must not match.
    """

    text: str
    is_ahead: bool
    is_negative: bool


@dataclass(frozen=True, slots=True)
class Alternative:
    """One top-level alternative of a pattern.

    Attributes:
        text: RE2 pattern of the whole text.
        prefix: What a matching text begins with.
        conditions: All of them hold in addition.
    """

    text: str
    prefix: str
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class ConditionalAlternative:
    """An alternative with conditions, ready to match."""

    body: Compiled
    conditions: tuple[tuple[Condition, Compiled], ...]

    @classmethod
    def of(cls, alternative: Alternative) -> ConditionalAlternative:
        """Compile it.

        Raises:
            UnsupportedPatternError: It is too large.
        """
        conditions = tuple(
            (one, compile_re2(f"(?:{one.text})" if one.is_ahead else f"(?:{one.text})\\z"))
            for one in alternative.conditions
        )
        return cls(compile_re2(alternative.text), conditions)

    def match(self, raw: bytes) -> bool:
        """Return whether the whole text, in UTF-8, matches."""
        for condition, pattern in self.conditions:
            found = pattern.match(raw) if condition.is_ahead else pattern.search(raw)
            if (found is None) != condition.is_negative:
                return False
        return self.body.fullmatch(raw) is not None


class PatternSet:
    """Java patterns of which one has to match the whole text.

    Args:
        patterns: As Java writes them; plain names among them, often thousands, are looked up.
    Raises:
        PatternError: One of them cannot be evaluated; the message names it.
    """

    __slots__ = ("_free", "_guarded", "_matched", "_names", "_prefixes")

    def __init__(self, patterns: Iterable[str]) -> None:
        listed = dict.fromkeys(patterns)
        self._names = frozenset(one.replace("\\", "") for one in listed if _PLAIN.fullmatch(one))
        found = [_compiled(one) for one in listed if not _PLAIN.fullmatch(one)]
        alternatives = [one for each in found for one in each.alternatives]
        self._free = _joined([each for each in found if each.free is not None])
        self._guarded = tuple(guarded for each in found for guarded in each.guarded)
        prefixes = {one.prefix for one in alternatives}
        self._prefixes = tuple(prefixes) if len(prefixes) <= _MAX_PREFIXES else ("",)
        self._matched: dict[str, bool] = {}

    def match(self, text: str) -> bool:
        """Return whether one of them matches the whole text."""
        if text in self._names:
            return True
        if not text.startswith(self._prefixes):  # never so of no prefixes
            return False
        found = self._matched.get(text)
        if found is None:
            if len(self._matched) >= _MAX_REMEMBERED:
                self._matched.clear()
            found = self._matched[text] = self._evaluate(text.encode("utf-8", "surrogatepass"))
        return found

    def _evaluate(self, raw: bytes) -> bool:
        if any(pattern.fullmatch(raw) is not None for pattern in self._free):
            return True
        return any(guarded.match(raw) for guarded in self._guarded)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One pattern: the alternatives without conditions together, and the others."""

    alternatives: tuple[Alternative, ...]
    text: str
    free: Compiled | None
    guarded: tuple[ConditionalAlternative, ...]


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> _Compiled:
    try:
        alternatives = translate(pattern)
        text = "|".join(f"(?:{one.text})" for one in alternatives if not one.conditions)
        is_free = any(not one.conditions for one in alternatives)
        return _Compiled(
            alternatives,
            text,
            compile_re2(text) if is_free else None,
            tuple(ConditionalAlternative.of(one) for one in alternatives if one.conditions),
        )
    except PatternError as exc:
        shown = pattern if len(pattern) <= _MAX_SHOWN else f"{pattern[:_MAX_SHOWN]}…"
        quoted = repr(shown).replace("\\\\", "\\")  # as it was written
        raise type(exc)(f"{quoted}: {exc}") from exc


def _joined(found: list[_Compiled]) -> tuple[Compiled, ...]:
    """Compile patterns as one, which matches faster; separately where that is too large."""
    separate = tuple(each.free for each in found)
    if len(found) < 2:
        return separate
    try:
        return (compile_re2("|".join(each.text for each in found), len(found) * _MAX_MEMORY),)
    except UnsupportedPatternError:
        return separate


def compile_re2(text: str, max_memory: int = 0) -> Compiled:
    """Compile a pattern of RE2 itself, bounded in memory.

    Raises:
        UnsupportedPatternError: It is too large, or repeats something more than 1,000 times.
    """
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    options.max_mem = min(max_memory or _MAX_MEMORY, _MAX_JOINED_MEMORY)
    try:
        return re2.compile(text.encode("utf-8", "surrogatepass"), options)
    except re2.error as exc:
        said = exc.args[0] if exc.args else exc
        reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise UnsupportedPatternError(f"RE2 refuses it: {reason[:_MAX_SHOWN]}") from exc


def translate(pattern: str) -> tuple[Alternative, ...]:
    """Translate a Java pattern.

    Returns:
        Its top-level alternatives: a text matches when one of them does.
    Raises:
        InvalidPatternError: Java refuses it.
        UnsupportedPatternError: RE2 has nothing like it, or it is too long.
    """
    if len(pattern) > MAX_LENGTH:
        raise UnsupportedPatternError(
            f"it has {len(pattern):,} characters; the maximum is {MAX_LENGTH:,}"
        )
    return _Parser(_unquoted(pattern)).whole()


def _unquoted(pattern: str) -> str:
    r"""Rewrite ``\Q...\E`` into escapes, as ``RemoveQEQuoting`` does."""
    parts: list[str] = []
    at, end = 0, len(pattern)
    while at < end:
        char = pattern[at]
        if char != "\\" or at + 1 == end:
            parts.append(char)
            at += 1
        elif pattern[at + 1] != "Q":
            parts.append(pattern[at : at + 2])
            at += 2
        else:
            close = pattern.find("\\E", at + 2)
            literal = pattern[at + 2 : close if close >= 0 else end]
            parts += [f"\\x{{{ord(one):x}}}" for one in literal]
            at = end if close < 0 else close + 2
    return "".join(parts)


# -- classes of characters ------------------------------------------------------------------------


def _ranges(pairs: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def _chars(text: str) -> Ranges:
    return _ranges((ord(char), ord(char)) for char in text)


def _negated(ranges: Ranges) -> Ranges:
    edges = [-1, *(edge for low, high in ranges for edge in (low, high)), _MAX_CODE + 1]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return tuple((low + 1, high - 1) for low, high in gaps if low + 1 <= high - 1)


def _common(left: Ranges, right: Ranges) -> Ranges:
    return _negated(_ranges((*_negated(left), *_negated(right))))


def _folded(ranges: Ranges) -> Ranges:
    """Add the other case of ASCII letters."""
    lower = _common(ranges, _POSIX["Lower"])
    upper = _common(ranges, _POSIX["Upper"])
    other = [(low - 32, high - 32) for low, high in lower]
    other += [(low + 32, high + 32) for low, high in upper]
    return _ranges((*ranges, *other))


def _span(first: str, last: str) -> tuple[int, int]:
    return ord(first), ord(last)


_DIGIT: Final = (_span("0", "9"),)
_ALPHA: Final = (_span("A", "Z"), _span("a", "z"))
_GRAPH: Final = ((0x21, 0x7E),)
_POSIX: Final[dict[str, Ranges]] = {
    "Lower": (_span("a", "z"),),
    "Upper": (_span("A", "Z"),),
    "ASCII": ((0, 0x7F),),
    "Alpha": _ALPHA,
    "Digit": _DIGIT,
    "Alnum": _ranges((*_ALPHA, *_DIGIT)),
    "Punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "Graph": _GRAPH,
    "Print": ((0x20, 0x7E),),
    "Blank": _chars("\t "),
    "Cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "XDigit": (_span("0", "9"), _span("A", "F"), _span("a", "f")),
    "Space": _chars("\t\n\x0b\f\r "),
}
_WORD: Final = _ranges((*_ALPHA, *_DIGIT, _span("_", "_")))
_BLANKS: Final = _ranges((*_chars("\t \xa0\u1680\u180e\u202f\u205f\u3000"), (0x2000, 0x200A)))
_LINES: Final = _chars("\n\x0b\f\r\x85\u2028\u2029")
_TERMINATORS: Final = _chars("\n\r\x85\u2028\u2029")
_CLASSES: Final[dict[str, Ranges]] = {
    "d": _DIGIT,
    "w": _WORD,
    "s": _POSIX["Space"],
    "h": _BLANKS,
    "v": _LINES,
    "D": _negated(_DIGIT),
    "W": _negated(_WORD),
    "S": _negated(_POSIX["Space"]),
    "H": _negated(_BLANKS),
    "V": _negated(_LINES),
}
_ESCAPED: Final = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}


def _class_text(ranges: Ranges) -> str:
    if not ranges:
        return "[^\\x{0}-\\x{10ffff}]"
    inside = "".join(
        f"\\x{{{low:x}}}" + (f"-\\x{{{high:x}}}" if high > low else "") for low, high in ranges
    )
    return f"[{inside}]"


# -- the grammar ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of the translation.

    Attributes:
        text: In RE2, safe to be repeated and put into a sequence.
        literal: The one text that it matches, if there is only one.
        is_bounded: Whether what it matches has a longest length.
        needs_end: Whether nothing but the end may follow.
    """

    text: str
    literal: str | None = None
    is_bounded: bool = True
    needs_end: bool = False


_EMPTY: Final = _Node("", literal="")


@dataclass(slots=True)
class _Parser:
    text: str
    at: int = 0
    depth: int = 0
    flags: frozenset[str] = frozenset()
    names: set[str] = field(default_factory=set)
    is_condition: bool = False
    conditions: list[Condition] = field(default_factory=list)
    intersections: int = 0
    condition_count: int = 0

    # -- reading ------------------------------------------------------------------------------

    def peek(self, offset: int = 0) -> str:
        """Return a character ahead; empty at the end."""
        return self.text[self.at + offset : self.at + offset + 1]

    def take(self, wanted: str) -> bool:
        """Pass over a text if it comes next."""
        if not self.text.startswith(wanted, self.at):
            return False
        self.at += len(wanted)
        return True

    def read(self) -> str:
        """Return the next character and pass over it."""
        char = self.peek()
        self.at += len(char)
        return char

    def invalid(self, what: str) -> InvalidPatternError:
        """Return an error at this place."""
        return InvalidPatternError(f"{what} near index {self.at}")

    # -- expressions --------------------------------------------------------------------------

    def whole(self) -> tuple[Alternative, ...]:
        """Parse everything."""
        found = []
        while True:
            self.conditions = []
            nodes = self.sequence()
            prefix = ""
            for node in nodes:
                prefix += node.literal or ""
                if node.literal is None:
                    break
            text = "".join(node.text for node in nodes)
            found.append(Alternative(text, prefix, tuple(self.conditions)))
            if not self.take("|"):
                break
        if self.peek():
            raise self.invalid("Unmatched closing ')'")
        return tuple(found)

    def inside(self) -> _Node:
        """Parse what is between parentheses, the closing one included."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnsupportedPatternError(f"its groups are nested deeper than {_MAX_DEPTH}")
        nodes: list[_Node] = []
        texts: list[str] = []
        while True:
            part = self.sequence()
            nodes += part
            texts.append("".join(node.text for node in part))
            if not self.take("|"):
                break
        if not self.take(")"):
            raise self.invalid("Unclosed group")
        self.depth -= 1
        return _Node(
            f"(?:{'|'.join(texts)})",
            is_bounded=all(node.is_bounded for node in nodes),
            needs_end=any(node.needs_end for node in nodes),
        )

    def sequence(self) -> list[_Node]:
        """Parse up to the end of an alternative."""
        nodes: list[_Node] = []
        is_head, is_over = self.depth == 0, False
        while (char := self.peek()) and char not in "|)":
            node = self.element(is_head=is_head)
            if node is None:  # flags, or a condition
                continue
            if is_over and node.text and not node.needs_end:
                raise UnsupportedPatternError("it continues after the end of the text")
            is_over = is_over or node.needs_end
            nodes.append(node)
            is_head = is_head and node.text in ("", "\\A")
        return nodes

    def element(self, *, is_head: bool) -> _Node | None:
        """Parse one atom with its quantifier."""
        char = self.peek()
        if char == "(":
            node = self.group(is_head=is_head)
            return None if node is None else self.quantified(node)
        if char in "?*+":
            raise self.invalid(f"Dangling meta character {char!r}")
        if char == "{":  # Java repeats the empty text before it
            return self.quantified(_EMPTY)
        self.at += 1
        return self.quantified(self.atom(char))

    def atom(self, char: str) -> _Node:
        """Parse what a quantifier may follow; its first character is read already."""
        match char:
            case "[":
                return self.node_of(self.char_class())
            case "\\":
                return self.escape_outside()
            case "^":
                return self.beginning()
            case "$":
                return self.end(is_multiline="m" in self.flags)
            case ".":
                return self.node_of(self.dot())
            case _:
                return self.literal(ord(char))

    def quantified(self, node: _Node) -> _Node:
        """Parse the quantifier that may follow."""
        char = self.peek()
        if not char or char not in "?*+{":
            return node
        if char == "{":
            count, is_bounded = self.counted()
        else:
            self.at += 1
            count, is_bounded = char, char == "?"
        if self.take("+"):
            raise UnsupportedPatternError("it has a possessive quantifier")
        self.take("?")  # lazy: which match is tried first makes no difference for a whole match
        if node.needs_end:
            raise UnsupportedPatternError("it repeats the end of the text")
        if not node.text:
            return _EMPTY
        return _Node(f"(?:{node.text}){count}", is_bounded=node.is_bounded and is_bounded)

    def counted(self) -> tuple[str, bool]:
        """Parse ``{n}``, ``{n,}`` or ``{n,m}``."""
        self.at += 1
        low = self.number()
        if low is None:
            raise self.invalid("Illegal repetition")
        high: int | None = low
        if self.take(","):
            high = None
            if self.peek() != "}":
                high = self.number()
                if high is None:
                    raise self.invalid("Unclosed counted closure")
        if not self.take("}"):
            raise self.invalid("Unclosed counted closure")
        if high is not None and high < low:
            raise self.invalid("Illegal repetition range")
        if high == low:
            return f"{{{low}}}", True
        return f"{{{low},{'' if high is None else high}}}", high is not None

    def number(self) -> int | None:
        """Parse ASCII digits; ``None`` if there are none."""
        begin = self.at
        while self.peek() and self.peek() in "0123456789":
            self.at += 1
        if begin == self.at:
            return None
        digits = self.text[begin : self.at].lstrip("0") or "0"
        if len(digits) > len(str(_MAX_COUNT)) or int(digits) > _MAX_COUNT:
            raise self.invalid("Illegal repetition range")
        return int(digits)

    # -- groups -------------------------------------------------------------------------------

    def group(self, *, is_head: bool) -> _Node | None:
        """Parse a group; ``None`` if it only set flags, or became a condition."""
        self.at += 1
        before = self.flags
        node: _Node | None = None
        if not self.take("?") or self.take(":"):
            node = self.inside()
        elif self.take(">"):
            raise UnsupportedPatternError("it has an atomic group")
        elif self.peek() in ("=", "!"):
            self.condition(is_ahead=True, is_there=is_head)
        elif self.take("<"):
            node = self.after_angle()
        elif self.inline_flags():
            return None
        else:
            node = self.inside()
        self.flags = before
        if node is None and self.peek() and self.peek() in "?*+{":
            raise UnsupportedPatternError("it repeats a lookahead")
        return node

    def after_angle(self) -> _Node:
        """Parse a lookbehind, or a group with a name."""
        if self.peek() in ("=", "!"):
            self.condition(is_ahead=False, is_there=self.depth == 0)
            return _Node("", needs_end=True)
        self.group_name()
        return self.inside()

    def condition(self, *, is_ahead: bool, is_there: bool) -> None:
        """Parse a lookaround, where it can be one of the whole text."""
        is_negative = self.read() == "!"
        what = "lookahead" if is_ahead else "lookbehind"
        if self.is_condition or not is_there:
            place = "beginning" if is_ahead else "end"
            raise UnsupportedPatternError(f"it has a {what} that is not at its {place}")
        self.is_condition = True
        node = self.inside()
        self.is_condition = False
        if not is_ahead and not node.is_bounded:
            raise UnsupportedPatternError("it has a lookbehind without a max length")
        if not is_ahead and node.needs_end:
            raise UnsupportedPatternError("it has the end of the text in a lookbehind")
        self.condition_count += 1
        if self.condition_count > _MAX_CONDITIONS:
            raise UnsupportedPatternError(f"it has more than {_MAX_CONDITIONS} lookarounds")
        self.conditions.append(Condition(node.text, is_ahead, is_negative))

    def group_name(self) -> None:
        """Parse the name of a group and the bracket after it."""
        begin = self.at
        while (char := self.peek()) and char.isascii() and char.isalnum():
            self.at += 1
        name = self.text[begin : self.at]
        if not name or name[0].isdigit() or not self.take(">"):
            raise self.invalid("A group's name is letters and digits, a letter first")
        if name in self.names:
            raise self.invalid(f"Named capturing group <{name}> is already defined")
        self.names.add(name)

    def inline_flags(self) -> bool:
        """Parse flags; return whether they are for the rest of the enclosing group."""
        wanted = True
        while True:
            char = self.read()
            if char in ("x", "u", "U") and wanted:
                raise UnsupportedPatternError(f"it has the flag {char}")
            if char in ("i", "d", "m", "s", "x", "u", "U"):
                self.flags = self.flags | {char} if wanted else self.flags - {char}
            elif char == "-" and wanted:
                wanted = False
            elif char == ")":
                return True
            elif char == ":":
                return False
            else:
                raise self.invalid("Unknown inline modifier" if char else "Unknown group type")

    # -- atoms --------------------------------------------------------------------------------

    def literal(self, code: int) -> _Node:
        """Return a single character."""
        if "i" in self.flags and chr(code).isascii() and chr(code).isalpha():
            return self.node_of(_chars(chr(code).lower() + chr(code).upper()))
        text = chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:x}}}"
        return _Node(text, literal=chr(code))

    @staticmethod
    def node_of(ranges: Ranges) -> _Node:
        """Return a class of characters."""
        return _Node(_class_text(ranges))

    def dot(self) -> Ranges:
        """Return the characters that the dot matches under the flags."""
        if "s" in self.flags:
            return ((0, _MAX_CODE),)
        return _negated(_chars("\n") if "d" in self.flags else _TERMINATORS)

    def beginning(self) -> _Node:
        """Return ``^``."""
        if "m" in self.flags:
            raise UnsupportedPatternError("it has ^ with the flag m")
        return _Node("\\A", literal="")

    def end(self, *, is_multiline: bool) -> _Node:
        r"""Return ``$`` or ``\Z``: in a whole match the end, unless something can follow it."""
        if not self.is_condition:
            return _Node("\\z", needs_end=True)
        if is_multiline:
            raise UnsupportedPatternError("it has $ in a lookahead with the flag m")
        last = "\\n" if "d" in self.flags else f"\\r\\n|{_class_text(_TERMINATORS)}"
        return _Node(f"(?:{last})?\\z", needs_end=True)

    def escape_outside(self) -> _Node:
        """Parse an escape that is not in a class."""
        char = self.peek()
        match char:
            case "A" | "G":
                node = _Node("\\A", literal="")
            case "z":
                node = _Node("\\z", needs_end=True)
            case "Z":
                self.at += 1
                return self.end(is_multiline=False)
            case "b" if self.peek(1) == "{":
                raise UnsupportedPatternError("it has a boundary of grapheme clusters")
            case "b" | "B":
                node = _Node(f"\\{char}")
            case "R" | "X":
                raise UnsupportedPatternError(f"it has \\{char}")
            case "k" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9":
                raise UnsupportedPatternError("it has a back reference")
            case _:
                found = self.escape()
                return self.literal(found) if isinstance(found, int) else self.node_of(found)
        self.at += 1
        return node

    def escape(self, *, is_before_range: bool = False) -> int | Ranges:
        r"""Parse the escape of a character or a class, after the backslash.

        Args:
            is_before_range: Whether ``\v`` is the vertical tab: the beginning or end of a range.
        """
        char = self.read()
        if not char:
            raise self.invalid("Unescaped trailing backslash")
        if char in "pP":
            found = self.property_class()
            return _negated(found) if char == "P" else found
        if char == "v" and is_before_range:
            return 0x0B
        return _CLASSES[char] if char in _CLASSES else self.character(char)

    def character(self, char: str) -> int:
        """Parse the escape of one character, whose first letter is read already."""
        match char:
            case "0":
                return self.octal()
            case "x":
                return self.hexadecimal()
            case "u":
                return self.utf16()
            case "c" if self.peek():
                return ord(self.read()) ^ 64
            case "N":
                raise UnsupportedPatternError("it names a character")
            case _:
                pass
        if char not in _ESCAPED and char.isascii() and char.isalnum():
            raise self.invalid("Illegal/unsupported escape sequence")
        return _ESCAPED.get(char, ord(char))

    def property_class(self) -> Ranges:
        r"""Parse what follows ``\p``."""
        name = self.read()
        if name == "{":
            close = self.text.find("}", self.at)
            if close < 0:
                raise self.invalid("Unclosed character family")
            name, self.at = self.text[self.at : close], close + 1
        if name not in _POSIX:
            raise UnsupportedPatternError(f"it has the Unicode class {name[:40]!r}")
        if "i" in self.flags:
            raise UnsupportedPatternError(f"it has the class {name!r} with the flag i")
        return _POSIX[name]

    def octal(self) -> int:
        r"""Parse ``\0n``, ``\0nn`` or ``\0mnn`` with m up to 3."""
        digits = ""
        limit = 3 if self.peek() and self.peek() in "0123" else 2
        while len(digits) < limit and self.peek() and self.peek() in "01234567":
            digits += self.read()
        if not digits:
            raise self.invalid("Illegal octal escape sequence")
        return int(digits, 8)

    def hexadecimal(self) -> int:
        r"""Parse ``\xhh`` or ``\x{h...h}``."""
        if not self.take("{"):
            return self.hex_digits(2, "Illegal hexadecimal escape sequence")
        begin = self.at
        while self.peek() and self.peek() in _HEX:
            self.at += 1
        digits = self.text[begin : self.at]
        if not digits or not self.take("}"):
            raise self.invalid("Unclosed hexadecimal escape sequence")
        code = int(digits, 16)
        if code > _MAX_CODE:
            raise self.invalid("Hexadecimal codepoint is too big")
        return code

    def utf16(self) -> int:
        r"""Parse ``\uhhhh``; two surrogates are one character."""
        what = "Illegal Unicode escape sequence"
        code = self.hex_digits(4, what)
        if 0xD800 <= code <= 0xDBFF and self.peek() == "\\" and self.peek(1) == "u":
            begin, self.at = self.at, self.at + 2
            low = self.hex_digits(4, what)
            if 0xDC00 <= low <= 0xDFFF:
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            self.at = begin
        return code

    def hex_digits(self, count: int, what: str) -> int:
        """Parse that many digits."""
        digits = self.text[self.at : self.at + count]
        if len(digits) < count or any(digit not in _HEX for digit in digits):
            raise self.invalid(what)
        self.at += count
        return int(digits, 16)

    # -- classes ------------------------------------------------------------------------------

    def char_class(self, *, is_right_side: bool = False) -> Ranges:
        """Parse a class after its opening bracket, or the right side of ``&&`` up to its end."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnsupportedPatternError(f"its classes are nested deeper than {_MAX_DEPTH}")
        is_negative = not is_right_side and self.take("^")
        # merged once, at the end: merging after each member takes quadratic time
        members: list[tuple[int, int]] = []
        is_begun = False
        while True:
            char = self.peek()
            if not char:
                raise self.invalid("Unclosed character class")
            if char == "]" and is_begun:
                self.at += 0 if is_right_side else 1
                break
            if self.take("["):
                members += self.char_class()
            elif self.take("&&"):
                right = self.right_side()
                members = [*(_common(_ranges(members), right) if is_begun else right)]
            else:
                members += self.class_range()
            is_begun = True
        self.depth -= 1
        found = _ranges(members)
        if "i" in self.flags:  # a class inside is closed under case already
            found = _folded(found)
        return _negated(found) if is_negative else found

    def right_side(self) -> Ranges:
        """Parse what follows ``&&``."""
        self.intersections += 1
        if self.intersections > _MAX_INTERSECTIONS:
            raise UnsupportedPatternError(
                f"it has more than {_MAX_INTERSECTIONS} intersections of classes"
            )
        members: list[tuple[int, int]] = []
        is_begun = False
        while (char := self.peek()) and char not in "]&":
            members += self.char_class(is_right_side=not self.take("["))
            is_begun = True
        if not is_begun or (char == "&" and self.peek(1) != "&"):
            raise UnsupportedPatternError("it has an odd intersection of classes")
        return _ranges(members)

    def class_range(self) -> Ranges:
        """Parse one character, range or escape in a class."""
        if self.take("\\"):
            first = self.escape_in_class(is_before_range=self.peek(1) == "-")
            if not isinstance(first, int):
                return first
        else:
            first = ord(self.read())
        last = first
        if self.peek() == "-" and self.peek(1) not in ("[", "]", ""):
            self.at += 1
            if self.take("\\"):
                escaped = self.escape_in_class(is_before_range=True)
                last = escaped if isinstance(escaped, int) else -1
            else:
                last = ord(self.read())
            if last < first:
                raise self.invalid("Illegal character range")
        return ((first, last),)

    def escape_in_class(self, *, is_before_range: bool) -> int | Ranges:
        """Parse an escape in a class, where there are no places and no references."""
        if self.peek() and self.peek() in "ABGZzbRXk123456789":
            raise self.invalid("Illegal/unsupported escape sequence")
        return self.escape(is_before_range=is_before_range)


_HEX: Final = "0123456789abcdefABCDEF"
