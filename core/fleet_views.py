"""Views of a fleet: which of its clusters are shown, and in which order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, Protocol, TypeVar, get_args

import msgspec

from core.errors import InputError
from core.units import name_fault

Sort = Literal["", "name", "group", "deviation", "usage", "state"]
SORTS: Final[tuple[Sort, ...]] = get_args(Sort)
"""Orders of clusters; empty: as configured."""

MAX_NAME: Final = 60
MAX_VIEWS: Final = 50
"""Views of a person."""


class FleetView(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of clusters.

    Attributes:
        group: Of the clusters; empty: any.
        tag: That the clusters have; empty: any.
        contains: Part of their names, in any case.
        sort: Order of the clusters.
    """

    group: str = ""
    tag: str = ""
    contains: str = ""
    sort: Sort = ""

    @property
    def is_whole(self) -> bool:
        """Whether it has every configured cluster."""
        return self == FleetView()


class GroupedCluster(Protocol):
    """A cluster of the configuration."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def group(self) -> str:
        """Its group, or ""."""

    @property
    def tags(self) -> list[str]:
        """Its tags."""


C = TypeVar("C", bound=GroupedCluster)


def clusters_of(view: FleetView, clusters: Iterable[C]) -> list[C]:
    """Return the clusters of a view, in the order of the configuration."""
    return [
        one
        for one in clusters
        if view.group in ("", one.group)
        and (not view.tag or view.tag in one.tags)
        and view.contains.lower() in one.name.lower()
    ]


def check_name(name: str) -> str:
    """Return the name of a view without blanks around it.

    Raises:
        InputError: It cannot be one.
    """
    stripped = name.strip()
    fault = name_fault(stripped)
    if fault or len(stripped) > MAX_NAME:
        raise InputError(
            f"The name of a view {fault or f'has more than {MAX_NAME} characters'}.",
            hint="Choose another name.",
        )
    return stripped
