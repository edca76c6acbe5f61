"""Runs, plans, jobs, snapshots and history over HTTP: the rules of the command line, no others."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from http.client import HTTPConnection
from types import SimpleNamespace

import pyarrow as pa
import pytest
import requests
from fleet_builder import make_snapshot
from limits import RateLimitItemPerMinute
from pegasus_snapshots import generated
from served import counted_answers, served
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from connectors.access.users import UserFile
from connectors.jobs.queue import JobQueue
from connectors.jobs.server import JobResources, serve
from core.errors import UnreachableError
from core.history.store.writer import Recorder
from core.operations.sent import MEDIA_TYPE, unpacked
from core.request import parse
from core.snapshot.store import SnapshotStore, load_snapshot
from dashboard import services
from dashboard.api import operations, resource, routes, snapshots, tables
from dashboard.api.plan_makers import MAKERS
from dashboard.cli.main import run
from dashboard.services import jobs, verifications
from dashboard.services.history import history
from dashboard.sign_in import SignInGuard

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
FLEET = (
    '[[clusters]]\nname = "fleet"\nzookeeper = "127.0.0.1:1"\nread_only = false\n'
    'admin_urls = ["http://127.0.0.1:1"]\n'
)
GUARDED = '[[clusters]]\nname = "guarded"\nzookeeper = "127.0.0.1:1"\n'
SIGN_IN = (
    '[access]\nsign_in = "users"\n'
    '[[access.grants]]\nrole = "viewer"\npeople = ["vera"]\nclusters = ["fleet"]\n'
    '[[access.grants]]\nrole = "operator"\npeople = ["olga", "oskar"]\nclusters = ["fleet"]\n'
    '[[access.grants]]\nrole = "operator"\npeople = ["tom"]\nclusters = ["fleet"]\n'
    'scope = ["other"]\n'
)


def site_of(folder, monkeypatch, text):
    monkeypatch.setattr(resource, "_LIMIT", RateLimitItemPerMinute(10**6))
    file = folder / "trimtab.toml"
    monkeypatch.setenv("TRIMTAB_CONFIG", str(file))
    file.write_text(f'state_dir = "{folder}/state"\n{text}')
    kept = SnapshotStore(folder / "state" / "snapshots")
    stored = kept.put(make_snapshot(brokers=4, bundles=60))
    peg = generated(3, 8, 4, taken_at=datetime.now(UTC).replace(microsecond=0))
    kept.put(peg)
    return SimpleNamespace(path=folder, file=file, stored=stored, peg=peg.manifest.cluster)


@pytest.fixture
def site(tmp_path, monkeypatch):
    pegasus = '[[clusters]]\nname = "peg"\nkind = "pegasus"\nmeta_servers = ["127.0.0.1:1"]\n'
    return site_of(tmp_path, monkeypatch, f"{FLEET}{GUARDED}{pegasus}")


@pytest.fixture
def client(site):
    return TestClient(Starlette(routes=list(routes.ROUTES)))


def bundle_of(site):
    rows = load_snapshot(site.stored.path).bundles.to_pylist()
    return next(row["bundle"] for row in rows if row["owner"])


def made(client, site, headers=None):
    body = {"bundles": [bundle_of(site)], "reason": "hot"}
    return client.post("/api/v1/plans/fleet/unload", json=body, headers=headers)


def requested(client, plan, headers=None, **more):
    body = {"cluster": "fleet", "plan": plan, "reason": "hot broker", **more}
    return client.post("/api/v1/runs", json=body, headers=headers)


def printed(capsys, *words, code=0):
    capsys.readouterr()
    assert run([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_plan_is_made_previewed_requested_and_its_run_stopped(client, site, capsys, tmp_path):
    answer = made(client, site)
    assert answer.status_code == 200, answer.text
    plan = answer.json()["plan"]
    assert answer.json()["verdict"] == "ready"
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    previewed = client.post("/api/v1/plans/fleet/preview", json={"plan": plan}).json()
    assert previewed == printed(capsys, "preview", str(file), "--snapshot", str(site.stored.path))
    created = requested(client, plan)
    assert created.status_code == 201, created.text
    place = created.headers["location"]
    shown = client.get(place).json()
    run_id = shown["run"]["run_id"]
    assert {"run": shown["run"], "entries": shown["entries"], "unsigned": []} == printed(
        capsys, "runs", run_id
    )
    listed = client.get("/api/v1/runs?cluster=fleet").json()["runs"]
    assert listed == printed(capsys, "runs", "--cluster", "fleet")["runs"]
    again = requested(client, plan)
    assert (again.status_code, again.json()["hint"] != "") == (409, True)
    stopped = client.post(f"{place}/stop", json={"reason": "enough"})
    assert stopped.status_code == 202
    assert stopped.json()["run"]["control"]["control"] == "stop"
    assert len(stopped.json()["entries"]) == 2
    verified = client.get("/api/v1/journal").json()
    assert verified == {
        name: value
        for name, value in printed(capsys, "runs", "--verify").items()
        if name != "journal"
    }
    assert verified["is_sound"]


def test_a_plan_of_another_installation_is_refused(client, site):
    plan = made(client, site).json()["plan"]
    changed = json.loads(json.dumps(plan))
    changed["signature"] = "0" * 64
    refused = requested(client, changed)
    assert refused.status_code == 409
    assert "signature" in refused.json()["detail"]


def test_a_read_only_cluster_is_not_changed(client, site, tmp_path):
    site.file.write_text(site.file.read_text().replace("read_only = false", "read_only = true"))
    plan = made(client, site).json()["plan"]
    refused = requested(client, plan)
    assert refused.status_code == 403
    assert "read-only" in refused.json()["detail"]
    assert refused.json()["hint"]
    assert client.get("/api/v1/runs").json()["runs"] == []


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("plans/fleet/unload", {"bundles": ["x/y/0x0_0x1"]}, 409, "x/y/0x0_0x1"),
        ("plans/fleet/unload", {"bundles": []}, 400, "No bundle"),
        ("plans/fleet/unload", {"bundle": "a"}, 400, "bundle"),
        ("plans/fleet/drain", {"nodes": ["a:1"]}, 400, "fleet is a Pulsar cluster"),
        ("plans/nowhere/unload", {"bundles": ["a"]}, 404, "nowhere"),
        ("plans/guarded/unload", {"bundles": ["a"]}, 409, "guarded has no snapshot"),
        ("plans/fleet/set", {"settings": {"loadBalancerSheddingEnable": "x"}}, 400, "Did you mean"),
        ("plans/fleet/preview", {"plan": {}}, 409, "The plan of the request"),
        ("runs", {"cluster": "fleet", "plan": {}, "reason": "x"}, 409, "The plan of the request"),
        ("runs", {"cluster": "fleet", "reason": "x"}, 400, "plan is required"),
        ("runs/20260101-000000-aaaaaa/stop", {}, 404, "No run named"),
        ("runs/20260101-000000-aaaaaa/approve", {}, 404, "No run named"),
        ("jobs", {"kind": "dril", "parameters": {}}, 400, "Did you mean drill?"),
        ("jobs", {"kind": "drill", "parameters": {"hot_threshold": "x"}}, 400, "hot_threshold"),
        ("jobs/nosuch/stop", {}, 404, "nosuch"),
    ],
)
def test_a_wrong_request_is_a_problem(client, path, body, status, words):
    answer = client.post(f"/api/v1/{path}", json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in f"{answer.json()['detail']} {answer.json()['hint']}"


def test_plans_for_pegasus_are_made_and_previewed(client, site):
    place = f"/api/v1/plans/{site.peg}"
    nodes = client.get(f"/api/v1/snapshots/{site.peg}/latest/nodes").json()["rows"]
    node = nodes[0]["node"]
    made = client.post(f"{place}/migrate", json={"node": node, "reason": "restart"})
    assert made.status_code == 200, made.text
    previewed = client.post(f"{place}/preview", json={"plan": made.json()["plan"]}).json()
    assert previewed["sentence"] == made.json()["answer"]
    wrong = client.post(f"{place}/drain", json={"nodes": [node[:-1]]})
    assert (wrong.status_code, "Did you mean" in wrong.json()["hint"]) == (400, True)
    none = client.post(f"{place}/drain", json={"nodes": []})
    assert none.status_code == 400
    move = {"partition": "nosuch.1", "kind": "move_pri", "source": node, "destination": node}
    assert client.post(f"{place}/move", json=move).status_code == 400
    assert client.post(f"{place}/unload", json={"bundles": ["a"]}).status_code == 400


PEGASUS = {
    "migrate": ({"node": "{node}"}, ("{node}",)),
    "drain": ({"nodes": ["{node}"]}, ("{node}",)),
    "offline": ({"nodes": ["{node}"], "rate": 20}, ("{node}", "--rate", "20")),
    "rolling-update": ({}, ()),
    "even": ({"measure": "count", "max_moves": 3}, ("--by", "count", "--moves", "3")),
    "level": ({"level": "blind"}, ("set", "blind")),
    "rebalance": ({"only_move_primary": True}, ("--only-move-primary",)),
    "server-setting": (
        {"key": "meta.lb.only_move_primary", "value": "true"},
        ("meta.lb.only_move_primary", "true"),
    ),
}


@pytest.mark.parametrize("name", PEGASUS)
def test_a_plan_for_pegasus_is_that_of_the_command(client, site, capsys, name):
    (directory,) = (site.path / "state" / "snapshots" / site.peg).iterdir()
    node = client.get(f"/api/v1/snapshots/{site.peg}/latest/nodes").json()["rows"][0]["node"]
    body, words = json.loads(json.dumps(PEGASUS[name]).replace("{node}", node))
    made = client.post(f"/api/v1/plans/{site.peg}/{name}", json=body)
    command = "set" if name == "server-setting" else name
    printed = command_plan(capsys, "pegasus", command, str(directory), *words)
    answer = made.json()
    if made.status_code == 409:
        assert printed == answer["detail"]
    else:
        assert printed == (answer["plan"]["steps"] if answer["plan"] else answer["answer"])


def test_the_fewest_moves_are_planned_as_the_command_does(client, site, capsys, tmp_path):
    for more, words in (({}, ()), ({"all_moves": True}, ("--all-moves",))):
        body = {"within": 0.05, "max_moves": 4, **more}
        made = client.post("/api/v1/plans/fleet/optimize", json=body)
        assert made.status_code == 200, made.text
        options = ("--within", "0.05", "--max-moves", "4", *words)
        file = tmp_path / "plan.json"
        printed(capsys, "optimize", str(site.stored.path), *options, "--plan", str(file))
        plan = json.loads(file.read_text())
        assert made.json()["plan"]["steps"] == plan["steps"]
        assert made.json()["plan"]["reason"] == plan["reason"]
    done = client.post("/api/v1/plans/fleet/optimize", json={"relief": 0.99}).json()
    assert (done["verdict"], done["plan"]) == ("nothing_to_do", None)
    assert client.post("/api/v1/plans/peg/optimize", json={}).status_code == 400


def test_plans_of_runs_are_listed_for_those_who_may_view_them(tmp_path, monkeypatch):
    approval = '[clusters.approval]\nneeded = "always"\n'
    site = site_of(tmp_path, monkeypatch, f"{FLEET}{approval}{GUARDED}{SIGN_IN}")
    client, of = signed_in(tmp_path)
    plan = made(client, site, of("olga")).json()["plan"]
    run = requested(client, plan, of("olga")).json()["run"]
    assert client.get("/api/v1/plans").status_code == 401
    (known,) = client.get("/api/v1/plans", headers=of("vera")).json()["plans"]
    assert known["plan_id"] == plan["plan_id"]
    assert known["runs"] == [{"run_id": run["run_id"], "state": "QUEUED"}]
    assert known["is_waiting"]
    hidden = client.get("/api/v1/plans?cluster=guarded", headers=of("vera"))
    assert hidden.status_code == 404


@pytest.mark.parametrize("name", ["unload", "split"])
def test_a_plan_is_that_of_the_command(client, site, capsys, tmp_path, name):
    bundle = bundle_of(site)
    body = {"bundles": [bundle]}
    made = client.post(f"/api/v1/plans/fleet/{name}", json=body).json()["plan"]
    more = () if name == "unload" else ("--plan", str(tmp_path / "plan.json"))
    words = (name, str(site.stored.path), "--bundle", bundle, *more)
    assert command_plan(capsys, *words) == made["steps"]


def command_plan(capsys, *words):
    """The steps of a command's plan; without one its sentence."""
    capsys.readouterr()
    code = run([*words, "--json"])
    body = json.loads(capsys.readouterr().out)
    if code:
        return body["error"]["message"]
    return body["plan"]["steps"] if body["plan"] else body["answer"]


