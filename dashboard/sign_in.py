"""Access to the pages: sign-in with a password, or headers of a trusted proxy.

It stands before every route and every WebSocket. What a person may do is decided where it is done:
in :mod:`dashboard.services`, and again by the worker.
"""

from __future__ import annotations

import asyncio
import html
import json
import logging
import time
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, quote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from core.errors import ConfigError, ForbiddenError, OpsError
from dashboard import services
from dashboard.api.problem import problem
from dashboard.services import access

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from dashboard.services import Config

_LOG = logging.getLogger("trimtab.pages")

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"

_OPEN: Final = frozenset({"/healthz", "/readyz", "/_stcore/health"})
"""Probes of a supervisor, which has no person; they say no more than that it works."""

_OF_PEOPLE: Final = ("/media/", "/_stcore/upload_file/", "/_stcore/metrics")
"""Streamlit's routes with what people load down and up; of an OpenID provider's people the others
are open, since the page that leads to the provider needs them."""

_METRICS: Final = "/metrics"
_API: Final = "/api/v1/"
CALLER: Final = "trimtab.caller"
"""Of a request's scope: the user of the API token."""

_POLICY_VIOLATION: Final = 1008
_KNOWN_FOR_S: Final = 5.0
"""How long a session that was found is not looked up again: a page loads dozens of files."""

_MAX_FORM: Final = 4_096
_NO_SCRIPT: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    # with "no-referrer" a browser sends forms from nowhere ("Origin: null")
    "Referrer-Policy": "same-origin",
}

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in · Trimtab</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; --ground: #fff; --text: #17222b; --line: #d5dce1;
  --accent: #0b6478; --on: #fff; --bad: #b3261e; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ground: #10161b; --text: #e3e9ed;
  --line: #2e3942; --accent: #1f7a90; --bad: #f2857c; }} }}
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center;
  background: var(--ground); color: var(--text); font: 15px/1.45 system-ui, sans-serif; }}
main {{ width: min(20rem, 90vw); }}
h1 {{ font-size: 1.5rem; margin: 0 0 1.2rem; }}
label {{ display: block; margin: 0 0 .9rem; font-size: .9rem; }}
input {{ display: block; box-sizing: border-box; width: 100%; margin-top: .25rem; padding: .5rem;
  font: inherit; color: inherit; background: transparent; border: 1px solid var(--line);
  border-radius: 4px; }}
button {{ width: 100%; padding: .55rem; font: inherit; font-weight: 600; color: var(--on);
  background: var(--accent); border: 0; border-radius: 4px; cursor: pointer; }}
:focus-visible {{ outline: 2px solid var(--accent); outline-offset: 2px; }}
[role=alert] {{ color: var(--bad); margin: 0 0 1rem; }}
</style></head><body><main><h1>{title}</h1>{fault}{form}</main></body></html>"""

_FORM: Final = """<form method="post" action="{action}">
<label>Name<input name="name" autocomplete="username" autofocus required maxlength="64"></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required
 maxlength="1024"></label>
