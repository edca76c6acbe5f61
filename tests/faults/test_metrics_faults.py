"""Metrics that do not come, or come wrong: named, never guessed, and no capture fails for them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from connectors.config.metrics import Prometheus
from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.pulsar.check import check_cluster
from connectors.pulsar.metrics.capture import Metrics, MetricsReader
from connectors.pulsar.metrics.found import BrokerNames, found_by_broker
from connectors.pulsar.metrics.measures import LabelMatcher, Series
from connectors.pulsar.metrics.scrape import MAX_LINES, exposed
from connectors.pulsar.metrics.server import quoted, selector
from core.errors import ConfigError
from core.snapshot.problems import ProblemLog
from tests.faults.small_broker import HungPort, SmallBroker, said

FIXTURES = Path(__file__).parent.parent / "fixtures"
ANSWERS = json.loads((FIXTURES / "prometheus" / "answers_2_42.json").read_bytes())
REAL_TEXT = (FIXTURES / "pulsar/modular/rest/prometheus_b0.txt").read_bytes()
BROKERS = [f"127.0.1.{number}:8080" for number in range(1, 7)]
QUERY = "/api/v1/query"
TEXT = {"Content-Type": "text/plain;charset=utf-8"}


class RecordedServer(SmallBroker):
    """Answers as a Prometheus 2.42 that scraped six brokers was recorded answering."""

    def __init__(self, **changed: object) -> None:
        super().__init__()
        self.recorded = {**ANSWERS, **changed}
        self.answers[QUERY] = self._answer

    def _answer(self):
        (query,) = parse_qs(self.requests[-1][3].decode())["query"]
        for mark, name in (
            ("count (pulsar_bundle", "bundle_count"),
            ("by (instance, bundle)", "bundles"),
            ("pulsar_broker_rate_in", "load"),
            ("jvm_gc", "process"),
            ("pulsar_broker_publish_latency", "requests"),
            ("pulsar_storage_write_latency", "writes"),
        ):
            if mark in query:
                return said(self.recorded[name])
        raise AssertionError(query)


def config_of(**prometheus: object) -> ClusterConfig:
    return ClusterConfig(
        name="c",
        zookeeper="127.0.0.1:1",
        prometheus={"timeout_s": 2, "sample_s": 0.1, **prometheus},
    )


def read(config: ClusterConfig, urls: dict[str, str] | None = None) -> tuple[Metrics, ProblemLog]:
    problems = ProblemLog()
    reader = MetricsReader(config)
    try:
        return reader.read(list(urls or BROKERS), urls or {}, problems), problems
    finally:
        reader.close()


def told(problems: ProblemLog) -> str:
    return " ".join(f"{each.what} {each.done}" for each in problems.named())


def changed(group: str, measure: str, value: str) -> dict[str, object]:
    """The recorded answers with one measure of the first broker changed."""
    answer = json.loads(json.dumps(ANSWERS[group]))
    for point in answer["data"]["result"]:
        metric = point["metric"]
        if (metric["instance"], metric["trimtab_measure"]) == (BROKERS[0], measure):
            point["value"][1] = value
    return {group: answer}


def test_recorded_answers_become_a_row_for_each_broker_and_rates_of_bundles() -> None:
    with RecordedServer() as server:
        metrics, problems = read(config_of(url=server.url, labels={"env": "prod"}))
    assert problems.named() == ()
    rows = {row["broker"]: row for row in metrics.tables["broker_metrics"].to_pylist()}
    assert sorted(rows) == BROKERS
    first = rows[BROKERS[0]]
    assert (first["source"], first["window_s"]) == ("prometheus", 300.0)
    assert 0 < first["gc_time_ratio"] < 0.05
    assert 0 < first["heap_used_ratio"] <= 1
    assert first["write_p99_ms"] > 0
    assert first["topic_load_p99_ms"] is None  # NaN was recorded: nobody loaded a topic
    assert metrics.tables["bundle_metrics"].num_rows > 0
    assert len(server.requests) == 6
    assert all(b"env%3D%22prod%22" in body for _, _, _, body in server.requests)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_values_that_are_no_numbers_are_unknown(value) -> None:
    with RecordedServer(**changed("process", "gc_time_ratio", value)) as server:
        metrics, _ = read(config_of(url=server.url))
    column = metrics.tables["broker_metrics"]["gc_time_ratio"]
    assert column.null_count == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((200, {}, b"<html><title>Sign in</title></html>"), "not return an instant vector"),
        (
            (500, {}, b"<html><title>Oops</title></html>"),
            "returned 500 to POST /api/v1/query: Oops",
        ),
        (said(ANSWERS["bad_query"], 400), "unclosed left parenthesis"),
        (said({"reason": "x"}, 401), "Check [clusters.prometheus.auth]"),
        (said({"status": "error", "errorType": "timeout", "error": "too slow"}), "too slow"),
        (
            said({"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}),
            "not return an inst",
        ),
        ((302, {"Location": "http://127.0.0.1:1/login"}, b""), "login page"),
    ],
)
def test_answers_that_are_none_are_one_clear_problem(answer, expected) -> None:
    with SmallBroker() as server:
        server.answers[QUERY] = answer
        metrics, problems = read(config_of(url=server.url))
    assert metrics.tables == {}
    assert expected in told(problems)
    assert len(problems.named()) == 1


def test_a_server_that_hangs_costs_its_own_time_out_and_says_so() -> None:
    with HungPort() as server:
        metrics, problems = read(config_of(url=server.url, timeout_s=0.3))
    assert metrics.tables == {}
    assert [each.code for each in problems.named()] == ["timeout"]
    assert "timeout_s of [clusters.prometheus]" in told(problems)


def test_labels_that_fit_nothing_are_said_in_one_sentence_with_the_remedy() -> None:
    nothing = dict.fromkeys(("load", "process", "requests", "writes"), ANSWERS["nothing"])
    with RecordedServer(**nothing) as server:
        _, problems = read(config_of(url=server.url, labels={"env": "prd"}))
    (problem,) = problems.named()
    assert 'env="prd"' in problem.what
    assert "labels of [clusters.prometheus]" in problem.done


def test_a_label_that_no_series_has_is_said() -> None:
    with RecordedServer() as server:
        metrics, problems = read(config_of(url=server.url, broker_label="pod"))
    assert metrics.tables == {}
    assert "label pod" in told(problems)


def test_too_many_bundles_are_not_read_and_the_rest_is() -> None:
    many = {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": {}, "value": [0, "20001"]}]},
    }
    with RecordedServer(bundle_count=many) as server:
        metrics, problems = read(config_of(url=server.url))
    assert list(metrics.tables) == ["broker_metrics"]
    assert "20,001 bundles" in told(problems)


# -- whose series they are ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "broker"),
    [
        ("pulsar-0.pulsar.ns.svc:8080", "pulsar-0.pulsar.ns.svc:8080"),
        ("pulsar-0.pulsar.ns.svc:8000", "pulsar-0.pulsar.ns.svc:8080"),
        ("pulsar-0", "pulsar-0.pulsar.ns.svc:8080"),
        ("10.0.0.7", "10.0.0.7:8080"),
        ("10", None),  # the first part of an address is no name
        ("twins", None),  # two brokers of one host
        ("twins:8081", "twins:8081"),
        ("", None),
    ],
)
def test_a_label_means_the_one_broker_that_it_fits(value, broker) -> None:
    names = ["pulsar-0.pulsar.ns.svc:8080", "10.0.0.7:8080", "twins:8080", "twins:8081"]
    assert BrokerNames(names).broker_of(value) == broker


def test_two_names_of_one_broker_and_strangers_are_named_not_added_up() -> None:
    problems = ProblemLog()
    found = found_by_broker(["b1", "b1:8080", "proxy:80"], BrokerNames(["b1:8080"]), "p", problems)
    assert found == {"b1:8080": "b1:8080"}
    assert "b1 is b1:8080" in told(problems)
    assert "no broker of the cluster" in told(problems)


# -- the brokers' own text ---------------------------------------------------------------------


def test_the_text_of_a_real_broker_tells_what_its_own_quantile_does() -> None:
    one = exposed(REAL_TEXT, 1.0)
    assert one.values["msg_rate_in"] == 1358.465
    assert one.values["gc_time_ratio"] == pytest.approx(0.654 + 0.633)  # both collectors
    assert len(one.bundles) == 11
    with SmallBroker() as broker:
        broker.answers["/metrics/"] = (200, TEXT, REAL_TEXT)
        metrics, problems = read(config_of(scrape=True), {"b:8080": broker.url})
    assert problems.named() == ()
    (row,) = metrics.tables["broker_metrics"].to_pylist()
    # storage writes from our buckets, publishing as the broker says: nearly the same wait
    assert row["write_p99_ms"] == pytest.approx(row["publish_p99_ms"], rel=0.05)
    assert row["gc_time_ratio"] == 0.0  # the counter stood still between the two readings


def test_counters_become_rates_and_a_restart_makes_them_unknown() -> None:
    line = 'jvm_gc_collection_seconds_sum{{gc="{}"}} {}\n'
    texts = iter([10.0, 10.5, 1.0])
    with SmallBroker() as broker:
        broker.answers["/metrics/"] = lambda: (
            200,
            TEXT,
            (
                line.format("G1 Young Generation", next(texts)) + line.format("ZGC Cycles", 99)
            ).encode(),
        )
        reader = MetricsReader(config_of(scrape=True))
        first, again = (
            reader.read(["b"], {"b": broker.url}, ProblemLog()).tables["broker_metrics"]
            for _ in range(2)
        )
        reader.close()
    (row,), (fallen,) = first.to_pylist(), again.to_pylist()
    assert row["gc_time_ratio"] == pytest.approx(0.5 / row["window_s"])  # cycles stop nobody
    assert fallen["gc_time_ratio"] is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html><title>Login</title></html>", "Login"),
        (b"", "it is empty"),
        (b'pulsar_lb_cpu_usage{broker="b" 1\n', "could not convert"),
        (b"pulsar_lb_cpu_usage abc\n", "could not convert"),
        (b'pulsar_lb_cpu_usage{broker="\xff"} 1\n', "decode"),
    ],
)
def test_text_that_is_no_metrics_is_named_with_the_address(body, expected) -> None:
    with SmallBroker() as broker:
        broker.answers["/metrics/"] = (200, TEXT, body)
        metrics, problems = read(config_of(scrape=True), {"b:8080": broker.url})
    assert metrics.tables == {}
    (problem,) = problems.named()
    assert problem.place == f"{broker.url}/metrics/"
    assert expected in problem.what


def test_one_silent_broker_does_not_hide_the_others() -> None:
    with SmallBroker() as broker, HungPort() as hung:
        broker.answers["/metrics/"] = (200, TEXT, REAL_TEXT)
        urls = {"b:8080": broker.url, "h:8080": hung.url}
        metrics, problems = read(config_of(scrape=True, timeout_s=1.0), urls)
    assert metrics.tables["broker_metrics"]["broker"].to_pylist() == ["b:8080"]
    assert [each.place for each in problems.named()] == [f"{hung.url}/metrics/"]


def test_a_series_that_stands_twice_counts_once() -> None:
    line = b'pulsar_broker_rate_in{cluster="c"} 7\n'
    assert exposed(line * 2, 1.0).values["msg_rate_in"] == 7.0


def test_thousands_of_topics_are_left_out_and_counted() -> None:
    lines = "".join(
        f'pulsar_storage_write_latency_le_5{{topic="t{number}"}} 1\n'
        for number in range(MAX_LINES + 1)
    )
    one = exposed((lines + "pulsar_broker_rate_in 3\n").encode(), 1.0)
    assert one.values["msg_rate_in"] == 3.0
    assert "write_le_5" not in one.values
    assert one.skipped == MAX_LINES + 1


# -- what is asked, and the configuration ------------------------------------------------------


def test_labels_are_quoted_so_that_they_cannot_be_more_than_a_value() -> None:
    evil = 'x"} or vector(1) or a{b="\\\n'
    assert quoted(evil) == '"x\\"} or vector(1) or a{b=\\"\\\\\\n"'
    series = Series("m", (LabelMatcher("gc", "!~", ".*Cycles.*"),))
    assert selector(series, {"cluster": "p"}) == 'm{cluster="p",gc!~".*Cycles.*"}'


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "set either url"),
        ({"url": "http://p:9090", "scrape": True}, "set either url"),
        ({"url": "p:9090"}, "http://host:port"),
        ({"url": "http://u:secret@p:9090"}, "clusters.prometheus.auth"),
        ({"url": "http://p:9090/api/v1"}, "without /api/v1"),
        ({"url": "http://p", "broker_label": "a-b"}, "a label name"),
        ({"url": "http://p", "labels": {"a b": "c"}}, "a label name"),
        ({"scrape": True, "auth": {"token": "secret"}}, "scrape reads the brokers"),
        ({"url": "http://p", "nope": 1}, "no such setting"),
    ],
)
def test_settings_that_cannot_be_are_refused_without_a_secret(tmp_path, values, expected) -> None:
    file = tmp_path / "trimtab.toml"
    parts = ", ".join(f"{key} = {_toml(value)}" for key, value in values.items())
    file.write_text(f'[[clusters]]\nname = "a"\nzookeeper = "z:1"\nprometheus = {{ {parts} }}\n')
    with pytest.raises(ConfigError) as caught:
        TrimtabConfig.load(file, ())
    assert expected in caught.value.message
    assert "secret" not in str(caught.value)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f'"{key}" = {_toml(text)}' for key, text in value.items())
        return f"{{ {inner} }}"
    return json.dumps(value)


def test_a_prefix_of_a_proxy_stays_in_the_address() -> None:
    assert Prometheus(url="https://proxy/prom/").url == "https://proxy/prom"


def test_check_says_how_many_brokers_the_metrics_are_of_and_what_is_wrong() -> None:
    with RecordedServer() as server:
        config = ClusterConfig(
            name="c",
            admin_urls=[f"http://{BROKERS[0]}"],
            prometheus={"url": server.url, "timeout_s": 2},
            timeouts={"connect_s": 0.2, "read_s": 0.2, "answer_s": 0.4},
        )
        results = {each.what: each for each in check_cluster(config)}
    assert results[f"Prometheus {server.url}"].detail.startswith("1 of 1 brokers")
    assert "no broker of the cluster" in results[f"Metrics {server.url}"].detail