def test_a_policy_is_planned(client):
    body = {
        "kind": "publish_rate",
        "name": "acme/orders",
        "value": '{"publishThrottlingRateInMsg": 5}',
    }
    made = client.post("/api/v1/plans/fleet/policy", json=body)
    assert made.status_code == 200, made.text
    assert made.json()["plan"]["steps"][0]["policy"] == "publish_rate"
    body["kind"] = "publish_rat"
    assert (
        "Did you mean publish_rate"
        in client.post("/api/v1/plans/fleet/policy", json=body).json()["hint"]
    )


def test_every_plan_has_an_example_that_fits_its_request(client):
    for name, maker in MAKERS.items():
        parse(maker.request, maker.example)
        assert client.post(f"/api/v1/plans/nowhere/{name}", json=maker.example).status_code == 404


def test_a_request_is_json_of_a_limited_size(client):
    form = client.post("/api/v1/jobs", data={"kind": "drill"})
    assert (form.status_code, form.json()["status"]) == (415, 415)
    broken = client.post("/api/v1/jobs", content="{", headers={"Content-Type": "application/json"})
    assert broken.status_code == 400
    wrong = client.put("/api/v1/jobs")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, POST")


def test_a_request_that_is_too_large_or_too_slow_is_refused(client, monkeypatch):
    monkeypatch.setattr(resource, "MAX_BODY_BYTES", 1_000)
    headers = {"Content-Type": "application/json"}
    announced = client.post("/api/v1/jobs", content=b" " * 1_001, headers=headers)
    assert (announced.status_code, "larger than" in announced.json()["detail"]) == (413, True)
    parts = (b" " * 400 for _ in range(3))  # without Content-Length
    assert client.post("/api/v1/jobs", content=parts, headers=headers).status_code == 413
    monkeypatch.setattr(resource, "_BODY_WITHIN_S", 0.1)
    with served(routes.ROUTES) as url, closing(HTTPConnection(url.partition("//")[2])) as slow:
        slow.request("POST", "/api/v1/jobs", headers={**headers, "Content-Length": "9"})
        answer = slow.getresponse()
        assert (answer.status, b"not complete" in answer.read()) == (408, True)


