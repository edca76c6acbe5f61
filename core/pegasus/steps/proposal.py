"""What steps have in common that propose changes of partitions to the meta server.

A proposal is queued by the meta server and executed at its next tick; so a step holds each
partition as it was when the plan was made, and is verified by ballot and membership.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.errors import GuardRefusedError, OpsError
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig, membership
from core.pegasus.proposal import Proposal, ProposalContext
from core.pegasus.steps.base import PegasusStep, ProjectedState
from core.pegasus.steps.partition import Partition
from core.step import Diagnostic, Inverse

_AGAIN: Final = "Check it again, and create a new plan if it is still needed."
_BY_HAND: Final = "Check it, and move it manually if it still has to be reverted."


class ProposalStep(PegasusStep, frozen=True, kw_only=True):
    """A step that proposes changes of partitions."""

    @property
    def proposed(self) -> tuple[Partition, ...]:
        """The partitions, as they were when the plan was made."""
        raise NotImplementedError

    def nodes_of(self, gpid: str | None = None) -> tuple[str, ...]:
        """Return the nodes that it names.

        Args:
            gpid: Those for this partition only; ``None`` for all.
        """
        raise NotImplementedError

    def proposal(self, context: ProposalContext, config: PartitionConfig) -> Proposal:
        """Return the proposal for the current partition.

        Raises:
            GuardRefusedError: It would do nothing, something else, or harm.
        """
        raise NotImplementedError

    @property
    def is_queued(self) -> bool:
        """It is."""
        return True

    @property
    def touched(self) -> tuple[str, ...]:
        """The partitions."""
        return tuple(one.gpid for one in self.proposed)

    def check_partition(self, state: ProjectedState, planned: Partition) -> Diagnostic | None:
        """Return the refusal of a partition, or ``None`` after applying it to ``state``."""
        config = state.config(planned.gpid)
        if config is None:
            return _lost(state, planned)
        refusals = map(state.check_node, self.nodes_of(planned.gpid))
        refusal = next((one for one in refusals if one is not None), None)
        if refusal is not None:
            return refusal
        level = state.level
        if level is not None and level <= FunctionLevel.FREEZED:
            return _frozen(level, self.subject)
        try:
            proposal = self.proposal(state.proposal_context(), config)
        except GuardRefusedError as exc:
            return _refused(state, planned, exc)
        state.advance(config, proposal.actions)
        return None


def _refused(state: ProjectedState, planned: Partition, exc: GuardRefusedError) -> Diagnostic:
    before, now = planned.config(), state.config_as_read(planned.gpid)
    if now is not None and _roles(before) != _roles(now):
        return Diagnostic(
            severity="error",
            code="moved_meanwhile",
            sentence=f"Partition {now.gpid} had {membership(before)} (ballot {before.ballot}) when "
            f"the plan was made, and now has {membership(now)} (ballot {now.ballot}). "
            f"{exc.message}",
            subject=now.gpid,
            hint=_AGAIN,
        )
    return Diagnostic(
        severity="error",
        code="proposal_refused",
        sentence=exc.message,
        subject=planned.gpid,
        hint=exc.hint or _AGAIN,
    )


def _roles(config: PartitionConfig) -> tuple[str | None, frozenset[str]]:
    return config.primary, frozenset(config.secondaries)


def _lost(state: ProjectedState, planned: Partition) -> Diagnostic:
    if not state.has_table(planned.table):
        return Diagnostic(
            severity="error",
            code="table_gone",
            sentence=f"Table {planned.table} of partition {planned.gpid} no longer exists.",
            subject=planned.gpid,
            hint="Create a new plan without it.",
        )
    return Diagnostic(
        severity="error",
        code="unknown_partition",
        sentence=f"Partition {planned.gpid} of {planned.table} was not read.",
        subject=planned.gpid,
        hint=_AGAIN,
    )


def _frozen(level: FunctionLevel, subject: str) -> Diagnostic:
    return Diagnostic(
        severity="error",
        code="level_too_low",
        sentence=f"At the effective level {level.word} no proposal is executed.",
        subject=subject,
        hint="Set the level to steady first; it is freezed automatically while nodes are missing.",
    )


# -- findings of inverses -----------------------------------------------------------------------


def stays(code: str, subject: str, sentence: str, hint: str = _BY_HAND) -> Inverse:
    """Return the note that something is not undone."""
    return Inverse(
        finding=Diagnostic(
            severity="warning", code=code, sentence=sentence, subject=subject, hint=hint
        )
    )


def needless(subject: str, sentence: str) -> Inverse:
    """Return the note that nothing has to be undone."""
    return Inverse(
        finding=Diagnostic(
            severity="info", code="undo_not_needed", sentence=sentence, subject=subject
        )
    )


def moved_since(config: PartitionConfig, where: str | None) -> Inverse:
    """Return the note that a partition changed after the run.

    Args:
        config: As it is now.
        where: How it is as before the run; ``None`` if it is not.
    """
    if where is not None:
        return needless(config.gpid, f"{config.gpid} is already as before ({where}).")
    sentence = f"{config.gpid} now has {membership(config)}: it was changed since the run."
    return stays("undo_moved_since", config.gpid, sentence)


def refusal_of(gpid: str, propose: Callable[[], object]) -> Inverse | None:
    """Return the refusal of an inverse, or ``None``."""
    try:
        propose()
    except OpsError as exc:
        return stays("undo_refused", gpid, exc.message, exc.hint)
    return None
