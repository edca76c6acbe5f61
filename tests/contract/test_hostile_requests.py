"""Raw requests that no browser sends, and tokens that are none, against the server of the pages."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest
from pages_server import pages_served

from connectors.access import users as user_files
from connectors.access.users import UserFile
from core.errors import ForbiddenError

PROXY = "trimtab.example"
REFUSED = (400, 403, 404, 414, 431)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def users(folder: Path) -> UserFile:
    return UserFile(folder / "state" / "users.json")


@pytest.fixture(scope="module")
def port(folder: Path, users: UserFile) -> Iterator[int]:
    config = folder / "trimtab.toml"
    config.write_text(
        'state_dir = "state"\n[access]\nsign_in = "users"\n'
        '[[access.grants]]\nrole = "viewer"\npeople = ["*"]\n'
        '[[clusters]]\nname = "mine"\nzookeeper = "127.0.0.1:1"\n'
    )
    users.set_user("ann", "correct horse battery")
    with pages_served(folder, PROXY, config=config) as chosen:
        yield chosen


def exchange(port: int, *lines: bytes, path: bytes = b"/healthz") -> tuple[int, bytes]:
    """Send these lines after a request line, and return status and content; 0: it hung up."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        head = [b"GET " + path + b" HTTP/1.1", *lines, b"Connection: close", b"", b""]
        try:
            connection.sendall(b"\r\n".join(head))
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        except ConnectionError:
            return 0, b""
    return int(answer.split()[1]) if answer else 0, answer


def host(port: int) -> bytes:
    return b"Host: 127.0.0.1:%d" % port


# -- hosts and origins -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        (),  # none at all
        (b"Host: 127.0.0.1", b"Host: evil.example"),
        (b"Host: evil.example", b"Host: 127.0.0.1"),
        (b"Host: localhost.",),
        (b"Host: 127.1",),
        (b"Host: 2130706433",),
        (b"Host: 0x7f.0.0.1",),
        (b"Host: 0.0.0.0",),
        (b"Host: [::ffff:127.0.0.1]",),
        (b"Host: [::1",),
        (b"Host: 127.0.0.1:99999",),
        (b"Host: 127.0.0.1:-1",),
        (b"Host: 127.0.0.1:8501:evil.example",),
        (b"Host: evil.example#127.0.0.1",),
        (b"Host: evil.example?127.0.0.1",),
        (b"Host: evil.example/127.0.0.1",),
        (b"Host: 127.0.0.1/",),
        (b"Host: 127.0.0.1\\evil.example",),
        (b"Host: 127.0.0.1@evil.example",),
        (b"Host: evil.example, 127.0.0.1",),
        (b"Host: 127.0.0.1 evil.example",),
        (b"Host: 127.0.0.1%00.evil.example",),
        (b"Host: 127.0.0.1\x00",),
        (b"Host: localhost\xad",),  # a soft hyphen, which browsers leave out of names
        (b"Host: evil.trimtab.example",),
        (b"Host: " + b"a" * 9_000,),
        (b"Host: evil.example", b"X-Forwarded-Host: 127.0.0.1"),
        (b"Host : 127.0.0.1",),
    ],
)
def test_no_form_of_a_host_that_is_not_ours_is_served(port: int, lines: tuple[bytes, ...]) -> None:
    status, answer = exchange(port, *lines)
    assert status in (0, *REFUSED), answer
    assert not answer.endswith(b"ok\n")


@pytest.mark.parametrize(
    "origin",
    [
        b"Origin: http://127.0.0.1:%d@evil.example",
        b"Origin: http://evil.example/127.0.0.1:%d",
        b"Origin: http://evil.example#@127.0.0.1:%d",
        b"Origin: http://evil.example\\@127.0.0.1:%d",
        b"Origin: http://127.0.0.1:%d.evil.example",
        b"Origin: //127.0.0.1:%d",
        b"Origin: 127.0.0.1:%d",
        b"Origin: chrome-extension://127.0.0.1:%d",
        b"Origin: http://127.0.0.1:%d\r\nOrigin: http://evil.example",
        b"Origin: http://localhost:%d",  # another host of this machine is another origin
    ],
)
def test_no_form_of_a_foreign_origin_is_served(port: int, origin: bytes) -> None:
    status, answer = exchange(port, host(port), origin % port)
    assert status in REFUSED, answer


