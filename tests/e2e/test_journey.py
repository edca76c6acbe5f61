"""The operator's way: overview, brokers, a bundle, the preview of its unload, a lookup."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Tab


def heading(tab, name):
    expect(tab.page.get_by_role("heading", name=name, level=1)).to_be_visible()
    tab.settle()


def go(tab, name, under=""):
    """Open a page by the navigation, or by the row of links next to the title of its parent."""
    links = tab.page.get_by_test_id("stSidebarNavLink")
    links.filter(has_text=under or name).first.click()
    heading(tab, under or name)
    if under:
        tab.page.get_by_test_id("stPageLink").filter(has_text=name).click()
        heading(tab, name)


def search_for(tab, text, hit):
    tab.page.keyboard.press("Control+k")
    tab.page.get_by_role("combobox", name="Page, object or action").fill(text)
    tab.page.get_by_role("option", name=hit).first.click()


def owned_bundle(tab):
    """Name of a bundle that somebody owns, off the hottest ones that the preview offers."""
    go(tab, "Unload", under="Bundles")
    tab.page.get_by_label("Bundles to unload").click()
    option = tab.page.get_by_role("option", name="/0x").first
    name = option.inner_text().strip()
    option.click()
    tab.page.keyboard.press("Escape")
    return name


def test_journey_from_the_overview_to_a_lookup(tab):
    page = tab.open()
    heading(tab, "Fleet")
    expect(page.get_by_role("heading", name="Findings")).to_be_visible()
    expect(page.get_by_text("12 brokers, ").first).to_be_visible()

    go(tab, "Brokers")
    page.get_by_role("radio", name="CPU").click()
    tab.settle()
    expect(page).to_have_url(re.compile("measure="))
    expect(page.get_by_label(re.compile("^CPU of each broker over the last"))).to_be_visible()

    bundle = owned_bundle(tab)
    expect(page.get_by_text(re.compile(r"Unloading 1 bundle \(.*clients\)"))).to_be_visible()
    namespace, _, range_ = bundle.rpartition("/")
    line = f"pulsar-admin namespaces unload {namespace} -b {range_}"
    page.get_by_role("button", name="Copy pulsar-admin").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text(line)).to_be_visible()
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Download plan").click()
    assert download.value.suggested_filename.endswith(".json")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Apply plan…")).to_be_visible()

    search_for(tab, bundle, bundle)
    heading(tab, "Bundle")
    expect(page.get_by_role("heading", name=f"Bundle {bundle}")).to_be_visible()
    page.get_by_role("tab", name="Topics").click()
    page.get_by_role("button", name="Fetch topics").click()
    expect(page.get_by_text(re.compile(r"\d+ topics?(;|\.).*Read at"))).to_be_visible()
    page.get_by_role("button", name="Unload…").click()
    heading(tab, "Unload")
    expect(page.get_by_text(re.compile(r"Unloading 1 bundle \("))).to_be_visible()

    topic = f"persistent://{namespace}/some-topic"
    search_for(tab, topic, "some-topic")
    heading(tab, f"Topic {topic}")
    expect(page.get_by_text("4. Owner")).to_be_visible()
    expect(page.get_by_text("Placement candidates")).to_be_visible()
    assert tab.complaints == []


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            "bundles?contains=0x&group=by+namespace&sort=name",
            re.compile(r"rows · .* in all"),
        ),
        ("lookup?topic=acme%2Fno-such%2Ftopic", "Could not look up this topic"),
        ("broker?broker=nobody%3A1", "Unknown broker"),
    ],
)
def test_address_alone_gives_the_view(tab, path, says):
    page = tab.open(path)
    expect(page.get_by_text(says).first).to_be_visible()
    assert tab.complaints == []


def test_copied_address_gives_the_same_view_in_another_browser(product, browser, tab):
    page = tab.open("brokers")
    page.get_by_role("radio", name="Message rate").click()
    page.get_by_role("radio", name="6 h").click()
    chart = re.compile("^Message rate of each broker over the last 6 h")
    expect(page.get_by_label(chart)).to_be_visible()
    tab.settle()
    copied = page.url
    other = Tab(browser, product.url)
    try:
        other.page.goto(copied)
        expect(other.page.get_by_label(chart)).to_be_visible()
        assert other.complaints == []
    finally:
        other.close()


def test_dark_and_narrow_the_pages_do_not_overflow(product, browser):
    tab = Tab(browser, product.url, color_scheme="dark")
    try:
        tab.page.set_viewport_size({"width": 1024, "height": 768})
        for path in ("", "brokers", "bundles", "unload", "lookup"):
            tab.open(path)
            width = tab.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 1024, path
        assert tab.complaints == []
    finally:
        tab.close()