def test_slow_requests_of_one_caller_leave_turns_for_others(site, monkeypatch):
    most = counted_answers(monkeypatch)
    with served(routes.ROUTES) as url, ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda _: requests.get(f"{url}/api/v1/runs"), range(12)))
    assert {one.status_code for one in found} == {200}
    assert 1 < max(most) <= resource.MAX_OF_ONE < resource.MAX_AT_ONCE


def test_the_journal_is_verified_once_for_many_requests(client, monkeypatch):
    monkeypatch.setattr(verifications, "_verifications", verifications._Verifications())
    count = []
    verify = services.verify_journal
    monkeypatch.setattr(
        services, "verify_journal", lambda config: count.append(1) or verify(config)
    )
    config = services.page_config()
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: verifications._verifications.of(config), range(6)))
    assert len(count) == 1
    shown = client.get("/api/v1/journal").headers["trimtab-verified-at"]
    assert {at.isoformat() for at, _ in found} == {shown}
    assert len(count) == 1
    monkeypatch.setattr(verifications, "VERIFIED_FOR_S", -1.0)
    client.get("/api/v1/journal")
    assert len(count) == 2


def test_more_rows_than_an_answer_may_have_are_not_read(client, site, monkeypatch):
    Recorder(history(services.page_config()), "fleet").record(load_snapshot(site.stored.path))
    recorded = "/api/v1/history/fleet?kind=brokers&start=2000-01-01"
    table = "/api/v1/snapshots/fleet/latest/brokers"
    monkeypatch.setattr(tables, "MAX_JSON_ROWS", 3)
    for path in (recorded, table):
        assert "Accept: application/vnd" in client.get(path).json()["hint"]
        assert client.get(path, headers=ARROW).status_code == 200
    monkeypatch.setattr(snapshots, "MAX_ROWS", 3)
    monkeypatch.setattr(tables, "MAX_ROWS", 3)
    monkeypatch.setattr(snapshots, "read_table", None)
    for path in (recorded, table):
        refused = client.get(path, headers=ARROW)
        assert refused.status_code == 400, refused.text
    assert "More than 3 rows" in client.get(recorded, headers=ARROW).json()["detail"]


