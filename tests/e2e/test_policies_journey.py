"""Limit a namespace, see the limit in force, take it back: the page of policies in a browser."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.e2e.test_apply_journey import RUN_S, SNAPSHOT_S, heading

NAMESPACE = "acme/orders"
RATES = "policies?" + urlencode({"view": "Rates", "kind": "publish_rate", "namespace": NAMESPACE})


def limit_field(page):
    return page.get_by_role("textbox", name="Msg/s per topic")


def send_off(tab, button, reason):
    """Press the button, say why, confirm by the cluster's name (it limits many clients), apply."""
    page = tab.page
    page.get_by_role("button", name=button).click(timeout=SNAPSHOT_S)
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason (recorded").fill(reason)
    dialog.get_by_label("to confirm").fill("sandbox")
    send = dialog.locator(".st-key-_apply_now").get_by_role("button")
    expect(send).to_be_enabled(timeout=SNAPSHOT_S)
    send.click()
    expect(page).to_have_url(re.compile(r"run\?.*run="), timeout=SNAPSHOT_S)
    heading(tab, "Run")


@pytest.mark.slow
def test_a_rate_is_set_read_back_and_taken_away_again(product, tab):
    page = tab.open(RATES)
    limit_field(page).fill("5000")
    limit_field(page).press("Tab")
    tab.settle()
    page.get_by_role("button", name="Add to changes").click()
    send_off(tab, "Apply plan…", "limited by the tests")
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible(timeout=RUN_S)
    run = page.url

    tab.open(RATES)
    expect(limit_field(page)).to_have_value("5000", timeout=SNAPSHOT_S)

    page.goto(run)
    page.get_by_role("button", name="Undo…").click(timeout=SNAPSHOT_S)
    heading(tab, "Undo")
    expect(page.get_by_text(re.compile("5,000 → not set")).first).to_be_visible(timeout=SNAPSHOT_S)
    send_off(tab, "Apply undo…", "taken back by the tests")
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible(timeout=RUN_S)

    tab.open(RATES)
    expect(page.get_by_text("not set", exact=True)).to_be_visible(timeout=SNAPSHOT_S)
    expect(limit_field(page)).to_have_value("")
    assert tab.complaints == []
