"""Sessions that lost their browser are ended after their time, and only those."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from event_loops import run_apart
from streamlit.runtime.session_manager import SessionInfo

from dashboard.disconnected_sessions import DisconnectedSessions

TTL_S = 0.2


@dataclass
class Session:
    id: str
    ended: int = 0

    def shutdown(self) -> None:
        self.ended += 1


def left(session: Session) -> SessionInfo:
    return SessionInfo(client=None, session=session)  # type: ignore[arg-type]  # what is used of one


def test_a_session_that_stays_away_is_ended_once() -> None:
    away, back = Session("away"), Session("back")

    async def visits() -> None:
        kept = DisconnectedSessions(ttl_seconds=TTL_S)
        kept.save(left(away))
        kept.save(left(back))
        assert {one.session.id for one in kept.list()} == {"away", "back"}
        found = kept.get("back")
        assert found is not None
        kept.delete("back")  # as Streamlit does when the browser is back
        kept.delete("unknown")
        await asyncio.sleep(3 * TTL_S)
        assert kept.get("away") is None
        assert not kept.list()

    run_apart(visits())
    assert (away.ended, back.ended) == (1, 0)


def test_a_session_that_leaves_again_has_its_whole_time_again() -> None:
    session = Session("one")

    async def visits() -> None:
        kept = DisconnectedSessions(ttl_seconds=2 * TTL_S)
        kept.save(left(session))
        await asyncio.sleep(1.5 * TTL_S)
        kept.save(left(session))
        await asyncio.sleep(TTL_S)
        assert kept.get("one") is not None
        assert session.ended == 0
        await asyncio.sleep(3 * TTL_S)
        assert session.ended == 1

    run_apart(visits())
