"""How many people the pages serve at once: sessions that switch pages every two to three seconds.

Fifty browsers do not fit on a small machine, and would be measured with the server. Each session
here speaks what a browser speaks to Streamlit (protobuf over a WebSocket), keeps what a browser
keeps, and does nothing with it; a switch lasts from the request until the page's script has ended
and all of its elements are received. Printed next to it: processor seconds of the server for each
switch, its memory, and its open files, also after everybody has left.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil
from pages import SIZES, Site, serve, wait
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

EARLY = ForwardMsg.FINISHED_EARLY_FOR_RERUN
WELL = ForwardMsg.FINISHED_SUCCESSFULLY
LEFT_S = 70.0
"""How long after the last session left files and memory are counted."""


@dataclass
class Tally:
    """What all sessions saw."""

    switches: list[float] = field(default_factory=list)
    received: int = 0
    failures: int = 0


class Session:
    """One visitor."""

    def __init__(self, socket: ClientConnection, tally: Tally) -> None:
        self._socket = socket
        self._tally = tally
        self._kept: set[str] = set()
        self.pages: dict[str, str] = {}

    async def open(self, page: str = "", query: str = "") -> float:
        """Ask for a page; return how long it took, seconds."""
        request = BackMsg()
        state = request.rerun_script
        state.query_string = query
        state.page_script_hash = self.pages.get(page, "")
        state.page_name = "" if page in self.pages else page
        state.cached_message_hashes.extend(self._kept)
        began = time.perf_counter()
        await self._socket.send(request.SerializeToString())
        while True:
            data = await asyncio.wait_for(self._socket.recv(decode=False), 120)
            self._tally.received += len(data)
            message = ForwardMsg.FromString(data)
            if message.hash and len(data) >= 1_500:
                self._kept.add(message.hash)
            if message.HasField("navigation"):
                self.pages = {
                    one.url_pathname: one.page_script_hash
                    for one in message.navigation.app_pages
                    if not one.is_hidden and not one.external_url
                }
            if message.HasField("script_finished") and message.script_finished != EARLY:
                self._tally.failures += message.script_finished != WELL
                return time.perf_counter() - began


async def visit(url: str, number: int, until: float, tally: Tally) -> None:
    """Come, switch pages, leave."""
    chance = random.Random(number)  # noqa: S311  # visits that can be repeated, no secrets
    await asyncio.sleep(chance.random() * 3)
    address = url.replace("http", "ws", 1) + "/_stcore/stream"
    async with connect(
        address, subprotocols=["streamlit"], max_size=None, origin=url, compression=None
    ) as socket:
        session = Session(socket, tally)
        await session.open(query="refresh=off")
        names = sorted(session.pages)
        while time.perf_counter() < until:
            await asyncio.sleep(chance.uniform(2, 3))
            tally.switches.append(await session.open(chance.choice(names), "refresh=off"))


async def visits(url: str, sessions: int, seconds: float) -> Tally:
    """Let so many visitors come at once."""
    tally, until = Tally(), time.perf_counter() + seconds
    done = await asyncio.gather(
        *(visit(url, number, until, tally) for number in range(sessions)), return_exceptions=True
    )
    tally.failures += sum(isinstance(one, BaseException) for one in done)
    return tally


def measure(size: str, sessions: list[int], seconds: float) -> None:
    """Print a line for each number of sessions on a fleet."""
    with tempfile.TemporaryDirectory() as folder:
        server, url = serve(Site(Path(folder), SIZES[size], 1))
        process = psutil.Process(server.pid)
        try:
            asyncio.run(visits(url, 1, 15))  # what the first visitor waits for is bench/pages.py's
            before_files, before_mb = process.num_fds(), process.memory_info().rss / 1e6
            print(f"\n{size}: {before_files} open files, {before_mb:,.0f} MB before")
            for number in sessions:
                began_cpu = sum(process.cpu_times()[:2])
                tally = asyncio.run(visits(url, number, seconds))
                cpu_s = (sum(process.cpu_times()[:2]) - began_cpu) / max(1, len(tally.switches))
                mb = process.memory_info().rss / 1e6
                times = sorted(tally.switches)
                p95 = times[max(0, round(len(times) * 0.95) - 1)]
                wait(LEFT_S)
                print(
                    f"{number:3} sessions: {len(times):5,} switches, p50 {median(times):.2f} s, "
                    f"p95 {p95:.2f} s, {cpu_s:.3f} processor s each, "
                    f"{tally.received / 1e3 / max(1, len(times)):.0f} kB each, "
                    f"{(mb - before_mb) / number:.1f} MB a session, {tally.failures} failed; "
                    f"{LEFT_S:.0f} s after they left: {process.num_fds()} open files, "
                    f"{process.memory_info().rss / 1e6:,.0f} MB; load {os.getloadavg()[0]:.1f}"
                )
        finally:
            server.terminate()
            server.wait()


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=tuple(SIZES), default="12x600")
    parser.add_argument("--sessions", type=int, nargs="+", default=[10, 30, 50])
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    measure(chosen.size, chosen.sessions, chosen.seconds)


if __name__ == "__main__":
    main()
