"""What brokers of the extensible manager publish: from a recording of a real cluster to tables."""

from __future__ import annotations

import json
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pulsar.exceptions
import pytest
from places import FIXTURES

from connectors.config.model import ClusterConfig
from connectors.pulsar.leader.recording import TopicRecording
from connectors.pulsar.topics.capture import (
    HOTTEST_ONLY,
    read_load_topics,
    service_addresses,
    what_is_lacking,
)
from connectors.pulsar.topics.reader import LoadTopicReader, MissingExtraError, kind_of, translate
from core.errors import AuthError, RemoteError, UnreachableError
from core.pulsar.leader.events import MESSAGE, ZnodeEvent
from core.pulsar.placement import place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import active_shedding_strategy, strategy_rounds
from core.pulsar.snapshot.load_topics import (
    BROKER_LOAD_TOPIC,
    TOP_BUNDLES_TOPIC,
    UNIT_STATE_TOPIC,
    LoadTopics,
    with_load_topics,
)
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.pulsar.snapshot.znodes import Readings
from core.pulsar.snapshot.znodes.assemble import EXTENSIBLE_LACKS
from core.pulsar.snapshot.znodes.brokers import decode_registry
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.snapshot.problems import ProblemLog
from core.snapshot.store import load_snapshot, save_snapshot

RECORDED = FIXTURES / "pulsar" / "extensible"
BROKERS = ("127.0.0.1:18080", "127.0.0.1:18081", "127.0.0.1:18082")
CONFIG = ClusterConfig(name="real", admin_urls=["http://127.0.0.1:18080"])
ADDRESSES = dict.fromkeys(BROKERS, "pulsar://127.0.0.1:16650")


class Recorded:
    """Stands in for pulsar-client: its readers give a recording, in its order."""

    PulsarException = pulsar.PulsarException
    Timeout = pulsar.Timeout
    MessageId = SimpleNamespace(earliest="earliest", latest="latest")
    LoggerLevel = SimpleNamespace(Error=3)

    def __init__(self, messages: dict[str, list[tuple[str, bytes]]]) -> None:
        self.messages = messages
        self.opened: list[str] = []
        self.closed = 0
        self.error: Exception | None = None

    def FileLogger(self, *_: object) -> None:  # noqa: N802 - the package's own name
        return None

    def Client(self, address: str, **options: Any) -> Recorded:  # noqa: N802 - the package's own
        self.address, self.options = address, options
        return self

    def create_reader(self, topic: str, _start: str, **_: object) -> Any:
        if self.error is not None:
            raise self.error
        self.opened.append(topic)
        queue = deque(self.messages.get(topic, ()))
        self.messages[topic] = queue  # type: ignore[assignment]  # what is appended later arrives

        def read_next(**_: object) -> Any:
            if not queue:
                raise pulsar.Timeout("nothing")
            key, data = queue.popleft()
            return SimpleNamespace(
                partition_key=lambda: key, data=lambda: data, publish_timestamp=lambda: 1_000
            )

        return SimpleNamespace(read_next=read_next, has_message_available=lambda: bool(queue))

    def close(self) -> None:
        self.closed += 1


def recording() -> dict[str, list[tuple[str, bytes]]]:
    told = json.loads((RECORDED / "lb_topics.json").read_text())
    return {
        topic: [
            (row["key"], b"" if row["value"] is None else json.dumps(row["value"]).encode())
            for row in rows
        ]
        for topic, rows in told.items()
    }


def listened(package: Recorded, **options: Any) -> LoadTopics:
    reader = LoadTopicReader(CONFIG, lambda: package)
    return reader.listen(ADDRESSES, monotonic() + 0.2, **options)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> PulsarSnapshot:
    znodes = json.loads((RECORDED / "zk.json").read_text())
    dump = tmp_path_factory.mktemp("dump") / "zk.jsonl"
    dump.write_text(
        "".join(
            json.dumps({"path": path, "value": node["value"]}) + "\n"
            for path, node in znodes.items()
            if "value" in node
        )
    )

    return import_zk_dump(dump, "real", datetime(2026, 11, 21, 13, tzinfo=UTC))


