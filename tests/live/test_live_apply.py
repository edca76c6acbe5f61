"""Plans carried out on the real cluster, with traffic running."""

from __future__ import annotations

import itertools
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pulsar
import pytest
from apply_site import HASTE, ApplySite, movable, planned
from cluster_truth import ClusterTruth
from java_process import wait_until
from our_reading import config_of
from real_pulsar import RealPulsar

from connectors.pulsar.acting.cluster import PulsarCluster
from connectors.worker.worker import work_on
from core.actions.views import RunView
from core.ids import range_text
from core.plan.model import Plan
from core.pulsar.plan.edit import PlanContext
from core.pulsar.plan.undo import undo_plan

SHEDDING = "loadBalancerSheddingEnabled"
MOVES = 50


def site_of(cluster: RealPulsar, folder: Path, **changes: object) -> ApplySite:
    return ApplySite.of(folder, config_of(cluster), **changes)


@pytest.fixture
def site(modular: RealPulsar, tmp_path: Path) -> ApplySite:
    return site_of(modular, tmp_path)


@pytest.fixture
def acting(site: ApplySite) -> Iterator[PulsarCluster]:
    with closing(PulsarCluster(site.cluster)) as cluster:
        yield cluster


def plan_of(
    site: ApplySite, count: int, *, towards: bool = True, among: Sequence[str] = ()
) -> Plan:
    """Return a plan, as soon as that many bundles with topics are known to be owned."""
    found: list[Plan] = []

    def is_there() -> bool:
        try:
            found.append(site.plan(count, towards=towards, among=among))
        except AssertionError:
            return False
        return True

    wait_until("bundles that can be moved", is_there, within_s=60)
    return found[0]


def back(site: ApplySite, view: RunView) -> Plan:
    return undo_plan(view, PlanContext(snapshot=site.snapshot(), now=datetime.now(UTC)))


def test_plan_is_applied_verified_by_znode_and_taken_back_with_the_balancer_paused(
    truth: ClusterTruth, site: ApplySite, acting: PulsarCluster
) -> None:
    plan = plan_of(site, 1)
    (step,) = plan.steps
    before = truth.ownership(step.bundle)
    view = site.execute_run(plan, replace(HASTE, pause_balancer=True))
    result = view.steps[0].result
    assert view.state == "DONE", view.sentence
    assert result is not None
    assert result.after is not None
    now = truth.ownership(step.bundle)
    assert now is not None
    assert before != now
    assert result.after.holder == now.broker
    assert [setting.result for setting in view.settings] in ([], ["restored"])
    assert acting.dynamic_setting(SHEDDING) is None
    if now.broker == step.owner:
        pytest.skip("the hint was lost and the bundle came back: there is nothing to take back")
    undone = site.execute_run(back(site, view))
    assert undone.state == "DONE", undone.sentence
    assert undone.steps[0].step.destination == step.owner
    after = truth.ownership(step.bundle)
    assert after is not None
    if undone.steps[0].result and undone.steps[0].result.code == "landed":
        assert after.broker == step.owner


def next_in_turn(site: ApplySite, number: int) -> Plan | None:
    """Return the plan of the next bundle to one of the brokers, both in turn."""
    snapshot = site.snapshot()
    names = movable(snapshot)
    brokers = snapshot.brokers["broker"].to_pylist()
    if not names:
        return None
    plan = planned(snapshot, [names[number % len(names)]], brokers[number % len(brokers)])
    return plan if plan.applyable else None


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fifty_moves_each_say_where_the_bundle_really_landed(
    truth: ClusterTruth, site: ApplySite
) -> None:
    codes: Counter[str] = Counter()
    said: list[str] = []
    turn = itertools.count()
    while sum(codes.values()) < MOVES:
        plan = next_in_turn(site, next(turn))
        if plan is None:
            continue
        (step,) = plan.steps
        view = site.execute_run(plan)
        result = view.steps[0].result
        assert result is not None
        assert result.state == "DONE", result.sentence
        assert result.after is not None
        codes[result.code] += 1
        owner = truth.ownership(step.bundle)
        if result.code != "landed":
            said.append(result.sentence)
        if result.after.holder is not None:
            assert owner is not None
            assert result.after.holder == owner.broker
    sys.stderr.write(f"\n{MOVES} moves: {dict(codes)}\n" + "\n".join(said) + "\n")
    assert codes["landed"] >= MOVES // 3  # about nine of ten on an idle machine
    assert set(codes) <= {"landed", "landed_elsewhere", "returned", "unassigned"}


@pytest.mark.slow
def test_owner_that_is_killed_leaves_every_step_settled(
    modular: RealPulsar, truth: ClusterTruth, site: ApplySite
) -> None:
    plan = plan_of(site, 1)
    index = modular.index_of(plan.steps[0].owner)
    modular.process(index).kill()
    try:
        view = site.execute_run(plan)
        result = view.steps[0].result
        assert result is not None
        sys.stderr.write(f"\n{view.sentence}\n")
        assert view.steps[0].state in ("FAILED", "SKIPPED", "DONE"), result.sentence
        if view.steps[0].state == "DONE":
            assert result.after is not None
            assert result.after.holder != plan.steps[0].owner
    finally:
        modular.heal()


