"""The two rates that split checks compare with their limits, of every bundle: one rule for all."""

from __future__ import annotations

import numpy as np

from core.pulsar.quotas import Floats, known_sum, long_averages
from core.snapshot import PulsarSnapshot


def compared_rates(snapshot: PulsarSnapshot) -> tuple[Floats, Floats]:
    """Return the message rate (msg/s) and throughput (bytes/s) that the next check compares.

    The extensible manager takes what was measured last. The modular leader takes long-term
    averages; it adds a sample to them before it checks, so that a bundle whose average no broker
    stored has that of its own quota, or else what was measured last.

    Returns:
        Both ``(n_bundles,)``, in + out, NaN where nothing is known.
    Source:
        Pulsar ``ModularLoadManagerImpl#updateBundleData``, ``#checkNamespaceBundleSplit``.
    """
    last = [
        known_sum(snapshot.bundles, f"{kind}_in", f"{kind}_out")
        for kind in ("msg_rate", "msg_throughput")
    ]
    if snapshot.manifest.load_manager == "extensible":
        return last[0], last[1]
    held = long_averages(snapshot)
    return (
        np.where(np.isnan(held[0]), last[0], held[0]),
        np.where(np.isnan(held[1]), last[1], held[1]),
    )
