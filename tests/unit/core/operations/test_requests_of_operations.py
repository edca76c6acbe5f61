"""A request that does not fit is refused in words: the field, the value, and what fits."""

from __future__ import annotations

import pytest

from core.errors import InputError
from core.findings.request import HealthRequest
from core.operations.drill.request import DrillRequest
from core.operations.lookup import LookupRequest
from core.request import parse


@pytest.mark.parametrize(
    ("request_type", "values", "words"),
    [
        (DrillRequest, {"hot_threshold": "much"}, "hot_threshold: 'much' is not a number."),
        (DrillRequest, {"hot_threshold": -1}, "hot_threshold: -1 is not a number > 0."),
        (DrillRequest, {"seed": 1.5}, "seed: 1.5 is not a whole number."),
        (DrillRequest, {"seed": -1}, "seed: -1 is not a whole number >= 0."),
        (DrillRequest, {"brokers": "maybe"}, "brokers: 'maybe' is not true or false."),
        (DrillRequest, {"only": "zone-a"}, "only: 'zone-a' is not a list."),
        (DrillRequest, {"sed": 1}, "No parameter named 'sed'. Did you mean seed?"),
        (LookupRequest, {}, "topic is required."),
        (LookupRequest, {"topc": "a"}, "No parameter named 'topc'. Did you mean topic?"),
        (HealthRequest, {"target": "tigt"}, "No target named 'tigt'. Did you mean tight?"),
    ],
)
def test_what_does_not_fit_is_named_with_what_fits(request_type, values, words) -> None:
    with pytest.raises(InputError) as refused:
        parse(request_type, values)
    assert str(refused.value) == words


def test_texts_of_an_address_are_numbers_and_switches() -> None:
    values = {"hot_threshold": "0.5", "brokers": "false", "seed": "3", "only": ("a",)}
    assert parse(DrillRequest, values, strict=False) == DrillRequest(
        hot_threshold=0.5, brokers=False, seed=3, only=("a",)
    )
