"""The lookup of a topic as a row of figures: topic, hash, bundle, owner."""

from __future__ import annotations

from core.pulsar.lookup import TopicLookup
from core.units import UNKNOWN
from dashboard.presenters.figures import KeyFigure, Status


def subtitle(found: TopicLookup) -> str:
    """Return where the topic is, with dots between."""
    return " · ".join((found.bundle, found.owner or _no_owner(found)))


def steps(found: TopicLookup) -> list[KeyFigure]:
    """Return the steps of the lookup, each a figure, in their order."""
    low, _, high = found.bundle.rpartition("/")[2].partition("_")
    namespace, _, name = found.topic.partition("://")[2].rpartition("/")
    return [
        KeyFigure(label="1. Topic", value=name, note=namespace),
        KeyFigure(label="2. Hash", value=f"0x{found.hash:08x}", note="of the whole name"),
        KeyFigure(label="3. Bundle", value=low, note=f"to {high}, contains the hash"),
        KeyFigure(
            label="4. Owner",
            value=found.owner or (UNKNOWN if not found.is_owner_known else "none"),
            note=_serves(found),
            status=_status(found),
        ),
    ]


def _serves(found: TopicLookup) -> str:
    """Return what its owner does for it."""
    service = found.service
    if found.owner and service is not None and not service.is_served:
        return "does not serve it" if service.is_served is False else "may not serve it"
    return found.owner_service_url or _no_owner(found)


def _status(found: TopicLookup) -> Status:
    if not found.is_owner_known:
        return "unknown"
    service = found.service
    if found.owner and service is not None and not service.is_served:
        return "bad" if service.is_served is False else "unknown"
    return "ok" if found.owner else "warning"


def _no_owner(found: TopicLookup) -> str:
    if found.owner:
        return "serves it"
    return "the next lookup assigns it" if found.is_owner_known else "owner unknown"
