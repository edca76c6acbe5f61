"""The systems that can be back-tested."""

from __future__ import annotations

from collections.abc import Collection
from pkgutil import resolve_name
from typing import Final

from core.errors import InputError
from core.history.backtest.model import Grid
from core.history.backtest.system import AnyBacktest
from core.systems import SYSTEMS as KNOWN_SYSTEMS

SYSTEMS: Final[tuple[AnyBacktest, ...]] = tuple(
    resolve_name(one.parts.backtest) for one in KNOWN_SYSTEMS if one.parts.backtest
)
"""The first one is meant by a grid that has no field of any."""

_NAMED: Final = {one.name: one for one in SYSTEMS}


def system_named(name: str) -> AnyBacktest:
    """Return a system by its name.

    Raises:
        InputError: Its clusters cannot be back-tested.
    """
    if name not in _NAMED:
        raise InputError(
            f"A cluster of system {name!r} cannot be back-tested.",
            hint=f"Choose a cluster of {' or '.join(one.title for one in SYSTEMS)}.",
        )
    return _NAMED[name]


def system_of(grid: Grid) -> AnyBacktest:
    """Return the system about which a grid asks."""
    others = (one for one in SYSTEMS[1:] if any(getattr(grid, name) for name in one.fields))
    return next(others, SYSTEMS[0])


def check_fields(given: Collection[str]) -> None:
    """Refuse a grid that asks about two systems.

    Args:
        given: Names of the fields that it has.
    Raises:
        InputError: Two systems have some of them.
    """
    if sum(not set(one.fields).isdisjoint(given) for one in SYSTEMS) > 1:
        subjects = (f"for {one.title} ({_quoted(one.fields, ', ')})" for one in SYSTEMS)
        raise InputError(
            f"A grid is {' or '.join(subjects)}, not for both.", hint="Split it into two grids."
        )


def which_fields() -> str:
    """Return the grid fields of each system, one sentence."""
    others = (f"A grid of {_quoted(one.fields, ' and ')} is for {one.title}" for one in SYSTEMS[1:])
    return f"{', '.join(others)}, any other for {SYSTEMS[0].title}."


def _quoted(names: Collection[str], between: str) -> str:
    return between.join(f"`{name}`" for name in names)