def test_rows_are_the_same_in_batches(client, monkeypatch):
    place = "/api/v1/snapshots/fleet/latest/bundles"
    whole = client.get(place).json()["rows"]
    monkeypatch.setattr(tables, "_BATCH", 7)
    assert client.get(place).json()["rows"] == whole
    assert len(whole) > 7
    described = client.get("/api/v1/snapshots/fleet/latest").json()["tables"]
    empty = next(name for name, one in described.items() if not one["rows"])
    assert client.get(f"/api/v1/snapshots/fleet/latest/{empty}").json()["rows"] == []


def signed_in(folder):
    """Return a client of a site with sign-in, and the headers with a user's token."""
    users = UserFile(folder / "state" / "users.json")
    tokens = {}
    for name in ("vera", "olga", "oskar", "tom"):
        users.set_user(name, "correct horse battery")
        _, tokens[name] = users.add_token(name, (), 1, datetime.now(UTC))
    app = Starlette(routes=list(routes.ROUTES), middleware=[Middleware(SignInGuard)])
    return TestClient(app), lambda name: {"Authorization": f"Bearer {tokens[name]}"}


def test_roles_scopes_and_approvals_hold(tmp_path, monkeypatch):
    approval = '[clusters.approval]\nneeded = "always"\n'
    site = site_of(tmp_path, monkeypatch, f"{FLEET}{approval}{GUARDED}{SIGN_IN}")
    client, of = signed_in(tmp_path)
    plan = made(client, site, of("vera")).json()["plan"]
    refused = requested(client, plan, of("vera"))
    assert (refused.status_code, "vera has viewer role" in refused.json()["detail"]) == (403, True)
    assert requested(client, plan, of("tom")).status_code == 403  # another tenant's operator
    assert requested(client, plan).status_code == 401
    for name in ("vera", "tom"):  # a dry run reads the cluster
        assert requested(client, plan, of(name), dry_run=True).status_code == 403
    created = requested(client, plan, of("olga"))
    assert created.status_code == 201
    assert created.json()["is_waiting"]
    assert created.json()["run"]["requested_by"] == "olga"
    place = created.headers["location"]
    own = client.post(f"{place}/approve", json={}, headers=of("olga"))
    assert own.status_code in (403, 409)
    empty = client.post(f"{place}/reject", json={}, headers=of("oskar"))
    assert (empty.status_code, "comment" in empty.json()["detail"]) == (400, True)
    approved = client.post(f"{place}/approve", json={"comment": "fine"}, headers=of("oskar"))
    assert approved.status_code == 200
    assert approved.json()["decision"] == {"is_approved": True, "by": "oskar", "comment": "fine"}
    assert not approved.json()["is_waiting"]
    assert client.post(f"{place}/stop", json={}, headers=of("vera")).status_code == 403
    undo = client.post(f"{place}/undo", json={}, headers=of("vera"))
    assert (undo.status_code, "vera" in undo.json()["detail"]) == (403, True)
    hidden = client.get("/api/v1/snapshots/guarded", headers=of("olga"))
    assert hidden.status_code == 404
    job = {"kind": "drill", "parameters": {"clusters": ["fleet"]}}
    assert client.post("/api/v1/jobs", json=job, headers=of("vera")).status_code == 403
    asked = {**of("vera"), "Prefer": "respond-async"}
    assert client.get("/api/v1/drill/fleet", headers=asked).status_code == 403


