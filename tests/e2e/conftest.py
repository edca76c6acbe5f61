"""A browser, and the whole product on the embedded fleet, for journeys."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest
from folder_ends import end_with_folder
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from core.snapshot import Problem
from core.snapshot.store import SnapshotStore, load_snapshot

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
START_S = 300.0
"""For three processes and a simulated day next to other work; one that ended is not waited for."""
JOURNEY_S = 900
"""The limit of one journey: the demo's start counts for the first."""
expect.set_options(timeout=120_000)  # a loaded machine takes its time
# Streamlit looks for its own base path under the page's path first: a 404 that it expects.
PROBES = ("/_stcore/health", "/_stcore/host-config")


IN_CI = {"test_apply_journey", "test_rebinding"}
"""Journeys of every run; the others take minutes more, and are in ``make test-all``."""


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if item.path.stem not in IN_CI:
                item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(JOURNEY_S))


def chromium() -> str | None:
    """Path of the system's Chromium; ``None``: Playwright's own is tried."""
    named = os.environ.get("CHROMIUM")
    found = (shutil.which(name) for name in (*([named] if named else []), *NAMES))
    return next((path for path in found if path), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        except Error as error:
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]}")
        yield started
        started.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Product:
    """``trimtab demo`` as a person runs it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "demo.log"
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "dashboard.cli", "demo", "--no-browser", *options),
                    *("--port", str(self.port), "--state-dir", str(folder / "state")),
                ],
                cwd=ROOT,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )

    def wait(self) -> None:
        """Wait until there is a first snapshot and the page answers."""
        end = monotonic() + START_S
        tick = threading.Event()
        while not (self._answers() and self._has_snapshot()):
            if self.process.poll() is not None or monotonic() > end:
                raise AssertionError(f"trimtab demo did not start:\n{self.log.read_text()}")
            tick.wait(0.2)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=2) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def _snapshots(self) -> list[Path]:
        found = self.log.parent.glob("state/**/snapshots/sandbox/*/manifest.json")
        return sorted(one for one in found if not one.parent.name.startswith("."))  # being written

    def _has_snapshot(self) -> bool:
        return bool(self._snapshots())

    def broker(self, number: int) -> str:
        """Name of a broker; its port is another one when 8080 was taken."""
        newest = self._snapshots()[-1].parent
        return str(load_snapshot(newest).brokers["broker"][number].as_py())

    def bundle(self, number: int) -> str:
        """Name of a bundle."""
        newest = self._snapshots()[-1].parent
        return str(load_snapshot(newest).bundles["bundle"][number].as_py())

    def taken_at(self) -> str:
        """When the oldest saved snapshot was taken, as addresses say it."""
        oldest = load_snapshot(self._snapshots()[0].parent)
        return f"{oldest.manifest.taken_at:%Y-%m-%d %H:%M:%S}"

    def with_problems(self) -> str:
        """Save a snapshot with a problem, a minute before the oldest; return when, as above."""
        oldest = self._snapshots()[0].parent
        whole = load_snapshot(oldest)
        taken_at = whole.manifest.taken_at.replace(microsecond=0) - timedelta(minutes=1)
        problem = Problem(
            code="timeout",
            place="http://127.0.0.1:1/metrics",
            what="127.0.0.1:1 did not answer within 5 s.",
            done="Its load is that of the report before.",
        )
        manifest = replace(whole.manifest, taken_at=taken_at, problems=(problem,))
        SnapshotStore(oldest.parents[1]).put(replace(whole, manifest=manifest))
        return f"{taken_at:%Y-%m-%d %H:%M:%S}"

    def end(self) -> None:
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


@pytest.fixture(scope="session")
def product(tmp_path_factory, browser, pytestconfig) -> Iterator[Product]:
    running = Product(tmp_path_factory.mktemp("demo"), "--no-past")
    end_with_folder(pytestconfig, Path(__file__).parent, running.end)
    try:
        running.wait()
        yield running
    finally:
        running.end()


class Tab:
    """One browser tab and what its console said."""

    def __init__(
        self, browser: Browser, base: str, size: tuple[int, int] = (1440, 900), **context: object
    ) -> None:
        viewport = dict(zip(("width", "height"), size, strict=True))
        self.context = browser.new_context(viewport=viewport, **context)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(180_000)
        self.base = base
        self.complaints: list[str] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._on_request)

    def _on_console(self, message) -> None:
        is_probe = any(probe in message.location.get("url", "") for probe in PROBES)
        if message.type == "error" and not is_probe:
            self.complaints.append(f"{message.text} {message.location}")

    def _on_request(self, request) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.complaints.append(f"asked for {request.url}")

    def open(self, path: str = "") -> Page:
        self.page.goto(f"{self.base}/{path}")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until the page's script has run and nothing is waiting any more."""
        self.page.wait_for_selector(
            '[data-testid="stApp"][data-test-script-state="notRunning"]', state="attached"
        )

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def tab(product, browser) -> Iterator[Tab]:
    opened = Tab(browser, product.url)
    yield opened
    opened.close()
