"""Jobs in the queue as a server leaves them, with result tables of the declared forms."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.config.model import TrimtabConfig
from connectors.jobs.queue import JOBS, JobQueue, queue_of
from connectors.jobs.record import Answer
from core.history.backtest.schemas import CANDIDATES, METRICS, MOVES, RECOMMENDED, RUNS, TIMELINE

BEST = "ThresholdShedder · loadBalancerBrokerThresholdShedderPercentage=20"
RECORD = "as recorded"
START = datetime(2026, 11, 21, 12, tzinfo=UTC)
GRID: dict[str, Any] = {
    "clusters": ["fleet"],
    "shedding": ["recorded", "ThresholdShedder"],
    "settings": {"loadBalancerBrokerThresholdShedderPercentage": [10, 20]},
    "seeds": [1, 2],
    "target": "vivo",
}


def row(schema: pa.Schema, **given: Any) -> dict[str, Any]:
    """A row of a schema: what is not given is null, or the plainest value where it may not be."""
    plain = {pa.string(): "", pa.int64(): 0, pa.float64(): 0.0, pa.bool_(): False}
    nothing = {field.name: None if field.nullable else plain[field.type] for field in schema}
    unknown = set(given) - set(nothing)
    assert not unknown, unknown
    return nothing | given


def scored(deviation: float, unloads: float, **more: float) -> dict[str, float]:
    """The means and ranges of a candidate."""
    means = {"deviation_p95": deviation, "deviation_mean": deviation / 2} | more
    means |= {"unloads_per_day": unloads, "minutes_over_ratio": 0.1}
    found = dict.fromkeys(
        (f"{name}{end}" for name in METRICS for end in ("", "_low", "_high")), 0.0
    )
    for name, mean in means.items():
        found |= {name: mean, f"{name}_low": mean * 0.8, f"{name}_high": mean * 1.2}
    return found


def candidates(clusters: tuple[str, ...] = ("fleet",)) -> pa.Table:
    rows = []
    for cluster in (*clusters, None) if len(clusters) > 1 else clusters:
        told: list[dict[str, Any]] = [
            {"candidate": RECORD, "is_record": True, **scored(0.31, 188)},
            {"candidate": BEST, "rank": 1, "is_pareto": True, "meets_target": True}
            | scored(0.14, 6),
            {"candidate": "no shedding", "rank": 2, "is_pareto": True} | scored(0.6, 0),
            {"candidate": "AvgShedder", "problem": "Not known to this load manager."},
        ]
        rows += [
            row(CANDIDATES, cluster=cluster, candidate_number=number, settings="{}", **one)
            for number, one in enumerate(told)
        ]
    return pa.Table.from_pylist(rows, CANDIDATES)


def timeline(minutes: int, clusters: tuple[str, ...] = ("fleet",)) -> pa.Table:
    """Deviation of three candidates, all minutes of one made at once."""
    parts = []
    for cluster in clusters:
        for number, (name, seeds) in enumerate(
            [(RECORD, (0,)), (BEST, (1, 2)), ("no shedding", (1,))]
        ):
            for seed in seeds:
                at = [int((START.timestamp() + 60 * n) * 1000) for n in range(minutes)]
                parts.append(
                    pa.table(
                        {
                            "cluster": [cluster] * minutes,
                            "window": [0] * minutes,
                            "candidate_number": [number] * minutes,
                            "candidate": [name] * minutes,
                            "seed": [seed] * minutes,
                            "taken_at": at,
                            "deviation": [0.1 + (n % 7) / 50 for n in range(minutes)],
                            "farthest": ["broker-1:8080"] * minutes,
                            "nodes": [4] * minutes,
                            "unloads": [n % 3 == 0 for n in range(minutes)],
                            "moved_bytes_per_s": [1e6] * minutes,
                            "client_cuts": [2] * minutes,
                            "splits": [0] * minutes,
                        }
                    ).cast(TIMELINE)
                )
    return pa.concat_tables(parts)


def moves() -> pa.Table:
    at = int(START.timestamp() * 1000)
    told = {"taken_at": at, "subject": "t/n/0x0_0x1", "source": "a:1", "destination": "b:1"}
    rows = [
        row(MOVES, cluster="fleet", candidate=BEST, seed=1, kind="unload", clients=3, **told)
    ] * 3
    return pa.Table.from_pylist(rows, MOVES)


def recommended(key: str, old: str, new: str, cluster: str = "fleet") -> pa.Table:
    one = {"cluster": cluster, "candidate": BEST, "key": key, "old": old, "new": new}
    rows = [row(RECOMMENDED, **one, is_dynamic=True, takes_effect="at once", why="It is calmer.")]
    return pa.Table.from_pylist(rows, RECOMMENDED)


def runs(minutes: int) -> pa.Table:
    rows = [row(RUNS, cluster="fleet", candidate=BEST, settings="{}", minutes=minutes)]
    return pa.Table.from_pylist(rows, RUNS)


@lru_cache(maxsize=4)
def queue(state_dir: Path) -> JobQueue:
    return queue_of(TrimtabConfig(state_dir=state_dir))


def ask(state_dir: Path, kind: str, asked: dict[str, Any], *, ago_s: float = 0.0) -> str:
    """Put a job into the queue."""
    moment = datetime.now(UTC) - timedelta(seconds=ago_s)
    return queue(state_dir).add(kind, asked, "ada@example.org", moment)


def change(queue: JobQueue, job_id: str, **values: Any) -> None:
    """Write columns of a job as no server would."""
    database, _ = queue._open()
    with database.writing() as connection:
        connection.execute(JOBS.update().where(JOBS.c.id == job_id).values(**values))


def tell(state_dir: Path, job_id: str, **status: Any) -> None:
    """Write a job's status."""
    now = datetime.now(UTC).isoformat()
    text = json.dumps({"started_at": now, "updated_at": now} | status)
    change(queue(state_dir), job_id, state=status.get("state", "queued"), status=text)