def test_the_same_request_without_a_trick_is_served(port: int) -> None:
    assert exchange(port, host(port))[0] == 200
    own = b"Origin: http://127.0.0.1:%d" % port
    assert exchange(port, host(port), own)[0] == 200
    assert exchange(port, b"Host: trimtab.example", b"Origin: https://trimtab.example")[0] == 200


# -- tokens ----------------------------------------------------------------------------------------


@pytest.fixture
def token(users: UserFile) -> str:
    return users.add_token("ann", (), 1, datetime.now(UTC))[1]


def metrics(port: int, *lines: bytes, query: bytes = b"") -> int:
    return exchange(port, host(port), *lines, path=b"/metrics" + query)[0]


def test_a_good_token_is_served(port: int, token: str) -> None:
    assert metrics(port, b"Authorization: Bearer " + token.encode()) == 200


@pytest.mark.parametrize(
    "made",
    [
        lambda text: "",
        lambda text: " ",
        lambda text: "null",
        lambda text: text[:-1],
        lambda text: f"{text}a",
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text.swapcase(),
        lambda text: text[:17] + "_" + "A" * 43,  # the id of one that there is
        lambda text: f"ttk_{'0' * 12}_{text[17:]}",  # the secret of one with another id
        lambda text: f"{text[:17]}{text[17:]}\x00",
        lambda text: f"{text},{text}",
        lambda text: f"{text} {text}",
        lambda text: "ttk_" + "f" * 5_000,
        lambda text: "é" * 60,
        lambda text: "٣" * 60,  # digits of another alphabet
    ],
)
def test_what_is_no_token_is_refused_and_not_repeated(port: int, token: str, made) -> None:
    text = made(token)
    line = b"Authorization: Bearer " + text.encode()
    status, answer = exchange(port, host(port), line, path=b"/metrics")
    assert status in (400, 401, 403), answer
    assert token.encode() not in answer
    assert len(text) < 20 or text.encode() not in answer


@pytest.mark.parametrize("scheme", [b"Basic", b"Token", b"Bearer:", b"bearerbearer"])
def test_a_token_of_another_scheme_is_refused(port: int, token: str, scheme: bytes) -> None:
    assert metrics(port, b"Authorization: " + scheme + b" " + token.encode()) in (401, 403)


def test_a_token_is_taken_from_its_header_only(port: int, token: str) -> None:
    text = token.encode()
    assert metrics(port, query=b"?token=" + text) == 401
    assert metrics(port, query=b"?access_token=" + text + b"&authorization=Bearer%20" + text) == 401
    assert metrics(port, b"Cookie: token=" + text + b"; trimtab_session=" + text) == 401
    assert metrics(port, b"X-Api-Key: " + text) == 401
    assert metrics(port, b"Proxy-Authorization: Bearer " + text) == 401


def test_a_header_without_end_is_refused_at_once(port: int) -> None:
    began = monotonic()
    status = metrics(port, b"Authorization: Bearer " + b"a" * 2_000_000)
    assert status in (0, 400, 401, 403, 431)
    assert monotonic() - began < 5
    assert exchange(port, host(port))[0] == 200


def test_a_token_opens_no_page(port: int, token: str) -> None:
    bearer = b"Authorization: Bearer " + token.encode()
    for path in (b"/", b"/_stcore/host-config", b"/_stcore/stream"):
        assert exchange(port, host(port), bearer, path=path)[0] == 401


def test_the_secret_of_a_token_is_compared_in_constant_time(
    users: UserFile, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[str, str]] = []
    equal = hmac.compare_digest

    def noted(left: str, right: str) -> bool:
        compared.append((left, right))
        return equal(left, right)

    monkeypatch.setattr(user_files.hmac, "compare_digest", noted)
    wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
    for text in (token, wrong):
        if text == wrong:
            with pytest.raises(ForbiddenError):
                users.of_token(text, datetime.now(UTC))
        else:
            users.of_token(text, datetime.now(UTC))
    assert len(compared) == 2
    # hashes, not secrets: how far they agree says nothing about the secret
    assert all(len(side) == 64 for pair in compared for side in pair)


def test_a_token_ends_at_its_moment_whatever_clock_made_it(users: UserFile) -> None:
    now = datetime.now(UTC)
    _, text = users.add_token("ann", (), 1, now)
    assert users.of_token(text, now - timedelta(hours=1)).name == "ann"
    with pytest.raises(ForbiddenError, match="expired"):
        users.of_token(text, now + timedelta(days=1))
