"""Names and random patterns for the comparison with ``java.util.regex``, and Java's answers."""

from __future__ import annotations

import base64
import functools
import random
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from placement_driver import LIMIT_S

from connectors.sandbox.java import find_java
from core.errors import ConfigError

_DRIVER = Path(__file__).parent / "java" / "PatternDriver.java"

NAMES = (
    *("", "a", "b", "A", "aa", "ab", "ba", "aab", "abab", "aaaa", "abc", "ABC", "aBc", "abcabc"),
    *("b-1", "b-12", "b-1.example.com", "broker-1", "broker-2", "broker-10", "10.0.0.1"),
    *("10.0.0.11", "10.0.0.1:8080", "acme/orders", "acme/orders-eu", "acme/mail", "public/default"),
    *(
        "a.b",
        "a-b",
        "a_b",
        "a b",
        "a|b",
        "a{b}",
        "{",
        "}",
        "[",
        "]",
        "^",
        "$",
        "a$",
        "\\",
        "-",
        "&",
    ),
    *("a\n", "\n", "a\nb", "a\r\n", "\r\n", "a\u2028", "\x85", "a\x0bb", "\t", "\x0b", "\x00"),
    *(
        "é",
        "É",
        "aé",
        "ß",
        "K",
        "\u212a",
        "\u017f",
        "s",
        "٣",
        "3",
        "\xa0",
        "\u3000",
        "\u2003",
        "\U0001f600",
        "a\U0001f600",
    ),
    *("_", "9", "z", "Z", "@", "x@", "AZ", "az", "E", "Q", "\x1b", "\x07", "#", "~", "!"),
)

_ATOMS = (
    *("a", "b", ".", "\\.", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\h", "\\H", "\\v", "\\V"),
    *(
        "\\R",
        "[ab]",
        "[^a]",
        "[a-c]",
        "[^\\d]",
        "(ab)",
        "(a|b)",
        "(?:ab|a)",
        "é",
        "\\x61",
        "\\0141",
    ),
    *(
        "\\u0061",
        "\\x{61}",
        "\\p{Alpha}",
        "\\P{Digit}",
        "[\\w.-]",
        "[]a]",
        "[^]a]",
        "[a-]",
        "{",
        "}",
    ),
    *(
        "]",
        "\\{",
        "\\Qa.\\E",
        "\\Qab",
        "[\\Q]\\Ea]",
        "^",
        "$",
        "\\A",
        "\\z",
        "\\Z",
        "\\b",
        "\\B",
        "\\G",
    ),
)
_QUANTIFIERS = (
    *(
        "",
        "?",
        "*",
        "+",
        "*?",
        "+?",
        "??",
        "{2}",
        "{1,}",
        "{1,2}",
        "{0}",
        "{2}?",
        "{,3}",
        "{",
        "{a}",
    ),
    *("{2,1}", "{1", "{1,", "**", "*{2}", "{2}{2}", "{ 2}", "{99999999999}", "{00002}", "++", "?*"),
)


def drawn(seed: int, count: int) -> list[str]:
    """Return patterns made of random parts, many of them wrong."""
    source = random.Random(seed)
    parts = [
        *_ATOMS,
        *_QUANTIFIERS,
        *(
            "(",
            ")",
            "|",
            "(?:",
            "(?i)",
            "(?s)",
            "(?i:",
            "[",
            "]",
            "[^",
            "&&",
            "-",
            "a-c",
            "\\",
            "\\Q",
        ),
        *("\\E", "(?!", "(?=", "(?<!", "(?<=", "(?m)", "(?d)", "k", "0", ":", "\n"),
    ]
    return ["".join(source.choices(parts, k=source.randint(1, 7))) for _ in range(count)]


@functools.cache
def java_command() -> tuple[str, ...] | None:
    """Return the command of the driver, or ``None`` where there is no JDK."""
    try:
        java = find_java().path
    except ConfigError:
        return None
    modules = subprocess.run(
        [java, "--list-modules"], capture_output=True, text=True, check=False, timeout=60
    ).stdout
    return (str(java), str(_DRIVER)) if "jdk.compiler" in modules else None


def ask_java(patterns: Iterable[str], names: Sequence[str], folder: Path) -> list[str]:
    """Return ``E``, or a digit a name, of each pattern."""
    command = java_command()
    assert command is not None
    path = folder / "patterns.txt"
    coded = [base64.b64encode(name.encode()).decode() for name in names]
    with path.open("w") as stream:
        for pattern in patterns:
            words = [base64.b64encode(pattern.encode()).decode(), *coded]
            stream.write(" ".join(words) + "\n")
    done = subprocess.run(
        [*command, str(path)], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()
