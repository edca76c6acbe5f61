"""What every page has around it: the palette, a step back, a past moment, the tab's title."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.test_keyboard_journey import into_table


def link(page, name):
    return page.get_by_test_id("stSidebarNavLink").filter(has_text=name).first


def test_palette_takes_every_key_and_opens_a_page_and_an_object(product, tab):
    page = tab.open("lookup?refresh=off")
    expect(page.get_by_role("button", name="Search")).to_be_visible(timeout=60_000)
    page.keyboard.press("Control+k")
    page.keyboard.type("rcc brokers")
    field = page.get_by_role("combobox", name="Page, object or action")
    expect(field).to_have_value("rcc brokers")
    field.fill("brokers")
    expect(page.get_by_role("option").first).to_contain_text("Brokers")
    page.keyboard.press("Enter")
    expect(page).to_have_title("Brokers \u00b7 sandbox \u00b7 Trimtab")
    tab.settle()

    page.keyboard.press("/")
    page.keyboard.type(product.broker(0))
    expect(page.get_by_role("option", name="broker").first).to_be_visible(timeout=30_000)
    assert page.get_by_role("option").count() <= 6
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/broker\?broker="))
    tab.settle()

    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()
    assert tab.complaints == []


@pytest.mark.slow  # not yet seen to pass on the new pages
def test_step_back_restores_a_choice_on_the_page_and_on_the_one_before(tab):
    page = tab.open("settings?refresh=off")
    field = page.get_by_placeholder("Name, description or value")
    field.fill("load")
    field.press("Enter")
    expect(page).to_have_url(re.compile("contains=load"))
    tab.settle()
    link(page, "Brokers").click()
    expect(page).to_have_url(re.compile("/brokers"))
    assert "contains" not in page.url, "a parameter stays with its page"
    tab.settle()
    page.get_by_role("radio", name="CPU").first.click()
    expect(page).to_have_url(re.compile("measure="))
    tab.settle()

    page.go_back()
    expect(page).not_to_have_url(re.compile("measure="))
    expect(page.get_by_role("radio", name="CPU").first).not_to_be_checked()
    tab.settle()
    page.go_back()
    expect(page).to_have_url(re.compile("settings.*contains=load"))
    expect(page.get_by_placeholder("Name, description or value")).to_have_value("load")
    assert tab.complaints == []


def test_ticked_rows_are_there_after_a_step_back_and_a_reload(tab):
    page = tab.open("bundles?refresh=off")
    entries = page.evaluate("history.length")
    into_table(page, "Bundles that match")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Space")
    preview = page.get_by_role("button", name="Preview unload")
    expect(page).to_have_url(re.compile("selected=.*&selected="))
    expect(preview).to_be_visible()
    tab.settle()
    assert page.evaluate("history.length") == entries, "ticks are no steps"
    ticked = page.url
    preview.click()
    expect(page).to_have_url(re.compile(r"/unload\?.*bundles="))
    tab.settle()
    page.go_back()
    expect(preview).to_be_visible()
    tab.settle()
    expect(page).to_have_url(ticked)
    page.reload()
    expect(preview).to_be_visible()
    expect(page).to_have_url(ticked)
    assert tab.complaints == []


def test_ticked_rows_of_a_broker_stay_with_its_page(product, tab):
    page = tab.open(f"broker?refresh=off&broker={product.broker(0)}")
    into_table(page, "Bundles of")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    unload = page.get_by_role("button", name=re.compile("^Unload 1 bundle"))
    expect(unload).to_be_visible()
    expect(page).to_have_url(re.compile("selected="))
    tab.settle()
    link(page, "History").click()
    expect(page).to_have_url(re.compile("/history"))
    tab.settle()
    assert "selected" not in page.url, "a selection stays with its page"
    page.go_back()
    expect(unload).to_be_visible()
    assert tab.complaints == []


def test_a_tab_of_a_page_is_open_after_a_step_back_and_a_reload(tab):
    page = tab.open("rebalance?refresh=off")
    why = page.get_by_role("tab", name="Why")
    why.click()
    expect(page).to_have_url(re.compile("view=Why"))
    tab.settle()
    link(page, "History").click()
    expect(page).to_have_url(re.compile("/history"))
    tab.settle()
    page.go_back()
    expect(why).to_have_attribute("aria-selected", "true")
    tab.settle()
    expect(page).to_have_url(re.compile("rebalance.*view=Why"))
    page.reload()
    expect(why).to_have_attribute("aria-selected", "true")
    assert tab.complaints == []


def test_a_past_moment_has_a_banner_that_leads_back(product, tab):
    taken_at = product.taken_at()
    page = tab.open(f"brokers?refresh=off&at={taken_at.replace(' ', '+')}")
    expect(page.get_by_text(f"Not live: {taken_at} UTC")).to_be_visible()
    page.get_by_role("button", name="Back to live").click()
    expect(page.get_by_text(re.compile(r"^Not live: \d"))).to_be_hidden()
    expect(page).not_to_have_url(re.compile("at="))
    assert tab.complaints == []


def test_a_page_does_not_take_what_another_page_calls_by_the_same_name(tab) -> None:
    """History and Brokers both have a range; that of History may be two dates."""
    for _ in range(3):
        page = tab.open("history?range=dates")
        page.get_by_text("From (UTC)").first.wait_for()
        page.wait_for_timeout(6_000)  # a tick of the header sends what the page holds
        page.get_by_test_id("stSidebarNavLink").filter(has_text="Brokers").first.click()
        expect(page.get_by_role("tab", name="Over time")).to_be_visible()
        expect(page.get_by_text("error of ours")).to_have_count(0)
        assert "dates" not in page.url


def test_streamlit_has_no_menu_and_the_theme_holds_on_every_page(tab) -> None:
    page = tab.open("brokers?refresh=off")
    for name in ("stMainMenu", "stAppDeployButton", "stToolbarActions"):
        expect(page.get_by_test_id(name)).to_have_count(0)
    page.keyboard.press("Control+k")
    page.keyboard.type("dark")
    page.get_by_role("option", name="Dark theme").click()
    shell = page.get_by_test_id("stApp")
    expect(shell).to_have_css("background-color", "rgb(16, 22, 27)", timeout=60_000)
    page = tab.open("bundles?refresh=off")
    expect(page.get_by_test_id("stApp")).to_have_css("background-color", "rgb(16, 22, 27)")
    page.get_by_role("button", name="Guide").click()
    guide = page.get_by_role("dialog", name="Guide")
    expect(guide.get_by_text("Choose, plan, preview")).to_be_visible(timeout=30_000)
