"""Minutes of a small Pegasus cluster in which every partition has requests."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
from history_rows import CLUSTER
from history_worlds import NOON
from pegasus_snapshots import generated

from core.schemas.pegasus import PEGASUS_TABLES
from core.snapshot.pegasus import PegasusSnapshot


def pegasus_minutes(seed: int, count: int) -> list[PegasusSnapshot]:
    made = []
    for minute in range(count):
        taken_at = NOON + timedelta(minutes=minute - 10)
        bare = generated(2, 4, 4, cluster=CLUSTER, taken_at=taken_at, seed=seed)
        rates = [
            {"app_id": app_id, "index": index, "get_rate": 2.0 + minute, "put_rate": 1.0}
            for app_id in (1, 2)
            for index in range(4)
        ]
        operations = pa.Table.from_pylist(rates, schema=PEGASUS_TABLES["operations"])
        made.append(PegasusSnapshot.build(bare.manifest, {**bare.tables, "operations": operations}))
    return made
