"""Known defects and the versions that fix them."""

from __future__ import annotations

import pytest
from places import ROOT

from core.pulsar.defects import (
    DEFECTS,
    LEADER_FOLLOWS,
    REGISTRATION_STAYS,
    UNLOAD_HANGS,
    UNLOAD_STOPS,
    defect_note,
    defect_words,
)
from core.pulsar.releases import Release, version_number


@pytest.mark.parametrize(
    ("code", "version", "words"),
    [
        (UNLOAD_STOPS, "3.0.1", "fixed in 3.0.2 (this is 3.0.1)"),
        (UNLOAD_STOPS, "2.9.1", "fixed in 2.10.6, 2.11.3, 3.0.2 and 3.1.2 (this is 2.9.1)"),
        (UNLOAD_STOPS, "2.4.1", "fixed in 2.10.6, 2.11.3, 3.0.2 and 3.1.2 (this is 2.4.1)"),
        (UNLOAD_STOPS, "2.11.3", "this release has the fix"),
        (UNLOAD_STOPS, "3.2.0", "this release has the fix"),
        (LEADER_FOLLOWS, "3.0.6", "fixed in 3.0.7 (this is 3.0.6)"),
        (LEADER_FOLLOWS, "4.0.0", "this release has the fix"),
        (REGISTRATION_STAYS, "3.1.2", "fixed in 3.3.5 and 4.0.3 (this is 3.1.2)"),
        (REGISTRATION_STAYS, "3.0.10", "this release has the fix"),
        (
            UNLOAD_STOPS,
            None,
            "fixed in 2.10.6, 2.11.3, 3.0.2 and 3.1.2; no broker reports a version",
        ),
    ],
)
def test_words_name_the_fix_of_the_line(code: str, version: str | None, words: str) -> None:
    assert defect_words(code, Release.of(version)) == words


def test_a_note_only_where_the_release_has_the_defect() -> None:
    assert defect_note(UNLOAD_HANGS, Release.of("3.1.0")) == (
        "An unload can hang in Releasing: fixed in 3.1.2 (this is 3.1.0)."
    )
    assert not defect_note(UNLOAD_HANGS, Release.of("3.1.2"))
    assert not defect_note(UNLOAD_HANGS, Release.of("2.10.6"))  # before the extensible manager


@pytest.mark.parametrize("code", DEFECTS)
def test_a_fix_ends_the_defect_in_its_line(code: str) -> None:
    defect = DEFECTS[code]
    assert list(defect.fixed) == sorted(defect.fixed, key=version_number)
    for version in defect.fixed:
        major, minor, patch = version_number(version)
        assert not defect.is_in((major, minor, patch))
        if patch:
            assert defect.is_in((major, minor, patch - 1))


def test_the_documentation_names_every_fix() -> None:
    page = (ROOT / "docs" / "releases.md").read_text(encoding="utf-8")
    rows = [row for row in page.splitlines() if row.startswith("|")]
    for defect in DEFECTS.values():
        fixed = f"| {', '.join(defect.fixed)} |"
        assert any(fixed in row and str(defect.reports[0]) in row for row in rows), defect.code
