"""How many people the pages serve at once: sessions that switch pages every two to three seconds.

Fifty browsers do not fit on a small machine, and would be measured with the server. Each session
here speaks what a browser speaks to Streamlit (protobuf over a WebSocket), keeps what a browser
keeps, and does nothing with it; a switch lasts from the request until the page's script has ended
and all of its elements are received. On Rebalance a session also moves the slider of the target
band three times. Printed next to it: processor seconds of the servers for each answer, their
memory, and their open files, also after everybody has left. ``--processes`` serves from several
processes; a session stays at one, as behind the proxy of ``docs/deploy``. ``--against`` compares
with another checkout: the same sessions visit both in turns, on the same snapshots.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil
from pages import ROOT, SIZES, Site, serve, wait
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

EARLY = ForwardMsg.FINISHED_EARLY_FOR_RERUN
WELL = ForwardMsg.FINISHED_SUCCESSFULLY
SLIDER = "Target band"
SLIDES = 3
LEFT_S = 70.0
"""How long after the last session left files and memory are counted."""


@dataclass
class Tally:
    """What all sessions saw."""

    switches: list[float] = field(default_factory=list)
    slides: list[float] = field(default_factory=list)
    received: int = 0
    failures: int = 0


@dataclass(frozen=True)
class Slider:
    """A slider of the page that is shown."""

    id: str
    fragment: str
    default: float


class Session:
    """One visitor."""

    def __init__(self, socket: ClientConnection, tally: Tally) -> None:
        self._socket = socket
        self._tally = tally
        self._kept: set[str] = set()
        self._query = self._page = ""
        self.pages: dict[str, str] = {}
        self.sliders: dict[str, Slider] = {}

    async def open(self, page: str = "", query: str = "") -> float:
        """Ask for a page; return how long it took, seconds."""
        self._query, self._page = query, page
        self.sliders = {}
        return await self._answered(self._request())

    async def slide(self, slider: Slider, value: float) -> float:
        """Move a slider of the page; return how long the answer took, seconds."""
        request = self._request()
        request.rerun_script.fragment_id = slider.fragment
        moved = request.rerun_script.widget_states.widgets.add()
        moved.id = slider.id
        moved.double_array_value.data.append(value)
        return await self._answered(request)

    def _request(self) -> BackMsg:
        request = BackMsg()
        state = request.rerun_script
        state.query_string = self._query
        state.page_script_hash = self.pages.get(self._page, "")
        state.page_name = "" if self._page in self.pages else self._page
        state.cached_message_hashes.extend(self._kept)
        return request

    async def _answered(self, request: BackMsg) -> float:
        began = time.perf_counter()
        await self._socket.send(request.SerializeToString())
        while True:
            data = await asyncio.wait_for(self._socket.recv(decode=False), 120)
            self._tally.received += len(data)
            message = ForwardMsg.FromString(data)
            if message.hash and len(data) >= 1_500:
                self._kept.add(message.hash)
            self._note_slider(message)
            if message.HasField("navigation"):
                self.pages = {
                    one.url_pathname: one.page_script_hash
                    for one in message.navigation.app_pages
                    if not one.is_hidden and not one.external_url
                }
            if message.HasField("script_finished") and message.script_finished != EARLY:
                self._tally.failures += message.script_finished != WELL
                return time.perf_counter() - began

    def _note_slider(self, message: ForwardMsg) -> None:
        element = message.delta.new_element
        if element.WhichOneof("type") == "slider":
            found = element.slider
            self.sliders[found.label] = Slider(
                found.id, message.delta.fragment_id, found.default[0]
            )


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
            for _ in range(SLIDES if SLIDER in session.sliders else 0):
                await asyncio.sleep(chance.uniform(2, 3))
                value = float(chance.randint(5, 45))
                tally.slides.append(await session.slide(session.sliders[SLIDER], value))


async def visits(urls: list[str], sessions: int, seconds: float) -> Tally:
    """Let so many visitors come at once."""
    tally, until = Tally(), time.perf_counter() + seconds
    done = await asyncio.gather(
        *(visit(urls[number % len(urls)], number, until, tally) for number in range(sessions)),
        return_exceptions=True,
    )
    tally.failures += sum(isinstance(one, BaseException) for one in done)
    return tally


def measure(size: str, sessions: list[int], seconds: float, processes: int) -> None:
    """Print a line for each number of sessions on a fleet."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        site, urls, servers = Site(Path(folder), SIZES[size], 1), [], []
        for _ in range(processes):
            server, url = serve(site)
            stack.callback(server.wait)
            stack.callback(server.terminate)
            urls.append(url)
            servers.append(psutil.Process(server.pid))
        for url in urls:
            asyncio.run(visits([url], 1, 15))  # what the first visitor waits for: bench/pages.py
        before = Used.by(servers)
        print(
            f"\n{size}, {processes} {'process' if processes == 1 else 'processes'}: "
            f"{before.files} open files, {before.mb:,.0f} MB before"
        )
        for number in sessions:
            began = Used.by(servers)
            tally = asyncio.run(visits(urls, number, seconds))
            then = Used.by(servers)
            wait(LEFT_S)
            after = Used.by(servers)
            answers = len(tally.switches) + len(tally.slides)
            print(
                f"{number:3} sessions: {len(tally.switches):5,} switches, "
                f"{spread(tally.switches)}; {len(tally.slides):4,} slides, {spread(tally.slides)}; "
                f"{(then.cpu_s - began.cpu_s) / max(1, answers):.3f} processor s each, "
                f"{tally.received / 1e3 / max(1, answers):.0f} kB each, "
                f"{(then.mb - before.mb) / number:.1f} MB a session, {tally.failures} failed; "
                f"{LEFT_S:.0f} s after they left: {after.files} open files, "
                f"{after.mb:,.0f} MB; load {os.getloadavg()[0]:.1f}",
                flush=True,
            )


