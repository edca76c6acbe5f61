"""``apply``, ``undo`` and ``pegasus ... --apply`` ask alike: by impact, on a terminal, or --yes."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fleet_builder import broker_names, make_snapshot
from pegasus_snapshots import NODES

from core.plan.model import Plan, sealed
from core.plan.options import PlanOptions
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.policy.build import DesiredPolicy
from core.pulsar.plan.policy.moves import change_policies
from dashboard import services
from dashboard.cli.main import run
from dashboard.services import access

CLUSTER = "fleet"


class Terminal(io.StringIO):
    """A terminal on which a person types one line."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "trimtab.toml"
    path.write_text(
        f"state_dir = {json.dumps(str(tmp_path))}\n"
        f'[[clusters]]\nname = "{CLUSTER}"\nenvironment = "demo"\n'
        'admin_urls = ["http://127.0.0.1:9"]\nread_only = false\n'
        '[[clusters]]\nname = "peg"\nkind = "pegasus"\nenvironment = "demo"\n'
        'meta_servers = ["127.0.0.1:9"]\nread_only = false\n'
    )
    return path


def plan_of(kind: str) -> Plan:
    now = datetime.now(UTC)
    fleet = make_snapshot(brokers=6, bundles=80, now=now)
    if kind == "policy":
        host = broker_names(6)[2].rpartition(":")[0].replace(".", r"\.")
        body = {
            "namespaces": ["globex/.*", "acme/.*"],
            "primary": [host],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "80"},
            },
        }
        desired = [DesiredPolicy("isolation", "apart", json.dumps(body))]
        seen = change_policies(fleet, desired, PlanOptions(now=now))
        assert not seen.plan.errored, seen.plan.diagnostics
        return seen.plan
    row = next(
        one
        for one in fleet.bundles.to_pylist()
        if one["owner"] and one["namespace"].startswith("acme/") and one["topic_count"]
    )
    return build_unload_plan(fleet, [row["bundle"]], now=now)


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Plans whose runs were requested; nothing is sent anywhere."""
    found: list[Plan] = []

    def request(_config, _cluster, plan, *_more):
        found.append(plan)
        raise KeyboardInterrupt

    monkeypatch.setattr(services, "request_run", request)
    return found


def apply(config: Path, plan: Plan, folder: Path, *more: str) -> int:
    file = folder / "plan.json"
    loaded = services.load_config(config, ())
    file.write_bytes(access.plan_file(loaded, plan))
    words = ["apply", str(file), "--reason", "x", "--config", str(config)]
    return run([*words, *more])


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(f"{text}\n"))


@pytest.mark.parametrize("kind", ["unload", "policy"])
def test_apply_without_a_terminal_is_refused_in_a_sentence(
    config, tmp_path, capsys, monkeypatch, requested, kind
) -> None:
    """It applied whatever it was given, at once."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    assert apply(config, plan_of(kind), tmp_path) == 2
    said = capsys.readouterr().err
    assert "No terminal for the confirmation. Add --yes, or --dry-run." in " ".join(said.split())
    assert requested == []


def test_apply_for_a_program_needs_yes(config, tmp_path, capsys, monkeypatch, requested) -> None:
    typed(monkeypatch, "yes")
    assert apply(config, plan_of("unload"), tmp_path, "--json") == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"
    assert requested == []


@pytest.mark.parametrize(
    ("kind", "text", "is_requested"),
    [
        ("unload", "yes", True),
        ("unload", "y", True),
        ("unload", "no", False),
        ("unload", "", False),
        ("unload", CLUSTER, False),
        ("policy", CLUSTER, True),
        ("policy", "yes", False),
        ("policy", CLUSTER.upper(), False),
    ],
)
def test_what_is_typed_goes_by_the_impact(
    config, tmp_path, capsys, monkeypatch, requested, kind, text, is_requested
) -> None:
    typed(monkeypatch, text)
    plan = plan_of(kind)
    apply(config, plan, tmp_path)
    said = " ".join(capsys.readouterr().err.split())
    assert (len(requested) == 1) is is_requested
    assert f"Type {CLUSTER if kind == 'policy' else 'yes'}:" in said
    assert f"Plan {plan.short_id}:" in said
    if not is_requested:
        assert "Nothing was changed." in said


def test_yes_asks_nothing(config, tmp_path, capsys, monkeypatch, requested) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    apply(config, plan_of("policy"), tmp_path, "--yes")
    assert len(requested) == 1
    assert "Type " not in capsys.readouterr().err


def test_nobody_is_asked_about_what_is_refused_anyway(
    config, tmp_path, capsys, monkeypatch, requested
) -> None:
    config.write_text(config.read_text().replace("read_only = false", "read_only = true"))
    typed(monkeypatch, "yes")
    assert apply(config, plan_of("unload"), tmp_path) == 1
    said = capsys.readouterr().err
    assert "read-only" in said
    assert "Type yes" not in said


@pytest.mark.parametrize(
    "words",
    [
        ("level", "peg", "set", "lively", "--reason", "x"),
        ("level", "peg", "set", "steady", "--apply", "--reason", "x"),
        ("drain", "peg", NODES[0], "--apply", "--reason", "x"),
        ("rebalance", "peg", "--detach", "--reason", "x"),
        ("set", "peg", "balance_cluster", "true", "--apply", "--reason", "x"),
    ],
)
def test_pegasus_commands_that_act_are_refused_alike(config, capsys, monkeypatch, words) -> None:
    """They acted at once, whatever the impact."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert run(["pegasus", *words, "--config", str(config)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "No terminal for the confirmation." in said


def test_an_expired_plan_is_refused_before_anything_is_asked(
    config, tmp_path, capsys, monkeypatch, requested
) -> None:
    old = plan_of("unload")
    past = sealed(
        replace(
            old,
            created_at=old.created_at.replace(year=2025),
            taken_at=old.taken_at.replace(year=2025),
            expires_at=old.expires_at.replace(year=2025),
        )
    )
    typed(monkeypatch, "yes")
    assert apply(config, past, tmp_path) == 1
    assert "Type yes" not in capsys.readouterr().err
    assert requested == []


def test_apply_refuses_a_plan_for_another_cluster_than_the_named_one(
    config, tmp_path, capsys
) -> None:
    plan = plan_of("unload")
    assert apply(config, plan, tmp_path, "--yes", "--detach", "--cluster", "peg") == 1
    assert f"was made for {plan.cluster}, not for peg" in " ".join(capsys.readouterr().err.split())
