"""Who may do what: roles, passwords, tokens, sessions, and requests that cannot be forged."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from journal_entries import plan_of, record_of, requested
from signed_requests import as_requested
from starlette.requests import Request
from wall import Wall

from connectors.access.key import installation_key, key_path
from connectors.access.sessions import MAX_FAILURES, Sessions
from connectors.access.users import UserFile
from connectors.config.access import AccessConfig
from connectors.config.model import TrimtabConfig
from connectors.config.private import exposed_secrets
from connectors.journal.engine import Database
from core.access import ROLES, Access, Grant, Identity, is_same_person
from core.actions.authority import needed_role, refusal_of
from core.actions.events import ControlRequested, canonical
from core.errors import (
    ConfigError,
    ForbiddenError,
    InputError,
    UnknownNameError,
    UnusablePlanError,
)
from core.plan.codec import dump_plan
from core.pulsar.steps.setting import SetDynamicSetting
from dashboard import services, sign_in
from dashboard.queries import access as page_access
from dashboard.services import access, jobs

PASSWORD = "correct horse battery"
KEY = b"the installation's key, 32 bytes"
ISSUER = "https://login.example.com"
ME = f"{ISSUER}#7"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


# -- roles -----------------------------------------------------------------------------------------


def access_with(role: str | None) -> Access:
    grants = (Grant(role=role, people=("ann",), clusters=("prod-*",)),) if role else ()
    return Access(sign_in="users", grants=grants)


@pytest.mark.parametrize(("held", "needed"), list(product((None, *ROLES), ROLES)))
def test_a_role_allows_what_lower_ones_do(held, needed) -> None:
    rules = access_with(held)
    ann = Identity(name="ann", source="users")
    is_enough = held is not None and ROLES.index(held) >= ROLES.index(needed)
    assert rules.may(ann, needed, "prod-1") is is_enough
    assert not rules.may(ann, needed, "test-1")
    assert not rules.may(Identity(name="ben", source="users"), needed, "prod-1")
    if not is_enough:
        with pytest.raises(ForbiddenError, match=needed):
            rules.check(ann, needed, "prod-1", "apply plans")


SOURCES = {
    "none": {"local"},
    "users": {"users", "token"},
    "proxy": {"proxy", "token"},
    "oidc": {"oidc", "token"},
}


@pytest.mark.parametrize(
    ("sign_in", "source"), list(product(SOURCES, ("local", "users", "proxy", "oidc", "token")))
)
def test_an_identity_counts_only_where_it_can_be_verified(sign_in, source) -> None:
    rules = Access(sign_in=sign_in, grants=(Grant(role="admin", people=("*",)),))
    is_verified = source in SOURCES[sign_in]
    subject = ME if source == "oidc" else ""
    ann = Identity(name="ann", source=source, subject=subject)
    assert rules.may(ann, "admin", "x") is is_verified


def test_a_request_of_a_provider_without_its_subject_is_of_nobody() -> None:
    """Earlier versions took an address for whose it is that the provider had not verified."""
    rules = Access(sign_in="oidc", grants=(Grant(role="admin", people=("*",)),))
    former = Identity(name="admin@x.example", source="oidc")
    assert rules.role_of(former) is None
    assert rules.role_of(msgspec.structs.replace(former, subject=ME)) == "admin"


def test_the_highest_role_of_all_grants_holds() -> None:
    rules = Access(
        sign_in="proxy",
        grants=(
            Grant(role="viewer", people=("*",)),
            Grant(role="operator", groups=("sre",), clusters=("a",)),
            Grant(role="admin", people=("ann",), clusters=("a",)),
        ),
    )
    ann = Identity(name="ann", groups=("sre",), source="proxy")
    ben = Identity(name="ben", groups=("sre",), source="proxy")
    assert [rules.role_of(who, "a") for who in (ann, ben)] == ["admin", "operator"]
    assert rules.role_of(ann, "b") == "viewer"
    assert rules.role_of(ben) == "operator"


def test_grants_without_sign_in_and_an_open_address_are_refused() -> None:
    with pytest.raises(ValueError, match="sign_in"):
        AccessConfig.model_validate({"grants": [{"role": "viewer", "people": ["*"]}]})
    with pytest.raises(ValueError, match="exposes the pages without sign-in"):
        TrimtabConfig.model_validate({"pages": {"address": "0.0.0.0"}})
    TrimtabConfig.model_validate({"pages": {"address": "0.0.0.0"}, "access": {"sign_in": "users"}})
    with pytest.raises(ValueError, match="addresses"):
        AccessConfig.model_validate({"sign_in": "proxy"})


# -- passwords and tokens --------------------------------------------------------------------------


@pytest.fixture
def users(tmp_path: Path) -> UserFile:
    return UserFile(tmp_path / "state" / "users.json")


def test_a_password_proves_who_somebody_is_and_is_stored_nowhere(users, tmp_path) -> None:
    users.set_user("ann", PASSWORD, ("sre",))
    assert users.verified("ann", PASSWORD) == Identity(name="ann", groups=("sre",), source="users")
    assert users.verified("ann", PASSWORD + "!") is None
    assert users.verified("ben", PASSWORD) is None
    file = tmp_path / "state" / "users.json"
    assert PASSWORD not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "password"), [("ann", "short"), ("a b", PASSWORD), ("", PASSWORD)]
)
def test_a_weak_password_and_a_strange_name_are_refused(users, name, password) -> None:
    with pytest.raises(InputError):
        users.set_user(name, password)
    assert users.users() == {}


def test_a_new_password_keeps_the_groups(users) -> None:
    users.set_user("ann", PASSWORD, ("sre",))
    users.set_user("ann", PASSWORD + " 2")
    found = users.verified("ann", PASSWORD + " 2")
    assert found is not None
    assert found.groups == ("sre",)


def test_a_token_stands_for_its_person_until_it_is_revoked_or_expires(users, tmp_path) -> None:
    users.set_user("ann", PASSWORD, ("sre",))
    key, text = users.add_token("ann", (), 2, NOW)
    assert users.of_token(text, NOW) == Identity(name="ann", groups=("sre",), source="token")
    assert text.split("_", 2)[2] not in (tmp_path / "state" / "users.json").read_text()
    with pytest.raises(ForbiddenError, match="expired"):
        users.of_token(text, NOW + timedelta(days=2))
    for wrong in ("", "ttk_x", text[:-1] + ("A" if text[-1] != "A" else "B"), "ä" * 60):
        with pytest.raises(ForbiddenError) as error:
            users.of_token(wrong, NOW)
        assert not wrong or wrong not in str(error.value)
    users.remove_token(key)
    with pytest.raises(ForbiddenError):
        users.of_token(text, NOW)


def test_who_is_removed_loses_the_tokens(users) -> None:
    users.set_user("ann", PASSWORD)
    users.add_token("ann", (), 2, NOW)
    assert users.remove_user("ann") == 1
    assert users.tokens() == {}
    with pytest.raises(UnknownNameError):
        users.remove_user("ann")


def test_a_damaged_user_file_lets_nobody_in(users, tmp_path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "users.json").write_text('{"users": {"ann": 1}}')
    with pytest.raises(ConfigError, match="damaged"):
        users.verified("ann", PASSWORD)


# -- sessions --------------------------------------------------------------------------------------


@pytest.fixture
def wall() -> Wall:
    return Wall(NOW)


@pytest.fixture
def sessions(users: UserFile, wall: Wall, tmp_path: Path) -> Iterator[Sessions]:
    users.set_user("ann", PASSWORD)
    database = Database(f"sqlite:///{tmp_path / 'journal.db'}")
    yield Sessions(database, users, KEY, timedelta(hours=12), wall)
    database.close()


def test_a_session_ends_with_its_time_the_password_or_the_person(sessions, users, wall) -> None:
    def signed_in() -> str:
        return sessions.sign_in("ann", PASSWORD, "10.0.0.1")

    text = signed_in()
    assert sessions.of(text).name == "ann"
    assert sessions.of(text + "x") is None
    wall.now += timedelta(hours=12)
    assert sessions.of(text) is None
    text = signed_in()
    sessions.sign_out(text, "10.0.0.1")
    assert sessions.of(text) is None
    text = signed_in()
    users.set_user("ann", PASSWORD)
    assert sessions.of(text) is None
    text = signed_in()
    users.remove_user("ann")
    assert sessions.of(text) is None


def test_the_text_of_a_session_is_not_in_the_database(sessions, tmp_path) -> None:
    text = sessions.sign_in("ann", PASSWORD, "10.0.0.1")
    for file in tmp_path.glob("journal.db*"):
        assert text.encode() not in file.read_bytes()


def test_passwords_cannot_be_guessed(sessions, wall) -> None:
    for _ in range(MAX_FAILURES):
        with pytest.raises(ForbiddenError, match="Wrong user name or password"):
            sessions.sign_in("ann", "guess", "10.0.0.9")
    with pytest.raises(ForbiddenError, match="Too many") as error:
        sessions.sign_in("ann", PASSWORD, "10.0.0.9")
    assert error.value.context["is_throttled"]
    assert sessions.of(sessions.sign_in("ann", PASSWORD, "10.0.0.1"))  # ann herself still can
    wall.now += timedelta(minutes=16)
    assert sessions.of(sessions.sign_in("ann", PASSWORD, "10.0.0.9"))


def test_guesses_from_many_addresses_hold_a_name_but_not_where_it_is_known(sessions) -> None:
    assert sessions.sign_in("ann", PASSWORD, "10.0.0.1")
    for number in range(20):
        with pytest.raises(ForbiddenError, match="Wrong user name or password"):
            sessions.sign_in("ann", "guess", f"10.9.0.{number}")
    with pytest.raises(ForbiddenError, match="Too many"):
        sessions.sign_in("ann", "guess", "10.9.1.1")
    assert sessions.of(sessions.sign_in("ann", PASSWORD, "10.0.0.1"))


def test_one_address_cannot_try_many_names(sessions) -> None:
    for number in range(20):
        with pytest.raises(ForbiddenError):
            sessions.sign_in(f"name{number}", "guess", "10.0.0.9")
    with pytest.raises(ForbiddenError, match="Too many"):
        sessions.sign_in("another", "guess", "10.0.0.9")


def test_whoever_goes_on_guessing_does_not_fill_the_database(sessions, tmp_path) -> None:
    for _ in range(60):
        with pytest.raises(ForbiddenError):
            sessions.sign_in("ann", "guess", "10.0.0.9")
    with sqlite3.connect(tmp_path / "journal.db") as rows:
        assert rows.execute("select count(*) from trimtab_sign_ins").fetchone()[0] <= 25


def rows_of(folder: Path, *statements: str) -> None:
    """Write the sessions directly, as an intruder in the database does."""
    with closing(sqlite3.connect(folder / "journal.db")) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


ANN = "(select sha256 from trimtab_sessions where person = 'ann')"
ROOT = "(select stamp from trimtab_sessions where person = 'root')"


@pytest.mark.parametrize(
    "statements",
    [
        ["update trimtab_sessions set person = 'root' where person = 'ann'"],
        [f"update trimtab_sessions set person = 'root', stamp = {ROOT} where person = 'ann'"],
        [
            # the admin's whole row, under the cookie of another person
            f"create temporary table mine as select {ANN} as own",
            "delete from trimtab_sessions where person = 'ann'",
            "update trimtab_sessions set sha256 = (select own from mine)",
        ],
        ["update trimtab_sessions set expires_ms = expires_ms + 1"],
        ["update trimtab_sessions set expires_ms = 9e18"],
        ["update trimtab_sessions set expires_ms = 'later'"],
        ["update trimtab_sessions set stamp = x'00ff'"],
        ["update trimtab_sessions set person = x'616e6e' where person = 'ann'"],
        ["update trimtab_sessions set stamp = ''"],
        ["update trimtab_sessions set stamp = 'é' || substr(stamp, 2)"],
        # what an earlier version stored: known to whoever reads the user file
        ["update trimtab_sessions set stamp = '{old}'"],
    ],
)
def test_a_session_that_was_copied_or_edited_in_the_database_is_none(
    sessions, users, tmp_path, statements
) -> None:
    users.set_user("root", PASSWORD)
    text = sessions.sign_in("ann", PASSWORD, "10.0.0.1")
    sessions.sign_in("root", PASSWORD, "10.0.0.2")
    assert sessions.of(text).name == "ann"
    rows_of(tmp_path, *(one.format(old=users.stamp("ann")) for one in statements))
    assert sessions.of(text) is None


def test_a_session_of_another_installation_is_none(sessions, users, wall, tmp_path) -> None:
    """Also where both have the same people and passwords."""
    text = sessions.sign_in("ann", PASSWORD, "10.0.0.1")
    database = Database(f"sqlite:///{tmp_path / 'journal.db'}")
    other = Sessions(database, users, bytes(32), timedelta(hours=12), wall)
    assert other.of(text) is None
    assert sessions.of(text).name == "ann"
    database.close()


# -- an OpenID provider ----------------------------------------------------------------------------

MAIL = {"sub": "7", "email": "ann@x.example"}


def provided(monkeypatch, claims, age: timedelta = timedelta(hours=1), **access_values) -> Identity:
    """Whom a provider's claims name that were made a while ago."""
    monkeypatch.setattr(services, "now", lambda: NOW)
    issued = int((NOW - age).timestamp())
    made = {"iss": ISSUER, "sub": "7", "aud": "trimtab", "iat": issued, "provider": "default"}
    all_claims = {"is_logged_in": True, **made, **claims}
    user = SimpleNamespace(to_dict=lambda: all_claims, get=all_claims.get)
    monkeypatch.setattr(page_access.st, "user", user)
    monkeypatch.setattr(page_access.st, "secrets", {"auth": {"client_id": "trimtab"}})
    values = {"access": {"sign_in": "oidc", "session_hours": 8, **access_values}}
    return page_access.person(TrimtabConfig.model_validate(values))


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"email_verified": True}, "ann@x.example"),
        ({}, ME),
        ({"email_verified": "true"}, ME),
        ({"email_verified": 1}, ME),
        ({"email_verified": [True]}, ME),
        ({"email_verified": False}, ME),
        ({"email_verified": "false"}, ME),
        ({"email_verified": None}, ME),
        ({"email_verified": True, "email": None}, ME),
        ({"email_verified": True, "email": ["admin@x.example"]}, ME),
        ({"email_verified": True, "email": ""}, ME),
        ({"email_verified": True, "email": "admin"}, ME),
        ({"email_verified": True, "email": f"{ISSUER}#8"}, ME),
        ({"email_verified": True, "email": f"{ISSUER}#8@x.example"}, ME),
        ({"email_verified": True, "email": "a@b@x.example"}, ME),
        ({"Email_Verified": True}, ME),
    ],
)
def test_an_address_counts_only_where_the_provider_verified_it(monkeypatch, claims, name) -> None:
    found = provided(monkeypatch, {**MAIL, **claims})
    assert (found.name, found.subject, found.source) == (name, ME, "oidc")