def compare(size: str, sessions: list[int], seconds: float, other: Path, rounds: int) -> None:
    """Print processor seconds an answer of another checkout and of this one, and their ratio."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        site, served = Site(Path(folder), SIZES[size], 1), []
        for root in (other, ROOT):
            server, url = serve(site, root)
            stack.callback(server.wait)
            stack.callback(server.terminate)
            served.append((url, psutil.Process(server.pid)))
        for url, _ in served:
            asyncio.run(visits([url], 1, 15))
        for number in sessions:
            found: list[list[Tally]] = [[], []]
            used = [0.0, 0.0]
            for _ in range(rounds):
                for place, (url, process) in enumerate(served):
                    began = Used.by([process])
                    found[place].append(asyncio.run(visits([url], number, seconds)))
                    used[place] += Used.by([process]).cpu_s - began.cpu_s
            each = []
            for tallies, cpu_s, name in zip(found, used, ("other", "this"), strict=True):
                switches = [one for tally in tallies for one in tally.switches]
                answers = len(switches) + sum(len(tally.slides) for tally in tallies)
                each.append(cpu_s / max(1, answers))
                print(
                    f"{number:3} sessions, {name}: {answers:5,} answers, {spread(switches)}, "
                    f"{each[-1]:.4f} processor s each, "
                    f"{sum(tally.failures for tally in tallies)} failed"
                )
            print(f"    ratio {each[1] / each[0]:.2f}; load {os.getloadavg()[0]:.1f}", flush=True)


@dataclass(frozen=True)
class Used:
    """What the servers have used so far."""

    cpu_s: float
    mb: float
    files: int

    @classmethod
    def by(cls, servers: list[psutil.Process]) -> Used:
        """Count."""
        return cls(
            cpu_s=sum(sum(one.cpu_times()[:2]) for one in servers),
            mb=sum(one.memory_info().rss for one in servers) / 1e6,
            files=sum(one.num_fds() for one in servers),
        )


def spread(seconds: list[float]) -> str:
    """Return median and 95th percentile."""
    if not seconds:
        return "none"
    times = sorted(seconds)
    p95 = times[max(0, round(len(times) * 0.95) - 1)]
    return f"p50 {median(times):.2f} s, p95 {p95:.2f} s"


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=tuple(SIZES), default="12x600")
    parser.add_argument("--sessions", type=int, nargs="+", default=[10, 30, 50])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument("--rounds", type=int, default=2, help="turns with --against")
    chosen = parser.parse_args()
    if chosen.against is not None:
        other = chosen.against.resolve()
        compare(chosen.size, chosen.sessions, chosen.seconds, other, chosen.rounds)
        return
    measure(chosen.size, chosen.sessions, chosen.seconds, chosen.processes)


if __name__ == "__main__":
    main()
