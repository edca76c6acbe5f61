"""A hostile page against the pages, in a browser for which its name leads to loopback."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.e2e.conftest import ARGUMENTS, Product, chromium

OPEN_SOCKET = """
    address => new Promise(done => {
        const socket = new WebSocket(address);
        socket.onopen = () => done("open");
        socket.onerror = () => done("refused");
    })
"""
FRAME = """
    address => new Promise(done => {
        const frame = document.createElement("iframe");
        frame.src = address;
        frame.onload = () => {
            try { done(frame.contentDocument.title); } catch (error) { done("blocked"); }
        };
        document.body.append(frame);
    })
"""


@pytest.fixture(scope="module")
def rebound(browser: Browser):
    """A second browser that finds ``evil.example`` on loopback."""
    rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    with_rules = [*ARGUMENTS, rules, "--no-proxy-server"]
    started = browser.browser_type.launch(executable_path=chromium(), args=with_rules)
    yield started
    started.close()


def test_a_rebound_name_neither_loads_the_pages_nor_starts_a_session(
    product: Product, rebound: Browser
) -> None:
    page = rebound.new_context().new_page()
    answer = page.goto(f"http://evil.example:{product.port}/")
    assert answer is not None
    assert answer.status == 403
    assert "allowed_hosts" in page.inner_text("body")
    assert page.locator('[data-testid="stApp"]').count() == 0
    for host in ("evil.example", "127.0.0.1", "localhost"):
        address = f"ws://{host}:{product.port}/_stcore/stream"
        assert page.evaluate(OPEN_SOCKET, address) == "refused"
    page.context.close()


def test_the_pages_cannot_be_framed(product: Product, rebound: Browser) -> None:
    page = rebound.new_context().new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(f"http://evil.example:{product.port}/")
    page.evaluate(FRAME, f"http://127.0.0.1:{product.port}/")
    assert any("frame" in text for text in complaints), complaints
    page.context.close()


def test_loopback_by_name_works(product: Product, rebound: Browser) -> None:
    page = rebound.new_context().new_page()
    page.goto(f"http://localhost:{product.port}/")
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
    assert page.get_by_role("heading", name="Fleet", exact=True).count() == 1
    page.context.close()
