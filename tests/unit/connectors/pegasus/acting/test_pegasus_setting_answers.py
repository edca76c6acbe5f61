"""Answers of real servers to remote commands, as a run that saves and puts back reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from places import FIXTURES

from connectors.pegasus.acting.settings import check_accepted, is_same, read_answer, words_of
from connectors.pegasus.rpc.parse import parse_command_answer
from core.errors import ConflictError
from core.pegasus.server_settings import CHANGEABLE, canonical, changeable

RECORDED = FIXTURES / "pegasus" / "cli" / "meta_remote_commands.json"
OURS = {one.key for one in CHANGEABLE}
EXCHANGES = [
    (words, parse_command_answer(answer))
    for words, answer in json.loads(RECORDED.read_text(encoding="utf-8"))
    if words[0] in OURS
]
READINGS = [one for one in EXCHANGES if one[0][1:] in ([], ["get"])]
CHANGES = [one for one in EXCHANGES if one not in READINGS]


def test_there_are_recorded_answers_to_read_and_to_change():
    assert len(READINGS) >= 8
    assert len(CHANGES) >= 8


@pytest.mark.parametrize(("words", "answer"), READINGS, ids=lambda one: str(one)[:60])
def test_a_value_is_read_out_of_what_a_real_server_answered(words: list[str], answer: Any) -> None:
    value = read_answer(words[0], answer)
    is_refused = answer.get("error", "ok") != "ok"
    assert (value is None) == is_refused


@pytest.mark.parametrize(("words", "answer"), CHANGES, ids=lambda one: str(one)[:60])
def test_a_change_counts_as_taken_only_where_the_server_said_so(
    words: list[str], answer: Any
) -> None:
    if isinstance(answer, dict) and answer.get("error") == "ok":
        check_accepted(words[0], words[-1], answer)
        return
    with pytest.raises(ConflictError) as caught:
        check_accepted(words[0], words[-1], answer)
    assert caught.value.outcome == "refused"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("meta.lb.ignored_app_list", "2,3", ("set", "2,3")),
        ("meta.lb.ignored_app_list", "", ("clear",)),
        ("meta.lb.assign_secondary_black_list", "", ("clear",)),
        ("meta.lb.assign_secondary_black_list", "a:1,b:2", ("a:1,b:2",)),
        ("meta.lb.assign_delay_ms", "300000", ("300000",)),
        ("meta.lb.only_move_primary", "true", ("true",)),
    ],
)
def test_each_setting_is_written_in_its_own_words(
    key: str, value: str, words: tuple[str, ...]
) -> None:
    assert words_of(changeable(key), value) == words


@pytest.mark.parametrize(
    ("key", "value", "form"),
    [
        ("meta.lb.assign_secondary_black_list", "b:2, a:1,b:2,", "a:1,b:2"),
        ("meta.lb.ignored_app_list", "10,9", "9,10"),
        ("meta.lb.assign_delay_ms", "10", "10"),
    ],
)
def test_lists_have_one_form_whatever_order_a_server_tells_them_in(
    key: str, value: str, form: str
) -> None:
    assert canonical(changeable(key), value) == form


@pytest.mark.parametrize(
    ("name", "one", "other", "same"),
    [
        ("meta.lb.assign_secondary_black_list", "a:1,b:2", "b:2,a:1", True),
        ("meta.lb.assign_secondary_black_list", "", "clear", True),
        ("meta.lb.only_move_primary", "True", "true", True),
        ("meta.lb.assign_delay_ms", "10", "100", False),
        ("nfs.max_copy_rate_megabytes_per_disk@*", '{"a:1": "5"}', '{"a:1":"5"}', True),
        ("nfs.max_copy_rate_megabytes_per_disk@*", '{"a:1": "5"}', "5", False),
        ("meta level", "steady", "steady", True),
        ("meta.lb.assign_delay_ms", None, "10", False),
        ("meta.lb.assign_delay_ms", None, None, True),
    ],
)
def test_two_values_are_compared_by_what_they_mean(
    name: str, one: str | None, other: str | None, *, same: bool
) -> None:
    assert is_same(name, one, other) is same
