"""Documents and texts of pages and commands use the words of ``docs/words.md``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_documents import documents

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "words.md"
PACKAGES = ("core", "connectors", "dashboard")
ALLOWED = {
    "CHANGELOG.md": "names what was",
    "docs/words.md": "lists them",
}
ROW = re.compile(r"^\| [^|]+ \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def excluded_words() -> list[str]:
    _, _, *rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    return [word.strip() for row in rows for word in row.split(",")]


def found(text: str) -> list[str]:
    return WORDS.findall(text)


WORDS = re.compile(rf"\b(?:{'|'.join(map(re.escape, excluded_words()))})\b", re.IGNORECASE)


def texts(source: str) -> Iterator[str]:
    """Yield the string constants of a module that are texts, no names and no docstrings."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_text = " " in node.value.strip() or node.value[:1].isupper()
            if is_text and id(node) not in alone:
                yield node.value


def test_the_page_has_words() -> None:
    assert len(excluded_words()) > 30
    assert found("Bundles that nobody owns were taken back.") == ["nobody", "taken back"]
    assert found("It will be sent still.") == []


def test_documents_use_our_words() -> None:
    offenders = []
    for page in documents():
        name = str(page.relative_to(ROOT))
        if name not in ALLOWED and "fixtures" not in page.parts:
            words = found(page.read_text(encoding="utf-8"))
            offenders += [f"{name}: {word}" for word in words]
    assert offenders == []


@pytest.mark.parametrize("package", PACKAGES)
def test_texts_use_our_words(package: str) -> None:
    offenders = [
        f"{path.relative_to(ROOT)}: {word} in {text!r}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in texts(path.read_text(encoding="utf-8"))
        for word in found(text)
    ]
    assert offenders == []
