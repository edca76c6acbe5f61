"""Who may do what: roles, passwords, tokens, sessions, and requests that cannot be forged."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from journal_entries import plan_of, record_of, requested
from signed_requests import as_requested
from starlette.requests import Request

from connectors.access.key import installation_key, key_path
from connectors.access.sessions import MAX_FAILURES, Sessions
from connectors.access.users import UserFile
from connectors.config.access import AccessConfig
from connectors.config.model import TrimtabConfig
from connectors.config.private import exposed_secrets
from connectors.journal.engine import Database
from core.access import ROLES, Access, Grant, Identity
from core.actions.authority import needed_role, refusal_of
from core.actions.events import ControlRequested
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
    assert rules.may(Identity(name="ann", source=source), "admin", "x") is is_verified


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
    with pytest.raises(ValueError, match="nobody signs in"):
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


class Wall:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def sessions(users: UserFile, wall: Wall, tmp_path: Path) -> Iterator[Sessions]:
    users.set_user("ann", PASSWORD)
    database = Database(f"sqlite:///{tmp_path / 'journal.db'}")
    yield Sessions(database, users, timedelta(hours=12), wall)
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
        with pytest.raises(ForbiddenError, match="do not belong together"):
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
        with pytest.raises(ForbiddenError, match="do not belong together"):
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


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"email": "ann@x", "sub": "7"}, "ann@x"),
        ({"email": "ann@x", "sub": "7", "email_verified": True}, "ann@x"),
        ({"email": "ann@x", "sub": "7", "email_verified": "true"}, "ann@x"),
        ({"email": "ann@x", "sub": "7", "email_verified": False}, "7"),
        ({"email": "ann@x", "sub": "7", "email_verified": "false"}, "7"),
        ({"email": "ann@x", "sub": "7", "groups": 5}, "ann@x"),
    ],
)
def test_an_address_that_the_provider_did_not_verify_is_no_name(monkeypatch, claims, name) -> None:
    assert provided(monkeypatch, claims).name == name


def provided(monkeypatch, claims, age: timedelta = timedelta(hours=1)) -> Identity:
    """Whom a provider's claims name that were made a while ago."""
    monkeypatch.setattr(services, "now", lambda: NOW)
    all_claims = {"is_logged_in": True, "iat": int((NOW - age).timestamp()), **claims}
    user = SimpleNamespace(to_dict=lambda: all_claims, get=all_claims.get)
    monkeypatch.setattr(page_access.st, "user", user)
    values = {"access": {"sign_in": "oidc", "session_hours": 8}}
    return page_access.person(TrimtabConfig.model_validate(values))


@pytest.mark.parametrize(
    "name", ["ann\nis admin", "\u202enna", "a\u200bnn", " ann", "a" * 300, "\u3164"]
)
def test_a_name_that_does_not_look_as_it_is_is_refused(monkeypatch, name) -> None:
    with pytest.raises(ForbiddenError, match="invisible characters") as refused:
        provided(monkeypatch, {"email": name})
    assert str(refused.value).isprintable()
    assert provided(monkeypatch, {"email": "Zoë Ann"}).name == "Zoë Ann"


def test_a_sign_in_at_a_provider_ends_after_the_hours_of_a_session(monkeypatch) -> None:
    assert provided(monkeypatch, {"email": "ann"}, timedelta(hours=7.9)).name == "ann"
    with pytest.raises(ForbiddenError, match="has ended"):
        provided(monkeypatch, {"email": "ann"}, timedelta(hours=8))
    with pytest.raises(ForbiddenError, match="not signed in"):
        provided(monkeypatch, {"email": "ann", "iat": None})


def test_of_a_proxy_only_the_address_that_it_added_counts() -> None:
    proxy = {"addresses": ["10.0.0.7"]}
    config = TrimtabConfig.model_validate({"access": {"sign_in": "users", "proxy": proxy}})
    lines = [(b"x-forwarded-for", b"6.6.6.6"), (b"x-forwarded-for", b"7.7.7.7, 203.0.113.9")]
    scope = {"type": "http", "headers": lines, "client": ("10.0.0.7", 1)}
    assert sign_in._address(config, Request(scope)) == "203.0.113.9"
    assert sign_in._address(config, Request({**scope, "client": ("6.6.6.6", 1)})) == "6.6.6.6"


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
        with pytest.raises(ConfigError, match="can write the user file"):
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
