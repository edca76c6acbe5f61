"""Every command has frozen answers; the files beside this one compare them, part by part."""

from __future__ import annotations

from pathlib import Path

from answers import ANSWERS, help_of_groups
from frozen_cases import LINES, NOT_ANSWERED, cases, commands
from frozen_texts import assert_frozen, names_in

_DONE = ("exit 0", "exit 3")


def test_every_command_has_a_case() -> None:
    assert [name for name in commands() if not LINES.get(name)] == []
    assert set(LINES) - set(commands()) == set()


def test_every_command_answers_at_least_once_but_for_those_with_a_reason() -> None:
    """As text, and as JSON where it has it."""
    done = {}
    for name, several in cases().items():
        answered = [
            case.words
            for case in several
            if "--help" not in case.words
            and (ANSWERS / case.file).read_text(encoding="utf-8").split("\n")[1] in _DONE
        ]
        has_json = any("--json" in case.words for case in several)
        is_done = any("--json" not in words for words in answered)
        done[name] = is_done and (not has_json or any("--json" in words for words in answered))
    assert {name for name, is_done in done.items() if not is_done} == set(NOT_ANSWERED)


def test_no_answer_is_kept_of_a_case_that_is_gone() -> None:
    known = {case.file for several in cases().values() for case in several}
    assert {name for name in names_in(ANSWERS) if not name.startswith("groups/")} == known


def test_help_of_groups_is_the_frozen_one(tmp_path: Path) -> None:
    assert_frozen(ANSWERS, help_of_groups(tmp_path.resolve()), "groups/")