@pytest.mark.slow
def test_cluster_without_zookeeper_is_acted_on_by_its_brokers_alone(
    modular: RealPulsar, truth: ClusterTruth, tmp_path: Path
) -> None:
    site = site_of(modular, tmp_path, zookeeper=None)
    plan = plan_of(site, 1)
    view = site.execute_run(plan)
    result = view.steps[0].result
    assert view.state == "DONE", view.sentence
    assert result is not None
    assert result.after is not None
    owner = truth.ownership(plan.steps[0].bundle)
    assert owner is not None
    assert result.after.holder == owner.broker
    assert view.lease.endswith(f"lease of {site.cluster.name}")


def _load_and_leave(cluster: RealPulsar, namespace: str) -> list[str]:
    """Load a topic in each of four bundles, and leave; return the bundles.

    Brokers themselves read the topic of policies in one of them, so that one is served again.
    """
    body = {"bundles": {"numBundles": 4}, "replication_clusters": [cluster.cluster]}
    cluster.request("PUT", f"/admin/v2/namespaces/{namespace}", json=body)
    found: set[str] = set()
    numbers = itertools.count()
    with closing(pulsar.Client(cluster.service_url)) as client:
        while len(found) < 4:
            topic = f"persistent://{namespace}/t{next(numbers)}"
            client.subscribe(topic, "left").close()
            low = zlib.crc32(topic.encode()) >> 30
            bounds = [min(quarter << 30, 2**32 - 1) for quarter in (low, low + 1)]
            found.add(f"{namespace}/{range_text(*bounds)}")
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("is_restful", [False, True])
def test_bundles_whose_clients_are_gone_are_unassigned_and_the_run_pauses(
    modular: RealPulsar, truth: ClusterTruth, tmp_path: Path, *, is_restful: bool
) -> None:
    site = site_of(modular, tmp_path, **({"zookeeper": None} if is_restful else {}))
    bundles = _load_and_leave(modular, f"acme/left-{is_restful:d}")
    wait_until(
        "the owners count the topics",
        lambda: set(bundles) <= set(with_topics(modular)),
        within_s=60,
    )
    plan = site.plan(4, towards=False, among=bundles)
    run_id = site.ask(plan, replace(HASTE, max_unassigned=1))
    stop = threading.Event()
    worker = threading.Thread(
        target=work_on, args=(site.config, site.cluster, run_id, stop, lambda _: None)
    )
    worker.start()
    try:
        wait_until("it pauses", lambda: site.view(run_id).state == "PAUSED", within_s=120)
        view = site.view(run_id)
        (step,) = view.unserved
        assert view.unassigned == (step.step.subject,)
        assert truth.ownership(step.step.subject) is None
        assert step.result is not None
        assert (step.state, step.result.code) == ("UNKNOWN", "unassigned")
        assert "with 0 clients before" in step.result.sentence
        _look_up(modular, step.step.subject)
        wait_until(
            "it goes on", lambda: site.view(run_id).steps[step.index].state == "DONE", within_s=60
        )
        wait_until("it pauses again", lambda: len(site.view(run_id).unserved) == 1, within_s=120)
        site.control(run_id, "stop")
        wait_until("it ends", lambda: site.view(run_id).is_ended, within_s=120)
    finally:
        stop.set()
        worker.join(120)
    view = site.view(run_id)
    (left,) = view.unassigned
    assert view.state == "STOPPED", view.sentence
    assert f"Unassigned: 1 ({left})" in view.sentence
    with closing(PulsarCluster(site.cluster)) as cluster:
        found = cluster.system.measure(view, cluster.snapshot(), None)
    assert found.unassigned == (left,)


def _look_up(cluster: RealPulsar, bundle: str) -> None:
    namespace, _, bounds = bundle.rpartition("/")
    topic = cluster.get_json(f"/admin/v2/persistent/{namespace}?bundle={bounds}")[0]
    cluster.get_json(f"/lookup/v2/topic/persistent/{topic.partition('://')[2]}")


def with_topics(cluster: RealPulsar) -> list[str]:
    """Return the bundles whose topics are loaded: this manager's registry does not tell."""
    with ClusterTruth(cluster) as truth:
        found = [truth.topics_of_broker(index) for index in cluster.running]
    return [bundle for owned in found for bundle in owned if not bundle.startswith("pulsar/")]


@pytest.mark.slow
@pytest.mark.parametrize("wish", ["a destination", "none"])
def test_extensible_manager_moves_the_bundle_where_it_is_sent(
    extensible: RealPulsar, tmp_path: Path, wish: str
) -> None:
    site = site_of(extensible, tmp_path)
    plan = plan_of(site, 1, towards=wish == "a destination", among=with_topics(extensible))
    (step,) = plan.steps
    view = site.execute_run(plan)
    result = view.steps[0].result
    assert view.state == "DONE", view.sentence
    assert result is not None
    assert result.after is not None
    with ClusterTruth(extensible) as truth:
        owner = truth.owned_by_rest()[step.bundle]
    assert result.after.holder == owner
    if step.destination is not None:
        assert (result.code, owner) == ("landed", step.destination), result.sentence
        undone = site.execute_run(back(site, view))
        assert undone.state == "DONE", undone.sentence
        assert undone.steps[0].result is not None
        assert undone.steps[0].result.code == "landed"


@pytest.mark.slow
def test_extensible_manager_is_acted_on_without_zookeeper_too(
    extensible: RealPulsar, tmp_path: Path
) -> None:
    site = site_of(extensible, tmp_path, zookeeper=None)
    view = site.execute_run(plan_of(site, 1, among=with_topics(extensible)))
    assert view.state == "DONE", view.sentence
    assert view.steps[0].result is not None
    assert view.steps[0].result.code == "landed"
