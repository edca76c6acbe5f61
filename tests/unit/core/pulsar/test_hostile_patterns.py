"""Texts that are made to take long: every pattern of Trimtab's own, and the numbers in names."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
import time
from collections.abc import Iterator

import pytest
from places import ROOT

from core.errors import InputError
from core.pegasus.ids import is_gpid, parse_gpid
from core.pegasus.server_settings import changeable, desired_value
from core.pegasus.settings import checked_value
from core.pulsar.java.maps import natural_order
from core.pulsar.placement.versions import version_key, version_ranks
from core.pulsar.releases import version_number
from core.units import by_name, ranks_by_name

SHORT, LONG = 1_000, 4_000
BLAMED_S = 0.001
"""A linear pattern needs microseconds for the short text; then it is not measured further."""
METHODS = ("match", "fullmatch", "search", "findall", "finditer", "sub", "split")
PUMPS = (
    *("0", "1.", "a", "a.", "a-", "A0", "/", "/a", "//", " ", "\t", " \t", "\n", "\n\n", "-", "_"),
    *(":", "a:", ".", "..", ",", "a,", "=", "a=", "[", "[a", "]", "(", "{", "{a", "%", "%2", "%2f"),
    *("@", "@a", "@a.", "a@", "<", "< ", "<title>", "</", "http", "www", "www.", "'", '"', '"\\'),
    *("`", "``", "0x", "0x0_", "0x0_0x", "+", "e", "1e", "Caused by: ", "a.b.C: ", "    a: b\n"),
    *("namespaces=[", "min_limit=1", "data:image/svg+xml;base64,", "-Xmx1", "1 ", "1.1-", "-0.0"),
    *(
        "cluster=a/day=2026-01-01/",
        "\x1b[",
        "\x1b[0;",
        " 0: ",
        "Optional[",
        "\u202e",
        "é",
        "\uff21",
    ),
    *("WARN", "2026-01-01 ", "Message: ", "# HELP a", "aA", "a+b", "a__b", "pulsar/", "unknown "),
)
ENDS = ("", "!", "\n\x00")


ELSEWHERE = {
    "core.pulsar.snapshot.config_files.model.VARIABLE": ["match"],
    "core.pulsar.snapshot.zkdump._BUNDLE": ["match"],
    "core.pulsar.snapshot.zkdump._NAMESPACE": ["match"],
    "core.pulsar.snapshot.zkdump._QUOTA": ["match"],
}
"""How patterns are applied that their own module only names; any other one is searched for."""


def named_patterns() -> Iterator[tuple[str, str, re.Pattern[str] | re.Pattern[bytes], list[str]]]:
    """Give every pattern that a module of the product names, and how the module applies it."""
    files = [
        one for each in ("core", "connectors", "dashboard") for one in (ROOT / each).rglob("*.py")
    ]
    for path in sorted(files):
        if "re.compile(" not in (text := path.read_text()):
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        used = applied_in(text)
        for name, value in vars(importlib.import_module(module)).items():
            for one in value.values() if isinstance(value, dict) else [value]:
                if isinstance(one, re.Pattern):
                    other = ELSEWHERE.get(f"{module}.{name}", ["match", "search"])
                    yield module, name, one, sorted(used.get(name, other))


def applied_in(text: str) -> dict[str, set[str]]:
    """Return which methods a module calls on what it names."""
    used: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            for part in ast.walk(node.value):
                if isinstance(part, ast.Name):
                    used.setdefault(part.id, set()).add(node.attr)
    return used


def seconds(pattern: re.Pattern[str] | re.Pattern[bytes], method: str, text: str) -> float:
    given = text if isinstance(pattern.pattern, str) else text.encode()
    before = time.thread_time()
    if method == "sub":
        pattern.sub(lambda _: given[:0], given)  # type: ignore[arg-type,return-value,type-var]
    elif method == "finditer":
        list(pattern.finditer(given))  # type: ignore[arg-type]
    else:
        getattr(pattern, method)(given)
    return time.thread_time() - before


def is_slower(
    pattern: re.Pattern[str] | re.Pattern[bytes], method: str, short: str, long: str
) -> bool:
    """Whether the long text took more than its share: on a busy machine once is no proof."""
    took_s = max(seconds(pattern, method, short) for _ in range(3))
    long_s = min(seconds(pattern, method, long) for _ in range(5))
    return long_s > 2 * LONG / SHORT * took_s


def slow_text(pattern: re.Pattern[str] | re.Pattern[bytes], methods: list[str]) -> str:
    """Return what the pattern takes more than linear time for; empty: nothing that is tried."""
    for method in methods:
        for pump in PUMPS:
            for end in ENDS:
                short = pump * (SHORT // len(pump)) + end
                if seconds(pattern, method, short) < BLAMED_S:
                    continue
                long = pump * (LONG // len(pump)) + end
                if all(is_slower(pattern, method, short, long) for _ in range(3)):
                    return f"{method} of {pump!r} repeated, then {end!r}"
    return ""


def test_no_pattern_of_the_product_takes_more_than_linear_time() -> None:
    before = set(sys.modules)
    patterns = list(named_patterns())
    assert len(patterns) > 80
    found = {
        f"{module}.{name}": slow
        for module, name, pattern, methods in patterns
        if (slow := slow_text(pattern, methods))
    }
    assert not found, json.dumps(found, indent=1)
    assert before <= set(sys.modules)


def test_a_pattern_that_backtracks_is_found() -> None:
    assert slow_text(re.compile(r"(\d+\.?\d*|\.\d+)f\Z"), ["match"])
    assert slow_text(re.compile(rb"(\S+)\s"), ["search"])
    assert not slow_text(re.compile(r"\d+(\.\d*)?f\Z"), ["match"])


# -- numbers of thousands of digits, which Python refuses to convert -------------------------------

DIGITS = "9" * 5_000


def test_names_with_endless_numbers_have_an_order() -> None:
    names = [f"b-{DIGITS}", "b-10", "b-2", f"b-0{DIGITS}8", "b-02"]
    ordered = ["b-02", "b-2", "b-10", f"b-{DIGITS}", f"b-0{DIGITS}8"]
    assert by_name(sorted(names)) == ordered  # of equal numbers the first stays first
    assert sorted(ranks_by_name(tuple(names))) == [0, 1, 2, 3, 4]
    assert [names[at] for at in natural_order(names).tolist()] == ordered
    assert by_name(["b-٣", "b-10", "b-²"]) == ["b-10", "b-²", "b-٣"]


def test_versions_with_endless_numbers_are_none_or_have_an_order() -> None:
    assert version_key(f"4.2.{DIGITS}") is None
    assert version_ranks(["4.2.4", f"4.{DIGITS}.0", f"4.2.5-{DIGITS}", "4.2.5-2"]).tolist() == [
        *(0, -1, -1, 1)
    ]
    with pytest.raises(ValueError, match="4"):
        version_number(f"4.{DIGITS}")


def test_partitions_and_server_settings_with_endless_numbers_are_refused() -> None:
    assert not is_gpid(f"{DIGITS}.1")
    with pytest.raises(InputError, match="is not a partition"):
        parse_gpid(f"2.{DIGITS}")
    for name in ("min_live_node_count_for_unfreeze", "meta.live_percentage"):
        one = changeable(name)
        with pytest.raises(InputError):
            checked_value(one.setting, DIGITS)
        with pytest.raises(InputError):
            desired_value(one, DIGITS)
