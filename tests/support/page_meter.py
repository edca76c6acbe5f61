"""A browser tab that times what the pages do, and counts what they send."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from playwright.sync_api import Playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TICK_S = 100  # clock ticks a second in /proc, on every Linux

SWITCH = """async link => {
  const app = () => document.querySelector('[data-testid="stApp"]');
  const frame = () => new Promise(requestAnimationFrame);
  const heading = () => document.querySelector('.st-key-title h1')?.textContent;
  const find = () => [...document.querySelectorAll('a[data-testid="stSidebarNavLink"]')]
    .find(one => one.pathname === link);
  while (!find()) await frame();
  const before = heading();
  const isShown = () => heading() && heading() !== before && location.pathname === link;
  const start = performance.now();
  find().click();
  let skeletons = 0;
  do {
    await frame();
    if (document.querySelector('[data-testid="stMain"] [data-testid="stSkeleton"]')) skeletons++;
    if (performance.now() - start > 120000) throw new Error(`${link} is not shown`);
  } while (!isShown() || app().dataset.testScriptState !== 'notRunning');
  return [(performance.now() - start) / 1000, skeletons];
}"""
"""Click, and wait until the page's script has run; polled with every frame that is drawn."""

CHOOSE = """async label => {
  const app = () => document.querySelector('[data-testid="stApp"]');
  const frame = () => new Promise(requestAnimationFrame);
  const buttons = [...document.querySelectorAll('[data-testid="stMain"] [role="radio"]')];
  const button = buttons.find(one => one.textContent.trim() === label);
  const start = performance.now();
  button.click();
  while (app().dataset.testScriptState === 'notRunning' && performance.now() - start < 2000)
    await frame();
  while (app().dataset.testScriptState !== 'notRunning') await frame();
  return [(performance.now() - start) / 1000, 0];
}"""
"""Choose another value of a control, and wait until the page's script has run."""

SETTLED = '[data-testid="stApp"][data-test-script-state="notRunning"]'


@dataclass(frozen=True, slots=True)
class Measured:
    """What one step took.

    Attributes:
        seconds: In the browser, from the click on.
        received: Bytes, as the socket and HTTP brought them, the socket's unpacked.
        sent: Bytes of the socket on the wire, compressed where the server does so.
        cpu_s: Processor seconds of the server.
        skeletons: Frames in which a placeholder was drawn in the page.
    """

    seconds: float
    received: int
    sent: int
    cpu_s: float
    skeletons: int


class Meter:
    """One tab; every step is timed by the browser's own clock."""

    def __init__(self, playwright: Playwright, url: str, server_pid: int) -> None:
        found = next((path for path in map(shutil.which, BROWSERS) if path), None)
        self._browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu"]
        )
        self.page = self._browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        self.page.set_default_timeout(300_000)
        self._url, self._pid, self._bytes = url, server_pid, 0
        network = self.page.context.new_cdp_session(self.page)
        network.send("Network.enable")
        network.on("Network.webSocketFrameReceived", self._on_frame)
        network.on("Network.loadingFinished", self._on_response)

    def _on_frame(self, event: dict[str, Any]) -> None:
        response = event["response"]
        size = len(response["payloadData"])
        self._bytes += size * 3 // 4 if response["opcode"] == 2 else size  # binary: in base 64

    def _on_response(self, event: dict[str, Any]) -> None:
        self._bytes += int(event["encodedDataLength"])

    def close(self) -> None:
        """Close the browser."""
        self._browser.close()

    def load(self, path: str = "") -> Measured:
        """Open the address, as a new visitor does."""
        with self._counted() as result:
            start = perf_counter()
            self.page.goto(f"{self._url}/{path}")
            self.page.locator(".st-key-title h1").wait_for()
            self.page.wait_for_selector(SETTLED, state="attached")
            result.append((perf_counter() - start, 0))
        return self._measured(result)

    def switch(self, link: str) -> Measured:
        """Click a page of the navigation."""
        with self._counted() as result:
            result.append(self.page.evaluate(SWITCH, link))
        return self._measured(result)

    def choose(self, label: str) -> Measured:
        """Choose another value of a control of the page."""
        with self._counted() as result:
            result.append(self.page.evaluate(CHOOSE, label))
        return self._measured(result)

    def over(self, seconds: float) -> Measured:
        """Let the page be for a while."""
        with self._counted() as result:
            self.page.wait_for_timeout(seconds * 1000)
            result.append((seconds, 0))
        return self._measured(result)

    @contextmanager
    def _counted(self) -> Iterator[list[Any]]:
        self.page.wait_for_timeout(200)  # what came before is counted before
        self._bytes = 0
        before, sent = cpu_seconds(self._pid), self._sent()
        result: list[Any] = []
        yield result
        self.page.wait_for_timeout(150)
        result.append((self._bytes, self._sent() - sent, cpu_seconds(self._pid) - before))

    @staticmethod
    def _measured(result: list[Any]) -> Measured:
        (seconds, skeletons), (received, sent, cpu_s) = result
        return Measured(seconds, received, max(sent, 0), cpu_s, skeletons)

    def _sent(self) -> int:
        """Bytes that the server sent over the connections that are open; 0 without ``ss``."""
        if shutil.which("ss") is None:
            return 0
        port = self._url.rpartition(":")[2]
        found = subprocess.run(
            ["ss", "-tinH", f"sport = :{port}"], capture_output=True, text=True, check=False
        )
        return sum(int(count) for count in re.findall(r"bytes_sent:(\d+)", found.stdout))


def cpu_seconds(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK_S


def wait(seconds: float) -> None:
    """Wait without a browser."""
    threading.Event().wait(seconds)
