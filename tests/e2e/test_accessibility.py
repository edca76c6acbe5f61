"""Every page is usable with assistive technology and fits its window, in light and in dark."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from dashboard.sitemap import ENTRIES
from tests.e2e.conftest import Tab

CHANGED = "set=loadBalancerBrokerThresholdShedderPercentage%3D12"
OF_OBJECTS = {
    "broker": "broker={broker}",
    "bundle": "bundle={bundle}",
    "unload": "bundles={bundle}",
    "splits": "bundle={bundle}",
    "settings": CHANGED,
    "lookup": "topic=persistent%3A%2F%2Facme%2Forders%2Ftopic-1",
}
"""Parameters of pages that show an object, or a change of it."""

WITHOUT_OBJECT = {"run"}
"""Pages about what the demo does not have before something is applied."""

SEVERE = {"serious", "critical"}
SCHEMES = ("light", "dark")
WIDTHS = (1440, 1024)
WAIT_MS = 120_000
AT_REST = """() => document.querySelector('[data-testid="stSidebarNavItems"][role]')
  && !document.querySelector('[data-stale="true"], [data-testid="stSkeleton"]')"""
"""Roles are mended, and nothing is faded because its script still runs."""

UNCHANGING = """() => document.getAnimations()
  .every((one) => !(one instanceof CSSTransition) || one.playState !== 'running')"""
"""No colour is on its way from light to dark."""

UNFIT = r"""() => {
  const [root, main] = [document.documentElement, document.querySelector('[data-testid="stMain"]')]
  const found = []
  for (const [name, wider] of [
    ['window', root.scrollWidth - innerWidth],
    ['page', main.scrollWidth - main.clientWidth],
  ]) {
    if (wider > 0) found.push(`the ${name} is ${wider} px too wide`)
  }
  const labels = `h1, h2, h3, button, a, label, legend, summary, .js-plotly-plot text,
    [data-testid="stMetric"] *, [data-testid="stBadge"] *, [data-testid="stMarkdownContainer"] *`
  const others = 'pre, code, table, [data-testid="stIconMaterial"], [data-testid="stHeader"]'
  const visible = { opacityProperty: true, visibilityProperty: true }
  const cuts = (at, part) => {
    const [style, box] = [getComputedStyle(at), at.getBoundingClientRect()]
    const clips = /hidden|clip/.test(at.tagName === 'svg' ? style.overflow : style.overflowX)
    const isForReaders = box.width < 2 || box.height < 2 // of the screen
    return clips && !isForReaders && (part.left < box.left - 1.5 || part.right > box.right + 1.5)
  }
  const scrolls = (at) => at !== main && at.scrollWidth > at.clientWidth
    && /auto|scroll/.test(getComputedStyle(at).overflowX)
  for (const node of document.querySelectorAll(labels)) {
    const isText = (one) => one.nodeType === 3 && one.textContent.trim()
    const texts = [...node.childNodes].filter(isText)
    if (!texts.length || !node.checkVisibility(visible) || node.closest(others)) continue
    const range = document.createRange()
    range.setStartBefore(texts[0])
    range.setEndAfter(texts.at(-1))
    const part = range.getBoundingClientRect()
    for (let at = node; part.width && at !== document.body; at = at.parentElement) {
      if (cuts(at, part)) found.push(`cut: ${node.textContent.trim().slice(0, 60)}`)
      if (cuts(at, part) || scrolls(at)) break
    }
  }
  return found
}"""
"""What does not fit: the page scrolls sideways, or a label, headline or figure is cut."""

COVERED = r"""() => {
  const found = []
  const parts = `.legend text, .gtitle, .annotation-text, .bglayer .bg, .xtick text, .ytick text,
    .cbaxis text, .treemaplayer .slice`
  for (const chart of document.querySelectorAll('.js-plotly-plot')) {
    for (const bar of chart.querySelectorAll('.modebar-group')) {
      const a = bar.getBoundingClientRect()
      for (const part of chart.querySelectorAll(parts)) {
        const b = part.getBoundingClientRect()
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left)
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)
        const what = part.textContent.trim().slice(0, 40) || part.getAttribute('class')
        if (across > 1 && down > 1) found.push(`the toolbar of a chart covers ${what}`)
      }
    }
  }
  return found
}"""
"""Legends, names, ticks and plots that the toolbar of their chart covers where it appears."""


def addresses(product):
    """The address of every page, an object included where the page is of one."""
    names = {"broker": product.broker(0), "bundle": product.bundle(0)}
    for name in ENTRIES:
        if name not in WITHOUT_OBJECT:
            yield address_of(name, names)


def address_of(name, names):
    more = OF_OBJECTS.get(name, "").format(**names)
    return f"{name}?refresh=off&{more}".rstrip("&")


def opened(tab, address):
    page = tab.open(address)
    page.get_by_role("heading", level=1).first.wait_for(timeout=WAIT_MS)
    # with it come our own scripts
    page.get_by_role("button", name="Search", exact=True).wait_for(timeout=WAIT_MS)
    at_rest(tab)
    return page


def at_rest(tab):
    tab.settle()
    tab.page.wait_for_function(AT_REST, timeout=WAIT_MS)


def problems(page, what):
    """Violations that hinder people, and what does not fit the window."""
    broken = Axe().run(page).response["violations"]
    severe = [
        f"{one['id']}, {one['help']}: {[node['html'][:200] for node in one['nodes']]}"
        for one in broken
        if one["impact"] in SEVERE
    ]
    return [f"{what}: {one}" for one in (*severe, *page.evaluate(UNFIT), *page.evaluate(COVERED))]


def everywhere(tab, what):
    """The same in light and dark, in a wide and in a narrow window."""
    page, found = tab.page, []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(300)  # charts and tables are drawn in their new size
            page.wait_for_function(UNCHANGING, timeout=WAIT_MS)
            at_rest(tab)
            found += problems(page, f"{what}, {scheme}, {width}")
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    return found


def unfold(tab):
    """Open every expander in sight."""
    for summary in tab.page.locator("details:not([open]) > summary").all():
        if summary.is_visible():
            summary.click()
            at_rest(tab)


def parts(tab, address):
    """Every state of a page that is one press away: its tabs, expanders and popovers."""
    page = tab.page
    yield address
    seen = set()
    while True:
        tabs = page.get_by_role("tab")
        names = [one.inner_text() for one in tabs.all()]
        chosen = [one.get_attribute("aria-selected") == "true" for one in tabs.all()]
        seen |= {name for name, is_chosen in zip(names, chosen, strict=True) if is_chosen}
        unfold(tab)
        yield f"{address} {[n for n, is_chosen in zip(names, chosen, strict=True) if is_chosen]}"
        for popover in page.get_by_test_id("stMain").get_by_test_id("stPopoverButton").all():
            label = popover.inner_text().split("\n")[0]
            if label in seen or not popover.is_visible() or not popover.is_enabled():
                continue
            seen.add(label)
            popover.click()
            at_rest(tab)
            yield f"{address} {label}"
            page.keyboard.press("Escape")
        left = [at for at, name in enumerate(names) if name not in seen]
        if not left:
            return
        tabs.nth(left[0]).click()
        at_rest(tab)


@pytest.mark.timeout(1_200)
def test_no_page_has_a_serious_violation_or_is_cut(product, browser):
    """The short run: every page as it opens, where contrast and room are scarcest."""
    tab = Tab(browser, product.url, color_scheme="dark", size=(1024, 900))
    found = []
    try:
        for address in addresses(product):
            found += problems(opened(tab, address), address)
    finally:
        tab.close()
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in WITHOUT_OBJECT])
def test_no_part_of_a_page_has_a_serious_violation_or_is_cut(product, browser, name):
    tab = Tab(browser, product.url)
    names = {"broker": product.broker(0), "bundle": product.bundle(0)}
    found = []
    try:
        opened(tab, address_of(name, names))
        for part in parts(tab, name):
            found += everywhere(tab, part)
    finally:
        tab.close()
    assert not found, "\n".join(found)


def press(name):
    return lambda page: page.get_by_role("button", name=name).first.click(timeout=WAIT_MS)


def keys(key):
    return lambda page: page.keyboard.press(key)


DIALOGS = {
    "search": ("fleet", keys("Control+k")),
    "shortcuts": ("fleet", keys("?")),
    "problems": ("brokers?at={at}", press(re.compile("problems?$"))),
    "apply an unload": ("unload", press("Apply plan…")),
    "lines of an unload": ("unload", press("Copy pulsar-admin")),
    "apply a rebalance": ("rebalance?play=false", press("Apply plan…")),
    "preview of a rebalance": ("rebalance?play=false", press("Preview")),
    "apply a level": ("pegasus?level=lively", press(re.compile("^Set level"))),
    "apply settings": (
        f"settings?{CHANGED}",
        press("Apply plan…"),
    ),
    "new job": ("jobs", press("Parameters")),
}
"""By what it is: the page, and what opens it there."""


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("what", DIALOGS)
def test_no_dialog_has_a_serious_violation_or_is_cut(product, browser, what):
    address, open_dialog = DIALOGS[what]
    if address == "unload":
        address += f"?bundles={product.bundle(0)}"
    if "{at}" in address:
        address = address.format(at=product.with_problems().replace(" ", "+"))
    tab = Tab(browser, product.url)
    try:
        page = opened(tab, f"{address}{'&' if '?' in address else '?'}refresh=off")
        open_dialog(page)
        expect(page.get_by_role("dialog").first).to_be_visible(timeout=WAIT_MS)
        at_rest(tab)
        found = everywhere(tab, what)
    finally:
        tab.close()
    assert not found, "\n".join(found)
