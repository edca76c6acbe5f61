"""A real worker, a real journal, a real ZooKeeper, and one fault after the other in the middle.

Each run has to end with every action journaled, none sent twice, no setting left changed, every
step's result known, and no traceback. ``make faults`` prints the table.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apply_under_faults import Tally
from ensemble import Ensemble
from fault_scenes import (
    FAULTS,
    OPTIONS,
    SESSION_S,
    Scene,
    disk_full,
    fill,
    rest,
    run_under,
    scene_of,
)
from history_worlds import minute_of

from connectors.sandbox.pulsar.fleet import Sandbox
from core.errors import OpsError
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.timeout(900)]

RUNS = 3


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(OPTIONS) as running:
        yield running


@pytest.fixture
def words(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What was logged with a traceback."""

    def logged() -> list[str]:
        return [f"{record.getMessage()} Traceback" for record in caplog.records if record.exc_info]

    caplog.set_level(logging.WARNING)
    return logged


@pytest.mark.parametrize("name", FAULTS)
def test_fault_in_a_run(
    name: str,
    sandbox: Sandbox,
    tmp_path: Path,
    words: Callable[[], list[str]],
    record_property: Callable[[str, object], None],
) -> None:
    tally, views = Tally(), []
    for number in range(RUNS):
        with scene_of(sandbox, tmp_path / str(number)) as scene:
            views.append(run_under(FAULTS[name], scene, tally, words))
    record_property(f"fault {name}", tally.row)
    assert tally.is_clean, (tally, [view.sentence for view in views])
    assert name != "none" or {view.state for view in views} == {"DONE"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a file system of its own needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_disk_full_under_the_journal(
    sandbox: Sandbox,
    small_disk: Path,
    words: Callable[[], list[str]],
    record_property: Callable[[str, object], None],
) -> None:
    tally, views = Tally(), []
    for number in range(RUNS):
        folder = small_disk / str(number)
        folder.mkdir()
        with scene_of(sandbox, folder) as scene:
            views.append(run_under(disk_full, scene, tally, words))
    record_property("fault disk full under the journal", tally.row)
    assert tally.is_clean, (tally, [view.sentence for view in views])


def test_disk_full_under_the_history(
    small_disk: Path, record_property: Callable[[str, object], None]
) -> None:
    """Minutes that were recorded stay; the full disk is a documented error; then it goes on."""
    store, tally = HistoryStore(HistoryLocation(str(small_disk / "history"))), Tally()
    recorder, filler = Recorder(store, "fleet"), small_disk / "filler"
    recorded: list[str] = []
    refused = 0
    for number in range(4 * RUNS):
        if number % 4 == 2:
            fill(filler)
        snapshot = minute_of(number)
        try:
            recorder.record(snapshot)
            recorded.append(snapshot.snapshot_id)
        except OpsError:  # whatever else comes out is a failure of this test
            refused += 1
        filler.unlink(missing_ok=True)
        listed = store.minutes("fleet")["snapshot_id"].to_pylist()
        tally.runs += 1
        tally.lost += len(set(recorded) - set(listed))
        tally.twice += len(listed) - len(set(listed))
    record_property("fault disk full under the history", tally.row)
    assert refused
    assert tally.is_clean, tally
    assert store.rows("brokers", "fleet").num_rows == 3 * len(listed)


@pytest.mark.parametrize("victim", ["a follower", "the leader"])
def test_one_server_of_three_lost(
    victim: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: Callable[[], list[str]],
    record_property: Callable[[str, object], None],
) -> None:
    monkeypatch.setattr("connectors.sandbox.pulsar.fleet.ZooKeeperProcess", Ensemble)
    tally, views = Tally(), []
    with Sandbox(OPTIONS) as running:
        ensemble = running._zookeeper
        assert isinstance(ensemble, Ensemble)

        @contextmanager
        def fault(_: Scene) -> Iterator[None]:
            # the sandbox's brokers know the first server only
            others = ensemble.members[1:]
            lost = next((one for one in others if one.is_leader == (victim == "the leader")), None)
            assert lost is not None, "the first server leads"
            lost.kill()
            rest(3 * SESSION_S)
            lost.start()
            yield

        for number in range(RUNS):
            folder = tmp_path / str(number)
            with scene_of(running, folder, ensemble.addresses) as scene:
                views.append(run_under(fault, scene, tally, words))
    record_property(f"fault {victim} of three ZooKeeper servers lost", tally.row)
    assert tally.is_clean, (tally, [view.sentence for view in views])
