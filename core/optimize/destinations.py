"""Where bundles may go: the hard part of placement's filters, computed once a namespace.

Bundles with the same answer are of one *kind*; there are few kinds even in large clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.extensible import ExtensibleContext, extensible_filters
from core.pulsar.placement.filters import ANTI_AFFINITY, run_filters
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, LoadView

_ROWS_AT_ONCE: Final = 256


@dataclass(frozen=True, eq=False)
class Destinations:
    """Allowed destinations.

    Attributes:
        kind_of_namespace: Shape ``(n_namespaces,)``: row of ``allowed``.
        allowed: Shape ``(n_kinds, n_brokers)``.
        can_receive: Shape ``(n_brokers,)``: brokers that may take anything at all.
        domains: Failure domain of each broker; all zero when domains play no part.
        has_domains: Whether they do.
        topic_room: Topics that each broker may still take.
    """

    kind_of_namespace: Ints
    allowed: Flags
    can_receive: Flags
    domains: Codes
    has_domains: bool
    topic_room: Ints


def find_destinations(
    view: LoadView, settings: EffectiveSettings, candidates: Flags
) -> Destinations:
    """Return where each namespace's bundles may go.

    Isolation policies, anti-affinity groups with failure domains, load-manager class, versions:
    the same masks that placement uses. Where placement would fall back to a broker that a filter
    ruled out, because nobody is left, we do not.

    Args:
        view: The cluster.
        settings: In force.
        candidates: Brokers whose load is known; others take nothing.
    Source:
        Pulsar ``ModularLoadManagerImpl#selectBroker``, or ``ExtensibleLoadManagerImpl#selectAsync``
        on a cluster of that manager, filters only; see ``core.pulsar.placement``.
    """
    is_extensible = view.load_manager == "extensible" and view.extensible is not None
    kind = ExtensibleContext if is_extensible else PlacementContext
    context = kind.of(view, settings)
    can_receive = candidates & _right_class(view) & _right_version(context)
    packed = [
        np.packbits(_allowed(context, np.arange(start, end)) & can_receive, axis=1)
        for start, end in _chunks(len(view.namespaces))
    ]
    width = (len(view.brokers) + 7) // 8
    rows = np.concatenate([np.zeros((0, width), np.uint8), *packed])
    kinds, kind_of = np.unique(rows, axis=0, return_inverse=True)
    allowed = np.unpackbits(kinds, axis=1, count=len(view.brokers)).astype(np.bool_)
    room = settings.number("loadBalancerBrokerMaxTopics") - context.topics
    domains = context.domains
    return Destinations(
        kind_of_namespace=kind_of.reshape(-1).astype(np.int64),
        allowed=allowed,
        can_receive=can_receive,
        domains=np.zeros(len(view.brokers), np.int32) if domains is None else domains,
        has_domains=domains is not None,
        topic_room=np.maximum(room, 0).astype(np.int64),
    )


def _chunks(count: int) -> list[tuple[int, int]]:
    return [(start, min(start + _ROWS_AT_ONCE, count)) for start in range(0, count, _ROWS_AT_ONCE)]


def _allowed(context: PlacementContext, namespaces: Ints) -> Flags:
    if isinstance(context, ExtensibleContext):
        return extensible_filters(context, namespaces).candidates
    return dict(run_filters(context, namespaces).stages)[ANTI_AFFINITY]


def _right_class(view: LoadView) -> Flags:
    if view.own_class is None:
        return np.ones(len(view.brokers), np.bool_)
    return np.array([name == view.own_class for name in view.load_manager_classes], np.bool_)


def _right_version(context: PlacementContext) -> Flags:
    ranks = context.version_ranks
    if not context.settings.flag("preferLaterVersions") or not ranks.size:
        return np.ones(ranks.size, np.bool_)
    return np.asarray(ranks == ranks.max(), np.bool_)
