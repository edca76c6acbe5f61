"""Trimtab and its clusters in figures, for Prometheus; see ``docs/operations.md`` for their list.

Everything is read from what collector, worker, journal and jobs have written: a scrape asks no
cluster. Figures of a snapshot are computed once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cachetools
import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from core.errors import OpsError
from core.gauges import Gauge
from core.snapshot.store import load_manifest
from core.systems import record_of
from dashboard import services
from dashboard.services import jobs, processes

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Cluster, Config

PREFIX: Final = "trimtab_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_KEPT_S: Final = 2.0
"""Scrapes within this time get the same text: several servers may ask at once."""

_MAX_SNAPSHOTS: Final = 64
_MAX_TEXTS: Final = 8
_RUNS: Final = 200
_JOB_STATES: Final = ("queued", "running", "done", "failed", "stopped")

_LOG: Final = logging.getLogger("trimtab.metrics")

_gauges: Final = cachetools.LRUCache[tuple[str, str], tuple[Gauge, ...]](_MAX_SNAPSHOTS)
_lock: Final = threading.Lock()
_text: Final = cachetools.LRUCache[tuple[str, ...], tuple[float, bytes]](_MAX_TEXTS)


def metrics_text(config: Config) -> bytes:
    """Return the metrics of a configuration's clusters in the text format of Prometheus.

    What cannot be read is left out, and ``trimtab_source_up`` of it is 0.
    """
    key = str(config.state_dir), *(cluster.name for cluster in config.clusters)
    with _lock:
        until, text = _text.get(key, (0.0, b""))
        if until < time.monotonic():
            registry = CollectorRegistry()
            registry.register(_Metrics(config))
            text = generate_latest(registry)
            _text[key] = (time.monotonic() + _KEPT_S, text)
    return text


def readiness(config_of: Callable[[], Config]) -> list[str]:
    """Return the faults that keep requests from being served, a sentence each; empty if none.

    Nobody signs in to ask this, so that no path, host or message of another program is in it; the
    log has these.
    """
    try:
        config = config_of()
    except OpsError:
        _LOG.exception("not ready: configuration")
        return ["The configuration cannot be read: run `trimtab check`."]
    faults = []
    try:
        services.journal(config).newest()
    except OpsError:
        _LOG.exception("not ready: journal")
        faults.append("The journal is not available.")
    if not config.state_dir.is_dir():
        faults.append("The state directory does not exist.")
    # of all clusters' workers, say, the first: the names of clusters are for who signs in
    down = {one.name: one for one in sorted(processes.down(config), key=_since, reverse=True)}
    return [*faults, *(one.sentence for one in down.values())]


def _since(state: processes.ProcessState) -> datetime:
    return state.since


class _Metrics(Collector):
    """Reads everything when it is scraped.

    Args:
        config: The configuration.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._families: dict[str, GaugeMetricFamily] = {}

    def describe(self) -> Iterable[Any]:
        """Return nothing: names are known when they are read."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield every family."""
        self._families.clear()
        now = services.now()
        for cluster in self._config.clusters:
            self._guarded(cluster.name, "snapshot", partial(self._snapshot, cluster, now))
            self._guarded(cluster.name, "collector", partial(self._collector, cluster, now))
            self._guarded(cluster.name, "worker", partial(self._worker, cluster))
        self._guarded("", "journal", self._journal)
        self._guarded("", "jobs", self._jobs)
        self._processes()
        yield from self._families.values()

    def _guarded(self, cluster: str, source: str, read: Callable[[], bool]) -> None:
        """Read a source; one that cannot be read costs the others nothing."""
        try:
            is_up = read()
        except (OpsError, OSError):
            is_up = False
        self._add(
            "source_up",
            "1 if the source of these metrics is readable and alive.",
            {"cluster": cluster, "source": source},
            float(is_up),
        )

    def _add(self, name: str, text: str, labels: Mapping[str, str], value: float) -> None:
        family = self._families.get(name)
        if family is None:
            family = GaugeMetricFamily(f"{PREFIX}{name}", text, labels=list(labels))
            self._families[name] = family
        family.add_metric(list(labels.values()), value)

    # -- clusters -------------------------------------------------------------------------------

    def _snapshot(self, cluster: Cluster, now: datetime) -> bool:
        name = cluster.name
        stored = services.snapshot_store(self._config).latest(name, now)
        if stored is None:
            return False
        self._add(
            "snapshot_age_seconds",
            "Age of the newest snapshot.",
            {"cluster": name},
            (now - stored.taken_at).total_seconds(),
        )
        _, manifest = load_manifest(stored.path)
        self._add(
            "snapshot_seconds",
            "Collection time of the newest snapshot.",
            {"cluster": name},
            manifest.duration_s,
        )
        self._add(
            "snapshot_problems",
            "Sources that could not be read or have invalid content.",
            {"cluster": name},
            len(manifest.problems),
        )
        for table, source in manifest.tables.items():
            if source.coverage_ratio is not None:
                self._add(
                    "snapshot_coverage_ratio",
                    "Ratio of rows read to rows expected.",
                    {"cluster": name, "table": table},
                    source.coverage_ratio,
                )
        for gauge in self._gauges(cluster, stored):
            labels = {"cluster": name, **dict(gauge.labels)}
            self._add(gauge.name, gauge.help, labels, gauge.value)
        return True

    def _gauges(self, cluster: Cluster, stored: CachedSnapshot) -> tuple[Gauge, ...]:
        key = (cluster.name, str(stored.path))
        if key not in _gauges:
            snapshot = record_of(cluster.kind).load(stored.path)
            system = services.system_of(self._config, cluster)
            _gauges[key] = tuple(system.gauges(snapshot))
        return _gauges[key]

    def _collector(self, cluster: Cluster, now: datetime) -> bool:
        status = _read(services.collector_status_path(self._config, cluster.name))
        labels = {"cluster": cluster.name}
        if (last := status.get("last_success_at")) is not None:
            age_s = (now - datetime.fromisoformat(last)).total_seconds()
            self._add(
                "collector_lag_seconds", "Time since the collector's last success.", labels, age_s
            )
        if status.get("last_duration_s") is not None:
            self._add(
                "collector_cycle_seconds",
                "Duration of the collector's last cycle.",
                labels,
                status["last_duration_s"],
            )
        recording = status.get("history") or {}
        self._add(
            "history_missed_snapshots",
            "Snapshots that were not recorded since the collector started.",
            labels,
            recording.get("missed") or 0,
        )
        if recording.get("bytes") is not None:
            self._add("history_bytes", "Size of the recorded history.", labels, recording["bytes"])
        lag_s = services.pipeline_lag_s(self._config, cluster.name, now)
        if lag_s is not None:
            text = "Time since the end of the first recorded hour that is not rolled up."
            self._add("pipeline_lag_seconds", text, labels, lag_s)
            text = "Hours that were due after the last turn of the pipeline."
            self._add("pipeline_hours_due", text, labels, recording.get("hours_due") or 0)
            text = "Rows of hours and days written since the collector started."
            self._add("pipeline_rows", text, labels, recording.get("tier_rows") or 0)
        for source, part in (("cluster", status), ("history", recording)):
            error = part.get("last_error")
            code = error.get("code", "") if error else ""
            self._add(
                "collector_error",
                "1 if the last attempt of the collector failed, by failed part.",
                {**labels, "source": source, "code": code},
                float(error is not None),
            )
        return bool(status) and not status.get("stopped_at") and not status.get("last_error")

    def _worker(self, cluster: Cluster) -> bool:
        return services.is_worker_alive(self._config, cluster.name)

    # -- journal and jobs -----------------------------------------------------------------------

    def _journal(self) -> bool:
        journal = services.journal(self._config)
        self._add("journal_entries", "Entries of the journal.", {}, journal.newest()[0])
        if (size := services.journal_bytes(self._config)) is not None:
            self._add("journal_bytes", "Size of the journal's file.", {}, size)
        if (age_s := services.anchor_age_s(self._config)) is not None:
            self._add("journal_anchor_age_seconds", "Time since the newest anchor.", {}, age_s)
        names = {one.name for one in self._config.clusters}
        runs = [run for run in services.runs(self._config, limit=_RUNS) if run.cluster in names]
        states = Counter((view.cluster, view.state) for view in runs)
        for (name, state), count in sorted(states.items()):
            self._add(
                "runs",
                f"The latest {_RUNS} runs by state.",
                {"cluster": name, "state": state},
                count,
            )
        waiting = Counter(
            view.cluster for view in runs if services.awaits_approval(self._config, view)
        )
        for cluster in self._config.clusters:
            self._add(
                "runs_waiting_for_approval",
                "Runs waiting for approval.",
                {"cluster": cluster.name},
                waiting[cluster.name],
            )
        return True

    def _jobs(self) -> bool:
        states = Counter(job.state for job in jobs.jobs(self._config))
        for state in _JOB_STATES:
            self._add("jobs", "Jobs of the queue by state.", {"state": state}, states[state])
        return jobs.is_served(self._config)

    def _processes(self) -> None:
        for one in processes.supervised():
            labels = {"process": one.name}
            text = "1 if the supervised process is running."
            self._add("process_up", text, labels, float(one.is_up))
            text = "Restarts of the process since the command started."
            self._add("process_restarts", text, labels, one.restarts or 0)


def _read(path: Path) -> Mapping[str, Any]:
    """Return a status file; empty: it is not there, or being written."""
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
