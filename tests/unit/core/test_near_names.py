"""Near names: a slip is corrected, and what only has the same parent is not offered."""

from __future__ import annotations

import pytest

from core.errors import UnknownNameError
from dashboard.cli.main import run

NAMESPACES = ["acme/logs", "acme/orders", "acme/search"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("acme/nothere", "Available: acme/logs, acme/orders, acme/search."),
        ("acme/order", "Did you mean acme/orders?"),
        ("acme/serch", "Did you mean acme/search?"),
    ],
)
def test_a_name_is_near_by_what_is_its_own(name: str, hint: str) -> None:
    assert UnknownNameError.of("namespace", name, NAMESPACES).hint == hint


def test_of_many_names_that_are_not_near_no_number_is_given() -> None:
    known = [f"acme/ns{at:02}" for at in range(40)]
    assert UnknownNameError.of("namespace", "zzz", known).hint == "No similar name."


@pytest.mark.parametrize(
    ("option", "is_offered"), [("--band", False), ("--pln", True), ("--plam", True)]
)
def test_an_option_that_shares_half_its_letters_is_not_offered(
    option: str, capsys: pytest.CaptureFixture[str], *, is_offered: bool
) -> None:
    assert run(["unload", "sandbox", option, "3"]) == 2
    assert ("Did you mean --plan" in capsys.readouterr().err) is is_offered
