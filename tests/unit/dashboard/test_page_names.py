"""An address that names no page leads to one that helps."""

from __future__ import annotations

from typing import Any

import pytest
from event_loops import run_apart
from starlette.responses import PlainTextResponse

from dashboard.page_names import PageNames, near_pages
from dashboard.sitemap import ENTRIES

HTML = [(b"accept", b"text/html,application/xhtml+xml")]


def place_of(path: str, query: bytes = b"", headers: Any = None, method: str = "GET") -> str:
    """Return where a request is led; empty: it is served."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": HTML if headers is None else headers,
    }
    run_apart(PageNames(PlainTextResponse("the pages"))(scope, receive, send))
    start = sent[0]
    found = dict(start["headers"]).get(b"location", b"")
    assert (start["status"] == 307) == bool(found)
    return bytes(found).decode()


@pytest.mark.parametrize("name", ["", *ENTRIES])
def test_pages_are_served_under_their_names(name: str) -> None:
    assert place_of(f"/{name}") == ""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/runs", "./activity?cluster=sandbox"),
        ("/Calculators", "./advisors?cluster=sandbox"),
        ("/replica-balance", "./pegasus_balance?cluster=sandbox"),
        ("/back-test/", "../backtest?cluster=sandbox"),
    ],
)
def test_a_title_works_as_a_name(path: str, place: str) -> None:
    assert place_of(path, b"cluster=sandbox") == place


def test_anything_else_leads_to_the_first_page_which_names_what_was_asked_for() -> None:
    assert place_of("/brokesr", b"cluster=sandbox") == "./?cluster=sandbox&no_page=brokesr"
    assert place_of("/brokesr") == "./?no_page=brokesr"
    assert place_of("/a/b") == "../?no_page=a%2Fb"
    assert place_of("//evil") == "../?no_page=evil"


@pytest.mark.parametrize(
    "path",
    ["/healthz", "/metrics", "/sign-in", "/_stcore/stream", "/static/js/index.js", "/favicon.ico"],
)
def test_what_is_no_page_is_left_alone(path: str) -> None:
    assert place_of(path) == ""


def test_only_what_a_person_opens_is_led() -> None:
    assert place_of("/runs", headers=[(b"accept", b"*/*")]) == ""
    assert place_of("/runs", method="POST") == ""


def test_near_pages_are_those_that_a_person_can_open() -> None:
    assert [one.name for one in near_pages("brokesr")][:1] == ["brokers"]
    assert all(one.answers for one in near_pages("brok"))
    assert near_pages("zzzzzz") == []
