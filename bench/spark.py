"""How fast Spark answers: many clusters at once, and one that no task should hold.

    .venv/bin/python bench/spark.py fleet [--clusters 100] [--brokers N] [--bundles N] [--cores 2]
    .venv/bin/python bench/spark.py huge [--brokers N] [--bundles N] [--cores 2] [--local]
                                         [--ask shed health place simulate] [--keep DIRECTORY]

``fleet`` makes that many generated clusters and asks each what all strategies would unload, in this
process and on Spark; the answers must be equal. ``huge`` writes one cluster as Parquet, part by
part, and asks it on Spark what each of the modular manager's strategies would unload, how its
health is, where all bundles could go, and three rounds of a simulation, or what ``--ask`` names of
these. With ``--keep`` the cluster stays in that directory and is taken from there the next time.
With ``--local`` this process holds the whole snapshot as well (some 1.5 kB a bundle) and the plans,
and rounds, must be equal. One run a number of cores: a process has one session. The first answer
has the start of the workers in it; the peak is of this process, without Java's and the workers'
memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fleet_builder import NIC_KBIT_PER_S, make_snapshot

from connectors.sandbox.java import find_java
from core.findings.request import HealthRequest
from core.findings.verdict import Verdict
from core.operations.health.pulsar import pulsar_health, target_of
from core.operations.place.namespaces import place_bundles
from core.operations.shed import strategies
from core.progress import NoProgress
from core.pulsar.averages import AVERAGES
from core.pulsar.facts import PulsarFacts
from core.pulsar.load import LONG_SAMPLES, SHORT_SAMPLES
from core.pulsar.requests import PlaceRequest, ShedRequest
from core.pulsar.settings import SHEDDING_SWITCHES, effective_settings
from core.pulsar.shedding import Round, find_shedding_strategy, shed_rounds
from core.pulsar.view import LoadView
from core.schemas import PULSAR_TABLES, conform
from core.schemas.pulsar import RATES
from core.simulation import Run, simulate
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_manifest, read_table, save_snapshot
from core.spark.engine import Engine, tables_of
from core.spark.fleet import Answers, InDirectory
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.health import large_health
from core.spark.pulsar.large.place import large_placement
from core.spark.pulsar.large.shed import large_rounds
from core.spark.pulsar.large.simulate import large_simulation
from core.spark.session import SparkOptions, end_session, session

A_NAMESPACE: Final = 500
A_PART: Final = 200_000
CALM: Final = 0.7
WRITTEN: Final = "WRITTEN"
QUESTIONS: Final = ("shed", "health", "place", "simulate")
STRATEGIES: Final = ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder")
RUN: Final = Run(shedding="ThresholdShedder", rounds=3)
ASSUMED: Final = dict.fromkeys(SHEDDING_SWITCHES, True)

HEALTH: Final = HealthRequest()
PLACE: Final = PlaceRequest()


def main() -> int:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=("fleet", "huge"), default="fleet")
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--brokers", type=int)
    parser.add_argument("--bundles", type=int)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--ask", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    parser.add_argument("--keep", type=Path, help="huge: where the cluster is, or will be")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="trimtab-bench-"))
    try:
        return (_fleet if options.what == "fleet" else _huge)(options, root)
    finally:
        end_session()
        shutil.rmtree(root, ignore_errors=True)


def _session(cores: int) -> Any:
    conf = {"spark.driver.memory": "4g"}
    return session(SparkOptions(master=f"local[{cores}]", java_home=find_java().home, conf=conf))


def _timed(words: str, rows: int, ask: Callable[[], Any]) -> Any:
    started = time.perf_counter()
    found = ask()
    lasted = time.perf_counter() - started
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    told = f"{words:34} {lasted:9.1f} s {rows / lasted:14,.0f} bundles/s {peak_mb:8,.0f} MB peak"
    sys.stdout.write(f"{told}\n")
    sys.stdout.flush()
    return found


def _fleet(options: argparse.Namespace, root: Path) -> int:
    brokers, bundles = options.brokers or 20, options.bundles or 5_000
    sources = {}
    for seed in range(options.clusters):
        name = f"fleet-{seed:03d}"
        snapshot = make_snapshot(brokers=brokers, bundles=bundles, seed=seed, cluster=name)
        save_snapshot(snapshot, root / name)
        sources[name] = InDirectory(str(root / name))
    question = strategies.OPERATION, sources, ShedRequest(), NoProgress()
    rows = options.clusters * bundles
    here = _timed("in process", rows, lambda: _tables(Engine(), question))
    spark = _session(options.cores)
    for turn in ("cold", "warm"):
        there = _timed(
            f"Spark, {options.cores} cores, {turn}",
            rows,
            lambda: _tables(Engine(spark), question),
        )
    return _verdict(there == here)


def _tables(engine: Engine, question: Any) -> Answers:
    return tables_of(question[0], engine.map(*question))


def _huge(options: argparse.Namespace, root: Path) -> int:
    brokers, bundles = options.brokers or 10_000, options.bundles or 10_000_000
    directory = (options.keep or root) / f"huge-{brokers}-{bundles}"
    if not (directory / WRITTEN).exists():
        _timed("written", bundles, lambda: write_huge(directory, brokers, bundles))
        (directory / WRITTEN).touch()
    spark = _session(options.cores)
    told = {}
    for words, ask in _questions(options.ask):
        cluster = LargeCluster.of(
            spark, directory, NoProgress()
        )  # nothing is kept between questions
        told[words] = _timed(
            f"Spark, {options.cores} cores, {words}", bundles, partial(ask, cluster)
        )
    end_session()
    if not options.local:
        return 0
    snapshot = _timed("in process, read", bundles, lambda: _whole(directory))
    here = {
        words: _timed(f"in process, {words}", bundles, partial(ask, snapshot))
        for words, ask in _questions_here(options.ask)
    }
    return _verdict(all(_bare(told[words]) == _bare(answer) for words, answer in here.items()))


def _bare(answer: Any) -> Any:
    """Leave out the id: nobody hashed a cluster that was never in memory whole."""
    if not isinstance(answer, dict):
        return answer
    return {
        name: table.drop_columns(sorted({"snapshot_id"} & set(table.column_names)))
        for name, table in answer.items()
    }


def _questions(wanted: list[str]) -> Iterator[tuple[str, Callable[..., Any]]]:
    if "shed" in wanted:
        for name in STRATEGIES:
            yield f"shed {name}", partial(_shed, find_shedding_strategy(name))
    if "health" in wanted:
        yield "health", lambda one: large_health(one, target_of(HEALTH, one.manifest)).verdict
    if "place" in wanted:
        yield "place", lambda one: large_placement(one, PLACE).tables
    if "simulate" in wanted:
        yield "simulate, 3 rounds", lambda one: large_simulation(one, RUN)


def _shed(strategy: Any, cluster: LargeCluster) -> list[Any]:
    return _told(large_rounds(cluster, strategy, cluster.settings(ASSUMED), 1))


def _questions_here(wanted: list[str]) -> Iterator[tuple[str, Callable[..., Any]]]:
    if "shed" in wanted:
        for name in STRATEGIES:
            yield f"shed {name}", partial(_shed_here, find_shedding_strategy(name))
    if "health" in wanted:
        yield "health", _health_here
    if "place" in wanted:
        yield "place", lambda one: place_bundles(PulsarFacts(one), PLACE, NoProgress()).tables
    if "simulate" in wanted:
        yield "simulate, 3 rounds", lambda snapshot: simulate(snapshot, RUN)


def _health_here(snapshot: PulsarSnapshot) -> Verdict:
    return pulsar_health(PulsarFacts(snapshot), HEALTH, NoProgress()).verdict


def _shed_here(strategy: Any, snapshot: PulsarSnapshot) -> list[Any]:
    settings = effective_settings(snapshot, overrides=ASSUMED)
    rounds = shed_rounds(strategy, LoadView.of(snapshot, settings), settings)
    return _told(itertools.islice(rounds, 1))


def _whole(directory: Path) -> PulsarSnapshot:
    tables = {
        name: read_table(directory, name) for name in PULSAR_TABLES if _there(directory, name)
    }
    return PulsarSnapshot.build(load_manifest(directory)[1], tables)


def _there(directory: Path, name: str) -> bool:
    return (directory / f"{name}.parquet").exists()


def _told(rounds: Iterable[Round]) -> list[Any]:
    return [(one.decision, one.moves, one.destinations, one.skipped) for one in rounds]


def _verdict(is_same: bool) -> int:  # noqa: FBT001  # one flag is all there is to it
    sys.stdout.write("equal answers\n" if is_same else "THE ANSWERS DIFFER\n")
    return 0 if is_same else 1


def write_huge(directory: Path, brokers: int, bundles: int) -> None:
    """Write a snapshot directory whose bundles never are in memory together."""
    frame = make_snapshot(brokers=brokers, bundles=10, seed=1, cluster="huge")
    names = np.array(frame.brokers["broker"].to_pylist(), object)
    spaces = [f"tenant/ns-{number:06d}" for number in range(-(-bundles // A_NAMESPACE))]
    save_snapshot(replace(frame, tables=_small(frame, spaces)), directory)
    totals = dict.fromkeys([*RATES, *AVERAGES], np.zeros(brokers))
    rng = np.random.default_rng(2)
    weight = rng.uniform(CALM, 1.3, brokers)
    weight[: max(brokers // 100, 1)] = 2.2
    schema = PULSAR_TABLES["bundles"]
    with pq.ParquetWriter(directory / "bundles.parquet", schema, compression="zstd") as writer:
        for start in range(0, bundles, A_PART):
            count = min(A_PART, bundles - start)
            owner = rng.choice(brokers, count, p=weight / weight.sum())
            part = _part(spaces, start, owner, names)
            writer.write_table(conform(part, schema, name="bundles"), row_group_size=50_000)
            for name in totals:
                summed = np.bincount(owner, part[name].to_numpy(), minlength=brokers)
                totals[name] = totals[name] + summed
    _write_brokers(directory, frame.brokers, totals)
    path = directory / "manifest.json"
    body = json.loads(path.read_text())
    body["manifest"]["tables"]["bundles"]["rows"] = bundles
    for entry in body["manifest"]["tables"].values():
        entry["expected"] = None  # the frame's own counts: its tables were replaced
    path.write_text(json.dumps(body))


def _small(frame: PulsarSnapshot, spaces: list[str]) -> dict[str, pa.Table]:
    """The frame's tables without bundles, with the namespaces there will be, and no policies."""
    namespaces = pa.table(
        {
            "namespace": spaces,
            "tenant": ["tenant"] * len(spaces),
            "is_broker_bound": [False] * len(spaces),
        }
    )
    schema = PULSAR_TABLES["namespaces"]
    tables = {name: frame.tables[name].slice(0, 0) for name in ("bundles", "policies")}
    tables["namespaces"] = conform(namespaces, schema, name="namespaces")
    return {**frame.tables, **tables}


