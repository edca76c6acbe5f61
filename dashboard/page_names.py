"""Addresses that name no page: led to the page that is meant, or to the first one, which says so.

Streamlit answers every address with its shell and then shows a bare "Page not found". A title works
as a name (``/runs``), and of anything else the first page shows the nearest pages there are.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse

from dashboard.sitemap import ENTRIES, PageEntry

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

NO_PAGE: Final = "no_page"
"""Query parameter of the first page: what an address named."""

_SERVED: Final = frozenset(
    ("", "home", "healthz", "readyz", "metrics", "api", "sign-in", "sign-out", "oauth2callback")
)
_FOLDERS: Final = ("_", "static", "media", "component", "app", "api", "auth", "vendor")
_MAX_NAME: Final = 60
_NEAR: Final = 0.6
_MAX_NEAR: Final = 3


def _word(title: str) -> str:
    return title.lower().replace(" ", "_").replace("-", "_")


_BY_WORD: Final = {_word(entry.title): entry for entry in reversed(tuple(ENTRIES.values()))} | {
    _word(name): one for name, one in ENTRIES.items()
}
"""Pages by name and by title; of two with one title the first."""


def page_of(name: str) -> PageEntry | None:
    """Return the page that an address names by its title, or by its name in other letters."""
    return _BY_WORD.get(_word(name))


def near_pages(name: str) -> list[PageEntry]:
    """Return the pages with a near name or title, nearest first, without pages of an object."""
    found = difflib.get_close_matches(_word(name), _BY_WORD, n=2 * _MAX_NEAR, cutoff=_NEAR)
    pages = dict.fromkeys(_BY_WORD[word] for word in found)
    return [page for page in pages if page.answers][:_MAX_NEAR]


class PageNames:
    """ASGI middleware that leads addresses of no page to one that helps.

    Args:
        app: What serves the others.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or redirect it."""
        place = _place(scope) if scope["type"] == "http" else ""
        if place:
            await RedirectResponse(place)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _place(scope: Scope) -> str:
    """Return the redirect of a request, relative to its address; empty if none."""
    path = scope["path"].strip("/")
    head, last = path.split("/")[0], path.rpartition("/")[2]
    if path in _SERVED or path in ENTRIES or (head.startswith(_FOLDERS) and head != path):
        return ""
    if scope["method"] != "GET" or "." in last or head.startswith("_"):
        return ""
    if "text/html" not in Headers(scope=scope).get("accept", ""):
        return ""
    root = "../" * scope["path"].removeprefix("/").count("/") or "./"
    query = scope["query_string"].decode("latin-1")
    meant = page_of(path)
    if meant is None:
        query += f"{'&' if query else ''}{NO_PAGE}={quote(path[:_MAX_NAME], safe='')}"
    return f"{root}{meant.name if meant else ''}{f'?{query}' if query else ''}"