def test_nothing_of_hidden_jobs_is_named(tmp_path, monkeypatch):
    site_of(tmp_path, monkeypatch, f"{FLEET}{GUARDED}{SIGN_IN}")
    users = UserFile(tmp_path / "state" / "users.json")
    users.set_user("olga", "correct horse battery")
    _, token = users.add_token("olga", (), 1, datetime.now(UTC))
    app = Starlette(routes=list(routes.ROUTES), middleware=[Middleware(SignInGuard)])
    queue = JobQueue(tmp_path / "state" / "jobs", services.page_config().journal_address)
    others = queue.add("drill", {"clusters": ["guarded"]}, "root", datetime.now(UTC))
    for name in (others, others[:-1]):
        headers = {"Authorization": f"Bearer {token}"}
        hidden = TestClient(app).get(f"/api/v1/jobs/{name}", headers=headers)
        assert (hidden.status_code, others in hidden.json()["hint"]) == (404, False)
        assert str(tmp_path) not in hidden.text


def test_a_long_question_is_answered_with_its_job(client, capsys):
    asked = client.get("/api/v1/drill/fleet?seed=4", headers={"Prefer": "respond-async"})
    assert asked.status_code == 202
    shown = client.get(asked.headers["location"]).json()
    assert shown == asked.json()
    assert (shown["asked"]["clusters"], shown["asked"]["seed"]) == (["fleet"], 4)
    listed = printed(capsys, "jobs", "list")["jobs"]
    assert [{k: v for k, v in one.items() if k != "folder"} for one in listed] == client.get(
        "/api/v1/jobs"
    ).json()["jobs"]
    assumed = client.get("/api/v1/drill/fleet?release=4.0", headers={"Prefer": "respond-async"})
    assert assumed.status_code == 400
    stopped = client.post(f"{asked.headers['location']}/stop", json={})
    assert stopped.status_code == 200
    assert client.get(f"{asked.headers['location']}/failures").status_code == 404
    kinds = {one["kind"]: one for one in client.get("/api/v1/job-kinds").json()["kinds"]}
    assert "hot_threshold" in kinds["drill"]["parameters"]["properties"]


