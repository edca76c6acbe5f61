"""Change a dynamic setting, see it in force, take it back: the Settings page in a browser."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from playwright.sync_api import expect

from tests.e2e.test_apply_journey import RUN_S, SNAPSHOT_S, heading

KEY = "loadBalancerBrokerThresholdShedderPercentage"


def send_off(tab, button, reason):
    """Press the button, fill the dialog in, and send it off; return the run's id."""
    page = tab.page
    page.get_by_role("button", name=button).click(timeout=SNAPSHOT_S)
    dialog = page.get_by_role("dialog")
    send = dialog.locator(".st-key-_apply_now").get_by_role("button")
    dialog.get_by_label("Reason (recorded").fill(reason)
    expect(send).to_be_enabled(timeout=SNAPSHOT_S)
    send.click()
    expect(page).to_have_url(re.compile(r"run\?.*run="), timeout=SNAPSHOT_S)
    heading(tab, "Run")
    return re.search(r"run=([\w-]+)", page.url)[1]


def test_a_setting_is_changed_verified_and_taken_back(product, tab):
    page = tab.open("settings?" + urlencode({"set": f"{KEY}=12"}))
    expect(page.get_by_text("With the changes:")).to_be_visible(timeout=SNAPSHOT_S)
    run = send_off(tab, "Apply plan…", "a higher trigger, by the tests")
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible(timeout=RUN_S)
    said = page.get_by_text("a higher trigger, by the tests")
    expect(said.first).to_be_visible(timeout=SNAPSHOT_S)

    page.get_by_role("button", name="Undo…").click()
    heading(tab, "Undo")
    expect(page.get_by_text(f"The dynamic value 12 of {KEY} would be removed")).to_be_visible(
        timeout=SNAPSHOT_S
    )
    undo = send_off(tab, "Apply undo…", "taken back by the tests")
    assert undo != run
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible(timeout=RUN_S)
    assert tab.complaints == []
