"""How long a page switch takes on 1,000 brokers and 100,000 bundles, in a real browser.

Keeps ten generated snapshots of that size, serves the pages and goes round all of them; a switch
is timed from the click on the link until the page's script has run and its elements are drawn.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from fleet_builder import make_history  # noqa: E402  # the tests' generator, found by the line above
from playwright.sync_api import Page, sync_playwright  # noqa: E402  # the same

from core.snapshot.store import SnapshotStore  # noqa: E402  # the same

BROKERS, BUNDLES, SNAPSHOTS, ROUNDS = 1_000, 100_000, 10, 6
PAGES = ("Brokers", "Bundles", "History", "Lookup", "Fleet")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CONFIG = '[[clusters]]\nname = "fleet"\nzookeeper = "127.0.0.1:1"\nenvironment = "demo"\n'


def write_site(folder: Path) -> Path:
    snapshot_store = SnapshotStore(folder / "state" / "snapshots")
    for snapshot in make_history(
        SNAPSHOTS, now=datetime.now(UTC), brokers=BROKERS, bundles=BUNDLES
    ):
        snapshot_store.put(snapshot)
    config = folder / "trimtab.toml"
    config.write_text(f'state_dir = "{folder / "state"}"\n{CONFIG}')
    return config


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    tick = threading.Event()
    for _ in range(300):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2):
                return
        except OSError:
            tick.wait(0.2)
    raise SystemExit("the pages did not start")


def settle(page: Page) -> None:
    page.wait_for_selector(
        '[data-testid="stApp"][data-test-script-state="notRunning"]', state="attached"
    )


def switch(page: Page, name: str) -> float:
    start = perf_counter()
    page.get_by_role("link", name=name).first.click()
    page.get_by_role("heading", name=name, level=1).wait_for()
    settle(page)
    return perf_counter() - start


def measure(url: str, rounds: int) -> None:
    found = next((path for path in map(shutil.which, BROWSERS) if path), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(120_000)
        start = perf_counter()
        page.goto(f"{url}/?refresh=off")
        settle(page)
        print(f"first page, cold          {perf_counter() - start:6.2f} s")
        times: dict[str, list[float]] = {name: [] for name in PAGES}
        for _ in range(rounds):
            for name in PAGES:
                times[name].append(switch(page, name))
        browser.close()
    for name, values in times.items():
        later = values[1:]
        print(f"{name:24}  {statistics.median(later):6.2f} s median, first visit {values[0]:.2f} s")
    every = sorted(value for values in times.values() for value in values[1:])
    print(f"p95 of {len(every)} switches       {every[int(len(every) * 0.95) - 1]:6.2f} s")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="visits of every page")
    rounds = max(arguments.parse_args().rounds, 2)  # the first one counts by itself
    with tempfile.TemporaryDirectory() as folder:
        config = write_site(Path(folder))
        port = free_port()
        print(f"{BROKERS:,} brokers, {BUNDLES:,} bundles, {SNAPSHOTS} snapshots kept")
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "streamlit", "run", str(ROOT / "dashboard" / "app.py")),
                *("--server.port", str(port), "--server.address", "127.0.0.1"),
                *("--server.headless", "true"),
            ],
            cwd=ROOT,
            env={**os.environ, "TRIMTAB_CONFIG": str(config)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(port)
            measure(f"http://127.0.0.1:{port}", rounds)
            print(f"load of the machine       {os.getloadavg()[0]:6.1f} on {os.cpu_count()} cores")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
