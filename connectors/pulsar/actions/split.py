"""Splitting a bundle: what is observed, sent and judged.

The other half is :mod:`core.pulsar.steps.split`.

204 says nothing: what counts are the namespace's boundaries, read again, and that every part has
an owner, unless nothing asks for it. Where the parts are unloaded as well, the owner does that
after it has answered.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, Protocol

import msgspec

from connectors.pulsar.acting.bundle_reader import BundleReader, BundleState, OwnersAnswer
from connectors.pulsar.acting.planned import (
    GONE_HINT,
    describe_loaded,
    lookup_hint,
    not_as_planned,
)
from connectors.pulsar.acting.topics_reader import LoadedTopics, TopicsReader
from connectors.pulsar.actions.unload import Send, Serves
from core.actions.model import Observation, Refusal, StepResult
from core.errors import RemoteError
from core.ids import parse_range
from core.pulsar.steps.base import AdminRequest
from core.pulsar.steps.split import SplitBundle

CALM_LOOKS: Final = 12
"""Looks in a row that find all parts owned and unmoved before they count as placed: an unload that
was over before the first look leaves no trace of itself."""


class SplitPort(Protocol):
    """Its cluster interface."""

    def owners(self) -> OwnersAnswer:
        """Return the reader of what brokers own."""
        ...

    def reader(self, owners: OwnersAnswer) -> BundleReader:
        """Return the reader of bundle states."""
        ...

    def topics(self) -> TopicsReader:
        """Return the reader of what asks for a bundle."""
        ...

    def url_of(self, broker: str) -> str:
        """Return a broker's address, or any other where it has none."""
        ...

    def send(self, base: str, request: AdminRequest) -> None:
        """Send a request, once."""
        ...


def split_action(step: SplitBundle, cluster: SplitPort) -> SplitAction:
    """Return the action on a cluster; the owner gets the request."""
    owners = cluster.owners()

    def send(request: AdminRequest) -> None:
        cluster.send(cluster.url_of(step.owner), request)

    return SplitAction(step, cluster.reader(owners), send, owners.still_serves, cluster.topics())


