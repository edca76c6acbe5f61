"""What sandbox brokers expose, and what pages say of metrics."""

from __future__ import annotations

import re
from time import time

import numpy as np
import pyarrow as pa
import pytest
from places import FIXTURES
from prometheus_client.parser import text_string_to_metric_families

from connectors.pulsar.metrics.scrape import _parsed, _plain_sample, exposed
from connectors.sandbox.pulsar.engine import Engine
from connectors.sandbox.pulsar.options import SandboxOptions
from connectors.sandbox.pulsar.rest.metrics import Exposition
from connectors.sandbox.pulsar.state import Broker
from core.pulsar.storage_latency import BUCKETS, quantile_ms
from core.schemas.pulsar import BROKER_METRICS
from dashboard.presenters.pulsar.metrics import counters_sentence

REAL = FIXTURES / "pulsar/modular/rest/prometheus_b0.txt"
_OF_A_LEADER = {"pulsar_lb_unload_broker_total", "pulsar_lb_unload_bundle_total"}


@pytest.fixture(scope="module")
def engine() -> Engine:
    brokers = [Broker(row, f"127.0.1.{row + 1}", 8080, 6650) for row in range(3)]
    made = Engine(SandboxOptions(brokers=3, bundles=30, seed=7), brokers, "127.0.0.1:1")
    made.prepare()
    for broker in brokers:
        broker.started_ms = int(time() * 1000) - 600_000
    return made


def samples(text: str) -> set[str]:
    return {one.name for family in text_string_to_metric_families(text) for one in family.samples}


def test_sandbox_brokers_expose_names_and_labels_that_a_real_broker_does(engine) -> None:
    engine.shed_counts[0] = (3, 1)
    text = Exposition(engine).text(engine.state.brokers[0])
    real = REAL.read_text()
    known = samples(real)
    assert samples(text) - known == _OF_A_LEADER
    kinds = {line for line in text.splitlines() if line.startswith("# TYPE")}
    assert {line for line in kinds if "unload" not in line} <= set(real.splitlines())
    assert re.search(r'^pulsar_lb_cpu_usage\{cluster="\w+",broker="127.0.1.1",', text, re.MULTILINE)


def test_what_sandbox_brokers_expose_is_their_simulated_load(engine) -> None:
    broker = engine.state.brokers[1]
    one = exposed(Exposition(engine).text(broker).encode(), time())
    assert one.values["msg_rate_in"] == pytest.approx(engine.state.broker_rates()[1, 0])
    assert one.values["cpu_percent"] == pytest.approx(engine.state.usage.cpu[1] / 8)
    assert len(one.bundles) == len(engine.state.served_rows(1))


def test_counters_of_a_sandbox_broker_only_grow_until_it_restarts(engine) -> None:
    exposition, broker = Exposition(engine), engine.state.brokers[2]
    read = [
        exposed(exposition.text(broker).encode(), time()).values["gc_time_ratio"] for _ in range(2)
    ]
    broker.started_ms = int(time() * 1000)
    fresh = exposed(exposition.text(broker).encode(), time()).values["gc_time_ratio"]
    assert fresh < read[0] <= read[1]


def test_a_quantile_of_buckets_is_inside_the_bucket_that_holds_it() -> None:
    counts = np.zeros((5, len(BUCKETS)))
    counts[0, 2] = 100  # 1 to 5 ms
    counts[1, 0], counts[1, 5] = 99, 1  # the last one is just reached by 99%
    counts[2, 9] = 10  # beyond a second
    counts[4] = np.nan
    values = quantile_ms(counts, 0.99)
    assert values[0] == pytest.approx(1 + 0.99 * 4)
    assert values[1] == pytest.approx(0.5)
    assert values[2] == 1000.0
    assert np.isnan(values[3])
    assert np.isnan(values[4])


def counted(total: float | None, started: int = 5) -> pa.Table:
    row = dict.fromkeys(BROKER_METRICS.names) | {
        "broker": "b1",
        "source": "scrape",
        "unload_bundle_total": total,
        "process_started_at": started,
    }
    return pa.Table.from_pylist([row], schema=BROKER_METRICS)


@pytest.mark.parametrize(
    ("before", "after", "moves", "expected"),
    [
        (counted(4.0), counted(10.0), 9, "6 unloads by the leader's balancer; 9 changes"),
        (counted(None), counted(2.0), 2, "Both agree."),
        (counted(0.0), counted(3.0), 1, "returned between"),
        (counted(4.0, started=4), counted(1.0), 1, "the leader has no counts"),
        (None, counted(1.0), 1, "the leader has no counts"),
        (counted(None), counted(None), 0, "0 changes of owner in saved"),
    ],
)
def test_the_balancers_count_is_set_beside_what_was_seen(before, after, moves, expected) -> None:
    assert expected in counters_sentence(before, after, moves, 10.0)


@pytest.mark.parametrize(
    "line",
    [
        'a{b="c"} 1',
        'a{b="c", d="e",} 1.5e3 1700000000000',
        'a{b="}, x=\\"{"} +Inf',
        'a{b="with space # and hash"} NaN',
        'a{b=""} -3',
        "a 12",
        "a{} 7",
        'a  { b = "c" }  2',
        'a{b="c"} 1 # {trace="t"} 1 2',
    ],
)
def test_quick_parser_agrees_with_the_library(line: str) -> None:
    expected = [one for family in text_string_to_metric_families(line) for one in family.samples]
    found = list(_parsed([line]))
    assert [one.labels for one in found] == [one.labels for one in expected]
    assert [repr(one.value) for one in found] == [repr(one.value) for one in expected]


def test_a_series_that_is_known_has_the_value_of_its_line() -> None:
    text = 'a{b="c"} %s\na{b="d"} 5'
    for value in ("1", "2.5 1700000000000"):
        found = {one.labels["b"]: one.value for one in _parsed((text % value).splitlines())}
        assert found == {"c": float(value.split()[0]), "d": 5}


@pytest.mark.parametrize("line", ['a{b="c",b="d"} 1', 'a{__b="c"} 1', 'a{b="c} 1', "a 1_0", "a x"])
def test_damaged_lines_are_refused_as_the_library_does(line: str) -> None:
    with pytest.raises(ValueError):
        list(_parsed([line]))


def test_what_a_real_broker_exposes_needs_the_quick_parser_only() -> None:
    lines = [one for one in REAL.read_text().splitlines() if one and not one.startswith("#")]
    assert all(_plain_sample(one) for one in lines)
