"""Names of things: brokers, bundles, namespaces, snapshots, plans.

A *broker id* is ``host:webPort`` without a scheme, the lookup service address; a *bundle name* is
``tenant/namespace/0xLLLLLLLL_0xUUUUUUUU``. Everything before the last ``/`` of a bundle name is its
namespace (``pulsar/<broker id>`` and ``sla-monitor/<broker id>`` hold a ``:`` but no further
``/``).
"""

from __future__ import annotations

import re
from typing import Final, NewType
from urllib.parse import unquote

from core.errors import InputError

SnapshotId = NewType("SnapshotId", str)
PlanId = NewType("PlanId", str)

FULL_UPPER = 0xFFFFFFFF
_BROKER_BOUND = re.compile(r"(?:pulsar|sla-monitor)/(?:[^/]+/)?[^/:]+:\d+\Z")
_RANGE = re.compile(r"(0x[0-9a-fA-F]{1,8})_(0x[0-9a-fA-F]{1,8})\Z")


def range_text(lower: int, upper: int) -> str:
    """Return ``0xLLLLLLLL_0xUUUUUUUU``, the way Pulsar prints a bundle range."""
    return f"0x{lower:08x}_0x{upper:08x}"


def parse_range(text: str) -> tuple[int, int]:
    """Return ``(lower, upper)`` of a range text such as ``0x40000000_0x80000000``.

    Raises:
        InputError: The text is not a range, or the range is empty.
    """
    match = _RANGE.match(text)
    bounds = (int(match[1], 16), int(match[2], 16)) if match else (0, 0)
    if bounds[0] >= bounds[1]:
        raise InputError(
            f"{text!r} is not a bundle range.",
            hint="A range has the form 0xLLLLLLLL_0xUUUUUUUU, with the lower bound below the "
            "upper.",
        )
    return bounds


_PATH: Final = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*\Z")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SEPARATOR: Final = re.compile(r"[/\\]")
_SETTING: Final = "/admin/v2/brokers/configuration/"
"""Below it stand values of settings, which may hold a slash."""
_TRAILING_SLASH: Final = "/metrics/"
_MAX_DECODING: Final = 3


def path_fault(target: str) -> str:
    """Return the reason a request path may be misrouted, or "".

    Clients, proxies and servers each resolve dot segments, decode and merge slashes in their own
    way, so a name that becomes part of a path could choose another endpoint.

    Args:
        target: Path from the root and query, quoted as it goes over the wire.
    """
    path = target.partition("?")[0]
    if not _PATH.match(path):
        return "it is not a quoted absolute path"
    segments = path.removesuffix("/" if path == _TRAILING_SLASH else "").split("/")[1:]
    for segment in segments:
        text = _decoded(segment)
        parts = _SEPARATOR.split(text)
        if not text:
            return "it has an empty name"
        if any(part.partition(";")[0] in (".", "..") for part in parts):
            return f"{text!r} in it changes the path"
        if _CONTROL.search(text):
            return f"{text!r} in it has control characters"
        if len(parts) > 1 and not path.startswith(_SETTING):
            return f"{text!r} in it has a slash"
    return ""


def _decoded(segment: str) -> str:
    """Return a segment as the most eager server reads it: decoded again and again."""
    for _ in range(_MAX_DECODING):
        segment = unquote(segment)
    return segment


def namespace_of(bundle: str) -> str:
    """Return the namespace of a bundle name: all before the last ``/``."""
    return bundle.rpartition("/")[0]


def tenant_of(namespace: str) -> str:
    """Return the tenant of a namespace: all before the first ``/``."""
    return namespace.partition("/")[0]


def host_of(broker: str) -> str:
    """Return the host part of a broker id: all before the last ``:``."""
    return broker.rpartition(":")[0]


SYSTEM_NAMESPACE: Final = "pulsar/system"
"""Namespace of Pulsar's own topics; ordinary for the load manager, but for shedding of 2.11.0."""


def is_broker_bound(namespace: str) -> bool:
    """Return whether the namespace is bound to one broker and is never moved.

    These are the heartbeat (``pulsar/<host:port>``) and SLA (``sla-monitor/<host:port>``)
    namespaces;
    ``pulsar/system`` is an ordinary namespace in this respect, and so is one of another tenant with
    a colon in its name.

    Source:
        Pulsar ``NamespaceService``: ``HEARTBEAT_NAMESPACE_PATTERN``, the same of ``_V2``,
        ``SLA_NAMESPACE_PATTERN``.
    """
    return _BROKER_BOUND.match(namespace) is not None


def is_part(bundle: str, whole: str) -> bool:
    """Return whether a bundle is another one, or part of it."""
    if namespace_of(bundle) != namespace_of(whole):
        return False
    try:
        lower, upper = parse_range(bundle.rpartition("/")[2])
        first, last = parse_range(whole.rpartition("/")[2])
    except InputError:
        return False
    return first <= lower and upper <= last
