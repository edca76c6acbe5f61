"""Signing in over HTTP, against the server as it is started: passwords, and a proxy's headers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests
from openid_provider import openid_provider, secrets_of
from page_visitor import Visitor
from pages_server import free_port, pages_served

from connectors.access.users import UserFile

PASSWORD = "correct horse battery"
PATHS = ("/", "/brokers?cluster=a", "/_stcore/host-config", "/media/none.png", "/nowhere")
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def configured(folder: Path, access: str) -> Path:
    path = folder / "trimtab.toml"
    path.write_text(f'state_dir = "state"\n[access]\n{access}\n')
    return path


def metrics(address: str, token: str) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return requests.get(f"{address}/metrics", headers=headers, timeout=30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("users")


@pytest.fixture(scope="module")
def users(folder: Path) -> UserFile:
    found = UserFile(folder / "state" / "users.json")
    found.set_user("ann", PASSWORD)
    return found


@pytest.fixture(scope="module")
def address(folder: Path, users: UserFile) -> Iterator[str]:
    grant = '[[access.grants]]\nrole="viewer"\npeople=["*"]\nclusters=["mine"]'
    clusters = "".join(
        f'\n[[clusters]]\nname="{one}"\nzookeeper="127.0.0.1:1"' for one in ("mine", "theirs")
    )
    config = configured(folder, f'sign_in = "users"\n{grant}{clusters}')
    with pages_served(folder, config=config) as port:
        yield f"http://127.0.0.1:{port}"


def sign_in(address: str, name: str, password: str, wanted: str = "/") -> requests.Response:
    return requests.post(
        f"{address}/sign-in",
        params={"next": wanted},
        data={"name": name, "password": password},
        allow_redirects=False,
        timeout=30,
    )


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_served_to_whoever_is_not_signed_in(address, path) -> None:
    page = requests.get(address + path, headers={"Accept": "text/html"}, timeout=30)
    assert page.url.startswith(f"{address}/sign-in?next=")
    assert "Password" in page.text
    assert requests.get(address + path, timeout=30).status_code == 401


def test_no_websocket_is_opened_for_whoever_is_not_signed_in(address) -> None:
    answer = requests.get(f"{address}/_stcore/stream", headers=UPGRADE, timeout=30)
    assert answer.status_code == 403


def test_a_person_signs_in_uses_the_pages_and_signs_out(address) -> None:
    answer = sign_in(address, "ann", PASSWORD, "/brokers?cluster=a")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/brokers?cluster=a"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    session = dict(answer.cookies)
    assert requests.get(f"{address}/_stcore/host-config", cookies=session, timeout=30).ok
    out = requests.post(f"{address}/sign-out", cookies=session, allow_redirects=False, timeout=30)
    assert out.headers["location"] == "/sign-in"
    refused = requests.get(f"{address}/_stcore/host-config", cookies=session, timeout=30)
    assert refused.status_code == 401


def test_a_link_of_another_site_signs_nobody_out(address) -> None:
    session = dict(sign_in(address, "ann", PASSWORD).cookies)
    asked = requests.get(f"{address}/sign-out", cookies=session, timeout=30)
    assert "<form" in asked.text
    assert requests.get(f"{address}/_stcore/host-config", cookies=session, timeout=30).ok


@pytest.mark.parametrize(
    "wanted",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "/sign-out",
        "//[",
    ],
)
def test_signing_in_leads_to_no_other_site(address, wanted) -> None:
    assert sign_in(address, "ann", PASSWORD, wanted).headers["location"] == "/"


def test_what_a_person_types_is_not_repeated_as_markup(address) -> None:
    wanted = '/"><script>alert(1)</script>'
    answer = requests.get(f"{address}/sign-in", params={"next": wanted}, timeout=30)
    assert "<script" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_form_of_another_site_is_refused(address) -> None:
    answer = requests.post(
        f"{address}/sign-in",
        data={"name": "ann", "password": PASSWORD},
        headers={"Origin": "http://evil.example"},
        timeout=30,
    )
    assert answer.status_code == 403


def test_metrics_need_an_api_token(address, users) -> None:
    assert requests.get(f"{address}/metrics", timeout=30).status_code == 401
    assert metrics(address, "ttk_0_0").status_code == 403
    _, token = users.add_token("ann", (), 1, datetime.now(UTC))
    answer = metrics(address, token)
    assert answer.status_code == 200
    assert 'cluster="mine"' in answer.text
    assert "theirs" not in answer.text


def test_guessing_is_held_up(address) -> None:
    codes = [sign_in(address, "eve", "guess").status_code for _ in range(7)]
    assert codes == [401] * 5 + [429] * 2


def test_attempts_at_once_are_counted_one_after_another(address) -> None:
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: sign_in(address, "zoe", "guess"), range(12)))
    assert sorted(one.status_code for one in answers) == [401] * 5 + [429] * 7


# -- behind a proxy --------------------------------------------------------------------------------

PROXIED = 'sign_in = "proxy"\n[[access.grants]]\nrole="viewer"\npeople=["*"]\n[access.proxy]\n'


ODD = {"X-Forwarded-User": b"a\xe2\x80\x8bnn", "X-Forwarded-Groups": "sre"}


@pytest.mark.parametrize(
    ("trusted", "headers", "status"),
    [
        ("127.0.0.1", {"X-Forwarded-User": "ann", "X-Forwarded-For": "203.0.113.9"}, 200),
        ("127.0.0.1", {}, 401),
        ("127.0.0.1", ODD, 403),
        ("127.0.0.1", {"X-Forwarded-User": b"Zo\xeb"}, 403),
        ("127.0.0.1", {"X-Forwarded-User": "Zoë".encode()}, 200),
        ("10.0.0.0/8", {"X-Forwarded-User": "ann", "X-Forwarded-For": "10.0.0.7"}, 403),
    ],
)
def test_only_the_proxy_says_who_somebody_is(tmp_path, trusted, headers, status) -> None:
    config = configured(tmp_path, f'{PROXIED}addresses = ["{trusted}"]')
    with pages_served(tmp_path, config=config) as port:
        place = f"http://127.0.0.1:{port}/_stcore/host-config"
        assert requests.get(place, headers=headers, timeout=30).status_code == status


# -- an OpenID provider ----------------------------------------------------------------------------


def test_a_provider_signs_people_in_behind_a_proxy_with_tls(tmp_path) -> None:
    """The cookie counts for the origin of redirect_uri, which a proxy's visitors have as https."""
    origin, port = "https://trimtab.example.com", free_port()
    grant = '[[access.grants]]\nrole="viewer"\npeople=["ann@example.com"]'
    cluster = '[[clusters]]\nname="mine"\nzookeeper="127.0.0.1:1"'
    config = configured(tmp_path, f'sign_in = "oidc"\n{grant}\n{cluster}')
    (tmp_path / ".streamlit").mkdir()
    person = {"sub": "42", "email": "ann@example.com", "email_verified": True}
    with openid_provider(person) as issuer:
        secrets = tmp_path / ".streamlit" / "secrets.toml"
        secrets.write_text(secrets_of(issuer, origin))
        with pages_served(
            tmp_path, "trimtab.example.com", config=config, port=port, start_in=tmp_path
        ):
            visitor = Visitor(f"http://127.0.0.1:{port}", origin=origin)
            page = visitor.page("")
            leads_to = visitor.page("", press=page.buttons["Sign in"]).leads_to
            for _ in range(3):  # to the provider, back, and in
                start = leads_to.replace(origin, visitor.address)
                start = start if "://" in start else visitor.address + start
                answer = visitor.session.get(start, allow_redirects=False, timeout=30)
                leads_to = answer.headers["location"]
            seen = visitor.page("brokers")
            assert "viewer" in seen.text
            assert "Sign out" in seen.buttons
            # downloads are for whoever is signed in; pages ask for themselves
            assert visitor.get("/media/none.png").status_code == 404
            for path in ("/media/none.png", "/_stcore/metrics"):
                assert Visitor(visitor.address).get(path).status_code == 401
            elsewhere = Visitor(visitor.address, visitor.session, "http://127.0.0.1:1")
            assert "Sign in" in elsewhere.page("brokers").buttons
