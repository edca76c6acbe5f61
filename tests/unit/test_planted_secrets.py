"""Secrets that are planted everywhere are in nothing that is printed or written."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.config.model import TrimtabConfig
from dashboard import services
from dashboard.cli.main import run
from trimtab.token import TOKEN_ENV

PLANTED = {
    "token": "planted-token-5b1f0a77c2",
    "digest": "planted-digest-91e2c4d8aa",
    "prometheus": "planted-prometheus-03fe77",
    "target": "planted-target-77aa10bc3d",
    "password": "planted-password-of-ann-4411",
}
COMMANDS = (
    ("check",),
    ("check", "--json"),
    ("capture", "c", "--out", "snap"),
    ("health", "c"),
    ("diagnose", "c"),
    ("metrics",),
    ("whoami",),
    ("whoami", "--json"),
    ("users", "list", "--json"),
    ("tokens", "list", "--json"),
    ("alerts", "list"),
    ("alerts", "test", "hook"),
    ("alerts", "test", "nobody"),
    ("runs",),
    ("runs", "--verify", "--json"),
    ("apply", "no-such-plan.json", "--cluster", "c", "--reason", "x", "--yes"),
    ("collect", "c", "--every", "0"),
    ("jobs", "list"),
    ("no-such-command",),
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = tmp_path / "config"
    config.mkdir(mode=0o700)
    digest = config / "digest"
    digest.write_text(f"ann:{PLANTED['digest']}")
    file = config / "trimtab.toml"
    file.write_text(
        f"""state_dir = "{tmp_path / "state"}"
[access]
sign_in = "users"
[[access.grants]]
role = "admin"
people = ["ann"]
[[alerts.targets]]
name = "hook"
url = "json://127.0.0.1:1/{PLANTED["target"]}"
[[clusters]]
name = "c"
zookeeper = "127.0.0.1:1"
admin_urls = ["http://127.0.0.1:1"]
[clusters.auth]
token = "{PLANTED["token"]}"
[clusters.zookeeper_auth]
digest_file = "{digest}"
[clusters.prometheus]
url = "http://127.0.0.1:1"
[clusters.prometheus.auth]
token = "{PLANTED["prometheus"]}"
[clusters.timeouts]
zookeeper_s = 1
connect_s = 1
capture_s = 3
"""
    )
    for one in (digest, file):
        one.chmod(0o600)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(file))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own_logging() -> Iterator[None]:
    """What a test sets up of logging ends with it."""
    root, own = logging.getLogger(), logging.getLogger("trimtab")
    handlers, level = root.handlers[:], own.level
    yield
    root.handlers[:] = handlers
    own.setLevel(level)


def written(place: Path) -> dict[Path, bytes]:
    """Return every file that was written, but the configuration and its secret files."""
    return {
        path: path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and path.parent.name != "config"
    }


def test_no_secret_is_printed_logged_or_written(place, capsys, caplog, monkeypatch) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PLANTED['password']}\n"))
    assert run(["users", "add", "ann"]) == 0
    assert run(["tokens", "create", "ann"]) == 0
    token = capsys.readouterr().out.strip()
    monkeypatch.setenv(TOKEN_ENV, token)
    for command in COMMANDS:
        run(list(command))
    said = capsys.readouterr()
    hidden = {**PLANTED, "api token": token.rpartition("_")[2]}
    assert "ann" in said.out
    for name, secret in hidden.items():
        assert secret not in said.out, name
        assert secret not in said.err, name
        assert secret not in caplog.text, name
        holding = [path for path, content in written(place).items() if secret.encode() in content]
        assert not holding, name


@pytest.mark.slow
def test_no_secret_is_in_logs_as_json(place, capsys, monkeypatch, own_logging) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setenv("TRIMTAB_LOG_FORMAT", "json")
    config = TrimtabConfig.load(place / "config" / "trimtab.toml", ())
    for mistake in (False, True):  # an answer that is refused, and a traceback
        with monkeypatch.context() as patched:
            if mistake:
                patched.setattr("connectors.recording.collector._Loop._once", fail)
            stop = threading.Event()
            timer = threading.Timer(3.0, stop.set)
            timer.start()
            services.run_collector(config, list(config.clusters), 1.0, stop, print)
            timer.join()
    text = capsys.readouterr().err
    values = [str(value) for line in text.splitlines() for value in json.loads(line).values()]
    assert any("refuses connections" in value for value in values)
    assert any("ZeroDivisionError: a bug" in value for value in values)
    for name, secret in PLANTED.items():
        assert not [value for value in values if secret in value], name
        assert secret not in text, name


def test_what_is_written_is_for_its_owner_only(place, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PLANTED['password']}\n"))
    run(["users", "add", "ann"])
    run(["collect", "c", "--every", "0"])
    run(["runs"])
    files = list((place / "state").rglob("*"))
    assert files
    assert not [path for path in files if path.stat().st_mode & 0o077]
