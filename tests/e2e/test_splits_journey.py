"""Look at a bundle, read its topics, split it, see it verified: the Splits page in a browser."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from playwright.sync_api import expect

from core.snapshot.store import SnapshotStore, load_snapshot
from tests.e2e.test_apply_journey import RUN_S, SNAPSHOT_S, heading

BROKER_S = 120_000


def bundle_of_several_topics(product):
    """The coolest bundle that a split helps, of a namespace without policies."""
    (root,) = product.log.parent.glob("state/**/snapshots")
    rows = load_snapshot(SnapshotStore(root).entries("sandbox")[-1].path).bundles.to_pylist()
    fit = [
        row
        for row in rows
        if row["namespace"] == "initech/telemetry"
        and row["owner"]
        and (row["topic_count"] or 0) >= 4
    ]
    return min(fit, key=lambda row: (row["msg_throughput_in"] or 0.0, row["bundle"]))["bundle"]


def test_a_bundle_is_split_and_the_split_is_verified(product, tab):
    bundle = bundle_of_several_topics(product)
    page = tab.open("splits?" + urlencode({"bundle": bundle}))
    expect(page.get_by_text("fetch the topics for")).to_be_visible(timeout=SNAPSHOT_S)
    page.get_by_role("button", name="Fetch topics").click()
    expect(page.get_by_text("fetch the topics for")).to_be_hidden(timeout=BROKER_S)
    expect(page.get_by_text(re.compile(r"\d+ topics?\. "))).to_be_visible(timeout=BROKER_S)

    page.get_by_role("button", name="Apply plan…").click(timeout=SNAPSHOT_S)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text(re.compile(f"{re.escape(bundle)} would be split"))).to_be_visible(
        timeout=BROKER_S
    )
    send = dialog.get_by_role("button", name=re.compile("^Split 1 bundle"))
    dialog.get_by_label("Reason (recorded").fill("cut by the tests")
    dialog.get_by_label("to confirm").fill("sandbox")
    send.click()
    heading(tab, "Run")
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible(timeout=RUN_S)
    expect(page.get_by_text("cut by the tests").first).to_be_visible(timeout=BROKER_S)
    assert tab.complaints == []
