"""Folders of frozen texts: compare them, or write them anew."""

from __future__ import annotations

import difflib
import json
import os
import shutil
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

RENEW = "python tests/frozen/answers.py freeze"
WRITE = "TRIMTAB_WRITE_WORDING"
"""Set by ``freeze pages`` and ``freeze reports``: tests write their texts, then compare them."""

_MAX_LINES = 60


def assert_frozen(
    folder: Path, texts: Mapping[str, str], under: str = "", renew: str = RENEW
) -> None:
    """Compare texts with the files of a folder.

    Args:
        folder: Of the frozen texts.
        texts: By the path of their file in the folder.
        under: Beginning of the paths of which there may be no other file; empty: all.
        renew: The command that writes them anew.
    """
    kept = {name for name in names_in(folder) if name.startswith(under)}
    read = {name: (folder / name).read_text(encoding="utf-8") for name in sorted(kept & set(texts))}
    different = [name for name, text in read.items() if text != texts[name]]
    new, gone = sorted(set(texts) - kept), sorted(kept - set(texts))
    if not (different or new or gone):
        return
    parts = [f"{folder.name}: {len(different)} differ, {len(new)} new, {len(gone)} gone."]
    parts += [f"differs: {name}" for name in different]
    parts += [f"new: {name}" for name in new]
    parts += [f"gone: {name}" for name in gone]
    if different:
        parts += ["", *_difference(different[0], read[different[0]], texts[different[0]])]
    parts += ["", f"If this is wanted, run `{renew}` and read the difference in Git."]
    raise AssertionError("\n".join(parts))


def assert_frozen_by_test(
    texts: Mapping[Path, str], name: str, renew: str, under: str = ""
) -> None:
    """Compare the texts of one test with the frozen ones, or write them.

    Args:
        texts: By the folder of the frozen texts.
        name: Path of the file in each of the folders.
        renew: The command that writes them anew.
    """
    if os.environ.get(WRITE):
        for folder, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    for folder, text in texts.items():
        assert_frozen(folder, {name: text}, name, renew)


def names_in(folder: Path) -> set[str]:
    """Return the paths of all files below a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def freeze(folder: Path, texts: Mapping[str, str]) -> None:
    """Let a folder hold these texts, and no other file."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _difference(name: str, before: str, after: str) -> list[str]:
    """Return a unified diff, one line a JSON value where lines are JSON."""
    old, new = _spread(before), _spread(after)
    if old == new:  # they differ in blanks alone
        old, new = before.splitlines(), after.splitlines()
    lines = difflib.unified_diff(old, new, f"frozen {name}", f"now {name}", lineterm="")
    return list(islice(lines, _MAX_LINES))


def _spread(text: str) -> list[str]:
    return [part for line in text.splitlines() for part in _values(line)]


def _values(line: str) -> list[str]:
    if line[:1] not in ("{", "["):
        return [line]
    try:
        return json.dumps(json.loads(line), indent=1, ensure_ascii=False).splitlines()
    except ValueError:
        return [line]
