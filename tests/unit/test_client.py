"""The Python client: the requests and answers of a running Trimtab."""

from __future__ import annotations

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from fleet_builder import make_snapshot
from limits import RateLimitItemPerMinute
from served import served
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Route

from connectors.access.users import UserFile
from core.errors import ComputeError, ForbiddenError, InputError, OpsError, UnreachableError
from core.operations.registry import operations
from core.snapshot.store import SnapshotStore, load_snapshot
from dashboard.api import resource, routes
from dashboard.cli.main import run
from dashboard.sign_in import SignInGuard
from trimtab.client import Client, ServerRefusalError
from trimtab.token import TOKEN_ENV, TOKEN_FILE_ENV

SIGN_IN = (
    '[access]\nsign_in = "users"\n'
    '[[access.grants]]\nrole = "viewer"\npeople = ["ann"]\nclusters = ["fleet"]\n'
)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setattr(resource, "_LIMIT", RateLimitItemPerMinute(10**6))
    monkeypatch.delenv(TOKEN_ENV, raising=False)
    monkeypatch.delenv(TOKEN_FILE_ENV, raising=False)
    file = tmp_path / "trimtab.toml"
    monkeypatch.setenv("TRIMTAB_CONFIG", str(file))
    file.write_text(
        f'state_dir = "{tmp_path}/state"\n'
        '[[clusters]]\nname = "fleet"\nzookeeper = "127.0.0.1:1"\nread_only = false\n'
        '[[clusters]]\nname = "empty"\nzookeeper = "127.0.0.1:1"\n'
    )
    stored = SnapshotStore(tmp_path / "state" / "snapshots").put(
        make_snapshot(brokers=4, bundles=60)
    )
    with served(routes.ROUTES, [Middleware(SignInGuard)]) as url:
        yield SimpleNamespace(path=tmp_path, file=file, url=url, stored=stored)


def test_an_answer_has_its_tables_and_values(site):
    owners = Client(site.url).owners("fleet", only_problems=False)
    assert owners.bundles.num_rows == 64
    assert len(owners.bundles.to_pandas()) == 64
    assert owners.bundles.schema.equals(
        operations()["owners"].schemas["bundles"], check_metadata=True
    )
    assert owners.answer == owners.body["answer"]
    assert owners.snapshot_id == site.stored.snapshot_id
    assert owners.taken_at == site.stored.taken_at
    assert "counts" in dir(owners)
    with pytest.raises(AttributeError, match="bundles"):
        _ = owners.bundels


def test_every_operation_is_a_method_with_the_fields_of_its_request(site):
    client = Client(site.url)
    for name, operation in operations().items():
        method = getattr(client, name)
        fields = set(operation.request.__struct_fields__)
        assert set(inspect.signature(method).parameters) == {"cluster", *fields}
        assert method.__doc__
        assert name in dir(client)
    with pytest.raises(AttributeError, match="it has balance, diagnose"):
        _ = client.nosuch


def test_a_request_is_checked_before_it_is_sent_and_by_the_server(site):
    client = Client(site.url)
    with pytest.raises(InputError, match="hot_threshold"):
        client.drill("fleet", hot_threshold="much")
    with pytest.raises(ServerRefusalError, match="zone-q") as refused:
        client.drill("fleet", only=["zone-q"])
    assert (refused.value.status, refused.value.code) == (400, "unknown_name")
    with pytest.raises(ServerRefusalError, match="No cluster named 'fleeet'") as refused:
        client.drill("fleeet")
    assert (refused.value.status, refused.value.hint) == (404, "Did you mean fleet?")
    with pytest.raises(ServerRefusalError, match="empty has no snapshot"):
        client.drill("empty")
    assumed = client.drill("fleet", release="3.0", set=["loadBalancerEnabled=true"])
    assert assumed.failures.num_rows


