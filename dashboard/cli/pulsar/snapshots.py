"""Commands that work on a snapshot directory: offline, nothing of a cluster is touched.

Old ``lastUpdate`` values are shown, never a reason to refuse: a snapshot is judged as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import InputError, UnknownNameError
from core.pulsar.placement import STRATEGIES
from core.pulsar.settings import (
    EffectiveSettings,
    find_release,
    parse_set_options,
)
from core.snapshot import PulsarSnapshot
from dashboard.cli.output import UsageFaultError
from dashboard.cli.pulsar.source import active_settings


@dataclass(frozen=True)
class Assumptions:
    """Assumptions of a what-if in place of the cluster's own values.

    Attributes:
        strategy: Placement strategy, ``None``: the one in force.
        overrides: Upstream key to typed value.
        release: Release line or version, ``None``: the brokers' own version decides.
    """

    strategy: str | None
    overrides: dict[str, object]
    release: str | None

    @classmethod
    def of(
        cls, strategy: str | None, settings: Sequence[str] | None, release: str | None
    ) -> Assumptions:
        """Parse the options.

        Raises:
            UsageFaultError: An unknown key, strategy or release, or a value that does not fit.
        """
        try:
            overrides = parse_set_options(settings or [])
            if release is not None:
                find_release(release)
            known = strategy_names()
            if strategy is not None and strategy.rpartition(".")[2] not in known:
                raise UnknownNameError.of("placement strategy", strategy, known)
        except InputError as exc:
            raise UsageFaultError(exc.message, hint=exc.hint) from exc
        return cls(strategy, overrides, release)

    def settings_of(self, snapshot: PulsarSnapshot) -> EffectiveSettings:
        """Return the cluster's settings with the assumptions on top."""
        return active_settings(snapshot, self.overrides, self.release)


def strategy_names() -> list[str]:
    """Return the names of the placement strategies there are."""
    return [strategy.name for strategy in STRATEGIES]
