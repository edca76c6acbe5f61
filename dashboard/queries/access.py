"""The person at this page, and the clusters and actions that the person may see and use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.access import Access, Identity, Role, is_address, is_subject, subject_of
from core.actions import authority
from core.errors import ForbiddenError
from core.units import name_fault
from dashboard import services
from dashboard.services import access

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.plan.model import Plan
    from dashboard.services import Config


def person(config: Config) -> Identity:
    """Return the identity of the person at this page, verified now.

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
        raise ForbiddenError("You are not signed in, or your session has expired.", hint="Sign in.")
    return found


def is_signed_in(config: Config) -> bool:
    """Return whether an OpenID provider has signed a person in, within the hours of a session."""
    return access.is_signed_in(config, st.user.to_dict())


def _of_provider(config: Config) -> Identity:
    """Return the identity from the OpenID provider.

    The identity is issuer and subject. The e-mail address is a label that grants may name, and
    counts only where the claim ``email_verified`` is ``true``: missing, or a text, it is not.

    Raises:
        ForbiddenError: The claims identify no person, are for another application, or the name
            is not one that people can tell from others.
    """
    claims: dict[str, Any] = st.user.to_dict()
    issuer, subject, email = (_text(claims, name) for name in ("iss", "sub", "email"))
    identity = subject_of(issuer, subject)
    if "#" in issuer or not is_subject(identity) or not _is_for_us(claims):
        raise ForbiddenError(
            "The OpenID provider does not identify you to Trimtab: the claims iss, sub or aud are "
            "missing or wrong.",
            hint="Correct the client at the provider, or client_id in secrets.toml.",
        )
    address = email if claims.get("email_verified") is True else ""
    for name in (identity, address or identity):
        if fault := name_fault(name):
            raise ForbiddenError(
                f"The user name from the OpenID provider {fault}.",
                hint="Correct the name at the provider.",
            )
    name = address if is_address(address) else identity
    groups = groups_of(claims, config.access.groups_claim)
    return Identity(name=name, groups=groups, source="oidc", subject=identity)


def _text(claims: Mapping[str, Any], name: str) -> str:
    found = claims.get(name)
    return found if isinstance(found, str) else ""


def _is_for_us(claims: Mapping[str, Any]) -> bool:
    """Return whether an ID token was made for this client.

    Authlib accepts one for others as long as it names this client as ``azp``.
    """
    auth = st.secrets.get("auth", {})
    section = auth.get(_text(claims, "provider"), auth)
    client = section.get("client_id") if isinstance(section, Mapping) else None
    audience = claims.get("aud")
    listed = audience if isinstance(audience, list) else [audience]
    return bool(client) and client in listed


def groups_of(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the groups that a claim lists.

    Args:
        claims: Of an ID token.
        name: Of the claim; ``realm_access.roles`` is also ``roles`` inside of ``realm_access``.
    Returns:
        None unless the claim is one text or a list of texts.
    """
    found: Any = claims
    for part in (name,) if name in claims else name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    listed = [found] if isinstance(found, str) else found
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        return ()
    return tuple(one for one in listed if not name_fault(one))


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
    """Return the refusal of an action by the person, with a remedy; ``None`` if permitted."""
    return _refused(config, lambda rules, who: rules.refusal(who, role, cluster, action))


def plan_refusal(
    config: Config,
    plan: Plan,
    cluster: str,
    action: str = "apply this plan",
    *,
    role: Role | None = None,
    is_balancer_paused: bool = False,
) -> str | None:
    """Return the refusal of a plan by the person's role or scope; ``None`` if permitted.

    Args:
        config: The configuration.
        plan: Every namespace and table that it changes must be in the scope of the role.
        cluster: Where it is executed.
        action: What is refused.
        role: That the action needs; ``None``: the one that the steps of the plan need.
        is_balancer_paused: The run pauses the cluster's own balancer.
    """
    return _refused(
        config,
        lambda rules, who: authority.plan_refusal(
            rules, who, plan, cluster, action, role=role, is_balancer_paused=is_balancer_paused
        ),
    )


def _refused(
    config: Config, refusal_of: Callable[[Access, Identity], tuple[str, str] | None]
) -> str | None:
    if config.access.sign_in == "none":
        return None
    try:
        found = refusal_of(config.access.rules(), person(config))
    except ForbiddenError as error:
        return str(error)
    return None if found is None else " ".join(found)
