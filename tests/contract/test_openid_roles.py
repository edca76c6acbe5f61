"""Who an OpenID provider's people are, and what each may do: pages, messages, downloads, commands.

Sound people come from a certified provider (``oidc-provider``), everything else from one that
signs any claims. The journal is PostgreSQL. Every person opens a page over HTTP and
over the WebSocket, presses *Stop this run* and *Approve* with messages of the test's own, which
need no button on the page, and downloads a table. The command line does the same with API tokens.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
from fleet_builder import make_snapshot
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from journal_entries import plan_of
from openid_certified import certified_provider, sign_in
from openid_provider import CLIENT, SECRET, openid_provider, secrets_of
from page_visitor import Visitor
from pages_server import free_port, pages_served
from postgresql import PostgreSql

from connectors.access.users import UserFile
from connectors.config.model import TrimtabConfig
from connectors.journal.journal import SqlJournal
from core.access import Identity, Role
from core.actions.events import ControlRequested, RunDecided
from core.actions.model import RunOptions
from core.plan.model import sealed
from core.snapshot.store import SnapshotStore
from dashboard import services
from dashboard.cli.main import run
from dashboard.services import jobs

pytestmark = pytest.mark.slow

BOSS = "boss@example.org"
ADMIN = "admin@example.org"
ROLES: tuple[Role | None, ...] = (None, "viewer", "operator", "admin")


@dataclass
class Site:
    """Pages where people sign in with a provider.

    Attributes:
        config: As the pages read it.
        address: Of the pages.
        issuer: Of the provider.
    """

    config: TrimtabConfig
    address: str
    issuer: str

    @property
    def boss(self) -> Identity:
        return Identity(name=BOSS, source="oidc", subject=f"{self.issuer}#boss")

    def visitor(self, login: str) -> Visitor:
        """A browser after its sign-in, whatever became of it."""
        browser = Visitor(self.address)
        page = browser.page("")
        start = browser.page("", press=page.buttons["Sign in"]).leads_to
        try:
            sign_in(browser.session, self.address + start, login)
        except requests.ConnectionError as error:
            raise AssertionError(f"the provider does not lead back: {start}") from error
        return browser

    def request(self, by: Identity | None = None) -> str:
        """A run that the boss, or another person, requested and that waits for approval."""
        moment = datetime.now(UTC)
        plan = replace(
            plan_of(1, cluster="fleet"),
            taken_at=moment,
            created_at=moment,
            expires_at=moment + timedelta(minutes=10),
        )
        options, person = RunOptions(), by or self.boss
        return services.request_run(self.config, "fleet", sealed(plan), "why", options, person)

    def written(self, run_id: str) -> list[tuple[str, str, str]]:
        """What people asked of a run: kind, name and subject."""
        with closing(SqlJournal(self.config.journal_address)) as journal:
            events = [(one.record, one.record.event) for one in journal.entries(run_id=run_id)]
        return [
            (type(event).__name__, record.actor, event.identity.subject)
            for record, event in events
            if isinstance(event, ControlRequested | RunDecided) and event.identity
        ]


def configured(folder: Path, issuer: str, journal: str) -> TrimtabConfig:
    path = folder / "trimtab.toml"
    path.write_text(
        f'state_dir = "state"\njournal_url = "{journal}"\n'
        f'[access]\nsign_in = "oidc"\nkey_file = "{folder}/key"\n'
        'groups_claim = "realm_access.roles"\n'
        f'[[access.grants]]\nrole = "admin"\npeople = ["{ADMIN}", "{BOSS}"]\n'
        'groups = ["admins"]\n'
        '[[access.grants]]\nrole = "operator"\ngroups = ["sre"]\n'
        f'[[access.grants]]\nrole = "viewer"\npeople = ["{issuer}#vic"]\ngroups = ["readers"]\n'
        '[[clusters]]\nname = "fleet"\nzookeeper = "127.0.0.1:1"\nread_only = false\n'
        '[clusters.approval]\nneeded = "always"\n[clusters.timeouts]\nzookeeper_s = 0.5\n'
    )
    snapshot = make_snapshot(brokers=3, bundles=12, cluster="fleet", now=datetime.now(UTC))
    SnapshotStore(folder / "state" / "snapshots").put(snapshot)
    return TrimtabConfig.load(path, ())


@pytest.fixture(scope="module")
def journal() -> Iterator[str]:
    database = PostgreSql()
    try:
        database.start()
        yield database.url
    finally:
        database.stop()


def served(folder: Path, issuer: str, journal: str, port: int) -> Iterator[Site]:
    config, address = configured(folder, issuer, journal), f"http://127.0.0.1:{port}"
    (folder / ".streamlit").mkdir()
    more = 'client_kwargs = { prompt = "login" }\n'  # else "select_account", which few know
    (folder / ".streamlit" / "secrets.toml").write_text(secrets_of(issuer, address) + more)
    with pages_served(folder, config=config.file, port=port, start_in=folder):
        yield Site(config, address, issuer)
    assert SECRET not in (folder / "log").read_text()


# -- people of a certified provider ----------------------------------------------------------------


def roles(*names: Any) -> dict[str, Any]:
    return {"realm_access": {"roles": list(names)}}


VERIFIED = {"email_verified": True}
PEOPLE: dict[str, tuple[dict[str, Any], Role | None]] = {
    # a verified address
    "ada": ({"email": ADMIN, **VERIFIED}, "admin"),
    "otto": ({"email": "otto@example.org", **VERIFIED, **roles("sre")}, "operator"),
    "rita": ({"email": "rita@example.org", **VERIFIED, **roles("readers")}, "viewer"),
    "nora": ({"email": "nora@example.org", **VERIFIED}, None),
    # an address that is not verified
    "unverified": ({"email": ADMIN, "email_verified": False}, None),
    "missing": ({"email": ADMIN}, None),
    "text": ({"email": ADMIN, "email_verified": "true"}, None),
    "unverified-sre": ({"email": ADMIN, "email_verified": False, **roles("sre")}, "operator"),
    # no address: the subject
    "vic": ({}, "viewer"),
    "sub": ({}, None),
    "group": (roles("admins"), "admin"),
    # a subject or address that reads like that of another person
    ADMIN: ({}, None),
    "root": ({}, None),
    "label": ({"email": "127.0.0.1#vic", **VERIFIED}, None),
    "lookalike": ({"email": "\uff41dmin@example.org", **VERIFIED}, None),
    # groups of a wrong type
    "dict": ({"realm_access": {"roles": {"admins": True}}}, None),
    "number": (roles("admins", 5), None),
    "nested": (roles(["admins"]), None),
    "flag": ({"realm_access": {"roles": True}}, None),
    "joined": ({"realm_access": {"roles": "sre,admins"}}, None),
    "outside": ({"realm_access": "admins", "groups": ["admins"]}, None),
    "one": ({"realm_access": {"roles": "sre"}}, "operator"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory, journal) -> Iterator[Site]:
    folder, port, own = tmp_path_factory.mktemp("certified"), free_port(), free_port()
    accounts = {name: claims for name, (claims, _) in PEOPLE.items()}
    with certified_provider(folder, f"http://127.0.0.1:{port}", accounts, own) as issuer:
        yield from served(folder, issuer, journal, port)


def may(held: Role | None, needed: Role) -> bool:
    return ROLES.index(held) >= ROLES.index(needed)


@pytest.fixture(scope="module")
def buttons(site: Site) -> dict[str, str]:
    """The buttons of a run's page by their labels, as an operator's page has them."""
    return site.visitor("otto").page("run", f"run={site.request()}").buttons


def name_of(site: Site, login: str) -> str:
    """What the journal calls a person: the verified address, else issuer and subject."""
    claims, _ = PEOPLE[login]
    is_address = claims.get("email_verified") is True and "@" in claims["email"]
    return str(claims["email"]) if is_address else f"{site.issuer}#{login}"


@pytest.mark.parametrize("login", PEOPLE)
def test_a_person_sees_and_does_what_the_role_allows(
    site: Site, buttons: dict[str, str], login: str
) -> None:
    held, browser = PEOPLE[login][1], site.visitor(login)
    assert browser.session.cookies.get("_streamlit_user")
    page = browser.page("brokers")
    assert ("3 brokers" in page.text) is may(held, "viewer")
    if held is None and login != "lookalike":
        assert "has no role" in page.text
    assert bool(page.downloads) is may(held, "viewer")
    for path in page.downloads[:1]:
        assert "broker" in browser.get(path).text
        assert Visitor(site.address).get(path).status_code == 401  # the address alone is no right
    assert browser.get("/metrics").status_code == 401  # for tokens only
    for button, kind in (("Stop run", "ControlRequested"), ("Approve", "RunDecided")):
        run_id = site.request()
        browser.page("run", f"run={run_id}", press=buttons[button])
        entry = (kind, name_of(site, login), f"{site.issuer}#{login}")
        assert site.written(run_id) == ([entry] if may(held, "operator") else [])


def test_nobody_approves_their_own_run_under_another_address(site, buttons) -> None:
    """The provider changed the address between the request and the approval."""
    before = msgspec.structs.replace(site.boss, subject=f"{site.issuer}#otto")
    run_id = site.request(by=before)
    site.visitor("otto").page("run", f"run={run_id}", press=buttons["Approve"])
    assert site.written(run_id) == []


def test_a_person_whose_account_is_closed_cannot_sign_in(site) -> None:
    browser = site.visitor("closed")
    assert not browser.session.cookies.get("_streamlit_user")
    assert "3 brokers" not in browser.page("brokers").text


def test_whoever_signed_out_or_changed_the_cookie_is_nobody(site, buttons) -> None:
    browser, run_id = site.visitor("ada"), site.request()
    cookie = browser.session.cookies.get("_streamlit_user")
    browser.session.cookies.set("_streamlit_user", cookie[:-3] + "abc", domain="127.0.0.1")
    page = browser.page("run", f"run={run_id}", press=buttons["Approve"])
    assert "Sign in" in page.buttons
    assert site.written(run_id) == []
    browser = site.visitor("ada")
    browser.get("/auth/logout")
    assert "Sign in" in browser.page("brokers").buttons


# -- a hostile provider: it signs any claims ------------------------------------------------------


def none_signed(content: dict[str, Any], _: RSAKey) -> str:
    parts = ({"alg": "none"}, content)
    texts = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in parts]
    return b".".join([*texts, b""]).decode()


def signed_with_public_key(content: dict[str, Any], key: RSAKey) -> str:
    secret = OctKey.import_key(key.as_pem(private=False))
    return jwt.encode({"alg": "HS256", "kid": "k1"}, content, secret)


def signed_with_client_secret(content: dict[str, Any], _: RSAKey) -> str:
    return jwt.encode({"alg": "HS256", "kid": "k1"}, content, OctKey.import_key(SECRET))


def signed_by_another(content: dict[str, Any], _: RSAKey) -> str:
    other = RSAKey.generate_key(2048, parameters={"kid": "k1"})
    return jwt.encode({"alg": "RS256", "kid": "k1"}, content, other)


def cut(content: dict[str, Any], key: RSAKey) -> str:
    sound = jwt.encode({"alg": "RS256", "kid": "k1"}, content, key)
    return sound.rpartition(".")[0] + "."


SOUND = {"sub": "eve", "email": ADMIN, "email_verified": True}
NOW = int(time.time())
BAD_CLAIMS: dict[str, dict[str, Any]] = {
    "expired": {"iat": NOW - 7_200, "exp": NOW - 3_600},
    "no exp": {"exp": None},
    "exp a text": {"exp": "later"},
    "for another": {"aud": "another"},
    "for others": {"aud": ["another", "third"]},
    "for another, authorized here": {"aud": "another", "azp": CLIENT},
    "for others, authorized here": {"aud": ["another"], "azp": CLIENT},
    "here, authorized another": {"aud": [CLIENT, "another"], "azp": "another"},
    "no audience": {"aud": None},
    "another issuer": {"iss": "https://login.example.com"},
    "no issuer": {"iss": None},
    "no subject": {"sub": None},
    "an empty subject": {"sub": ""},
    "subject a number": {"sub": 1},
    "another nonce": {"nonce": "guess"},
    "no nonce": {"nonce": None},
    "made in the future": {"iat": NOW + 86_400 * 365, "exp": NOW + 86_400 * 366},
    "made long ago": {"iat": NOW - 13 * 3_600},
    "no iat": {"iat": None},
}
FORGERIES = {
    one.__name__: one
    for one in (
        none_signed,
        signed_with_public_key,
        signed_with_client_secret,
        signed_by_another,
        cut,
    )
}


@pytest.fixture(scope="module")
def next_token() -> dict[str, Any]:
    """What the next ID token says, and how it is signed."""
    return {"claims": {}, "forge": None}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, journal, next_token) -> Iterator[Site]:
    folder, port = tmp_path_factory.mktemp("hostile"), free_port()

    def forge(content: dict[str, Any], key: RSAKey) -> str:
        content = {**content, **next_token["claims"]}
        content = {name: one for name, one in content.items() if one is not None}
        if next_token["forge"] is not None:
            return str(next_token["forge"](content, key))
        return jwt.encode({"alg": "RS256", "kid": "k1"}, content, key)

    with openid_provider({}, forge) as issuer:
        yield from served(folder, issuer, journal, port)


def is_let_in(site: Site) -> bool:
    browser, run_id = site.visitor(""), site.request()
    reference = f"run={run_id}"
    text = browser.page("brokers").text
    page = browser.page("run", reference)
    if "Stop run" in page.buttons:
        browser.page("run", reference, press=page.buttons["Stop run"])
    return "3 brokers" in text or bool(site.written(run_id))


def test_a_sound_token_lets_its_person_in(hostile, next_token) -> None:
    next_token |= {"claims": SOUND, "forge": None}
    assert is_let_in(hostile)


@pytest.mark.parametrize("case", BAD_CLAIMS)
def test_a_token_with_wrong_claims_lets_nobody_in(hostile, next_token, case) -> None:
    next_token |= {"claims": {**SOUND, **BAD_CLAIMS[case]}, "forge": None}
    assert not is_let_in(hostile)


@pytest.mark.parametrize("case", FORGERIES)
def test_a_token_that_the_provider_did_not_sign_lets_nobody_in(hostile, next_token, case) -> None:
    next_token |= {"claims": SOUND, "forge": FORGERIES[case]}
    assert not is_let_in(hostile)


# -- the command line ------------------------------------------------------------------------------


TOKENS: dict[str, tuple[str, tuple[str, ...], Role | None]] = {
    "of an address": (ADMIN, (), "admin"),
    "of a group": ("deploy-bot", ("sre",), "operator"),
    "of a subject": ("{issuer}#vic", (), "viewer"),
    "of another subject": ("{issuer}#ada", (), None),
    "of a bare subject": ("vic", (), None),
    "expired": (ADMIN, (), None),
    "revoked": (ADMIN, (), None),
    "of another installation": (ADMIN, (), None),
    "none": ("", (), None),
}


@pytest.mark.parametrize("case", TOKENS)
def test_a_token_of_the_command_line_does_what_its_role_allows(
    site: Site, case: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    person, groups, held = TOKENS[case]
    person = person.format(issuer=site.issuer)
    home = tmp_path if case == "of another installation" else site.config.users_file.parent
    users = UserFile(home / "users.json")
    token = ""
    if person:
        made = datetime.now(UTC) - timedelta(days=2 if case == "expired" else 0)
        key, token = users.add_token(person, groups, 1, made)
        if case == "revoked":
            users.remove_token(key)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config.file))
    monkeypatch.setenv("TRIMTAB_TOKEN", token)
    for words, kind in (
        (["runs", "{run}", "--stop"], "ControlRequested"),
        (["review", "{run}", "--approve"], "RunDecided"),
    ):
        run_id = site.request()
        code = run([one.format(run=run_id) for one in words])
        assert (code == 0) is may(held, "operator")
        entry = (kind, person, person if "#" in person else "")
        assert site.written(run_id) == ([entry] if may(held, "operator") else [])
    job_id = jobs.request_job(site.config, "health", {"clusters": ["fleet"]}, site.boss)
    assert (run(["jobs", "stop", job_id]) == 0) is may(held, "operator")
    assert "Traceback" not in capsys.readouterr().err
    headers = {"Authorization": f"Bearer {token}"}
    metrics = requests.get(f"{site.address}/metrics", headers=headers, timeout=30)
    assert (metrics.status_code == 200) is may(held, "viewer")