def finish(state_dir: Path, job_id: str, sentence: str, tables: dict[str, pa.Table]) -> None:
    """Let a job be done."""
    claim = queue(state_dir).claim(job_id, datetime.now(UTC))
    assert claim is not None
    out = claim.empty_result()
    for name, table in tables.items():
        pq.write_table(table, out / f"{name}.parquet")
    about = {name: f"One row a thing of {name}." for name in tables}
    answer = Answer(sentence=sentence, tables=about, facts={})
    claim.end(claim.job.status, "done", datetime.now(UTC), answer=answer)


def backtest(
    state_dir: Path,
    change: pa.Table | None = None,
    *,
    clusters: tuple[str, ...] = ("fleet",),
    minutes: int = 60,
) -> str:
    """A finished back-test; return its name."""
    grid = GRID | {"clusters": list(clusters)}
    job_id = ask(state_dir, "backtest", {"grid": grid, "engine": "local"})
    key = "loadBalancerBrokerThresholdShedderPercentage"
    tables = {
        "candidates": candidates(clusters),
        "runs": runs(minutes),
        "timeline": timeline(minutes, clusters),
        "moves": moves(),
        "recommended": recommended(key, "10", "20") if change is None else change,
    }
    finish(
        state_dir, job_id, "ThresholdShedder would have had max broker deviation p95 14%.", tables
    )
    return job_id


def server_says(state_dir: Path, *, silent_s: float = 0.0) -> None:
    """Write what a job server writes every two seconds."""
    path = state_dir / "jobs" / "server.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    seen = datetime.now(UTC) - timedelta(seconds=silent_s)
    status = {
        "cluster": "",
        "worker": "jobs",
        "last_seen_at": seen.isoformat(),
        "doing": "Waiting.",
    }
    path.write_text(json.dumps(status))
