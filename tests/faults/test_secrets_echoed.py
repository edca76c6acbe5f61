"""Secrets that endpoints repeat are nowhere in what is written, and what is written is private."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from small_broker import SmallBroker, said, serve_cluster

from connectors.config.credentials import Auth
from connectors.config.model import TrimtabConfig
from connectors.config.private import exposed_secrets, keep_private
from connectors.transport import redaction
from connectors.zookeeper.client import _without_secrets, single_answer
from connectors.zookeeper.multi_read import ReadAnswer
from core.snapshot.store import SnapshotStore
from dashboard import services
from dashboard.cli.main import run

TOKEN = 'tok"en/with+signs&ü=0123456789'
PLAIN = "s3cret-Token-0123456789"


def forms(secret: str) -> list[bytes]:
    """How servers write what they were sent."""
    raw = secret.encode()
    return [
        raw,
        base64.b64encode(raw),
        base64.urlsafe_b64encode(raw),
        base64.b64encode(b"ann:" + raw),
        base64.b64encode(b"xy" + raw + b"tail"),
        quote(secret, safe="").encode(),
        quote(secret, safe="").lower().encode() if secret == PLAIN else quote(secret).encode(),
        json.dumps(secret)[1:-1].encode(),
        json.dumps(secret).replace("/", "\\/")[1:-1].encode(),
        "".join(f"\\u{ord(letter):04x}" for letter in secret).encode(),
        raw.hex().encode(),
    ]


@pytest.mark.parametrize("secret", [TOKEN, PLAIN])
@pytest.mark.parametrize("number", range(11))
def test_every_form_of_a_secret_is_replaced(secret: str, number: int) -> None:
    redaction.register(secret)
    form = forms(secret)[number]
    clean = redaction.redacted(b"<<" + form + b">>")
    assert form not in clean
    assert redaction.MARK in clean


def test_what_has_no_secret_is_the_same_object() -> None:
    redaction.register(PLAIN)
    content = b'{"a": 1}' * 1000
    assert redaction.redacted(content) is content


@pytest.mark.parametrize("secret", ["8080808080", "8080", "b-1", "main", "load", "0123456"])
def test_a_secret_that_data_may_hold_by_chance_leaves_data_alone(secret: str) -> None:
    redaction.register(secret)
    raw = secret.encode()
    content = b'{"port":%s,"rate":1%s.5,"name":"%s-%s","text":"%s"}' % ((raw,) * 5)
    assert redaction.redacted(content) is content


@pytest.mark.parametrize("secret", ["8080808080", "80801", "load1", "4711471147114711"])
@pytest.mark.parametrize(
    "text",
    [
        "no such role: Bearer %s",
        '{"reason": "password=%s"}',
        '{"token": "%s", "a": 1}',
        r"\"secret\": %s",
    ],
)
def test_a_weak_secret_is_replaced_where_it_is_announced(secret: str, text: str) -> None:
    redaction.register(secret)
    clean = redaction.redacted((text % secret).encode()).decode()
    assert secret not in clean
    assert clean == text % ("0" if secret.isdigit() else "[secret]")


def test_a_number_stays_a_number() -> None:
    redaction.register("4711471147114712")
    body = b'{"a":4711471147114712,"b":14711471147114712,"c":4711471147114712.5}'
    expected = b'{"a":0,"b":14711471147114712,"c":4711471147114712.5}'
    assert redaction.redacted(body) == expected


def test_basic_credentials_with_a_weak_password_are_replaced() -> None:
    Auth(username="operator", password="4711").read_password()
    pair = base64.b64encode(b"operator:4711")
    assert pair not in redaction.redacted(b"you sent " + pair)


def test_znode_with_a_secret_is_clean() -> None:
    redaction.register(PLAIN)
    assert (
        PLAIN.encode()
        not in _without_secrets(ReadAnswer.without_stat(0, b"x" + PLAIN.encode())).value
    )
    assert _without_secrets(ReadAnswer.without_stat(0, [PLAIN, "b"])).value == ["[secret]", "b"]
    plain = ReadAnswer.without_stat(0, b"{}")
    assert _without_secrets(plain) is plain


@pytest.fixture
def echoing() -> SmallBroker:
    with SmallBroker() as broker:
        serve_cluster(broker)
        echo = b" ".join(forms(PLAIN))
        body = b'{"reason": "no such role: Bearer ' + echo + b'"}'
        broker.not_found = b"<title>" + echo + b"</title>"
        for path in list(broker.answers):
            if "configuration" in path or "load-report" in path or "broker-stats" in path:
                broker.answers[path] = (401, {"Content-Type": "application/json"}, body)
        broker.answers["/admin/v2/brokers/configuration/runtime"] = said({"brokerName": PLAIN})
        yield broker


def test_nothing_that_is_written_has_the_secret(
    echoing: SmallBroker, tmp_path: Path, monkeypatch, capfd, caplog
) -> None:
    secret_file = tmp_path / "token"
    secret_file.write_text(PLAIN)
    secret_file.chmod(0o600)
    state = tmp_path / "state"
    config = tmp_path / "trimtab.toml"
    config.write_text(
        f'state_dir = "{state}"\n[[clusters]]\nname = "c"\nread_only = false\n'
        f'admin_urls = ["{echoing.url}"]\ntimeouts = {{ read_s = 2.0 }}\n'
        f'[clusters.auth]\ntoken_file = "{secret_file}"\n'
    )
    monkeypatch.setenv(services.CONFIG_ENV, str(config))
    old = os.umask(0o022)
    try:
        for line in (
            ["check"],
            ["check", "--json"],
            ["collect", "c", "--every", "0"],
            ["capture", "c", "--out", str(tmp_path / "out"), "--json"],
            ["health", str(tmp_path / "out"), "--json"],
            ["owners", "c", "--json"],
            ["policy", "list", "c", "--json"],
            ["history", "minutes", "c", "--json"],
            ["runs", "--json"],
        ):
            run(line)
    finally:
        os.umask(old)
    out, err = capfd.readouterr()
    texts = {"stdout": out.encode(), "stderr": err.encode(), "logs": caplog.text.encode()}
    written = [one for one in (*state.rglob("*"), *(tmp_path / "out").rglob("*")) if one.is_file()]
    texts |= {str(one): one.read_bytes() for one in written}
    assert len(written) > 10
    for place, content in texts.items():
        for form in forms(PLAIN):
            assert form not in content, f"{place} has {form!r}"
    # compressed pages of Parquet hide it from a search
    for stored in SnapshotStore(state / "snapshots").entries("c"):
        for file in stored.path.glob("*.parquet"):
            assert PLAIN not in str(pq.ParquetFile(file).read().to_pylist())
    sent = [headers.get("Authorization") for _, _, headers, _ in echoing.requests]
    assert f"Bearer {PLAIN}" in sent
    # and it is for its owner's eyes
    for one in (state, *state.rglob("*")):
        mode = stat.S_IMODE(one.stat().st_mode)
        assert not mode & 0o077, f"{one} has mode {mode:o}"


def test_folder_of_an_earlier_version_is_tightened(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "snapshots").mkdir(parents=True, mode=0o755)
    (state / "journal.db").write_text("x")
    (state / "journal.db").chmod(0o644)
    (state / "link").symlink_to("/etc/hostname")
    old = os.umask(0)
    try:
        keep_private(state)
        (state / "new").write_text("x")
    finally:
        os.umask(old)
    modes = {one.name: stat.S_IMODE(one.lstat().st_mode) for one in state.iterdir()}
    assert modes["snapshots"] == 0o700
    assert modes["journal.db"] == modes["new"] == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert Path("/etc/hostname").stat().st_mode & 0o044 or not Path("/etc/hostname").exists()


def test_check_warns_of_secrets_that_others_can_read(tmp_path: Path) -> None:
    config = tmp_path / "trimtab.toml"
    token = tmp_path / "token"
    token.write_text(PLAIN)
    config.write_text(
        '[[clusters]]\nname = "c"\nadmin_urls = ["http://127.0.0.1:9"]\n'
        f'[clusters.auth]\ntoken = "{PLAIN}"\n'
        '[[clusters]]\nname = "d"\nadmin_urls = ["http://127.0.0.1:9"]\n'
        f'[clusters.auth]\ntoken_file = "{token}"\n'
        '[[clusters]]\nname = "e"\nadmin_urls = ["http://127.0.0.1:9"]\n'
        '[clusters.auth]\nusername = "u"\npassword = "abc"\n'
    )
    config.chmod(0o644)
    token.chmod(0o640)
    warnings = exposed_secrets(TrimtabConfig.load(config, ()))
    assert f"{config} is readable by other users and has c.auth.token" in warnings[0]
    assert warnings[1] == (f"{token} is readable by other users. Run: chmod 600 {token}")
    assert "e.auth.password is short" in warnings[2]
    assert PLAIN not in " ".join(warnings)
    config.chmod(0o600)
    token.chmod(0o600)
    assert len(exposed_secrets(TrimtabConfig.load(config, ()))) == 1


def test_a_watched_znode_with_a_secret_is_clean() -> None:
    redaction.register(PLAIN)

    class Result:
        def __init__(self, value: object) -> None:
            self.value = value

        def get(self, timeout: float) -> object:
            return self.value

    stat = SimpleNamespace(czxid=1, mzxid=1, ctime=1, mtime=1, version=1, ephemeralOwner=0, pzxid=1)
    assert single_answer(Result((PLAIN.encode(), stat)), 1.0).value == redaction.MARK
    assert single_answer(Result([PLAIN, "b"]), 1.0).value == ["[secret]", "b"]