def test_a_long_diagnosis_is_answered_with_its_job(client):
    asked = client.get("/api/v1/diagnose/fleet?seconds=60", headers={"Prefer": "respond-async"})
    assert asked.status_code == 202
    shown = asked.json()
    assert (shown["kind"], shown["asked"]["seconds"]) == ("diagnose", 60.0)


def end_jobs(site):
    """Run the queued jobs to their end."""
    config = services.page_config()
    stop = threading.Event()
    tools = JobResources(spark=lambda: None, history=lambda: None)
    work = (config, jobs.kinds(), tools, stop, lambda _: None)
    server = threading.Thread(target=serve, args=work)
    server.start()
    try:
        for _ in range(600):
            if all(one.is_ended for one in jobs.jobs(config)):
                return
            stop.wait(0.1)
        raise TimeoutError
    finally:
        stop.set()
        server.join()


def test_a_request_and_snapshot_have_one_job_and_then_its_answer(client, site, monkeypatch):
    path, prefer = "/api/v1/drill/fleet?seed=4&domains=false", {"Prefer": "respond-async"}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: client.get(path, headers=prefer), range(4)))
    assert {one.status_code for one in answers} == {202}
    (location,) = {one.headers["location"] for one in answers}
    other = client.get("/api/v1/drill/fleet?seed=5&domains=false", headers=prefer)
    assert other.headers["location"] != location
    end_jobs(site)

    done = client.get(path, headers=prefer)
    direct = client.get(path)
    assert (done.status_code, direct.status_code) == (200, 200)
    assert done.json() == direct.json()
    assert done.headers["etag"] == direct.headers["etag"]
    same = client.get(path, headers=prefer | {"If-None-Match": done.headers["etag"]})
    assert same.status_code == 304
    text = {"Accept": MEDIA_TYPE}
    kept, now = client.get(path, headers=prefer | text), client.get(path, headers=text)
    assert unpacked(kept.content).lines == unpacked(now.content).lines

    SnapshotStore(site.path / "state" / "snapshots").put(make_snapshot(brokers=4, bundles=61))
    assert client.get(path, headers=prefer).headers["etag"] == done.headers["etag"]
    monkeypatch.setattr(operations, "ANSWER_FOR_S", -1.0)
    newer = client.get(path, headers=prefer)
    assert newer.status_code == 202
    assert newer.headers["location"] != location
    assert client.get(path, headers=prefer).headers["location"] == newer.headers["location"]


