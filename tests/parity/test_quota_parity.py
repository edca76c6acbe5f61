"""What brokers allow themselves of a resource group's limit, beside the real calculator."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from placement_driver import ask_real_classes, driver_command
from pulsar_jars import SkipReason

from core.planning.advisors.shares import must_report, upstream_share

CASES = 1_000
PERIOD_MS = 60_000

pytestmark = pytest.mark.timeout(900)  # the first test may have to fetch the jars


@pytest.fixture(scope="module", autouse=True)
def _real_classes() -> None:
    command = driver_command("QuotaDriver")
    if isinstance(command, SkipReason):
        pytest.skip(str(command))


def _share_case(rng: random.Random) -> dict[str, Any]:
    largest = 10 ** rng.randint(1, 13)
    used = [rng.choice((0, rng.randint(0, largest))) for _ in range(rng.randint(1, 40))]
    return {"limit": rng.choice((-1, 0, rng.randint(0, largest))), "mine": used[0], "all": used}


@pytest.mark.slow
def test_shares_equal_the_real_ones(tmp_path: Path) -> None:
    rng = random.Random(11)
    cases = [_share_case(rng) for _ in range(CASES)]
    answers = ask_real_classes(cases, tmp_path, "QuotaDriver")
    ours = [upstream_share(one["limit"], one["mine"], sum(one["all"])) for one in cases]
    assert ours == [answer["share"] for answer in answers]


def _report_case(rng: random.Random) -> dict[str, Any]:
    last = rng.choice((0, rng.randint(1, 10**6)))
    now = rng.choice((0, round(last * rng.uniform(0.9, 1.1)), rng.randint(0, 10**6)))
    periods = rng.randint(0, 6)
    # half a period off: the clock goes on between the two
    since = round((periods + 0.5) * PERIOD_MS)
    # messages did not change: bytes alone decide
    known = {"messages": 0, "reportedMessages": 0, "sinceMs": since}
    return {"bytes": now, "reportedBytes": last, **known}


@pytest.mark.slow
def test_what_is_reported_equals_what_the_real_class_reports(tmp_path: Path) -> None:
    rng = random.Random(12)
    cases = [_report_case(rng) for _ in range(CASES)]
    answers = ask_real_classes(cases, tmp_path, "QuotaDriver")
    ours = [
        must_report(one["bytes"], one["reportedBytes"], one["sinceMs"] // PERIOD_MS)
        for one in cases
    ]
    assert ours == [answer["told"] for answer in answers]