def test_plans_runs_jobs_snapshots_are_there_too(site):
    client = Client(site.url)
    bundle = client.snapshot_table("fleet", "bundles")["bundle"][0].as_py()
    made = client.plan("fleet", "unload", bundles=[bundle])
    assert client.preview(made["plan"])["steps"]
    run_id = client.request_run(made["plan"], "fleet", "try")["run"]["run_id"]
    assert client.run(run_id)["run"]["state"] == "QUEUED"
    assert client.act(run_id, "stop", reason="enough")["run"]["is_control_pending"]
    assert [one["run_id"] for one in client.runs("fleet")] == [run_id]
    job = client.start_job("drill", clusters=["fleet"])
    assert client.job(job["id"])["state"] == "queued"
    with pytest.raises(OpsError, match="did not end within 0 s"):
        client.wait(job["id"], timeout_s=0)
    assert [one["snapshot_id"] for one in client.snapshots("fleet")] == [site.stored.snapshot_id]
    assert client.history("fleet", "events").num_rows == 0
    assert load_snapshot(site.stored.path).brokers.equals(client.snapshot_table("fleet", "brokers"))


@pytest.mark.parametrize(
    "address",
    ["", "127.0.0.1:8501", "ftp://a", "http://", "http://u:p@a", "http://a?x=1", "http://a:x"],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(InputError, match="not the address of a server"):
        Client(address)


def test_a_server_that_is_not_there_or_is_another_is_named():
    with pytest.raises(UnreachableError, match=r"No connection to http://127\.0\.0\.1:1"):
        Client("http://127.0.0.1:1", "").clusters()
    other = Route("/api/v1/clusters", lambda _: PlainTextResponse("hello"))
    moved = Route("/api/v1/jobs/x", lambda _: RedirectResponse("http://127.0.0.1:1/"))
    with served([other, moved]) as url:
        for ask in (Client(url, "").clusters, lambda: Client(url, "").job("x")):
            with pytest.raises(ComputeError, match="not as Trimtab does"):
                ask()


def test_the_token_is_that_of_the_environment_or_of_a_file(site, monkeypatch, capsys):
    site.file.write_text(f"{site.file.read_text()}{SIGN_IN}")
    users = UserFile(site.path / "state" / "users.json")
    users.set_user("ann", "correct horse battery")
    _, token = users.add_token("ann", (), 1, datetime.now(UTC))
    with pytest.raises(ServerRefusalError, match="needs an API token") as refused:
        Client(site.url).clusters()
    assert refused.value.status == 401
    with pytest.raises(ServerRefusalError) as refused:
        Client(site.url, "trimtab_wrong").clusters()
    assert refused.value.status == 403
    assert [one["name"] for one in Client(site.url, token).clusters()] == ["fleet"]
    file = site.path / "token"
    file.write_text(f"{token}\n")
    monkeypatch.setenv(TOKEN_FILE_ENV, str(file))
    assert Client(site.url).owners("fleet").bundles.num_rows == 64
    assert run(["owners", "fleet", "--server", site.url]) == 0
    assert run(["owners", "empty", "--server", site.url]) == 1
    assert "No cluster named 'empty'" in capsys.readouterr().err
    monkeypatch.setenv(TOKEN_FILE_ENV, str(site.path / "nosuch"))
    with pytest.raises(ForbiddenError, match="Could not read the API token file"):
        Client(site.url)


def test_a_command_says_what_is_wrong_with_its_server(site, capsys):
    for words, code, told in (
        (("fleet", "--server", "nosuch"), 1, "not the address of a server"),
        (("fleet", "--server", "http://127.0.0.1:1"), 1, "No connection"),
        (("fleeet", "--server", site.url), 1, "Did you mean fleet?"),
        (("fleet", "--server", site.url, "--engine", "spark"), 2, "cannot be combined"),
        (("fleet", "--server", site.url, "--set", "nothing=1"), 2, "nothing"),
        (("fleet", "--server", site.url, "--only", "zone-q"), 1, "zone-q"),
    ):
        assert run(["drill", *words]) == code, words
        assert told in capsys.readouterr().err


def test_a_crowd_leaves_threads_for_the_pages(site, monkeypatch):
    active, most, lock, answered = [], [], threading.Lock(), resource._answered

    def slow(*args):
        with lock:
            active.append(1)
            most.append(len(active))
        threading.Event().wait(0.05)
        with lock:
            active.pop()
        return answered(*args)

    monkeypatch.setattr(resource, "_answered", slow)
    with ThreadPoolExecutor(24) as pool:
        found = [pool.submit(Client(site.url, "").runs) for _ in range(24)]
        assert [one.result() for one in found] == [[]] * 24
    assert 1 < max(most) <= resource.MAX_AT_ONCE
