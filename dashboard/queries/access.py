"""Who uses this page, and which clusters and actions that person may see and use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.access import Identity, Role
from core.errors import ForbiddenError
from core.units import one_line, visible
from dashboard import services
from dashboard.services import access

if TYPE_CHECKING:
    from dashboard.services import Config

_MAX_NAME: Final = 255


def person(config: Config) -> Identity:
    """Return who uses this page, verified now.

    Raises:
        ForbiddenError: Nobody is signed in, or the session has ended.
        RemoteError: The sessions cannot be read.
    """
    sign_in = config.access.sign_in
    found: Identity | None = None
    if sign_in == "none":
        return access.local_identity(is_page=True)
    if sign_in == "users":
        cookie = st.context.cookies.get(access.cookie_name(config), "")
        found = access.sessions(config).of(cookie) if cookie else None
    elif sign_in == "proxy":
        found = access.proxied_identity(config, st.context.headers)
    elif is_signed_in(config):
        found = _of_provider(config)
    if found is None:
        raise ForbiddenError("You are not signed in, or your session has ended.", hint="Sign in.")
    return found


def is_signed_in(config: Config) -> bool:
    """Return whether an OpenID provider has signed a person in, within the hours of a session.

    Streamlit's own cookie lasts for 30 days.
    """
    signed_in_at = st.user.get("iat")  # every ID token has it, seconds since 1970
    if not st.user.get("is_logged_in", False) or not isinstance(signed_in_at, int | float):
        return False
    return services.now().timestamp() < signed_in_at + config.access.session_hours * 3600


def _of_provider(config: Config) -> Identity | None:
    """Return whom the OpenID provider says it is; an address counts only where it is verified.

    Raises:
        ForbiddenError: The name has invisible characters, or is very long.
    """
    claims: dict[str, Any] = st.user.to_dict()
    # some providers send it as a text
    is_unverified = str(claims.get("email_verified", True)).lower() != "true"
    name = claims.get("email") if claims.get("email") and not is_unverified else claims.get("sub")
    groups = claims.get(config.access.groups_claim) or ()
    if not isinstance(name, str) or not name:
        return None
    if len(name) > _MAX_NAME or visible(one_line(name)) != name:
        raise ForbiddenError(
            "The OpenID provider gives you a name that is too long or has invisible characters: "
            f"{one_line(visible(name))[:_MAX_NAME]}.",
            hint="Correct the name there.",
        )
    listed = groups if isinstance(groups, list | tuple) else [groups]
    return Identity(name=name, groups=tuple(str(one) for one in listed), source="oidc")


def page_config() -> Config:
    """Return the configuration with the clusters that the person may look at.

    Raises:
        ConfigError: It cannot be read or is contradictory.
        ForbiddenError: Nobody is signed in, or the person may look at nothing.
        RemoteError: The sessions cannot be read.
    """
    config = services.page_config()
    if config.access.sign_in == "none":
        return config
    return access.visible_to(config, person(config))


def refusal(config: Config, role: Role, cluster: str | None, action: str) -> str | None:
    """Return why the person may not do something, with what helps; ``None``: the person may."""
    if config.access.sign_in == "none":
        return None
    try:
        found = config.access.rules().refusal(person(config), role, cluster, action)
    except ForbiddenError as error:
        return str(error)
    return None if found is None else " ".join(found)
