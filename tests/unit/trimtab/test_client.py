"""The Python client: the requests and answers of a running Trimtab."""

from __future__ import annotations

import copy
import inspect
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import ForwardRef, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
import pyarrow as pa
import pytest
from fleet_builder import make_snapshot
from limits import RateLimitItemPerMinute
from pegasus_snapshots import generated
from places import ROOT
from served import counted_answers, served
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Route
from tier_year import END, Year, write_year

from connectors.access.users import UserFile
from core.errors import ComputeError, ForbiddenError, InputError, OpsError, UnreachableError
from core.operations.registry import operations
from core.request import params_of
from core.snapshot.store import SnapshotStore, load_snapshot
from dashboard import services
from dashboard.api import resource, routes
from dashboard.cli.main import run
from dashboard.services.history import history
from dashboard.sign_in import SignInGuard
from trimtab import bodies
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
    assert sum(owners.body["counts"].values()) == 64
    assert owners.snapshot_id == site.stored.snapshot_id
    assert owners.taken_at == site.stored.taken_at
    assert "bundles" in dir(owners)
    assert "bundles, counts" in repr(owners)
    with pytest.raises(AttributeError, match="no table bundels; its tables: bundles, sessions"):
        _ = owners.bundels
    with pytest.raises(AttributeError, match="its tables: none"):
        _ = Client(site.url).tenants("fleet").tenants
    assert copy.copy(owners).bundles is owners.bundles


def body_types(operation):
    """Return the types of an operation's JSON, by name: one per type of answer."""
    hints = [
        get_type_hints(function.__globals__[function.__annotations__["return"]].body)["return"]
        for function in operation.answers.values()
    ]
    return {hint.__name__: hint for hint in hints}


BODIES = {name: body_types(operation) for name, operation in operations().items()}
NAMES = {name: hint for bodies in BODIES.values() for name, hint in bodies.items()}


@pytest.mark.parametrize("name", operations())
def test_every_operation_is_a_method_with_the_parameters_of_its_request(name):
    operation, method = operations()[name], getattr(Client, name)
    hints = get_type_hints(method, localns=NAMES)
    _, cluster, *params = inspect.signature(method).parameters.values()
    assert (cluster.name, hints["cluster"]) == ("cluster", str)
    declared = [(one.name, hints[one.name], one.default) for one in params]
    types = get_type_hints(operation.request)
    expected = [
        (
            one.name,
            Sequence[str] if one.is_many else types[one.name],
            inspect.Parameter.empty if one.default is msgspec.NODEFAULT else one.default,
        )
        for one in params_of(operation.request)
    ]
    if operation.can_assume:
        expected += [("set", Sequence[str], ()), ("release", str | None, None)]
    assert declared == expected
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in params)


@pytest.mark.parametrize("name", operations())
def test_every_operation_returns_the_type_of_its_json_and_its_tables(name):
    answer = get_type_hints(getattr(Client, name), localns=NAMES)["return"]
    tables = {} if get_origin(answer) else get_type_hints(answer, localns=NAMES)
    tables = {table for table, hint in tables.items() if hint is pa.Table}
    assert tables == set(operations()[name].schemas)
    (body,) = get_args(answer if get_origin(answer) else answer.__orig_bases__[0])
    text = body.__forward_arg__ if isinstance(body, ForwardRef) else body.__name__
    assert set(text.split(" | ")) == set(BODIES[name])
    assert all(is_typeddict(one) for one in BODIES[name].values())


@pytest.fixture
def pair(site):
    """A client of two clusters, called as their systems, and a bundle."""
    site.file.write_text(
        f"{site.file.read_text()}"
        '[[clusters]]\nname = "pulsar"\nzookeeper = "127.0.0.1:1"\n'
        '[[clusters]]\nname = "pegasus"\nkind = "pegasus"\nmeta_servers = ["127.0.0.1:1"]\n'
    )
    store = SnapshotStore(site.path / "state" / "snapshots")
    fleet = make_snapshot(cluster="pulsar", brokers=4, bundles=60)
    store.put(fleet)
    store.put(generated(2, 8, 5, cluster="pegasus"))
    return Client(site.url), fleet.bundles["bundle"][0].as_py()


@pytest.mark.parametrize("name", operations())
def test_answers_have_the_form_of_their_types(pair, name):
    client, bundle = pair
    fields = {"lookup": {"topic": f"persistent://{bundle[: bundle.rindex('/')]}/a"}}
    fields["place"] = {"bundle": bundle}
    for system in operations()[name].answers:
        answer = getattr(client, name)(system, **fields.get(name, {}))
        (keys,) = (
            one
            for one in BODIES[name].values()
            if set(answer.body) - {"warnings"} <= set(get_type_hints(one))
        )
        assert set(answer.body) >= keys.__required_keys__
        for key, hint in get_type_hints(keys).items():
            if key in answer.body:
                msgspec.convert(answer.body[key], hint, strict=True)
        schemas = operations()[name].schemas
        assert answer.tables.keys() <= schemas.keys()
        for table, rows in answer.tables.items():
            assert getattr(answer, table) is rows
            assert rows.schema.equals(schemas[table])


EXAMPLE = re.search(
    r"^```python\n(from trimtab\.client .*?)^```",
    (ROOT / "docs" / "reference" / "http.md").read_text(),
    re.MULTILINE | re.DOTALL,
)


def test_the_example_of_the_documents_works(site, capsys):
    cells = EXAMPLE[1].replace("https://trimtab.example.com", site.url).replace("prod", "fleet")
    names = {}
    exec(compile(cells, "http.md", "exec"), names)
    assert len(names["findings"]) == names["health"].findings.num_rows > 0
    assert names["health"].body["answer"] in capsys.readouterr().out
    assert len(names["worst"]) == 3
    assert names["run"]["state"] == "QUEUED"


