"""Patterns of isolation policies match what ``java.util.regex.Pattern`` of Java 17 matches.

Its answers are stored under ``golden``; where there is a JDK they are asked for again, and those to
thousands of random patterns.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from java_patterns import NAMES, ask_java, drawn, java_command

from core.pulsar.java.pattern import (
    InvalidPatternError,
    PatternError,
    PatternSet,
    UnsupportedPatternError,
)

GOLDEN = Path(__file__).parent / "golden" / "java_patterns.json"
INVALID, UNSUPPORTED = "E", "U"
needs_jdk = pytest.mark.skipif(java_command() is None, reason="needs a JDK")


def answer(pattern: str) -> str:
    """Return ours in the form of the driver; ``U``: refused though Java may take it."""
    try:
        one = PatternSet([pattern])
    except InvalidPatternError:
        return INVALID
    except UnsupportedPatternError:
        return UNSUPPORTED
    return "".join("01"[one.match(name)] for name in NAMES)


@pytest.fixture(scope="module")
def golden() -> dict[str, dict[str, str]]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_every_pattern_matches_as_in_java_or_is_refused_by_name(golden) -> None:
    assert golden["names"] == list(NAMES)
    unsupported = set(golden["unsupported"])
    wrong = {}
    for pattern, expected in golden["java"].items():
        ours = answer(pattern)
        if ours != (UNSUPPORTED if pattern in unsupported else expected):
            wrong[pattern] = (ours, expected)
    assert not wrong
    assert len(golden["java"]) - len(unsupported) > 1_300


def test_many_patterns_in_one_set_match_as_each_alone(golden) -> None:
    readable = [
        pattern
        for pattern, expected in golden["java"].items()
        if expected != INVALID and pattern not in golden["unsupported"]
    ]
    for begin in range(0, len(readable), 7):
        some = readable[begin : begin + 7]
        together = PatternSet(some)
        for at, name in enumerate(NAMES):
            alone = any(golden["java"][pattern][at] == "1" for pattern in some)
            assert together.match(name) == alone, (some, name)


@needs_jdk
def test_the_stored_answers_are_those_of_this_java(golden, tmp_path) -> None:
    said = ask_java(golden["java"], NAMES, tmp_path)
    assert dict(zip(golden["java"], said, strict=True)) == golden["java"]


@needs_jdk
def test_random_patterns_match_as_in_java(tmp_path) -> None:
    patterns = drawn(seed=20_261_123, count=3_000)
    said = ask_java(patterns, NAMES, tmp_path)
    readable = 0
    for pattern, expected in zip(patterns, said, strict=True):
        ours = answer(pattern)
        if ours == UNSUPPORTED:
            continue
        readable += 1
        if "\\b" in pattern.lower() and ours != INVALID:  # Unicode words before Java 19
            assert expected != INVALID, pattern
            pairs = zip(ours, expected, NAMES, strict=True)
            assert all(mine == java or not name.isascii() for mine, java, name in pairs), pattern
            continue
        assert ours == expected, pattern
    assert readable > 2_000


def test_what_is_refused_says_why() -> None:
    with pytest.raises(PatternError, match="'a\\+\\+': it has a possessive quantifier"):
        PatternSet(["fine", "a++"])