def _part(spaces: list[str], start: int, owner: np.ndarray, names: np.ndarray) -> pa.Table:
    count = owner.size
    rows = np.arange(start, start + count)
    width = 2**32 // A_NAMESPACE
    lower = rows % A_NAMESPACE * width
    upper = np.where(rows % A_NAMESPACE == A_NAMESPACE - 1, 2**32 - 1, lower + width)
    ranges = [
        f"0x{low:08x}_0x{up:08x}"
        for low, up in zip(lower[:A_NAMESPACE].tolist(), upper[:A_NAMESPACE].tolist(), strict=True)
    ]
    texts = np.array(ranges, object)[rows % A_NAMESPACE]
    space = np.array(spaces, object)[rows // A_NAMESPACE]
    rng = np.random.default_rng(start)
    rate = np.round(rng.pareto(1.5, count) * 50, 1)  # many are equal
    columns: dict[str, Any] = {
        "bundle": [f"{one}/{text}" for one, text in zip(space, texts, strict=True)],
        "namespace": space,
        "lower": lower,
        "upper": upper,
        "owner": names[owner],
        "owner_source": ["ownership"] * count,
        "reported_by": names[owner],
        "is_broker_bound": np.zeros(count, np.bool_),
        "topic_count": np.full(count, 5),
        "short_samples": np.full(count, SHORT_SAMPLES),
        "long_samples": np.full(count, LONG_SAMPLES),
    }
    sizes = {"msg_rate_in": 1.0, "msg_rate_out": 2.0}
    lag = rng.uniform(0.5, 1.5, count)  # the load changed: long averages come after it
    for name in RATES:
        values = rate * sizes.get(name, 900.0)
        columns |= {name: values, f"short_{name}": values, f"long_{name}": values * lag}
    return pa.table(columns)


def _write_brokers(directory: Path, brokers: pa.Table, totals: dict[str, np.ndarray]) -> None:
    """Give brokers the load that their bundles add up to; the network is what is used."""
    values: dict[str, np.ndarray] = dict(totals)
    kbit = {way: totals[f"msg_throughput_{way}"] / 125.0 for way in ("in", "out")}
    limit = max(NIC_KBIT_PER_S, float(kbit["out"].max()) * 1.1)
    for way, used in kbit.items():
        values[f"bandwidth_{way}_usage"] = used
        values[f"bandwidth_{way}_limit"] = np.full(used.size, limit)
        values[f"bandwidth_{way}_ratio"] = used / limit
    for name, column in values.items():
        index = brokers.schema.get_field_index(name)
        brokers = brokers.set_column(index, brokers.schema.field(name), pa.array(column))
    pq.write_table(brokers, directory / "brokers.parquet", compression="zstd")


if __name__ == "__main__":
    sys.exit(main())
