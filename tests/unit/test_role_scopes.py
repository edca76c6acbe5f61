"""Roles that are limited to tenants, namespaces or tables: the rule, command, page and worker."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from test_role_matrix import CLUSTER, PARTITION, PASSWORD, is_command_allowed, planned

from connectors.access.key import installation_key
from connectors.access.users import UserFile
from connectors.config.access import AccessConfig
from connectors.config.model import TrimtabConfig
from connectors.journal.journal import SqlJournal
from connectors.worker.worker import _WorkerLoop
from core.access import Access, Grant, Identity
from core.actions.authority import needed_roles, plan_refusal, signed
from core.actions.events import ControlRequested, Record, RunDecided, RunRequested
from core.actions.model import RunOptions
from core.errors import ForbiddenError
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.wait import AwaitState
from core.plan.model import Plan, sealed
from core.pulsar.steps.policy import SetPolicy
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.unload import UnloadBundle
from core.step import Step
from dashboard import services
from dashboard.queries import access as page_access
from dashboard.services import access

ANN = Identity(name="ann", source="users")


def unload(namespace: str) -> Step:
    return UnloadBundle(bundle=f"{namespace}/0x00000000_0x40000000", owner="b1:8080")


OWN, FOREIGN = unload("acme/orders"), unload("acme-two/orders")
TEMPORARY = SetDynamicSetting(key="loadBalancerSheddingEnabled", before="true", value="false")
MOVE = MoveReplica(partition=PARTITION, move="move_pri", source="n1", target="n2")


def plan_with(*steps: Step) -> Plan:
    return sealed(replace(planned(steps[0]), steps=steps))


def rules_with(*scope: str, role: str = "operator") -> Access:
    return Access(sign_in="users", grants=(Grant(role=role, people=("ann",), scope=scope),))


@pytest.mark.parametrize(
    ("scope", "names", "others"),
    [
        ("acme", ["acme/orders", "acme/x"], ["acme-two/orders", "b/acme", "acme2"]),
        ("acme/orders", ["acme/orders"], ["acme/orders2", "acme", "acme-two/orders"]),
        ("acme/*", ["acme/orders"], ["acme-two/orders", "acme"]),
        ("user_*", ["user_profile"], ["stat", "x/user_1"]),
    ],
)
def test_scope_names_tenants_namespaces_and_tables(scope, names, others) -> None:
    rules = rules_with(scope)
    assert [rules.role_of(ANN, "a", name) for name in names] == ["operator"] * len(names)
    assert [rules.role_of(ANN, "a", name) for name in others] == ["viewer"] * len(others)
    assert rules.role_of(ANN, "a") == "viewer"


@pytest.mark.parametrize(
    ("steps", "is_allowed"),
    [
        ((OWN,), True),
        ((OWN, AwaitState(state="healthy")), True),
        ((FOREIGN,), False),
        ((OWN, FOREIGN), False),
        ((OWN, TEMPORARY), False),
        ((AwaitState(state="healthy"),), False),
        ((SetMetaLevel(before="lively", level="steady"),), False),
        ((MOVE,), True),
        ((SetPolicy(policy="isolation", name="acme/orders", value="{}"),), False),
        ((SetPolicy(policy="publish_rate", name="acme/orders", value="{}"),), False),
    ],
)
def test_every_step_of_a_plan_is_in_scope(steps, is_allowed) -> None:
    refused = plan_refusal(rules_with("acme", "t"), ANN, plan_with(*steps), "a")
    assert (refused is None) is is_allowed


def test_scoped_admin_sets_policies_of_own_namespaces_only() -> None:
    rules = rules_with("acme", role="admin")
    own, foreign = (
        plan_with(SetPolicy(policy="publish_rate", name=f"{tenant}/orders", value="{}"))
        for tenant in ("acme", "beta")
    )
    assert plan_refusal(rules, ANN, own, "a") is None
    assert plan_refusal(rules, ANN, foreign, "a") is not None
    assert needed_roles(own) == {"acme/orders": "admin"}


def test_paused_balancer_needs_the_whole_cluster() -> None:
    rules, plan = rules_with("acme"), plan_with(OWN)
    assert plan_refusal(rules, ANN, plan, "a") is None
    refused = plan_refusal(rules, ANN, plan, "a", is_balancer_paused=True)
    assert refused is not None
    assert "operator for acme only; operator for the whole cluster is needed" in refused[0]


def test_scope_of_a_viewer_and_odd_names_are_refused() -> None:
    grant = {"role": "viewer", "people": ["ann"], "scope": ["acme"]}
    with pytest.raises(ValueError, match="a viewer sees whole clusters"):
        AccessConfig.model_validate({"sign_in": "users", "grants": [grant]})
    grant |= {"role": "operator", "scope": ["persistent://acme/x"]}
    with pytest.raises(ValueError, match="tenant, tenant/namespace or table"):
        AccessConfig.model_validate({"sign_in": "users", "grants": [grant]})


# -- where actions are carried out -----------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrimtabConfig:
    path = tmp_path / "trimtab.toml"
    path.write_text(
        f'state_dir = "state"\n[[clusters]]\nname = "{CLUSTER}"\nzookeeper = "127.0.0.1:1"\n'
        'read_only = false\n[clusters.approval]\nneeded = "always"\n'
        f'[access]\nsign_in = "users"\nkey_file = "{tmp_path / "key"}"\n'
        '[[access.grants]]\nrole = "operator"\npeople = ["ann", "ben"]\nscope = ["acme"]\n'
        '[[access.grants]]\nrole = "admin"\npeople = ["boss"]\n'
    )
    config = TrimtabConfig.load(path, ())
    config.users_file.parent.mkdir(parents=True, exist_ok=True)
    users = UserFile(config.users_file)
    users.set_user("ann", PASSWORD)
    _, token = users.add_token("ann", (), 1, services.now())
    monkeypatch.setenv("TRIMTAB_TOKEN", token)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(path))
    return config


def requested(config: TrimtabConfig, step: Step, by: str = "boss") -> str:
    who, options = Identity(name=by, source="users"), RunOptions()
    return services.request_run(config, CLUSTER, planned(step), "why", options, who)


def test_token_applies_and_controls_in_scope_only(
    config: TrimtabConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for step, expected in ((OWN, True), (FOREIGN, False)):
        file = tmp_path / "plan.json"
        file.write_bytes(access.plan_file(config, planned(step)))
        words = ["apply", str(file), "--cluster", CLUSTER, "--reason", "why", "--detach", "--yes"]
        assert is_command_allowed(capsys, *words) is expected
        run_id = requested(config, step)
        assert is_command_allowed(capsys, "runs", run_id, "--stop") is expected
    assert is_command_allowed(capsys, "whoami")


def test_pages_give_the_reason(config: TrimtabConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_access, "person", lambda _: ANN)
    assert page_access.plan_refusal(config, planned(OWN), CLUSTER) is None
    refused = page_access.plan_refusal(config, planned(FOREIGN), CLUSTER) or ""
    assert "ann has viewer role on prod for acme-two/orders; operator is needed" in refused
    with pytest.raises(ForbiddenError):
        services.decide(config, requested(config, FOREIGN), ANN, is_approved=True)
    services.decide(config, requested(config, OWN), ANN, is_approved=True)


def test_worker_obeys_in_scope_only(config: TrimtabConfig) -> None:
    """The requests are in the journal, signed: past commands and pages."""
    key = installation_key(config.access)
    loop = _WorkerLoop(config, config.cluster(CLUSTER), threading.Event(), lambda _: None)

    def judged(event: object, run_id: str) -> str:
        record = signed(
            Record(run_id=run_id, cluster=CLUSTER, at=services.now(), actor="ann", event=event), key
        )
        with closing(SqlJournal(config.journal_address)) as journal:
            seq = journal.append(record).seq
            (found,) = [entry.record for entry in journal.entries(after=seq - 1)]
        refused = loop._refusal_of(found)
        return "" if refused is None else refused.code

    for step, expected in ((OWN, ""), (FOREIGN, "forbidden")):
        event = RunRequested(plan=planned(step), options=RunOptions(), reason="why", identity=ANN)
        assert judged(event, "new") == expected
        run_id = requested(config, step)
        assert judged(ControlRequested(control="resume", identity=ANN), run_id) == expected
        assert judged(RunDecided(is_approved=True, identity=ANN), run_id) == expected
    paused = RunOptions(pause_balancer=True)
    event = RunRequested(plan=planned(OWN), options=paused, reason="why", identity=ANN)
    assert judged(event, "paused") == "forbidden"
    assert judged(ControlRequested(control="stop", identity=ANN), "no-such-run") == "forbidden"
