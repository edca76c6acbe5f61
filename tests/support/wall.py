"""A clock on the wall, which a test moves."""

from __future__ import annotations

from datetime import datetime


class Wall:
    """Returns the moment that it was set to."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now
