"""One formatter: each quantity is written in one form, at one precision."""

from __future__ import annotations

import pytest

from core import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.format_bytes_per_s(188e6), "188 MB/s"),
        (units.format_bytes_per_s(38.14e6), "38.1 MB/s"),
        (units.format_bytes_per_s(38.04e6), "38 MB/s"),
        (units.format_bytes_per_s(999_960), "1 MB/s"),
        (units.format_bytes_per_s(512), "512 B/s"),
        (units.format_bytes_per_s(1.034e9), "1.03 GB/s"),
        (units.format_bytes_per_s(1.2e9), "1.2 GB/s"),
        (units.format_bytes_per_s(9.996e9), "10 GB/s"),
        (units.format_bytes_per_s(-2e12), "-2 TB/s"),
        (units.format_bytes(1.2e9), "1.2 GB"),
        (units.format_mb(68_313), "68.3 GB"),
        (units.format_mb(312), "312 MB"),
        (units.format_mb(0), "0 MB"),
        (units.format_msgs_per_s(53_870), "53.9k msg/s"),
        (units.format_msgs_per_s(877_000), "877k msg/s"),
        (units.format_msgs_per_s(3.4), "3.4 msg/s"),
        (units.format_per_s(12_400, "op"), "12.4k op/s"),
        (units.format_ratio(0.614), "61.4%"),
        (units.format_ratio(1.208), "121%"),
        (units.format_ratio(0.2), "20%"),
        (units.format_deviation(1.339), "+134%"),
        (units.format_deviation(-0.12), "-12%"),
        (units.format_deviation(0.0001), "0%"),
        (units.format_band(0.2), "±20%"),
        (units.format_ms(47.3), "47 ms"),
        (units.format_ms(0.42), "0.4 ms"),
        (units.format_ms(1_240), "1.2 s"),
        (units.format_count(1_204), "1.2k"),
        (units.format_ago(20), "20 s ago"),
        (units.format_bytes_per_s(None), "unknown"),
        (units.format_ratio(float("nan")), "unknown"),
    ],
)
def test_a_quantity_has_one_form(text: str, expected: str) -> None:
    assert text == expected


def test_numbers_in_names_are_compared_as_numbers() -> None:
    names = ["127.0.1.10:80", "127.0.1.2:80", "b-10", "127.0.1.1:80", "b-9"]
    assert units.by_name(names) == ["127.0.1.1:80", "127.0.1.2:80", "127.0.1.10:80", "b-9", "b-10"]
