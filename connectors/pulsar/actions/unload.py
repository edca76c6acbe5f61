"""Unloading a bundle: what is observed, sent and judged.

The other half is :mod:`core.pulsar.steps.unload`.

The request is sent once. Whatever it answers, the result is what the cluster shows: 204 says
nothing about where the bundle lands, and no answer does not mean that nothing happened.

It is done when a broker answers that it serves the bundle, or when nothing asks for it: no topic
was loaded before, and none has been since, for that would have assigned it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Protocol

from connectors.pulsar.acting.bundle_reader import BundleReader, BundleState, OwnersAnswer
from connectors.pulsar.acting.planned import (
    GONE_HINT,
    SPLIT_HINT,
    describe_loaded,
    lookup_hint,
    not_as_planned,
)
from connectors.pulsar.acting.topics_reader import LoadedTopics, TopicsReader
from core.actions.model import Observation, Refusal, StepResult
from core.errors import RemoteError, RemoteTimeoutError, UnreachableError
from core.pulsar.steps.base import AdminRequest
from core.pulsar.steps.unload import UnloadBundle
from core.units import format_age

Send = Callable[[AdminRequest], None]
"""Sends a step's request to whoever has to get it."""
Serves = Callable[[str, str], bool]
"""Whether a broker says that it owns a bundle and is not giving it up; raises RemoteError."""


class UnloadPort(Protocol):
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

    def load_manager(self) -> str:
        """Return ``modular``, ``extensible`` or another one."""
        ...

    def leader_url(self) -> str:
        """Return the leader's address as of now."""
        ...

    def url_of(self, broker: str) -> str:
        """Return a broker's address, or any other where it has none."""
        ...

    def send(self, base: str, request: AdminRequest) -> None:
        """Send a request, once."""
        ...


def unload_action(step: UnloadBundle, cluster: UnloadPort) -> UnloadAction:
    """Return the action on a cluster.

    The modular manager's leader keeps a destination in mind and sends on to the owner, so it is
    the leader who has to get it.
    """
    owners = cluster.owners()

    def send(request: AdminRequest) -> None:
        is_for_leader = step.destination is not None and cluster.load_manager() == "modular"
        cluster.send(cluster.leader_url() if is_for_leader else cluster.url_of(step.owner), request)

    return UnloadAction(step, cluster.reader(owners), send, owners.still_serves, cluster.topics())


