"""A PostgreSQL server of the tests' own, on loopback, that can be killed and started again."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import sqlalchemy as sa

_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
_USER = "nobody"
PAGE_BYTES = 8_192


def binary(name: str) -> str | None:
    """Where a program of the server is; Debian does not put them on the path."""
    return shutil.which(name) or next(
        (str(folder / name) for folder in _FOLDERS if (folder / name).exists()), None
    )


class PostgreSql:
    """One server. It refuses to run as root: then it runs as ``nobody``."""

    def __init__(self) -> None:
        assert all(map(binary, ("initdb", "postgres"))), "no PostgreSQL; .ci/servers installs it"
        # not in pytest's folder, which only its own user may enter
        self._place = TemporaryDirectory(prefix="trimtab-postgresql-", ignore_cleanup_errors=True)
        self._sockets = Path(self._place.name)
        self._folder = self._sockets / "data"
        self._is_root = os.getuid() == 0
        if self._is_root:
            shutil.chown(self._sockets, _USER)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = [str(binary("initdb")), "-D", str(self._folder), "-A", "trust", "-U", "trimtab"]
        self._run([*words, "-E", "UTF8", "--no-sync"])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://trimtab@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        words = [str(binary("postgres")), "-D", str(self._folder), "-p", str(self.port)]
        words += ["-c", f"unix_socket_directories={self._sockets}", "-h", "127.0.0.1"]
        with (self._sockets / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                words, stdout=log, stderr=log, cwd="/", **self._identity()
            )
        engine, deadline = sa.create_engine(self.url), monotonic() + 60
        while True:
            try:
                with engine.connect():
                    break
            except sa.exc.OperationalError:
                assert self._process.poll() is None, "PostgreSQL ended at once"
                assert monotonic() < deadline, "PostgreSQL does not start"
                threading.Event().wait(0.05)
        engine.dispose()

    def damage_index(self, name: str) -> None:
        """Overwrite the entries of an index's first leaf, with the server stopped meanwhile."""
        engine = sa.create_engine(self.url)
        with engine.begin() as connection:
            path = connection.execute(
                sa.text("SELECT pg_relation_filepath(CAST(:name AS regclass))"), {"name": name}
            ).scalar_one()
            connection.execute(sa.text("CHECKPOINT"))
        engine.dispose()
        self._end()
        with (self._folder / path).open("r+b") as file:
            file.seek(2 * PAGE_BYTES - 512)  # entries stand at the end of a page; page 0 is meta
            file.write(b"\xff" * 256)
        self.start()

    def kill(self) -> None:
        """Kill the server and every process of it, as a power cut does."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        backends = [int(pid) for pid in children.read_text().split()]
        self._process.kill()
        for pid in backends:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()
        self._process = None
        (self._folder / "postmaster.pid").unlink(missing_ok=True)

    def _end(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # fast: clients are cut off
            self._process.wait(30)
            self._process = None

    def stop(self) -> None:
        self._end()
        self._place.cleanup()

    def kill_backends(self) -> None:
        """End every client's connection, as an administrator can."""
        engine = sa.create_engine(self.url)
        with engine.connect() as connection:
            connection.execute(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )
            )
        engine.dispose()

    def empty(self) -> None:
        """Drop what is in the database."""
        engine = sa.create_engine(self.url)
        with engine.begin() as connection:
            connection.execute(sa.text("DROP SCHEMA public CASCADE"))
            connection.execute(sa.text("CREATE SCHEMA public"))
        engine.dispose()

    def _run(self, words: list[str]) -> None:
        subprocess.run(words, check=True, capture_output=True, cwd="/", **self._identity())

    def _identity(self) -> dict:
        if not self._is_root:
            return {}
        return {"user": _USER, "group": pwd.getpwnam(_USER).pw_gid, "extra_groups": []}
