"""One proposal for one partition: what moving a replica and a single safe change have in common.

The answer of the meta server says only that it is queued; its result is read from ballot and
members. It is sent once: what is left of it after a failure is a matter of looking.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Protocol

from connectors.pegasus.acting.partition_reader import (
    Members,
    PartitionObservation,
    PartitionReader,
    seen_of,
)
from connectors.pegasus.acting.verdict import (
    ProposalVerdict,
    TargetRoles,
    judge,
)
from core.actions.model import Observation, Refusal, StepResult
from core.errors import ConflictError, GuardRefusedError, InvariantError, RemoteError
from core.pegasus.partition import PartitionConfig, membership
from core.pegasus.proposal import Proposal, ProposalContext
from core.pegasus.steps.partition import Partition


class ProposalPort(Protocol):
    """Cluster interface of proposals."""

    @property
    def reader(self) -> PartitionReader:
        """Reads nodes, partitions and who leads."""
        ...

    def propose(self, proposal: Proposal) -> str:
        """Send a proposal, once; return who has queued it; raise RemoteError, GuardRefusedError."""
        ...


ROLES_WITHIN_S: Final = 60.0
"""Six ticks of a real meta server: long enough for roles to change."""

COPY_WITHIN_S: Final = 600.0
_SLOW_MB_PER_S: Final = 5.0
"""The slowest copying that is waited for; no server takes a lower limit."""

LOOKS_A_REIGN: Final = 4
"""The leader is read at every fourth look."""

_PLAN_AGAIN: Final = "Take a fresh snapshot and plan again."


def copy_timeout_s(size_mb: float | None) -> float:
    """Return the timeout of a copy of that size."""
    return max(COPY_WITHIN_S, (size_mb or 0.0) / _SLOW_MB_PER_S + ROLES_WITHIN_S)


def as_refusal(exc: GuardRefusedError, *, is_pending: bool = False) -> Refusal:
    """Return a refusal to build a proposal in the executor's form."""
    code = "pending" if is_pending else "proposal_refused"
    return Refusal(code=code, sentence=exc.message, hint=exc.hint)


def not_sent(exc: GuardRefusedError, operation: str) -> ConflictError:
    """Return a refusal at the last moment as an error of the call that was not made."""
    return ConflictError(
        exc.message, endpoint="pegasus", operation=operation, outcome="not_sent", hint=exc.hint
    )


