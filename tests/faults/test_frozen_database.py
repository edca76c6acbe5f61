"""A PostgreSQL server, or an object store, that accepts connections and stops answering."""

from __future__ import annotations

from contextlib import closing
from time import monotonic

import pytest
import sqlalchemy as sa
from hostile_server import HostileServer, Line
from postgresql import PostgreSql

from connectors.config.model import TrimtabConfig
from connectors.journal import engine
from connectors.journal.engine import Database
from connectors.recording import loop
from core.errors import OpsError, RemoteError


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


@pytest.mark.slow
def test_an_object_store_that_never_answers_is_given_up(tmp_path, monkeypatch) -> None:
    quick = {"timeout": "1s", "connect_timeout": "1s", "max_retries": "1", "retry_timeout": "3s"}
    assert quick.keys() == loop._BOUNDS.keys()
    monkeypatch.setattr(loop, "_BOUNDS", quick)
    with HostileServer(Line.wait) as server:
        options = {
            "AWS_ENDPOINT_URL": f"http://{server.address}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "x",
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
        }
        history = {"uri": "s3://bucket/history", "options": options}
        store = loop.open_history(TrimtabConfig(state_dir=tmp_path, history=history))
        began = monotonic()
        with pytest.raises(OpsError) as caught:
            store.clusters()
        assert monotonic() - began < 10.0
    assert "s3://bucket/history" in caught.value.message