ADMIN = Access(sign_in="oidc", grants=(Grant(role="admin", people=("admin@x.example", "root")),))


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "admin@x.example"},
        {"sub": "root"},
        {"sub": "7", "email": "admin@x.example"},
        {"sub": "7", "email": "admin@x.example", "email_verified": "true"},
        {"sub": "7", "email": "root", "email_verified": True},
        {"sub": "7", "email": "Admin@x.example", "email_verified": True},
        {"sub": "7", "preferred_username": "root", "name": "admin@x.example", "upn": "root"},
        {"sub": "7", "groups": "admin@x.example"},
    ],
)
def test_nobody_becomes_another_by_a_claim_with_the_name_of_that_person(monkeypatch, claims):
    assert ADMIN.role_of(provided(monkeypatch, claims)) is None


def test_a_grant_names_an_address_or_issuer_and_subject(monkeypatch) -> None:
    grants = (Grant(role="viewer", people=("ann@x.example",)), Grant(role="admin", people=(ME,)))
    rules = Access(sign_in="oidc", grants=grants)
    verified = provided(monkeypatch, {**MAIL, "email_verified": True})
    assert rules.role_of(verified) == "admin"  # by the subject, whatever the address
    assert rules.role_of(provided(monkeypatch, {"sub": "7"})) == "admin"
    assert rules.role_of(provided(monkeypatch, {"sub": "7", "iss": f"{ISSUER}.evil"})) is None
    same_address = provided(monkeypatch, {**MAIL, "sub": "8", "email_verified": True})
    assert rules.role_of(same_address) == "viewer"
    blank = Access(sign_in="oidc", grants=(Grant(role="admin", people=("",)),))
    assert blank.role_of(Identity(name="ann@x.example", source="token")) is None


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": None},
        {"sub": 7},
        {"sub": ""},
        {"sub": ["7"]},
        {"iss": None},
        {"iss": "login.example.com"},
        {"iss": f"{ISSUER}#7"},
        {"iss": [ISSUER]},
        {"aud": "another"},
        {"aud": ["another"], "azp": "trimtab"},
        {"aud": None},
        {"provider": "none", "aud": None},
        {"provider": ["default"], "aud": None},
        {"provider": {}, "aud": None},
        {"provider": "client_id"},
    ],
)
def test_claims_that_identify_nobody_let_nobody_in(monkeypatch, claims) -> None:
    """Without an issuer two providers would share subjects; ``iss#7#7`` could be two people."""
    with pytest.raises(ForbiddenError, match="does not identify you"):
        provided(monkeypatch, claims)