class PartitionAction(ABC):
    """Common base of proposals for one partition.

    Args:
        partition: As it was when the plan was made.
        cluster: Where.
    """

    def __init__(self, partition: Partition, cluster: ProposalPort) -> None:
        self._partition = partition
        self._reader = cluster.reader
        self._propose = cluster.propose
        self._config: PartitionConfig | None = None
        self._proposal: Proposal | None = None
        self._reign = ""
        self._looks = 0

    # -- what differs ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def timeout_s(self) -> float:
        """Max time until the effect."""

    @abstractmethod
    def _wanted(self, before: PartitionConfig) -> TargetRoles:
        """Return the proposed roles."""

    @abstractmethod
    def _has_role(self, now: PartitionConfig) -> bool:
        """Return whether the planned nodes still have the planned roles."""

    @abstractmethod
    def _built(self, context: ProposalContext, config: PartitionConfig) -> Proposal:
        """Return the proposal, or raise GuardRefusedError."""

    @abstractmethod
    def _done(self) -> str:
        """Return the result, one sentence."""

    # -- the action -----------------------------------------------------------------------------

    def look(self) -> Observation:
        """Read the partition, and now and then who leads."""
        planned = self._partition
        found = self._reader.partitions([planned]).get(planned.gpid)
        self._config = found
        if self._looks % LOOKS_A_REIGN == 0:
            self._reign = self._reader.reign()
        self._looks += 1
        if found is None:
            detail = f"{planned.gpid} of table {planned.table} no longer exists."
            return Observation(exists=False, detail=detail)
        return Observation(
            exists=True,
            holder=found.primary,
            token=str(found.ballot),
            value=PartitionObservation({planned.gpid: Members.of(found)}, self._reign).text(),
        )

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return the reason the partition cannot be changed as planned."""
        now, planned = self._config, self._partition.config()
        if not seen.exists or now is None:
            return Refusal(code="unknown_partition", sentence=seen.detail, hint=_PLAN_AGAIN)
        if self._wanted(planned).is_reached(now):
            sentence = f"{now.gpid} is already as requested: {membership(now)}."
            return Refusal(code="already_there", sentence=sentence, hint="Nothing to do.")
        if not self._has_role(now):
            return Refusal(
                code="moved_meanwhile",
                sentence=f"{now.gpid} has {membership(now)}; the plan expected "
                f"{membership(planned)}.",
                hint=_PLAN_AGAIN,
            )
        context = self._reader.cluster()
        try:
            self._proposal = self._built(context, now)
        except GuardRefusedError as exc:
            return as_refusal(exc, is_pending=now.gpid in context.pending)
        return None

    def send(self) -> None:
        """Propose it, once."""
        if self._proposal is None:
            raise InvariantError(f"A proposal for {self._partition.gpid} was never checked.")
        try:
            endpoint = self._propose(self._proposal)
        except GuardRefusedError as exc:
            raise not_sent(exc, "propose") from exc
        except RemoteError as exc:
            if exc.outcome == "unknown":
                self._note_sent(exc.endpoint, is_answered=False)
            raise
        self._note_sent(endpoint)

    def _note_sent(self, endpoint: str, *, is_answered: bool = True) -> None:
        gpid = self._partition.gpid
        self._reader.note_sent([gpid], self._reign, endpoint, is_answered=is_answered)

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        """Return the result, ``None`` while it is pending."""
        verdict = self._judged(before)
        if verdict is None:
            return StepResult(
                state="FAILED", code="unknown_partition", sentence=now.detail, after=now
            )
        if verdict.state == "waiting":
            copies = self._config is not None and self._wanted(self._config).is_copy
            is_lost = not copies and self._is_lost(before, now)  # a copy goes on without a leader
            return self._orphaned(before, now, verdict) if is_lost else None
        return self._observed_result(verdict, now)

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the result when it was not seen in time."""
        found = self.result(before, now)
        if found is not None:
            return found
        verdict = self._judged(before)
        sentence = verdict.sentence if verdict is not None else ""
        if self._is_lost(before, now):
            return self._orphaned(before, now, verdict)
        return StepResult(
            state="UNKNOWN",
            code="timed_out",
            sentence=f"Whether {self._partition.gpid} will still change is unknown: {sentence}",
            hint="The proposal is not repeated. `set_meta_level steady` discards pending "
            "proposals.",
            after=now,
        )

    # -- how ------------------------------------------------------------------------------------

    def _judged(self, before: Observation) -> ProposalVerdict | None:
        """Return the verdict, or ``None`` if the partition no longer exists."""
        if self._config is None:
            return None
        planned = self._partition
        members = seen_of(before, [planned]).items.get(planned.gpid)
        was = planned.config() if members is None else members.config(planned)
        return judge(self._wanted(was), was, self._config)

    def _observed_result(self, verdict: ProposalVerdict, now: Observation) -> StepResult:
        if verdict.state == "done":
            return StepResult(state="DONE", code="moved", sentence=self._done(), after=now)
        if verdict.state == "returned":
            sentence = f"{self._done()} The guardian has since added it again: {verdict.sentence}"
            return StepResult(state="DONE", code="returned", sentence=sentence, after=now)
        return StepResult(
            state="FAILED",
            code="landed_elsewhere" if verdict.state == "elsewhere" else "half_done",
            sentence=f"It was not executed as requested. {verdict.sentence}",
            hint=_PLAN_AGAIN,
            after=now,
        )

    def _is_lost(self, before: Observation, now: Observation) -> bool:
        """Return whether it was lost with its leader and can no longer be executed."""
        planned = self._partition
        reign = seen_of(before, [planned]).reign
        return now.holder is not None and self._reader.is_lost(planned.gpid, reign)

    def _orphaned(
        self, before: Observation, now: Observation, verdict: ProposalVerdict | None
    ) -> StepResult:
        is_untouched = before.token == now.token
        lost = "It" if is_untouched else "The remaining proposal"
        result = verdict.sentence if verdict is not None else ""
        return StepResult(
            state="FAILED",
            code="not_done" if is_untouched else "half_done",
            sentence=f"{lost} was lost when another meta server took over ({self._reign}). "
            f"{result}",
            hint=_PLAN_AGAIN,
            after=now,
        )
