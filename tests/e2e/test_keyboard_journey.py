"""The keyboard alone: where it is, what Enter and Space do, and a step back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from fleet_builder import make_snapshot
from pages_server import pages_served
from playwright.sync_api import Browser, expect

from core.snapshot.store import SnapshotStore
from tests.e2e.conftest import Tab

CONFIG = """
state_dir = "state"
[[clusters]]
name = "fleet"
zookeeper = "127.0.0.1:1"
environment = "demo"
"""

ACCENT = "rgb(11, 100, 120)"
STOP = r"""(accent) => {
  let at = document.activeElement
  while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement
  const cell = /^glide-cell-/.test(at.id)
  const shown = cell ? at.closest('[data-testid="stDataFrame"]') : at
  const box = shown.getBoundingClientRect()
  const { outlineStyle, boxShadow } = getComputedStyle(at)
  let frame = at.tagName === 'INPUT' ? at : null // the border around a field takes the accent
  for (let up = 0; up < 4 && frame && getComputedStyle(frame).borderColor !== accent; up++) {
    frame = frame.parentElement
  }
  const isFramed = frame && getComputedStyle(frame).borderColor === accent
  const isMarked = cell || outlineStyle !== 'none' || boxShadow !== 'none' || isFramed
  const isInSight = box.width > 0 && box.bottom > 0 && box.top < innerHeight
  const isFaded = !shown.checkVisibility({ opacityProperty: true, visibilityProperty: true })
  const name = at.ariaLabel || at.innerText || at.tagName
  return {
    name: name.trim().replace(/\s+/g, ' ').slice(0, 60),
    isEnd: at === document.body,
    isSeen: at.tagName === 'MAIN' || (isMarked && isInSight && !isFaded),
  }
}"""
"""What has the focus, and whether a person sees where it is."""


@pytest.fixture(scope="module")
def site(tmp_path_factory, browser: Browser) -> Iterator[tuple[str, str]]:
    """The address of pages over one snapshot, and a broker of it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "trimtab.toml").write_text(CONFIG)
    snapshot = make_snapshot(brokers=12, bundles=600, cluster="fleet", now=datetime.now(UTC))
    SnapshotStore(folder / "state" / "snapshots").put(snapshot)
    with pages_served(folder, config=folder / "trimtab.toml") as port:
        yield f"http://127.0.0.1:{port}", str(snapshot.brokers["broker"][0].as_py())


@pytest.fixture
def tab(site, browser: Browser) -> Iterator[Tab]:
    opened = Tab(browser, site[0])
    yield opened
    opened.close()


def into_table(page, label):
    """Tab into the cells of a table, from the last button above it."""
    last = page.locator(
        f'[data-testid="stElementToolbar"] button[aria-label^="Fullscreen: {label}"]'
    )
    expect(last).to_be_attached()
    page.locator("[data-testid='stDataFrame'] canvas td").first.wait_for(state="attached")
    last.focus()
    page.keyboard.press("Tab")
    cell = page.locator("td[role='gridcell']:focus")
    expect(cell).to_have_count(1)
    return cell


def move_to(page, text):
    """Go right along the row to the cell with a text."""
    cell = page.locator("td[role='gridcell']:focus")
    for _ in range(14):
        if text in (cell.text_content() or ""):
            return
        before = cell.get_attribute("id")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("before => document.activeElement.id !== before", arg=before)
    raise AssertionError(f"no cell says {text}")


def test_a_row_is_selected_and_its_buttons_are_pressed_and_back_is_one_step(site, tab):
    broker = site[1]
    page = tab.open(f"broker?refresh=off&broker={broker}")
    into_table(page, "Bundles of")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    chosen = page.get_by_role("button", name=re.compile("^Unload 1 bundle"))
    expect(chosen).to_be_visible()
    move_to(page, "Unload")
    address = page.url
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/unload\?.*bundles="))
    expect(page.get_by_role("heading", name="Unload", level=1)).to_be_focused()
    tab.settle()
    page.go_back()
    expect(page).to_have_url(address)
    expect(page.get_by_role("heading", name=f"Broker {broker}")).to_be_visible()
    assert tab.complaints == []


RING = """() => {
  const heading = document.querySelector('[data-testid="stMain"] h1')
  const { bottom } = heading.getBoundingClientRect()
  const ring = getComputedStyle(heading, '::after')
  const text = document.querySelector('[data-testid="stMain"] [data-testid="stCaptionContainer"] p')
  const letters = document.createRange()
  letters.selectNodeContents(text)
  const caption = letters.getBoundingClientRect()
  return {
    width: parseFloat(ring.borderBottomWidth),
    bottom: bottom - parseFloat(ring.bottom),
    caption: caption.top,
    size: parseFloat(getComputedStyle(text).fontSize),
  }
}"""
"""Where the line under a focused heading ends, and where the caption begins."""


def test_the_line_under_a_focused_heading_ends_above_the_caption(site, tab):
    broker = site[1]
    page = tab.open(f"brokers?refresh=off&broker={broker}")
    tab.settle()
    page.keyboard.press("Tab")
    page.evaluate("""() => {
      const heading = document.querySelector('[data-testid="stMain"] h1')
      heading.tabIndex = -1
      heading.focus({ preventScroll: true })
    }""")
    found = page.evaluate(RING)
    assert found["width"] == 2.0
    room = (found["size"] * 1.5 - found["size"]) / 2 - 0.5  # above the letters of a line
    assert found["bottom"] <= found["caption"] + room


@pytest.mark.parametrize("address", ["fleet", "broker?broker={broker}", "settings"])
def test_every_stop_of_the_tab_key_is_seen(site, tab, address):
    address = address.format(broker=site[1])
    page = tab.open(f"{address}{'&' if '?' in address else '?'}refresh=off")
    page.get_by_role("button", name="Search", exact=True).wait_for()
    page.wait_for_function("""() => !document.querySelector('[data-stale="true"]')""")
    unseen = []
    for _ in range(150):
        page.keyboard.press("Tab")
        page.wait_for_timeout(250)  # a ring fades in
        stop = page.evaluate(STOP, ACCENT)
        if stop["isEnd"]:
            break
        unseen += [] if stop["isSeen"] else [stop["name"]]
    assert unseen == []
