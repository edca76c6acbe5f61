"""Every role and every action: who may, asked of the rule, the worker, the commands, the pages.

One table says which role an action needs. Each cell is asked of all who decide: the rule itself;
the worker, with a request that was written straight into the journal; the command line with an API
token; the services that pages call.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from actions_world import RUN, World, plan_of
from journal_entries import plan_of as long_plan

from connectors.access.key import installation_key
from connectors.access.users import UserFile
from connectors.config.model import TrimtabConfig
from connectors.jobs import catalogue
from connectors.journal.journal import SqlJournal
from connectors.worker.worker import _WorkerLoop
from core.access import ROLES, Identity, Role
from core.actions.authority import Request, needed_role, signed
from core.actions.events import ControlRequested, Record, RunDecided, RunEnded, RunRequested
from core.actions.model import Refusal, RunId, RunOptions
from core.errors import ForbiddenError, OpsError
from core.pegasus.steps.batch import ProposeMany
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.partition import Partition
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from core.plan.model import Plan, sealed
from core.pulsar.steps.policy import SetPolicy
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.split import SplitBundle
from core.pulsar.steps.unload import UnloadBundle
from core.step import Step
from core.systems import STEPS
from dashboard import services
from dashboard.cli.main import run
from dashboard.services import access, alerts, jobs

CLUSTER, OTHER = "prod", "test"
PASSWORD = "correct horse battery"
HELD: tuple[Role | None, ...] = (None, *ROLES)
BUNDLE = {"bundle": "acme/orders/0x00000000_0x40000000", "owner": "b1:8080"}
PARTITION = Partition(
    gpid="1.0", table="t", ballot=1, max_replica_count=3, primary="n1", secondaries=("n2",)
)
STEPS_AND_ROLES: tuple[tuple[Step, Role], ...] = (
    (UnloadBundle(**BUNDLE), "operator"),
    (SplitBundle(**BUNDLE, algorithm="range_equally_divide"), "operator"),
    (SetDynamicSetting(key="loadBalancerSheddingEnabled", before="true", value="false"), "admin"),
    (SetPolicy(policy="isolation", name="p", value="{}"), "admin"),
    (SetMetaLevel(before="lively", level="steady"), "operator"),
    (SetMetaLevel(before="lively", level="steady", is_restored=True), "operator"),
    (MoveReplica(partition=PARTITION, move="move_pri", source="n1", target="n2"), "operator"),
    (ChangeReplica(partition=PARTITION, change="DOWNGRADE_TO_INACTIVE", node="n2"), "operator"),
    (ProposeMany(node="n1", verb="move_pri", items=()), "operator"),
    (CloseReplicas(node="n1", partitions=("1.0",)), "operator"),
    (SetServerSetting(key="lb.x", value="1", before="0"), "admin"),
    (SetServerSetting(key="lb.x", value="1", before="0", is_restored=True), "operator"),
    (AwaitState(state="healthy"), "operator"),
)
CONTROLS = ("stop", "pause", "resume")
NOW = datetime.now(UTC)


def held_enough(held: Role | None, needed: Role) -> bool:
    return held is not None and ROLES.index(held) >= ROLES.index(needed)


def name_of(step: Step) -> str:
    return f"{type(step).__name__}{'-temporary' if getattr(step, 'is_restored', False) else ''}"


STEP_CELLS = pytest.mark.parametrize(
    ("held", "step", "needed"),
    [
        pytest.param(held, step, needed, id=f"{held}-{name_of(step)}")
        for held, (step, needed) in product(HELD, STEPS_AND_ROLES)
    ],
)


def planned(step: Step) -> Plan:
    moment = datetime.now(UTC)
    return sealed(
        replace(
            long_plan(1),
            steps=(step,),
            taken_at=moment,
            created_at=moment,
            expires_at=moment + timedelta(minutes=10),
        )
    )


@dataclass
class Site:
    """An installation where people sign in: ``ann`` has one role on one cluster, ``boss`` all."""

    config: TrimtabConfig
    token: str

    @property
    def ann(self) -> Identity:
        return Identity(name="ann", source="users")

    @property
    def boss(self) -> Identity:
        return Identity(name="boss", source="users")

    def request(self, step: Step | None = None) -> RunId:
        """A run that somebody else requested."""
        plan = planned(step or STEPS_AND_ROLES[0][0])
        options = RunOptions()
        return services.request_run(self.config, CLUSTER, plan, "why", options, self.boss)

    def entries(self) -> int:
        with closing(SqlJournal(self.config.journal_address)) as journal:
            return journal.newest()[0]


@lru_cache(maxsize=1)
def known_people() -> tuple[bytes, str]:
    """A user file with a password, made once as that takes a while, and ann's token."""
    with TemporaryDirectory() as folder:
        users = UserFile(Path(folder) / "users.json")
        users.set_user("ann", PASSWORD)
        _, token = users.add_token("ann", (), 1, NOW)
        return (Path(folder) / "users.json").read_bytes(), token


