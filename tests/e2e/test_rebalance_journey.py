"""Compare, turn, edit, apply: an operator's way through the Rebalance page, in a browser."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from playwright.sync_api import expect

from tests.e2e.conftest import Tab
from tests.e2e.test_apply_journey import RUN_S, apply, heading

TRIGGER = "loadBalancerBrokerThresholdShedderPercentage"
FIRST_S = 120_000
BUSY = """() => {
    let turns = 0;
    const work = () => {
        const start = Date.now();
        while (Date.now() - start < 400);
        if (++turns < 5) setTimeout(work, 30);
    };
    setTimeout(work, 100);
}"""
"""Keeps the browser's only thread busy for two seconds, with short breaths."""


def opened(tab, name):
    expect(tab.page.get_by_role("heading", name=name, level=1)).to_be_visible(timeout=FIRST_S)
    tab.settle()


def moves_of(page):
    """The first figure of the action bar: how many moves the plan has."""
    return page.get_by_test_id("stMetric").filter(has_text="Moves")


def test_candidates_are_compared_a_setting_is_adjusted_and_the_address_keeps_it(product, tab):
    page = tab.open("rebalance?pick=ThresholdShedder&refresh=5+s")
    expect(page.get_by_text(re.compile("Snapshot .* UTC, frozen"))).to_be_visible(timeout=FIRST_S)
    expect(page.get_by_role("tab", name="Plan", exact=True)).to_be_visible(timeout=FIRST_S)
    page.get_by_role("button", name="Adjust settings").click()
    slider = page.get_by_role("slider", name="Points above the average that trigger")
    slider.focus()
    slider.press("ArrowRight")
    expect(page.get_by_role("button", name="Apply settings…")).to_be_visible(timeout=FIRST_S)
    expect(page).to_have_url(re.compile(rf"{TRIGGER}=\d+"))
    expect(page).to_have_url(re.compile("pick=ThresholdShedder"))
    page.get_by_role("button", name="Reset settings").click()
    expect(page.get_by_role("button", name="Apply settings…")).to_be_hidden(timeout=FIRST_S)
    expect(page).not_to_have_url(re.compile(TRIGGER))
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Compare").click()
    expect(page.get_by_text("deviation band (±)").first).to_be_visible(timeout=FIRST_S)
    assert tab.complaints == []


def test_edited_moves_stay_in_the_address_and_are_applied_as_shown(product, tab):
    page = tab.open("rebalance?" + urlencode({"play": "false", "most": "2", "within": "5"}))
    expect(moves_of(page)).to_contain_text("2", timeout=FIRST_S)
    press_in_row(page, "Exclude")
    expect(moves_of(page)).to_contain_text("1", timeout=FIRST_S)
    expect(page).to_have_url(re.compile("drop="))
    page.reload()
    expect(page.get_by_text("Excluded from the plan")).to_be_visible(timeout=FIRST_S)
    expect(moves_of(page)).to_contain_text("1", timeout=FIRST_S)
    tab.settle()
    page.get_by_role("button", name="Preview").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Apply plan…").click(timeout=FIRST_S)
    expect(dialog).to_contain_text("Reason (recorded in the audit log)", timeout=FIRST_S)
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden(timeout=FIRST_S)
    tab.settle()
    apply(tab, "Apply plan…", "1 bundle", "levelled by the tests")
    heading(tab, "Run")
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible(timeout=RUN_S)
    assert tab.complaints == []


def press_in_row(page, label):
    """Press a button of the first row of the moves.

    The table is a canvas, and its columns are as wide as their contents: the pointer is moved along
    the row from the right, and the cursor shows where a button is.
    """
    canvas = page.get_by_role("region", name="Moves of the plan").locator("canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    row = box["y"] + 43
    wanted, found, was_button = ["Exclude", "Pin"].index(label), -1, False
    for x in range(int(box["x"] + box["width"]) - 4, int(box["x"]), -6):
        page.mouse.move(x, row)
        page.wait_for_timeout(50)  # the canvas draws its cursor by itself
        is_button = canvas.evaluate("one => one.style.cursor") == "pointer"
        found += is_button and not was_button
        was_button = is_button
        if is_button and found == wanted:
            page.mouse.click(x - 6, row)
            return
    raise AssertionError(f"no button {label} in the first row")


def test_a_destination_is_changed_and_the_plan_is_checked_again(product, tab):
    page = tab.open(
        "rebalance?" + urlencode({"play": "false", "most": "3", "within": "5", "refresh": "off"})
    )
    expect(moves_of(page)).to_contain_text("3", timeout=FIRST_S)
    press_in_row(page, "Pin")
    expect(page).to_have_url(re.compile("pin="), timeout=FIRST_S)
    expect(page.get_by_text("Pinned to its broker")).to_be_visible(timeout=FIRST_S)
    tab.settle()
    page.get_by_role("button", name="Edit a move").click()
    target = page.get_by_role("combobox", name="Destination")
    target.fill("by placement")
    target.press("Enter")
    tab.settle()
    page.get_by_role("button", name="Set destination").click()
    expect(page).to_have_url(re.compile("retarget="), timeout=FIRST_S)
    expect(page.get_by_text("Changed destination")).to_be_visible(timeout=FIRST_S)
    assert tab.complaints == []


def test_what_if_a_broker_fails_is_marked_and_leads_back(product, tab):
    broker = product.broker(2)
    page = tab.open("rebalance?" + urlencode({"play": "false", "fail": broker}))
    expect(page.get_by_text(f"Scenario: failed brokers: {broker}")).to_be_visible(timeout=FIRST_S)
    expect(page.get_by_text("Scenario only; no plan to apply")).to_be_visible(timeout=FIRST_S)
    expect(page.get_by_role("button", name="Apply plan…")).to_have_count(0)
    page.get_by_role("button", name="Reset scenario").click()
    expect(page.get_by_text(f"Scenario: failed brokers: {broker}")).to_be_hidden(timeout=FIRST_S)
    expect(page.get_by_role("button", name="Apply plan…")).to_be_visible(timeout=FIRST_S)
    expect(page).not_to_have_url(re.compile("fail="), timeout=FIRST_S)
    assert tab.complaints == []


def test_a_tick_of_the_page_that_was_left_does_not_empty_the_window(product, tab):
    page = tab.open("rebalance?" + urlencode({"play": "false"}))
    for _ in range(2):
        expect(page.get_by_role("button", name="Apply plan…")).to_be_visible(timeout=FIRST_S)
        page.evaluate(BUSY)  # its timers fire before it looks at what the server says
        page.get_by_role("link", name="Bundles").first.click()
        opened(tab, "Bundles")
        page.evaluate(BUSY)
        page.get_by_role("link", name="Rebalance").click()
        opened(tab, "Rebalance")
    assert tab.complaints == []


def test_narrow_and_dark_the_page_does_not_overflow(product, browser):
    tab = Tab(browser, product.url, color_scheme="dark")
    try:
        tab.page.set_viewport_size({"width": 1024, "height": 768})
        for pick in ("", "?pick=AvgShedder&play=false"):
            tab.open(f"rebalance{pick}")
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= 1024
        assert tab.complaints == []
    finally:
        tab.close()
