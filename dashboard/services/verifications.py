"""Verifications of the journal for callers of the HTTP interface: one a minute for all of them."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Final

from dashboard import services

if TYPE_CHECKING:
    from datetime import datetime

VERIFIED_FOR_S: Final = 60.0
"""The whole journal is read for a verification: no caller makes one more often."""


class _Verifications:
    """Results of verifications by journal: each is made once a minute, and one at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: dict[str, tuple[float, datetime, services.Verified]] = {}

    def of(self, config: services.Config) -> tuple[datetime, services.Verified]:
        address = config.journal_address.get_secret_value()
        with self._lock:
            known = self._last.get(address)
            if known is None or time.monotonic() - known[0] > VERIFIED_FOR_S:
                at = services.now()
                known = time.monotonic(), at, services.verify_journal(services.whole_config(config))
                self._last = {address: known}
        return known[1:]


_verifications: Final = _Verifications()


def latest(config: services.Config) -> tuple[datetime, services.Verified]:
    """Return the time and the result of the last verification, or of a new one.

    Raises:
        OpsError: The journal cannot be read.
    """
    return _verifications.of(config)
