"""A whole round of the load manager unloads what ours says, on generated fleets.

The real ``ModularLoadManagerImpl`` runs the round many times: what we skip it never unloads, what
we unload for sure it always does, and each destination it names has a probability in ours.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from placement_driver import ask_real_classes, driver_command
from placement_fleets import Fleet, make_fleet
from pulsar_jars import SkipReason

from core.pulsar.settings import effective_settings
from core.pulsar.shedding import Round, find_shedding_strategy, shed_rounds
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

FLEETS = 120
DRAWS = 40
SHEDDERS = ("OverloadShedder", "ThresholdShedder")

pytestmark = pytest.mark.timeout(900)  # the first test may have to fetch the jars


@dataclass(frozen=True)
class _Case:
    """A placement fleet whose bundles carry traffic.

    Attributes:
        fleet: With its policies, groups and settings.
        shedder: Configured strategy.
        throughput: bytes/s by bundle.
    """

    fleet: Fleet
    shedder: str
    throughput: dict[str, float]

    @classmethod
    def of(cls, seed: int) -> _Case:
        rng = random.Random(seed)
        # the leader's own running usage is not known to us: one strategy that keeps none
        fleet = make_fleet(seed, "LeastLongTermMessageRate")
        fleet.preallocated.clear()
        fleet.conf["loadBalancerSheddingEnabled"] = True
        fleet.conf["loadBalancerBrokerOverloadedThresholdPercentage"] = rng.choice((30, 50, 85))
        fleet.conf["loadBalancerBundleUnloadMinThroughputThreshold"] = 0.0
        throughput = {name: rng.randrange(1, 90) * 1e6 for name in fleet.bundles}
        for broker, names in fleet.owned.items():
            fleet.reports[broker]["msgThroughputIn"] = sum(throughput[name] for name in names)
        return cls(fleet, rng.choice(SHEDDERS), throughput)

    def overrides(self) -> dict[str, object]:
        return {**self.fleet.overrides(), "loadBalancerLoadSheddingStrategy": _CLASS + self.shedder}

    def query(self) -> dict[str, Any]:
        body = self.fleet.case([])
        body["conf"]["loadBalancerLoadSheddingStrategy"] = _CLASS + self.shedder
        return {**body, "throughput": self.throughput, "draws": DRAWS}

    def round(self) -> Round:
        snapshot = self.fleet.snapshot()
        brokers = snapshot.brokers
        reports = self.fleet.reports
        carried = [reports[name]["msgThroughputIn"] for name in brokers["broker"].to_pylist()]
        names = snapshot.bundles["bundle"].to_pylist()
        tables = {
            **snapshot.tables,
            "brokers": _with(brokers, "msg_throughput_in", carried),
            "bundles": _with(
                snapshot.bundles, "short_msg_throughput_in", [self.throughput[n] for n in names]
            ),
        }
        whole = PulsarSnapshot.build(snapshot.manifest, tables)
        settings = effective_settings(whole, overrides=self.overrides())
        strategy = find_shedding_strategy(self.shedder)
        return next(shed_rounds(strategy, LoadView.of(whole, settings), settings))


_CLASS = "org.apache.pulsar.broker.loadbalance.impl."


def _with(table: pa.Table, name: str, values: list[float]) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, name, pa.array(values, pa.float64()))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[list[list[str]]]]:
    """Draws of the real load manager by seed."""
    command = driver_command("UnloadDriver")
    if isinstance(command, SkipReason):
        pytest.skip(command)
    seeds = range(FLEETS)
    folder: Path = tmp_path_factory.mktemp("unloads")
    answers = ask_real_classes((_Case.of(seed).query() for seed in seeds), folder, "UnloadDriver")
    return {seed: answer["draws"] for seed, answer in zip(seeds, answers, strict=True)}


@pytest.mark.slow
def test_a_round_unloads_what_the_real_load_manager_unloads(
    told: dict[int, list[list[list[str]]]],
) -> None:
    seen = Counter[str]()
    for seed, draws in told.items():
        done = _Case.of(seed).round()
        found = Counter(bundle for draw in draws for bundle, _ in draw)
        assert not set(found) & set(done.skipped), seed
        assert set(found) <= set(done.destinations), seed
        for move in done.moves:
            chances = done.destinations[move.bundle]
            drawn = Counter(to for draw in draws for name, to in draw if name == move.bundle)
            assert all(chances.get(to, 0.0) > 0 for to in drawn), (seed, move, drawn, chances)
            stays = chances.get(move.broker, 0.0)
            if stays == 0.0:
                assert found[move.bundle] == DRAWS, (seed, move, chances)
            seen["moved"] += 1
            seen["drawn"] += len(chances) > 1
            seen["may stay"] += stays > 0
        seen["skipped"] += len(done.skipped)
        for why in done.skipped.values():
            seen[why.split(" ")[0]] += 1
    assert seen["moved"] > 100, seen
    assert min(seen[kind] for kind in ("drawn", "skipped", "namespace", "anti-affinity")) > 3, seen
