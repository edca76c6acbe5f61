"""Compare, turn, edit, apply: an operator's way through the Rebalance page, in a browser."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from playwright.sync_api import expect

from tests.e2e.conftest import Tab
from tests.e2e.test_apply_journey import RUN_S, apply, heading

TRIGGER = "loadBalancerBrokerThresholdShedderPercentage"
FIRST_S = 60_000


def test_ways_are_compared_a_setting_is_turned_and_the_address_keeps_it(product, tab):
    page = tab.open("rebalance")
    expect(page.get_by_text(re.compile("the smallest plan"))).to_be_visible(timeout=FIRST_S)
    page.get_by_role("radio", name="ThresholdShedder").click()
    slider = page.get_by_role("slider", name="Points above the average that trigger")
    slider.focus()
    slider.press("ArrowRight")
    expect(page.get_by_text(re.compile(rf"What if: {TRIGGER}=\d+"))).to_be_visible()
    expect(page).to_have_url(re.compile(rf"{TRIGGER}=\d+&pick=ThresholdShedder"))
    expect(
        page.get_by_text(re.compile("(Playing rounds|Rounds were played) on the"))
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
