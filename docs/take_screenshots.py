"""Take the pictures of ``docs/images/`` from a demo with a fixed seed, by headless Chromium.

Starts a demo of its own, waits until its simulated past is written, and ends it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

from dashboard import services
from dashboard.cli.config import read_config
from dashboard.cli.supervisor import free_port
from dashboard.presenters.pulsar.first_unload import hot_spot
from dashboard.queries.pulsar.snapshots import reading

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES: Final = Path(__file__).with_name("images")
SEED: Final = 7
SIZE: Final = {"width": 1440, "height": 900}
MAX_BYTES: Final = 250_000
_READY_S: Final = 600.0
_PAGE_MS: Final = 120_000
_CALM_MS: Final = 6_000
_PAST_LINES: Final = 2
"""Parts of the past that the pictures show: the last hours of both clusters."""

_SETTLED: Final = """() => {
  const app = document.querySelector('[data-testid="stApp"]');
  const busy = '[data-testid="stSkeleton"], [data-testid="stSpinner"]';
  return app.getAttribute("data-test-script-state") === "notRunning"
    && !document.querySelector(busy) && !app.innerText.includes("Looking for causes");
}"""
"""No script runs, nothing is computed any more, in the background neither."""

PULSAR: Final = "sandbox"
PEGASUS: Final = "sandbox-pegasus"
PICTURES: Final = {
    "fleet": ("fleet", {"cluster": PULSAR}),
    "brokers": ("brokers", {"cluster": PULSAR}),
    "bundles": ("bundles", {"cluster": PULSAR}),
    "broker": ("broker", {"cluster": PULSAR, "broker": "{broker}"}),
    "diagnose": ("diagnose", {"cluster": PULSAR}),
    "rebalance": ("rebalance", {"cluster": PULSAR}),
    "unload": ("unload", {"cluster": PULSAR, "bundles": "{bundle}"}),
    "run": ("run", {"cluster": PULSAR, "run": "{run}"}),
    "settings": ("settings", {"cluster": PULSAR}),
    "splits": ("splits", {"cluster": PULSAR}),
    "history": ("history", {"cluster": PULSAR}),
    "calculators": ("advisors", {"cluster": PULSAR}),
    "pegasus": ("pegasus", {"cluster": PEGASUS}),
    "pegasus-tables": ("pegasus_tables", {"cluster": PEGASUS}),
}
"""By picture, the page and its address; in braces what is looked up in the demo."""


def main() -> int:
    """Take every picture, or those that are named as arguments."""
    wanted = sys.argv[1:] or list(PICTURES)
    port, state = free_port(8601), Path(tempfile.mkdtemp(prefix="trimtab-pictures-"))
    trimtab = [sys.executable, "-m", "dashboard.cli", "demo"]
    options = ["--no-browser", "--port", str(port), "--seed", str(SEED), "--state-dir", str(state)]
    demo = subprocess.Popen([*trimtab, *options], start_new_session=True)  # noqa: S603 - our own command
    try:
        _wait_for(f"http://127.0.0.1:{port}/_stcore/health", state / "logs" / "past.log", demo)
        too_large = _take(f"http://127.0.0.1:{port}", wanted, _objects(state))
    finally:
        demo.send_signal(signal.SIGINT)  # of one that has ended nothing is sent
        demo.wait(60)
        shutil.rmtree(state, ignore_errors=True)
    for name in too_large:
        print(f"{name} is larger than {MAX_BYTES:,} bytes.")  # noqa: T201 - a script for the terminal
    return 1 if too_large else 0


def _wait_for(health: str, past: Path, demo: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _READY_S
    while time.monotonic() < until and demo.poll() is None:
        lines = past.read_text().count("minutes") if past.is_file() else 0
        if lines >= _PAST_LINES and _answers(health):
            return
        time.sleep(1)  # noqa: TID251 - the one place where this script waits
    raise SystemExit("The demo did not get ready.")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - loopback
            return bool(answer.status == 200)
    except OSError:
        return False


def _objects(state: Path) -> dict[str, str]:
    """Return the hot broker, the bundle to unload and the newest run of the demo."""
    config = read_config(state / "trimtab.toml")
    stored = services.snapshot_store(config).latest(PULSAR, services.now())
    spot = hot_spot(reading(stored).view) if stored else None
    runs = services.runs(config, PULSAR)
    if spot is None or not runs:
        raise SystemExit("The demo has no hot broker, or no run in its past.")
    return {"broker": spot.broker, "bundle": spot.bundle, "run": runs[0].run_id}


def _take(base: str, wanted: list[str], objects: dict[str, str]) -> list[str]:
    """Take the pictures; return those that are too large."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name in wanted:
            page, parameters = PICTURES[name]
            query = urlencode({key: text.format(**objects) for key, text in parameters.items()})
            _picture(browser, f"{base}/{page}?{query}", IMAGES / f"{name}.png")
        browser.close()
    return [one.name for one in sorted(IMAGES.glob("*.png")) if one.stat().st_size > MAX_BYTES]


def _picture(browser: Browser, address: str, file: Path) -> None:
    """Take a picture once the page has settled, without an alpha channel and well packed."""
    page = browser.new_page(viewport=SIZE)
    page.goto(address)
    page.wait_for_selector('[data-testid="stHeading"]', timeout=_PAGE_MS)
    page.wait_for_timeout(_CALM_MS)
    page.wait_for_function(_SETTLED, timeout=_PAGE_MS)
    page.screenshot(path=file)
    page.close()
    with Image.open(file) as image:
        image.convert("RGB").save(file, optimize=True)
    print(f"{file.name}: {file.stat().st_size:,} bytes", flush=True)  # noqa: T201 - a script for the terminal


if __name__ == "__main__":
    sys.exit(main())
