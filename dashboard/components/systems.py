"""The systems as header, frame and runs use them."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final

from core.errors import ConfigError
from dashboard.systems import SYSTEMS as ENTRIES

if TYPE_CHECKING:
    from core.actions.views import RunView
    from dashboard.components.system import PageSystem

SYSTEMS: Final[tuple[PageSystem, ...]] = tuple(
    resolve_name(entry.frame) for entry in ENTRIES.values()
)
"""The first one is taken for a run without steps."""


def system_of(kind: str) -> PageSystem:
    """Return a system by the kind of its clusters.

    Raises:
        ConfigError: Its clusters have no pages.
    """
    for one in SYSTEMS:
        if one.system.name == kind:
            return one
    raise ConfigError(
        f"Unknown cluster kind {kind!r}.",
        hint=f"Known: {', '.join(one.system.name for one in SYSTEMS)}.",
    )


def system_of_run(view: RunView) -> PageSystem:
    """Return the system whose steps a run has."""
    kinds = {type(step) for step in view.plan.steps}
    return next(
        (system for system in SYSTEMS if kinds.intersection(system.system.steps)), SYSTEMS[0]
    )