def site_of(folder: Path, held: Role | None, monkeypatch: pytest.MonkeyPatch) -> Site:
    own = f'[[access.grants]]\nrole = "{held}"\npeople = ["ann"]\nclusters = ["{CLUSTER}"]\n'
    clusters = "".join(
        f'[[clusters]]\nname = "{name}"\nzookeeper = "127.0.0.1:1"\nread_only = false\n'
        f'[clusters.approval]\nneeded = "{needed}"\n'
        "[clusters.timeouts]\nzookeeper_s = 0.5\n"
        for name, needed in ((CLUSTER, "never"), (OTHER, "never"), ("asks", "always"))
    )
    path = folder / "trimtab.toml"
    path.write_text(
        f'state_dir = "state"\n{clusters}'
        f'[access]\nsign_in = "users"\nkey_file = "{folder / "key"}"\n{own if held else ""}'
        '[[access.grants]]\nrole = "admin"\npeople = ["boss"]\n'
        '[[alerts.targets]]\nname = "ops"\nurl = "json://127.0.0.1:1/"\n'
    )
    config = TrimtabConfig.load(path, ())
    users, token = known_people()
    config.users_file.parent.mkdir(parents=True, exist_ok=True)
    config.users_file.touch(0o600)
    config.users_file.write_bytes(users)
    monkeypatch.setenv("TRIMTAB_TOKEN", token)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(path))
    return Site(config, token)


