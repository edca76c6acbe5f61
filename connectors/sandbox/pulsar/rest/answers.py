"""Answers of the admin REST interface: bodies of success and of every kind of refusal."""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from connectors.sandbox.pulsar.state import Broker

JSON_TYPE: Final = "application/json"
_HTML_TYPE: Final = "text/html;charset=iso-8859-1"
_PAGE: Final = (
    "<html>\n<head>\n"
    '<meta http-equiv="Content-Type" content="text/html;charset=ISO-8859-1"/>\n'
    "<title>Error {title}</title>\n</head>\n<body><h2>HTTP ERROR {title}</h2>\n<table>\n"
    "<tr><th>URI:</th><td>{uri}</td></tr>\n<tr><th>STATUS:</th><td>{code}</td></tr>\n"
    "<tr><th>MESSAGE:</th><td>{phrase}</td></tr>\n"
    "<tr><th>SERVLET:</th><td>org.glassfish.jersey.servlet.ServletContainer-22d8f4ed</td></tr>\n"
    '</table>\n<hr/><a href="https://jetty.org/">Powered by Jetty:// 12.1.11</a><hr/>\n\n'
    "</body>\n</html>\n"
)


class RefusalError(Exception):
    """A refusal with a ``reason`` body.

    Args:
        status: HTTP status.
        reason: What the body says.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def stack_trace(message: str, exception: str) -> RefusalError:
    """Return the 500 of an uncaught exception: its trace is in the reason."""
    text = (
        "\n --- An unexpected error occurred in the server ---\n\n"
        f"Message: {message}\n\nStacktrace:\n\n{exception}: {message}\n"
        "\tat org.apache.pulsar.broker.admin.impl.NamespacesBase.sandbox(NamespacesBase.java)\n"
    )
    return RefusalError(500, text)


def as_json(body: Any, status: int = 200) -> Response:
    """Return a JSON answer."""
    return Response(msgspec.json.encode(body), status, media_type=JSON_TYPE)


def as_text(body: str) -> Response:
    """Return a text unchanged; upstream labels these as JSON anyway."""
    return Response(body.encode(), media_type=JSON_TYPE)


def nothing(status: int = 204) -> Response:
    """Return an answer without a body."""
    return Response(status_code=status)


def redirect(broker: Broker, path: str, query: str = "") -> Response:
    """Return a 307 to another broker."""
    location = f"{broker.web_url}{path}" + (f"?{query}" if query else "")
    return Response(status_code=307, headers={"location": location})


def container_page(path: str, status: int) -> Response:
    """Return the HTML page that the web container answers with."""
    phrase = HTTPStatus(status).phrase
    page = _PAGE.format(title=f"{status} {phrase}", uri=escape(path), code=status, phrase=phrase)
    return Response(
        page.encode("iso-8859-1", "replace"), status, headers={"content-type": _HTML_TYPE}
    )


async def on_refusal(_: Request, error: Exception) -> Response:
    """Turn a :class:`RefusalError` into its answer."""
    assert isinstance(error, RefusalError)  # noqa: S101 - registered for this class only
    return as_json({"reason": error.reason}, error.status)


async def on_lost_store(_: Request, error: Exception) -> Response:
    """Turn a failure of ZooKeeper into the 500 that a broker answers then."""
    exception = "org.apache.pulsar.metadata.api.MetadataStoreException"
    refusal = stack_trace(str(error), exception)
    return as_json({"reason": refusal.reason}, refusal.status)


async def on_container_error(request: Request, error: Exception) -> Response:
    """Turn a missing route or a wrong verb into the container's page."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    return container_page(request.url.path, status)
