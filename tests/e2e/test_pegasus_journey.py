"""An operator's way through a Pegasus cluster, in a browser, on the demo's sandbox.

A node is drained and filled again by the cluster's own balancer, for which the level is raised and
lowered; then a primary is moved by hand and taken back.
"""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime
from time import monotonic
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import PegasusFacts
from core.snapshot.pegasus import load_pegasus_snapshot
from core.snapshot.store import SnapshotStore

CLUSTER = "sandbox-pegasus"
RUN_S = 240_000
SEEN_S = 240.0
EVER = datetime.min.replace(tzinfo=UTC)


def newest(product, since):
    """What the newest kept snapshot says; ``None``: none was taken since."""
    found = list(product.log.parent.glob("state/**/snapshots"))
    kept = [
        one
        for one in (SnapshotStore(found[0]).entries(CLUSTER) if found else [])
        if one.taken_at > since
    ]
    return PegasusFacts(load_pegasus_snapshot(kept[-1].path)) if kept else None


def seen(product, is_so, what, since=EVER):
    """Wait until a snapshot shows something; return what it says."""
    end, pause = monotonic() + SEEN_S, threading.Event()
    while True:
        facts = newest(product, since)
        if facts is not None and is_so(facts):
            return facts
        assert monotonic() < end, f"no snapshot shows that {what}"
        pause.wait(0.5)


def leads(facts, node):
    """Whether the balancer has given the node primaries again, which follow its replicas."""
    counts = facts.columns.counts(primaries_only=True).sum(axis=0)
    is_lively = facts.effective_level is FunctionLevel.LIVELY
    return is_lively and counts[facts.columns.nodes.index(node)] > 0


def heading(tab, name):
    expect(tab.page.get_by_role("heading", name=name, level=1)).to_be_visible()
    tab.settle()


def path(page, **params):
    return f"{page}?{urlencode({'cluster': CLUSTER, **params})}"


def apply(tab, reason, button="Apply plan…"):
    """Press the button of the preview, fill the dialog in, send it off, wait for its end."""
    page = tab.page
    opening = page.get_by_role("button", name=button)
    expect(opening).to_be_enabled(timeout=RUN_S)
    opening.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason (recorded").fill(reason)
    typed = dialog.get_by_label("to confirm")
    if typed.count():
        typed.fill(CLUSTER)
    send = dialog.get_by_role("button", name=re.compile("^(Set|Move|Empty|Change|Execute)"))
    expect(send).to_be_enabled()
    send.click()
    heading(tab, "Run")
    expect(page.get_by_text(re.compile("ended .*ago"))).to_be_visible(timeout=RUN_S)
    expect(page.get_by_text(reason).first).to_be_visible()
    return re.search(r"run=([\w-]+)", page.url)[1]


def set_level(tab, word):
    tab.open(path("pegasus", level=word))
    expect(tab.page.get_by_text(f"Preview: {word}")).to_be_visible()
    apply(tab, f"{word} for the journey", f"Set level to {word}…")
    expect(tab.page.get_by_text("1 of 1", exact=True)).to_be_visible()


@pytest.mark.slow  # minutes
def test_drained_node_is_filled_by_the_balancer_and_a_move_is_taken_back(product, tab):
    facts = seen(product, lambda one: one.columns.is_guardian_healthy.all(), "it is healthy")
    node = facts.columns.nodes[0]
    tab.open(path("pegasus_maintenance", pick="Drain", node=node))
    apply(tab, "new disks")
    expect(tab.page.get_by_text(re.compile(r"^(\d+) of \1$"))).to_be_visible()
    drained = datetime.now(UTC)

    set_level(tab, "lively")
    seen(product, lambda one: leads(one, node), f"{node} leads again", drained)
    set_level(tab, "steady")

    seen(
        product,
        lambda one: (
            one.effective_level is FunctionLevel.STEADY and one.columns.is_guardian_healthy.all()
        ),
        "it is steady and healthy",
        drained,
    )
    page = tab.open(path("pegasus_balance", pick="Manual move", table="temp"))
    expect(page.get_by_text(re.compile("^Partition .*: primary on"))).to_be_visible()
    run = apply(tab, "moved by hand")
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible()
    page.get_by_role("button", name="Undo…").click()
    heading(tab, "Undo")
    undo = apply(tab, "taken back by hand", "Apply undo…")
    assert undo != run
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible()
    assert tab.complaints == []
