"""Owners: every bundle with its session, ownership problems, namespaces on few brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from core.errors import UnknownNameError
from core.operations.operation import Answer, Line, Listing, Operation
from core.progress import Progress
from core.pulsar.facts import PulsarFacts
from core.pulsar.owner_sessions import SESSION_COLUMNS, session_text
from core.pulsar.owner_spread import SPREAD_COLUMNS, spread_of, spread_sentence
from core.pulsar.owners import (
    BUNDLES,
    STATES,
    WRONG,
    Ownership,
    meaning_of,
    ownership_of,
    worst_first,
)
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.served import Services, service_json, services_of
from core.request import Request, param


class OwnersRequest(Request, frozen=True, kw_only=True):
    """The bundles to list."""

    namespace: Annotated[str | None, param("Only this namespace", metavar="TENANT/NAMESPACE")] = (
        None
    )
    only_problems: Annotated[
        bool, param("Only bundles with ownership problems", option="--orphans")
    ] = False


class OwnersJson(TypedDict):
    """The JSON of the answer.

    Attributes:
        answer: In words.
        spread: The namespaces on few brokers, in words.
        counts: Bundles by ownership state.
        bundles: The bundles, worst first; ``session`` is the session in hexadecimal.
        sessions: The owners' sessions.
        namespaces: The namespaces, by the brokers that own their bundles.
        notes: What to know about the answer.
        elsewhere: Findings on other subjects, in words; null: none.
    """

    answer: str
    spread: str
    counts: Mapping[str, int]
    bundles: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    namespaces: list[dict[str, Any]]
    notes: Sequence[str]
    elsewhere: str | None


@dataclass(frozen=True, eq=False)
class Owners(Answer):
    """The answer.

    Attributes:
        found: Ownership of every bundle.
        services: Whether each bundle is served.
        bundles: Table of :data:`core.pulsar.owners.BUNDLES`, worst first, as requested.
        namespaces: Table of :data:`core.pulsar.owner_spread.SPREAD`.
        elsewhere: Findings on other subjects, in words; empty: none.
    """

    found: Ownership
    services: Services
    bundles: pa.Table
    namespaces: pa.Table
    elsewhere: str

    def body(self) -> OwnersJson:
        """Return the JSON object."""
        return {
            "answer": self.found.sentence,
            "spread": spread_sentence(self.namespaces),
            "counts": self.found.counts,
            "bundles": [self._bundle(row) for row in self.bundles.to_pylist()],
            "sessions": self.found.sessions.to_pylist(),
            "namespaces": self.namespaces.to_pylist(),
            "notes": self.found.notes,
            "elsewhere": self.elsewhere or None,
        }

    def _bundle(self, row: dict[str, Any]) -> dict[str, Any]:
        service = service_json(self.services.of(row))
        return {**row, "session": session_text(row["session_id"]), **service}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables by name."""
        return {
            "bundles": self.bundles,
            "sessions": self.found.sessions,
            "namespaces": self.namespaces,
        }

    def text(self, request: OwnersRequest) -> Iterator[Line]:
        """Return the text for people."""
        yield self.found.sentence
        yield from self._explanations()
        if request.only_problems or request.namespace is not None:
            yield ""
            columns = BUNDLES.pick(
                *("bundle", "state", "owner", "claimant", "session_id", "held_since")
            )
            yield Listing(self.bundles, columns, spare=("session_id", "claimant"))
        if not request.only_problems:
            yield ""
            columns = SESSION_COLUMNS.pick(
                *("broker", "session_id", "oldest_at", "bundles", "throughput", "is_registered"),
                "leads",
            )
            yield Listing(self.found.sessions, columns, spare=("session_id", "oldest_at"))
            yield ""
            yield spread_sentence(self.namespaces)
        for one in self.found.notes:
            yield f"Note: {one}"
        if self.elsewhere:
            yield self.elsewhere

    def _explanations(self) -> Iterator[str]:
        """Yield the meaning of each problem, and what to do about the first bundle with it."""
        for state in self.found.counts:
            if state not in WRONG:
                continue
            yield f"{state}: {meaning_of(state)}"
            row = worst_first(self.found.bundles, (state,)).slice(0, 1).to_pylist()[0]
            service = self.services.of(row)
            words = " ".join(filter(None, (service.sentence, service.next_lookup, service.fix)))
            if words:
                yield f"{row['bundle']}: {words}"


def owners(facts: PulsarFacts, request: OwnersRequest, _: Progress) -> Owners:
    """Return the owners of a cluster's bundles.

    Raises:
        IncompleteSnapshotError: The snapshot has no bundles.
        UnknownNameError: There is no such namespace.
    """
    facts.snapshot.require("bundles")
    found = ownership_of(facts.snapshot, facts.settings)
    bundles = worst_first(found.bundles, WRONG if request.only_problems else STATES)
    namespaces = spread_of(facts.view)
    if request.namespace is not None:
        known = pc.unique(found.bundles["namespace"]).to_pylist()
        if request.namespace not in known:
            raise UnknownNameError.of("namespace", request.namespace, known, place="this snapshot")
        bundles = bundles.filter(pc.equal(bundles["namespace"], request.namespace))
        namespaces = namespaces.filter(pc.equal(namespaces["namespace"], request.namespace))
    return Owners(
        found=found,
        services=services_of(facts.snapshot, facts.settings, found),
        bundles=bundles,
        namespaces=namespaces,
        elsewhere=verdict_of(facts.snapshot, facts.settings).elsewhere(("serving",)),
    )


OPERATION: Final = Operation(
    name="owners",
    module=__name__,
    help="""Show ownership: sessions, orphans, double claims.

    Also shows namespaces on few brokers.
    """,
    request=OwnersRequest,
    answers={"pulsar": owners},
    columns={"bundles": BUNDLES, "sessions": SESSION_COLUMNS, "namespaces": SPREAD_COLUMNS},
)
