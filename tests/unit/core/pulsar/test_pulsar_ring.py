"""The ring: hashes, boundaries, the bundle of a position."""

from __future__ import annotations

import pytest

from core.errors import InputError
from core.ids import FULL_UPPER
from core.pulsar.ring import (
    find_bundle_index,
    initial_boundaries,
    range_equally_divide,
    topic_hash,
    validate_boundaries,
)


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("persistent://public/default/topic-1", 0x30F3AAE7),
        ("non-persistent://public/default/topic-1", 0xE448424A),
        ("persistent://public/default/topic-1-partition-0", 0x0CD692FF),
        ("persistent://acme/orders/t0", 0x8616C3C4),
        ("a", 0xE8B7BE43),
    ],
)
def test_the_hash_is_the_real_one(name: str, position: int) -> None:
    assert topic_hash(name) == position


@pytest.mark.parametrize(
    ("count", "inner"),
    [
        (1, []),
        (3, [0x55555555, 0xAAAAAAAA]),
        (4, [0x40000000, 0x80000000, 0xC0000000]),
        (6, [0x2AAAAAAA, 0x55555554, 0x7FFFFFFE, 0xAAAAAAA8, 0xD5555552]),
    ],
)
def test_a_new_namespace_has_these_boundaries(count: int, inner: list[int]) -> None:
    assert list(initial_boundaries(count)) == [0, *inner, FULL_UPPER]


def test_a_namespace_has_at_least_one_bundle() -> None:
    with pytest.raises(InputError):
        initial_boundaries(0)


@pytest.mark.parametrize(
    ("position", "index"),
    [(0, 0), (0x3FFFFFFF, 0), (0x40000000, 1), (0xBFFFFFFF, 2), (0xC0000000, 3), (FULL_UPPER, 3)],
)
def test_a_bundle_holds_its_lower_bound_and_the_last_one_both(position: int, index: int) -> None:
    assert find_bundle_index(initial_boundaries(4), position) == index


@pytest.mark.parametrize("boundaries", [[], [0], [0x10, 0x20]])
def test_a_position_outside_all_bundles_is_an_error(boundaries: list[int]) -> None:
    with pytest.raises(InputError):
        find_bundle_index(boundaries, 0x30)


@pytest.mark.parametrize(
    ("lower", "upper", "middle"),
    [
        (0, FULL_UPPER, 0x7FFFFFFF),
        (0xC0000000, FULL_UPPER, 0xDFFFFFFF),
        (0, 0x40000000, 0x20000000),
        (7, 8, None),
    ],
)
def test_halving_takes_the_middle_of_the_range(lower: int, upper: int, middle: int | None) -> None:
    assert range_equally_divide(lower, upper) == middle


@pytest.mark.parametrize(
    ("boundaries", "problem"),
    [
        ([0, FULL_UPPER], None),
        ([0, 5, FULL_UPPER], None),
        ([0], "fewer"),
        ([1, FULL_UPPER], "start"),
        ([0, 5], "end"),
        ([0, 9, 9, FULL_UPPER], "after"),
        ([0, 9, 5, FULL_UPPER], "after"),
    ],
)
def test_boundaries_must_tile_the_ring(boundaries: list[int], problem: str | None) -> None:
    found = validate_boundaries(boundaries)
    assert found is None if problem is None else problem in (found or "")
