"""Every page is usable with assistive technology and fits its window, in light and in dark."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from dashboard.sitemap import ENTRIES
from tests.e2e.conftest import Tab

OF_OBJECTS = {
    "broker": "broker={broker}",
    "bundle": "bundle={bundle}",
    "unload": "bundles={bundle}",
}
"""Parameters of pages that show an object."""

WITHOUT_OBJECT = {"run"}
"""Pages about what the demo does not have before something is applied."""

SEVERE = {"serious", "critical"}
SIDEWAYS = """() => {
  const main = document.querySelector('[data-testid="stMain"]')
  return main.scrollWidth - main.clientWidth
}"""
AT_REST = """() => document.querySelector('[data-testid="stSidebarNavItems"][role]')
  && !document.querySelector('[data-stale="true"]')"""
"""Roles are mended, and nothing is faded because its script still runs."""


def addresses(product):
    """The address of every page, an object included where the page is of one."""
    names = {"broker": product.broker(0), "bundle": product.bundle(0)}
    for name in ENTRIES:
        if name not in WITHOUT_OBJECT:
            more = OF_OBJECTS.get(name, "").format(**names)
            yield f"{name}?refresh=off&{more}".rstrip("&")


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        pytest.param("light", 1440, marks=pytest.mark.slow),
        pytest.param("dark", 1440, marks=pytest.mark.slow),
        pytest.param("light", 1024, marks=pytest.mark.slow),
        ("dark", 1024),
    ],
)
@pytest.mark.timeout(600)
def test_no_page_has_a_serious_violation_or_scrolls_sideways(product, browser, scheme, width):
    tab = Tab(browser, product.url, color_scheme=scheme, size=(width, 900))
    found = []
    try:
        for address in addresses(product):
            page = tab.open(address)
            page.get_by_role("heading", level=1).first.wait_for()
            page.get_by_role(
                "button", name="Search", exact=True
            ).wait_for()  # with it come our own scripts
            page.wait_for_function(AT_REST)
            broken = Axe().run(page).response["violations"]
            found += [
                f"{address}: {one['id']}, {one['help']}: {one['nodes'][0]['target']}"
                for one in broken
                if one["impact"] in SEVERE
            ]
            wider = page.evaluate(SIDEWAYS)
            found += [f"{address}: {wider} px too wide"] if wider > 0 else []
    finally:
        tab.close()
    assert not found, "\n".join(found)
