"""What-ifs of many Pulsar clusters: every shedding strategy with every placement strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from core.planning.what_if.compare import PAIRS, compare
from core.planning.what_if.request import WhatIfRequest
from core.snapshot import PulsarSnapshot
from core.spark.fleet import Operation, require_system


def compare_cluster(snapshot: PulsarSnapshot, request: WhatIfRequest) -> Mapping[str, pa.Table]:
    """Simulate the pairs on a cluster.

    Raises:
        InputError: It is no Pulsar cluster, or cannot be simulated.
    """
    require_system(snapshot, "pulsar", "shed bundles")
    return {"pairs": compare(snapshot, request)}


WHAT_IF: Final = Operation(compare_cluster, {"pairs": PAIRS})
"""Every shedding strategy with every placement strategy."""
