"""Runs that need a second person, times in which nothing is changed, and tickets."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from journal_entries import plan_of

from connectors.config.access import AccessConfig
from connectors.config.model import TrimtabConfig, WindowConfig
from core.access import Identity
from core.actions.approval import ApprovalRules
from core.actions.model import RunId
from core.actions.windows import Window, window_refusal
from core.errors import (
    ForbiddenError,
    GuardRefusedError,
    InputError,
    PlanConflictError,
)
from core.plan.model import Expected, NodeExpectation, Plan
from dashboard import services

ANN = Identity(name="ann", source="users")
BEN = Identity(name="ben", source="users")
VIC = Identity(name="vic", source="users")


def config_of(folder: Path, **cluster: object) -> TrimtabConfig:
    return TrimtabConfig.model_validate(
        {
            "state_dir": folder,
            "access": {
                "sign_in": "users",
                "grants": [
                    {"role": "operator", "people": ["ann", "ben"]},
                    {"role": "viewer", "people": ["vic"]},
                ],
            },
            "clusters": [{"name": "prod", "zookeeper": "z:1", "read_only": False, **cluster}],
        }
    )


def fresh_plan(steps: int = 2) -> Plan:
    now = services.now()
    return plan_of(steps, created_at=now, expires_at=now + timedelta(minutes=5))


def request(config: TrimtabConfig, by: Identity = ANN, reason: str = "too hot") -> RunId:
    options = services.default_options(config, "prod")
    return services.request_run(config, "prod", fresh_plan(), reason, options, by)


@pytest.fixture
def config(tmp_path: Path) -> TrimtabConfig:
    return config_of(tmp_path, approval={"needed": "always"})


def test_another_person_approves(config) -> None:
    run_id = request(config)
    assert services.awaits_approval(config, services.run_view(config, run_id))
    services.decide(config, run_id, BEN, "looks right", is_approved=True)
    view = services.run_view(config, run_id)
    assert not services.awaits_approval(config, view)
    assert view.decision is not None
    assert (view.decision.decided_by, view.decision.comment) == ("ben", "looks right")
    with pytest.raises(PlanConflictError, match="ben already approved"):
        services.decide(config, run_id, BEN, is_approved=False)


def test_nobody_approves_what_is_their_own_and_a_viewer_nothing(config) -> None:
    run_id = request(config)
    with pytest.raises(ForbiddenError, match="cannot approve or reject it"):
        services.decide(config, run_id, ANN, is_approved=True)
    with pytest.raises(ForbiddenError, match="operator is needed"):
        services.decide(config, run_id, VIC, is_approved=True)
    with pytest.raises(ForbiddenError, match="operator is needed"):
        request(config, VIC)
    assert services.awaits_approval(config, services.run_view(config, run_id))


@pytest.mark.parametrize("spelling", ["Ann", "ANN", "ann ", "\uff41nn"])
def test_another_spelling_of_a_name_is_no_other_person(tmp_path, spelling) -> None:
    config = config_of(
        tmp_path,
        approval={"needed": "always"},
    ).model_copy(
        update={
            "access": AccessConfig.model_validate(
                {"sign_in": "users", "grants": [{"role": "operator", "people": ["*"]}]}
            )
        }
    )
    run_id = request(config)
    same = Identity(name=spelling, source="users")
    with pytest.raises(ForbiddenError, match="cannot approve or reject it"):
        services.decide(config, run_id, same, is_approved=True)


def test_a_rejection_says_why(config) -> None:
    run_id = request(config)
    with pytest.raises(InputError, match="comment"):
        services.decide(config, run_id, BEN, " ", is_approved=False)
    services.decide(config, run_id, BEN, "not today", is_approved=False)
    view = services.run_view(config, run_id)
    assert view.decision is not None
    assert not view.decision.is_approved


def test_without_sign_in_approval_cannot_be_configured() -> None:
    with pytest.raises(ValueError, match="needs sign-in"):
        TrimtabConfig.model_validate(
            {"clusters": [{"name": "a", "zookeeper": "z:1", "approval": {"needed": "always"}}]}
        )


@pytest.mark.parametrize(
    ("changes", "is_large"),
    [
        ({"steps": plan_of(20).steps, "expected": Expected(clients=1_000)}, False),
        ({"steps": plan_of(21).steps, "expected": Expected(clients=0)}, True),
        ({"expected": Expected(clients=1_001)}, True),
        ({"expected": Expected(clients=None)}, True),
        (
            {
                "expected": Expected(
                    nodes=(
                        NodeExpectation(
                            node="n",
                            primaries_before=1,
                            primaries_after=0,
                            replicas_before=1,
                            replicas_after=1,
                        ),
                    )
                )
            },
            False,
        ),
    ],
)
def test_what_a_large_plan_is(changes, is_large) -> None:
    plan = replace(plan_of(2), **changes)
    assert bool(ApprovalRules(needed="large").why_needed(plan)) is is_large
    assert ApprovalRules(needed="always").why_needed(plan)
    assert not ApprovalRules().why_needed(plan)


# -- times -----------------------------------------------------------------------------------------


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        ("2026-11-23T21:59", False),  # a Monday
        ("2026-11-23T22:00", True),
        ("2026-11-24T03:59", True),
        ("2026-11-24T04:00", False),
        ("2026-11-24T23:00", False),
    ],
)
def test_a_weekly_maintenance_window_may_cross_midnight(moment, is_open) -> None:
    window = WindowConfig.model_validate(
        {"kind": "maintenance", "days": ["mon"], "from": "22:00", "until": "04:00"}
    ).times()
    assert (window_refusal([window], "prod", at(moment)) is None) is is_open


def test_a_freeze_names_its_end_and_its_reason() -> None:
    window = Window(
        kind="freeze",
        reason="Black Friday",
        starts=at("2026-11-27T00:00"),
        ends=at("2026-11-30T00:00"),
    )
    assert window_refusal([window], "prod", at("2026-11-26T23:59")) is None
    found = window_refusal([window], "prod", at("2026-11-27T00:00"))
    assert found is not None
    assert found.code == "frozen"
    assert "2026-11-30 00:00" in found.sentence
    assert "Black Friday" in found.sentence


@pytest.mark.parametrize(
    "window",
    [
        {"kind": "freeze"},
        {"kind": "freeze", "from": "22:00"},
        {"kind": "freeze", "from": "22:00+02:00", "until": "23:00"},
        {"kind": "freeze", "from": "22:00", "until": "23:00:30"},
        {"kind": "freeze", "days": ["mon"], "starts": "2026-01-01T00:00:00Z"},
        {"kind": "freeze", "starts": "2026-01-01T00:00:00"},
        {"kind": "freeze", "starts": "2026-01-02T00:00:00Z", "ends": "2026-01-01T00:00:00Z"},
        {"kind": "pause", "from": "22:00", "until": "23:00"},
    ],
)
def test_half_a_window_is_refused(window) -> None:
    with pytest.raises(ValueError, match=r"window|freeze|timezone|days"):
        WindowConfig.model_validate(window)


def test_a_run_is_not_requested_in_a_freeze_nor_without_its_ticket(tmp_path) -> None:
    frozen = config_of(tmp_path / "a", windows=[{"kind": "freeze", "ends": "2999-01-01T00:00:00Z"}])
    with pytest.raises(GuardRefusedError, match="frozen"):
        request(frozen)
    ticketed = config_of(tmp_path / "b", approval={"ticket": "OPS-[0-9]+"})
    with pytest.raises(InputError, match="OPS-"):
        request(ticketed)
    assert request(ticketed, reason="OPS-12 too hot")
    with pytest.raises(ValueError, match="regular expression"):
        config_of(tmp_path / "c", approval={"ticket": "OPS-("})
