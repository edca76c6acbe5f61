"""Two people, two browsers: one requests a run, the other approves it; a viewer may do neither."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from connectors.access.users import UserFile
from connectors.journal.journal import SqlJournal
from core.actions.model import RunId
from tests.e2e.conftest import Product
from tests.e2e.test_apply_journey import RUN_S, SNAPSHOT_S, cool_bundles

PASSWORD = "correct horse battery"
ACCESS = """
[access]
sign_in = "users"
[[access.grants]]
role = "operator"
people = ["ann", "ben"]
[[access.grants]]
role = "viewer"
people = ["vic"]
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, browser: Browser) -> Iterator[Product]:
    running = Product(tmp_path_factory.mktemp("guarded"), "--no-past")
    try:
        running.wait()
        state = running.log.parent / "state"
        users = UserFile(state / "users.json")
        for name in ("ann", "ben", "vic"):
            users.set_user(name, PASSWORD)
        config = state / "trimtab.toml"
        name = 'name = "sandbox"\n'
        text = config.read_text().replace(name, f'{name}approval = {{ needed = "always" }}\n', 1)
        config.write_text(text + ACCESS)
        yield running
    finally:
        running.end()


def signed_in(browser: Browser, product: Product, name: str, path: str) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(f"{product.url}/{path}")
    expect(page.get_by_role("heading", name="Sign in to Trimtab")).to_be_visible()
    page.keyboard.type(name)  # the first field has the focus
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_text(name, exact=True).first).to_be_visible()
    return page


def test_one_person_requests_and_another_one_approves(guarded, browser) -> None:
    (bundle,) = cool_bundles(guarded, 1)
    ann = signed_in(browser, guarded, "ann", "unload?" + urlencode({"bundles": bundle}))
    ann.get_by_role("button", name="Apply plan").first.click(timeout=SNAPSHOT_S)
    dialog = ann.get_by_role("dialog")
    expect(dialog.get_by_label("Reason (recorded")).to_be_focused()
    ann.keyboard.type("too hot")
    typed = dialog.get_by_label("to confirm")
    if typed.count():
        typed.fill("sandbox")
    dialog.get_by_role("button", name=re.compile("^Unload 1")).click()
    expect(ann.get_by_text("Waiting for approval")).to_be_visible()
    expect(ann.get_by_role("button", name="Approve")).to_be_disabled()
    expect(
        ann.get_by_text("Another user must decide, because you requested the run.")
    ).to_be_visible()
    run = re.search(r"run=([\w-]+)", ann.url)[1]

    vic = signed_in(browser, guarded, "vic", f"run?run={run}")
    expect(vic.get_by_text("operator is needed to approve runs")).to_be_visible()
    expect(vic.get_by_role("button", name="Approve")).to_be_disabled()

    ben = signed_in(browser, guarded, "ben", f"run?run={run}")
    ben.get_by_label("Comment").fill("looks right")
    ben.get_by_role("button", name="Approve").click()
    expect(ben.get_by_text(re.compile("1 of 1")).first).to_be_visible(timeout=RUN_S)
    expect(ann.get_by_text("Waiting for approval")).to_have_count(0, timeout=RUN_S)
    journal = SqlJournal(f"sqlite:///{guarded.log.parent / 'state' / 'journal.db'}")
    people = [
        (type(entry.record.event).__name__, entry.record.actor)
        for entry in journal.entries(run_id=RunId(run))
    ]
    journal.close()
    assert people[:2] == [("RunRequested", "ann"), ("RunDecided", "ben")]
    assert people[2][0] == "RunClaimed", "nothing was done before it"


def test_a_viewer_sees_why_nothing_can_be_applied(guarded, browser) -> None:
    (bundle,) = cool_bundles(guarded, 1)
    vic = signed_in(browser, guarded, "vic", "unload?" + urlencode({"bundles": bundle}))
    button = vic.get_by_role("button", name="Apply plan").first
    expect(button).to_be_disabled(timeout=SNAPSHOT_S)
    button.hover(force=True)
    expect(vic.get_by_text("vic has viewer role on sandbox").first).to_be_visible()


def test_signing_out_ends_the_session_in_the_same_tab(guarded, browser) -> None:
    page = signed_in(browser, guarded, "ann", "fleet")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to Trimtab")).to_be_visible()
    page.go_back()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in to Trimtab")).to_be_visible()
