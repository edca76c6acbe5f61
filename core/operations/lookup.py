"""Lookup: the bundle and the owner of a topic, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final, TypedDict

from core.operations.operation import Answer, Line, Operation, Prose
from core.progress import Progress
from core.pulsar.facts import PulsarFacts
from core.pulsar.lookup import TopicLookup, lookup_topic
from core.pulsar.served import ServiceJson, service_json
from core.request import Request, param


class LookupRequest(Request, frozen=True, kw_only=True):
    """The topic to look up."""

    topic: Annotated[str, param("Full or short topic name", metavar="TOPIC", is_argument=True)]


class StepJson(TypedDict):
    """A step of the lookup."""

    title: str
    detail: str


class LookupJson(ServiceJson):
    """The JSON of the answer.

    Attributes:
        topic: Complete name.
        hash: Position on the ring.
        namespace: Of the topic.
        bundle: Name of the bundle that has the position.
        owner: Broker id; null: unassigned or unknown.
        owner_known: Whether it is known if the bundle has an owner.
        owner_service_url: Where clients connect; null: unknown.
        is_served: Whether a broker serves the bundle; null: unknown.
        since: Since when it is not served, ms since the epoch; null: unknown, or it is served.
        why_not: Why it is not served.
        next_lookup: What the next lookup of the topic does.
        fix: What to do.
        steps: How it was found.
        notes: What to know about the answer.
    """

    topic: str
    hash: int
    namespace: str
    bundle: str
    owner: str | None
    owner_known: bool
    owner_service_url: str | None
    steps: list[StepJson]
    notes: list[str]


@dataclass(frozen=True, eq=False)
class Lookup(Answer):
    """The answer: location of the topic."""

    found: TopicLookup

    def body(self) -> LookupJson:
        """Return the JSON object."""
        found = self.found
        return {
            "topic": found.topic,
            "hash": found.hash,
            "namespace": found.namespace,
            "bundle": found.bundle,
            "owner": found.owner,
            "owner_known": found.is_owner_known,
            "owner_service_url": found.owner_service_url,
            **service_json(found.service),
            "steps": [{"title": step.title, "detail": step.detail} for step in found.steps],
            "notes": list(found.notes),
        }

    def text(self, _: LookupRequest) -> Iterator[Line]:
        """Return the text for people."""
        found = self.found
        owner = found.owner or ("no owner" if found.is_owner_known else "unknown owner")
        service = found.service
        if service is not None and found.owner and not service.is_served:
            owner += " (not served)" if service.is_served is False else " (service unknown)"
        yield Prose(f"{found.topic} -> {found.bundle} -> {owner}")
        yield ""
        for number, step in enumerate(found.steps, 1):
            yield f"{number}. {step.title}: {step.detail}"
        for note in found.notes:
            yield f"Note: {note}"


def lookup(facts: PulsarFacts, request: LookupRequest, _: Progress) -> Lookup:
    """Return the location of a topic.

    Raises:
        InputError: The name is no topic, or the snapshot cannot tell its bundle.
        UnknownNameError: There is no such namespace.
    """
    return Lookup(lookup_topic(facts.snapshot, request.topic))


OPERATION: Final = Operation(
    name="lookup",
    module=__name__,
    help="""Show the bundle and the owner of a topic.

    Step by step: topic, hash, bundle, owner.
    """,
    request=LookupRequest,
    answers={"pulsar": lookup},
    is_timed=False,
)
