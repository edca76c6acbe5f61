"""The simulated past of the sandboxes: it goes over into the live values, and is real history."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from history_worlds import pulsar_minutes
from pegasus_snapshots import generated

from connectors.config.access import AccessConfig
from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.journal.journal import SqlJournal
from connectors.recording.loop import open_history, recorded_entries
from connectors.sandbox.past import writer
from connectors.sandbox.past.columns import NOTE, STEP_MS
from connectors.sandbox.past.pegasus import PegasusPast
from connectors.sandbox.past.pulsar import PastRun, PulsarPast
from connectors.sandbox.past.runs import ACTOR, PastRuns
from connectors.sandbox.past.writer import parts_of, write_past
from connectors.sandbox.pegasus.options import PegasusOptions
from connectors.sandbox.pulsar.bootstrap import share_out
from connectors.sandbox.pulsar.layout import plan_layout
from connectors.sandbox.pulsar.leader import SandboxLeader
from connectors.sandbox.pulsar.options import SandboxOptions
from connectors.sandbox.pulsar.policies import plan_policies
from connectors.sandbox.pulsar.state import Broker, FleetState
from connectors.sandbox.pulsar.web import distinct_host
from connectors.sandbox.pulsar.workload import Workload, host_usage
from core.actions.runs import fold
from core.errors import OpsError
from core.history.store.batch import BatchRecorder
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder, RecordResult
from core.pulsar.plan.build import build_unload_plan
from core.snapshot import Manifest, PulsarSnapshot
from core.units import ms_to_datetime
from dashboard import services
from dashboard.services import history as services_history
from dashboard.services.demo import PAST_ACTOR
from dashboard.services.sandbox import SandboxRequest
from dashboard.simulated_past import write

END_MS = 1_795_646_400_000
HOUR_MS = 3_600_000
OPTIONS = SandboxOptions(brokers=12, bundles=200, seed=7, day_s=3600.0)


def first_snapshot() -> PulsarSnapshot:
    """What a collector reads of a sandbox that has just begun."""
    state = FleetState(
        plan_layout(OPTIONS),
        [Broker(row, distinct_host(row), 8080, 6650, is_up=True) for row in range(OPTIONS.brokers)],
    )
    policies = plan_policies(OPTIONS, state, "127.0.0.1:1")
    workload = Workload(state.layout, seed=OPTIONS.seed, day_s=OPTIONS.day_s)
    mean = workload.rates_at(None)
    share_out(state, np.bincount(state.topic_bundle, 2 * mean[:, 1] + mean[:, 3]), policies)
    workload.calibrate(state.owner[state.topic_bundle], OPTIONS.brokers)
    rates = workload.rates_at(0.0)
    state.refresh(rates, rates[:, 1].astype(np.int64))
    idle = np.zeros(OPTIONS.brokers)
    state.usage = host_usage(state.broker_rates(), idle, idle)
    for broker in state.brokers:
        broker.is_registered = True
        state.report(broker.row)
    state.sample()
    seen = SandboxLeader(state, policies, OPTIONS.seed)._snapshot()
    rows = {broker.broker_id: broker.row for broker in state.brokers}
    ages = [
        2400 if row == OPTIONS.brokers - 1 else (9 * 86_400 if row < 6 else 54_000 + row * 420)
        for row in map(rows.__getitem__, seen.brokers["broker"].to_pylist())
    ]
    brokers = seen.brokers.set_column(
        seen.brokers.schema.get_field_index("started_at"),
        seen.brokers.schema.field("started_at"),
        pa.array([END_MS - 1000 * age for age in ages], pa.int64()),
    )
    bundles = seen.bundles.set_column(
        seen.bundles.schema.get_field_index("owner_source"),
        seen.bundles.schema.field("owner_source"),
        pa.array(["ownership"] * seen.bundles.num_rows),
    )
    manifest = Manifest(cluster="sandbox", taken_at=ms_to_datetime(END_MS), tables={})
    return PulsarSnapshot.build(manifest, {**seen.tables, "brokers": brokers, "bundles": bundles})


@pytest.fixture(scope="module")
def first() -> PulsarSnapshot:
    return first_snapshot()


@pytest.fixture(scope="module")
def past(first: PulsarSnapshot) -> PulsarPast:
    return PulsarPast(first, OPTIONS)


def one(past: PulsarPast, moment_ms: int) -> PulsarSnapshot:
    return next(past.snapshots([moment_ms]))


def owners(snapshot: PulsarSnapshot) -> dict[str, str | None]:
    bundles = snapshot.bundles
    return dict(zip(bundles["bundle"].to_pylist(), bundles["owner"].to_pylist(), strict=True))


def test_the_past_ends_in_the_first_real_minute(first: PulsarSnapshot, past: PulsarPast) -> None:
    last = one(past, END_MS)
    assert owners(last) == owners(first)
    for name in ("msg_rate_in", "msg_throughput_out", "short_msg_rate_in"):
        assert last.bundles[name].to_pylist() == pytest.approx(first.bundles[name].to_pylist())
    for name in ("msg_rate_in", "topic_count", "bandwidth_out_usage"):
        assert last.brokers[name].to_pylist() == pytest.approx(first.brokers[name].to_pylist())


def test_the_load_goes_in_waves_and_the_same_seed_gives_the_same(
    first: PulsarSnapshot, past: PulsarPast
) -> None:
    moments = [END_MS - STEP_MS * back for back in range(30, 0, -1)]
    rates = [
        float(np.nansum(one.bundles["msg_rate_in"].to_numpy())) for one in past.snapshots(moments)
    ]
    assert max(rates) > 1.1 * min(rates)
    again = PulsarPast(first, OPTIONS)
    assert one(again, moments[0]).snapshot_id == one(past, moments[0]).snapshot_id


@pytest.mark.parametrize("hours", [-23.9, -16.0, -15.5, -10.0, -4.9, -2.0, -0.5])
def test_a_simulated_minute_is_whole(first: PulsarSnapshot, past: PulsarPast, hours: float) -> None:
    snapshot = one(past, END_MS + round(hours * HOUR_MS))
    there = set(snapshot.brokers["broker"].to_pylist())
    held = {owner for owner in owners(snapshot).values() if owner is not None}
    assert held <= there
    assert owners(snapshot).keys() == owners(first).keys()
    assert sum(snapshot.brokers["bundle_count"].to_pylist()) == sum(
        first.brokers["bundle_count"].to_pylist()
    )
    ratios = snapshot.brokers["bandwidth_out_ratio"].to_numpy()
    assert ((ratios >= 0) & (ratios <= 1)).all()
    assert NOTE in snapshot.manifest.unavailable


def test_brokers_join_and_restart_when_their_reports_say_so(
    first: PulsarSnapshot, past: PulsarPast
) -> None:
    started = dict(
        zip(
            first.brokers["broker"].to_pylist(),
            first.brokers["started_at"].to_pylist(),
            strict=True,
        )
    )
    newest = max(started, key=lambda name: started[name])
    restarted = next(name for name, at in started.items() if 20 > (END_MS - at) / HOUR_MS > 1)
    for name, before in ((newest, False), (restarted, True)):
        at = started[name]
        assert name in one(past, at + STEP_MS).brokers["broker"].to_pylist()
        assert name not in one(past, at - STEP_MS).brokers["broker"].to_pylist()
        long_before = one(past, at - 10 * STEP_MS).brokers["broker"].to_pylist()
        assert (name in long_before) == before


def test_a_simulated_minute_expects_no_broker_that_had_not_joined(first: PulsarSnapshot) -> None:
    tables = {
        name: replace(table, expected=table.rows) if name in ("brokers", "bundles") else table
        for name, table in first.manifest.tables.items()
    }
    complete = replace(first, manifest=replace(first.manifest, tables=tables))
    read = one(PulsarPast(complete, OPTIONS), END_MS - HOUR_MS)
    assert read.brokers.num_rows < first.brokers.num_rows
    assert read.manifest.tables["brokers"].coverage_ratio == 1
    assert read.manifest.tables["bundles"].coverage_ratio == 1
    assert read.manifest.tables["namespaces"].expected is None


def config_in(folder: Path) -> TrimtabConfig:
    cluster = ClusterConfig(name="sandbox", zookeeper="z:1")
    access = AccessConfig(key_file=folder / "key")
    return TrimtabConfig(state_dir=folder, clusters=(cluster,), access=access)


def assert_once(events):
    """The older part of a past does not repeat the runs of the newer one."""
    places = [json.loads(row["details"])["seq"] for row in events if row["kind"] in {"run", "step"}]
    assert len(places) == len(set(places))


def test_the_written_past_is_history_with_runs_that_the_journal_proves(
    first: PulsarSnapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PAST_MS", 48 * STEP_MS)
    monkeypatch.setattr(writer, "RECENT_MS", 46 * STEP_MS)
    config = config_in(tmp_path)
    sizes = {"brokers": 12, "bundles": 200, "seed": 7, "day_s": 3600.0}
    assert list(write_past(config, first, **sizes)) == [46, 2]
    store = open_history(config)
    assert store.problems("sandbox") == []
    span = store.span("sandbox")
    assert span is not None
    assert span[1] == ms_to_datetime(END_MS - STEP_MS)
    read = store.snapshot_at("sandbox", span[1])  # checks the recorded id
    assert read.bundles.num_rows == first.bundles.num_rows
    events = store.rows("events", "sandbox").to_pylist()
    by = {(row["kind"], row["by"]) for row in events}
    assert {("move", "trimtab"), ("step", "trimtab"), ("run", "trimtab")} <= by
    assert all(row["actor"] == ACTOR for row in events if row["kind"] == "run" and row["actor"])
    assert_once(events)
    journal = SqlJournal(config.journal_address)
    assert journal.verify().damage is None
    (run_id,) = journal.run_ids()
    run = fold(journal.entries(run_id=run_id))
    assert run.measured is not None
    assert run.ended_at is not None
    assert run.measured.taken_at > run.ended_at
    assert run.measured.brokers
    assert all(one.throughput_bytes_per_s for one in run.measured.brokers)
    assert not journal.open_runs("sandbox")
    journal.close()
    # the same state directory once more: what is there stays as it is
    assert list(write_past(config, first, **sizes)) == []
    # what the history has of the runs is in the journal, and signed
    found = services.verify_journal(config)
    assert found.is_sound
    assert (found.forged, found.unchecked) == ((), ())
    assert len(recorded_entries(config)) >= 3
    # an empty journal next to that history is a loss
    services.journal(config).close()
    services._journal_at.cache_clear()
    for path in tmp_path.glob("journal.db*"):
        path.unlink()
    found = services.verify_journal(config)
    assert "The journal is empty, but the history refers to entry" in found.lost
    assert services_history.check_journal(config).detail == found.lost
    services._journal_at.cache_clear()


def test_runs_that_end_late_are_measured_in_the_order_of_time(
    first: PulsarSnapshot, past: PulsarPast, tmp_path: Path
) -> None:
    moments = [END_MS - 3 * STEP_MS, END_MS - 2 * STEP_MS, END_MS - STEP_MS]
    before = one(past, moments[0])
    target = before.brokers["broker"][0].as_py()
    at = before.manifest.taken_at
    moved = [
        bundle
        for bundle, owner in owners(before).items()
        if owner not in (None, target)
        and build_unload_plan(before, [bundle], destinations={bundle: target}, now=at).applyable
    ]
    moves = dict.fromkeys(moved[:8], target)
    runs = tuple(PastRun(at_ms=at, reason="simulated", bundles=moves) for at in moments[1:])
    journal = SqlJournal(config_in(tmp_path).journal_address)
    followed = PastRuns(journal, "sandbox", runs, moments[0], b"k" * 32)
    assert len(list(followed.follow(past.snapshots(moments), first))) == 3
    measured = [fold(journal.entries(run_id=run_id)).measured for run_id in journal.run_ids()]
    assert sorted(one.taken_at for one in measured if one is not None) == [
        ms_to_datetime(moments[2]),
        ms_to_datetime(END_MS),
    ]
    times = [entry.record.at for entry in journal.entries()]
    assert times == sorted(times)
    journal.close()


def test_a_cluster_without_a_snapshot_delays_no_other(
    first: PulsarSnapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PAST_MS", 2 * STEP_MS)
    file = tmp_path / "trimtab.toml"
    file.write_text(
        f'state_dir = "{tmp_path}"\n'
        '[[clusters]]\nname = "slow"\nkind = "pegasus"\nmeta_servers = ["127.0.0.1:1"]\n'
        '[[clusters]]\nname = "sandbox"\nzookeeper = "127.0.0.1:1"\n'
    )
    config = TrimtabConfig.load(file, ())
    services.snapshot_store(config).put(first)
    write(config, SandboxRequest(brokers=12, bundles=200, seed=7), within_s=0)
    assert open_history(config).span("sandbox") is not None


def test_the_last_hours_are_written_first_and_large_fleets_get_less() -> None:
    recent, older = parts_of(END_MS, 600)
    assert recent[-1] == END_MS - STEP_MS
    assert older[-1] + STEP_MS == recent[0]
    assert (END_MS - older[0]) / HOUR_MS == 24
    assert sum(map(len, parts_of(END_MS, 100_000))) == 6
    assert parts_of(END_MS, 1_000_000) == []


def test_a_batch_is_what_a_recorder_writes_minute_by_minute(tmp_path: Path) -> None:
    snapshots = pulsar_minutes(3, 4)
    store = HistoryStore(HistoryLocation(str(tmp_path)))
    name = snapshots[0].manifest.cluster
    batch = BatchRecorder(store, name)
    for snapshot in snapshots:
        batch.record(snapshot)
    assert store.span(name) is None  # nothing is there before the commit
    assert batch.commit() == len(snapshots)
    for snapshot in snapshots:
        found = store.snapshot_at(name, snapshot.manifest.taken_at)
        assert found.snapshot_id == snapshot.snapshot_id
    assert batch.commit() == 0
    again = BatchRecorder(store, name)
    again.record(snapshots[0])
    with pytest.raises(OpsError, match="already"):
        again.commit()


def test_parts_of_a_batch_have_their_own_events(tmp_path: Path) -> None:
    """The later part is written first: the earlier one is not compared with it."""
    snapshots = pulsar_minutes(3, 6)
    store = HistoryStore(HistoryLocation(str(tmp_path)))
    name = snapshots[0].manifest.cluster
    batch = BatchRecorder(store, name)
    kinds = []
    for part in (snapshots[3:], snapshots[:3]):
        for snapshot in part:
            batch.record(snapshot)
        batch.commit()
        kinds.append(store.rows("events", name, end=part[-1].manifest.taken_at).num_rows)
    expected = sum(
        one.events.num_rows
        for one in _recorded(HistoryStore(HistoryLocation(f"{tmp_path}/other")), snapshots[:3])
    )
    assert kinds[1] == expected > 0


def _recorded(store: HistoryStore, snapshots: list[PulsarSnapshot]) -> list[RecordResult]:
    recorder = Recorder(store, snapshots[0].manifest.cluster)
    return [recorder.record(snapshot) for snapshot in snapshots]


def test_the_past_of_pegasus_is_whole_and_ends_in_the_first_real_minute() -> None:
    first = generated(3, 8, 5)
    past = PegasusPast(first, PegasusOptions(seed=7))
    end_ms = round(first.manifest.taken_at.timestamp() * 1000)
    (last,) = past.snapshots([end_ms])
    for name in ("primary", "secondaries"):
        assert last.tables["partitions"][name].to_pylist() == (
            first.tables["partitions"][name].to_pylist()
        )
    moments = [end_ms + round(hours * HOUR_MS) for hours in (-23.0, -10.98, -10.5, -9.95, -1.0)]
    for snapshot in past.snapshots(moments):
        nodes = snapshot.tables["nodes"]
        alive = set(nodes.filter(nodes["is_alive"])["node"].to_pylist())
        for row in snapshot.tables["partitions"].to_pylist():
            members = [one for one in [row["primary"], *row["secondaries"]] if one]
            assert set(members) <= alive
            assert len(set(members)) == len(members)
    away = next(iter(past.snapshots([moments[1]])))
    assert away.tables["nodes"]["is_alive"].to_pylist().count(False) == 1


def test_the_first_steps_and_the_past_mean_the_same_user() -> None:
    assert PAST_ACTOR == ACTOR
