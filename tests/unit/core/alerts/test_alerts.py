"""Alerts: what fires when, what is told once, silences; and a real webhook that is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import sqlalchemy as sa
from fleet_builder import make_snapshot
from journal_entries import NOON, begun, claimed, ended, record_of, requested

from connectors.alerts import watch
from connectors.alerts.store import AlertStore
from connectors.alerts.targets import send
from connectors.alerts.watch import _Watch
from connectors.config.alerts import Alerts, TargetConfig
from connectors.config.model import TrimtabConfig
from connectors.journal.engine import Database
from connectors.journal.journal import SqlJournal
from connectors.recording.finding_spans import read_spans
from core.access import Identity
from core.actions.events import FIRST_LINK, Entry, RunEnded, RunMeasured
from core.actions.runs import fold
from core.alerts import thresholds
from core.alerts.model import Alert, AlertKey, Facts, Limits, Silence
from core.alerts.progress import looked, message, to_tell
from core.alerts.rules import RULE_BY_CODE, RULES
from core.errors import ForbiddenError, InputError, UnknownNameError, UnreachableError
from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.gauges import Gauge
from core.ids import SnapshotId
from core.pulsar.system import PULSAR
from core.snapshot import PulsarSnapshot
from core.snapshot.store import SnapshotStore
from dashboard.services import alerts

LIMITS = Limits()
FOUR_HOURS = timedelta(hours=4)


def uneven(ratio: float) -> Gauge:
    return Gauge("max_deviation_ratio", "x", (("measure", "throughput"),), ratio)


def facts(minute: float = 0.0, **changes: object) -> Facts:
    now = NOON + timedelta(minutes=minute)
    fields = {"cluster": "prod", "now": now, "taken_at": now}
    return Facts(**(fields | changes))  # type: ignore[arg-type]  # fields of facts


def view_of(*events: object):
    records = (record_of(event) for event in (requested(), *events))  # type: ignore[arg-type]
    return fold(
        Entry(seq=number, record=record, previous=FIRST_LINK, digest=FIRST_LINK)
        for number, record in enumerate(records, 1)
    )


FAILED = view_of(
    claimed(),
    ended(0, "SKIPPED"),
    ended(1, "SKIPPED"),
    RunEnded(state="FAILED", sentence="It broke."),
)
UNASSIGNED = view_of(
    claimed(),
    begun(0, "b1:8080"),
    ended(0, "UNKNOWN", "unassigned"),
    ended(1, "SKIPPED"),
    RunEnded(state="FAILED", sentence="Unassigned: 1."),
)
SERVED_SINCE = replace(
    UNASSIGNED,
    measured=RunMeasured(
        snapshot_id=SnapshotId("0" * 64),
        taken_at=NOON + timedelta(hours=1),
        usage_deviation=None,
        throughput_deviation=0.0,
        unassigned=(),
    ),
)
LIVELY = Gauge("meta_function_level", "x", (("level", "lively"),), 1.0)
UNWRITABLE = Finding(
    code="partitions_unwritable",
    severity="error",
    title="Partitions are unwritable",
    sentence="t1: 2 of 8 partitions are unwritable.",
)
HOLDS = {
    "uneven": {"gauges": [uneven(0.21)]},
    "unhealthy": {"gauges": [Gauge("unhealthy_partitions", "x", (), 2.0)]},
    "lively": {"gauges": [LIVELY]},
    "stale": {"taken_at": NOON - timedelta(minutes=6)},
    "unread": {"taken_at": None},
    "flapping": {"returned": 6},
    "run_failed": {"runs": [FAILED], "now": FAILED.ended_at},
    "run_unassigned": {"runs": [UNASSIGNED], "now": UNASSIGNED.ended_at},
    "run_waiting": {"runs": [view_of()]},
    "approval_pending": {"runs": [view_of()], "waiting": [view_of()]},
    "problem": {
        "findings": [
            Finding(
                code="orphaned_bundles",
                severity="error",
                title="Bundles are orphaned",
                sentence="2 bundles have no owner.",
            )
        ]
        * 2
    },
    "settings_drift": {
        "findings": [
            Finding(
                code="settings_differ",
                severity="warning",
                title="Settings differ",
                sentence="Two brokers differ.",
            )
        ]
    },
    "pipeline_lag": {"pipeline_lag_s": 180 * 60 + 1.0},
}
HOLDS_NOT = {
    "uneven": {"gauges": [uneven(0.2)]},
    "unhealthy": {"gauges": [Gauge("unhealthy_partitions", "x", (), 0.0)]},
    "lively": {"gauges": [LIVELY._replace(value=0.0)]},
    "stale": {"taken_at": NOON - timedelta(minutes=5)},
    "unread": {},
    "flapping": {"returned": 5},
    "run_failed": {"runs": [FAILED], "now": FAILED.ended_at + timedelta(hours=25)},
    "run_unassigned": {"runs": [FAILED, SERVED_SINCE], "now": UNASSIGNED.ended_at},
    "run_waiting": {"runs": [FAILED]},
    "approval_pending": {"runs": [view_of()]},
    "problem": {"findings": [replace(UNWRITABLE, severity="warning")]},
    "settings_drift": {},
    "pipeline_lag": {"pipeline_lag_s": 180 * 60.0},
}


@pytest.mark.parametrize("code", RULE_BY_CODE)
def test_a_rule_holds_beyond_its_limit_only(code) -> None:
    rule = RULE_BY_CODE[code]
    found = list(rule.holds(facts(**HOLDS[code]), LIMITS))
    assert len(found) == 1
    assert found[0].sentence.endswith((".", "hot"))
    assert found[0].hint or code == "settings_drift"
    assert not list(rule.holds(facts(**HOLDS_NOT[code]), LIMITS))
    assert set(HOLDS) == {one.code for one in RULES}


def test_a_condition_is_told_after_its_minutes_once_and_again_after_hours() -> None:
    known: dict[AlertKey, Alert] = {}
    states = []
    for minute in (0, 29, 30):
        known = looked(known, [facts(minute, gauges=[uneven(1.0)])], LIMITS)
        states.append(next(iter(known.values())).state)
    assert states == ["pending", "pending", "firing"]
    now = NOON + timedelta(minutes=30)
    due = to_tell(known.values(), (), now, FOUR_HOURS)["prod"]
    assert len(due) == 1
    told = {one.key: replace(one, told_at=now) for one in due}
    assert to_tell(told.values(), (), now + timedelta(hours=3), FOUR_HOURS) == {}
    assert to_tell(told.values(), (), now + timedelta(hours=4), FOUR_HOURS)
    over = looked(told, [facts(31)], LIMITS)
    assert [one.state for one in to_tell(over.values(), (), now, FOUR_HOURS)["prod"]] == [
        "resolved"
    ]


def test_what_ends_while_it_is_pending_is_told_to_nobody() -> None:
    known = looked({}, [facts(0, gauges=[uneven(1.0)])], LIMITS)
    assert looked(known, [facts(10)], LIMITS) == {}


def test_what_is_silenced_is_not_told_and_neither_is_its_end() -> None:
    key = AlertKey("uneven", "prod", "traffic")
    known = looked({}, [facts(0, gauges=[uneven(1.0)])], Limits(deviation_min=0))
    silence = Silence(
        number=1, rule="uneven", cluster="p*", until=NOON + timedelta(hours=1), by="a", reason="x"
    )
    assert to_tell(known.values(), [silence], NOON, FOUR_HOURS) == {}
    later = NOON + timedelta(hours=1)
    assert to_tell(known.values(), [silence], later, FOUR_HOURS)
    over = looked(known, [facts(5)], LIMITS)
    assert over[key].state == "resolved"
    assert to_tell(over.values(), [], later, FOUR_HOURS) == {}


def test_one_message_has_all_of_a_cluster() -> None:
    known = looked(
        {},
        [facts(0, gauges=[uneven(1.0), LIVELY], returned=9)],
        Limits(deviation_min=0, lively_min=0),
    )
    grouped = to_tell(known.values(), (), NOON, FOUR_HOURS)
    assert len(grouped["prod"]) == 3
    title, text = message("prod", grouped["prod"])
    assert title == "[warning] prod: 3 firing"
    assert text.count("FIRING") == 3


# -- who is told -----------------------------------------------------------------------------------


class Receiver:
    """A webhook on loopback; ``is_down``: it answers 500."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []
        self.is_down = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if not outer.is_down:
                    outer.messages.append(json.loads(body))
                self.send_response(500 if outer.is_down else 200)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://127.0.0.1:{self.server.server_port}/hook-s3cr3t"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()


