"""Damaged metrics: of brokers in text, of a Prometheus server in JSON. Named, and never raised."""

from __future__ import annotations

import json
import random
from copy import deepcopy

import pytest
from bounded import bounded
from mutations import mutate
from small_broker import SmallBroker

from connectors.pulsar.metrics.capture import MetricsReader
from connectors.pulsar.metrics.scrape import exposed
from core.schemas import PULSAR_TABLES, conform
from core.snapshot.problems import ProblemLog
from core.units import visible
from tests.faults.test_fuzz_pegasus import CONTROL
from tests.faults.test_metrics_faults import ANSWERS, BROKERS, QUERY, REAL_TEXT, config_of

COUNTS = pytest.mark.parametrize(
    "count", [300, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])]
)
KEPT = b"pulsar_rate_in", b"jvm_", b"pulsar_bundle", b"pulsar_storage_write", b"process_"
TEXT = b"\n".join(line for line in REAL_TEXT.splitlines() if line.startswith((b"#", *KEPT)))[
    :20_000
]
JUNK = (b"{", b"}", b'"', b"\\", b"=", b",", b" ", b"NaN", b"1e999", b"\xff", b"\x00", b"\n", b"#")


def damaged(text: bytes, rng: random.Random) -> bytes:
    """Lines cut, flipped, doubled, mixed, or with what the format itself is made of put in."""
    lines = text.split(b"\n")
    for _ in range(rng.randint(1, 6)):
        row = rng.randrange(len(lines))
        line = lines[row]
        at = rng.randrange(len(line) + 1)
        match rng.randrange(6):
            case 0:
                lines[row] = line[:at]
            case 1:
                lines[row] = line[:at] + bytes([rng.randrange(256)]) + line[at + 1 :]
            case 2:
                lines[row] = line[:at] + rng.choice(JUNK) * rng.randint(1, 3) + line[at:]
            case 3:
                lines[row] = line + line
            case 4:
                lines.insert(row, rng.choice(lines))
            case _:
                lines[row] = line[:at] + rng.choice(lines)[at:]
    return b"\n".join(lines)


@COUNTS
def test_damaged_text_of_a_broker_is_read_or_one_value_error(count: int) -> None:
    rng, refused = random.Random(41), 0
    with bounded(within_s=5.0) as bounds:
        for _ in range(count):
            try:
                with bounds.call():
                    found = exposed(damaged(TEXT, rng), 1.0)
            except ValueError:
                refused += 1
                continue
            assert all(isinstance(one, float) for one in found.values.values())
    assert 0 < refused < count


def read(server: SmallBroker, **prometheus: object) -> ProblemLog:
    problems = ProblemLog()
    urls = dict.fromkeys(BROKERS[:2], server.url) if "scrape" in prometheus else {}
    reader = MetricsReader(config_of(**prometheus))
    try:
        found = reader.read(BROKERS[:2], urls, problems)
    finally:
        reader.close()
    for name, table in found.tables.items():
        conform(table, PULSAR_TABLES[name], name=name)
    for one in problems.named():
        assert CONTROL.search(visible(f"{one.what} {one.done}")) is None
    return problems


def test_damaged_text_over_http_is_a_problem_and_never_raised() -> None:
    rng, named = random.Random(42), 0
    with SmallBroker() as server, bounded() as bounds:
        for _ in range(40):
            server.answers["/metrics/"] = (200, {}, damaged(TEXT, rng))
            with bounds.call():
                named += bool(read(server, scrape=True, sample_s=0.1).named())
    assert named


@COUNTS
def test_damaged_answers_of_a_prometheus_server_are_problems_and_never_raised(count: int) -> None:
    rng, named = random.Random(43), 0
    names = sorted(ANSWERS)
    short = deepcopy(ANSWERS)
    for answer in short.values():
        if isinstance(answer.get("data"), dict) and isinstance(answer["data"].get("result"), list):
            answer["data"]["result"] = answer["data"]["result"][:6]
    bodies = {name: json.dumps(short[name]).encode() for name in names}
    with SmallBroker() as server, bounded() as bounds:
        server.answers[QUERY] = lambda: (200, {}, mutate(bodies[rng.choice(names)], rng))
        for _ in range(count // 5):  # each asks five times or more
            with bounds.call():
                named += bool(read(server, url=server.url).named())
            server.requests.clear()
    assert named