@pytest.fixture(scope="module")
def whole(bare: PulsarSnapshot) -> PulsarSnapshot:
    problems = ProblemLog()
    tables = with_load_topics(bare.tables, listened(Recorded(recording())), problems)
    assert problems.named() == ()
    return PulsarSnapshot.build(bare.manifest, tables)


def test_a_withdrawn_record_is_gone_and_the_last_one_counts() -> None:
    topics = listened(Recorded(recording()))
    assert set(topics.broker_loads) <= set(BROKERS)
    load = json.loads(topics.broker_loads["127.0.0.1:18081"])
    assert load["bundleCount"] == 13
    assert all(topics.unit_states.values())


def test_a_recording_has_every_message_withdrawn_ones_too_and_goes_on() -> None:
    package = Recorded(recording())
    reader = LoadTopicReader(CONFIG, lambda: package)
    found = reader.take(ADDRESSES)
    assert [(one.topic, one.key, one.data) for one in found] == [
        (topic, key, data)
        for topic in (BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC, UNIT_STATE_TOPIC)
        for key, data in recording()[topic]
    ]
    assert any(not one.data for one in found)
    assert reader.take(ADDRESSES) == []
    package.messages[BROKER_LOAD_TOPIC].append((BROKERS[0], b"{}"))
    assert [one.published_ms for one in reader.take(ADDRESSES)] == [1_000]


def test_messages_are_recorded_as_events_of_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[ZnodeEvent] = []
    topics = TopicRecording(CONFIG, written.extend)
    monkeypatch.setattr(topics, "_reader", LoadTopicReader(CONFIG, lambda: Recorded(recording())))
    znodes = json.loads((RECORDED / "zk.json").read_text())
    found = {name: znodes[f"/loadbalance/brokers/{name}"]["value"] for name in BROKERS}
    topics.start({name: json.dumps(value).encode() for name, value in found.items()})
    topics.close()
    assert {one.kind for one in written} == {MESSAGE}
    assert {one.path for one in written} == {BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC, UNIT_STATE_TOPIC}
    withdrawn = [one for one in written if one.value is None]
    assert withdrawn
    assert all(json.loads(one.value) for one in written if one.value is not None)


def test_a_modular_cluster_has_no_messages_to_record() -> None:
    written: list[ZnodeEvent] = []
    topics = TopicRecording(CONFIG, written.extend)
    modular = {"pulsarServiceUrl": "pulsar://a:1", "loadReportType": "LocalBrokerData"}
    topics.start({"a:1": json.dumps(modular).encode()})
    topics.close()
    assert written == []


def test_the_brokers_get_usage_traffic_and_counts(whole: PulsarSnapshot) -> None:
    row = next(row for row in whole.brokers.to_pylist() if row["broker"] == "127.0.0.1:18081")
    assert row["cpu_limit"] == 200.0
    assert row["topic_count"] == 22
    assert row["msg_rate_in"] == pytest.approx(1373.0277809131508)
    assert row["cpu_ratio"] == pytest.approx(row["cpu_usage"] / 200.0)
    loads = {row["broker"]: row for row in whole.broker_loads.to_pylist()}
    assert loads["127.0.0.1:18081"]["weighted_max_ema"] == pytest.approx(0.7857142497119235)


def test_top_bundles_keep_their_order_and_fill_the_bundles(whole: PulsarSnapshot) -> None:
    hot = [row for row in whole.top_bundles.to_pylist() if row["broker"] == "127.0.0.1:18081"]
    assert [row["position"] for row in hot] == list(range(len(hot)))
    flow = {
        row["bundle"]: row["msg_throughput_in"]
        for row in whole.bundles.to_pylist()
        if row["msg_throughput_in"] is not None
    }
    assert all(row["bundle"] in flow for row in hot)


