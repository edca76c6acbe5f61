"""What the rules of Pulsar read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from core.pulsar.liveness import Liveness, liveness_of
from core.pulsar.measures import Measures, Target
from core.pulsar.rules.bundle_facts import BundleFacts, BundleTable
from core.pulsar.rules.recorded_past import RecordedPast
from core.pulsar.settings import EffectiveSettings
from core.snapshot import PulsarSnapshot


@dataclass(frozen=True, eq=False)
class HealthContext:
    """Shared input of all rules, computed once."""

    snapshot: PulsarSnapshot
    settings: EffectiveSettings
    measures: Measures
    requested: Target | None = None
    """What counts as balanced; ``None`` for the cluster's own target."""
    elsewhere: BundleFacts | None = None
    """Who holds the bundles, where the snapshot does not."""
    past: RecordedPast | None = None
    """What was recorded of the cluster; ``None`` if no history was read."""
    earlier: Sequence[pa.Table] = ()
    """Brokers of the minutes before the snapshot, oldest first: what flickers is no finding."""
    moved: Collection[str] = frozenset()
    """Bundles whose owner changed in these minutes: their former owner still exposes them."""

    @property
    def target(self) -> Target:
        """Target of the balance."""
        return self.requested or self.measures.target

    @cached_property
    def liveness(self) -> Liveness:
        """Liveness of brokers."""
        return liveness_of(self.snapshot, self.settings)

    @cached_property
    def bundles(self) -> BundleFacts:
        """The bundles that can move."""
        return self.elsewhere or BundleTable(self.snapshot)
