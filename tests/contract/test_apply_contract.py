"""Plans carried out on a cluster: what moves, what is refused, and in which words.

The same runs on the sandbox and on a real cluster, through the worker, the lease in ZooKeeper and
a journal in SQLite.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from apply_site import HASTE, ApplySite, edited
from pulsar_under_test import PulsarUnderTest, eventually

from connectors.config.model import ClusterConfig
from connectors.pulsar.acting.cluster import PulsarCluster
from connectors.worker.lease import PATH, ZooKeeperLease
from connectors.worker.worker import work_on
from core.actions.events import RunClaimed, SettingChanged, SettingRestored, SettingSaved
from core.errors import ConflictError, NotFoundError
from core.plan.model import sealed
from core.pulsar.plan.edit import PlanContext
from core.pulsar.plan.undo import undo_plan

LANDED = ("landed", "landed_elsewhere", "returned")
SHEDDING = "loadBalancerSheddingEnabled"
NOWHERE = "127.0.0.9:1"


@pytest.fixture(scope="module")
def site(pulsar: PulsarUnderTest, tmp_path_factory: pytest.TempPathFactory) -> ApplySite:
    hosts = ",".join(f"{host}:{port}" for host, port in pulsar.zookeeper.hosts)
    cluster = ClusterConfig(
        name="under-test", zookeeper=hosts, admin_urls=list(pulsar.admin_urls), environment="test"
    )
    return ApplySite.of(tmp_path_factory.mktemp("state"), cluster)


@pytest.fixture
def acting(site: ApplySite) -> Iterator[PulsarCluster]:
    with closing(PulsarCluster(site.cluster)) as cluster:
        yield cluster


# -- what moves ------------------------------------------------------------------------------------


def test_bundle_goes_to_its_destination_or_the_run_says_where_it_went(
    pulsar: PulsarUnderTest, site: ApplySite
) -> None:
    plan = site.plan(1)
    (step,) = plan.steps
    before = pulsar.node(f"/namespace/{step.bundle}")
    view = site.execute_run(plan)
    result = view.steps[0].result
    assert view.state == "DONE", view.sentence
    assert result is not None
    assert result.code in LANDED, result.sentence
    assert result.after is not None
    after = pulsar.node(f"/namespace/{step.bundle}")
    assert before is not None
    assert after is not None
    assert (after.created_zxid != before.created_zxid) is True
    assert result.after.token == str(after.created_zxid)
    assert result.after.holder == pulsar.owner(step.bundle)
    assert step.bundle in result.sentence
    if result.code == "landed":
        assert result.after.holder == step.destination
    else:
        assert step.destination in result.hint
        assert f"--bundle {step.bundle} --to {step.destination}" in result.hint


def test_bundle_without_a_destination_lands_where_the_cluster_places_it(
    pulsar: PulsarUnderTest, site: ApplySite
) -> None:
    plan = site.plan(1, towards=False)
    view = site.execute_run(plan)
    result = view.steps[0].result
    assert view.state == "DONE", view.sentence
    assert result is not None
    assert result.after is not None
    assert result.code in ("landed", "returned")
    assert result.after.holder == pulsar.owner(plan.steps[0].bundle)


def _clients_gone(pulsar: PulsarUnderTest, ratio: float) -> None:
    answer = pulsar.send("PUT", "/sandbox/faults", json={"clients_gone_ratio": ratio})
    assert answer.ok, answer.text


def test_bundle_whose_clients_are_gone_is_unassigned_until_somebody_looks_it_up(
    pulsar: PulsarUnderTest, site: ApplySite
) -> None:
    if pulsar.kind != "sandbox":
        pytest.skip("the clients of a real cluster are driven in tests/live")
    plan = site.plan(2, towards=False)
    first = plan.steps[0].subject
    options = replace(HASTE, verify_within_s=1.0, max_unassigned=1)
    _clients_gone(pulsar, 1.0)
    stop = threading.Event()
    run_id = site.ask(plan, options)
    worker = threading.Thread(
        target=work_on, args=(site.config, site.cluster, run_id, stop, lambda _: None)
    )
    worker.start()
    try:
        eventually(lambda: site.view(run_id).state == "PAUSED", within_s=60)
        view = site.view(run_id)
        result = view.steps[0].result
        assert result is not None
        assert (result.state, result.code) == ("UNKNOWN", "unassigned")
        assert "loaded topic" in result.sentence
        assert view.unassigned == (first,)
        assert [step.state for step in view.steps] == ["UNKNOWN", "PENDING"]
        assert pulsar.owner(first) is None  # Trimtab only looks
        _clients_gone(pulsar, 0.0)
        namespace, _, bounds = first.rpartition("/")
        inside = pulsar.send("GET", f"/admin/v2/persistent/{namespace}?bundle={bounds}").json()
        topic = inside[0].partition("://")[2]
        assert pulsar.send("GET", f"/lookup/v2/topic/persistent/{topic}").ok
        eventually(lambda: site.view(run_id).is_ended, within_s=60)
    finally:
        _clients_gone(pulsar, 0.0)
        stop.set()
        worker.join(60)
    view = site.view(run_id)
    assert view.state == "DONE", view.sentence
    assert view.steps[0].is_reconciled
    assert view.unassigned == ()


def test_run_is_taken_back(pulsar: PulsarUnderTest, site: ApplySite) -> None:
    plan = site.plan(1)
    (step,) = plan.steps
    view = site.execute_run(plan)
    if pulsar.owner(step.bundle) == step.owner:
        pytest.skip("the hint was lost and the bundle came back by itself")
    back = undo_plan(view, PlanContext(snapshot=site.snapshot(), now=datetime.now(UTC)))
    assert [(each.bundle, each.destination) for each in back.steps] == [(step.bundle, step.owner)]
    undone = site.execute_run(back)
    assert undone.state == "DONE", undone.sentence
    result = undone.steps[0].result
    assert result is not None
    if result.code == "landed":
        assert pulsar.owner(step.bundle) == step.owner


def test_the_clusters_own_shedding_is_off_meanwhile_and_back_afterwards(
    pulsar: PulsarUnderTest, site: ApplySite, acting: PulsarCluster
) -> None:
    acting.set_dynamic_setting(SHEDDING, "true")
    try:
        view = site.execute_run(site.plan(1), replace(HASTE, pause_balancer=True))
        events = [entry.record.event for entry in site.entries(view.run_id)]
        settings = [e for e in events if isinstance(e, SettingSaved | SettingChanged)]
        assert [msgspec.structs.replace(one, signature="") for one in settings] == [
            SettingSaved(key=SHEDDING, before="true", during="false"),
            SettingChanged(key=SHEDDING),
        ]
        restored = [event for event in events if isinstance(event, SettingRestored)]
        assert [event.result for event in restored] == ["restored"]
        assert acting.dynamic_setting(SHEDDING) == "true"
    finally:
        acting.set_dynamic_setting(SHEDDING, None)
    assert acting.dynamic_setting(SHEDDING) is None
    running = "/admin/v2/brokers/configuration/runtime"
    assert eventually(lambda: pulsar.send("GET", running).json()[SHEDDING] == "false")


def test_run_names_the_lease_under_which_it_was_carried_out(
    pulsar: PulsarUnderTest, site: ApplySite
) -> None:
    view = site.execute_run(site.plan(1))
    claims = [
        entry.record.event
        for entry in site.entries(view.run_id)
        if isinstance(entry.record.event, RunClaimed)
    ]
    assert [claim.lease for claim in claims] == [f"zookeeper {site.cluster.zookeeper}{PATH}"]
    assert eventually(lambda: pulsar.node(PATH) is None)  # given back


def test_of_two_who_want_the_lease_one_gets_it(site: ApplySite) -> None:
    one, other = (ZooKeeperLease(site.cluster, name) for name in ("one", "other"))
    try:
        assert one.acquire()
        assert one.is_held()
        assert not other.acquire()
        assert not other.is_held()
        assert re.match(r"one on \S+ \(process \d+\) since ", other.holder() or "")
        one.release()
        assert other.acquire()
        assert not one.is_held()
    finally:
        one.release()
        other.release()


# -- what is refused, and how ----------------------------------------------------------------------


def skipped(site: ApplySite, plan) -> tuple[str, str]:
    """Carry out a plan of one step that is not even begun; its code and sentence."""
    view = site.execute_run(plan)
    result = view.steps[0].result
    assert result is not None
    assert view.steps[0].begun_at is None, result.sentence
    assert (view.state, result.state) == ("FAILED", "SKIPPED"), view.sentence
    return result.code, result.sentence


def test_unknown_bundle_is_skipped(pulsar: PulsarUnderTest, site: ApplySite) -> None:
    bundle = f"{pulsar.namespace}/0x00000001_0x00000003"
    code, sentence = skipped(site, edited(site.plan(1), bundle=bundle))
    assert code == "unknown_bundle"
    assert bundle in sentence


def test_bundle_that_moved_meanwhile_is_skipped(pulsar: PulsarUnderTest, site: ApplySite) -> None:
    plan = site.plan(1)
    (step,) = plan.steps
    other = next(name for name in pulsar.brokers if name not in (step.owner, step.destination))
    code, sentence = skipped(site, edited(plan, owner=other))
    assert code == "moved_meanwhile"
    assert all(word in sentence for word in (step.bundle, other, step.owner))


def test_destination_that_is_no_live_broker_is_skipped(site: ApplySite) -> None:
    code, sentence = skipped(site, edited(site.plan(1), destination=NOWHERE))
    assert code == "destination_unknown"
    assert NOWHERE in sentence


def test_destination_that_owns_it_already_is_skipped(site: ApplySite) -> None:
    plan = site.plan(1)
    code, sentence = skipped(site, edited(plan, destination=plan.steps[0].owner))
    assert code == "destination_is_owner"
    assert plan.steps[0].owner in sentence


def test_expired_plan_is_refused(site: ApplySite) -> None:
    plan = site.plan(1)
    early = datetime.now(UTC) - timedelta(seconds=1)
    view = site.execute_run(sealed(replace(plan, expires_at=early)))
    assert view.state == "REFUSED"
    assert view.refusal is not None
    assert view.refusal.code == "plan_expired"
    assert f"{early:%H:%M:%S}" in view.refusal.sentence


def test_bundle_that_was_split_is_skipped_and_its_parts_are_named(
    pulsar: PulsarUnderTest, site: ApplySite
) -> None:
    plan = site.plan(1)
    bundle = plan.steps[0].bundle
    path = f"/admin/v2/namespaces/{bundle}/split"
    assert pulsar.follow("PUT", path)[-1].status_code == 204
    eventually(lambda: pulsar.node(f"/namespace/{bundle}") is None)
    code, sentence = skipped(site, plan)
    assert code == "bundle_split"
    lower, upper = bundle.rpartition("/")[2].split("_")
    assert sentence.startswith(f"{bundle} was split into {bundle.rpartition('/')[0]}/{lower}_0x")
    assert f"_{upper}" in sentence


# -- right before sending --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code", "sentence"),
    [
        (
            {"bundle": "{namespace}/0x00000001_0x00000003"},
            "unknown_bundle",
            "Bundle {namespace}/0x00000001_0x00000003 does not exist; its range is in {namespace}/",
        ),
        (
            {"bundle": "nobody/knows/0x00000000_0xffffffff"},
            "unknown_bundle",
            "Namespace nobody/knows no longer exists, nor does nobody/knows/0x",
        ),
        (
            {"owner": NOWHERE},
            "moved_meanwhile",
            f"{{bundle}} moved from {NOWHERE} to {{owner}} since the plan was made.",
        ),
        (
            {"destination": NOWHERE},
            "destination_unknown",
            f"{NOWHERE}, the destination of {{bundle}}, is no longer a live broker; the cluster",
        ),
        ({"destination": "{owner}"}, "destination_is_owner", "{owner} already owns {bundle}."),
    ],
)
def test_last_look_forbids_in_these_words(
    pulsar: PulsarUnderTest, site: ApplySite, acting: PulsarCluster, changes, code, sentence
) -> None:
    (step,) = site.plan(1).steps
    names = {"namespace": pulsar.namespace, "bundle": step.bundle, "owner": step.owner}
    wrong = msgspec.structs.replace(
        step, **{key: text.format(**names) for key, text in changes.items()}
    )
    action = acting.action(wrong)
    refusal = action.check_precondition(action.look())
    assert refusal is not None
    assert refusal.code == code
    assert refusal.sentence.startswith(sentence.format(**names))
    assert refusal.hint


def test_last_look_allows_what_is_as_planned(site: ApplySite, acting: PulsarCluster) -> None:
    (step,) = site.plan(1).steps
    action = acting.action(step)
    seen = action.look()
    assert action.check_precondition(seen) is None
    assert (seen.exists, seen.holder) == (True, step.owner)
    assert seen.token is not None
    assert action.result(seen, action.look()) is None
    assert action.on_timeout(seen, action.look()).code == "not_done"


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"bundle": "{namespace}/0x00000001_0x00000003"}, ConflictError, "returned 412"),
        ({"bundle": "nobody/knows/0x00000000_0xffffffff"}, NotFoundError, "returned 404"),
        (
            {"destination": NOWHERE},
            ConflictError,
            "Not allowed unload namespace bundle to inactive destination broker",
        ),
    ],
)
def test_what_the_cluster_refuses_is_told_in_its_own_words(
    pulsar: PulsarUnderTest, site: ApplySite, acting: PulsarCluster, changes, kind, words
) -> None:
    (step,) = site.plan(1).steps
    named = {key: text.format(namespace=pulsar.namespace) for key, text in changes.items()}
    with pytest.raises(kind, match=words) as caught:
        acting.action(msgspec.structs.replace(step, **named)).send()
    assert caught.value.outcome == "refused"


def test_dynamic_setting_is_set_read_and_taken_away(acting: PulsarCluster) -> None:
    key = "loadBalancerSheddingGracePeriodMinutes"
    before = acting.dynamic_setting(key)
    acting.set_dynamic_setting(key, "23")
    assert acting.dynamic_setting(key) == "23"
    acting.set_dynamic_setting(key, None)
    assert acting.dynamic_setting(key) is None
    if before is not None:
        acting.set_dynamic_setting(key, before)
    with pytest.raises(ConflictError, match="412"):
        acting.set_dynamic_setting("clusterName", "other")
