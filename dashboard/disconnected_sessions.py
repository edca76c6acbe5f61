"""Release of what a session held, once its browser has been away for its time."""

from __future__ import annotations

import asyncio

from streamlit.runtime.session_manager import SessionInfo, SessionStorage


class DisconnectedSessions(SessionStorage):
    """Sessions that lost their browser, kept for as long as it may come back.

    Streamlit's own storage forgets one only when a later one leaves, and then without an end: its
    open files go when garbage is collected, and after the last visitor they stay. All methods are
    called on the server's event loop.
    """

    def __init__(self, ttl_seconds: float) -> None:
        """Keep each session for so many seconds."""
        self._ttl_s = ttl_seconds
        self._left: dict[str, tuple[SessionInfo, asyncio.TimerHandle]] = {}

    def get(self, session_id: str) -> SessionInfo | None:
        """Return a session whose browser may still come back."""
        found = self._left.get(session_id)
        return None if found is None else found[0]

    def save(self, session_info: SessionInfo) -> None:
        """Keep a session that has just lost its browser."""
        name = session_info.session.id
        self.delete(name)
        timer = asyncio.get_running_loop().call_later(self._ttl_s, self._end, name)
        self._left[name] = session_info, timer

    def delete(self, session_id: str) -> None:
        """Forget a session: its browser is back, or Streamlit ends it."""
        found = self._left.pop(session_id, None)
        if found is not None:
            found[1].cancel()

    def list(self) -> list[SessionInfo]:
        """Return all that are kept."""
        return [info for info, _ in self._left.values()]

    def _end(self, session_id: str) -> None:
        info, _ = self._left.pop(session_id)
        info.session.shutdown()
