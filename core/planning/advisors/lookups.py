"""What a namespace-wide unload costs the brokers, compared with unloading bundle by bundle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from core.arrays import column_values
from core.errors import InputError, UnknownNameError
from core.snapshot import PulsarSnapshot


@dataclass(frozen=True, kw_only=True)
class UnloadPressure:
    """Lookups that follow an unload.

    Attributes:
        namespace: Of the bundles.
        bundles: With an owner.
        clients: Producers and consumers on them: each looks its topic up again.
        unknown_bundles: Bundles whose number of clients is unknown.
        at_once: Lookups at the same moment when the whole namespace is unloaded.
        worst_bundle: The bundle with most clients.
        worst_clients: Of it: most lookups at the same moment bundle by bundle.
        minutes: That bundle by bundle takes at the pace.
        per_s: Lookups a second on average then.
        sentence: Both in words.
    """

    namespace: str
    bundles: int
    clients: int
    unknown_bundles: int
    at_once: int
    worst_bundle: str
    worst_clients: int
    minutes: float
    per_s: float
    sentence: str


def unload_pressure(
    snapshot: PulsarSnapshot, namespace: str, *, pace_per_min: float
) -> UnloadPressure:
    """Return the lookups after an unload of a namespace, all at once and bundle by bundle.

    Args:
        snapshot: With statistics of the bundles.
        namespace: ``tenant/namespace``.
        pace_per_min: Bundles a minute.
    Raises:
        UnknownNameError: The snapshot has no such namespace.
        InputError: A pace that is not above 0, or a namespace without an owned bundle.
    """
    if not pace_per_min > 0:
        raise InputError(f"The rate {pace_per_min:g} bundles/min is not above 0.")
    rows = snapshot.bundles.filter(pc.equal(snapshot.bundles["namespace"], namespace))
    if not rows.num_rows:
        known = pc.unique(snapshot.bundles["namespace"]).to_pylist()
        place = f"the snapshot of {snapshot.manifest.cluster}"
        raise UnknownNameError.of("namespace", namespace, known, place=place)
    rows = rows.filter(pc.is_valid(rows["owner"]))
    if not rows.num_rows:
        raise InputError(
            f"No bundle of {namespace} has an owner in this snapshot: there is nothing to unload."
        )
    counts = column_values(rows, "producer_count") + column_values(rows, "consumer_count")
    unknown = int(np.count_nonzero(np.isnan(counts)))
    known = np.nan_to_num(counts)
    worst = int(known.argmax())
    clients, minutes = int(known.sum()), rows.num_rows / pace_per_min
    names = rows["bundle"].to_pylist()
    per_s = clients / (minutes * 60)
    sentence = (
        f"Unloading {namespace} at once makes {clients:,} clients look up their "
        f"topics at the same time. Bundle by bundle at {pace_per_min:g} "
        f"bundles/min it takes {minutes:.0f} min, with max "
        f"{int(known[worst]):,} lookups at a time and {per_s:.1f}/s on average."
    )
    return UnloadPressure(
        namespace=namespace,
        bundles=rows.num_rows,
        clients=clients,
        unknown_bundles=unknown,
        at_once=clients,
        worst_bundle=names[worst],
        worst_clients=int(known[worst]),
        minutes=minutes,
        per_s=per_s,
        sentence=sentence,
    )
