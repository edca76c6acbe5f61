"""The offline commands: their JSON, their exit codes, and what people see."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fleet_builder import make_snapshot
from fleet_edit import edited, owned_by, with_policies
from pegasus_snapshots import snapshot_of, whole
from places import FIXTURES

from core.operations import place
from core.pulsar.placement import place_bundle
from core.pulsar.record import PULSAR_RECORD
from core.snapshot import Problem, PulsarSnapshot
from core.snapshot.store import save_snapshot
from dashboard import services
from dashboard.cli.main import COMMANDS, run
from dashboard.cli.systems import captured

DUMP = FIXTURES / "contracts" / "three-brokers.jsonl"
BUNDLE = "acme/orders/0x00000000_0x40000000"

Trimtab = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trimtab(capsys) -> Trimtab:
    def call(*words: object) -> tuple[int, str, str]:
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("three") / "snapshot"
    assert run(["import-zk", str(DUMP), "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("fleet") / "snapshot"
    save_snapshot(with_policies(make_snapshot()), out)
    return out


def one_object(text: str) -> dict:
    """Exactly one JSON object and nothing else."""
    decoder = json.JSONDecoder()
    body, end = decoder.raw_decode(text)
    assert text[end:].strip() == ""
    assert isinstance(body, dict)
    return body


# -- the worked answers of the contract ------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "distribution"),
    [
        ("LeastLongTermMessageRate", {"10.1.0.3:8080": 1.0}),
        ("LeastResourceUsageWithWeight", {"10.1.0.2:8080": 0.5, "10.1.0.3:8080": 0.5}),
    ],
)
def test_place_gives_the_worked_answers(trimtab, three, strategy, distribution) -> None:
    words = ("--bundle", BUNDLE, "--strategy", strategy, "--no-filters", "--json")
    code, out, err = trimtab("place", three, *words)
    body = one_object(out)
    assert code == 0
    assert err == ""
    assert body["distribution"] == distribution
    assert body["elapsed_ms"] >= 0
    assert set(body["ruled_out"]) == {f"10.1.0.{n}:8080" for n in (1, 2, 3)} - set(distribution)


def test_every_ruled_out_broker_has_a_filter_and_a_reason(trimtab, three) -> None:
    _, out, _ = trimtab("place", three, "--bundle", BUNDLE, "--json")
    for reason in one_object(out)["ruled_out"].values():
        assert re.match(r"\w+: .+", reason)


@pytest.mark.parametrize(
    ("words", "expected"), [((), None), (("--non-persistent",), True), (("--persistent",), False)]
)
def test_place_uses_the_kind_of_topics_that_is_given(
    trimtab, three, monkeypatch, words, expected
) -> None:
    used = []

    def placed(*given: Any, non_persistent: bool | None, **more: Any) -> Any:
        used.append(non_persistent)
        return place_bundle(*given, non_persistent=non_persistent, **more)

    monkeypatch.setattr(place, "place_bundle", placed)
    assert trimtab("place", three, "--bundle", BUNDLE, *words, "--json")[0] == 0
    assert used == [expected]


def test_place_with_candidates_looks_at_them_alone(trimtab, three) -> None:
    words = ("--bundle", BUNDLE, "--no-filters", "--candidates", "10.1.0.1:8080,10.1.0.2:8080")
    _, out, _ = trimtab("place", three, *words, "--json")
    assert one_object(out)["distribution"] == {"10.1.0.2:8080": 1.0}


def test_place_without_an_eligible_broker_says_why(trimtab, tmp_path) -> None:
    fleet = make_snapshot()
    nobody = {
        "namespaces": ["acme/.*"],
        "primary": ["nobody"],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    save_snapshot(with_policies(fleet, ("isolation", "lost", json.dumps(nobody))), tmp_path / "s")
    bundle = next(name for name in fleet.bundles["bundle"].to_pylist() if name.startswith("acme/"))
    code, out, _ = trimtab("place", tmp_path / "s", "--bundle", bundle, "--json")
    body = one_object(out)
    assert code == 0
    assert body["distribution"] == {}
    assert body["why"]


def test_place_takes_settings_and_releases(trimtab, three) -> None:
    words = ("--bundle", BUNDLE, "--set", "loadBalancerDistributeBundlesEvenlyEnabled=false")
    code, out, _ = trimtab("place", three, *words, "--release", "4.0", "--json")
    assert code == 0
    assert "removeMostServicing" not in out


def test_import_zk_names_what_it_wrote(trimtab, tmp_path) -> None:
    code, out, _ = trimtab("import-zk", DUMP, "--out", tmp_path / "s", "--json")
    body = one_object(out)
    assert code == 0
    assert body["tables"]["brokers"]["rows"] == 3
    assert body["tables"]["bundles"]["rows"] == 7
    assert (tmp_path / "s" / "manifest.json").is_file()


def test_health_answers_first(trimtab, three) -> None:
    code, out, _ = trimtab("health", three)
    assert code == 0
    assert out.startswith("80.9% of the traffic on 1 broker of 3")
    _, out, _ = trimtab("health", three, "--json")
    body = one_object(out)
    assert body["state"] == "attention"
    assert body["measures"]["throughput"]["worst"] == "10.1.0.1:8080"
    assert {"code", "severity", "sentence", "evidence", "hint"} <= set(body["findings"][0])


@pytest.fixture
def clusters(tmp_path, monkeypatch) -> Path:
    """A configuration with a cluster of each system; what is captured is at hand."""
    pulsar, pegasus_state = make_snapshot(brokers=3, bundles=8), snapshot_of(whole())
    captured = {"east": pulsar, "tables": pegasus_state}
    monkeypatch.setattr(services, "snapshot_of", lambda _, cluster: captured[cluster.name])
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "trimtab.toml"
    config.write_text(
        '[[clusters]]\nname = "east"\nadmin_urls = ["http://127.0.0.1:9"]\n'
        '[[clusters]]\nname = "tables"\nkind = "pegasus"\nmeta_servers = ["127.0.0.1:9"]\n'
    )
    return config


def test_health_takes_a_configured_cluster(trimtab, clusters) -> None:
    code, out, _ = trimtab("health", "east", "--config", clusters, "--json")
    assert code == 0
    assert one_object(out)["measures"]["throughput"]["brokers"] == 3
    code, out, _ = trimtab("health", "tables", "--config", clusters, "--json")
    assert code == 0
    assert one_object(out)["balance"]["state"]


def test_health_takes_a_cluster_next_to_a_snapshot(trimtab, clusters, three) -> None:
    code, out, _ = trimtab("health", "east", three, "--config", clusters, "--json")
    assert code == 0
    assert len(one_object(out)["clusters"]) == 2


def test_health_names_near_clusters(trimtab, clusters) -> None:
    code, out, _ = trimtab("health", "eats", "--config", clusters, "--json")
    assert code == 1
    assert one_object(out)["error"]["code"] == "unknown_name"
    assert "east" in one_object(out)["error"]["hint"]


def test_lookup_shows_every_step(trimtab, three) -> None:
    topic = "persistent://acme/orders/t0"
    _, out, _ = trimtab("lookup", three, topic, "--json")
    body = one_object(out)
    assert body["hash"] == 0x8616C3C4
    assert body["bundle"] == "acme/orders/0x80000000_0xc0000000"
    assert body["owner"] == "10.1.0.1:8080"
    code, out, _ = trimtab("lookup", three, topic)
    assert code == 0
    assert "0x8616c3c4" in out


def test_a_plan_made_of_a_cluster_is_previewed_on_the_cluster(
    trimtab, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("dashboard.cli.source._captured", lambda *_: make_snapshot())
    plan = tmp_path / "plan.json"
    bundle = owned_by(make_snapshot(), "10.1.0.11:8080")[0]
    code, out, _ = trimtab("unload", "prod-eu", "--bundle", bundle, "--plan", plan)
    assert code == 0
    assert f"trimtab preview {plan}`" in " ".join(out.split())
    assert "trimtab-" not in out
    for words in (("--snapshot", "prod-eu"), ()):
        code, out, _ = trimtab("preview", plan, *words)
        assert code == 0
        assert bundle in out


def test_a_plan_is_previewed_on_the_current_state_of_its_cluster(
    trimtab, tmp_path, monkeypatch
) -> None:
    now = make_snapshot()
    bundles = owned_by(now, "10.1.0.11:8080")[:2]
    plan = tmp_path / "plan.json"
    monkeypatch.setattr("dashboard.cli.source._captured", lambda *_: now)
    config = SimpleNamespace(cluster=lambda _name: SimpleNamespace(exclusions=()))
    monkeypatch.setattr("dashboard.cli.preview.read_config", lambda _: config)
    words = [word for name in bundles for word in ("--bundle", name)]
    assert trimtab("unload", "fleet", *words, "--plan", plan)[0] == 0

    def previewed_on(snapshot, *more):
        taken_at = snapshot.manifest.taken_at + timedelta(seconds=30)
        later = replace(snapshot.manifest, taken_at=taken_at)
        snapshot = PulsarSnapshot.build(later, snapshot.tables)
        monkeypatch.setattr("dashboard.cli.source._captured", lambda *_: snapshot)
        return trimtab("preview", plan, *more)

    code, out, _ = previewed_on(now)
    assert code == 0
    assert "Current state of fleet at" in " ".join(out.split())
    assert "Unloading 2 bundles" in out
    moved = edited(now, "bundles", {bundles[0]: {"owner": "10.1.0.5:8080"}})
    code, out, _ = previewed_on(moved, "--json")
    body = one_object(out)
    assert code == 0
    assert [step["bundle"] for step in body["steps"]] == [bundles[1]]
    assert bundles[0] in body["skipped"][0]
    assert "10.1.0.5:8080" in body["skipped"][0]
    code, out, _ = previewed_on(moved)
    assert f"Skipped: {body['skipped'][0]}" in " ".join(out.split())
    both = edited(moved, "bundles", {bundles[1]: {"owner": "10.1.0.5:8080"}})
    code, out, err = previewed_on(both)
    assert code == 1
    assert "Plan again." in err
    other = PulsarSnapshot.build(replace(now.manifest, cluster="other"), now.tables)
    code, out, err = previewed_on(other)
    assert code == 1
    assert "is for fleet, not for other" in " ".join(err.split())


@pytest.mark.parametrize(
    "words",
    [
        ("unload", "prod-eu"),
        ("unload", "prod-eu", "--bundle", "x", "--set", "noSuchSetting=1"),
        ("preview", "missing.json", "--snapshot", "prod-eu"),
        ("split", "prod-eu", "--bundle", "x", "--algorithm", "none"),
        ("optimize", "prod-eu", "--set", "noSuchSetting=1"),
        ("advise", "lookups", "prod-eu"),
        ("diagnose", "prod-eu", "--set", "noSuchSetting=1"),
        ("shed", "prod-eu", "--set", "noSuchSetting=1"),
        ("place", "prod-eu"),
    ],
)
def test_arguments_are_checked_before_a_cluster_is_read(trimtab, monkeypatch, words) -> None:
    def read(*_: object) -> None:
        pytest.fail("the cluster was read")

    monkeypatch.setattr("dashboard.cli.source._captured", read)
    monkeypatch.setattr(services, "snapshot_of", read)
    assert trimtab(*words)[0] != 0


# -- unload and preview ----------------------------------------------------------------------------


def test_unload_writes_a_plan_that_preview_reads(trimtab, fleet, tmp_path) -> None:
    bundles = owned_by(make_snapshot(), "10.1.0.11:8080")[:2]
    plan = tmp_path / "plan.json"
    asked = [word for name in bundles for word in ("--bundle", name)]
    code, out, _ = trimtab(
        "unload", fleet, *asked, "--to", "10.1.0.9:8080", "--plan", plan, "--json"
    )
    made = one_object(out)
    assert code == 0
    assert made["path"] == str(plan)
    assert made["answer"].startswith("Unloading 2 bundles (")
    written = json.loads(plan.read_text())
    assert len(written.pop("signature")) == 64
    assert written == made["plan"]
    code, out, _ = trimtab("preview", plan, "--snapshot", fleet, "--json")
    body = one_object(out)
    assert code == 0
    assert body["plan_id"] == made["plan"]["plan_id"]
    assert body["steps"][0]["distribution"] == {"10.1.0.9:8080": 1.0}
    assert body["steps"][0]["command"].startswith("pulsar-admin namespaces unload ")
    assert len(body["before_after"]) == 12
    code, out, _ = trimtab("preview", plan, "--snapshot", fleet)
    assert code == 0
    assert "clients reconnect" in out
    assert bundles[1] in out
    assert "  curl -X PUT " in out


@pytest.mark.parametrize(
    "words",
    [("check",), ("dashboard",), ("collect", "--every", "0"), ("capture", "x", "--out", "y")],
)
def test_without_a_configuration_that_is_what_is_said(trimtab, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIMTAB_CONFIG", raising=False)
    code, out, err = trimtab(*words)
    assert (code, out) == (1, "")
    assert "No configuration" in err
    assert "trimtab demo" in err


def test_unload_without_a_file_shows_the_plan(trimtab, fleet) -> None:
    bundle = owned_by(make_snapshot(), "10.1.0.11:8080")[0]
    code, out, _ = trimtab("unload", fleet, "--bundle", bundle)
    assert code == 0
    assert "Not written" in out


def test_a_refused_unload_writes_nothing(trimtab, fleet, tmp_path) -> None:
    plan = tmp_path / "plan.json"
    heartbeat = "pulsar/10.1.0.1:8080/0x00000000_0xffffffff"
    code, out, _ = trimtab("unload", fleet, "--bundle", heartbeat, "--plan", plan, "--json")
    assert code == 1
    assert one_object(out)["error"]["code"] == "broker_bound"
    assert not plan.exists()


def test_a_plan_of_another_snapshot_is_refused(trimtab, fleet, three, tmp_path) -> None:
    plan = tmp_path / "plan.json"
    trimtab("unload", three, "--bundle", BUNDLE, "--plan", plan)
    code, out, _ = trimtab("preview", plan, "--snapshot", fleet, "--json")
    assert code == 1
    assert one_object(out)["error"]["code"] == "plan_conflict"


# -- refusals and usage ----------------------------------------------------------------------------

REFUSED = [
    ("place", "{three}", "--bundle", BUNDLE, "--candidates", "10.9.9.9:8080"),
    ("place", "{three}", "--bundle", "acme/none/0x00000000_0x40000000"),
    ("place", "{three}/none", "--bundle", BUNDLE),
    ("health", "{three}/none"),
    ("lookup", "{three}", "persistent://acme/none/t"),
    ("lookup", "{three}", "://"),
    ("unload", "{three}", "--bundle", "acme/none/0x00000000_0x40000000"),
    ("unload", "{three}", "--bundle", BUNDLE, "--to", "10.9.9.9:8080"),
    ("preview", "{three}/manifest.json", "--snapshot", "{three}"),
    ("import-zk", "{three}/none.jsonl", "--out", "{three}/out"),
]
WRONG_USAGE = [
    ("place", "{three}"),
    ("place",),
    ("place", "{three}", "--bundle", BUNDLE, "--set", "nope"),
    ("place", "{three}", "--bundle", BUNDLE, "--set", "loadBalancerEnable=true"),
    ("place", "{three}", "--bundle", BUNDLE, "--set", "maxUnloadPercentage=much"),
    ("place", "{three}", "--bundle", BUNDLE, "--strategy", "LeastLongTerm"),
    ("place", "{three}", "--bundle", BUNDLE, "--release", "6.0"),
    ("place", "{three}", "--bundle", BUNDLE, "--colour", "red"),
    ("health", "{three}", "--target", "viva"),
    ("place", "{three}", "--bundle", BUNDLE, "--candidates", ","),
    ("unload", "{three}"),
    ("nosuchcommand",),
]


@pytest.mark.parametrize(
    ("words", "expected"),
    [(words, 1) for words in REFUSED] + [(words, 2) for words in WRONG_USAGE],
    ids=lambda case: " ".join(case)[:60] if isinstance(case, tuple) else str(case),
)
def test_failures_are_one_sentence_or_one_object(trimtab, three, words, expected) -> None:
    filled = [word.format(three=three) for word in words]
    code, out, err = trimtab(*filled)
    assert code == expected
    assert out == ""
    assert err.startswith("trimtab: ")
    assert err.count("\n") == 1
    code, out, err = trimtab(*filled, "--json")
    assert code == expected
    error = one_object(out)["error"]
    assert set(error) == {"code", "message", "hint"}
    assert error["message"]
    assert err == ""


def test_an_unknown_setting_offers_near_names(trimtab, three) -> None:
    words = ("--bundle", BUNDLE, "--set", "loadBalancerEnable=true", "--json")
    _, out, _ = trimtab("place", three, *words)
    assert "loadBalancerEnabled" in one_object(out)["error"]["hint"]


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("place", "--help")])
def test_help_and_version_are_not_failures(trimtab, words) -> None:
    code, out, _ = trimtab(*words)
    assert code == 0
    assert out


def test_no_command_at_all_shows_the_help(trimtab) -> None:
    code, out, err = trimtab()
    assert code == 2
    assert out == ""
    assert "import-zk" in err


def test_every_command_of_the_contract_is_there() -> None:
    assert {name for names in COMMANDS.values() for name in names} >= {
        "demo", "sandbox", "dashboard", "check", "collect", "capture",
        "import-zk", "health", "lookup", "place", "unload", "preview", "shed", "split",
    }  # fmt: skip


# -- start-up --------------------------------------------------------------------------------------


def test_the_command_line_starts_without_heavy_imports() -> None:
    heavy = "{'pandas', 'pyarrow', 'numpy', 'streamlit', 'pyspark', 'kazoo', 'requests', 'plotly'}"
    script = f"import sys, dashboard.cli.main; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "[]"


def test_offline_commands_start_without_pages_clients_and_spark(three) -> None:
    heavy = "{'pandas', 'streamlit', 'pyspark', 'kazoo', 'requests', 'plotly', 'pyarrow.dataset'}"
    script = (
        "import sys\nfrom dashboard.cli.main import main\n"
        f"sys.argv = ['trimtab', 'place', {str(three)!r}, '--bundle', {BUNDLE!r}, '--json']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        f"there = [name for name in {heavy} if sys.modules.get(name)]\n"
        "print(code, there, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert done.stderr.strip() == "0 []"


def test_a_bug_of_ours_is_one_sentence_too(three) -> None:
    script = (
        "import sys\nfrom dashboard.cli import main\nfrom core.pulsar import facts\n"
        "facts.load_snapshot = None\n"
        f"sys.argv = ['trimtab', 'health', {str(three)!r}]\nmain.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, text=True
    )
    assert done.returncode == 1
    assert "Internal error: TypeError" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_size_of_a_snapshot_counts_the_bundles_that_pages_count() -> None:
    fleet = make_snapshot()
    bundles = fleet.bundles["bundle"].to_pylist()
    own = {name: {"is_broker_bound": True} for name in bundles[:12]}
    idle = {name: {"owner": None, "reported_by": None} for name in bundles[12:44]}
    sizes = PULSAR_RECORD.sizes(edited(fleet, "bundles", {**own, **idle}))
    assert sizes == ["12 brokers", "556 bundles (not counted: 24 heartbeat/SLA, 32 unassigned)"]
    assert PULSAR_RECORD.sizes(make_snapshot(brokers=1, bundles=1), ["brokers"]) == ["1 broker"]


@pytest.mark.parametrize(
    ("severity", "code"),
    [("error", 3), ("warning", 0), ("info", 0)],
    ids=["error", "warning", "info"],
)
def test_a_capture_whose_numbers_are_missing_ends_with_three(
    severity: str, code: int, tmp_path: Path
) -> None:
    whole_one = make_snapshot(brokers=3, bundles=12)
    lack = Problem(
        code="timeout",
        place="load topic",
        what="No answer.",
        done="The load of the brokers is unknown.",
        severity=severity,
    )
    manifest = replace(whole_one.manifest, problems=(lack,))
    assert captured(PulsarSnapshot.build(manifest, whole_one.tables), tmp_path).exit_code == code


def test_a_capture_of_some_of_the_bundles_ends_with_three(tmp_path: Path) -> None:
    whole_one = make_snapshot(brokers=3, bundles=12)
    entry = replace(whole_one.manifest.tables["bundles"], expected=2 * whole_one.bundles.num_rows)
    tables = {**whole_one.manifest.tables, "bundles": entry}
    manifest = replace(whole_one.manifest, tables=tables)
    assert captured(PulsarSnapshot.build(manifest, whole_one.tables), tmp_path).exit_code == 3