def config_of(folder: Path, url: str, **changes: object) -> TrimtabConfig:
    rules = {"deviation_min": 0, "targets": [{"name": "hook", "url": url}], **changes}
    return TrimtabConfig.model_validate(
        {
            "clusters": [{"name": "prod", "zookeeper": "z:1"}],
            "state_dir": folder,
            "alerts": rules,
        }
    )


def put(folder: Path, *, is_even: bool) -> None:
    brokers, bundles = (1, 4) if is_even else (5, 40)
    moment = datetime.now(UTC)
    lacks = ("policies",)  # they are violated, which is an error of its own
    found = make_snapshot(
        brokers=brokers, bundles=bundles, cluster="prod", now=moment, missing=lacks
    )
    SnapshotStore(folder / "snapshots").put(found)


class Past:
    """A history without moves back; its minutes by their time."""

    def __init__(self, minutes: dict[datetime, PulsarSnapshot] | None = None) -> None:
        self.minutes = minutes or {}

    def returned_since(self, cluster: str, since: datetime) -> int:
        return 0

    def first_minute(self, cluster: str) -> datetime | None:
        return min(self.minutes, default=None)

    def snapshot_at(self, cluster: str, moment: datetime) -> PulsarSnapshot:
        return self.minutes[max(at for at in self.minutes if at <= moment)]