class UnloadAction:
    """One unload. Made for every step, and again by a worker that takes a run over.

    Args:
        step: What to do.
        reader: Look at the bundle.
        send: Sends the request.
        serves: Checks with a broker that it serves the bundle, with nothing in progress there.
        topics: Reads what asks for the bundle.
    """

    def __init__(
        self,
        step: UnloadBundle,
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
        self._was_gone = False
        self._is_answered = False
        self._sent_s: float | None = None
        self._silence = ""

    @property
    def timeout_s(self) -> float:
        """The run's own."""
        return 0.0

    def look(self) -> Observation:
        """Read the bundle's live state; before the request, its owner's topics too."""
        seen = self._seen = self._reader.look(self._step)
        if self._loaded is None and self._sent_s is None and seen.holder == self._step.owner:
            self._loaded = self._topics.loaded(self._step.bundle, self._step.owner)
        loaded = self._loaded if self._loaded and self._sent_s is None else LoadedTopics()
        return Observation(
            exists=seen.exists,
            holder=seen.holder,
            token=seen.token,
            detail="" if seen.exists else seen.absence(self._step.bundle),
            topics=loaded.topics,
            clients=loaded.clients,
        )

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return the reason the bundle cannot be unloaded as planned."""
        refusal = not_as_planned(self._step, seen, self._seen, "Nothing to unload.")
        if refusal is not None or seen.holder is None:
            return refusal
        return self._forbids_destination(seen.holder)

    def _forbids_destination(self, holder: str) -> Refusal | None:
        step = self._step
        if step.destination == holder:
            return Refusal(
                code="destination_is_owner",
                sentence=f"{holder} already owns {step.bundle}.",
                hint="Nothing to do.",
            )
        if self._seen is not None and not self._seen.is_destination_there:
            return Refusal(
                code="destination_unknown",
                sentence=f"{step.destination}, the destination of {step.bundle}, is no longer a "
                "live broker; the cluster would return 409.",
                hint="Start that broker, or plan again with another destination.",
            )
        return None if step.destination is None else self._not_there(step.destination)

    def _not_there(self, destination: str) -> Refusal | None:
        """Return the refusal of a registered destination that does not answer."""
        try:
            self._serves(destination, self._step.bundle)
        except (UnreachableError, RemoteTimeoutError) as exc:
            return Refusal(
                code="destination_dead",
                sentence=f"{destination}, the destination of {self._step.bundle}, is registered "
                f"but does not respond: {exc.message}",
                hint="Check that broker, or plan again with another destination.",
            )
        except RemoteError:
            return None  # it answers, or cannot be asked
        return None

    def send(self) -> None:
        """Request the unload, once."""
        self._sent_s = monotonic()
        self._send(self._step.request())
        self._is_answered = True

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        """Return the new owner's result, or ``None`` while there is none."""
        if not now.exists:
            return self._split_meanwhile(now)
        if now.holder is None:
            self._was_gone = True
            return None
        is_elsewhere = self._has_changed_hands(before, now)
        return self._landed(before, now) if is_elsewhere and self._is_served(now) else None

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the result when the bundle did not land in time."""
        found = self.result(before, now)
        if found is not None:
            return found
        if now.holder is None:
            return self._given_up(before, now)
        if self._has_changed_hands(before, now):
            return self._not_answering(now, now.holder)
        if self._is_answered and now.token is None:
            # no znode distinguishes ownerships here; the answer came when it was over
            return self._landed(before, now)
        return self._never_left(now, now.holder)

    def _never_left(self, now: Observation, holder: str) -> StepResult:
        """Distinguish "it did not happen" from "it may still happen"."""
        if self._is_answered:
            return self._not_done(now, f"although the request returned, {holder} never")
        try:
            is_quiet = self._serves(holder, self._step.bundle)
        except RemoteError as exc:
            return self._unknown(now, str(exc))
        if is_quiet:
            return self._not_done(now, f"{holder} still serves it and never")
        return self._unknown(now, f"{holder} is still unloading it.")

    def _is_served(self, now: Observation) -> bool:
        """Return whether the new owner reports that it serves the bundle.

        Ownership in ZooKeeper outlives its broker until the session ends. A broker that refuses
        the question lives, and of one that cannot be asked only ownership is known; where there is
        no token, the owner is known from its own answer.
        """
        if now.holder is None or now.token is None:
            return now.holder is not None
        try:
            is_served = self._serves(now.holder, self._step.bundle)
        except (UnreachableError, RemoteTimeoutError) as exc:
            self._silence = exc.message
            return False
        except RemoteError:
            return True
        self._silence = ""
        return is_served

    # -- words --------------------------------------------------------------------------------

    def _has_changed_hands(self, before: Observation, now: Observation) -> bool:
        if before.token is not None and now.token is not None:
            return before.token != now.token
        return before.holder != now.holder or self._was_gone

    def _landed(self, before: Observation, now: Observation) -> StepResult:
        step, source = self._step, before.holder or self._step.owner
        bundle, target = step.bundle, step.destination
        origin = f"{target} was requested." if target else "the cluster placed it there."
        if now.holder == target or (target is None and now.holder != source):
            way = ", as requested" if target else "; the cluster placed it there"
            sentence = f"{bundle} moved from {source} to {now.holder}{way}{self._served_by(now)}."
            return StepResult(state="DONE", code="landed", sentence=sentence, after=now)
        if now.holder == source:
            return StepResult(
                state="DONE",
                code="returned",
                sentence=f"{bundle} was unloaded from {source} and returned to "
                f"it{self._served_by(now)}; {origin}",
                hint=self._next_move(source),
                after=now,
            )
        return StepResult(
            state="DONE",
            code="landed_elsewhere",
            sentence=f"{bundle} moved from {source} to {now.holder}, not to "
            f"{target}{self._served_by(now)}: the cluster did not use the requested "
            "destination.",
            hint=self._next_move(now.holder or source),
            after=now,
        )

    def _served_by(self, now: Observation) -> str:
        """Return by whom it is served, and after what time if this action sent the request."""
        after = "" if self._sent_s is None else f" after {monotonic() - self._sent_s:.1f} s"
        return f" (served by {now.holder}{after})"

    def _next_move(self, holder: str) -> str:
        """Return the route to the destination from where the bundle is now."""
        step = self._step
        if step.destination is None:
            return "Set a destination to move it."
        return (
            f"To move it from {holder}: `trimtab unload SNAPSHOT --bundle {step.bundle} --to "
            f"{step.destination} --plan OUT`."
        )

    def _given_up(self, before: Observation, now: Observation) -> StepResult:
        source, bundle = before.holder or self._step.owner, self._step.bundle
        is_lost = self._seen is not None and not self._seen.is_owner_there
        what = (
            f"{source} left the cluster; {bundle} lost its owner"
            if is_lost
            else f"{source} released {bundle}"
        )
        if self._is_idle(before):
            return StepResult(
                state="DONE",
                code="owner_lost" if is_lost else "idle",
                sentence=f"{what}. It is unassigned: no lookup of its topics yet. {self._note()}",
                after=now,
            )
        took = "" if self._sent_s is None else f" {format_age(monotonic() - self._sent_s)} later"
        return StepResult(
            state="UNKNOWN",
            code="owner_lost" if is_lost else "unassigned",
            sentence=f"{what}; it is unassigned{took}. {describe_loaded(before)}",
            hint=lookup_hint(bundle),
            after=now,
        )

    def _is_idle(self, before: Observation) -> bool:
        """Return whether an unassigned bundle is unused; a loaded topic would assign it."""
        if before.topics is not None:
            return before.topics == 0
        return self._topics.has_topics(self._step.bundle) is False

    def _note(self) -> str:
        if self._step.destination is not None:
            return f"Until then the leader may still assign it to {self._step.destination}."
        return "The first lookup of one of its topics assigns it."

    def _not_answering(self, now: Observation, holder: str) -> StepResult:
        return StepResult(
            state="UNKNOWN",
            code="not_answering",
            sentence=f"{holder} owns {self._step.bundle} but does not serve it. "
            f"{self._silence}".rstrip(),
            hint=f"Check that {holder} runs. If it is dead, its session expires and the next "
            "lookup assigns the bundle again.",
            after=now,
        )

    def _split_meanwhile(self, now: Observation) -> StepResult:
        is_split = self._seen is None or self._seen.is_split(self._step.bundle)
        return StepResult(
            state="FAILED",
            code="bundle_split" if is_split else "unknown_bundle",
            sentence=f"{self._step.bundle} no longer exists. {now.detail}".strip(),
            hint=SPLIT_HINT if is_split else GONE_HINT,
            after=now,
        )

    def _not_done(self, now: Observation, why: str) -> StepResult:
        return StepResult(
            state="FAILED",
            code="not_done",
            sentence=f"{self._step.bundle} was not unloaded: {why} released it.",
            hint=f"Check the log of {now.holder}, then plan again.",
            after=now,
        )

    def _unknown(self, now: Observation, why: str) -> StepResult:
        return StepResult(
            state="UNKNOWN",
            code="timed_out",
            sentence=f"{self._step.bundle} may still leave {now.holder}. {why}",
            hint="The request is not sent again; the step is reconciled by observation.",
            after=now,
        )
