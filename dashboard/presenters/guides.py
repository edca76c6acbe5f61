"""The guides of ``docs/guides`` and the glossary, as the pages show them without a network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[1] / "guides"
"""A link to ``docs/guides`` in the repository, the files themselves in a package."""

TERMS: Final = "terms"
"""The guide that is the glossary."""

GUIDES: Final[Mapping[str, str]] = {
    "fleet": "first-look",
    "brokers": "unload",
    "broker": "unload",
    "bundles": "unload",
    "bundle": "unload",
    "splits": "unload",
    "unload": "unload",
    "history": "history",
    "diagnose": "diagnose",
    "rebalance": "rebalance",
    "policies": "policies",
    "isolation": "policies",
    "ownership": "lookup",
    "settings": "settings",
    "lookup": "lookup",
    "backtest": "backtest",
    "advisors": "pages",
    "pegasus": "level",
    "pegasus_tables": "pegasus",
    "pegasus_balance": "pegasus",
    "pegasus_undo": "undo",
    "pegasus_maintenance": "drain",
    "activity": "undo",
    "run": "undo",
    "jobs": "jobs",
    "alerts": "alerts",
}
"""Name of a page to that of its guide."""

_IMAGE: Final = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n+", re.MULTILINE)
_LINK: Final = re.compile(r"(?<!!)\[([^\[\]]*)\]\((?!https?:)[^()]*\)")
_ROW: Final = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_UNIT: Final = re.compile(r" (?:\(.*\)|[kMGT]?i?B(?:/s)?|msg/s|%)$")


@lru_cache(maxsize=1)
def titles() -> dict[str, str]:
    """Return the titles of all guides by their names."""
    found = {path.stem: _read(path.stem).partition("\n")[0][2:] for path in FOLDER.glob("*.md")}
    found.pop("README", None)
    return dict(sorted(found.items(), key=lambda item: item[1]))


@lru_cache(maxsize=64)
def body(name: str) -> str:
    """Return the Markdown of a guide below its title, without pictures and links to files.

    Args:
        name: Of the guide.
    """
    text = _read(name).partition("\n")[2]
    return _LINK.sub(r"*\1*", _IMAGE.sub("", text)).strip()


@lru_cache(maxsize=1)
def terms() -> dict[str, str]:
    """Return the meanings of the glossary by their terms."""
    return dict(_ROW.findall(_read(TERMS))[2:])


@lru_cache(maxsize=2_048)
def meaning(label: str) -> str:
    """Return the help of a label that is a term of the glossary; empty: it is none.

    Args:
        label: Of a column, key figure or field; with or without a unit.
    """
    found = terms().get(_UNIT.sub("", label).strip().lower(), "")
    return f"{found[:1].upper()}{found[1:]}." if found else ""


def _read(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")
