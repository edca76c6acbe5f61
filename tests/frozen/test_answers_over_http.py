"""Command, HTTP and pages give the same answers, for every operation and every frozen command line.

Each line runs twice on the same saved snapshots: by itself, and with ``--server``. Pages take their
answers from the function that the server calls (:func:`dashboard.queries.answers.answer_of`).
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from unittest import mock

import pyarrow.parquet as pq
import pytest
from frozen_cases import cases, commands
from frozen_world import captured, command, inside, snapshots, still
from limits import RateLimitItemPerMinute
from served import served

from core.operations.registry import MODULES
from core.snapshot.store import SnapshotStore, save_snapshot
from dashboard.api import resource, routes

KINDS = {"pulsar": 'zookeeper = "127.0.0.1:1"', "pegasus": 'meta_servers = ["127.0.0.1:1"]'}
LABELS = '[clusters.labels]\n"10.1.0.1:8080" = "pod-1 zone-a"\n'
OWN = (
    "nowhere",
    "group:",
    "tag:",
    "sparc",
    "spark",
    "--plan",
    "--config",
    "--since",
    "balance not.json",
    "topics.csv",
)
"""Words of lines about what a server's client does not have."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A folder with every frozen snapshot as a directory, and saved for a cluster of its name."""
    folder = tmp_path_factory.mktemp("http").resolve()
    kept = SnapshotStore(folder / "state" / "snapshots")
    config = 'state_dir = "state"\n'
    for name, snapshot in (snapshots() | captured()).items():
        own = type(snapshot).build(replace(snapshot.manifest, cluster=name), snapshot.tables)
        if name in snapshots():
            save_snapshot(own, folder / name)
        kept.put(own)
        kind = own.manifest.kind
        config += f'[[clusters]]\nname = "{name}"\nkind = "{kind}"\n{KINDS[kind]}\n'
        config += LABELS if name == "quiet" else ""
    (folder / "trimtab.toml").write_text(config)
    (folder / "recent.json").write_text(
        json.dumps(snapshots()["small"].tables["bundles"]["bundle"].to_pylist()[:20])
    )
    return folder


@pytest.fixture(scope="module")
def address(fleet):
    with (
        mock.patch.object(resource, "_LIMIT", RateLimitItemPerMinute(10**6)),
        mock.patch.dict(os.environ, {"TRIMTAB_CONFIG": str(fleet / "trimtab.toml")}),
        served(routes.ROUTES) as url,
    ):
        yield url


def lines_of(name):
    return [
        case
        for case in cases()[name]
        if "--help" not in case.words
        and len(case.words) > 1
        and not any(word in " ".join(case.words) for word in OWN)
    ]


ASKING = sorted(
    name
    for name in commands()
    if name.removeprefix("pegasus ") in MODULES and name != "pegasus health"
)
"""Operations; other commands are sent as they are (``test_commands_of_a_server``)."""


@pytest.mark.parametrize("name", ASKING)
def test_a_command_answers_as_the_server_that_it_asks(name, fleet, address):
    lines = lines_of(name)
    assert lines
    with still(), inside(fleet, {"TRIMTAB_CONFIG": str(fleet / "trimtab.toml")}):
        for case in lines:
            words = [one.replace("out-", "here-") for one in case.words]
            own = command(words)
            asked = command([*case.words, "--server", address])
            differing = f"trimtab {' '.join(case.words)}"
            assert (asked.code, asked.out) == (own.code, own.out), differing
            assert asked.err == own.err.replace("here-", "out-"), differing
            for file in fleet.glob("here-*/*"):
                other = fleet / file.parent.name.replace("here-", "out-") / file.name
                assert pq.read_table(other).equals(pq.read_table(file), check_metadata=True)