class SplitAction:
    """One split. Made for every step, and again by a worker that takes a run over.

    Args:
        step: What to do.
        reader: Look at bundles.
        send: Sends the request.
        serves: Checks with a broker that nothing is in progress there.
        topics: Reads what asks for the bundle and its parts.
    """

    def __init__(
        self,
        step: SplitBundle,
        reader: BundleReader,
        send: Send,
        serves: Serves,
        topics: TopicsReader,
    ) -> None:
        self._step = step
        self._reader = reader
        self._send = send
        self._serves = serves
        self._topics = topics
        self._loaded: LoadedTopics | None = None
        self._seen: BundleState | None = None
        self._parts: dict[str, BundleState] = {}
        self._first: dict[str, BundleState] = {}
        self._moved: set[str] = set()
        self._calm = 0
        self._is_answered = False

    @property
    def timeout_s(self) -> float:
        """The run's own."""
        return 0.0

    def look(self) -> Observation:
        """Read the bundle's live state, or that of its parts."""
        step = self._step
        seen = self._seen = self._reader.look(step)
        if seen.exists:
            if self._loaded is None and not self._is_answered and seen.holder == step.owner:
                self._loaded = self._topics.loaded(step.bundle, step.owner)
            loaded = self._loaded or LoadedTopics()
            return Observation(
                exists=True,
                holder=seen.holder,
                token=seen.token,
                topics=loaded.topics,
                clients=loaded.clients,
            )
        self._parts = {
            part: self._reader.look(msgspec.structs.replace(step, bundle=part))
            for part in seen.parts
        }
        detail = self._describe_parts() if seen.is_split(step.bundle) else seen.absence(step.bundle)
        return Observation(exists=False, detail=detail)

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return the reason the bundle cannot be split as planned."""
        idle = "A split would first assign it to an arbitrary broker."
        return not_as_planned(self._step, seen, self._seen, idle)

    def send(self) -> None:
        """Request the split from the owner, once."""
        self._send(self._step.request())
        self._is_answered = True

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        """Return into what it was split, ``None`` while it is whole or its parts are on the way."""
        if now.exists:
            return None
        if self._seen is None or not self._seen.is_split(self._step.bundle):
            return self._lost(now)
        self._follow(before)
        if any(part.holder is None for part in self._parts.values()):
            return None
        is_placed = not self._step.is_unloaded or self._moved >= self._parts.keys()
        return self._split(now) if is_placed or self._calm >= CALM_LOOKS else None

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the result when it was not split in time."""
        found = self.result(before, now)
        if found is not None:
            return found
        if now.exists:
            return self._whole(now, now.holder)
        unserved = [
            name
            for name, part in self._parts.items()
            if part.holder is None and not self._is_idle(name, before)
        ]
        return self._unassigned(before, now, unserved) if unserved else self._split(now)

    def _is_idle(self, part: str, before: Observation) -> bool:
        """Return whether an unassigned part is unused; a loaded topic would assign it."""
        return before.topics == 0 or self._topics.has_topics(part) is False

    def _follow(self, before: Observation) -> None:
        """Note which parts have changed hands since they were seen first."""
        calm = True
        for name, part in self._parts.items():
            first = self._first.setdefault(name, part)
            has_left = part.holder is None or part.holder != before.holder
            if has_left or part.token != first.token:
                self._moved.add(name)
            calm = calm and part.holder is not None
        self._calm = self._calm + 1 if calm else 0

    # -- words --------------------------------------------------------------------------------

    def _split(self, now: Observation) -> StepResult:
        step, found = self._step, self._inner()
        is_other = bool(step.boundaries) and found != tuple(sorted(step.boundaries))
        owners = ", ".join(f"0x{bound:08x}" for bound in step.boundaries)
        other = f" Expected boundaries: {owners}." if is_other else ""
        return StepResult(
            state="DONE",
            code="split_elsewhere" if is_other else "split",
            sentence=now.detail + other,
            after=now,
        )

    def _unassigned(self, before: Observation, now: Observation, unserved: list[str]) -> StepResult:
        return StepResult(
            state="UNKNOWN",
            code="unassigned",
            sentence=f"{now.detail} No broker owns {' and '.join(unserved)}. "
            f"{describe_loaded(before)}",
            hint=lookup_hint(unserved[0]),
            after=now,
        )

    def _describe_parts(self) -> str:
        parts = [
            f"{name.rpartition('/')[2]} "
            + (f"at {part.holder}" if part.holder else "(unassigned: no lookup yet)")
            for name, part in self._parts.items()
        ]
        return f"{self._step.bundle} was split into {', '.join(parts)}."

    def _inner(self) -> tuple[int, ...]:
        ranges = sorted(parse_range(name.rpartition("/")[2]) for name in self._parts)
        return tuple(upper for (_, upper), _ in pairwise(ranges))

    def _whole(self, now: Observation, holder: str | None) -> StepResult:
        """Distinguish "it did not happen" from "it may still happen"."""
        if self._is_answered:
            return self._not_done(now, "although the request returned")
        try:
            is_quiet = holder is None or self._serves(holder, self._step.bundle)
        except RemoteError as exc:
            return self._unknown(now, str(exc))
        if is_quiet:
            return self._not_done(now, f"{holder} still serves the whole bundle")
        return self._unknown(now, f"{holder} is still splitting it.")

    def _not_done(self, now: Observation, why: str) -> StepResult:
        return StepResult(
            state="FAILED",
            code="not_done",
            sentence=f"{self._step.bundle} was not split, {why}; its boundaries are unchanged.",
            hint="Pulsar does not split a bundle with fewer than two loaded topics, or at its "
            "own bounds.",
            after=now,
        )

    def _lost(self, now: Observation) -> StepResult:
        return StepResult(
            state="FAILED",
            code="unknown_bundle",
            sentence=f"{self._step.bundle} no longer exists. {now.detail}",
            hint=GONE_HINT,
            after=now,
        )

    def _unknown(self, now: Observation, why: str) -> StepResult:
        return StepResult(
            state="UNKNOWN",
            code="timed_out",
            sentence=f"{self._step.bundle} may still be split. {why}",
            hint="The request is not sent again; the step is reconciled by observation.",
            after=now,
        )