<button>Sign in</button></form>"""

_OUT_FORM: Final = """<form method="post" action="{action}"><button>Sign out</button></form>"""


class SignInGuard:
    """ASGI middleware that serves signed-in people only.

    Args:
        app: What is guarded.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._config: Config | None = None
        self._known: dict[str, float] = {}
        self._one_attempt = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, show the sign-in page, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            answer = await self._answer(scope, receive)
        except OpsError as error:
            answer = _refusal(scope["path"], HTTPStatus.SERVICE_UNAVAILABLE, error)
        if answer is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})

    async def _answer(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the answer to a request that is not passed on; ``None``: it is."""
        config = self._read_config()
        path = scope["path"]
        if config is None or path in _OPEN:
            return None
        sign_in = config.access.sign_in
        if sign_in == "none":
            return RedirectResponse("/", 303) if path in (SIGN_IN, SIGN_OUT) else None
        if path == _METRICS or path.startswith(_API):
            return _of_program(config, scope)
        if sign_in == "proxy":
            return _of_proxy(config, scope)
        if sign_in == "oidc":
            return _of_provider(config, scope)
        return await self._of_person(config, scope, receive)

    def _read_config(self) -> Config | None:
        """Return the configuration; while it cannot be read the last one holds.

        Without any, pages can show nothing but why.
        """
        try:
            self._config = services.page_config()
        except ConfigError:
            return self._config
        return self._config

    async def _of_person(self, config: Config, scope: Scope, receive: Receive) -> Response | None:
        request = Request(scope, receive) if scope["type"] == "http" else None
        path = scope["path"]
        if request is not None and path == SIGN_IN:
            return await _signed_in(config, request, self._one_attempt)
        cookie = _cookie(config, Headers(scope=scope))
        if request is not None and path == SIGN_OUT:
            self._known.pop(cookie, None)
            return await _signed_out(config, request, cookie)
        if await self._is_known(config, cookie):
            return None
        is_page = request is not None and "text/html" in request.headers.get("accept", "")
        if not is_page:
            return PlainTextResponse("Sign in first.\n", 401)
        query = scope["query_string"].decode("latin-1")
        wanted = quote(path + (f"?{query}" if query else ""), safe="")
        return RedirectResponse(f"{SIGN_IN}?next={wanted}", 303)

    async def _is_known(self, config: Config, cookie: str) -> bool:
        if not cookie:
            return False
        now_s = time.monotonic()
        if self._known.get(cookie, 0.0) > now_s:
            return True
        found = await run_in_threadpool(access.sessions(config).of, cookie)
        self._known = {text: until for text, until in self._known.items() if until > now_s}
        if found is not None:
            self._known[cookie] = now_s + _KNOWN_FOR_S
        return found is not None


def _of_program(config: Config, scope: Scope) -> Response | None:
    """Serve metrics and the HTTP interface to whoever has an API token of a user with a role."""
    scheme, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
    is_metrics = scope["path"] == _METRICS
    try:
        if scheme.lower() == "bearer":
            identity = access.user_file(config).of_token(text, services.now())
            action = "read metrics" if is_metrics else "use the HTTP interface"
            config.access.rules().check(identity, "viewer", None, action)
            scope[CALLER] = identity
            return None
    except ForbiddenError as error:
        return _refusal(scope["path"], HTTPStatus.FORBIDDEN, error)
    what = "Metrics need" if is_metrics else "The HTTP interface needs"
    needed = ForbiddenError(
        f"{what} an API token: Authorization: Bearer TOKEN.",
        hint="Make one with `trimtab tokens create`; commands read it from TRIMTAB_TOKEN.",
    )
    refused = _refusal(scope["path"], HTTPStatus.UNAUTHORIZED, needed)
    refused.headers["WWW-Authenticate"] = "Bearer"
    return refused


def _refusal(path: str, status: HTTPStatus, error: OpsError) -> Response:
    """Return an error: to the HTTP interface as its problems, else as a line of text."""
    if not path.startswith(_API):
        return PlainTextResponse(f"{error}\n", status.value)
    return problem(status, error.message, code=error.code, hint=error.hint)


def _of_proxy(config: Config, scope: Scope) -> Response | None:
    """Serve the request of a person that a trusted proxy names; two names count as none."""
    proxy, headers = config.access.proxy, Headers(scope=scope)
    address = (scope.get("client") or ("", 0))[0]
    if not proxy.trusts(address):
        sentence = "Access is allowed through the proxy only ([access.proxy]).\n"
        return PlainTextResponse(sentence, 403)
    named = len(headers.getlist(proxy.user_header))
    try:
        identity = access.proxied_identity(config, headers) if named == 1 else None
    except ForbiddenError as error:
        return PlainTextResponse(f"{error}\n", 403)
    if identity is None:
        return PlainTextResponse(f"The proxy sent no user in {proxy.user_header}.\n", 401)
    if len(headers.getlist(proxy.groups_header)) > 1:  # one of them may be the person's own
        return PlainTextResponse(f"The proxy sent {proxy.groups_header} twice.\n", 401)
    return None


def _of_provider(config: Config, scope: Scope) -> Response | None:
    """Serve downloads to whoever an OpenID provider has signed in: pages ask for themselves."""
    if not scope["path"].startswith(_OF_PEOPLE):
        return None
    cookies, secret = HTTPConnection(scope).cookies, get_cookie_secret()

    def read(name: str) -> bytes | None:
        return decode_signed_value(secret, name, cookies.get(name, "").encode("latin-1"))

    try:
        claims = json.loads(get_cookie_with_chunks(read, USER_COOKIE_NAME) or b"{}")
    except ValueError:
        claims = {}
    if access.is_signed_in(config, claims):
        return None
    return PlainTextResponse("Sign in first.\n", 401)


async def _signed_in(config: Config, request: Request, one_attempt: asyncio.Lock) -> Response:
    """Serve the sign-in page; attempts are checked one after another.

    Of many at once each would be counted after the others had passed, and each takes 64 MiB.
    """
    own_path = _own_path(request.query_params.get("next", ""))
    action = f"{SIGN_IN}?next={quote(own_path, safe='')}"
    if request.method != "POST":
        return _page("Sign in to Trimtab", _FORM.format(action=html.escape(action)))
    fields = await _form(request)
    try:
        async with one_attempt:
            text = await run_in_threadpool(
                access.sessions(config).sign_in,
                fields.get("name", ""),
                fields.get("password", ""),
                _address(config, request),
            )
    except ForbiddenError as error:
        status = 429 if error.context.get("is_throttled") else 401
        form = _FORM.format(action=html.escape(action))
        return _page("Sign in to Trimtab", form, str(error), status)
    answer = RedirectResponse(own_path, 303)
    answer.set_cookie(
        access.cookie_name(config),
        text,
        max_age=int(config.access.session_hours * 3600),
        httponly=True,
        secure=_is_https(request),
        samesite="lax",
    )
    return answer


async def _signed_out(config: Config, request: Request, cookie: str) -> Response:
    is_own_click = request.headers.get("sec-fetch-site", "") == "same-origin"
    if request.method != "POST" and not is_own_click:  # a link of another site signs nobody out
        return _page("Sign out of Trimtab", _OUT_FORM.format(action=SIGN_OUT))
    if cookie:
        address = _address(config, request)
        await run_in_threadpool(access.sessions(config).sign_out, cookie, address)
    answer = RedirectResponse(SIGN_IN, 303)
    answer.delete_cookie(access.cookie_name(config))
    return answer


def _page(title: str, form: str, fault: str = "", status: int = 200) -> Response:
    said = f'<p role="alert">{html.escape(fault)}</p>' if fault else ""
    return HTMLResponse(_PAGE.format(title=title, fault=said, form=form), status, dict(_NO_SCRIPT))


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form; one that is too long has none."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_FORM:
            return {}
    try:
        found = parse_qs(body.decode("utf-8"), max_num_fields=4)
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items()}


def _own_path(text: str) -> str:
    """Return the path to open afterwards: a path of these pages, never another site."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\", SIGN_IN, SIGN_OUT))
    return text if is_own and text.isprintable() else "/"


def _cookie(config: Config, headers: Headers) -> str:
    name = access.cookie_name(config)
    for pair in headers.get("cookie", "").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name:
            return value
    return ""


def _address(config: Config, request: Request) -> str:
    """Return the address under which sign-in attempts of a request are counted."""
    sender = request.client.host if request.client else ""
    lines = request.headers.getlist("x-forwarded-for")
    if lines and not config.access.proxy.trusts(sender):
        _warn_of_proxy()
    return config.access.proxy.visitor(sender, ",".join(lines))


@lru_cache(maxsize=1)
def _warn_of_proxy() -> None:
    _LOG.warning(
        "sign-in request with X-Forwarded-For from an address that is not in [access.proxy] "
        "addresses; if it is your proxy, add it there, otherwise all visitors share one rate "
        "limit"
    )


def _is_https(request: Request) -> bool:
    # several proxies make a list of it; the first one is the browser's
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    return "https" in (request.url.scheme, forwarded)
