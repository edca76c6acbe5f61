"""Look back: the History page of a running fleet, a minute before, and Brokers at that minute."""

from __future__ import annotations

import re

from playwright.sync_api import expect

PATIENCE_MS = 120_000


def test_a_past_minute_is_found_and_every_page_opens_at_it(tab):
    page = tab.open("history?cluster=sandbox")
    expect(page.get_by_text("Time over target").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("tab", name="Events")).to_have_attribute(
        "aria-selected", "true", timeout=PATIENCE_MS
    )
    page.get_by_role("tab", name="Minute").click()
    expect(page).to_have_url(re.compile(r"view=Minute"), timeout=PATIENCE_MS)
    # the recorder may be at its first minute still: the page follows by itself
    before = page.locator(".st-key-_to_minute_before button").first
    expect(before).to_be_enabled(timeout=PATIENCE_MS)
    before.click()
    expect(page).to_have_url(re.compile(r"minute="), timeout=PATIENCE_MS)
    page.get_by_role("button", name="Open at this minute").click()
    page.locator(".st-key-_open_brokers button").first.click()
    expect(page.get_by_role("heading", name="Brokers", exact=True)).to_be_visible(
        timeout=PATIENCE_MS
    )
    expect(page).to_have_url(re.compile(r"brokers\?.*at="), timeout=PATIENCE_MS)
    expect(page.get_by_text(re.compile(r"^Not live:")).first).to_be_visible(timeout=PATIENCE_MS)
    tab.settle()
    assert not tab.complaints
