"""What monitoring systems read of a Pegasus cluster: roles of each node, health, level."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from core.gauges import Gauge
from core.pegasus.levels import FunctionLevel
from core.pegasus.snapshot import PegasusFacts
from core.snapshot.pegasus import PegasusSnapshot


def gauges(snapshot: PegasusSnapshot) -> Iterator[Gauge]:
    """Yield primaries and replicas of each node, unhealthy partitions, and the level."""
    facts = PegasusFacts(snapshot)
    names = snapshot.tables["nodes"]["node"].to_pylist()
    for name, measure, is_primary in (
        ("node_primaries", "primaries", True),
        ("node_replicas", "replicas", False),
    ):
        counts = np.asarray(facts.columns.counts(primaries_only=is_primary)).sum(axis=0)
        known = counts[: len(names)]
        for node, count in zip(names, known.tolist(), strict=True):
            yield Gauge(name, f"Partitions of a node: {measure}.", (("node", node),), count)
        off = facts.columns.max_deviation(primaries_only=is_primary)
        if off is not None:
            yield Gauge(
                "max_deviation_ratio",
                "Deviation of the busiest server from the mean (ratio).",
                (("measure", measure),),
                abs(off),
            )
    yield Gauge(
        "unhealthy_partitions",
        "Unhealthy partitions.",
        (),
        float((~facts.columns.is_guardian_healthy).sum()),
    )
    level = facts.effective_level
    for one in FunctionLevel if level is not None else ():
        yield Gauge(
            "meta_function_level",
            "1 for the effective level.",
            (("level", one.word),),
            float(one is level),
        )
