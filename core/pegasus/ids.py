"""Names of Pegasus things: partitions (gpid) and nodes (host:port)."""

from __future__ import annotations

import re

from core.errors import InputError

_GPID = re.compile(r"(-?\d{1,18})\.(-?\d{1,18})\Z", re.ASCII)
_NODE = re.compile(r"([^\s:]+):(\d{1,5})\Z", re.ASCII)


def gpid_text(app_id: int, index: int) -> str:
    """Return ``app.index``, as Pegasus prints a partition."""
    return f"{app_id}.{index}"


def parse_gpid(text: str) -> tuple[int, int]:
    """Return ``(app_id, partition_index)`` of a text such as ``2.7``.

    Raises:
        InputError: The text is no gpid.
    """
    match = _GPID.match(text)
    if match is None:
        raise InputError(
            f"{text!r} is not a partition.", hint="Use table id and index, for example 2.7."
        )
    return int(match[1]), int(match[2])


def is_gpid(text: str) -> bool:
    """Return whether a text has the form of a partition's name, such as ``2.7``."""
    return _GPID.match(text) is not None


def parse_node(text: str) -> tuple[str, int]:
    """Return ``(host, port)`` of a node name; sorted by it, nodes are in Pegasus' own order.

    Raises:
        InputError: The text is not ``host:port``.

    Source:
        Pegasus ``host_port``: compared by host as text, then by port as a number.
    """
    match = _NODE.match(text)
    if match is None or not 0 < int(match[2]) <= 0xFFFF:
        raise InputError(
            f"{text!r} is not a node.", hint="Use host and port, for example db1:34801."
        )
    return match[1], int(match[2])
