"""Which setting would have kept a recorded period calm, back-tested and simulated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from backtest_clusters import PEGASUS, living
from history_rows import recorded, store_in
from report_cluster import all_reports

from core.diagnosis.request import DiagnoseRequest
from core.findings.finding import Fix
from core.history.analysis.diagnosis import PeriodDiagnosis, over_time
from core.history.analysis.prevention import prevention
from core.history.backtest.pulsar.system import PULSAR
from core.progress import NoProgress
from core.pulsar.settings import effective_settings
from core.pulsar.shedding.registry import active_shedding_strategy
from core.simulation.cluster import local_cluster
from core.simulation.engine import run_rounds
from core.simulation.model import Run
from core.snapshot import PulsarSnapshot

MINUTES = 40
EVENLY = "loadBalancerDistributeBundlesEvenlyEnabled"
BY_RATE, BY_USAGE = "LeastLongTermMessageRate", "LeastResourceUsageWithWeight"


def lived(snapshot: PulsarSnapshot) -> Iterator[PulsarSnapshot]:
    """The minutes of a cluster that its own balancer moves."""
    settings = effective_settings(snapshot)
    strategy = active_shedding_strategy(snapshot.manifest.load_manager, settings)
    cluster = local_cluster(snapshot, settings, strategy)
    run = Run(shedding=strategy.name, rounds=MINUTES, seed=1)
    rounds = run_rounds(cluster, run, strategy, settings).rounds
    moves = {int(done.minute): done.moves for done in rounds if done.moves}
    for minute in range(MINUTES):
        moment = snapshot.manifest.taken_at + timedelta(minutes=minute)
        manifest = replace(cluster.snapshot.manifest, taken_at=moment)
        yield PulsarSnapshot(manifest, cluster.snapshot.tables)
        if minute in moves:
            cluster = cluster.after(moves[minute])


def report(name: str) -> PulsarSnapshot:
    return next(one for one in all_reports("pulsar") if one.name == name).snapshot()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of a cluster whose bundles go back, since only few brokers are candidates."""
    made = tmp_path_factory.mktemp("prevention")
    recorded(store_in(made), lived(report("16059")), "c")
    return made


@pytest.fixture(scope="module")
def found(folder: Path) -> PeriodDiagnosis:
    request = DiagnoseRequest(seconds=30.0)
    return over_time(store_in(folder), "c", timedelta(hours=1), request, NoProgress())


def test_the_setting_that_prevents_the_flapping_is_named_with_its_figures(found):
    assert found.returned
    prevented = found.prevention
    assert prevented.best is not None
    assert dict(prevented.fix.wanted) == {EVENLY: False}
    assert prevented.replayed is not None
    assert prevented.best.returned < prevented.replayed.returned
    assert prevented.best.deviation <= prevented.replayed.deviation
    assert EVENLY in found.answer


def test_the_recorded_settings_replayed_are_what_happened(found):
    recorded_run, again = found.prevention.recorded, found.prevention.replayed
    assert recorded_run is not None
    assert again is not None
    assert (again.moves, again.returned) == (recorded_run.moves, recorded_run.returned)


def test_the_setting_is_simulated_on_the_newest_minute(found):
    effect = found.prevention.effect
    assert effect is not None
    assert not effect.is_harmful
    assert found.prevention.as_json()["effect"]["converges_after"]


def test_candidates_for_which_there_is_no_time_are_counted(folder):
    store = store_in(folder)
    span = store.span("c")
    assert span is not None
    newest = store.snapshot_at("c", span[1])
    fixes = [Fix(wanted={EVENLY: False})]
    none = prevention(store, "c", span, newest, fixes, NoProgress(), budget_s=0.0)
    assert none.tried == 0
    assert none.untried > 1
    assert none.best is None


@pytest.mark.slow
def test_a_calm_and_even_cluster_needs_no_other_setting(tmp_path):
    store = store_in(tmp_path)
    recorded(store, lived(report("healthy_four_equal")), "c")
    span = store.span("c")
    assert span is not None
    calm = prevention(store, "c", span, store.snapshot_at("c", span[1]), (), NoProgress())
    assert calm.best is None
    assert not calm.problem


def test_a_class_that_would_have_prevented_it_comes_as_a_line_for_a_broker():
    record = {"shedding": "ThresholdShedder", "placement": BY_RATE, "settings": "{}"}
    best = {**record, "placement": BY_USAGE, "settings": '{"minUnloadMessage": 500}'}
    fix = PULSAR.fix(best, record)
    assert dict(fix.wanted) == {"minUnloadMessage": 500}
    package = "org.apache.pulsar.broker.loadbalance.impl"
    assert fix.lines == (f"loadBalancerLoadPlacementStrategy={package}.{BY_USAGE}",)
    assert fix.restart


@pytest.mark.slow
def test_the_level_that_would_have_kept_a_pegasus_cluster_even_is_named(tmp_path):
    store = store_in(tmp_path)
    recorded(store, living(30, dead=(1, range(10, 13))), PEGASUS)
    request = DiagnoseRequest(seconds=20.0)
    found = over_time(store, PEGASUS, timedelta(hours=1), request, NoProgress())
    prevented = found.prevention
    assert not prevented.problem
    assert prevented.recorded is not None
    assert prevented.recorded.moves == 0
    assert dict(prevented.fix.wanted) == {"meta level": "lively"}
    assert prevented.best is not None
    assert prevented.best.deviation < prevented.recorded.deviation / 2
    assert prevented.effect is not None
    assert prevented.effect.is_more_even
    assert "lively" in found.answer
