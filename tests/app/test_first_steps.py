"""The first steps of a new user: on the demo only, ticked when done, dismissed for good."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now, texts
from streamlit.proto.Block_pb2 import Block

from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from dashboard.components import first_steps
from dashboard.presenters.pulsar.first_unload import hot_spot
from dashboard.services.demo import STEPS, note_demo

STARTED = now() - timedelta(minutes=5)


@pytest.fixture
def site(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path, clusters=("fleet",))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.put(make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet"))
    return made


def test_real_clusters_have_no_first_steps(site: Site) -> None:
    app = site.open()
    assert_calm(app)
    assert "First steps" not in texts(app)


def test_a_step_opens_its_page_and_is_ticked_then(site: Site) -> None:
    note_demo(site.state_dir, STARTED, has_past=True)
    app = site.open()
    assert "0 of 3 done" in texts(app)
    assert f"history before {STARTED:%H:%M} UTC is simulated" in texts(app)
    view = LoadView.of(shown := _snapshot(), effective_settings(shown))
    spot = hot_spot(view)
    assert spot is not None
    assert spot.bundle in view.bundles[view.owner == view.brokers.index(spot.broker)].tolist()
    app.button(key="_first_steps_broker").click().run()
    assert_calm(app)
    assert spot.broker in texts(app)
    app.switch_page("app_pages/fleet/page.py").run()
    assert "1 of 3 done" in texts(app)
    assert "1 of 3 done" in texts(site.open())  # of another session, too


def test_the_buttons_of_the_steps_are_on_one_line_whatever_the_texts_next_to_them(
    site: Site,
) -> None:
    note_demo(site.state_dir, STARTED, has_past=True)
    app = site.open()
    keys = {f"_first_steps_{name}" for name in (*STEPS, "activity")}
    aligned = [
        block.proto.flex_container.align
        for block in blocks_of(app.main)
        if keys & {getattr(child, "key", None) for child in block.children.values()}
    ]
    assert aligned == [Block.FlexContainer.ALIGN_START] * 3


def blocks_of(block: Any) -> Iterator[Any]:
    """Every block within a block, and itself."""
    yield block
    for child in block.children.values():
        if hasattr(child, "children"):
            yield from blocks_of(child)


def test_who_has_applied_has_done_what_comes_before(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_demo(site.state_dir, STARTED, has_past=True)
    monkeypatch.setattr(first_steps, "_has_applied", lambda *_: True)
    app = site.open()  # a reload: no page was visited yet
    assert "3 of 3 done" in texts(app)
    assert "Find the busiest broker" not in texts(app)  # one line is left
    app.button(key="_first_steps_activity").click().run()
    assert_calm(app)
    assert "Runs" in texts(app)


def test_dismissed_is_dismissed_for_good(site: Site) -> None:
    note_demo(site.state_dir, STARTED, has_past=False)
    app = site.open()
    assert "everything is simulated" in texts(app)
    app.button(key="_first_steps_dismiss").click().run()
    assert "First steps" not in texts(app)
    assert "First steps" not in texts(site.open())


def test_the_bundle_of_the_first_unload_fits_into_the_surplus() -> None:
    shown = _snapshot()
    view = LoadView.of(shown, effective_settings(shown))
    spot = hot_spot(view)
    assert spot is not None
    broker = view.brokers.index(spot.broker)
    assert view.usage[broker] == np.nanmax(view.usage)
    bundle = view.bundles.tolist().index(spot.bundle)
    surplus = view.broker_throughput[broker] - np.nanmean(view.broker_throughput)
    own = view.bundle_throughput[view.owner == broker]
    assert view.bundle_throughput[bundle] <= max(surplus, own[own > 0].min())


def _snapshot() -> Any:
    return make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet")