def looks(config: TrimtabConfig) -> list[str]:
    """Be a new process that looks once; return what it reports."""
    said: list[str] = []
    _Watch(config, Past(), said.append)._turn()
    return said


def test_an_alert_fires_is_told_once_over_restarts_silenced_and_resolved(
    tmp_path, receiver
) -> None:
    config = config_of(tmp_path, receiver.url)
    put(tmp_path, is_even=False)
    assert "hook received: [warning] prod: 1 firing" in looks(config)
    assert len(receiver.messages) == 1
    assert "vs. mean; target ±" in receiver.messages[0]["message"]
    looks(config)
    assert len(receiver.messages) == 1, "another process tells nothing twice"
    number = alerts.silence(
        config, "uneven", "prod", "*", timedelta(hours=1), Identity(name="ann"), "load test"
    )
    assert alerts.counts(config)["silenced"] == 1
    put(tmp_path, is_even=True)
    looks(config)
    assert len(receiver.messages) == 1, "its end is silenced, too"
    alerts.end_silence(config, number, Identity(name="ann"))
    looks(config)
    assert receiver.messages[1]["title"] == "[resolved] prod: 1 resolved"
    looks(config)
    assert len(receiver.messages) == 2
    assert alerts.counts(config) == {"pending": 0, "firing": 0, "silenced": 0, "resolved": 1}
    now = datetime.now(UTC)
    found = alerts.changes(config, "prod", now - timedelta(hours=1), now)
    assert [one.state for one in found] == ["resolved", "firing"]
    assert {one.key.rule for one in found} == {"uneven"}
    assert alerts.changes(config, "other", now - timedelta(hours=1), now) == []
    assert alerts.changes(config, "prod", now - timedelta(2), now - timedelta(1)) == []


def test_a_cluster_that_was_never_read_fires_with_the_last_error_until_its_first_snapshot(
    tmp_path, receiver
) -> None:
    config = config_of(tmp_path, receiver.url)
    status = tmp_path / "collectors" / "prod.json"
    status.parent.mkdir()
    status.write_text(json.dumps({"last_error": {"message": "No ZooKeeper at z:1."}}))
    assert looks(config) == []
    assert alerts.unread(config) == ["prod"]
    store = alerts.store(config)
    [pending] = store.alerts().values()
    assert pending.state == "pending", "it waits as long as for a stale snapshot"
    five_min_ago = replace(pending, since=datetime.now(UTC) - timedelta(minutes=5))
    store.save({}, {pending.key: five_min_ago}, datetime.now(UTC))
    looks(config)
    [message] = receiver.messages
    assert message["title"] == "[critical] prod: 1 firing"
    assert "prod has no snapshot. Last error of the collector: No ZooKeeper" in message["message"]
    put(tmp_path, is_even=True)
    looks(config)
    assert [one["title"] for one in receiver.messages[1:]] == ["[resolved] prod: 1 resolved"]
    assert alerts.unread(config) == []


