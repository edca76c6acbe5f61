"""What the lookup page says about a topic."""

from __future__ import annotations

from core.pulsar.lookup import TopicLookup


def answer(found: TopicLookup) -> str:
    """Return the sentence that says where the topic lives."""
    if found.owner is None and not found.is_owner_known:
        return f"{found.topic} falls into {found.bundle}, whose owner is unknown."
    if found.owner is None:
        return (
            f"{found.topic} falls into {found.bundle}, which has no owner: "
            "the next lookup assigns it."
        )
    where = f" ({found.owner_service_url})" if found.owner_service_url else ""
    return f"{found.topic} lives in {found.bundle} on {found.owner}{where}."
