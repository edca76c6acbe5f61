"""The request of the optimizer: the fewest moves that balance a Pulsar cluster."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal

import msgspec

from core.errors import InputError
from core.request import Request, param

LoadMeasure = Literal["throughput", "usage"]
MEASURES: Final[tuple[LoadMeasure, ...]] = ("throughput", "usage")
_MAX_WITHIN: Final = 0.99


class OptimizeRequest(Request, frozen=True, kw_only=True):
    """Find the fewest moves that bring every broker near the mean, with a lower bound.

    Raises:
        InputError: A number that cannot be, or a measure that relief does not go by.

    By default the goal is the cluster's target, by which ``health`` judges it.
    """

    within: Annotated[
        float | None,
        param(
            "Max deviation from the mean (ratio); default: the cluster's target",
            metavar="SHARE",
            unit="ratio",
        ),
    ] = None
    max_moves: Annotated[int | None, param("Max moves; default: unlimited")] = None
    relief: Annotated[
        float | None,
        param("Relieve only brokers above this usage (ratio)", metavar="USAGE", unit="ratio"),
    ] = None
    measure: Annotated[
        LoadMeasure | None,
        param("throughput or usage; default: throughput, with --relief usage"),
    ] = None
    exclusions: Annotated[
        tuple[str, ...],
        param("Excluded namespace, or tenant/*", option="--exclude", metavar="NS"),
    ] = ()
    recently_moved: Annotated[
        tuple[str, ...], param("Bundle in its grace period; it is not moved")
    ] = ()

    def for_target(self, target_ratio: float) -> OptimizeRequest:
        """Return it with the cluster's target as the goal, where it names none."""
        if self.within is not None:
            return self
        return msgspec.structs.replace(self, within=min(target_ratio, _MAX_WITHIN))

    @property
    def load_measure(self) -> LoadMeasure:
        """Load measure; relief always uses usage."""
        return self.measure or ("throughput" if self.relief is None else "usage")

    def __post_init__(self) -> None:
        """Check numbers, and what only fits together.

        Raises:
            InputError: As of the class.
        """
        if self.measure not in (None, *MEASURES):
            raise InputError(
                f"{self.measure!r} is not a measure of load.",
                hint=f"Available: {', '.join(MEASURES)}.",
            )
        if self.within is not None and not (math.isfinite(self.within) and 0 < self.within < 1):
            raise InputError(
                f"{self.within:g} is not a valid target deviation.",
                hint="Specify a ratio above 0 and below 1, for example 0.05.",
            )
        if self.relief is not None:
            self._check_relief(self.relief)
        if self.max_moves is not None and self.max_moves < 0:
            raise InputError(
                f"{self.max_moves} is not a valid number of moves.",
                hint="Specify 0 or more, or omit it.",
            )

    def _check_relief(self, relief: float) -> None:
        if self.measure == "throughput":
            raise InputError("Relief uses usage, not throughput.", hint="Omit measure.")
        if not (math.isfinite(relief) and relief > 0):
            raise InputError(
                f"{relief:g} is not a valid usage.",
                hint="Specify a usage ratio, for example 0.85.",
            )
