"""``--server URL``: the same answer as of a local command, with the caller's role and clusters."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from fleet_builder import make_snapshot
from limits import RateLimitItemPerMinute
from pegasus_snapshots import generated
from served import served
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from connectors.access.users import UserFile
from core.snapshot.store import SnapshotStore, load_snapshot
from dashboard import services
from dashboard.api import resource, routes
from dashboard.cli.main import run
from dashboard.services import access, jobs
from dashboard.sign_in import SignInGuard

FLEET = (
    '[[clusters]]\nname = "fleet"\nzookeeper = "127.0.0.1:1"\nread_only = false\n'
    'admin_urls = ["http://127.0.0.1:1"]\n'
)
GUARDED = '[[clusters]]\nname = "guarded"\nzookeeper = "127.0.0.1:1"\nread_only = false\n'
PEGASUS = (
    '[[clusters]]\nname = "peg"\nkind = "pegasus"\nmeta_servers = ["127.0.0.1:1"]\n'
    "read_only = false\n"
)
SIGN_IN = (
    '[access]\nsign_in = "users"\n'
    '[[access.grants]]\nrole = "viewer"\npeople = ["vera"]\nclusters = ["fleet"]\n'
    '[[access.grants]]\nrole = "operator"\npeople = ["olga"]\nclusters = ["fleet"]\n'
    '[[access.grants]]\nrole = "admin"\npeople = ["ada"]\n'
)


def site_of(folder, monkeypatch, text):
    monkeypatch.setattr(resource, "_LIMIT", RateLimitItemPerMinute(10**6))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(folder / "trimtab.toml"))
    (folder / "trimtab.toml").write_text(f'state_dir = "{folder}/state"\n{text}')
    kept = SnapshotStore(folder / "state" / "snapshots")
    stored = kept.put(make_snapshot(brokers=4, bundles=60))
    peg = generated(3, 8, 4, taken_at=datetime.now(UTC).replace(microsecond=0))
    stored_peg = kept.put(peg)
    rows = load_snapshot(stored.path).bundles.to_pylist()
    bundle = next(row["bundle"] for row in rows if row["owner"])
    work = folder / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return SimpleNamespace(
        path=folder,
        work=work,
        pulsar=stored.path,
        pegasus=stored_peg.path,
        peg=peg.manifest.cluster,
        bundle=bundle,
    )


@pytest.fixture
def site(tmp_path, monkeypatch):
    return site_of(tmp_path, monkeypatch, f"{FLEET}{GUARDED}{PEGASUS}")


@pytest.fixture
def server(site):
    with served(routes.ROUTES) as address:
        yield address


def printed(capsys, *words):
    capsys.readouterr()
    code = run([str(one) for one in words])
    out = capsys.readouterr()
    return code, out.out, out.err


READS = [
    ("explain", "{pulsar}"),
    ("doctor", "{pulsar}"),
    ("isolation", "{pulsar}"),
    ("unload", "{pulsar}", "--bundle", "{bundle}"),
    ("split", "{pulsar}", "--bundle", "{bundle}"),
    ("optimize", "{pulsar}"),
    ("pegasus", "health", "{pegasus}"),
    ("pegasus", "nodes", "{pegasus}"),
    ("pegasus", "tables", "{pegasus}"),
    ("pegasus", "rebalance", "{pegasus}"),
]
BROKER = "10.1.0.1:8080"
STEADY = (
    "plan_id",
    "created_at",
    "expires_at",
    "signature",
    "checksum",
    "path",
    "elapsed_ms",
    "predicted_from_sentence",
)


def steady(value):
    """Return JSON without what differs from one moment to the next."""
    if isinstance(value, dict):
        return {key: steady(one) for key, one in value.items() if key not in STEADY}
    return [steady(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "words", READS, ids=lambda words: "-".join(words[:2]).replace("-{pulsar}", "")
)
def test_the_answer_is_that_of_the_local_command(site, server, capsys, words):
    local = [one.format(**vars(site)) for one in words]
    names = vars(site) | {"pulsar": "fleet", "pegasus": site.peg}
    remote = [one.format(**names) for one in words]
    code, out, err = printed(capsys, *local, "--json")
    assert code in (0, 3), err
    sent, found, _ = printed(capsys, *remote, "--server", server, "--json")
    assert sent == code
    assert steady(json.loads(found)) == steady(json.loads(out))


def test_runs_are_requested_shown_controlled_and_exported(site, server, capsys):
    plan = ("unload", "fleet", "--bundle", site.bundle, "--plan", "plans/a.json")
    code, out, err = printed(capsys, *plan, "--server", server)
    assert (code, err) == (0, "")
    assert "Written to plans/a.json." in out
    assert f"{site.path}" not in out
    assert Path("plans/a.json").is_file()

    preview = ("preview", "plans/a.json", "--snapshot", "fleet", "--server", server)
    assert printed(capsys, *preview)[0] == 0
    apply = ("apply", "plans/a.json", "--cluster", "fleet", "--reason", "hot", "--server", server)
    code, _, err = printed(capsys, *apply)
    assert (code, "No terminal" in err) == (2, True)
    code, out, err = printed(capsys, *apply, "--yes", "--json")
    assert code == 0, err
    run_id = json.loads(out)["run"]["run_id"]

    local = json.loads(printed(capsys, "runs", "--json")[1])
    asked = json.loads(printed(capsys, "runs", "--json", "--server", server)[1])
    assert asked == {key: one for key, one in local.items() if key != "journal"}
    whole = printed(capsys, "runs", run_id, "--json")[1]
    assert printed(capsys, "runs", run_id, f"--server={server}", "--json")[1] == whole
    text = printed(capsys, "runs", run_id)
    assert printed(capsys, "runs", run_id, "--server", server) == text
    assert printed(capsys, "review", run_id, "--server", server) == printed(
        capsys, "review", run_id
    )

    code, out, _ = printed(capsys, "runs", run_id, "--stop", "--reason", "no", "--server", server)
    assert (code, "requested" in out) == (0, True)
    code, _, err = printed(capsys, "runs", "--verify", "--server", server)
    assert (code, err) == (0, "")
    export = printed(capsys, "runs", run_id, "--export", "x.jsonl", "--server", server)
    assert export[0] == 0
    assert len(Path("x.jsonl").read_text().splitlines()) == 2
    own = printed(capsys, "audit", "--json")[1]
    assert printed(capsys, "audit", "--json", "--server", server)[1] == own


def test_jobs_are_listed_and_stopped_without_the_folder_of_the_server(site, server, capsys):
    config = services.page_config()
    job = jobs.request_job(config, "drill", {"clusters": ["fleet"]}, access.local_identity())
    listed = json.loads(printed(capsys, "jobs", "list", "--json", "--server", server)[1])
    assert [one["id"] for one in listed["jobs"]] == [job]
    assert str(site.path) not in json.dumps(listed)
    code, out, _ = printed(capsys, "jobs", "stop", job, "--server", server)
    assert (code, "stopped" in out) == (0, True)
    code, _, err = printed(capsys, "jobs", "serve", "--server", server)
    assert (code, "jobs serve" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("demo",), "takes no --server"),
        (("users", "list"), "takes no --server"),
        (("backup", "there"), "takes no --server"),
        (("collect", "fleet"), "takes no --server"),
        (("capture", "fleet", "--out", "x"), "takes no --server"),
        (("metrics",), "takes no --server"),
    ],
)
def test_a_command_of_one_machine_says_so_with_the_remedy(server, capsys, words, why):
    code, out, err = printed(capsys, *words, "--server", server)
    assert (code, out) == (2, "")
    assert why in err
    assert err.count("\n") == 1


def send(client, *arguments, files=None, headers=None):
    body = {"arguments": list(arguments), "files": files or {}}
    return client.post("/api/v1/commands", json=body, headers=headers)


@pytest.fixture
def client(site):
    return TestClient(Starlette(routes=list(routes.ROUTES)))


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("users", "list"), 400),
        (("demo",), 400),
        (("jobs", "serve"), 400),
        (("nosuch",), 400),
        (("runs", "--help"), 400),
        (("owners", "fleet"), 400),
        (("explain", "{pulsar}"), 400),
        (("explain", "../state/snapshots"), 400),
        (("optimize", "/etc"), 400),
        (("preview", "../../etc/passwd", "--snapshot", "fleet"), 400),
        (("preview", "/etc/hostname", "--snapshot", "fleet"), 409),
        (("runs", "--export", "../x.jsonl"), 400),
        (("runs", "--verify", "--archive", "/etc/passwd"), 400),
        (("history", "minutes", "fleet", "--history", "/etc"), 400),
        (("runs", "20260101-000000-aaaaaa"), 400),
        (("unload", "fleet", "--bundle", "nowhere/x/0x0_0x1"), 409),
    ],
)
def test_no_file_of_the_server_and_no_command_of_a_machine_is_reached(
    site, client, arguments, status
):
    answer = send(client, *(one.format(**vars(site)) for one in arguments))
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert "root:" not in answer.text
    assert "/trimtab-" not in answer.text


def test_a_stale_or_foreign_plan_is_refused(site, client, server, capsys):
    assert (
        printed(
            capsys,
            "unload",
            "fleet",
            "--bundle",
            site.bundle,
            "--plan",
            "a.json",
            "--server",
            server,
        )[0]
        == 0
    )
    plan = json.loads(Path("a.json").read_text())
    Path("a.json").write_text(json.dumps(plan | {"reason": "another"}))
    apply = ("apply", "a.json", "--cluster", "fleet", "--reason", "hot", "--yes")
    code, _, err = printed(capsys, *apply, "--server", server)
    assert (code, "a.json" in err) == (1, True)
    assert str(site.path) not in err


def test_roles_and_clusters_of_the_caller_hold(tmp_path, monkeypatch):
    site = site_of(tmp_path, monkeypatch, f"{FLEET}{GUARDED}{PEGASUS}{SIGN_IN}")
    users = UserFile(tmp_path / "state" / "users.json")
    tokens = {}
    for name in ("vera", "olga", "ada"):
        users.set_user(name, "correct horse battery")
        _, tokens[name] = users.add_token(name, (), 1, datetime.now(UTC))
    app = Starlette(routes=list(routes.ROUTES), middleware=[Middleware(SignInGuard)])
    client = TestClient(app)

    def of(name):
        return {"Authorization": f"Bearer {tokens[name]}"}

    assert send(client, "runs").status_code == 401
    assert send(client, "runs", headers={"Authorization": "Bearer no"}).status_code == 403
    unload = ("unload", "fleet", "--bundle", site.bundle, "--plan", "a.json")
    made = send(client, *unload, headers=of("vera")).json()
    files = {"a.json": made["files"]["a.json"]}
    apply = ("apply", "a.json", "--cluster", "fleet", "--reason", "hot", "--yes", "--json")
    refused = send(client, *apply, files=files, headers=of("vera"))
    assert (refused.status_code, "vera" in refused.json()["detail"]) == (403, True)
    dry = send(client, *apply, "--dry-run", files=files, headers=of("vera"))
    assert dry.status_code == 403
    done = send(client, *apply, files=files, headers=of("olga"))
    assert done.status_code == 200
    asked = done.json()["body"]["run"]
    assert asked["requested_by"] == "olga"
    who = send(client, "whoami", "--json", headers=of("olga")).json()["body"]
    assert "olga" in json.dumps(who)
    assert "guarded" not in json.dumps(who)
    for hidden in (
        ("explain", "guarded"),
        ("policy", "list", "guarded"),
        ("pegasus", "nodes", "peg"),
    ):
        assert send(client, *hidden, headers=of("olga")).status_code == 400
    for whole in (("audit",), ("runs", "--export", "x.jsonl")):
        assert send(client, *whole, headers=of("olga")).status_code == 403
        assert send(client, *whole, "--cluster", "fleet", headers=of("olga")).status_code == 200
        assert send(client, *whole, "--cluster", "guarded", headers=of("olga")).status_code == 400
    undo = ("undo", asked["run_id"], "--reason", "no", "--yes")
    assert send(client, *undo, headers=of("vera")).status_code == 403
    stop = ("runs", asked["run_id"], "--stop")
    assert send(client, *stop, headers=of("vera")).status_code == 403
    assert send(client, *stop, headers=of("olga")).status_code == 200


def test_a_long_command_ends(client, monkeypatch):
    monkeypatch.setattr("dashboard.api.commands.WITHIN_S", -1.0)
    assert send(client, "explain", "fleet", "--broker", BROKER).status_code == 504
    assert send(client, "pegasus", "health", "peg").status_code == 504
