"""The commands that act, on a small sandbox of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from apply_site import movable

from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions
from core.plan.codec import load_plan
from core.plan.model import sealed
from core.snapshot.store import load_snapshot
from core.systems import STEPS
from dashboard import services
from dashboard.cli.apply import pace_per_min
from dashboard.cli.main import run
from dashboard.cli.output import UsageFaultError
from dashboard.services import access

pytestmark = pytest.mark.zookeeper

DEADLINE_S = 90.0


@dataclass(frozen=True)
class Fleet:
    """A sandbox, and the configuration that points at it."""

    sandbox: Sandbox
    config: Path

    def sent(self) -> int:
        return len(self.sandbox.unload_requests())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    options = SandboxOptions(brokers=6, bundles=90, is_steady=True, stats_every_s=1.0)
    folder = tmp_path_factory.mktemp("fleet")
    with Sandbox(options) as sandbox:
        yield Fleet(sandbox, write_config(folder, sandbox))


def write_config(folder: Path, sandbox: Sandbox, *, is_read_only: bool = False) -> Path:
    path = folder / "trimtab.toml"
    path.write_text(
        f'state_dir = "{folder}"\n[[clusters]]\nname = "sandbox"\nenvironment = "demo"\n'
        f'zookeeper = "{sandbox.zookeeper}"\nadmin_urls = {json.dumps(sandbox.admin_urls)}\n'
        f"read_only = {json.dumps(is_read_only)}\n"
        "[clusters.apply]\npace_per_min = 600.0\nmax_unassigned = 3\n"
    )
    return path


def answer(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict]:
    capsys.readouterr()
    code = run([str(word) for word in (*words, "--json")])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def plan(fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A plan of two bundles towards a broker that may take them."""
    folder, out = tmp_path / "snapshot", tmp_path / "plan.json"
    assert answer(capsys, "capture", "sandbox", "--config", fleet.config, "--out", folder)[0] == 0
    snapshot = load_snapshot(folder)
    for broker in snapshot.brokers["broker"].to_pylist():
        allowed = [
            name
            for name in movable(snapshot)[:20]
            if answer(capsys, "unload", folder, "--bundle", name, "--to", broker)[0] == 0
        ]
        if len(allowed) >= 2:
            words = ["unload", folder, "--to", broker, "--plan", out]
            words += [word for name in allowed[:2] for word in ("--bundle", name)]
            assert answer(capsys, *words)[0] == 0
            return out
    pytest.fail("no two bundles may go to one broker")


def apply_words(fleet: Fleet, plan: Path, *more: object) -> list[object]:
    return ["apply", plan, "--cluster", "sandbox", "--config", fleet.config, "--yes", *more]


def test_rehearsal_says_what_would_be_sent_and_sends_nothing(
    fleet: Fleet, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = fleet.sent()
    code, body = answer(capsys, *apply_words(fleet, plan, "--dry-run", "--pause-balancer"))
    assert code == 0
    assert body["dry_run"]["state"] == "DONE"
    assert body["dry_run"]["requests"] == 2
    assert [step["code"] for step in body["dry_run"]["steps"]] == ["would_send", "would_send"]
    assert fleet.sent() == before
    assert run([str(word) for word in apply_words(fleet, plan, "--dry-run")]) == 0
    assert "Nothing was changed." in capsys.readouterr().out


def test_plan_is_carried_out_by_the_command_itself_and_taken_back(
    fleet: Fleet, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = apply_words(fleet, plan, "--reason", "a test", "--max-unassigned", 2)
    code, body = answer(capsys, *words)
    assert code == 0, body
    made = body["run"]
    assert made["options"]["max_unassigned"] == 2
    assert (made["state"], made["counts"]) == ("DONE", {"DONE": 2})
    assert {step["code"] for step in made["steps"]} == {"landed"}
    owners = {step["bundle"]: step["owner"] for step in made["steps"]}
    words = ["undo", made["run_id"], "--config", fleet.config, "--reason", "back"]
    code, body = answer(capsys, *words)
    assert (code, body["error"]["code"]) == (2, "usage")  # nobody can be asked
    out = plan.parent / "back.json"
    code, body = answer(capsys, *words, "--plan", out)
    assert (code, body["path"]) == (0, str(out))
    assert {step["bundle"] for step in body["plan"]["steps"]} <= set(owners)
    code, body = answer(capsys, *words, "--dry-run")
    assert code == 0
    code, body = answer(capsys, *words, "--yes", "--max-unassigned", 2)
    assert code == 0, body
    undone = body["run"]
    assert undone["options"]["max_unassigned"] == 2
    assert undone["undoes"] == made["run_id"]
    for step in undone["steps"]:
        assert step["destination"] == owners[step["bundle"]]
        assert step["after"]["holder"] == owners[step["bundle"]]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["--reason", "x", "--pace", "fast"], 2, "usage"),
        (["--reason", "x", "--pace", "1000/s"], 1, "input"),
        (["--reason", "x", "--max-unassigned", "4"], 1, "input"),
        (["--reason", "x", "--max-unassigned", "0"], 2, "usage"),
        ([], 2, "usage"),  # no reason
    ],
)
def test_what_cannot_be_asked_for_is_refused_at_once(
    fleet: Fleet, plan: Path, capsys: pytest.CaptureFixture[str], words, code: int, error: str
) -> None:
    got, body = answer(capsys, *apply_words(fleet, plan, *words))
    assert (got, body["error"]["code"]) == (code, error)
    assert body["error"]["hint"]