def test_a_database_of_an_earlier_release_gets_the_columns_of_values(tmp_path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'journal.db'}")
    AlertStore(database)
    with database.writing() as connection:
        for column in ("measured", "bound"):
            connection.execute(sa.text(f"ALTER TABLE trimtab_alerts DROP COLUMN {column}"))
        connection.execute(
            sa.text(
                "INSERT INTO trimtab_alerts VALUES "
                "('stale', 'prod', '', 'firing', 'critical', 'Old.', '', 0, NULL, NULL)"
            )
        )
    store = AlertStore(database)
    before = store.alerts()
    assert [(one.sentence, one.measured, one.limit) for one in before.values()] == [
        ("Old.", "", "")
    ]
    after = looked(before, [facts(taken_at=NOON - timedelta(minutes=6))], LIMITS)
    store.save(before, after, NOON)
    assert [(one.measured, one.limit) for one in store.alerts().values()] == [("6 min", "5 min")]


def test_what_no_target_wants_is_not_said_to_be_sent_and_reaches_one_that_is_added(
    tmp_path, receiver
) -> None:
    config = config_of(tmp_path, receiver.url, targets=[])
    put(tmp_path, is_even=False)
    assert looks(config) == []
    found, _ = alerts.current(config)
    assert "firing" in {one.state for one in found}
    assert {one.sent_at for one in found} == {None}
    looks(config_of(tmp_path, receiver.url))
    found, _ = alerts.current(config)
    assert [one.sent_at is None for one in found if one.state == "firing"] == [False]
    assert len(receiver.messages) == 1


def test_the_end_of_what_nobody_was_told_is_not_said_to_be_sent(tmp_path, receiver) -> None:
    config = config_of(tmp_path, receiver.url, targets=[])
    put(tmp_path, is_even=False)
    looks(config)
    put(tmp_path, is_even=True)
    looks(config)
    looks(config_of(tmp_path, receiver.url))
    found, _ = alerts.current(config)
    assert [(one.state, one.sent_at) for one in found] == [("resolved", None)]
    assert receiver.messages == []


def test_a_target_that_is_down_is_tried_again_later_and_costs_the_others_nothing(
    tmp_path, receiver, monkeypatch
) -> None:
    other = Receiver()
    targets = [{"name": "hook", "url": receiver.url}, {"name": "other", "url": other.url}]
    config = config_of(tmp_path, receiver.url, targets=targets)
    put(tmp_path, is_even=False)
    receiver.is_down = True
    said: list[str] = []
    one = _Watch(config, Past(), said.append)
    one._turn()
    assert any("hook did not accept the message" in text for text in said)
    receiver.is_down = False
    one._turn()
    assert receiver.messages == [], "not so soon"
    monkeypatch.setattr(watch, "monotonic", lambda: 1e12)
    one._turn()
    one._turn()
    assert (len(receiver.messages), len(other.messages)) == (1, 1)
    other.server.shutdown()
    other.server.server_close()


def test_runs_are_read_again_when_the_journal_has_more(tmp_path, receiver, monkeypatch) -> None:
    config = config_of(tmp_path, receiver.url)
    put(tmp_path, is_even=True)
    read: list[str] = []
    monkeypatch.setattr(
        SqlJournal, "run_ids", lambda _, *, cluster, limit: read.append(cluster) or []
    )
    ends = iter([(1, "a"), (1, "a"), (2, "b")])
    monkeypatch.setattr(SqlJournal, "newest", lambda _: next(ends))
    one = _Watch(config, Past(), [].append)
    for count in (1, 1, 2):
        one._turn()
        assert read == ["prod"] * count


def test_the_address_of_a_target_is_in_no_message(tmp_path, receiver, caplog) -> None:
    receiver.is_down = True
    target = TargetConfig.model_validate({"name": "hook", "url": receiver.url})
    with pytest.raises(UnreachableError) as error:
        send(target, "t", "x")
    wrong = TargetConfig.model_validate({"name": "hook", "url": "nowhere-s3cr3t"})
    with pytest.raises(InputError) as other:
        send(wrong, "t", "x")
    assert "s3cr3t" not in f"{error.value}{other.value}{caplog.text}{target!r}{wrong!r}"


