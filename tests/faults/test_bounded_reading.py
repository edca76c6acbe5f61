"""No answer, and no file, makes the process that reads it exceed its bounds, whatever is in it.

A process of its own reads; the system gives it no more than ``LIMIT_MIB``, and each answer may take
far less (``PEAK_MIB``) with the limits that are configured there.
"""

from __future__ import annotations

import gzip
import json
import os
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest
from bounded import LIMITS
from hostile_answers import (
    MULTI_READ,
    OK,
    STAT,
    connected,
    framed,
    listed,
    raw_reply,
    reply,
    requested,
    text,
)
from hostile_server import HostileServer, Line
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from connectors.config.model import DECODED
from connectors.pegasus.rpc.frame import decode_request

HERE = Path(__file__).parent
PEAK_MIB = 4 * DECODED * LIMITS["bulk_mib"] + LIMITS["capture_mib"] + 48.0
"""Four of the longest answers at a time, decoded; all that a capture holds; and the allocator's."""
SLOWEST_S = 12.0
EXAMPLES = pytest.mark.parametrize(
    "count", [12, pytest.param(150, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])]
)
LARGEST = 12 << 20


class Reader:
    """The process that reads; a new one takes the place of one that has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def read(self, kind: str, place: str) -> dict[str, object]:
        """Let it read, and assert that it stays within its bounds."""
        if self._process is None or self._process.poll() is not None:
            self._process = self._started()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"kind": kind, "place": place}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"it died: {self._process.wait(10)}"
        found = json.loads(line)
        assert not found["error"].startswith("BUG"), found
        assert found["peak_mib"] <= PEAK_MIB, found
        assert found["seconds"] <= SLOWEST_S, found
        return found

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    @staticmethod
    def _started() -> subprocess.Popen[str]:
        root = HERE.parents[1]
        folders = os.pathsep.join(map(str, (root, root / "tests" / "support", HERE)))
        return subprocess.Popen(
            [sys.executable, str(HERE / "bounded_reader.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": folders},
        )


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.close()


# -- what is sent ----------------------------------------------------------------------------------

TOKENS = (
    *(b"[", b"{", b'{"a":', b"[]", b"[],", b"{},", b"0,", b'"",', b'"a":{},', b'"aa",'),
    *(b"a", b"\n", b"\0", b"\xff", b"\\u0000", b"a=1\n", b"[[a]]\n", b"a.b.c.d.e.f.g = 1\n"),
    *(b'x{a="b",c="d"} 1\n', b"# HELP x y\n", b'{"path":"/loadbalance/brokers/a:1","value":{}}\n'),
)
HEADS = (b"", b"[", b'{"a":[', b'{"status":"success","data":{"resultType":"vector","result":[')
LENGTHS = st.one_of(
    st.sampled_from([-(2**31), -1, 0, 1, 3, 4, 2**20, 2**20 + 1, 2**24, 2**31 - 1]),
    st.integers(-(2**31), 2**31 - 1),
)


@dataclass(frozen=True)
class Body:
    """A beginning, then runs of the same few bytes."""

    head: bytes
    runs: tuple[tuple[bytes, int], ...]

    def content(self) -> bytes:
        return self.head + b"".join(token * (size // len(token)) for token, size in self.runs)


SIZES = st.sampled_from([1, 1_000, 900_000, 2 << 20, LARGEST])
RUNS = st.lists(st.tuples(st.sampled_from(TOKENS) | st.binary(min_size=1), SIZES), max_size=3)
BODIES = st.builds(Body, st.sampled_from(HEADS), RUNS.map(tuple))


def forever(line: Line, content: bytes, *, is_endless: bool) -> None:
    line.send(content)
    if is_endless:
        line.forever(content or b"\0")


@st.composite
def zookeepers(draw: st.DrawFn) -> Callable[[Line], None]:
    """A server that answers each request in the same way."""
    body, length, error = (
        draw(BODIES).content(),
        draw(LENGTHS),
        draw(st.sampled_from([0, 0, 0, -101, -6])),
    )
    way = draw(st.sampled_from(["raw", "length", "body", "names", "value", "answers"]))
    count, kind = draw(LENGTHS), draw(st.sampled_from([4, 8, -1, 22]))

    def script(line: Line) -> None:
        if way == "raw":
            line.framed()
            forever(line, body, is_endless=count > 0)
            return
        connected(line)
        while True:
            xid, asked = requested(line)
            head = struct.pack(">iBi", kind, 0, 0) if asked == MULTI_READ else b""
            done = struct.pack(">iBi", -1, 1, -1)
            match way:
                case "length":
                    forever(line, struct.pack(">i", length) + body, is_endless=count > 0)
                case "body":
                    line.send(reply(xid, body, error))
                case "names":
                    line.send(reply(xid, head + struct.pack(">i", count) + body + done, error))
                case "value":
                    line.send(reply(xid, head + text(body[: 1 << 20]) + STAT + done, error))
                case _:
                    one = head + text(body[:100]) + STAT
                    line.send(reply(xid, one * 5_000 + done, error))

    return script


@st.composite
def meta_servers(draw: st.DrawFn) -> Callable[[Line], None]:
    body, length, number = draw(BODIES).content(), draw(LENGTHS), draw(LENGTHS)
    kind, field = draw(st.sampled_from([2, 3, 8, 11, 12, 13, 14, 15])), draw(st.integers(1, 12))
    way = draw(st.sampled_from(["raw", "length", "frame", "list", "struct"]))

    def script(line: Line) -> None:
        while True:
            request = decode_request(line.called())
            match way:
                case "raw":
                    forever(line, body, is_endless=number > 0)
                case "length":
                    forever(line, struct.pack(">i", length) + body, is_endless=number > 0)
                case "frame":
                    line.send(framed(body))
                case "list":
                    line.send(raw_reply(request, OK + listed(kind, number, body, field)))
                case _:
                    count = min(len(body), 900_000)
                    line.send(raw_reply(request, OK + listed(12, count, bytes(count), field)))

    return script


@st.composite
def web_servers(draw: st.DrawFn) -> Callable[[Line], None]:
    body, length = draw(BODIES).content(), draw(LENGTHS)
    status = draw(
        st.sampled_from([b"200 OK", b"200 OK", b"200 OK", b"404 No", b"307 Go", b"100 C"])
    )
    form = draw(st.sampled_from(["plain", "length", "chunked", "gzip", "heads", "raw"]))
    is_endless = draw(st.booleans())
    packed = gzip.compress(body, 1) if form == "gzip" else body

    def script(line: Line) -> None:
        while True:
            line.head()
            if form == "raw":
                forever(line, body, is_endless=is_endless)
                return
            head = b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\n"
            match form:
                case "length":
                    head += b"Content-Length: %d\r\n\r\n" % length
                case "chunked":
                    head += b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % max(length, 0)
                case "gzip":
                    head += b"Content-Encoding: gzip\r\n\r\n"
                case "heads":
                    head += b"X-A: b\r\n" * 100_000
                case _:
                    head += b"\r\n"
            line.send(head)
            forever(line, packed, is_endless=is_endless)
            return

    return script


def tried(count: int, strategy: st.SearchStrategy[object], attempt: Callable[..., None]) -> None:
    """Try so many examples; each is sent to a process, so no deadline of hypothesis holds."""
    quick = settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],  # a smaller example says no more, and takes minutes
    )
    with warnings.catch_warnings():  # clients of tests before, which end, draw their pauses
        warnings.filterwarnings("ignore", "Do not use the `random` module inside strategies")
        quick(given(strategy)(attempt))()


SERVERS = {
    "zookeeper": zookeepers(),
    "rpc": meta_servers(),
    **dict.fromkeys(("admin", "scrape", "prometheus", "meta_http"), web_servers()),
}


@EXAMPLES
@pytest.mark.parametrize("kind", SERVERS)
def test_answers(kind: str, count: int, reader: Reader) -> None:
    def attempt(script: Callable[[Line], None]) -> None:
        with HostileServer(script) as server:
            reader.read(kind, server.address)

    tried(count, SERVERS[kind], attempt)


@EXAMPLES
@pytest.mark.parametrize("kind", ["plan", "toml", "dump", "snapshot", "history"])
def test_files(kind: str, count: int, reader: Reader, tmp_path: Path) -> None:
    place = {"snapshot": "manifest.json", "history": "minutes/_delta_log/00000000000000000000.json"}
    file = tmp_path / place.get(kind, "file")
    file.parent.mkdir(parents=True, exist_ok=True)

    def attempt(body: Body) -> None:
        file.write_bytes(body.content())
        reader.read(kind, str(tmp_path if kind in place else file))

    tried(count, BODIES, attempt)


@pytest.mark.parametrize("kind", ["plan", "toml", "dump", "snapshot"])
def test_a_device_without_an_end_is_refused(kind: str, reader: Reader, tmp_path: Path) -> None:
    place = tmp_path / "manifest.json"
    place.symlink_to("/dev/zero")
    began = monotonic()
    found = reader.read(kind, str(tmp_path if kind == "snapshot" else place))
    assert found["error"]
    assert monotonic() - began < SLOWEST_S