def test_unknown_cluster_offers_near_names(
    fleet: Fleet, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["apply", plan, "--cluster", "sandbax", "--config", fleet.config, "--reason", "x"]
    code, body = answer(capsys, *words)
    assert code == 1
    assert "sandbox" in body["error"]["hint"]


def test_read_only_cluster_is_never_touched_but_can_be_rehearsed_on(
    fleet: Fleet, plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    config = write_config(folder, fleet.sandbox, is_read_only=True)
    before = fleet.sent()
    words = ["apply", plan, "--cluster", "sandbox", "--config", config, "--reason", "x", "--yes"]
    code, body = answer(capsys, *words)
    assert (code, body["error"]["code"]) == (1, "guard_refused")
    assert "read_only = false" in body["error"]["hint"]
    code, body = answer(capsys, *words, "--dry-run")
    assert (code, body["dry_run"]["state"]) == (1, "REFUSED")
    assert fleet.sent() == before


def test_detached_run_waits_for_a_worker_which_carries_it_out(
    fleet: Fleet, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, body = answer(capsys, *apply_words(fleet, plan, "--reason", "later", "--detach"))
    assert (code, body["run"]["state"]) == (0, "QUEUED")
    run_id = body["run"]["run_id"]
    words = [sys.executable, "-m", "dashboard.cli", "worker", "--config", str(fleet.config)]
    log = plan.parent / "worker.log"
    with log.open("wb") as sink:
        worker = subprocess.Popen(words, stdout=sink, stderr=sink)
    try:
        shown = ["runs", run_id, "--config", fleet.config]
        wait_until(lambda: answer(capsys, *shown)[1]["run"]["state"] == "DONE", log)
        code, body = answer(capsys, *apply_words(fleet, plan, "--reason", "again"))
        assert (code, body["error"]["code"]) == (1, "already_applied")
        other = plan.parent / "other.json"
        again = sealed(replace(load_plan(plan, STEPS), reason="new plan"))
        other.write_bytes(access.plan_file(services.load_config(None, ()), again))
        second = apply_words(fleet, other, "--reason", "again: all moved already")
        code, body = answer(capsys, *second)  # followed now: a worker serves the cluster
        assert (code, body["run"]["state"]) == (1, "FAILED")
        assert {step["code"] for step in body["run"]["steps"]} == {"moved_meanwhile"}
        assert f"/{worker.pid}/" in body["run"]["worker"]
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(DEADLINE_S) == 0
    assert f"{run_id} is DONE" in log.read_text()


def wait_until(is_true: Callable[[], bool], log: Path) -> None:
    pause = threading.Event()
    for _ in range(int(DEADLINE_S / 0.1)):
        if is_true():
            return
        pause.wait(0.1)
    pytest.fail(f"not within {DEADLINE_S:.0f} s: {log.read_text()}")


@pytest.mark.parametrize(
    ("text", "pace"), [("10/min", 10.0), ("1/s", 60.0), ("120/h", 2.0), ("7", 7.0), ("2 / m", 2.0)]
)
def test_pace_is_steps_a_minute(text: str, pace: float) -> None:
    assert pace_per_min(text) == pytest.approx(pace)


@pytest.mark.parametrize("text", ["", "fast", "-1/min", "0", "10/day"])
def test_what_is_no_pace_is_refused(text: str) -> None:
    with pytest.raises(UsageFaultError, match="not a rate"):
        pace_per_min(text)


# -- settings --------------------------------------------------------------------------------------

THRESHOLD = "loadBalancerBrokerThresholdShedderPercentage"


def test_a_setting_is_planned_applied_once_and_taken_back(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "setting.json"
    code, body = answer(
        capsys, "set", "sandbox", f"{THRESHOLD}=7", "--plan", file, "--config", fleet.config
    )
    assert code == 0, body
    assert body["steps"][0]["command"].endswith(f"--config {THRESHOLD} --value 7")
    how = ("--cluster", "sandbox", "--reason", "calmer", "--yes", "--config", fleet.config)
    code, body = answer(capsys, "apply", file, *how)
    assert code == 0, body
    run_id = body["run"]["run_id"]
    (step,) = body["run"]["steps"]
    assert (step["kind"], step["subject"], step["code"]) == (
        "set_dynamic_setting",
        THRESHOLD,
        "set",
    )
    code, body = answer(capsys, "apply", file, *how)
    assert (code, body["error"]["code"]) == (1, "already_applied")
    assert run_id in body["error"]["message"]
    code, body = answer(
        capsys, "undo", run_id, "--yes", "--reason", "enough", "--config", fleet.config
    )
    assert code == 0, body
    assert body["run"]["steps"][0]["after"]["value"] is None


def test_a_setting_that_is_not_set_needs_no_unset(fleet: Fleet, capsys) -> None:
    code, body = answer(capsys, "set", "sandbox", "--unset", THRESHOLD, "--config", fleet.config)
    assert (code, body["verdict"], body["plan"]) == (0, "nothing_to_do", None)


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ((f"{THRESHOLD}=-1",), 1, "setting_range"),
        ((f"{THRESHOLD}=soon",), 1, "setting_value"),
        (("loadBalancerEnabled=false",), 1, "setting_not_dynamic"),
        ((f"{THRESHOLD}x=1",), 1, "unknown_name"),
        ((THRESHOLD,), 2, "usage"),
        ((f"{THRESHOLD}=1", "--unset", THRESHOLD), 2, "usage"),
        ((), 2, "usage"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_words(
    fleet: Fleet, words, code, error, capsys: pytest.CaptureFixture[str]
) -> None:
    found, body = answer(capsys, "set", "sandbox", *words, "--config", fleet.config)
    assert (found, body["error"]["code"]) == (code, error)