def test_the_failure_of_a_job_is_the_answer_for_a_while(client, site, monkeypatch):
    path, prefer = "/api/v1/drill/fleet?only=nowhere", {"Prefer": "respond-async"}
    assert client.get(path, headers=prefer).status_code == 202
    end_jobs(site)
    failed = client.get(path, headers=prefer)
    assert failed.status_code == 500
    assert failed.json()["code"] == client.get(path).json()["code"]
    assert failed.json()["detail"] == client.get(path).json()["detail"]
    monkeypatch.setattr(operations, "ANSWER_FOR_S", -1.0)
    assert client.get(path, headers=prefer).status_code == 202


def test_who_may_start_no_job_gets_the_answer_of_another_one(tmp_path, monkeypatch):
    site_of(tmp_path, monkeypatch, f"{FLEET}{SIGN_IN}")
    client, of = signed_in(tmp_path)
    path, prefer = "/api/v1/drill/fleet", {"Prefer": "respond-async"}
    assert client.get(path, headers=of("vera") | prefer).status_code == 403
    assert client.get(path, headers={"Authorization": "Bearer no"} | prefer).status_code == 403
    started = client.get(path, headers=of("olga") | prefer)
    assert started.status_code == 202
    seen = client.get(path, headers=of("vera") | prefer)
    assert (seen.status_code, seen.headers["location"]) == (202, started.headers["location"])


def test_saved_snapshots_are_listed_and_returned(client, site):
    listed = client.get("/api/v1/snapshots/fleet").json()["snapshots"]
    assert [one["snapshot_id"] for one in listed] == [site.stored.snapshot_id]
    whole = client.get("/api/v1/snapshots/fleet/latest")
    assert whole.json()["tables"]["brokers"]["rows"] == 4
    tag = {"If-None-Match": whole.headers["etag"]}
    assert client.get("/api/v1/snapshots/fleet/latest", headers=tag).status_code == 304
    place = f"/api/v1/snapshots/fleet/{site.stored.snapshot_id}/brokers"
    rows = client.get(place).json()["rows"]
    table = pa.ipc.open_stream(client.get(place, headers=ARROW).content).read_all()
    assert table.to_pylist() == rows
    assert client.get("/api/v1/snapshots/fleet/none").status_code == 404
    assert "brokers" in client.get(place[:-1]).json()["hint"]


def test_recorded_rows_are_returned_as_json_and_as_arrow(client, site):
    store = history(services.page_config())
    recorder = Recorder(store, "fleet")
    recorder.record(load_snapshot(site.stored.path))
    query = "/api/v1/history/fleet?kind=brokers&start=2000-01-01&columns=broker"
    answer = client.get(query)
    assert answer.status_code == 200, answer.text
    rows = answer.json()["rows"]
    assert len(rows) == 4
    assert set(rows[0]) == {"taken_at", "broker"}
    table = pa.ipc.open_stream(client.get(query, headers=ARROW).content).read_all()
    assert table.to_pylist() == rows
    minutes = client.get("/api/v1/history/fleet?kind=minutes&start=2000-01-01").json()["rows"]
    assert [one["snapshot_id"] for one in minutes] == [site.stored.snapshot_id]
    for wrong, words in (
        ("kind=broker", "Did you mean brokers"),
        ("kind=brokers&start=soon", "'soon' is not a time"),
        ("kind=brokers&start=now&end=-1h", "Swap start and end"),
        ("", "kind is required"),
    ):
        refused = client.get(f"/api/v1/history/fleet?{wrong}")
        assert refused.status_code == 400, refused.text
        assert words in f"{refused.json()['detail']} {refused.json()['hint']}"


def test_a_cluster_that_cannot_be_read_is_named(client, site, monkeypatch):
    def unread(_, cluster):
        raise UnreachableError(
            f"No connection to {cluster.zookeeper}.",
            endpoint=cluster.zookeeper,
            operation="read",
            outcome="not_sent",
            hint="Check zookeeper.",
        )

    monkeypatch.setattr(services, "snapshot_of", unread)
    plan = made(client, site).json()["plan"]
    assert "stale_snapshot" in [one["code"] for one in plan["diagnostics"]]
    place = requested(client, plan).headers["location"]
    undone = client.post(f"{place}/undo", json={})
    assert undone.status_code == 502, undone.text
    assert (undone.json()["code"], undone.json()["hint"]) == ("unreachable", "Check zookeeper.")
    assert "127.0.0.1:1" in undone.json()["detail"]
