"""The person at the foot of the sidebar, and the way to sign in and out."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final

import streamlit as st
from streamlit.errors import StreamlitSecretNotFoundError
from streamlit.runtime.scriptrunner import get_script_run_ctx
from structlog.contextvars import bind_contextvars, clear_contextvars

from core.access import describe_scopes
from core.errors import OpsError
from dashboard import services, sign_in
from dashboard.components import words
from dashboard.queries import access

if TYPE_CHECKING:
    from core.access import Access, Identity
    from dashboard.services import Config


_LEAVE: Final = {
    sign_in.SIGN_IN: f"<script>window.location.assign('{sign_in.SIGN_IN}')</script>",
    sign_in.SIGN_OUT: f"<script>window.location.assign('{sign_in.SIGN_OUT}')</script>",
}


def bind_to_log(page: str) -> None:
    """Let every line of the log that this run of a page writes name the page and the session."""
    context = get_script_run_ctx()
    session = context.session_id[:8] if context is not None else ""
    clear_contextvars()  # threads serve many sessions, one after another
    bind_contextvars(page=page, session=session)


def draw_identity() -> None:
    """Render the signed-in person and roles at the foot of the sidebar, or that sign-in is off."""
    try:
        config = services.page_config()
    except OpsError:
        return  # the page itself says why
    try:
        who = access.person(config)
    except OpsError:  # the same; a person whose name at the provider is refused can try another
        if config.access.sign_in == "oidc":
            st.sidebar.button("Sign out", icon=":material/logout:", on_click=st.logout)
        return
    with st.sidebar.container(key="identity"):
        if config.access.sign_in == "none":
            st.caption(
                ":material/lock_open: **No sign-in**: all visitors act as "
                f"{words.plain(who.name)}.",
                help="The pages are available on this machine only. To configure users and roles, "
                "set sign_in under [access] in trimtab.toml.",
            )
            return
        st.caption(f":material/person: **{words.plain(who.name)}**  \n{_roles(config, who)}")
        if config.access.sign_in == "users":
            go_button("Sign out", sign_in.SIGN_OUT, icon=":material/logout:")
        elif config.access.sign_in == "oidc":
            st.button("Sign out", icon=":material/logout:", type="tertiary", on_click=st.logout)


def _roles(config: Config, who: Identity) -> str:
    """Return a person's roles: ``operator``, or ``operator on a; viewer on b and c``."""
    rules: Access = config.access.rules()
    found: dict[str, list[str]] = {}
    for cluster in config.clusters:
        role = rules.role_of(who, cluster.name)
        if role is not None:
            limited = describe_scopes(rules.limited_roles(who, cluster.name))
            found.setdefault(f"{role}, {words.plain(limited)}" if limited else role, []).append(
                cluster.name
            )
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{role} on {words.plain(', '.join(at))}" for role, at in found.items())


def go_button(label: str, path: str, *, icon: str) -> None:
    """Draw a button that leaves the pages in the same tab, for a path that no page serves.

    Streamlit's own links open another tab, and leave this one behind, signed out.
    """
    if st.button(label, icon=icon, type="tertiary", key=f"_go_{path}"):
        st.html(_LEAVE[path], unsafe_allow_javascript=True)


def needs_sign_in() -> bool:
    """Draw the way to sign in where an OpenID provider does it; return whether it is needed."""
    try:
        config = services.page_config()
    except OpsError:
        return False  # the page itself says why
    if config.access.sign_in != "oidc" or access.is_signed_in(config):
        return False
    st.title("Sign in to Trimtab")
    if fault := _provider_fault():
        st.error(fault, title="Sign-in not configured", icon=":material/error:")
    else:
        st.button("Sign in", icon=":material/login:", type="primary", on_click=st.login)
    return True


def _provider_fault() -> str:
    """Return the reason why sign-in at the OpenID provider is not possible; empty: possible."""
    try:
        is_configured = "auth" in st.secrets
    except (FileNotFoundError, StreamlitSecretNotFoundError):
        is_configured = False
    if not is_configured:
        return (
            "sign_in is oidc, but no OpenID provider is configured. Add `[auth]` to "
            "`.streamlit/secrets.toml` in the working directory of the dashboard."
        )
    if importlib.util.find_spec("authlib") is None:
        return "sign_in is oidc, but Authlib is not installed. Run `pip install 'trimtab[oidc]'`."
    return ""
