"""Play the recorded minutes again, read the ranking, turn it into a plan: the Back-test page."""

from __future__ import annotations

import re
import threading
from time import monotonic
from urllib.parse import urlencode

import job_stories
from playwright.sync_api import expect

from core.snapshot.store import SnapshotStore
from tests.e2e.test_apply_journey import heading

KEY = "loadBalancerBrokerThresholdShedderPercentage"
RECORDED_S = 150.0
WAIT_S = 120_000
MINUTES = 3
OPENS_S = 4.0
"""Less than the time between two refreshes of a page, which would show the job as well."""


def wait_for_record(product):
    """Wait until several snapshots of the fleet were kept: each is a recorded minute."""
    (root,) = product.log.parent.glob("state/**/snapshots")
    end, tick = monotonic() + RECORDED_S, threading.Event()
    while len(SnapshotStore(root).entries("sandbox")) < MINUTES:
        assert monotonic() < end, f"no {MINUTES} snapshots after {RECORDED_S:.0f} s"
        tick.wait(0.5)


def test_recorded_minutes_are_played_again_and_ranked(product, tab):
    wait_for_record(product)
    page = tab.open("backtest")
    heading(tab, "Back-test")
    expect(page.get_by_text("Recorded", exact=True)).to_be_visible(timeout=WAIT_S)
    page.get_by_role("button", name="Every strategy").click()
    expect(page.get_by_text(re.compile(r"candidates on [\d,]+ snapshots"))).to_be_visible(
        timeout=WAIT_S
    )
    page.get_by_role("button", name="Start back-test").click()
    expect(page).to_have_url(re.compile(r"job=\d{8}T"), timeout=WAIT_S)
    expect(page.get_by_role("tab", name="Ranking")).to_be_visible(timeout=WAIT_S)
    expect(page.get_by_role("heading", name="Changes")).to_be_visible()
    expect(page.get_by_role("tab", name="Ranking")).to_have_attribute("aria-selected", "true")
    page.get_by_text("Actual and replayed").click()
    expect(page.get_by_text("Actual:")).to_be_visible()
    page.get_by_role("tab", name="Earlier back-tests").click()
    table = page.get_by_test_id("stDataFrame").locator("visible=true").first
    expect(table).to_be_visible(timeout=WAIT_S)
    first = table.bounding_box()
    assert first is not None
    page.mouse.click(first["x"] + 80, first["y"] + 48)
    expect(page.get_by_text("Within target")).to_be_visible(timeout=OPENS_S * 1000)
    assert tab.complaints == []


def test_what_a_back_test_recommends_becomes_a_plan(product, tab):
    (root,) = product.log.parent.glob("state/**/snapshots")
    change = job_stories.recommended(KEY, "10", "25", "sandbox")
    job_id = job_stories.backtest(root.parent, change, clusters=("sandbox",))
    page = tab.open("backtest?" + urlencode({"job": job_id}))
    expect(page.get_by_text("would have had max broker deviation p95 14%")).to_be_visible(
        timeout=WAIT_S
    )
    page.get_by_role("button", name="Preview plan").click()
    expect(page.get_by_text(re.compile(f"{KEY}.*25"))).not_to_have_count(0, timeout=WAIT_S)
    expect(page.get_by_role("button", name="Apply plan…")).to_be_enabled(timeout=WAIT_S)
    expect(page).to_have_url(re.compile("plan=ThresholdShedder"))
    assert tab.complaints == []
