"""Put a namespace on its own brokers, and take that back: preview, confirm, run, undo, moves back.

Confirmation goes by what is touched: one policy, for which brokers unload a namespace.
"""

from __future__ import annotations

import json
import re
import threading
from time import monotonic
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from core.ids import host_of
from core.snapshot.store import SnapshotStore, load_snapshot
from tests.e2e.test_apply_journey import RUN_S, SNAPSHOT_S, heading

NAMESPACE = "initech/telemetry"


def fleet(product):
    (root,) = product.log.parent.glob("state/**/snapshots")
    return load_snapshot(SnapshotStore(root).entries("sandbox")[-1].path)


def owners(product):
    """Bundle to owner, of the namespace."""
    rows = fleet(product).bundles.to_pylist()
    return {row["bundle"]: row["owner"] for row in rows if row["namespace"] == NAMESPACE}


def policy(product):
    """A policy that gives the namespace two brokers that no policy has; and these."""
    snapshot = fleet(product)
    bodies = [
        json.loads(row["body"])
        for row in snapshot.policies.to_pylist()
        if row["kind"] == "isolation"
    ]
    taken = [expression for body in bodies for expression in body["primary"] + body["secondary"]]
    free = [
        broker
        for broker in snapshot.brokers["broker"].to_pylist()
        if not any(re.fullmatch(one, host_of(broker)) for one in taken)
    ]
    chosen = free[-2:]
    body = {
        "namespaces": [NAMESPACE],
        "primary": [host_of(one).replace(".", r"\.") for one in chosen],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    return f"set isolation telemetry-apart {json.dumps(body)}", chosen


def is_gone(product):
    """Wait for a snapshot without the policy."""
    end, pause = monotonic() + SNAPSHOT_S / 1000, threading.Event()
    while "telemetry-apart" in fleet(product).policies["name"].to_pylist():
        if monotonic() > end:
            return False
        pause.wait(0.5)
    return True


def send_off(tab, button, reason, *, is_large):
    """Press the button, confirm by the cluster's name if that is asked for; return the run."""
    page = tab.page
    page.get_by_role("button", name=button).click(timeout=SNAPSHOT_S)
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason (recorded").fill(reason)
    send = dialog.locator(".st-key-_apply_now").get_by_role("button")
    typed = dialog.get_by_label("to confirm")
    expect(send).to_be_visible()
    assert typed.count() == is_large
    send.click()
    if is_large:
        expect(dialog.get_by_text("Enter the cluster name sandbox to confirm.")).to_be_visible()
        typed.fill("sandbox")
        send.click()
    expect(page).to_have_url(re.compile(r"run\?.*run="), timeout=SNAPSHOT_S)
    heading(tab, "Run")
    return re.search(r"run=([\w-]+)", page.url)[1]


@pytest.mark.slow
def test_a_namespace_gets_its_own_brokers_and_everything_goes_back(product, tab):
    change, chosen = policy(product)
    before = owners(product)
    must = sum(owner is not None and owner not in chosen for owner in before.values())
    page = tab.open("isolation?" + urlencode({"change": change}))
    sentence = re.compile(r"Namespaces with other candidates: \d+; bundles to move: \d+")
    expect(page.get_by_text(sentence)).to_be_visible(timeout=SNAPSHOT_S)
    bar = page.locator(".st-key-action_bar_policies")
    expect(bar.get_by_text("Must move")).to_be_visible()
    assert must > 3

    run = send_off(tab, "Apply plan…", "telemetry apart, by the tests", is_large=True)
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible(timeout=RUN_S)

    page.get_by_role("button", name="Undo…").click(timeout=SNAPSHOT_S)
    heading(tab, "Undo")
    expect(page.get_by_role("heading", name="Not reverted")).to_be_visible(timeout=SNAPSHOT_S)
    stays = "Bundles that moved under the policy stay until they are unloaded."
    expect(page.get_by_text(stays)).to_be_visible()
    counted = page.get_by_text(
        re.compile(r"last snapshot before the run, \d+ other bundles? moved")
    )
    expect(counted).to_be_visible()
    switch = page.get_by_text(re.compile(r"^Also move back \d+ bundle"))
    switch.click()
    moving = re.compile(
        r"Removing the isolation policy telemetry-apart, and unloading \d+ bundles?"
    )
    expect(page.get_by_text(moving)).to_be_visible(timeout=SNAPSHOT_S)
    switch.click()  # so many moves take minutes at the demo's pace
    expect(counted).to_be_visible(timeout=SNAPSHOT_S)

    # brokers unload nothing when a policy goes: little is touched
    undo = send_off(tab, "Apply undo…", "taken back by the tests", is_large=False)
    assert undo != run
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible(timeout=RUN_S)
    expect(page.get_by_role("heading", name="Not reverted")).to_be_visible()
    assert is_gone(product)
    assert tab.complaints == []