@pytest.fixture
def site(held: Role | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return site_of(tmp_path, held, monkeypatch)


def is_allowed(act: Callable[[], Any]) -> bool:
    """Whether it is not refused for the role; that it fails for another reason is allowed."""
    try:
        act()
    except ForbiddenError:
        return False
    except OpsError:
        pass
    return True


def is_command_allowed(capsys: pytest.CaptureFixture[str], *words: str) -> bool:
    capsys.readouterr()
    code = run(list(words))
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    is_refused = " is needed to " in err or "has no role" in err
    assert code != 0 or not is_refused
    return not is_refused


# -- steps -----------------------------------------------------------------------------------------


def test_table_has_every_kind_of_step() -> None:
    assert {type(step) for step, _ in STEPS_AND_ROLES} == set(STEPS.kinds)


@STEP_CELLS
def test_step_at_the_rule(site: Site, held: Role | None, step: Step, needed: Role) -> None:
    assert needed_role(planned(step)) == needed
    rules = site.config.access.rules()
    assert rules.may(site.ann, needed, CLUSTER) is held_enough(held, needed)
    assert not rules.may(site.ann, "viewer", OTHER)


@STEP_CELLS
def test_step_at_the_services(site: Site, held: Role | None, step: Step, needed: Role) -> None:
    before = site.entries()
    allowed = is_allowed(
        lambda: services.request_run(
            site.config, CLUSTER, planned(step), "why", RunOptions(), site.ann
        )
    )
    assert allowed is held_enough(held, needed)
    assert site.entries() == before + allowed


@STEP_CELLS
def test_step_at_the_command_line(
    site: Site,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    held: Role | None,
    step: Step,
    needed: Role,
) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(access.plan_file(site.config, planned(step)))
    words = ["apply", str(file), "--cluster", CLUSTER, "--reason", "why", "--detach"]
    words.append("--yes")
    assert is_command_allowed(capsys, *words) is held_enough(held, needed)
    assert site.entries() == held_enough(held, needed)


# -- the worker ------------------------------------------------------------------------------------


def judged(site: Site, record: Record, approval: Mapping[str, str] | None = None) -> str:
    """What the worker says of a record as it finds it in the journal; empty: it obeys."""
    cluster = site.config.cluster(CLUSTER)
    loop = _WorkerLoop(site.config, cluster, threading.Event(), lambda _: None)
    with closing(SqlJournal(site.config.journal_address)) as journal:
        seq = journal.append(record).seq
        (found,) = [entry.record for entry in journal.entries(after=seq - 1)]
    refused = loop._refusal_of(found)
    return "" if refused is None else refused.code


def written(event: Request, key: bytes | None, person: Identity, actor: str = "") -> Record:
    named = msgspec.structs.replace(event, identity=person)
    record = Record(run_id=RUN, cluster=CLUSTER, at=NOW, actor=actor or person.name, event=named)
    return record if key is None else signed(record, key)


@STEP_CELLS
def test_step_at_the_worker(site: Site, held: Role | None, step: Step, needed: Role) -> None:
    key = installation_key(site.config.access)
    event = RunRequested(plan=planned(step), options=RunOptions(), reason="why")
    expected = "" if held_enough(held, needed) else "forbidden"
    assert judged(site, written(event, key, site.ann)) == expected
    for forged in forgeries(event, key, site):
        assert judged(site, forged) == "not_signed"


def forgeries(event: Request, key: bytes, site: Site) -> list[Record]:
    """Unsigned, signed by another key, and a person's own request under an admin's name."""
    own = written(event, key, site.ann)
    stolen = msgspec.structs.replace(own.event, identity=site.boss)
    return [
        written(event, None, site.ann),
        written(event, b"another key of thirty-two bytes.", site.boss),
        msgspec.structs.replace(own, actor="boss"),
        msgspec.structs.replace(own, actor="boss", event=stolen),
        written(event, key, site.ann, actor="boss"),
    ]


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("held", HELD)
def test_control_at_the_worker(site: Site, held: Role | None, control: Any) -> None:
    key = installation_key(site.config.access)
    event = ControlRequested(control=control)
    expected = "" if held_enough(held, "operator") else "forbidden"
    assert judged(site, written(event, key, site.ann)) == expected
    for forged in forgeries(event, key, site):
        assert judged(site, forged) == "not_signed"


@pytest.mark.parametrize("is_approved", [True, False])
@pytest.mark.parametrize("held", HELD)
def test_decision_at_the_worker(site: Site, held: Role | None, *, is_approved: bool) -> None:
    key = installation_key(site.config.access)
    event = RunDecided(is_approved=is_approved, comment="seen")
    expected = "" if held_enough(held, "operator") else "forbidden"
    assert judged(site, written(event, key, site.ann)) == expected
    for forged in forgeries(event, key, site):
        assert judged(site, forged) == "not_signed"


@pytest.mark.parametrize("held", HELD)
def test_worker_sends_nothing_for_who_may_not(site: Site, held: Role | None) -> None:
    """The executor itself, with the worker's own judgement, on requests of every kind of author."""
    key = installation_key(site.config.access)
    cluster = site.config.cluster(CLUSTER)
    loop = _WorkerLoop(site.config, cluster, threading.Event(), lambda _: None)

    def refusal_of(record: Record) -> Refusal | None:
        return loop._refusal_of(record) if isinstance(record.event, Request) else None

    plan = plan_of(World(), list(World().owners)[1:3])
    event = RunRequested(plan=plan, options=RunOptions(), reason="why")
    records = [written(event, key, site.ann), *forgeries(event, key, site)]
    for place, record in enumerate(records):
        world = World(refusal_of=refusal_of)
        world.put(record)
        world.work()
        is_obeyed = place == 0 and held_enough(held, "operator")
        assert bool(world.sends) is is_obeyed
        assert (world.view.state == "REFUSED") is not is_obeyed
        # a stop that may not be given does not stop
        world = World(refusal_of=refusal_of)
        world.put(written(event, key, site.boss))
        stop = ControlRequested(control="stop")
        world.put([written(stop, key, site.ann), *forgeries(stop, key, site)][place])
        world.work()
        assert (world.view.state == "STOPPED") is is_obeyed


# -- runs: stop, pause, resume, approve, undo ------------------------------------------------------


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("held", HELD)
def test_control_at_services_and_command_line(
    site: Site, capsys: pytest.CaptureFixture[str], held: Role | None, control: Any
) -> None:
    expected, run_id = held_enough(held, "operator"), site.request()
    act = lambda: services.ask_control(site.config, run_id, control, site.ann)  # noqa: E731  # a row of the matrix
    assert is_allowed(act) is expected
    assert is_command_allowed(capsys, "runs", run_id, f"--{control}") is expected
    assert site.entries() == 1 + 2 * expected


def approvable(site: Site) -> RunId:
    text = site.config.file.read_text().replace('needed = "never"', 'needed = "always"')
    site.config.file.write_text(text)
    site.config = TrimtabConfig.load(site.config.file, ())
    return site.request()


@pytest.mark.parametrize("verdict", ["approve", "reject"])
@pytest.mark.parametrize("held", HELD)
def test_decision_at_services_and_command_line(
    site: Site, capsys: pytest.CaptureFixture[str], held: Role | None, verdict: str
) -> None:
    expected, run_id = held_enough(held, "operator"), approvable(site)
    is_approved = verdict == "approve"
    words = ["review", run_id, f"--{verdict}", "--comment", "seen"]
    assert is_command_allowed(capsys, *words) is expected
    second = approvable(site)
    decide = lambda: services.decide(  # noqa: E731  # a row of the matrix
        site.config, second, site.ann, "seen", is_approved=is_approved
    )
    assert is_allowed(decide) is expected
    assert services.run_view(site.config, second).decision is not None or not expected
    assert site.entries() == 2 + 2 * expected


@pytest.mark.parametrize("held", HELD)
def test_undo_at_the_command_line(
    site: Site, capsys: pytest.CaptureFixture[str], held: Role | None
) -> None:
    """Undoing is requesting a plan: the cell is that of its steps, which :data:`STEP_CELLS` has.

    What a command may do before it asks for the run, it does for everybody: it reads.
    """
    run_id = site.request()
    with closing(SqlJournal(site.config.journal_address)) as journal:
        ended = RunEnded(state="STOPPED", sentence="Stopped.")
        journal.append(
            Record(run_id=run_id, cluster=CLUSTER, at=NOW, actor="host/1/a", event=ended)
        )
    before = site.entries()
    is_command_allowed(capsys, "undo", run_id, "--reason", "why", "--detach", "--yes")
    assert site.entries() == before  # nothing was done, so there is nothing to undo
    inverse = replace(planned(STEPS_AND_ROLES[0][0]), undoes=run_id)
    allowed = is_allowed(
        lambda: services.request_run(
            site.config, CLUSTER, sealed(inverse), "why", RunOptions(), site.ann
        )
    )
    assert allowed is held_enough(held, "operator")


# -- jobs ------------------------------------------------------------------------------------------


def parameters_of(kind: str, clusters: list[str]) -> dict[str, Any]:
    """The smallest parameters of a kind of job, on clusters."""
    if kind == "backtest":
        return {"grid": {"clusters": clusters}}
    return {"clusters": clusters} | ({"file": "/topics.csv"} if kind == "topics" else {})


KINDS = tuple(catalogue.kinds())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held", HELD)
def test_job_at_the_services(
    site: Site, capsys: pytest.CaptureFixture[str], held: Role | None, kind: str
) -> None:
    expected = held_enough(held, catalogue.kinds()[kind].role)

    def request(clusters: list[str], who: Identity) -> str:
        return jobs.request_job(site.config, kind, parameters_of(kind, clusters), who)

    job_id = request([CLUSTER], site.boss)
    assert is_allowed(lambda: request([CLUSTER], site.ann)) is expected
    assert not is_allowed(lambda: request([OTHER], site.ann))
    assert is_command_allowed(capsys, "jobs", "stop", job_id) is expected
    job_id = request([CLUSTER], site.boss)
    assert is_allowed(lambda: jobs.stop_job(site.config, job_id, site.ann)) is expected
    assert is_allowed(lambda: jobs.drop_job(site.config, job_id, site.ann)) is expected


@pytest.mark.parametrize("held", HELD)
def test_job_on_every_cluster_is_for_who_may_act_on_every_cluster(
    site: Site, held: Role | None
) -> None:
    """Pages get a configuration without the clusters that a person may not see."""
    seen = [one for one in site.config.clusters if one.name == CLUSTER]
    pages = site.config.model_copy(update={"clusters": seen})
    for kind, parameters in (("trends", {}), ("backtest", {"grid": {}}), ("health", {})):
        ask = lambda kind=kind, more=parameters: jobs.request_job(pages, kind, more, site.ann)  # noqa: E731  # a row of the matrix
        assert not is_allowed(ask), kind
    hidden = {"grid": {"clusters": [OTHER]}}
    assert not is_allowed(lambda: jobs.request_job(pages, "backtest", hidden, site.ann))
    job_id = jobs.request_job(site.config, "trends", {}, site.boss)
    assert not is_allowed(lambda: jobs.stop_job(pages, job_id, site.ann))
    assert job_id not in {one.id for one in jobs.jobs(pages)}
    with pytest.raises(OpsError):
        jobs.job(pages, job_id)
    assert jobs.job(site.config, job_id).id == job_id


def test_only_an_admin_names_a_file_of_the_server() -> None:
    assert {name for name, one in catalogue.kinds().items() if one.role == "admin"} == {"topics"}


# -- alerts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", HELD)
def test_alerts_at_services_and_command_line(
    site: Site, capsys: pytest.CaptureFixture[str], held: Role | None
) -> None:
    expected = held_enough(held, "operator")

    def quiet(cluster: str, who: Identity) -> int:
        return alerts.silence(site.config, "*", cluster, "*", timedelta(hours=1), who, "why")

    assert is_allowed(lambda: quiet(CLUSTER, site.ann)) is expected
    for wider in (OTHER, "*", "prod*", "[pt]*", "tes?"):
        assert not is_allowed(lambda wider=wider: quiet(wider, site.ann)), wider
        words = ["alerts", "silence", "*", "--reason", "why", "--cluster", wider]
        assert not is_command_allowed(capsys, *words), wider
    words = ["alerts", "silence", "*", "--reason", "why", "--cluster", CLUSTER]
    assert is_command_allowed(capsys, *words) is expected
    everywhere = quiet("*", site.boss)
    here, also_here = quiet(CLUSTER, site.boss), quiet(CLUSTER, site.boss)
    assert not is_allowed(lambda: alerts.end_silence(site.config, everywhere, site.ann))
    assert is_allowed(lambda: alerts.end_silence(site.config, here, site.ann)) is expected
    assert is_command_allowed(capsys, "alerts", "unsilence", str(also_here)) is expected
    assert not is_command_allowed(capsys, "alerts", "unsilence", str(everywhere))
    assert is_allowed(lambda: alerts.send_test(site.config, "ops", site.ann)) is expected
    assert is_command_allowed(capsys, "alerts", "test", "ops") is expected


# -- users and tokens ------------------------------------------------------------------------------


@pytest.mark.parametrize("held", HELD)
def test_users_and_tokens_are_of_whoever_owns_the_file(
    site: Site, capsys: pytest.CaptureFixture[str], held: Role | None, monkeypatch
) -> None:
    """No role gives or takes it: the file is its owner's, and no service of the pages writes it."""
    assert site.config.users_file.stat().st_mode & 0o077 == 0
    monkeypatch.delenv("TRIMTAB_TOKEN")
    assert run(["tokens", "create", "ann", "--days", "1"]) == 0
    assert run(["tokens", "list", "--json"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("TRIMTAB_TOKEN", site.token)
    assert run(["whoami", "--json"]) == 0
    roles = json.loads(capsys.readouterr().out)["roles"]
    assert roles == {CLUSTER: held, OTHER: None, "asks": None}


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("token", ["", "ttk_unknown", "revoked", "expired"])
def test_command_line_without_a_good_token_may_do_nothing(
    site: Site, capsys: pytest.CaptureFixture[str], held: Role | None, token: str, monkeypatch
) -> None:
    users, run_id = UserFile(site.config.users_file), site.request()
    if token in ("revoked", "expired"):
        made = NOW - timedelta(days=3) if token == "expired" else NOW
        key, token = users.add_token("boss", (), 1, made)
        if made == NOW:
            users.remove_token(key)
    monkeypatch.setenv("TRIMTAB_TOKEN", token)
    assert run(["runs", run_id, "--stop"]) != 0
    assert "Traceback" not in capsys.readouterr().err
    assert site.entries() == 1
