"""How long page switches take and how much they send, at three sizes, in a real browser.

Serves generated snapshots with the product's own server and goes round every page of the
navigation. A switch is timed from the click until the page's script has run and its elements are
there; a refresh is a newer snapshot that appears while a page is open. On a machine that is busy
only the processor seconds and the bytes compare.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from fleet_builder import make_history  # noqa: E402  # the tests' generator, found by the line above
from page_meter import Measured, Meter, wait  # noqa: E402  # the same folder
from playwright.sync_api import sync_playwright  # noqa: E402  # after the path

from core.snapshot.store import SnapshotStore  # noqa: E402  # after the path
from dashboard.sitemap import SECTIONS, PageEntry  # noqa: E402  # after the path

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = '[[clusters]]\nname = "fleet"\nzookeeper = "127.0.0.1:1"\nenvironment = "demo"\n'
PAGES = tuple(
    entry
    for entries in SECTIONS.values()
    for entry in entries
    if not entry.parent and entry.kind != "pegasus"
)
REFRESHED = ("Brokers", "Bundles", "Fleet")
CHOICES = {"Brokers": ("CPU", "Traffic"), "Rebalance": ("usage", "traffic")}
"""Two values of a control, chosen in turns."""


@dataclass(frozen=True)
class Size:
    """A fleet, and what is aimed at for it, in seconds."""

    brokers: int
    bundles: int
    snapshots: int
    p50: float | None = None
    p95: float | None = None
    cold: float | None = None
    first: float | None = None
    choice: float | None = None

    @property
    def name(self) -> str:
        """As the command line has it."""
        return f"{self.brokers}x{self.bundles}"


SIZES = {
    one.name: one
    for one in (
        Size(12, 600, 60, p50=0.2, p95=0.4, cold=2.0, first=1.0, choice=0.3),
        Size(1_000, 100_000, 10, p95=0.4, cold=2.5, choice=0.3),
        Size(10_000, 1_000_000, 2, p95=1.0),
    )
}


class Site:
    """A state folder: some snapshots are there, the last ones are put in one by one."""

    def __init__(self, folder: Path, size: Size, refreshes: int) -> None:
        self.state = folder / "state"
        self.config = folder / "trimtab.toml"
        self.config.write_text(f'state_dir = "{self.state}"\n{CONFIG}')
        kept, later = SnapshotStore(self.state / "snapshots"), SnapshotStore(folder / "later")
        made = make_history(
            size.snapshots + refreshes,
            now=datetime.now(UTC),
            brokers=size.brokers,
            bundles=size.bundles,
        )
        for rank, snapshot in enumerate(made):
            (kept if rank < size.snapshots else later).put(snapshot)
        self._later = iter(sorted((folder / "later" / "fleet").iterdir()))

    def put_next(self) -> None:
        """Let a newer snapshot appear, as a collector does."""
        path = next(self._later)
        path.replace(self.state / "snapshots" / "fleet" / path.name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve(site: Site, root: Path = ROOT) -> tuple[subprocess.Popen[bytes], str]:
    """Serve a site with the program of a checkout."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "dashboard.serve", "127.0.0.1", str(port)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "TRIMTAB_CONFIG": str(site.config)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for _ in range(300):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2):
                return server, f"http://127.0.0.1:{port}"
        except OSError:
            wait(0.1)
    server.terminate()
    raise SystemExit("the pages did not start")


def switch(meter: Meter, entry: PageEntry) -> Measured:
    link = "/" if entry is PAGES[0] else f"/{entry.name}"
    return meter.switch(link)


def measure(size: Size, rounds: int, refreshes: int, pause_s: float) -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        site = Site(Path(folder), size, refreshes * len(REFRESHED))
        server, url = serve(site)
        try:
            wait(pause_s)
            meter = Meter(playwright, url, server.pid)
            print(f"\n{size.brokers:,} brokers x {size.bundles:,} bundles")
            tell("first load, new server", [meter.load("?refresh=off")], size.cold)
            wait(pause_s)
            tell_switches(meter, size, rounds)
            tell_choices(meter, size)
            tell("another visitor, same server", [meter.load("?refresh=off")])
            tell_refreshes(meter, site, refreshes)
            meter.close()
            print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        finally:
            server.terminate()
            server.wait()


def tell_switches(meter: Meter, size: Size, rounds: int) -> None:
    seen: dict[str, list[Measured]] = {entry.title: [] for entry in PAGES}
    for _ in range(rounds):
        for entry in (*PAGES[1:], PAGES[0]):
            seen[entry.title].append(switch(meter, entry))
    for title, steps in seen.items():
        tell(f"  {title}, first opening", steps[:1], size.first)
        tell(f"  {title}, again", steps[1:], size.p95)
    tell("first openings", [steps[0] for steps in seen.values()], size.first)
    tell("page switches", [one for steps in seen.values() for one in steps[1:]], size.p95)
    if size.p50:
        print(f"    aimed at as the median: {size.p50:.2f} s")


def tell_choices(meter: Meter, size: Size) -> None:
    for title, labels in CHOICES.items():
        switch(meter, next(entry for entry in PAGES if entry.title == title))
        tell(f"  a control of {title}", [meter.choose(label) for label in labels * 3], size.choice)


def tell_refreshes(meter: Meter, site: Site, refreshes: int) -> None:
    """One snapshot a refresh; the page looks for it every 5 s."""
    for title in REFRESHED:
        entry = next(entry for entry in PAGES if entry.title == title)
        meter.load(f"{'' if entry is PAGES[0] else entry.name}?refresh=5+s")
        meter.over(3)
        quiet = meter.over(11)
        tell(f"  {title}, 10 s without news", [quiet])
        steps = []
        for _ in range(refreshes):
            site.put_next()
            steps.append(meter.over(8))
        tell(f"  {title}, refresh in 8 s", steps, is_timed=False)


def tell(
    what: str, steps: Sequence[Measured], aim: float | None = None, *, is_timed: bool = True
) -> None:
    seconds = sorted(one.seconds for one in steps)
    p95 = seconds[max(0, round(len(seconds) * 0.95) - 1)]
    aimed = f" (aim {aim:.2f})" if aim else ""
    timed = f"p50 {median(seconds):6.2f} s  p95 {p95:6.2f} s{aimed:12}" if is_timed else " " * 38
    received = median(one.received for one in steps) / 1e3
    sent = median(one.sent for one in steps) / 1e3
    cpu = median(one.cpu_s for one in steps)
    flashed = sum(bool(one.skeletons) for one in steps)
    note = f"  {flashed} of {len(steps)} with a skeleton" if flashed else ""
    print(
        f"{what:32} {timed} {received:9.1f} kB ({sent:7.1f} sent)  {cpu:5.2f} s of processor{note}",
        flush=True,
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES)[:2])
    arguments.add_argument("--rounds", type=int, default=4, help="visits of every page")
    arguments.add_argument("--refreshes", type=int, default=3, help="newer snapshots for a page")
    arguments.add_argument("--pause", type=float, default=8.0, help="seconds for the server alone")
    chosen = arguments.parse_args()
    for name in chosen.size:  # the first visit of a page counts by itself
        measure(SIZES[name], max(chosen.rounds, 2), chosen.refreshes, chosen.pause)


if __name__ == "__main__":
    main()
