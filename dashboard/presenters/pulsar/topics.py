"""Topics of a bundle, read from its owner: where to ask, and when they were read."""

from __future__ import annotations

from datetime import datetime

import pyarrow.compute as pc

from core.snapshot import PulsarSnapshot
from core.units import format_age
from dashboard.presenters.naming import clock


def read_words(read_at: datetime, now: datetime) -> str:
    """Return the time when topics were read, with their age."""
    age = format_age((now - read_at).total_seconds())
    return f"Read at {clock(read_at)}, {age} ago."


def web_addresses_of(snapshot: PulsarSnapshot, broker: str) -> tuple[str | None, str | None]:
    """Return the broker's web addresses, plain and TLS, ``None`` for one not reported."""
    brokers = snapshot.brokers
    row = pc.index(brokers["broker"], broker).as_py()
    if row < 0:
        return None, None
    return brokers["web_url"][row].as_py(), brokers["web_url_tls"][row].as_py()
