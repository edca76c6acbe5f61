"""Several processes of the pages behind a real nginx, with the documented configuration."""

from __future__ import annotations

import asyncio
import collections
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import psutil
import pytest
import requests
from event_loops import run_apart
from pages_server import free_port, pages_served
from requests.adapters import HTTPAdapter
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect

from connectors.access.users import UserFile

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
DOCUMENTED = Path(__file__).parents[2] / "docs" / "deploy" / "proxy" / "nginx.conf"
HOST = "trimtab.example.com"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]


@dataclass(frozen=True)
class Site:
    """The proxy, and the servers behind it."""

    port: int
    servers: tuple[int, ...]
    log: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def get(
        self, path: str, session: requests.Session | None = None, **headers: str
    ) -> requests.Response:
        client = session or requests.Session()
        sent = {"Host": HOST} | {name.replace("_", "-"): text for name, text in headers.items()}
        return client.get(self.url + path, headers=sent, verify=False, timeout=30)

    def served_by(self) -> list[int]:
        """Ports of the servers that answered, in order."""
        return [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)\n", self.log.read_text())]


def configuration(folder: Path, servers: tuple[int, ...], port: int) -> str:
    """The documented file, with this machine's ports and certificate."""
    text = DOCUMENTED.read_text()
    lines = "\n".join(f"    server 127.0.0.1:{one} max_fails=1 fail_timeout=5s;" for one in servers)
    text = re.sub(r"    server pages:8501.*\n    # server pages-2.*", lines, text)
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    text = text.replace("/etc/nginx/tls/trimtab", str(folder / "trimtab"))
    return (
        f"pid {folder}/nginx.pid;\nerror_log {folder}/error.log;\ndaemon off;\n"
        "events {}\nhttp {\n"
        "log_format who '$request_uri $upstream_addr';\n"
        f"access_log {folder}/access.log who;\n{text}\n}}\n"
    )


@contextmanager
def behind_nginx(folder: Path, servers: tuple[int, ...]) -> Iterator[Site]:
    """Start nginx with the documented configuration in front of servers of the pages."""
    assert NGINX, "nginx is not installed: .ci/servers installs it"
    key = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    key += ["-subj", f"/CN={HOST}", "-keyout", f"{folder}/trimtab.key"]
    subprocess.run([*key, "-out", f"{folder}/trimtab.pem"], check=True, capture_output=True)
    made = Site(free_port(), servers, folder / "access.log")
    file = folder / "nginx.conf"
    file.write_text(configuration(folder, made.servers, made.port))
    process = subprocess.Popen([str(NGINX), "-c", str(file), "-p", str(folder)])
    try:
        until = monotonic() + 30
        while True:
            try:
                made.get("/healthz")
                break
            except requests.ConnectionError:
                assert monotonic() < until
                threading.Event().wait(0.1)
        yield made
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("proxy")
    config = folder / "trimtab.toml"
    config.write_text(f'state_dir = "{folder / "state"}"\n[pages]\nallowed_hosts = ["{HOST}"]\n')
    with ExitStack() as stack:
        servers = []
        for number in range(2):
            own = folder / f"server{number}"
            own.mkdir()
            servers.append(stack.enter_context(pages_served(own, HOST, config=config)))
        yield stack.enter_context(behind_nginx(folder, tuple(servers)))


async def _page(site: Site, cookie: str) -> str:
    """Open the first page over the WebSocket, as a browser does; return its title."""

    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    async with connect(
        f"wss://{HOST}/_stcore/stream",
        host="127.0.0.1",
        port=site.port,
        ssl=trust,
        subprotocols=["streamlit"],
        origin=f"https://{HOST}",
        additional_headers={"Cookie": f"trimtab_at={cookie}"},
        max_size=None,
    ) as socket:
        request = BackMsg()
        request.rerun_script.query_string = ""
        await socket.send(request.SerializeToString())
        title = ""
        while True:
            message = ForwardMsg.FromString(await asyncio.wait_for(socket.recv(decode=False), 60))
            if message.HasField("page_config_changed"):
                title = message.page_config_changed.title or title
            if message.HasField("script_finished"):
                assert message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
                return title


def test_a_browser_stays_on_its_process_and_many_are_spread(site):
    seen = collections.Counter()
    for _ in range(12):
        browser = requests.Session()
        first = len(site.served_by())
        site.get("/healthz", browser)
        cookie = browser.cookies.get("trimtab_at")
        assert cookie
        for _ in range(4):
            answer = browser.get(
                site.url + "/_stcore/health",
                headers={"Host": HOST, "Cookie": f"trimtab_at={cookie}"},
                verify=False,
                timeout=30,
            )
            assert answer.status_code == 200
            assert "trimtab_at" not in answer.headers.get("Set-Cookie", "")
        wait_for_lines(site, first + 5)
        assert len(set(site.served_by()[first:])) == 1
        seen[site.served_by()[-1]] += 1
    assert set(seen) == set(site.servers)


def wait_for_lines(site: Site, count: int) -> None:
    until = monotonic() + 10
    while len(site.served_by()) < count:
        assert monotonic() < until
        threading.Event().wait(0.05)


def test_the_cookie_is_for_this_site_over_tls_only(site):
    cookie = site.get("/healthz").headers["Set-Cookie"]
    assert all(word in cookie for word in ("HttpOnly", "Secure", "SameSite=Lax"))


def test_metrics_are_not_served_to_the_outside(site):
    assert site.get("/metrics").status_code == 403


