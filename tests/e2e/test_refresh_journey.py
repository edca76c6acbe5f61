"""A newer snapshot changes values in place: nothing is empty, moves or closes meanwhile."""

from __future__ import annotations

import re

from playwright.sync_api import expect

WATCH = """() => {
  const main = document.querySelector('[data-testid="stMain"]')
  const place = () => document.querySelector('.st-key-place_brokers_heatmap')
  const chart = () => place()?.querySelector('.js-plotly-plot .main-svg')
  const seen = window.seen = { frames: 0, empty: 0, narrow: 0, moved: 0, skeletons: 0, charts: 0 }
  const [top, height] = [main.scrollTop, main.scrollHeight]
  let last = null
  const look = () => {
    const [svg, grid] = [chart(), document.querySelector('[data-testid="stDataFrame"]')]
    seen.frames++
    if (!svg || !grid) seen.empty++
    else if (svg.getBoundingClientRect().width < place().clientWidth * 0.9) seen.narrow++
    if (main.scrollTop !== top || main.scrollHeight !== height) seen.moved++
    if (main.querySelector('[data-testid="stSkeleton"]')) seen.skeletons++
    if (svg && svg !== last) seen.charts++
    last = svg ?? last
    requestAnimationFrame(look)
  }
  window.grid = document.querySelector('[data-testid="stDataFrame"]')
  look()
}"""
"""Look at every frame before it is painted."""


def newest(page) -> str:
    """Moments of the chart."""
    return page.evaluate(
        "JSON.stringify(document.querySelector("
        "'.st-key-place_brokers_heatmap .js-plotly-plot').data[0].x)"
    )


def await_newer(page, shown: str) -> None:
    page.wait_for_function(
        "shown => JSON.stringify(document.querySelector("
        "'.st-key-place_brokers_heatmap .js-plotly-plot')?.data?.[0]?.x) !== shown",
        arg=shown,
    )


def test_refresh_leaves_no_hole_and_keeps_scroll_table_and_tab(tab):
    page = tab.open("brokers?refresh=5+s")
    page.wait_for_selector(".st-key-place_brokers_heatmap .main-svg")
    page.wait_for_selector('[data-testid="stDataFrame"] canvas')
    tab.settle()
    page.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollTo(0, 220)")
    page.wait_for_timeout(500)
    page.evaluate(WATCH)
    await_newer(page, newest(page))
    tab.settle()
    seen = page.evaluate("window.seen")
    assert seen["charts"] >= 2, "a newer chart was drawn"
    assert {name: seen[name] for name in ("empty", "narrow", "moved", "skeletons")} == {
        "empty": 0,
        "narrow": 0,
        "moved": 0,
        "skeletons": 0,
    }
    assert page.evaluate("window.grid.isConnected"), "the table is the same, with its own scroll"
    assert tab.complaints == []


def test_refresh_leaves_the_search_open_with_what_is_typed(tab):
    page = tab.open("brokers?refresh=5+s")
    page.wait_for_selector(".st-key-place_brokers_heatmap .main-svg")
    tab.settle()
    page.keyboard.press("Control+k")
    page.keyboard.type("zzz")
    field = page.get_by_role("combobox", name="Page, object or action")
    await_newer(page, newest(page))
    tab.settle()
    expect(field).to_be_visible()
    expect(field).to_have_value("zzz")
    expect(field).to_be_focused()
    expect(page).to_have_url(re.compile("/brokers"))
    assert tab.complaints == []
