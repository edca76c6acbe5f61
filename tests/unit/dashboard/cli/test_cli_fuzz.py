"""Every option and argument of every command against input that cannot be: one sentence, no bug."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from fleet_builder import NOON, make_snapshot
from pegasus_snapshots import snapshot_of, whole

from core.snapshot.store import save_snapshot
from dashboard import services
from dashboard.cli import apply, clusters, demo, jobs
from dashboard.cli.main import app, run
from dashboard.cli.output import StoppedError
from dashboard.services import alerts, pegasus, sandbox
from dashboard.services import jobs as services_jobs

WHOLE = ("-1", "0", "99999", "2147483648", "99999999999999999999", "1e400", "nan", "", "\udc80")
REAL = ("nan", "inf", "-1", "0", "1e400", "1e-320", "99999999999999999999", "\udc80")
TEXT = ("", "\udc80", "a\0b", "\x1b]0;x\x07\u202e", "x" * 5_000, "..", '{"a":')
SAYS_BUG = ("Traceback", "Internal error", "internal error")
CONFIG = """
state_dir = "{state}"
[[clusters]]
name = "c"
read_only = false
admin_urls = ["http://127.0.0.1:9"]
timeouts = {{ connect_s = 0.1, read_s = 0.1, capture_s = 0.5 }}
[[clusters]]
name = "peg"
kind = "pegasus"
read_only = false
meta_servers = ["127.0.0.1:9"]
timeouts = {{ connect_s = 0.1, read_s = 0.1, capture_s = 0.5, answer_s = 0.2 }}
"""


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from leaves(child, (*path, name))


COMMAND = typer.main.get_command(app)
LEAVES = dict(leaves(COMMAND))
MINUTES = {("history", "export"), ("history", "import"), ("pegasus", "balance")}
"""They do their work with most of what is tried."""


def values_for(param: Any) -> tuple[str, ...]:
    kind = str(param.type_descriptor.annotation)
    if "bool" in kind:
        return ()
    return WHOLE if "int'" in kind or "[int]" in kind else REAL if "float" in kind else TEXT


class Bench:
    """Valid input for every command, to be spoilt one value at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = itertools.count()
        self.config = folder / "trimtab.toml"
        self.config.write_text(CONFIG.format(state=folder / "state"))
        self.snapshot = make_snapshot(brokers=3, bundles=8, now=NOON)
        self.pulsar = folder / "pulsar"
        save_snapshot(self.snapshot, self.pulsar)
        self.pegasus = folder / "pegasus"
        save_snapshot(snapshot_of(whole()), self.pegasus)

    def valid(self, path: tuple[str, ...], param: Any) -> str:
        """Return a value that the command takes, as far as one is known without a cluster."""
        name = param.name
        is_pegasus = path[0] == "pegasus"
        known = {
            "snapshot": str(self.pulsar),
            "snapshots": str(self.pulsar),
            "source": str(self.pegasus if is_pegasus else self.pulsar),
            "bundle": self.snapshot.bundles["bundle"][0].as_py(),
            "bundles": self.snapshot.bundles["bundle"][0].as_py(),
            "topic": "persistent://acme/orders/t",
            "cluster": "c",
            "at": "now",
            "gpid": "1.0",
            "kind": "primary" if is_pegasus else "isolation",
            "key": "loadBalancerEnabled",
            "value": "1",
            "live": "1",
            "partitions": "4",
            "namespace": "acme/orders",
            "plan": str(self.folder / "no-plan.json"),
            "run": "20261121-120000-abcdef",
        }
        if name in known:
            return str(known[name])
        if "Path" in str(param.type_descriptor.annotation):
            return str(self.folder / f"new-{next(self.numbers)}")
        return "x"

    def lines(self, path: tuple[str, ...]) -> Iterator[list[str]]:
        """Every command line with one bad value."""
        params = LEAVES[path].params
        for spoilt in params:
            for bad in values_for(spoilt):
                line = [*path]
                for param in params:
                    if param is not spoilt and not param.required:
                        continue
                    value = bad if param is spoilt else self.valid(path, param)
                    if param.param_type_name == "argument":
                        line.append(value)
                    elif param.opts[0].startswith("--"):
                        line.append(f"{param.opts[0]}={value}")
                yield line


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Bench:
    return Bench(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch, bench) -> None:
    """Processes and servers are not started; what comes before them is checked."""
    monkeypatch.setenv(services.CONFIG_ENV, str(bench.config))
    monkeypatch.setenv("TRIMTAB_STATE_DIR", str(bench.folder / "state"))
    monkeypatch.chdir(bench.folder)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    # built once: that is most of what a command costs
    monkeypatch.setattr(typer.main, "get_command", lambda _: COMMAND)
    monkeypatch.setattr(services, "run_collector", lambda *_: None)
    monkeypatch.setattr(services, "run_worker", lambda *_: None)
    monkeypatch.setattr(alerts, "run_watch", lambda *_: SimpleNamespace(join=lambda: None))
    monkeypatch.setattr(services_jobs, "serve_jobs", lambda *_: None)
    for module in (clusters, demo):
        monkeypatch.setattr(module, "Supervisor", stopped)
    for module in (sandbox, pegasus):
        monkeypatch.setattr(module, "sandbox", stopped)
    for module in (clusters, demo, jobs, apply):
        monkeypatch.setattr(module, "end_with_parent", lambda: None, raising=False)


def stopped(*_: object, **__: object) -> object:
    raise StoppedError("Stopped here.")


def outcome(line: list[str]) -> tuple[int | str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: int | str = run(line)
        except SystemExit as exc:
            code = int(exc.code or 0)
        except Exception as exc:  # noqa: BLE001  # whatever it is, it is what the test is for
            code = f"{type(exc).__name__}: {str(exc)[:200]}"
    return code, out.getvalue() + err.getvalue()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path in MINUTES else [], id=" ".join(path))
        for path in LEAVES
    ],
)
def test_bad_input_is_one_sentence(path: tuple[str, ...], bench: Bench) -> None:
    bad = []
    for line in bench.lines(path):
        code, said = outcome(line)
        if code not in (0, 1, 2, 3) or any(word in said for word in SAYS_BUG) or "\x1b" in said:
            shown = [one if len(one) < 60 else one[:20] + "..." for one in line]
            bad.append(f"{shown!r}: {code} {said[-200:]!r}")
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["lookup", "PULSAR", "\udc80"], "is not valid UTF-8"),
        (["shed", "PULSAR", "--rounds", "99999999999999999999"], "--rounds"),
        (["dashboard", "--port", "99999"], "--port"),
        (["optimize", "PULSAR", "--within", "nan"], "finite"),
    ],
)
def test_bad_input_is_bad_usage(line: list[str], words: str, bench: Bench) -> None:
    code, said = outcome([str(bench.pulsar) if one == "PULSAR" else one for one in line])
    assert code == 2
    assert words in said
    assert said.count("\n") == 1