def test_a_page_is_served_over_the_websocket(site):
    assert "Trimtab" in run_apart(_page(site, "a" * 32))


def test_browsers_of_a_killed_process_go_on_at_another_one(site):
    browser = requests.Session()
    site.get("/healthz", browser)
    cookie = str(browser.cookies.get("trimtab_at"))
    wait_for_lines(site, 1)
    mine = site.served_by()[-1]
    victim = next(
        one
        for one in psutil.Process().children(recursive=True)
        if "dashboard.serve" in " ".join(one.cmdline()) and str(mine) in one.cmdline()
    )
    victim.kill()
    for _ in range(3):
        assert site.get("/healthz", browser).status_code == 200
    assert "Trimtab" in run_apart(_page(site, cookie))
    assert site.served_by()[-1] != mine


# -- visitors of the sign-in page ------------------------------------------------------------------

PASSWORD = "correct horse battery"


class _From(HTTPAdapter):
    """Sends from an address of its own, as another visitor does."""

    def __init__(self, address: str) -> None:
        self._address = address
        super().__init__()

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, source_address=(self._address, 0), **more)


def attempt(site: Site, sender: str, name: str, password: str, forwarded: str = "") -> int:
    """Sign in from an address; return the status: 303 in, 401 wrong, 429 held up."""
    with requests.Session() as visitor:
        visitor.mount("https://", _From(sender))
        headers = {"Host": HOST} | ({"X-Forwarded-For": forwarded} if forwarded else {})
        return visitor.post(
            f"{site.url}/sign-in",
            data={"name": name, "password": password},
            headers=headers,
            verify=False,
            allow_redirects=False,
            timeout=60,
        ).status_code


@contextmanager
def people_behind_nginx(folder: Path, access: str) -> Iterator[Site]:
    """Start pages where people sign in, behind nginx; ``ann`` has a password."""
    UserFile(folder / "state" / "users.json").set_user("ann", PASSWORD)
    config = folder / "trimtab.toml"
    config.write_text(
        f'state_dir = "{folder / "state"}"\n[pages]\nallowed_hosts = ["{HOST}"]\n'
        f"[access]\n{access}\n"
    )
    with (
        pages_served(folder, HOST, config=config) as port,
        behind_nginx(folder, (port,)) as site,
    ):
        yield site


def shipped_proxy() -> str:
    """What the compose file's configuration says of the proxy, with this machine's address."""
    text = (DOCUMENTED.parents[1] / "container" / "trimtab.toml").read_text()
    (section,) = re.findall(r"\[access\.proxy\]\naddresses = \[.+?\]", text)
    return re.sub(r'"[\d.]+"', '"127.0.0.1"', section)


def test_wrong_guesses_of_one_visitor_keep_only_that_visitor_out(tmp_path) -> None:
    with people_behind_nginx(tmp_path, f'sign_in = "users"\n{shipped_proxy()}') as site:
        # each says that it comes from elsewhere, also from where ann sits
        says = ["127.0.0.3", "203.0.113.9, 127.0.0.3", "10.0.0.1"]
        guesses = [
            attempt(site, "127.0.0.2", f"name{at}", "guess", says[at % 3]) for at in range(22)
        ]
        assert guesses == [401] * 20 + [429] * 2
        assert attempt(site, "127.0.0.2", "ann", PASSWORD, "127.0.0.9") == 429
        assert attempt(site, "127.0.0.3", "ann", PASSWORD) == 303
        # five of one name from one address; the same person is let in elsewhere
        tries = [attempt(site, "127.0.0.4", "ann", "guess", f"10.0.0.{at}") for at in range(7)]
        assert tries == [401] * 5 + [429] * 2
        assert attempt(site, "127.0.0.5", "ann", PASSWORD) == 303
        # past the proxy: what such a sender says of itself does not count
        past = replace(site, port=site.servers[0])
        posted = [attempt_directly(past, f"n{at}", f"10.1.0.{at}") for at in range(21)]
        assert posted == [401] * 20 + [429]
        assert attempt(site, "127.0.0.6", "ann", PASSWORD) == 303


def attempt_directly(site: Site, name: str, forwarded: str) -> int:
    """The same to the server itself, from another address than the proxy's."""
    with requests.Session() as visitor:
        visitor.mount("http://", _From("127.0.0.7"))
        return visitor.post(
            f"http://127.0.0.1:{site.port}/sign-in",
            data={"name": name, "password": "guess"},
            headers={"X-Forwarded-For": forwarded},
            allow_redirects=False,
            timeout=60,
        ).status_code


def test_a_visitor_names_nobody_through_the_proxy(tmp_path) -> None:
    """With the shipped file only the proxy's own sign-in names a person."""
    with people_behind_nginx(tmp_path, f'sign_in = "proxy"\n{shipped_proxy()}') as site:
        place = "/_stcore/host-config"
        for name in ("X-Forwarded-User", "x-forwarded-user", "X_Forwarded_User"):
            with requests.Session() as visitor:
                headers = {"Host": HOST, name: "ann", "X-Forwarded-Groups": "admins"}
                answer = visitor.get(site.url + place, headers=headers, verify=False, timeout=30)
            assert answer.status_code == 401, name
        direct = f"http://127.0.0.1:{site.servers[0]}{place}"
        named = requests.get(direct, headers={"X-Forwarded-User": "ann"}, timeout=30)
        assert named.status_code == 200  # from the address of the proxy it counts
