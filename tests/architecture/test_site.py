"""The documents as a site: the navigation names every page, pictures are there and small."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MAX_BYTES = 250_000
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
OUTSIDE = re.compile(r"\]\((\.\./[^)\s]+)\)")


def config() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    return found


def pages(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from pages(target)


def test_the_navigation_names_every_page_once() -> None:
    named = list(pages(config()["nav"]))
    written = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    assert sorted(named) == written


def test_the_site_asks_nothing_outside() -> None:
    theme = config()["theme"]
    assert theme["font"] is False
    assert "repo_url" not in config()
    assert "extra_javascript" not in config()


def test_links_stay_inside_the_site() -> None:
    """A page of the site cannot link to a file of the repository."""
    for page in DOCS.rglob("*.md"):
        for target in OUTSIDE.findall(page.read_text(encoding="utf-8")):
            assert (page.parent / target.partition("#")[0]).resolve().is_relative_to(DOCS), (
                page,
                target,
            )


def test_pictures_have_a_description_and_are_small() -> None:
    used = set()
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        for text, target in PICTURE.findall(page.read_text(encoding="utf-8")):
            file = (page.parent / target).resolve()
            assert text, (page, target)
            assert file.is_file(), (page, target)
            used.add(file.name)
    for file in (DOCS / "images").glob("*.png"):
        assert file.stat().st_size <= MAX_BYTES, file
        assert file.name in used, f"{file.name} is in no document"