def test_a_type_checker_knows_the_client(tmp_path):
    """mypy --strict takes the example of the documents, and refuses what is no parameter or key."""
    wrong = (
        'client.health("prod", targt="tight")',
        'client.health("prod", target="tihgt")',
        'client.health("prod").findngs',
        'client.health("prod").body["finding"]',
        'client.drill("prod", hot_threshold="much")',
        'client.lookup("prod")',
        'client.simulate("prod").body["moves"].upper()',
        'client.nosuch("prod")',
        'client.runs("prod")[0]["stat"]',
        'client.run("r")["run"]["steps"][0]["ownr"]',
        'client.plan("prod", "drain", nodes=["n"])["plan"]["plan_id"]',
        'client.act("r", "undo")',
        'client.undo("r")["run"]',
        'client.job("j")["tables"] + 1',
    )
    right = (
        'client.health("prod").body["findings"][0]["code"]',
        'client.drill("prod", only=["b-1"]).nodes.to_pandas()',
        'client.simulate("prod").body["moves"] + 1',
        'client.diagnose("prod").body["causes"][0]["fix"]["sentence"].upper()',
        'client.runs("prod")[0]["counts"]["DONE"] + 1',
        'client.run("r")["run"]["steps"][0]["sentence"]',
        'client.act("r", "approve", comment="fine")["is_waiting"]',
        'client.job("j")["tables"]["failures"].upper()',
    )
    file = tmp_path / "cells.py"
    file.write_text("\n".join((EXAMPLE[1], *right, *wrong)))
    command = (sys.executable, "-m", "mypy", "--no-error-summary", "--strict", str(file))
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    lines = [int(line.split(":")[1]) for line in done.stdout.splitlines() if " error: " in line]
    first = file.read_text().splitlines().index(wrong[0]) + 1
    assert sorted(set(lines)) == list(range(first, first + len(wrong))), done.stdout


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
    with pytest.raises(InputError, match="targt"):
        client._answer_to("health", "fleet", {"targt": "tight"})


def typed(value, kind):
    """Return JSON that has every key of its type and no other."""
    assert msgspec.to_builtins(msgspec.convert(value, kind, strict=True)) == value
    return value


def test_plans_runs_jobs_snapshots_are_there_too(site):
    client = Client(site.url)
    bundle = client.snapshot_table("fleet", "bundles")["bundle"][0].as_py()
    made = typed(client.plan("fleet", "unload", bundles=[bundle]), bodies.MadeJson)
    assert typed(client.preview(made["plan"]), bodies.PreviewJson)["steps"]
    run = typed(client.request_run(made["plan"], "fleet", "try"), bodies.WholeRunJson)
    run_id = run["run"]["run_id"]
    assert typed(client.run(run_id), bodies.WholeRunJson)["run"]["state"] == "QUEUED"
    stopped = typed(client.act(run_id, "stop", reason="enough"), bodies.WholeRunJson)
    assert stopped["run"]["is_control_pending"]
    (listed,) = typed(client.runs("fleet"), list[bodies.SummaryJson])
    assert listed["run_id"] == run_id
    (plan,) = typed(client.plans("fleet"), list[bodies.KnownPlanJson])
    assert (plan["plan_id"], plan["runs"]) == (
        made["plan"]["plan_id"],
        [{"run_id": run_id, "state": "QUEUED"}],
    )
    job = typed(client.start_job("drill", clusters=["fleet"]), bodies.JobJson)
    assert typed(client.job(job["id"]), bodies.JobJson)["state"] == "queued"
    assert typed(client.clusters(), list[bodies.ClusterJson])
    assert typed(client.snapshots("fleet"), list[bodies.SnapshotJson])
    with pytest.raises(ServerRefusalError) as refused:  # this fleet cannot be read
        client.undo(run_id)
    assert refused.value.status == 502
    with pytest.raises(OpsError, match="did not end within 0 s"):
        client.wait(job["id"], timeout_s=0)
    assert [one["snapshot_id"] for one in client.snapshots("fleet")] == [site.stored.snapshot_id]
    assert client.history("fleet", "events").num_rows == 0
    assert load_snapshot(site.stored.path).brokers.equals(client.snapshot_table("fleet", "brokers"))


def test_days_of_a_cluster_are_tables(site):
    year = Year(cluster="fleet", days=50, days_of_hours=2, bundles=6, growth={1: 0.02}, noise=0.01)
    write_year(history(services.page_config()), year)
    client = Client(site.url)
    start, end = END - timedelta(days=49), END - timedelta(milliseconds=1)
    load = client.load("fleet", "bundle", year.bundle(1), start=start, end=end, by="days")
    assert load.num_rows == 49
    means = load["msg_throughput"].to_pylist()
    assert sum(means[-7:]) > 1.5 * sum(means[:7])
    whole = client.load("fleet", start=start.isoformat(), end=end.isoformat(), by="days")
    assert "deviation" in whole.column_names
    growth = client.growth("fleet", start=start, end=end)
    assert growth["weeks"] == 7
    assert growth["rows"][0]["per_month_low"] > 0
    days = client.fleet_days(start, end)
    assert days.num_rows == 49
    assert set(days["cluster"].to_pylist()) == {"fleet"}


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
    most = counted_answers(monkeypatch)
    with ThreadPoolExecutor(24) as pool:
        found = [pool.submit(Client(site.url, "").runs) for _ in range(24)]
        assert [one.result() for one in found] == [[]] * 24
    assert 1 < max(most) <= resource.MAX_AT_ONCE