def test_a_severity_and_a_pattern_choose_who_is_told() -> None:
    target = TargetConfig.model_validate(
        {"name": "pager", "url": "json://h", "clusters": ["prod-*"], "severity": "warning"}
    )
    assert target.wants("prod-1", "critical")
    assert not target.wants("prod-1", "info")
    assert not target.wants("test-1", "critical")
    with pytest.raises(ValueError, match="two targets"):
        Alerts.model_validate({"targets": [{"name": "a", "url": "x"}, {"name": "a", "url": "y"}]})
    with pytest.raises(ValueError, match="either url or url_file"):
        TargetConfig.model_validate({"name": "a"})


def test_silences_need_a_reason_and_a_role(tmp_path) -> None:
    config = config_of(tmp_path, "json://127.0.0.1:1")
    with pytest.raises(InputError, match="reason"):
        alerts.silence(config, "*", "*", "*", FOUR_HOURS, Identity(name="ann"), " ")
    with pytest.raises(UnknownNameError):
        alerts.end_silence(config, 7, Identity(name="ann"))
    stranger = Identity(name="eve", source="users")
    with pytest.raises(ForbiddenError):
        alerts.silence(config, "*", "*", "*", FOUR_HOURS, stranger, "x")
    with pytest.raises(ForbiddenError):
        alerts.send_test(config, "hook", stranger)


def test_silences_of_clusters_that_are_not_shown_are_not_listed(tmp_path) -> None:
    file = tmp_path / "trimtab.toml"
    names = ("prod-1", "test-1")
    clusters = "".join(f'[[clusters]]\nname = "{name}"\nzookeeper = "z:1"\n' for name in names)
    grant = '[[access.grants]]\nrole = "operator"\npeople = ["ann"]\n'
    file.write_text(f'state_dir = "state"\n{clusters}[access]\nsign_in = "users"\n{grant}')
    config = TrimtabConfig.load(file, ())
    ann = Identity(name="ann", source="users")
    for pattern in ("prod-1", "test-*", "*", "later-*"):
        alerts.silence(config, "*", pattern, "*", FOUR_HOURS, ann, "why")
    seen = config.model_copy(update={"clusters": [config.cluster("prod-1")]})
    every = {"prod-1", "test-*", "*", "later-*"}  # the last fits none yet, and can be ended
    assert {one.cluster for one in alerts.current(config)[1]} == every
    assert {one.cluster for one in alerts.current(seen)[1]} == every - {"test-*"}


def test_what_is_older_than_the_history_is_dropped(tmp_path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'journal.db'}")
    store = AlertStore(database)
    pending = looked({}, [facts(0, gauges=[uneven(1.0)])], LIMITS)
    firing = {key: replace(one, state="firing") for key, one in pending.items()}
    ended = {key: replace(one, state="resolved") for key, one in pending.items()}
    store.save({}, firing, NOON)
    assert len(store.changes("prod", NOON, NOON)) == len(firing)
    later = NOON + timedelta(days=31)
    store.save(firing, ended, later, timedelta(days=30))
    assert {one.state for one in store.changes("prod", NOON, later)} == {"resolved"}
    store.save(ended, pending, later)  # what only waits is no change
    assert len(store.changes("prod", NOON, later)) == len(ended)
    database.close()


def test_alerts_come_back_from_the_database_as_they_were(tmp_path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'journal.db'}")
    store = AlertStore(database)
    made = looked({}, [facts(0, gauges=[uneven(1.0)], returned=9)], LIMITS)
    store.save({}, made, NOON)
    assert store.alerts() == made
    key = next(iter(made))
    rest = {name: one for name, one in made.items() if name != key}
    store.save(made, rest, NOON)
    assert store.alerts() == rest
    database.close()


# -- thresholds ------------------------------------------------------------------------------------


