"""Names of things: brokers, bundles, namespaces, snapshots, plans.

A *broker id* is ``host:webPort`` without a scheme, the lookup service address; a *bundle name* is
``tenant/namespace/0xLLLLLLLL_0xUUUUUUUU``. Everything before the last ``/`` of a bundle name is its
namespace (``pulsar/<broker id>`` and ``sla-monitor/<broker id>`` hold a ``:`` but no further
``/``).
"""

from __future__ import annotations

import re
from typing import NewType

from core.errors import InputError

BrokerId = NewType("BrokerId", str)
BundleName = NewType("BundleName", str)
SnapshotId = NewType("SnapshotId", str)
PlanId = NewType("PlanId", str)

FULL_UPPER = 0xFFFFFFFF
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
            hint="A range reads 0xLLLLLLLL_0xUUUUUUUU, the lower bound below the upper.",
        )
    return bounds


def namespace_of(bundle: str) -> str:
    """Return the namespace of a bundle name: all before the last ``/``."""
    return bundle.rpartition("/")[0]


def tenant_of(namespace: str) -> str:
    """Return the tenant of a namespace: all before the first ``/``."""
    return namespace.partition("/")[0]


def host_of(broker: str) -> str:
    """Return the host part of a broker id: all before the last ``:``."""
    return broker.rpartition(":")[0]


def is_broker_bound(namespace: str) -> bool:
    """Return whether the namespace belongs to one broker and is never moved.

    These are the heartbeat (``pulsar/<host:port>``) and SLA (``sla-monitor/<host:port>``)
    namespaces;
    ``pulsar/system`` is an ordinary namespace in this respect.

    Source:
        Pulsar ``NamespaceService#isHeartbeatNamespace`` and ``#isSLAMonitoringNamespace``.
    """
    tenant, _, local = namespace.partition("/")
    return tenant in ("pulsar", "sla-monitor") and ":" in local
