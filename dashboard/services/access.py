"""The composition root's part for identity and roles; see :mod:`dashboard.services`."""

from __future__ import annotations

import getpass
import hashlib
import hmac
import os
from contextvars import ContextVar
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core.access import Identity
from core.actions.authority import plan_signature
from core.errors import ForbiddenError, UnusablePlanError
from core.plan.codec import dump_plan, load_plan, read_plan_file, signature_of
from core.systems import steps_of
from core.units import name_fault
from dashboard import services
from trimtab.token import token_of_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

    from connectors.access.sessions import Sessions
    from connectors.access.users import UserFile
    from core.plan.model import Plan
    from dashboard.services import Config

CALLER: ContextVar[Identity | None] = ContextVar("caller", default=None)
"""Who a command runs for over HTTP; ``None``: the user of the command line."""

_AHEAD_S: Final = 300
"""By so much the clock of an OpenID provider may be ahead."""


# -- who asks --------------------------------------------------------------------------------------


def local_identity(*, is_page: bool = False) -> Identity:
    """Return the operating system's user, where nobody signs in.

    Args:
        is_page: Asked from the pages: then only the dashboard's own user is known.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, in a container
        user = f"uid-{os.getuid()}"
    return Identity(name=f"dashboard/{user}" if is_page else user)


def command_identity(config: Config) -> Identity:
    """Return the user of the command line: the person of its API token, or the local user.

    Raises:
        ForbiddenError: The token is not known, was revoked or has expired.
        ConfigError: The user file or the token's file cannot be read.
    """
    if (caller := CALLER.get()) is not None:
        return caller
    text = token_of_environment()
    if config.access.sign_in == "none" or not text:
        return local_identity()
    from connectors.transport.redaction import register  # noqa: PLC0415  # commands must start fast

    register(text)
    return user_file(config).of_token(text, services.now())


def proxied_identity(config: Config, headers: Mapping[str, str]) -> Identity | None:
    """Return the person that a trusted proxy's headers name; ``None``: they name none.

    Raises:
        ForbiddenError: The name is not one that people can tell from others.
    """
    proxy = config.access.proxy
    try:
        name, groups = (
            headers.get(one, "").encode("latin-1").decode("utf-8")  # servers read bytes as Latin-1
            for one in (proxy.user_header, proxy.groups_header)
        )
    except UnicodeError as exc:
        raise ForbiddenError(
            f"The proxy sends {proxy.user_header} or {proxy.groups_header} in an encoding "
            "other than UTF-8.",
            hint="Correct the proxy.",
        ) from exc
    if not name:
        return None
    if fault := name_fault(name):
        raise ForbiddenError(
            f"The user name in {proxy.user_header} from the proxy {fault}.",
            hint="Correct the user name in the identity provider.",
        )
    listed = (group.strip(" \t") for group in groups.split(","))
    return Identity(
        name=name,
        groups=tuple(group for group in listed if not name_fault(group)),
        source="proxy",
    )


def is_signed_in(config: Config, claims: Mapping[str, Any]) -> bool:
    """Return whether an OpenID provider has signed a person in, within the hours of a session.

    Streamlit's own cookie lasts for 30 days.

    Args:
        config: Has the hours.
        claims: Of the ID token, as Streamlit stored them.
    """
    signed_in_at = claims.get("iat")  # every ID token has it, seconds since 1970
    if claims.get("is_logged_in") is not True or not isinstance(signed_in_at, int | float):
        return False
    try:
        age_s = services.now().timestamp() - signed_in_at
    except OverflowError:  # more digits than any clock has
        return False
    return -_AHEAD_S <= age_s < config.access.session_hours * 3600


# -- people ----------------------------------------------------------------------------------------


def visible_to(config: Config, who: Identity) -> Config:
    """Return a configuration with the clusters that a person may look at.

    Raises:
        ForbiddenError: There are none.
    """
    rules = config.access.rules()
    visible = [cluster for cluster in config.clusters if rules.may(who, "viewer", cluster.name)]
    if config.clusters and not visible:
        rules.check(who, "viewer", None, "view a cluster")
    return config.model_copy(update={"clusters": visible})


def unnamed_proxy(config: Config) -> list[str]:
    """Return a sentence if a proxy is in front of the pages whose address is not configured."""
    access = config.access
    if access.sign_in != "users" or access.proxy.addresses or not config.pages.allowed_hosts:
        return []
    sentence = (
        "allowed_hosts under [pages] names hosts of a proxy without a configured address: 20 "
        "wrong passwords of one visitor lock out all visitors for 15 minutes. Add the proxy "
        "as addresses under [access.proxy]."
    )
    return [sentence]


def user_file(config: Config) -> UserFile:
    """Return the user file of a configuration."""
    return _user_file_at(config.users_file)


@lru_cache(maxsize=4)
def _user_file_at(path: Path) -> UserFile:
    from connectors.access.users import UserFile  # noqa: PLC0415  # commands must start fast

    return UserFile(path)


def sessions(config: Config) -> Sessions:
    """Return the sessions of people who signed in with a password.

    Raises:
        ConfigError: The installation's key cannot be used.
        RemoteError: The journal's database cannot be used.
    """
    hours = config.access.session_hours
    return _sessions_of(config.journal_address, config.users_file, hours, _key(config))


@lru_cache(maxsize=4)
def _sessions_of(address: SecretStr, users: Path, hours: float, key: bytes) -> Sessions:

    from connectors.access.sessions import Sessions  # noqa: PLC0415  # commands must start fast
    from connectors.journal.engine import Database  # noqa: PLC0415  # the same

    lasts = timedelta(hours=hours)
    return Sessions(Database(address), _user_file_at(users), key, lasts, services.now)


def cookie_name(config: Config) -> str:
    """Return the name of the session's cookie: browsers mix up the ports of one host."""
    return f"trimtab_{hashlib.sha256(str(config.users_file).encode()).hexdigest()[:8]}"


# -- plan files ------------------------------------------------------------------------------------


def plan_file(config: Config, plan: Plan) -> bytes:
    """Return the content of a plan file, signed with the installation's key.

    Raises:
        ConfigError: The key cannot be used.
    """
    return dump_plan(plan, plan_signature(plan, _key(config)))


def read_plan(config: Config, path: Path) -> Plan:
    """Read a plan file that is to be applied; see :func:`own_plan`."""
    return own_plan(config, read_plan_file(path), str(path))


def own_plan(config: Config, content: bytes, place: str) -> Plan:
    """Return a plan that is to be applied: it must have been made by this installation.

    Args:
        config: Its installation's.
        content: Of a plan file.
        place: What an error calls it.
    Raises:
        UnusablePlanError: It cannot be read, is damaged, or this installation did not make it.
        ConfigError: The key cannot be used.
    """
    from connectors.systems import systems_of  # noqa: PLC0415  # commands must start fast

    plan = load_plan(content, steps_of(systems_of(config)), place)
    if not hmac.compare_digest(signature_of(content), plan_signature(plan, _key(config))):
        raise UnusablePlanError(
            f"{place} has an invalid signature: it was created by another installation of "
            "Trimtab or changed afterwards.",
            hint="Create the plan again. Machines that exchange plans require a common key "
            "(key_file under [access]).",
        )
    return plan


def _key(config: Config) -> bytes:
    from connectors.access.key import installation_key  # noqa: PLC0415  # commands must start fast

    return installation_key(config.access)
