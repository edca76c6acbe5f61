"""Anti-affinity groups: where their members are, and where two of them share what they should not.

A *place* is a failure domain where ``failureDomainsEnabled`` is on and domains are defined, else a
broker. A member counts at a place when one of its bundles is owned there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.placement.context import PlacementContext
from core.pulsar.serving import Serving
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import LoadView

DEFAULT_DOMAIN: Final = "default"
"""Where upstream puts brokers that are in no domain."""


@dataclass(frozen=True, kw_only=True)
class Collision:
    """Members of a group that share a place while another one has none.

    Attributes:
        group: In lower case, as upstream compares.
        place: Broker id, or failure domain.
        is_domain: It is a domain.
        members: Namespaces there, those with the fewest bundles there first.
        bundles: Of all of them but the one with the most: unloading them fixes it.
        free: Places without any member, on which one of them could be served.
    """

    group: str
    place: str
    is_domain: bool
    members: tuple[str, ...]
    bundles: tuple[str, ...]
    free: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The problem, as a sentence."""
        kind = "Failure domain" if self.is_domain else "Broker"
        named = ", ".join(self.members[:3]) + (" and others" if self.members[3:] else "")
        return (
            f"{kind} {self.place} serves {len(self.members)} members of anti-affinity group "
            f"{self.group!r} ({named}) while {self.free[0]} serves none."
        )


@dataclass(frozen=True, kw_only=True)
class Member:
    """A namespace of a group.

    Attributes:
        namespace: Name.
        bundles: That have an owner.
        brokers: That own them, in row order.
        domains: Of those brokers, sorted; empty where no domain is defined.
    """

    namespace: str
    bundles: int
    brokers: tuple[str, ...]
    domains: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class GroupSpread:
    """The groups of one view."""

    view: LoadView
    settings: EffectiveSettings
    serving: Serving

    @cached_property
    def by_domain(self) -> bool:
        """Whether members are separated by failure domain."""
        return PlacementContext.of(self.view, self.settings).domains is not None

    def members(self, group: str) -> tuple[Member, ...]:
        """Return the members of a group, by name.

        Args:
            group: One of the view's.
        """
        view = self.view
        found = []
        for row in self._namespaces(group):
            mine = self._owned(row)
            brokers = np.unique(view.owner[mine]).tolist()
            domains = {view.failure_domains[at] for at in brokers} - {None}
            found.append(
                Member(
                    namespace=view.namespaces[row],
                    bundles=int(mine.size),
                    brokers=tuple(view.brokers[at] for at in brokers),
                    domains=tuple(sorted(str(one) for one in domains)),
                )
            )
        return tuple(found)

    def collisions(self, group: str) -> tuple[Collision, ...]:
        """Return avoidable collisions of members of a group."""
        places = self._places
        at = {row: set(places[self._owners(row)].tolist()) for row in self._namespaces(group)}
        taken = set().union(*at.values())
        found = []
        for place in sorted(taken):
            here = [row for row, where in at.items() if place in where]
            free = self._may_have(here) - taken
            if len(here) > 1 and free:
                found.append(self._collision(group, place, here, sorted(free)))
        return tuple(found)

    def _collision(self, group: str, place: str, here: list[int], free: list[str]) -> Collision:
        view, places = self.view, self._places
        lying = {row: self._owned(row)[places[self._owners(row)] == place] for row in here}
        order = sorted(here, key=lambda row: (lying[row].size, view.namespaces[row]))
        leaving = np.concatenate([lying[row] for row in order[:-1]])
        return Collision(
            group=group,
            place=place,
            is_domain=self.by_domain,
            members=tuple(view.namespaces[row] for row in order),
            bundles=tuple(view.bundles[leaving].tolist()),
            free=tuple(free),
        )

    @cached_property
    def _places(self) -> NDArray[np.str_]:
        domains = [name or DEFAULT_DOMAIN for name in self.view.failure_domains]
        return np.array(domains if self.by_domain else self.view.brokers)

    def _may_have(self, namespaces: list[int]) -> set[str]:
        """Return the places that may serve one of the namespaces."""
        may = self.serving.may[self.view.namespace_policy[namespaces]].any(axis=0)
        return set(self._places[may].tolist())

    def _namespaces(self, group: str) -> list[int]:
        view = self.view
        if group not in view.groups:
            return []
        rows: list[int] = np.flatnonzero(view.namespace_group == view.groups.index(group)).tolist()
        return rows

    @cached_property
    def _owned_by_namespace(self) -> dict[int, Ints]:
        """Rows of owned bundles of every namespace that is in a group."""
        view = self.view
        is_meant = (view.namespace_group >= 0)[view.bundle_namespace] & (view.owner >= 0)
        rows = np.flatnonzero(is_meant & ~view.is_broker_bound)
        rows = rows[np.argsort(view.bundle_namespace[rows], kind="stable")]
        spaces, starts = np.unique(view.bundle_namespace[rows], return_index=True)
        parts = np.split(rows, starts[1:]) if rows.size else []
        return dict(zip(spaces.tolist(), parts, strict=True))

    def _owned(self, namespace: int) -> Ints:
        return self._owned_by_namespace.get(namespace, np.zeros(0, np.int64))

    def _owners(self, namespace: int) -> Codes:
        return self.view.owner[self._owned(namespace)]
