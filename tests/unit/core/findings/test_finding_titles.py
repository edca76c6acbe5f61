"""Every rule names its finding in a few words, and gives what it measured as data."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import core
from core.findings.finding import Finding
from core.findings.quantity import Quantity

RULES = Path(core.__file__).parent
MAX_WORDS = 8
MAKERS = ("Finding", "broker_finding", "_counted")


def _calls() -> list[tuple[str, ast.Call]]:
    found = []
    files = [*RULES.glob("*/rules/**/*.py"), *RULES.glob("findings/*.py")]
    for file in sorted(files):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id in MAKERS:
                found.append((f"{file.relative_to(RULES)}:{node.lineno}", node))
    return found


def _titles(node: ast.expr) -> list[str]:
    """Return the texts that an expression may give, what is put in counted as two words."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.IfExp):
        return _titles(node.body) + _titles(node.orelse)
    if isinstance(node, ast.JoinedStr):
        parts = [
            str(one.value) if isinstance(one, ast.Constant) else "two words" for one in node.values
        ]
        return ["".join(parts)]
    return []  # a name: its texts are the constants that the next test reads


@pytest.mark.parametrize(("place", "call"), _calls(), ids=[place for place, _ in _calls()])
def test_every_finding_has_a_title_of_at_most_eight_words(place: str, call: ast.Call) -> None:
    given = {one.arg: one.value for one in call.keywords}
    assert "title" in given, place
    for title in _titles(given["title"]):
        assert len(title.split()) <= MAX_WORDS, (place, title)
        assert title[:1].isupper() or title.startswith(("two words", "pulsar-admin")), title
        assert not title.endswith("."), title


def test_every_rule_is_looked_at() -> None:
    assert len(_calls()) > 100


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        (Quantity(0.934, "ratio"), "93.4%"),
        (Quantity(1.339, "deviation"), "+134%"),
        (Quantity(0.2, "band"), "±20%"),
        (Quantity(187.6e6, "bytes/s"), "188 MB/s"),
        (Quantity(53_870, "msg/s"), "53.9k msg/s"),
        (Quantity(47.2, "ms"), "47 ms"),
        (Quantity(10e6, "kbit/s"), "10 Gbit/s"),
        (Quantity(54.7, "mean"), "mean 55"),
        (Quantity(128), "128"),
        (Quantity(3, "values"), "3 values"),
        (Quantity(61.0, "/h"), "61/h"),
        (Quantity("false"), "false"),
        (Quantity(None, "ms"), "unknown"),
        (Quantity(float("nan"), "kbit/s"), "unknown"),
    ],
)
def test_a_quantity_is_written_in_the_form_of_its_unit(quantity: Quantity, text: str) -> None:
    assert quantity.text == text


def test_a_finding_needs_a_title() -> None:
    with pytest.raises(TypeError, match=re.escape("title")):
        Finding(code="x", severity="info", sentence="S.")  # type: ignore[call-arg]
