"""What the seven jobs of the pages cost a person, and how much each page says at once.

    .venv/bin/python bench/journeys.py

On a demo, in headless Chromium, by mouse: every job begins on the first page, and fields are typed
where a name, a value or a reason is needed. Then of every page: words within the first screen and
height at 1440x900, and pixels that it is too wide at 1024. Exit code 1 where a job cannot be done.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from playwright.sync_api import Browser, Error, Locator, Position, expect, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from tests.e2e.conftest import ARGUMENTS, Product, Tab, chromium  # noqa: E402  # after its path is known
from tests.e2e.test_accessibility import addresses  # noqa: E402  # the same

KEY = "loadBalancerBrokerThresholdShedderPercentage"
LONG_MS = 120_000
FIRST_CELL: Position = {"x": 75.0, "y": 47.0}
"""Of a table, below its head: tables are drawn, not written."""

DONE = re.compile(r"^(\d+) of \1$")
WORDS = """() => {
  const main = document.querySelector('[data-testid="stMain"]')
  const walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT)
  let words = 0
  while (walk.nextNode()) {
    const node = walk.currentNode, box = node.parentElement.getBoundingClientRect()
    const isSeen = box.width > 1 && box.height > 1 && box.top >= 0 && box.bottom <= innerHeight
    if (isSeen && node.parentElement.checkVisibility({visibilityProperty: true}))
      words += (node.textContent.match(/[\\p{L}\\p{N}]\\S*/gu) || []).length
  }
  return words
}"""
SIDEWAYS = """() => {
  const main = document.querySelector('[data-testid="stMain"]')
  return main.scrollWidth - main.clientWidth
}"""
HEIGHT = "() => document.querySelector('[data-testid=stMain]').scrollHeight"


@dataclass
class Person:
    """A person at a browser, whose clicks and typed fields are counted."""

    tab: Tab
    clicks: int = 0
    fields: int = 0

    def click(self, target: Locator, position: Position | None = None) -> None:
        """Click something once it is there and enabled."""
        expect(target).to_be_enabled(timeout=LONG_MS)
        target.click(timeout=LONG_MS, position=position)
        self.clicks += 1

    def press(self, name: str) -> None:
        """Click the button of this name."""
        self.click(self.tab.page.get_by_role("button", name=name).first)

    def go(self, page: str) -> None:
        """Click an entry of the navigation."""
        self.click(self.tab.page.get_by_test_id("stSidebarNavLink").filter(has_text=page).first)
        self.tab.settle()

    def type(self, target: Locator, text: str) -> None:
        """Fill a field in, and leave it by Enter."""
        target.fill(text)
        target.press("Enter")
        self.fields += 1
        self.tab.settle()

    def send(self, opening: str, reason: str) -> None:
        """Open the dialog of a plan, say why, type the cluster where it asks, send it off."""
        self.press(opening)
        dialog = self.tab.page.get_by_role("dialog")
        field = dialog.get_by_label("Reason (recorded")
        expect(field).to_be_focused(timeout=LONG_MS)
        self.tab.page.keyboard.type(reason)
        self.fields += 1
        asked = dialog.get_by_label("to confirm")
        if asked.count():
            asked.fill("sandbox-pegasus" if "pegasus" in self.tab.page.url else "sandbox")
            self.fields += 1
        self.click(dialog.locator(".st-key-_apply_now").get_by_role("button"))

    def see_done(self) -> None:
        """Wait until every step of the run is done."""
        expect(self.tab.page.get_by_text(DONE).first).to_be_visible(timeout=LONG_MS)


def unload(me: Person) -> None:
    """From the hot broker to the applied unload."""
    me.press("Open preview")
    me.send("Apply plan…", "too hot")
    me.see_done()


def undo(me: Person) -> None:
    """Take the latest run back; the list of runs leads to it."""
    me.go("Runs")
    me.click(me.tab.page.get_by_test_id("stDataFrame").first, position=FIRST_CELL)
    me.press("Undo…")
    me.send("Apply undo…", "taken back")
    me.see_done()


def setting(me: Person) -> None:
    """Change a setting."""
    me.go("Settings")
    me.type(me.tab.page.get_by_placeholder("Filter by name or meaning"), KEY)
    me.type(me.tab.page.get_by_label("New value"), "12")
    if me.tab.page.get_by_role("button", name="Apply plan…").count() == 0:
        me.press("Add to changes")
    me.send("Apply plan…", "a higher trigger")
    me.see_done()


def level(me: Person) -> None:
    """Set the meta function level to lively."""
    me.go("Cluster")
    me.click(me.tab.page.get_by_role("radio", name="lively"))
    me.send("Set level to lively…", "balance")
    me.see_done()


def drain(me: Person) -> None:
    """Drain a node."""
    me.go("Maintenance")
    me.click(me.tab.page.get_by_role("radio", name="Drain"))
    me.click(me.tab.page.get_by_role("combobox", name="Node"))
    me.click(me.tab.page.get_by_role("option").last)
    me.tab.page.keyboard.press("Escape")  # several may be chosen: the list stays open
    me.send("Apply plan…", "new disks")
    me.see_done()


def lookup(me: Person) -> None:
    """Find the owner of a topic."""
    me.click(me.tab.page.get_by_role("button", name="Search", exact=True))
    field = me.tab.page.get_by_role("combobox", name="Page, object or action")
    me.type(field, "persistent://acme/orders/one")
    expect(me.tab.page.get_by_text("4. Owner")).to_be_visible(timeout=LONG_MS)


def backtest(me: Person) -> None:
    """From a back-test to the plan of its best candidate; where none is recommended, of one."""
    me.go("Back-test")
    me.press("Fewer moves")
    me.press("Start back-test")
    expect(me.tab.page.get_by_role("tab", name="Ranking")).to_be_visible(timeout=LONG_MS)
    if me.tab.page.get_by_text("None is recommended").count():
        me.click(me.tab.page.get_by_role("combobox", name="Candidate"))
        me.click(me.tab.page.get_by_role("option").first)
    me.press("Preview plan")
    expect(me.tab.page.get_by_role("button", name="Apply plan…")).to_be_enabled(timeout=LONG_MS)


JOBS: dict[str, Callable[[Person], None]] = {
    "hot broker to applied unload": unload,
    "undo": undo,
    "change a setting": setting,
    "topic lookup": lookup,
    "back-test to plan": backtest,
    "drain": drain,
    "level switch": level,
}


def do_jobs(product: Product, browser: Browser, names: list[str]) -> int:
    """Print a line for each job; return how many could not be done."""
    failed = 0
    print("job                              clicks  typed fields  seconds, waits included")
    for name in names:
        me = Person(Tab(browser, product.url))
        me.tab.open("")
        began = monotonic()
        try:
            JOBS[name](me)
            said = f"{me.clicks:6}  {me.fields:12}  {monotonic() - began:7.1f}"
        except (Error, AssertionError) as error:
            failed += 1
            said = f"not done at {me.tab.page.url}: {str(error).splitlines()[0]}"
        finally:
            me.tab.close()
        print(f"{name:32} {said}", flush=True)
    return failed


def read_pages(product: Product, browser: Browser) -> None:
    """Print a line for each page."""
    print("\npage                  words  height  px too wide at 1024")
    for address in addresses(product):
        wide = Tab(browser, product.url)
        page = wide.open(address)
        page.get_by_role("button", name="Search", exact=True).wait_for()
        page.wait_for_timeout(1_000)  # charts are drawn after the script has ended
        words, height = page.evaluate(WORDS), page.evaluate(HEIGHT)
        wide.close()
        narrow = Tab(browser, product.url, size=(1024, 900))
        page = narrow.open(address)
        page.get_by_role("button", name="Search", exact=True).wait_for()
        over = max(0, page.evaluate(SIDEWAYS))
        narrow.close()
        print(f"{address.partition('?')[0]:20} {words:6} {height:7} {over:20}", flush=True)


def main() -> int:
    """Start a demo, read the pages, do the jobs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--job", choices=list(JOBS), nargs="+", help="these alone, and no page")
    names = parser.parse_args().job
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        product = Product(Path(folder))
        try:
            product.wait()
            if not names:
                read_pages(product, browser)
            return min(1, do_jobs(product, browser, names or list(JOBS)))
        finally:
            product.end()
            browser.close()


if __name__ == "__main__":
    sys.exit(main())