def test_every_error_is_in_an_alert_at_once_by_name_or_in_the_count() -> None:
    found = [
        Finding(
            code="broker_dead",
            severity="error",
            subject_kind="broker",
            subject=f"b-{at}",
            title="Broker is dead",
            sentence=f"b-{at} is dead.",
        )
        for at in range(9)
    ]
    known = looked({}, [facts(findings=[*found, UNWRITABLE])], LIMITS)
    assert {one.state for one in known.values()} == {"firing"}
    said = {key.subject: one.sentence for key, one in known.items()}
    assert set(said) == {"broker_dead", "partitions_unwritable"}
    assert said["broker_dead"] == "b-0, b-1, b-2 and 6 others: broker dead. b-0 is dead."
    assert said["partitions_unwritable"] == UNWRITABLE.sentence
    rest = Finding(
        code="broker_dead", severity="error", title="", sentence="7 more.", evidence={"more": 7}
    )
    for errors, names in ((found[:2], "b-0 and b-1"), ([found[0], rest], "b-0 and 7 others")):
        [one] = looked({}, [facts(findings=errors)], LIMITS).values()
        assert one.sentence == f"{names}: broker dead. b-0 is dead."


def test_the_alert_of_uneven_load_goes_by_the_target_of_the_cluster_unless_it_has_its_own() -> None:
    rule = RULE_BY_CODE["uneven"]
    strict = facts(gauges=[uneven(0.15)], target_ratio=0.1)
    (found,) = rule.holds(strict, LIMITS)
    assert found.sentence == "Max deviation: traffic +15% vs. mean; target ±10%."
    off = replace(UNWRITABLE, code="traffic_deviation", subject="b-1", measured=Quantity(0.15))
    (found,) = rule.holds(replace(strict, findings=[off]), LIMITS)
    assert found.sentence.startswith("b-1: traffic +15%")
    assert not list(rule.holds(strict, Limits(deviation_ratio=0.5)))


def test_a_changed_threshold_is_recorded_in_effect_and_can_be_reset(tmp_path: Path) -> None:
    config = config_of(tmp_path, "json://127.0.0.1:1/x")
    admin = Identity(name="ann")
    assert alerts.limits(config) == config.alerts.limits()
    values = thresholds.requested("uneven", 30.0, 15.0)
    assert alerts.preview_thresholds(config, values).deviation_ratio == 0.3
    assert alerts.limits(config).deviation_ratio is None
    alerts.change_thresholds(config, values, admin, "too many messages")
    assert (alerts.limits(config).deviation_ratio, alerts.limits(config).deviation_min) == (0.3, 15)
    recorded = [
        (one.field, one.value, one.by, one.reason) for one in alerts.threshold_changes(config)
    ]
    assert ("deviation_ratio", 0.3, "ann", "too many messages") in recorded
    alerts.change_thresholds(config, dict.fromkeys(thresholds.fields_of("uneven")), admin, "back")
    assert alerts.limits(config) == config.alerts.limits()
    assert len(alerts.threshold_changes(config)) == 4
    with pytest.raises(InputError):
        alerts.change_thresholds(config, values, admin, " ")
    stranger = Identity(name="eve", source="users")
    with pytest.raises(ForbiddenError):
        alerts.change_thresholds(config, values, stranger, "x")


@pytest.mark.parametrize(
    ("rule", "threshold", "minutes"),
    [("uneven", 0.0, None), ("lively", 3.0, None), ("stale", None, 3.0), ("problem", None, None)],
)
def test_a_threshold_that_cannot_be_is_refused(rule, threshold, minutes) -> None:
    with pytest.raises(InputError):
        thresholds.requested(rule, threshold, minutes)


def test_a_rule_without_thresholds_is_unknown() -> None:
    with pytest.raises(UnknownNameError):
        thresholds.requested("run_failed", 1.0, None)


def test_an_alert_about_a_finding_holds_as_long_as_the_finding(tmp_path, receiver) -> None:
    config = config_of(tmp_path, receiver.url)
    put(tmp_path, is_even=False)
    (stored,) = SnapshotStore(tmp_path / "snapshots").entries("prod")
    snapshot = PULSAR.record.load(stored.path)
    hour_ago = stored.taken_at - timedelta(hours=2)
    at = replace(snapshot.manifest, taken_at=hour_ago)
    _Watch(config, Past({hour_ago: replace(snapshot, manifest=at)}), [].append)._turn()
    found = AlertStore(SqlJournal(config.journal_address).database).alerts()
    assert found[AlertKey("uneven", "prod", "traffic")].since == hour_ago
    spans = read_spans(config, "prod")
    assert spans is not None
    assert hour_ago in spans.starts(stored.taken_at).values()
