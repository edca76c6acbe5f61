"""Commands that work on a snapshot directory: offline, nothing of a cluster is touched.

Old ``lastUpdate`` values are shown, never a reason to refuse: a snapshot is judged as it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import IncompleteSnapshotError, InputError, UnknownNameError
from core.pulsar.placement import STRATEGIES, place_bundle
from core.pulsar.requests import PlaceBundleRequest
from core.pulsar.settings import (
    EffectiveSettings,
    find_release,
    parse_set_options,
)
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot
from core.units import format_ratio
from dashboard.cli.output import Answer, UsageFaultError, emit, print_line, table
from dashboard.cli.pulsar import answers as pulsar_answers
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


def place(
    directory: Path, request: PlaceBundleRequest, assumptions: Assumptions, *, as_json: bool
) -> int:
    """Print who gets a bundle of a snapshot directory."""
    snapshot = load_snapshot(directory)
    settings = assumptions.settings_of(snapshot)
    view = LoadView.of(snapshot, settings)
    return print_placement(view, settings, request, as_json=as_json)


def print_placement(
    view: LoadView,
    settings: EffectiveSettings,
    request: PlaceBundleRequest,
    *,
    as_json: bool,
) -> int:
    """Print the placement of a bundle of a view."""
    bundle = request.bundle
    chosen = _candidates(request.candidates, view.brokers)
    started = time.perf_counter()
    placement = place_bundle(
        view,
        bundle,
        settings,
        strategy=request.strategy,
        candidates=chosen,
        with_filters=request.filters,
        non_persistent=request.non_persistent,
    )
    elapsed_ms = (time.perf_counter() - started) * 1000

    def show() -> None:
        if not placement.is_known:
            print_line(f"The destination of {bundle} is unknown: {placement.why}")
        elif not placement.distribution:
            print_line(f"No broker can take {bundle}: {placement.why}")
        else:
            print_line(f"Destinations of {bundle} ({placement.strategy}):")
            table(
                ("broker", "probability", placement.score_label or "score"),
                [
                    (broker, format_ratio(p), _score(placement.scores.get(broker)))
                    for broker, p in sorted(
                        placement.distribution.items(), key=lambda item: -item[1]
                    )
                ],
            )
        if placement.ruled_out:
            print_line()
            table(("excluded", "reason"), list(placement.ruled_out.items()))
        for text in placement.notes:
            print_line(f"Note: {text}")

    return emit(Answer(pulsar_answers.placement(placement, elapsed_ms), show), as_json=as_json)


def _candidates(text: str | None, known: Sequence[str]) -> list[str] | None:
    if text is None:
        return None
    if not known:
        raise IncompleteSnapshotError("The snapshot has no brokers.")
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageFaultError("--candidates is empty.", hint="Use --candidates A,B.")
    for name in names:
        if name not in known:
            unknown = UnknownNameError.of("broker", name, known, place="the snapshot")
            raise UsageFaultError(unknown.message, hint=unknown.hint)
    return names


def _score(value: Any) -> str:
    return "unknown" if value is None else f"{value:,.4g}"