def test_ownership_comes_from_the_channel_where_no_broker_was_asked(
    whole: PulsarSnapshot,
) -> None:
    owned = {row["bundle"]: row for row in whole.bundles.to_pylist() if row["owner"]}
    assert owned
    assert {row["owner_source"] for row in owned.values()} == {"channel"}
    states = {row["bundle"]: row for row in whole.unit_states.to_pylist()}
    for name, row in owned.items():
        assert states[name]["broker"] == row["owner"]


def test_the_transfer_shedder_and_placement_work_on_it(whole: PulsarSnapshot) -> None:
    settings = effective_settings(whole)
    view = LoadView.of(whole, settings)
    strategy = active_shedding_strategy(whole.manifest.load_manager, settings)
    done = next(strategy_rounds(strategy, view, settings))
    assert done.decision.reason in {"balanced", "hit_count", "no_load_data"}
    name = next(str(name) for name in view.bundles if str(name).startswith("acme/"))
    placed = place_bundle(view, name, settings)
    assert placed.is_known
    assert placed.distribution


def test_a_snapshot_with_these_tables_is_kept_and_read_again(
    whole: PulsarSnapshot, bare: PulsarSnapshot, tmp_path: Path
) -> None:
    save_snapshot(whole, tmp_path / "whole")
    again = load_snapshot(tmp_path / "whole")
    assert again.top_bundles.equals(whole.top_bundles)
    save_snapshot(bare, tmp_path / "bare")
    assert not (tmp_path / "bare" / "top_bundles.parquet").exists()
    assert load_snapshot(tmp_path / "bare").snapshot_id == bare.snapshot_id


def test_what_comes_later_is_taken_without_waiting() -> None:
    package = Recorded({})
    reader = LoadTopicReader(CONFIG, lambda: package)
    assert reader.listen(ADDRESSES, monotonic() + 0.1).broker_loads == {}
    package.messages[BROKER_LOAD_TOPIC].append(("a:1", b'{"weightedMaxEMA": 0.5}'))
    began = monotonic()
    topics = reader.listen(ADDRESSES, monotonic() + 60)
    assert topics.broker_loads == {"a:1": b'{"weightedMaxEMA": 0.5}'}
    assert monotonic() - began < 5
    assert package.opened == [BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC, UNIT_STATE_TOPIC]
    reader.close()
    reader.close()
    assert package.closed == 1


def test_of_two_records_of_one_version_the_first_one_holds() -> None:
    reader = LoadTopicReader(CONFIG, lambda: Recorded({}))
    first, second, forced, older = (
        json.dumps({"state": "Assigning", "dstBroker": to, "versionId": number, "force": force})
        for to, number, force in (("a", 9, False), ("b", 9, False), ("c", 1, True), ("d", 1, False))
    )
    for raw in (first, second):
        reader.keep_state("t/n/0x0_0x1", raw.encode())
    held = reader._held.unit_states
    assert json.loads(held["t/n/0x0_0x1"])["dstBroker"] == "a"
    reader.keep_state("t/n/0x0_0x1", forced.encode())
    assert json.loads(held["t/n/0x0_0x1"])["dstBroker"] == "c"
    reader.keep_state("t/n/0x0_0x1", b"")
    assert held == {}
    reader.keep_state("t/n/0x0_0x1", older.encode())
    assert json.loads(held["t/n/0x0_0x1"])["dstBroker"] == "d"


def test_ownership_in_the_metadata_store_leaves_the_topic_alone() -> None:
    package = Recorded({})
    problems = ProblemLog()
    view = "loadManagerServiceUnitStateTableViewClassName"
    read_load_topics(
        LoadTopicReader(CONFIG, lambda: package),
        ADDRESSES,
        {view: "x.ServiceUnitStateMetadataStoreTableViewImpl"},
        monotonic() + 0.1,
        problems,
    )
    assert UNIT_STATE_TOPIC not in package.opened


