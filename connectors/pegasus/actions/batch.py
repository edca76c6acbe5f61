"""Emptying a node in a batch: what is observed, sent and judged.

The other half is :mod:`core.pegasus.steps.batch`. The proposals are sent together and awaited
together.

Each is sent once. One that is refused does not stop the others; after one without an answer no
more are sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connectors.pegasus.acting.partition_reader import Members, PartitionObservation, seen_of
from connectors.pegasus.acting.proposing import (
    LOOKS_A_REIGN,
    ROLES_WITHIN_S,
    ProposalPort,
    as_refusal,
)
from connectors.pegasus.acting.verdict import (
    ProposalVerdict,
    State,
    TargetRoles,
    judge,
    wanted_of_change,
    wanted_of_move,
)
from core.actions.model import Observation, Refusal, StepResult
from core.errors import ConflictError, GuardRefusedError, RemoteError
from core.pegasus.balance.model import ConfigType, PlanKind
from core.pegasus.levels import FunctionLevel
from core.pegasus.partition import PartitionConfig, membership
from core.pegasus.proposal import Proposal, ProposalContext
from core.pegasus.steps.batch import PartitionProposal, ProposeMany

_EACH_S: Final = 0.5
_MAX_NAMED: Final = 6
_PLAN_AGAIN: Final = "Take a fresh snapshot and plan the remaining steps again."


class BatchAction:
    """Many proposals of one node.

    Args:
        step: What to do.
        cluster: Where.
    """

    def __init__(self, step: ProposeMany, cluster: ProposalPort) -> None:
        self._step = step
        self._reader = cluster.reader
        self._propose = cluster.propose
        self._configs: dict[str, PartitionConfig] = {}
        self._proposals: list[Proposal] = []
        self._left: dict[str, str] = {}
        self._reign = ""
        self._looks = 0

    @property
    def timeout_s(self) -> float:
        """A minute, and half a second for each: they share the meta server's ticks."""
        return ROLES_WITHIN_S + _EACH_S * len(self._step.items)

    def look(self) -> Observation:
        """Read every partition of it."""
        planned = [item.partition for item in self._step.items]
        self._configs = self._reader.partitions(planned)
        if not self._reign:
            self._reign = self._reader.reign()
        elif self._looks % LOOKS_A_REIGN == 0:
            self._reader.reign()
        self._looks += 1
        items = {gpid: Members.of(config) for gpid, config in self._configs.items()}
        ballots = sum(config.ballot for config in self._configs.values())
        return Observation(
            exists=bool(items),
            holder=self._step.node,
            token=str(ballots),
            value=PartitionObservation(items, self._reign).text(),
        )

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return the reason nothing can be proposed; single unfit partitions are skipped.

        The partitions of a table that was dropped are on no node any more.
        """
        del seen
        context = self._reader.cluster()
        if context.level <= FunctionLevel.FREEZED:
            return Refusal(
                code="proposal_refused",
                sentence=f"At level {context.level.word} proposals stay pending until it is "
                "raised.",
                hint="Set the level to steady first.",
            )
        self._proposals, self._left = [], {}
        reached = 0
        for item in self._step.items:
            now = self._configs.get(item.partition.gpid)
            if now is None or self._has_left(now):
                reached += 1
                continue
            self._check(context, item, now)
        if self._proposals:
            return None
        if reached == len(self._step.items):
            sentence = f"All {reached} partitions already left {self._step.node}{self._gone()}."
            return Refusal(code="already_there", sentence=sentence, hint="Nothing to do.")
        why = f"{self._many(reached)} are already as requested; the others cannot be proposed: "
        return Refusal(
            code="pending" if self._left.keys() <= context.pending else "moved_meanwhile",
            sentence=why + self._reasons(list(self._left)),
            hint=_PLAN_AGAIN,
        )

    def send(self) -> None:
        """Propose each, once."""
        queued: dict[str, list[str]] = {}
        failure: RemoteError | None = None
        is_unanswered = False
        for place, proposal in enumerate(self._proposals):
            gpid = f"{proposal.app_id}.{proposal.index}"
            try:
                endpoint = self._propose(proposal)
            except GuardRefusedError as exc:
                self._left[gpid] = exc.message
                failure = failure or ConflictError(
                    exc.message,
                    endpoint="pegasus",
                    operation="propose",
                    outcome="not_sent",
                    hint=exc.hint,
                )
            except RemoteError as exc:
                failure = failure or exc
                if exc.outcome != "refused":
                    self._give_up(proposal, self._proposals[place + 1 :], exc)
                    is_unanswered = exc.outcome == "unknown"
                    break
                self._left[gpid] = exc.message
            else:
                queued.setdefault(endpoint, []).append(gpid)
        for endpoint, gpids in queued.items():  # the leader may have changed in between
            self._reader.note_sent(gpids, self._reign, endpoint)
        if not queued and not is_unanswered and failure is not None:
            raise failure

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        """Return the results, ``None`` while some are pending."""
        verdicts = self._verdicts(before)
        waiting = self._waiting(verdicts)
        reign = seen_of(before, ()).reign
        if not all(self._reader.is_lost(gpid, reign) for gpid in waiting):
            return None
        return self._result(verdicts, before, now)

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the result when not all were seen in time."""
        verdicts = self._verdicts(before)
        waiting = self._waiting(verdicts)
        self._reader.reign()
        reign = seen_of(before, ()).reign
        pending = [gpid for gpid in waiting if not self._reader.is_lost(gpid, reign)]
        if pending:
            return StepResult(
                state="UNKNOWN",
                code="timed_out",
                sentence=f"{self._sum(verdicts)}; pending: {self._named(pending)}.",
                hint="The proposals are not repeated. `set_meta_level steady` discards pending "
                "proposals.",
                after=now,
            )
        return self._result(verdicts, before, now)

    # -- one of them ----------------------------------------------------------------------------

    def _wanted(self, item: PartitionProposal, before: PartitionConfig) -> TargetRoles:
        node = self._step.node
        if self._step.verb == "move_pri":
            return wanted_of_move(PlanKind.MOVE_PRIMARY, before, node, item.target or "")
        return wanted_of_change(ConfigType.DOWNGRADE_TO_INACTIVE, before, node)

    def _has_left(self, config: PartitionConfig) -> bool:
        """Return whether the node has lost its role, to any node."""
        if self._step.verb == "move_pri" and config.primary is None:
            return False  # it may be chosen again
        return not self._step.is_undone(config)

    def _check(
        self, context: ProposalContext, item: PartitionProposal, now: PartitionConfig
    ) -> None:
        gpid, node = item.partition.gpid, self._step.node
        is_move = self._step.verb == "move_pri"
        if (now.primary != node) if is_move else (node not in now.secondaries):
            self._left[gpid] = f"it has {membership(now)}"
            return
        try:
            self._proposals.append(self._step.proposal(context, now))
        except GuardRefusedError as exc:
            self._left[gpid] = as_refusal(exc).sentence

    def _give_up(self, unanswered: Proposal, rest: Sequence[Proposal], exc: RemoteError) -> None:
        """Note what was not sent; whether ``unanswered`` arrived is reconciled by observation."""
        gpid = f"{unanswered.app_id}.{unanswered.index}"
        if exc.outcome == "not_sent":
            self._left[gpid] = exc.message
        else:
            self._reader.note_sent([gpid], self._reign, exc.endpoint, is_answered=False)
        for proposal in rest:
            gpid = f"{proposal.app_id}.{proposal.index}"
            self._left[gpid] = f"it was not proposed after {exc.message}"

    def _verdicts(self, before: Observation) -> dict[str, ProposalVerdict]:
        """Return the verdict of each by gpid; dropped partitions have left the node."""
        was = seen_of(before, [item.partition for item in self._step.items]).items
        found: dict[str, ProposalVerdict] = {}
        for item in self._step.items:
            planned = item.partition
            now, members = self._configs.get(planned.gpid), was.get(planned.gpid)
            if now is None:
                found[planned.gpid] = ProposalVerdict("done", "it no longer exists")
                continue
            if members is None:
                found[planned.gpid] = ProposalVerdict("half_done", "it did not exist before")
                continue
            config = members.config(planned)
            wanted = self._wanted(item, config)
            if self._has_left(config) and self._has_left(now):
                state: State = "done" if wanted.is_reached(now) else "elsewhere"
                found[planned.gpid] = ProposalVerdict(state, "it had left before")
            else:
                found[planned.gpid] = judge(wanted, config, now)
        return found

    # -- all of them ----------------------------------------------------------------------------

    def _waiting(self, verdicts: dict[str, ProposalVerdict]) -> list[str]:
        return [
            gpid
            for gpid, verdict in verdicts.items()
            if verdict.state == "waiting" and gpid not in self._left
        ]

    def _result(
        self, verdicts: dict[str, ProposalVerdict], before: Observation, now: Observation
    ) -> StepResult:
        has_left = {"done", "elsewhere"} if self._step.verb == "move_pri" else {"done"}
        failed = [gpid for gpid, verdict in verdicts.items() if verdict.state not in has_left]
        if not failed:
            code = "moved" if self._step.verb == "move_pri" else "taken_out"
            return StepResult(
                state="DONE", code=code, sentence=f"{self._sum(verdicts)}.", after=now
            )
        for gpid in failed:
            is_lost = verdicts[gpid].state == "waiting"
            why = "it was lost when another meta server took over"
            self._left.setdefault(gpid, why if is_lost else verdicts[gpid].sentence)
        none_left = len(failed) == len(verdicts)
        code = "not_done" if none_left else "partly"
        was_led = seen_of(before, ()).reign
        if was_led and self._reader.reign() != was_led:  # what it had queued is gone, too
            code = "lost_with_leader"
        return StepResult(
            state="FAILED",
            code=code,
            sentence=f"{self._sum(verdicts)}; {self._named(failed)} did not: "
            f"{self._reasons(failed)}",
            hint=_PLAN_AGAIN,
            after=now,
        )

    def _sum(self, verdicts: dict[str, ProposalVerdict]) -> str:
        states = [verdict.state for verdict in verdicts.values()]
        elsewhere = states.count("elsewhere")
        if self._step.verb != "move_pri":
            return f"{self._many(states.count('done'))} left {self._step.node}{self._gone()}"
        moved = f"{self._many(states.count('done') + elsewhere)} moved off {self._step.node}"
        where = f", {elsewhere} to a node other than requested" if elsewhere else ""
        return f"{moved}{where}{self._gone()}"

    def _gone(self) -> str:
        gone = sum(item.partition.gpid not in self._configs for item in self._step.items)
        return f", {gone} because the table was dropped" if gone else ""

    def _many(self, count: int) -> str:
        return f"{count:,} of {len(self._step.items):,}"

    @staticmethod
    def _named(gpids: Sequence[str]) -> str:
        more = f" and {len(gpids) - _MAX_NAMED} more" if gpids[_MAX_NAMED:] else ""
        return f"{', '.join(gpids[:_MAX_NAMED])}{more}"

    def _reasons(self, gpids: Sequence[str]) -> str:
        """Return the first reason of each different one, with the partition that it is about."""
        by_reason = {self._left[gpid]: gpid for gpid in reversed(gpids)}
        reasons = [f"{gpid}: {reason.rstrip('.')}" for reason, gpid in reversed(by_reason.items())]
        return "; ".join(reasons[:3]) + "."
