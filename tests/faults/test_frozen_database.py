"""A PostgreSQL server that accepts connections and never answers, or stops answering."""

from __future__ import annotations

from contextlib import closing
from time import monotonic

import pytest
import sqlalchemy as sa
from hostile_server import HostileServer, Line
from postgresql import IS_INSTALLED, PostgreSql

from connectors.journal import engine
from connectors.journal.engine import Database
from core.errors import RemoteError


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CONNECT_S", 2)  # libpq takes one second for two
    monkeypatch.setattr(engine, "ANSWER_S", 0.5)


def test_a_server_that_never_answers_is_given_up() -> None:
    began = monotonic()
    with HostileServer(Line.wait) as server, pytest.raises(RemoteError) as caught:
        Database(f"postgresql+psycopg://trimtab@{server.address}/postgres")
    assert monotonic() - began < 10.0  # psycopg itself waits 130 s
    assert server.address in caught.value.message
    assert caught.value.hint


@pytest.mark.slow
@pytest.mark.skipif(not IS_INSTALLED, reason="no PostgreSQL server is installed")
def test_a_server_that_is_frozen_is_given_up_and_used_again() -> None:
    server = PostgreSql()
    server.start()
    try:
        with closing(Database(server.url)) as database:
            began = monotonic()
            with pytest.raises(RemoteError) as caught, database.reading("sleep") as connection:
                connection.execute(sa.text("select pg_sleep(30)"))
            assert monotonic() - began < 3.0
            assert "no answer within 0.5 s" in caught.value.message
            with database.reading("look") as connection:
                assert connection.execute(sa.text("select 1")).scalar() == 1
    finally:
        server.stop()