def test_brokers_that_are_silent_are_named() -> None:
    problems = ProblemLog()
    reader = LoadTopicReader(CONFIG, lambda: Recorded({}))
    topics = read_load_topics(reader, ADDRESSES, {}, monotonic() + 0.1, problems)
    (problem,) = problems.named()
    assert problem.what.startswith("3 brokers of 3 have published no load")
    lacks = (EXTENSIBLE_LACKS, "something else")
    assert what_is_lacking(lacks, ADDRESSES, topics) == lacks
    topics.broker_loads.update(dict.fromkeys(BROKERS, b"{}"))
    assert what_is_lacking(lacks, ADDRESSES, topics) == (HOTTEST_ONLY, "something else")


def test_the_missing_extra_is_one_sentence_with_the_remedy() -> None:
    def absent() -> Any:
        raise MissingExtraError("It needs the package.", hint="Install 'trimtab[extensible]'.")

    problems = ProblemLog()
    topics = read_load_topics(
        LoadTopicReader(CONFIG, absent), ADDRESSES, {}, monotonic() + 1, problems
    )
    (problem,) = problems.named()
    assert (topics.is_read, problem.code, problem.severity) == (False, "unsupported", "error")
    assert "trimtab[extensible]" in problem.done


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (pulsar.AuthorizationError("no"), AuthError),
        (pulsar.ConnectError("no"), UnreachableError),
    ],
)
def test_the_package_s_errors_are_ours_and_the_next_capture_begins_anew(
    error: Exception, ours: type[RemoteError]
) -> None:
    package = Recorded(recording())
    package.error = error
    reader = LoadTopicReader(CONFIG, lambda: package)
    with pytest.raises(ours, match="pulsar://"):
        reader.listen(ADDRESSES, monotonic() + 1)
    package.error = None
    assert reader.listen(ADDRESSES, monotonic() + 0.2).broker_loads
    assert package.closed == 1


def test_every_class_of_the_package_has_its_place() -> None:
    classes = [
        kind
        for kind in vars(pulsar.exceptions).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ]
    assert len(classes) > 30
    assert [kind.__name__ for kind in classes if kind_of(kind()) is None] == []
    assert translate(ValueError("x"), endpoint="e", operation="o").code == "protocol"


@pytest.mark.parametrize(
    ("admin", "expected"),
    [("http://a:8080", "pulsar://a:6650"), ("https://a:8443", "pulsar+ssl://a:6651")],
)
def test_no_credential_goes_over_a_plain_connection_where_the_admin_is_https(
    admin: str, expected: str
) -> None:
    record = {
        "webServiceUrl": "http://a:8080",
        "pulsarServiceUrl": "pulsar://a:6650",
        "pulsarServiceUrlTls": "pulsar+ssl://a:6651",
        "brokerVersion": "4.2.4",
        "loadManagerClassName": "x.ExtensibleLoadManagerImpl",
    }
    readings = Readings(brokers={"a:8080": json.dumps(record).encode()})
    registry = decode_registry(readings, ProblemLog())
    config = ClusterConfig(name="c", admin_urls=[admin])
    assert service_addresses(config, registry) == {"a:8080": expected}


def test_records_that_are_no_json_are_problems_and_the_rest_stands(bare: PulsarSnapshot) -> None:
    problems = ProblemLog()
    topics = LoadTopics(
        broker_loads={BROKERS[0]: b"{", BROKERS[1]: b'{"weightedMaxEMA": 0.5, "topics": "x"}'},
        top_bundles={BROKERS[0]: b'{"topBundlesLoadData": [{"bundleName": null}]}'},
        unit_states={"a/b/0x0_0x1": b"[]"},
        is_read=True,
    )
    tables = with_load_topics(bare.tables, topics, problems)
    assert {problem.code for problem in problems.named()} == {"malformed"}
    assert tables["broker_loads"].num_rows == 1
    assert tables["top_bundles"].num_rows == tables["unit_states"].num_rows == 0
