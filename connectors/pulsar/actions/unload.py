"""Unloading a bundle: what is observed, sent and judged.

The other half is :mod:`core.pulsar.steps.unload`.

The request is sent once. Whatever it answers, the result is what the cluster shows: 204 says
nothing about where the bundle lands, and no answer does not mean that nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from connectors.pulsar.acting.bundle_reader import BundleReader, BundleState, OwnersAnswer
from connectors.pulsar.acting.planned import SPLIT_HINT, not_as_planned
from core.actions.model import Observation, Refusal, StepResult
from core.errors import RemoteError
from core.pulsar.steps.base import AdminRequest
from core.pulsar.steps.unload import UnloadBundle

Send = Callable[[AdminRequest], None]
"""Sends a step's request to whoever has to get it."""
Serves = Callable[[str, str], bool]
"""Whether a broker says that it owns a bundle and is not giving it up; raises RemoteError."""


class UnloadPort(Protocol):
    """What it needs of the cluster."""

    def owners(self) -> OwnersAnswer:
        """Return the reader of what brokers own."""
        ...

    def reader(self, owners: OwnersAnswer) -> BundleReader:
        """Return what looks at bundles."""
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

    return UnloadAction(step, cluster.reader(owners), send, owners.still_serves)


class UnloadAction:
    """One unload. Made for every step, and again by a worker that takes a run over.

    Args:
        step: What to do.
        reader: Look at the bundle.
        send: Sends the request.
        serves: Checks with a broker that nothing is in progress there.
    """

    def __init__(
        self, step: UnloadBundle, reader: BundleReader, send: Send, serves: Serves
    ) -> None:
        self._step = step
        self._reader = reader
        self._send = send
        self._serves = serves
        self._seen: BundleState | None = None
        self._was_gone = False
        self._is_answered = False

    @property
    def timeout_s(self) -> float:
        """The run's own."""
        return 0.0

    def look(self) -> Observation:
        """Read the bundle's live state."""
        seen = self._seen = self._reader.look(self._step)
        return Observation(
            exists=seen.exists,
            holder=seen.holder,
            token=seen.token,
            detail="" if seen.exists else seen.absence(self._step.bundle),
        )

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return why the bundle may not be unloaded as planned."""
        refusal = not_as_planned(self._step, seen, self._seen, "There is nothing to unload.")
        if refusal is not None or seen.holder is None:
            return refusal
        return self._forbids_destination(seen.holder)

    def _forbids_destination(self, holder: str) -> Refusal | None:
        step = self._step
        if step.destination == holder:
            return Refusal(
                code="destination_is_owner",
                sentence=f"{holder} owns {step.bundle} already.",
                hint="Nothing has to be done.",
            )
        if self._seen is not None and not self._seen.is_destination_there:
            return Refusal(
                code="destination_unknown",
                sentence=f"{step.destination}, where {step.bundle} should go, is no live broker "
                "any more; the cluster would answer 409.",
                hint="Start that broker, or plan again with another destination.",
            )
        return None

    def send(self) -> None:
        """Request the unload, once."""
        self._send(self._step.request())
        self._is_answered = True

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        """Return where the bundle landed, ``None`` while it has not."""
        if not now.exists:
            return self._split_meanwhile(now)
        if now.holder is None:
            self._was_gone = True
            return None
        return self._landed(before, now) if self._has_changed_hands(before, now) else None

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the result when the bundle did not land in time."""
        found = self.result(before, now)
        if found is not None:
            return found
        if now.holder is None:
            return self._given_up(before, now)
        if self._is_answered and now.token is None:
            # no znode distinguishes ownerships here; the answer came when it was over
            return self._landed(before, now)
        return self._never_left(now, now.holder)

    def _never_left(self, now: Observation, holder: str) -> StepResult:
        """Distinguish "it did not happen" from "it may still happen"."""
        if self._is_answered:
            return self._not_done(now, f"although the request was answered, {holder} never")
        try:
            is_quiet = self._serves(holder, self._step.bundle)
        except RemoteError as exc:
            return self._unknown(now, str(exc))
        if is_quiet:
            return self._not_done(now, f"{holder} answers that it serves it and never")
        return self._unknown(now, f"{holder} is still busy giving it up.")

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
            sentence = f"{bundle} moved from {source} to {now.holder}" + (
                ", as requested." if target else "; the cluster placed it there."
            )
            return StepResult(state="DONE", code="landed", sentence=sentence, after=now)
        if now.holder == source:
            return StepResult(
                state="DONE",
                code="returned",
                sentence=f"{bundle} was closed on {source} and came back to it; {origin}",
                hint=self._next_move(source),
                after=now,
            )
        return StepResult(
            state="DONE",
            code="landed_elsewhere",
            sentence=f"{bundle} moved from {source} to {now.holder}, not to {target}: the cluster "
            "did not use the destination that it was given.",
            hint=self._next_move(now.holder or source),
            after=now,
        )

    def _next_move(self, holder: str) -> str:
        """Return the route to the destination from where the bundle is now."""
        step = self._step
        if step.destination is None:
            return "Name a destination, if it must leave."
        return (
            f"To move it on from {holder}: "
            f"`trimtab unload SNAPSHOT --bundle {step.bundle} --to {step.destination} --plan OUT`."
        )

    def _given_up(self, before: Observation, now: Observation) -> StepResult:
        note = (
            f"Until then the leader may keep {self._step.destination} in mind for it."
            if self._step.destination is not None
            else "It is placed by the first lookup of one of its topics."
        )
        source, bundle = before.holder or self._step.owner, self._step.bundle
        if self._seen is not None and not self._seen.is_owner_there:
            return StepResult(
                state="DONE",
                code="owner_lost",
                sentence=f"{source} left the cluster; {bundle} lost its owner with it, and no "
                f"client has looked it up since. {note}",
                hint="Take a fresh snapshot and plan again.",
                after=now,
            )
        return StepResult(
            state="DONE",
            code="unassigned",
            sentence=f"{source} gave up {bundle}, and it is unassigned: no client has looked it up "
            f"since. {note}",
            after=now,
        )

    def _split_meanwhile(self, now: Observation) -> StepResult:
        return StepResult(
            state="FAILED",
            code="bundle_split",
            sentence=f"{self._step.bundle} is gone since the step began. {now.detail}".strip(),
            hint=SPLIT_HINT,
            after=now,
        )

    def _not_done(self, now: Observation, why: str) -> StepResult:
        return StepResult(
            state="FAILED",
            code="not_done",
            sentence=f"{self._step.bundle} was not unloaded: {why} gave it up.",
            hint=f"Check the log of {now.holder}, then plan again.",
            after=now,
        )

    def _unknown(self, now: Observation, why: str) -> StepResult:
        return StepResult(
            state="UNKNOWN",
            code="timed_out",
            sentence=f"Whether {self._step.bundle} will still leave {now.holder} is unknown. {why}",
            hint="Nothing is sent again; it is reconciled by observation.",
            after=now,
        )
