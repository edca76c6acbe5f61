"""A sandbox recorded by a real collector: its moves, the steps of runs, and a restart."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from apply_site import movable

from connectors.config.model import TrimtabConfig
from connectors.recording.collector import run_collector
from connectors.sandbox.pulsar.fleet import Sandbox, SandboxOptions
from core.history.store.store import HistoryLocation, HistoryStore
from core.snapshot import PulsarSnapshot
from core.snapshot.store import SnapshotStore, load_snapshot
from dashboard.cli.main import run

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(600)]

WITHIN_S = 120.0
CLUSTER = "sandbox"
_PAUSE = threading.Event()


class Site:
    """A sandbox, the configuration that points at it, and what is recorded of it."""

    def __init__(self, folder: Path, sandbox: Sandbox) -> None:
        self.state = folder / "state"
        self.file = folder / "trimtab.toml"
        self.file.write_text(
            f'state_dir = "{self.state}"\n[history]\nevery_s = 0\nshadow = ["OverloadShedder"]\n'
            f'[[clusters]]\nname = "{CLUSTER}"\nenvironment = "demo"\n'
            f'zookeeper = "{sandbox.zookeeper}"\nadmin_urls = {json.dumps(sandbox.admin_urls)}\n'
            "read_only = false\n[clusters.apply]\npace_per_min = 600.0\n"
        )
        self.config = TrimtabConfig.load(self.file, ())

    @property
    def store(self) -> HistoryStore:
        return HistoryStore(HistoryLocation(self.config.history_uri))

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        rows = self.store.rows("events", CLUSTER).to_pylist()
        return [row for row in rows if row["kind"] in kinds]

    def minutes(self) -> int:
        return int(self.store.minutes(CLUSTER).num_rows)

    def latest(self) -> PulsarSnapshot:
        stored = SnapshotStore(self.state / "snapshots").latest(CLUSTER, datetime.now(UTC))
        assert stored is not None
        return load_snapshot(stored.path)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """A collector, until it has recorded two more minutes than there were, and after."""
        stop = threading.Event()
        thread = threading.Thread(
            target=run_collector,
            args=(self.config, self.config.clusters, 0.5, stop, lambda _event: None),
        )
        before = self.minutes()
        thread.start()
        try:
            until(lambda: self.minutes() >= before + 2, "two more minutes")
            yield
        finally:
            stop.set()
            thread.join(WITHIN_S)
            assert not thread.is_alive()

    def execute_run(self, folder: Path, bundle: str, targets: Sequence[str]) -> None:
        """One run that moves one bundle to the first broker that may have it."""
        snapshot, plan = str(folder / "snapshot"), str(folder / "plan.json")
        config = ["--config", str(self.file)]
        assert run(["capture", CLUSTER, "--out", snapshot, *config]) == 0
        words = ["unload", snapshot, "--bundle", bundle, "--plan", plan]
        assert any(run([*words, "--to", target]) == 0 for target in targets)
        words = ["--cluster", CLUSTER, "--reason", "a test", "--yes", *config]
        assert run(["apply", plan, *words]) == 0


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, what
        _PAUSE.wait(0.2)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    options = SandboxOptions(brokers=4, bundles=60, is_steady=True, stats_every_s=1.0)
    with Sandbox(options) as sandbox:
        yield Site(tmp_path, sandbox)


@pytest.mark.slow
def test_recorded_sandbox_knows_who_moved_what_also_after_a_restart(
    site: Site, tmp_path: Path
) -> None:
    with site.collecting():
        free, others = placed(site.latest())
        site.execute_run(made(tmp_path / "one"), free[0], others)
        until(lambda: len(site.events("step")) == 1, "the step is recorded")
        until(lambda: moved(site, free[0]) == ["trimtab"], "its move is seen")
        unload_by_hand(site.latest(), free[1], others[0])
        until(lambda: moved(site, free[1]) == ["cluster"], "the other move is seen")
    recorded = site.minutes()
    site.execute_run(made(tmp_path / "two"), free[2], others)  # while nobody records
    with site.collecting():
        until(lambda: len(site.events("step")) == 2, "the step meanwhile is recorded")
        until(lambda: moved(site, free[2]) == ["trimtab"], "its move is seen")
        until(lambda: site.minutes() >= recorded + 4, "minutes go on")
    told = Counter((row["kind"], row["run_id"], row["after"]) for row in site.events("run", "step"))
    assert set(told.values()) == {1}
    assert [row["subject"] for row in site.events("step")] == [free[0], free[2]]
    assert {row["reason"] for row in site.events("step")} == {"a test"}
    assert site.store.rows("shadow", CLUSTER).num_rows
    the_record_is_exact(site)


def placed(snapshot: PulsarSnapshot) -> tuple[list[str], list[str]]:
    """Three bundles of one broker that may be moved, and the brokers that may take them."""
    owner = dict(
        zip(
            snapshot.bundles["bundle"].to_pylist(),
            snapshot.bundles["owner"].to_pylist(),
            strict=True,
        )
    )
    by_broker: dict[str, list[str]] = {}
    for name in movable(snapshot):
        if owner[name]:
            by_broker.setdefault(owner[name], []).append(name)
    source, bundles = max(by_broker.items(), key=lambda one: len(one[1]))
    return bundles, [name for name in snapshot.brokers["broker"].to_pylist() if name != source]


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def moved(site: Site, bundle: str) -> list[str]:
    """Who moved a bundle, each time once."""
    rows = [row for row in site.events("move") if row["subject"] == bundle and row["before"]]
    return list(dict.fromkeys(row["by"] for row in rows))


def unload_by_hand(snapshot: PulsarSnapshot, bundle: str, target: str) -> None:
    """Unload a bundle as somebody would who does not use Trimtab."""
    rows = {row["bundle"]: row["owner"] for row in snapshot.bundles.to_pylist()}
    namespace, _, part = bundle.rpartition("/")
    url = f"http://{rows[bundle]}/admin/v2/namespaces/{namespace}/{part}/unload"
    requests.put(url, params={"destinationBroker": target}, timeout=30).raise_for_status()


def the_record_is_exact(site: Site) -> None:
    """No minute twice, and each the snapshot that it was."""
    found = site.store.minutes(CLUSTER)
    times = found["taken_at"].to_pylist()
    assert len(set(times)) == len(times)
    for at, snapshot_id in list(zip(times, found["snapshot_id"].to_pylist(), strict=True))[::5]:
        moment = datetime.fromtimestamp(at / 1000, tz=UTC)
        assert site.store.snapshot_at(CLUSTER, moment).snapshot_id == snapshot_id
