"""Apply, watch, take back: an operator's way through a run, in a browser, on the demo's fleet."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from core.snapshot.store import SnapshotStore, load_snapshot
from tests.e2e.conftest import Tab

RUN_S = 180_000
SNAPSHOT_S = 120_000


def cool_bundles(product, count):
    """Owned bundles with little traffic, of a namespace without policies: nobody else moves them.

    The fleet's own balancer sheds hot ones, at any moment.
    """
    (root,) = product.log.parent.glob("state/**/snapshots")
    newest = SnapshotStore(root).entries("sandbox")[-1]
    bundles = load_snapshot(newest.path).bundles.to_pylist()
    mine = [
        row
        for row in bundles
        if row["namespace"] == "initech/telemetry" and row["owner"] is not None
    ]
    mine.sort(key=lambda row: (row["msg_throughput_in"] or 0.0, row["bundle"]))
    return [row["bundle"] for row in mine[:count]]


def heading(tab, name):
    expect(tab.page.get_by_role("heading", name=name, level=1)).to_be_visible()
    tab.settle()


def apply(tab, button, bundles, reason, observe_s=None):
    """Press the button of the preview, fill the dialog in, and send it off."""
    page = tab.page
    page.get_by_role("button", name=button).click(timeout=SNAPSHOT_S)
    dialog = page.get_by_role("dialog")
    send = dialog.get_by_role("button", name=re.compile(f"^(Unload|Move) {bundles}"))
    field = dialog.get_by_label("Reason (recorded")
    expect(field).to_be_focused()
    page.keyboard.type(reason)
    typed = dialog.get_by_label("to confirm")
    if typed.count():
        typed.fill("sandbox")
    if observe_s is not None:
        dialog.get_by_label("Canary observation").fill(str(observe_s))
    send.click()  # the first click is enough, however soon after the last key
    heading(tab, "Run")
    return re.search(r"run=([\w-]+)", page.url)[1]


def test_bundle_is_unloaded_verified_and_taken_back(product, tab):
    (bundle,) = cool_bundles(product, 1)
    page = tab.open("unload?" + urlencode({"bundles": bundle}))
    expect(page.get_by_text(re.compile(r"Unloading 1 bundle \("))).to_be_visible()
    run = apply(tab, "Apply plan…", "1 bundle", "journey of the tests")
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible(timeout=RUN_S)
    expect(page.get_by_text("journey of the tests")).to_be_visible()

    page.get_by_role("button", name="Undo…").click()
    heading(tab, "Undo")
    expect(page.get_by_text("Undo of run")).to_be_visible()
    undo = apply(tab, "Apply undo…", "1 bundle", "taken back by the tests")
    assert undo != run
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible(timeout=RUN_S)
    page.get_by_role("button", name=f"Undo of run {run}").click()
    expect(page.get_by_role("button", name=f"Undone by run {undo}")).to_be_visible()

    page.get_by_test_id("stSidebarNavLink").filter(has_text="Runs").click()
    heading(tab, "Runs")
    expect(page.get_by_text("Runs, 24 h")).to_be_visible()
    page.get_by_role("tab", name="Journal").click()
    page.get_by_role("button", name="Verify chain").click()
    expect(page.get_by_text("chain intact").first).to_be_visible()
    assert tab.complaints == []


@pytest.mark.slow
def test_a_dialog_is_driven_by_the_keyboard_and_stays_closed_when_it_was_dismissed(product, tab):
    bundle = cool_bundles(product, 6)[-1]
    page = tab.open("unload?" + urlencode({"bundles": bundle, "refresh": "5 s"}))
    button = page.get_by_role("button", name="Apply plan…")
    button.click(timeout=SNAPSHOT_S)
    reason = page.get_by_role("dialog").get_by_label("Reason (recorded")
    expect(reason).to_be_focused()
    page.keyboard.type("half a reason")
    page.wait_for_timeout(7_000)  # a refresh is due meanwhile
    expect(reason).to_have_value("half a reason")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.wait_for_timeout(12_000)  # two refreshes
    expect(page.get_by_role("dialog")).to_be_hidden()
    button.click()
    expect(reason).to_be_focused()
    page.get_by_role("dialog").get_by_test_id("data-grid-canvas").first.focus()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    button.click()
    expect(reason).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Enter a reason")).to_be_visible()
    page.keyboard.type("sent off by Enter")
    page.keyboard.press("Enter")
    heading(tab, "Run")
    expect(page.get_by_text("sent off by Enter")).to_be_visible(timeout=RUN_S)
    assert tab.complaints == []


@pytest.mark.slow
def test_run_goes_on_when_its_tab_is_closed(product, browser):
    first = Tab(browser, product.url)
    try:
        bundles = cool_bundles(product, 4)[2:]
        first.open("unload?" + urlencode({"bundles": bundles}, doseq=True))
        # step 2 waits, however long the page takes to show step 1
        run = apply(first, "Apply plan…", "2 bundles", "closed in the middle", observe_s=40)
        expect(first.page.get_by_text("1 of 2", exact=True)).to_be_visible(timeout=RUN_S)
        expect(first.page.get_by_role("button", name="Pause")).to_be_enabled()
    finally:
        first.close()
    again = Tab(browser, product.url)
    try:
        page = again.open(f"run?run={run}")
        expect(page.get_by_text("closed in the middle")).to_be_visible()
        expect(page.get_by_text("2 of 2", exact=True)).to_be_visible(timeout=RUN_S)
        assert again.complaints == []
    finally:
        again.close()


@pytest.mark.slow
def test_dark_and_narrow_the_pages_of_runs_do_not_overflow(product, browser):
    tab = Tab(browser, product.url, color_scheme="dark")
    try:
        tab.page.set_viewport_size({"width": 1024, "height": 768})
        for path in ("activity", "activity?view=Journal&since=between+dates", "run?run=none"):
            tab.open(path)
            width = tab.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 1024, path
        assert tab.complaints == []
    finally:
        tab.close()