@pytest.mark.parametrize(
    ("claim", "groups"),
    [
        (["sre", "ops"], ("sre", "ops")),
        ("sre", ("sre",)),
        ("sre,admins", ("sre,admins",)),
        (["sre", "sre\u200b", "x" * 300], ("sre",)),
        (None, ()),
        (5, ()),
        (True, ()),
        ({"admins": True}, ()),
        ({"0": "admins"}, ()),
        ([["admins"]], ()),
        (["sre", 5], ()),
        ([{"name": "admins"}], ()),
        ([None], ()),
        ([], ()),
        ("", ()),
    ],
)
def test_groups_are_a_list_of_texts_or_one_text(monkeypatch, claim, groups) -> None:
    assert provided(monkeypatch, {"groups": claim}).groups == groups
    nested = {"realm_access": {"roles": claim}}
    for claims in (nested, {"realm_access.roles": claim, "realm_access": {"roles": ["admins"]}}):
        found = provided(monkeypatch, claims, groups_claim="realm_access.roles")
        assert found.groups == groups
    for odd in (["admins"], "admins", 5, None, {"Roles": ["admins"]}):
        claims = {"realm_access": odd}
        assert not provided(monkeypatch, claims, groups_claim="realm_access.roles").groups


ODD_NAMES = [
    "ann\nis admin",
    "\u202enna",
    "a\u200bnn",
    " ann",
    "ann ",
    "ann  lee",
    "ann\u00a0",
    "a" * 300,
    "\u3164",
    "ann\u2800",
    "ann\u180b",
    "ann\x00",
    "ann\x7f",
    "\uff41nn",
    "Zoe\u0308",
    "ann\ufe0f",
    "ann\U000e0061",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_does_not_look_as_it_is_is_refused(monkeypatch, name) -> None:
    with pytest.raises(ForbiddenError) as refused:
        provided(monkeypatch, {"sub": name})
    assert str(refused.value).isprintable()
    for email in (name, f"{name}@x.example", f"{name} <ann@x.example>", f"ann@{name}"):
        with suppress(ForbiddenError):
            assert provided(monkeypatch, {"email": email, "email_verified": True}).name == ME
    mail = {"email": "zoë@x.example", "email_verified": True}
    assert provided(monkeypatch, mail).name == "zoë@x.example"


def proxied(name: str, groups: str = "") -> Identity | None:
    """Whom headers name, as a server hands them on: bytes read as Latin-1."""
    headers = {"X-Forwarded-User": name, "X-Forwarded-Groups": groups}
    values = {"sign_in": "proxy", "proxy": {"addresses": ["10.0.0.7"]}}
    sent = {key: text.encode().decode("latin-1") for key, text in headers.items()}
    return access.proxied_identity(TrimtabConfig.model_validate({"access": values}), sent)


@pytest.mark.parametrize("name", [name for name in ODD_NAMES if "\x00" not in name])
def test_a_proxys_name_is_checked_like_a_providers(name) -> None:
    with pytest.raises(ForbiddenError, match="The user name in X-Forwarded-User from the proxy"):
        proxied(name)
    assert proxied("Zoë Ann").name == "Zoë Ann"
    assert proxied("") is None


def test_groups_of_a_proxy_are_what_it_sends_and_nothing_that_looks_like_it() -> None:
    assert proxied("ann", "sre, ops\t,,").groups == ("sre", "ops")
    odd = "\u00a0admins,admins\u2003,\u3000admins,adm\u200bins,\uff41dmins,admins\x0b"
    assert proxied("ann", odd).groups == ()


def test_headers_in_another_encoding_are_refused() -> None:
    values = {"sign_in": "proxy", "proxy": {"addresses": ["10.0.0.7"]}}
    config = TrimtabConfig.model_validate({"access": values})
    for headers in ({"X-Forwarded-User": "Zo\xeb"}, {"X-Forwarded-User": "\u0161"}):
        with pytest.raises(ForbiddenError, match="UTF-8"):
            access.proxied_identity(config, headers)


@pytest.mark.parametrize("name", ["42", "root", "Ann Lee", "login.example.com#42", "a@b@c"])
def test_a_grant_to_a_bare_subject_is_refused_with_what_to_write_instead(name) -> None:
    values = {"sign_in": "oidc", "grants": [{"role": "admin", "people": [name]}]}
    with pytest.raises(ValueError, match="use the verified e-mail address") as refused:
        AccessConfig.model_validate(values)
    assert f"https://login.example.com#{name}" in str(refused.value)
    for fine in ("*", "ann@x.example", ME):
        AccessConfig.model_validate(values | {"grants": [{"role": "admin", "people": [fine]}]})


def test_one_subject_is_one_person_whatever_the_address(monkeypatch) -> None:
    first = provided(monkeypatch, {**MAIL, "email_verified": True})
    renamed = provided(monkeypatch, {"sub": "7", "email": "bo@x.example", "email_verified": True})
    unverified = provided(monkeypatch, MAIL)
    assert is_same_person(first, renamed)
    assert is_same_person(first, unverified)
    assert is_same_person(first, Identity(name="Ann@x.example", source="token"))
    assert not is_same_person(first, provided(monkeypatch, {"sub": "8"}))
    assert not is_same_person(Identity(name="ann"), Identity(name="bo"))


def test_the_journal_shows_the_label_and_records_the_identity(monkeypatch) -> None:
    person = provided(monkeypatch, {**MAIL, "email_verified": True})
    event = msgspec.structs.replace(requested(), identity=person)
    record = as_requested(record_of(event, actor=person.name))
    assert record.actor == "ann@x.example"
    assert f'"subject":"{ME}"' in canonical(record)
    local = as_requested(record_of(requested(), actor="ann"))
    assert "subject" not in canonical(local)  # as earlier versions wrote it, and signed


def test_a_token_for_a_subject_is_that_person(users) -> None:
    _, text = users.add_token(ME, ("sre",), 1, NOW)
    found = users.of_token(text, NOW)
    assert (found.name, found.subject, found.groups) == (ME, ME, ("sre",))
    for odd in ("https://login.example.com#a b", f"{ME}\u200b", "login#7", "x" * 300):
        with pytest.raises(InputError):
            users.add_token(odd, (), 1, NOW)


def test_a_sign_in_at_a_provider_ends_after_the_hours_of_a_session(monkeypatch) -> None:
    assert provided(monkeypatch, {}, timedelta(hours=7.9)).name == ME
    assert provided(monkeypatch, {}, timedelta(minutes=-4)).name == ME  # its clock is ahead
    for age in (timedelta(hours=8), timedelta(minutes=-6), timedelta(days=-3650)):
        with pytest.raises(ForbiddenError, match="has expired"):
            provided(monkeypatch, {}, age)
    for issued in (None, "now", float("inf"), float("nan"), True, [1], 10**400):
        with pytest.raises(ForbiddenError, match="not signed in"):
            provided(monkeypatch, {"iat": issued})
    for odd in (None, False, "false", 1):
        with pytest.raises(ForbiddenError, match="not signed in"):
            provided(monkeypatch, {"is_logged_in": odd})


# -- visitors behind a proxy -----------------------------------------------------------------------


def counted(sender: str, *forwarded: str) -> str:
    proxy = {"addresses": ["10.0.0.7", "fd00::/8"]}
    config = TrimtabConfig.model_validate({"access": {"sign_in": "users", "proxy": proxy}})
    lines = [(b"x-forwarded-for", one.encode("latin-1")) for one in forwarded]
    scope = {"type": "http", "headers": lines, "client": (sender, 1)}
    return sign_in._address(config, Request(scope))


@pytest.mark.parametrize(
    ("sender", "forwarded", "address"),
    [
        ("10.0.0.7", ["6.6.6.6", "7.7.7.7, 203.0.113.9"], "203.0.113.9"),
        ("6.6.6.6", ["203.0.113.9"], "6.6.6.6"),  # not the proxy: what it says does not count
        ("::ffff:10.0.0.7", ["203.0.113.9"], "203.0.113.9"),  # a server for both protocols
        ("fd00::1", ["::ffff:203.0.113.9"], "203.0.113.9"),
        ("10.0.0.7", [], "10.0.0.7"),
        ("10.0.0.7", ["unknown"], "10.0.0.7"),
        ("10.0.0.7", ["203.0.113.9, "], "10.0.0.7"),
        ("10.0.0.7", ["203.0.113.9:50123"], "203.0.113.9"),  # else each connection is another one
        ("10.0.0.7", ["[2001:db8:1:2::5]:443"], "2001:db8:1:2::/64"),
        ("10.0.0.7", ["2001:db8:1:2:ffff::1"], "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", [], "2001:db8:1:2::/64"),
        ("fe80::1%eth0", [], "fe80::/64"),
        ("testclient", [], "testclient"),
    ],
)
def test_a_visitor_is_counted_under_the_address_that_the_proxy_saw(sender, forwarded, address):
    assert counted(sender, *forwarded) == address


def test_check_warns_of_a_proxy_that_hides_its_visitors() -> None:
    def warnings(**values) -> list[str]:
        pages = {"allowed_hosts": ["trimtab.example.com"]}
        one = {"pages": pages, "access": {"sign_in": "users"}} | values
        return access.unnamed_proxy(TrimtabConfig.model_validate(one))

    assert "addresses under [access.proxy]" in warnings()[0]
    assert warnings(pages={}) == []
    assert warnings(access={"sign_in": "users", "proxy": {"addresses": ["10.0.0.7"]}}) == []
    assert warnings(access={}) == []


@pytest.mark.parametrize(
    ("said", "is_secure"), [("https", True), ("https, http", True), ("http, https", False)]
)
def test_the_cookie_is_secure_where_the_browser_came_by_https(said, is_secure) -> None:
    headers = [(b"x-forwarded-proto", said.encode()), (b"host", b"trimtab.example.com")]
    scope = {"type": "http", "scheme": "http", "path": "/", "query_string": b"", "headers": headers}
    assert sign_in._is_https(Request(scope)) is is_secure


# -- key and requests ------------------------------------------------------------------------------


def test_the_key_is_made_once_and_for_its_owner_only(tmp_path) -> None:
    config = AccessConfig(key_file=tmp_path / "deep" / "key")
    key = installation_key(config)
    assert len(key) == 32
    assert installation_key(config) == key
    assert key_path(config).stat().st_mode & 0o777 == 0o600
    key_path(config).chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        installation_key(config)


def test_a_short_key_is_no_key(tmp_path) -> None:
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_text("abcd")
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        installation_key(AccessConfig(key_file=path))


def checked(record, access: Access = Access()):  # noqa: B008  # it is frozen
    return refusal_of(record, installation_key(AccessConfig()), access)


@pytest.mark.parametrize("event", [requested(), ControlRequested(control="stop")])
def test_a_request_is_obeyed_as_it_was_signed_and_in_no_other_form(event) -> None:
    record = as_requested(record_of(event, actor="ann"))
    assert checked(record) is None
    forged = [
        record_of(event, actor="ann"),
        msgspec.structs.replace(record, actor="ben"),
        msgspec.structs.replace(record, run_id="another"),
        msgspec.structs.replace(record, cluster="another"),
        msgspec.structs.replace(record, at=record.at + timedelta(seconds=1)),
        msgspec.structs.replace(
            record,
            event=msgspec.structs.replace(
                record.event, identity=Identity(name="ann", groups=("admins",))
            ),
        ),
        msgspec.structs.replace(
            record, event=msgspec.structs.replace(record.event, reason="another")
        ),
    ]
    for one in forged:
        refused = checked(one)
        assert refused is not None
        assert refused.code == "not_signed"


def test_the_role_counts_when_it_is_carried_out() -> None:
    event = msgspec.structs.replace(requested(), identity=Identity(name="ann", source="users"))
    record = as_requested(record_of(event, actor="ann"))
    operator = Access(sign_in="users", grants=(Grant(role="operator", people=("ann",)),))
    viewer = Access(sign_in="users", grants=(Grant(role="viewer", people=("ann",)),))
    assert checked(record, operator) is None
    assert checked(record, viewer).code == "forbidden"
    assert checked(record).code == "forbidden"  # sign-in was switched off: users are nobody


def test_lasting_settings_need_an_admin() -> None:
    plan = plan_of(1)
    assert needed_role(plan) == "operator"
    step = SetDynamicSetting(key="loadBalancerSheddingEnabled", before="true", value="false")
    assert step.role == "admin"


def test_a_plan_file_of_another_key_or_changed_is_refused(tmp_path) -> None:
    ours = TrimtabConfig.model_validate({"access": {"key_file": tmp_path / "a"}})
    theirs = TrimtabConfig.model_validate({"access": {"key_file": tmp_path / "b"}})
    file = tmp_path / "plan.json"
    file.write_bytes(access.plan_file(ours, plan_of(1)))
    assert access.read_plan(ours, file) == plan_of(1)
    with pytest.raises(UnusablePlanError, match="signature"):
        access.read_plan(theirs, file)
    receiving, sending = os.pipe()  # as the shell's `<(...)`: its content can be read only once
    os.write(sending, file.read_bytes())
    os.close(sending)
    assert access.read_plan(ours, Path(f"/dev/fd/{receiving}")) == plan_of(1)
    os.close(receiving)
    other = json.loads(file.read_text()) | json.loads(dump_plan(plan_of(2)))
    file.write_text(json.dumps(other))  # sealed again: its id fits, its signature does not
    with pytest.raises(UnusablePlanError, match="signature"):
        access.read_plan(ours, file)


def test_check_names_secret_files_that_others_can_read(tmp_path) -> None:
    places = {name: tmp_path / name for name in ("users.json", "key", "target")}
    for path in places.values():
        path.write_text("x")
        path.chmod(0o644)
    config = TrimtabConfig.model_validate(
        {
            "access": {"users_file": places["users.json"], "key_file": places["key"]},
            "alerts": {"targets": [{"name": "hook", "url_file": places["target"]}]},
        }
    )
    found = exposed_secrets(config)
    assert all(any(str(path) in text for text in found) for path in places.values())
    for path in places.values():
        path.chmod(0o600)
    assert exposed_secrets(config) == []


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_user_file_that_others_can_write_is_refused(users, tmp_path, mode) -> None:
    users.set_user("ann", PASSWORD)
    _, token = users.add_token("ann", (), 1, NOW)
    assert users.verified("ann", PASSWORD)
    file = tmp_path / "state" / "users.json"
    file.chmod(mode)
    for attempt in (lambda: users.verified("ann", PASSWORD), lambda: users.of_token(token, NOW)):
        with pytest.raises(ConfigError, match="is writable by other users"):
            attempt()
    file.chmod(0o600)
    assert users.verified("ann", PASSWORD)


def test_check_names_what_belongs_to_another_user(tmp_path, monkeypatch) -> None:
    values = {"state_dir": tmp_path, "access": {"users_file": tmp_path / "none.json"}}
    config = TrimtabConfig.model_validate(values)
    assert exposed_secrets(config) == []
    stat = tmp_path.stat()
    theirs = SimpleNamespace(st_uid=4711, st_mode=stat.st_mode)
    monkeypatch.setattr(type(tmp_path), "stat", lambda *_, **__: theirs)
    assert any("belongs to another user (uid 4711)" in text for text in exposed_secrets(config))


def test_runs_and_jobs_of_clusters_without_a_role_are_not_shown(tmp_path) -> None:
    grants = [{"role": "operator", "people": ["ann"]}]
    names = ("prod", "other")
    clusters = [{"name": name, "zookeeper": "z:1", "read_only": False} for name in names]
    values = {"state_dir": tmp_path, "clusters": clusters}
    config = TrimtabConfig.model_validate(
        {**values, "access": {"sign_in": "users", "grants": grants}}
    )
    ann = Identity(name="ann", source="users")
    moment = services.now()
    for name in names:
        plan = plan_of(1, cluster=name, created_at=moment, expires_at=moment + timedelta(minutes=5))
        options = services.default_options(config, name)
        services.request_run(config, name, plan, "too hot", options, ann)
        jobs.request_job(config, "health", {"clusters": [name]}, ann)
    assert {view.cluster for view in services.runs(config)} == {"prod", "other"}
    one = config.of_kind("pulsar").model_copy(update={"clusters": [config.cluster("prod")]})
    assert {view.cluster for view in services.runs(one)} == {"prod"}
    (found,) = jobs.jobs(one)
    assert found.request.parameters["clusters"] == ["prod"]
    hidden = next(job for job in jobs.jobs(config) if job.id != found.id)
    with pytest.raises(UnknownNameError):
        jobs.job(one, hidden.id)
    with pytest.raises(ForbiddenError):
        jobs.request_job(config, "health", {}, Identity(name="ben", source="users"))
