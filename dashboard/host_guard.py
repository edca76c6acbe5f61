"""Host names and origins that the pages answer: the defence against DNS rebinding and framing.

A browser sends the name that a person or a script requested as ``Host``, and the page that asks as
``Origin``. A hostile page can let its own name point at loopback (DNS rebinding), so an unknown
``Host`` is refused on every route, as is an ``Origin`` that is neither the page's own address nor
configured. Streamlit's ``server.allowedHosts`` guards its WebSocket only and accepts every port of
``localhost`` as an origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_NOT_FRAMED: Final = {
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
}
_FORBIDDEN: Final = 403
_POLICY_VIOLATION: Final = 1008


class HostGuard:
    """ASGI middleware that answers configured hosts and origins only.

    Args:
        app: What is guarded.
        allowed_hosts: ``host`` or ``host:port`` of a proxy, in addition to loopback.
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._netlocs = frozenset(host.lower() for host in allowed_hosts)
        self._names = host_names(self._netlocs)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with a sentence."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def send_unframed(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in _NOT_FRAMED.items():
                    headers.setdefault(name, value)
            await send(message)

        fault = self.fault_of(Headers(scope=scope))
        if not fault:
            await self._app(_same_origin(scope), receive, send_unframed)
        elif scope["type"] == "http":
            await PlainTextResponse(fault, _FORBIDDEN)(scope, receive, send_unframed)
        else:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})

    def fault_of(self, headers: Headers) -> str:
        """Return the fault of a refused request; empty if it is served."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if _hostname(host) not in self._names:
            return _sentence(f"The host {_shown(hosts)} is not allowed.")
        if not origins:
            return ""  # not a browser's cross-site request: those always name their origin
        try:
            parts = urlsplit(origins[0].lower())
        except ValueError:
            parts = urlsplit("")
        is_web = len(origins) == 1 and parts.scheme in ("http", "https")
        if is_web and parts.netloc and parts.netloc in {host, *self._netlocs}:
            return ""
        return _sentence(f"Origin {_shown(origins)} is not allowed.")


def host_names(allowed_hosts: Iterable[str]) -> frozenset[str]:
    """Return the names without ports, loopback included."""
    return _LOOPBACK | {name for host in allowed_hosts if (name := _hostname(host.lower()))}


def _same_origin(scope: Scope) -> Scope:
    """Return the scope with an accepted origin as the host's own.

    Streamlit judges a foreign origin again, and for that asks a server on the Internet for the
    address of this machine (``streamlit.net_util.get_external_ip``). The scheme stays: the cookie
    of an OpenID provider's sign-in counts for the origin of ``redirect_uri`` only.
    """
    headers = dict(scope["headers"])
    if b"origin" not in headers:
        return scope
    own = headers[b"origin"].partition(b"://")[0] + b"://" + headers[b"host"]
    remaining = [pair for pair in scope["headers"] if pair[0] != b"origin"]
    return {**scope, "headers": [*remaining, (b"origin", own)]}


def _hostname(netloc: str) -> str | None:
    """Return the host of a ``Host`` header; ``None`` when it is no ``host`` or ``host:port``."""
    try:
        parts = urlsplit(f"//{netloc}")
        parts.port  # noqa: B018  # raises for a port that is none
    except ValueError:
        return None
    if parts.netloc != netloc or "@" in netloc or netloc.endswith(":"):
        return None
    return parts.hostname


def _shown(texts: list[str]) -> str:
    return ", ".join(ascii(text[:100]) for text in texts) or "(none)"


def _sentence(fault: str) -> str:
    return f"{fault} To allow it, add it to allowed_hosts under [pages] in trimtab.toml.\n"
