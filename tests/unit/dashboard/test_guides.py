"""Guides and terms on the pages: every page has its guide, and every term is one of ours."""

from __future__ import annotations

import re
import tomllib

from places import ROOT

from dashboard.components import figures, tables
from dashboard.presenters import guides
from dashboard.sitemap import ENTRIES

MAX_TERMS = 40


def test_every_page_has_a_guide_that_is_packaged() -> None:
    assert set(guides.GUIDES) == set(ENTRIES)
    assert set(guides.GUIDES.values()) <= set(guides.titles())
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert "guides/*.md" in packaged["package-data"]["dashboard"]
    assert guides.FOLDER.resolve() == ROOT / "docs" / "guides"


def test_guides_show_no_picture_and_no_link_to_a_file() -> None:
    for name in guides.titles():
        body = guides.body(name)
        assert "![" not in body
        assert not re.search(r"\]\((?!https?:)", body), name
        assert not body.startswith("# ")


def test_glossary_is_short_sorted_and_distinct() -> None:
    terms = list(guides.terms())
    assert 20 < len(terms) <= MAX_TERMS
    assert terms == sorted(terms)
    assert len(set(terms)) == len(terms)


def test_labels_that_are_terms_have_their_meaning_as_help() -> None:
    usage = guides.meaning("Usage (%)")
    assert usage == guides.meaning("Usage")
    assert usage.startswith("Share of the most used resource")
    assert tables.percent("Usage")["help"] == usage
    assert tables.percent("Usage", "Own help.")["help"] == "Own help."
    assert tables.percent("Broker")["help"] is None
    assert figures.meaning("Max deviation") == guides.meaning("max deviation")


def test_streamlit_shows_no_menu_of_its_own() -> None:
    for file in (ROOT / ".streamlit", ROOT / "dashboard" / ".streamlit"):
        options = tomllib.loads((file / "config.toml").read_text())
        assert options["client"]["toolbarMode"] == "minimal"
    assert "menu_items" not in (ROOT / "dashboard" / "app.py").read_text()
