"""The most likely broker of every bundle, by namespace, as tables: for jobs."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.operations.operation import CountedSummary, Job, Operation, Rows, Tables
from core.progress import Progress
from core.pulsar.facts import PulsarFacts
from core.pulsar.placement import place_all
from core.pulsar.placement.model import PlacementTable
from core.pulsar.requests import PlaceRequest
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView

PLACEMENT: Final = pa.schema(
    [
        pa.field("strategy", pa.string(), nullable=False),
        pa.field(
            "why", pa.string(), nullable=False
        ),  # why no broker is eligible anywhere; or blank
        pa.field("bundles", pa.int64(), nullable=False),
        pa.field("unassigned", pa.int64(), nullable=False),  # bundles without an eligible broker
    ]
)
"""One row a cluster."""

NAMESPACES: Final = pa.schema(
    [
        pa.field("namespace", pa.string(), nullable=False),
        pa.field("bundles", pa.int64(), nullable=False),
        pa.field("brokers", pa.int64(), nullable=False),  # how many may get one
        pa.field("broker", pa.string()),  # the most likely; null: none
        pa.field("probability", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("stays", pa.float64(), metadata={"unit": "ratio"}),  # mean chance of the owner
    ]
)
"""One row a namespace: its bundles share one distribution."""


def place_bundles(facts: PulsarFacts, request: PlaceRequest, _: Progress) -> Rows:
    """Place all bundles of a cluster, each as if it were the only one that moves.

    Raises:
        UnknownNameError: No such strategy.
    """
    snapshot = facts.snapshot
    settings = effective_settings(snapshot, overrides=request.settings)
    table = place_all(LoadView.of(snapshot, settings), settings, strategy=request.strategy)
    return place_tables(table.strategy, table.why, by_namespace(table))


def place_tables(strategy: str, why: str, namespaces: pa.Table) -> Rows:
    """Return the tables of one cluster, whoever placed its bundles."""
    unassigned = namespaces.filter(pc.equal(namespaces["brokers"], 0))["bundles"]
    row = {
        "strategy": strategy,
        "why": why,
        "bundles": pc.sum(namespaces["bundles"]).as_py() or 0,
        "unassigned": pc.sum(unassigned).as_py() or 0,
    }
    placement = pa.Table.from_pylist([row], schema=PLACEMENT)
    return Rows({"placement": placement, "namespaces": namespaces})


def by_namespace(table: PlacementTable) -> pa.Table:
    """Return a placement by namespace, those with bundles only."""
    view, count = table.view, len(table.view.namespaces)
    bundles = np.bincount(table.bundle_group, minlength=count)
    stays = np.bincount(table.bundle_group, weights=table.stay_probability(), minlength=count)
    sizes = np.diff(table.offsets)
    best = _most_likely(table)
    names = np.array([*view.brokers, None], object)
    chances = np.append(table.probability, np.nan)
    found = pa.table(
        {
            "namespace": pa.array(view.namespaces, pa.string()),
            "bundles": bundles,
            "brokers": sizes,
            "broker": pa.array(names[np.append(table.broker, -1)[best]], pa.string()),
            "probability": pa.array(chances[best], from_pandas=True),
            "stays": stays / np.maximum(bundles, 1),
        },
        schema=NAMESPACES,
    )
    return found.filter(pa.array(bundles > 0))


def _most_likely(table: PlacementTable) -> np.ndarray:
    """Entry of each namespace's most likely broker, the first of equals; past the end if none."""
    group = np.repeat(np.arange(table.offsets.size - 1), np.diff(table.offsets))
    order = np.lexsort((table.broker, -table.probability, group))
    best = np.full(table.offsets.size - 1, table.probability.size, np.int64)
    best[group[order][::-1]] = order[::-1]  # the first of each group is written last
    return best


def _words(found: Tables) -> str:
    """Return the number of bundles, and of those without a broker."""
    bundles = pc.sum(found["placement"]["bundles"]).as_py() or 0
    unassigned = pc.sum(found["placement"]["unassigned"]).as_py() or 0
    return f"bundles placed: {bundles:,}; unassigned: {unassigned:,}"


OPERATION: Final = Operation(
    name="place-namespaces",
    module=__name__,
    help="""Show the most likely broker of every bundle, by namespace.""",
    request=PlaceRequest,
    answers={"pulsar": place_bundles},
    spread={"pulsar": "core.spark.pulsar.large.place:spread_placement"},
    job=Job(
        kind="place",
        title="Placement of every bundle",
        question="Which broker would get each bundle, and which bundles stay unassigned?",
        tables={
            "placement": "Strategy and bundles without a broker, by cluster.",
            "namespaces": "The most likely broker for the bundles of each namespace, and the "
            "bundles that stay.",
        },
        summary=CountedSummary("placement", _words),
        schemas={"placement": PLACEMENT, "namespaces": NAMESPACES},
    ),
)
