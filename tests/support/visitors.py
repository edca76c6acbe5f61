"""Fifty browsers in one process, until it is killed; it writes a line when all have their page.

``python visitors.py PORT``: of the pages, on loopback. Each speaks what a browser speaks to
Streamlit (protobuf over a WebSocket), and does nothing with it.
"""

from __future__ import annotations

import asyncio
import sys

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect

VISITORS = 50


async def visit(port: int, arrived: list[int]) -> None:
    """Open the first page, as a browser does, and stay."""
    async with connect(
        f"ws://127.0.0.1:{port}/_stcore/stream",
        subprotocols=["streamlit"],
        origin=f"http://127.0.0.1:{port}",
        max_size=None,
    ) as visitor:
        request = BackMsg()
        request.rerun_script.query_string = "refresh=1s"
        await visitor.send(request.SerializeToString())
        while True:
            message = ForwardMsg.FromString(await visitor.recv(decode=False))
            if message.WhichOneof("type") == "script_finished":
                arrived.append(1)
                if len(arrived) == VISITORS:
                    sys.stdout.write("all\n")
                    sys.stdout.flush()


async def visits(port: int) -> None:
    arrived: list[int] = []
    await asyncio.gather(*(visit(port, arrived) for _ in range(VISITORS)))


if __name__ == "__main__":
    asyncio.run(visits(int(sys.argv[1])))
