"""Compare, turn, edit, apply: an operator's way through the Rebalance page, in a browser."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from playwright.sync_api import expect

from tests.e2e.conftest import Tab
from tests.e2e.test_apply_journey import RUN_S, apply, heading

TRIGGER = "loadBalancerBrokerThresholdShedderPercentage"
FIRST_S = 60_000
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


def test_ways_are_compared_a_setting_is_turned_and_the_address_keeps_it(product, tab):
    page = tab.open("rebalance")
    expect(page.get_by_text(re.compile("the optimal plan"))).to_be_visible(timeout=FIRST_S)
    page.get_by_role("radio", name="ThresholdShedder").click()
    slider = page.get_by_role("slider", name="Points above the average that trigger")
    slider.focus()
    slider.press("ArrowRight")
    expect(page.get_by_text(re.compile(rf"What if: {TRIGGER}=\d+"))).to_be_visible()
    expect(page).to_have_url(re.compile(rf"{TRIGGER}=\d+&pick=ThresholdShedder"))
    expect(
        page.get_by_text(re.compile("(Simulating rounds|Rounds were simulated) on the"))
    ).to_be_visible()
    page.get_by_role("button", name="Back to the cluster's values").click()
    expect(page.get_by_text("These are the cluster's own values.")).to_be_visible()
    expect(page).not_to_have_url(re.compile(TRIGGER))
    assert tab.complaints == []


def test_edited_moves_stay_in_the_address_and_are_applied_as_shown(product, tab):
    page = tab.open("rebalance?" + urlencode({"play": "false", "most": "2"}))
    expect(page.get_by_text(re.compile(r"Unloading 2 bundles \("))).to_be_visible(timeout=FIRST_S)
    page.get_by_role("button", name="Leave out").click()
    expect(page.get_by_text(re.compile(r"Unloading 1 bundle \("))).to_be_visible()
    expect(page).to_have_url(re.compile("drop="))
    page.reload()
    expect(page.get_by_text(re.compile(r"Unloading 1 bundle \("))).to_be_visible(timeout=FIRST_S)
    apply(tab, "Apply…", "1 bundle", "levelled by the tests")
    heading(tab, "Run")
    expect(page.get_by_text(re.compile("1 of 1 bundle moved; ended"))).to_be_visible(timeout=RUN_S)
    assert tab.complaints == []


def test_pinned_left_out_and_sent_elsewhere_a_plan_is_checked_again_and_applied(product, tab):
    page = tab.open("rebalance?" + urlencode({"play": "false", "most": "4", "refresh": "off"}))
    expect(page.get_by_text(re.compile(r"Unloading 4 bundles \("))).to_be_visible(timeout=FIRST_S)
    page.get_by_role("button", name="Leave out").click()
    expect(page.get_by_text(re.compile(r"Unloading 3 bundles \("))).to_be_visible(timeout=FIRST_S)
    page.get_by_role("button", name="Pin").click()
    expect(page).to_have_url(re.compile("pin="), timeout=FIRST_S)
    tab.settle()  # the way is asked again, and another move may be the one that is edited
    target = page.get_by_role("combobox", name="Goes to")
    target.fill("where the cluster")
    target.press("Enter")
    tab.settle()
    page.get_by_role("button", name="Send it there").click()
    expect(page).to_have_url(re.compile("retarget="), timeout=FIRST_S)
    expect(page.get_by_text("Destination changed by hand")).to_be_visible(timeout=FIRST_S)
    tab.settle()
    shown = page.get_by_text(re.compile(r"Unloading (\d) bundles? \(")).first.inner_text()
    count = int(re.search(r"Unloading (\d)", shown)[1])
    bundles = f"{count} bundle{'' if count == 1 else 's'}"
    apply(tab, "Apply…", bundles, "edited by the tests")
    ended = re.compile(f"{count} of {bundles} moved; ended")
    expect(page.get_by_text(ended)).to_be_visible(timeout=RUN_S)
    assert tab.complaints == []


def test_what_if_a_broker_fails_is_marked_and_leads_back(product, tab):
    broker = product.broker(2)
    page = tab.open("rebalance?" + urlencode({"play": "false", "fail": broker}))
    expect(page.get_by_text(f"What if {broker} fails?")).to_be_visible(timeout=FIRST_S)
    expect(page.get_by_text("No plan is made of it")).to_be_visible(timeout=FIRST_S)
    expect(page.get_by_role("button", name="Apply…")).to_have_count(0)
    page.get_by_role("button", name="Back to the fleet as it is").click()
    expect(page.get_by_text(f"What if {broker} fails?")).to_be_hidden(timeout=FIRST_S)
    expect(page.get_by_role("heading", name="The plan")).to_be_visible(timeout=FIRST_S)
    expect(page).not_to_have_url(re.compile("fail="), timeout=FIRST_S)
    assert tab.complaints == []


def test_a_tick_of_the_page_that_was_left_does_not_empty_the_window(product, tab):
    page = tab.open("rebalance?" + urlencode({"play": "false"}))
    for _ in range(2):
        expect(page.get_by_role("button", name="Leave out")).to_be_visible(timeout=FIRST_S)
        page.evaluate(BUSY)  # its timers fire before it looks at what the server says
        page.get_by_role("link", name="Splits").click()
        opened(tab, "Splits")
        expect(page.get_by_role("button", name="Open the bundle")).to_be_visible(timeout=FIRST_S)
        page.evaluate(BUSY)
        page.get_by_role("button", name="Open the bundle").click()
        opened(tab, "Bundle")
        expect(page.get_by_role("button", name="Fetch topics")).to_be_visible(timeout=FIRST_S)
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
