"""Generated fleets for the optimiser: uneven, with every kind of constraint, and mostly solvable.

Bundles of log-normal size (the largest a fraction of a broker's mean), owners by skewed weights, an
idle broker; then, by choice, isolation pools in proportion to their load, anti-affinity groups with
failure domains, a topic limit, an older broker.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from fleet_builder import make_snapshot

from core.pulsar.settings import EffectiveSettings, effective_settings
from core.schemas import PULSAR_TABLES
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot


@dataclass(frozen=True, slots=True)
class FleetRecipe:
    """What a fleet is made of.

    Attributes:
        largest_ratio: Largest bundle, share of the mean load of a broker.
        pools: Isolation pools; 0 and 1: no policy.
        groups: Anti-affinity groups of two namespaces each.
        has_domains: Whether failure domains count.
        topic_room: Topics that a broker may have over the mean, share of it; ``None``: no limit.
        older: Brokers of an older version, with ``preferLaterVersions``.
    """

    brokers: int = 12
    bundles: int = 600
    seed: int = 7
    largest_ratio: float = 0.25
    pools: int = 0
    groups: int = 0
    has_domains: bool = False
    topic_room: float | None = None
    older: int = 0


def fleet(recipe: FleetRecipe) -> tuple[PulsarSnapshot, EffectiveSettings]:
    """Build a fleet and the settings to go by."""
    made = make_snapshot(brokers=recipe.brokers, bundles=recipe.bundles, seed=recipe.seed)
    rng = np.random.default_rng(recipe.seed + 1000)
    brokers = made.brokers.to_pydict()
    bundles = made.bundles.to_pydict()
    names = np.array(brokers["broker"])
    own = np.array(bundles["is_broker_bound"])
    namespaces = sorted(
        {n for n, is_own in zip(bundles["namespace"], own, strict=True) if not is_own}
    )
    pool_of = {name: index % max(recipe.pools, 1) for index, name in enumerate(namespaces)}
    pool = np.array([pool_of.get(name, -1) for name in bundles["namespace"]])
    bytes_in = _sizes(rng, recipe, own)
    members = _members(recipe, pool, bytes_in, own)
    for index, brokers_of in enumerate(members):  # each pool carries what its brokers should
        rows = (pool == index) & ~own
        share = brokers_of.size / recipe.brokers
        bytes_in[rows] *= share * bytes_in[~own].sum() / bytes_in[rows].sum()
    owner = np.array([names.tolist().index(name) for name in bundles["owner"]])
    for index, brokers_of in enumerate(members):
        rows = np.flatnonzero((pool == index) & ~own)
        weight = rng.uniform(0.5, 1.5, brokers_of.size)
        weight[0] *= 2.0
        weight[-1] *= 0.0 if brokers_of.size > 2 else 1.0
        owner[rows] = rng.choice(brokers_of, rows.size, p=weight / weight.sum())
    fan_out = 1.6  # the same for all, so that a pool's share holds for both directions
    values = {
        "msg_throughput_in": bytes_in,
        "msg_throughput_out": bytes_in * fan_out,
        "msg_rate_in": bytes_in / 1000,
        "msg_rate_out": bytes_in / 1000 * fan_out,
    }
    bundles["owner"] = bundles["reported_by"] = names[owner].tolist()
    topics = np.array(bundles["topic_count"])
    brokers["topic_count"] = (
        np.bincount(owner, weights=topics, minlength=names.size).astype(int).tolist()
    )
    for name in RATES:
        bundles[name] = values[name].tolist()
        brokers[name] = np.bincount(owner, weights=values[name], minlength=names.size).tolist()
    _usages(brokers)
    brokers["version"] = ["4.0.8"] * recipe.older + ["4.2.4"] * (names.size - recipe.older)
    spaces = made.namespaces.to_pydict()
    spaces["anti_affinity_group"] = _groups(recipe, spaces["namespace"], namespaces)
    tables = {"brokers": brokers, "bundles": bundles, "namespaces": spaces}
    built = {
        name: pa.Table.from_pydict(table, schema=PULSAR_TABLES[name])
        for name, table in tables.items()
    }
    built["policies"] = _policies(recipe, names, members, namespaces, pool_of)
    snapshot = PulsarSnapshot.build(made.manifest, {**made.tables, **built})
    overrides: dict[str, object] = {
        "failureDomainsEnabled": recipe.has_domains,
        "preferLaterVersions": recipe.older > 0,
    }
    if recipe.topic_room is not None:
        mean = float(np.mean(brokers["topic_count"]))
        overrides["loadBalancerBrokerMaxTopics"] = int(mean * (1 + recipe.topic_room))
    return snapshot, effective_settings(snapshot, overrides=overrides)


def _sizes(rng: np.random.Generator, recipe: FleetRecipe, own: np.ndarray) -> np.ndarray:
    sizes = rng.lognormal(0.0, 1.2, own.size) * 1e6
    for _ in range(4):  # the mean falls while the largest are cut
        mean = sizes[~own].sum() / recipe.brokers
        sizes = np.minimum(sizes, recipe.largest_ratio * mean / 3.5)
    sizes[own] = 0.05
    return sizes


def _members(
    recipe: FleetRecipe, pool: np.ndarray, sizes: np.ndarray, own: np.ndarray
) -> list[np.ndarray]:
    """Brokers of each pool, in proportion to its traffic, two at least."""
    count = max(recipe.pools, 1)
    load = np.array([sizes[(pool == index) & ~own].sum() for index in range(count)])
    ends = np.round(np.cumsum(load) / load.sum() * recipe.brokers).astype(int)
    ends = np.maximum(ends, 2 * np.arange(1, count + 1))
    ends = np.minimum(ends, recipe.brokers - 2 * np.arange(count - 1, -1, -1))
    starts = np.append(0, ends[:-1])
    return [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]


def _usages(brokers: dict[str, list]) -> None:
    """Bandwidth follows traffic; CPU lies above a floor."""
    for way in ("in", "out"):
        kbit = np.array(brokers[f"msg_throughput_{way}"]) / 125.0
        limit = np.array(brokers[f"bandwidth_{way}_limit"])
        brokers[f"bandwidth_{way}_usage"] = kbit.tolist()
        brokers[f"bandwidth_{way}_ratio"] = (kbit / limit).tolist()
    ratio = np.array(brokers["bandwidth_out_ratio"])
    cpu = 40.0 + 500.0 * np.minimum(ratio, 1.4)
    brokers["cpu_usage"] = cpu.tolist()
    brokers["cpu_ratio"] = (cpu / np.array(brokers["cpu_limit"])).tolist()


def _groups(recipe: FleetRecipe, rows: list[str], namespaces: list[str]) -> list[str | None]:
    chosen = namespaces[: 2 * recipe.groups]
    group_by_name = {name: f"group-{index // 2}" for index, name in enumerate(chosen)}
    return [group_by_name.get(name) for name in rows]


def _policies(
    recipe: FleetRecipe,
    names: np.ndarray,
    members: list[np.ndarray],
    namespaces: list[str],
    pool_of: dict[str, int],
) -> pa.Table:
    rows = [
        ("failure_domain", f"zone-{letter}", json.dumps({"brokers": names[index::3].tolist()}))
        for index, letter in enumerate("abc")
    ]
    for index, brokers in enumerate(members if recipe.pools > 1 else []):
        body = {
            "namespaces": [name for name in namespaces if pool_of[name] == index],
            "primary": [
                name.rpartition(":")[0].replace(".", "\\.") for name in names[brokers].tolist()
            ],
            "secondary": [],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "100"},
            },
        }
        rows.append(("isolation", f"pool-{index}", json.dumps(body)))
    columns = zip(*rows, strict=True)
    return pa.Table.from_pydict(
        {
            name: list(column)
            for name, column in zip(("kind", "name", "body"), columns, strict=True)
        },
        schema=PULSAR_TABLES["policies"],
    )


def fifty() -> list[FleetRecipe]:
    """The fleets that the target is measured on: 4 to 200 brokers, plain and constrained."""
    plain = FleetRecipe()
    recipes = []
    for seed in range(50):
        brokers = (4, 8, 12, 20, 30, 50, 75, 100, 150, 200)[seed % 10]
        kind = seed // 10
        recipes.append(
            replace(
                plain,
                brokers=brokers,
                bundles=brokers * (40, 60, 60, 65, 50)[kind],
                seed=seed,
                largest_ratio=(0.25, 0.15, 0.3, 0.1, 0.2)[kind],
                pools=(0, 2, 0, 3, 0)[kind] if brokers >= 12 else 0,
                groups=(0, 0, 1, 1, 1)[kind],
                has_domains=kind == 4,
                topic_room=0.5 if kind == 3 else None,
            )
        )
    return recipes
