"""Taking a run on a Pegasus cluster back: the inverse of what was done, last first.

Only what still is where the run left it goes back. Settings that were changed for the time of the
run are back already; what cannot be taken back is named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from core.actions.values import by_server, is_same_value
from core.actions.views import RunView, StepView
from core.actions.words import why_nothing_lasts
from core.errors import InvariantError, OpsError, PlanConflictError, UnknownNameError
from core.pegasus.balance.model import ConfigType, PlanKind
from core.pegasus.levels import parse_level
from core.pegasus.partition import PartitionConfig
from core.pegasus.proposal import propose_change, propose_move
from core.pegasus.server_settings import changeable, value_before
from core.plan.bare import Terms
from core.plan.model import Plan, sealed
from core.plan.pegasus_draft import KINDS, Draft
from core.plan.pegasus_steps import (
    EVERY_NODE,
    LEADER,
    AwaitState,
    ChangeReplica,
    CloseReplicas,
    MoveReplica,
    Proposed,
    ProposeMany,
    SetMetaLevel,
    SetServerSetting,
)
from core.plan.pegasus_verify import membership
from core.snapshot.pegasus import PegasusSnapshot

_BY_HAND: Final = "Look at it, and move it by hand if it still has to go back."


@dataclass(frozen=True, slots=True, kw_only=True)
class PegasusGround:
    """On what a plan that takes a run back is built.

    Attributes:
        snapshot: A fresh one.
        now: The present moment, aware UTC.
        exclusions: Tables that the configuration keeps out of every plan.
    """

    snapshot: PegasusSnapshot
    now: datetime
    exclusions: Collection[str] = field(default_factory=frozenset)


def undo_pegasus(view: RunView, ground: PegasusGround, reason: str) -> Plan:
    """Return the plan that takes a run back, last step first.

    Args:
        view: The run; it has ended, and is of the snapshot's cluster.
        ground: On what.
        reason: Why.
    Raises:
        PlanConflictError: The run left nothing that could be taken back.
    """
    undo = _Undo(view, ground, reason)
    for step in reversed(view.steps):
        undo.take_back(step)
    return undo.seal()


class _Undo:
    def __init__(self, view: RunView, ground: PegasusGround, reason: str) -> None:
        terms = Terms(
            now=ground.now, reason=reason, exclusions=ground.exclusions, undoes=view.run_id
        )
        self._view = view
        self._draft = Draft(ground.snapshot, terms)
        self._stays: list[tuple[str, str]] = []
        self._needless: list[str] = []
        self._full: list[str] = []
        self._is_level_checked = False

    def take_back(self, step: StepView) -> None:
        """Add the inverse of a step, or tell why there is none."""
        if not isinstance(step.step, AwaitState) and step.step.kept is None and self._is_done(step):
            self._inverse(step)

    def _is_done(self, step: StepView) -> bool:
        """Whether there is something to take back; tell what is left alone."""
        asked, ending = step.step, step.ending
        if step.state == "UNKNOWN":
            sentence = f"What became of {asked.subject} is unknown: it is left as it is."
            self._stay("undo_unknown", asked.subject, sentence)
            return False
        if step.state != "FAILED" or step.begun_at is None or ending is None:
            return step.state == "DONE"
        if isinstance(asked, ProposeMany):
            return True  # done in part, perhaps: each partition tells
        if ending.after is not None and step.before is not None and ending.after != step.before:
            sentence = f"{asked.subject} is left as it is: {ending.sentence}"
            self._stay("undo_half_done", asked.subject, sentence)
        return False

    def _inverse(self, step: StepView) -> None:
        match step.step:
            case SetMetaLevel() as asked:
                self._level_back(step, asked)
            case SetServerSetting() as asked:
                self._setting_back(step, asked)
            case MoveReplica() as asked:
                self._move_back(asked)
            case ChangeReplica() as asked:
                self._change_back(asked.partition.gpid, asked)
            case ProposeMany() as asked:
                self._batch_back(asked)
            case CloseReplicas() as asked:
                sentence = f"{asked.node}: closed replicas are not opened again by a plan."
                hint = "The guardian adds a replica there when one is missing."
                self._stay("undo_closed", asked.node, sentence, hint)
            case _:
                raise InvariantError(f"A Pegasus cluster has no step of kind {step.step.kind}.")

    def seal(self) -> Plan:
        """Return the plan; what stays makes it incomplete."""
        draft = self._draft
        if not draft.steps:
            sentence, hint = self._why_not()
            raise PlanConflictError(
                f"Nothing of run {self._view.run_id} can be taken back. {sentence}", hint=hint
            )
        plan = draft.seal()
        return sealed(replace(plan, complete=False)) if self._stays else plan

    def _why_not(self) -> tuple[str, str]:
        """Return why nothing can be taken back, and what to do about it."""
        if not self._stays:
            nothing = why_nothing_lasts(self._view) or "It changed nothing."
            return next(iter(self._needless), nothing), ""
        sentence, hint = self._stays[0]
        if len(self._full) > 1:  # a drained node: the guardian has put everything elsewhere
            sentence = (
                f"{len(self._full):,} partitions have as many replicas as they are to have, on "
                f"other nodes; the first of them: {sentence}"
            )
            hint = "`trimtab pegasus rebalance` brings replicas to a node that has few."
        return sentence, hint

    # -- settings -------------------------------------------------------------------------------

    def _level_back(self, step: StepView, asked: SetMetaLevel) -> None:
        stored = self._draft.facts.stored_level
        held = None if stored is None else stored.word
        before = (step.before.value if step.before else None) or asked.before
        if not self._is_to_go_back(asked.subject, held, asked.level, before):
            return
        self._draft.set_level(parse_level(before))

    def _setting_back(self, step: StepView, asked: SetServerSetting) -> None:
        draft, before = self._draft, step.before.value if step.before else asked.before
        server = asked.server if asked.server not in (LEADER, EVERY_NODE) else None
        held = value_before(changeable(asked.key), draft.facts, server)
        if before is None:
            sentence = f"What {asked.subject} was before is unknown: it is left as it is."
            self._stay("undo_unknown", asked.subject, sentence, "Set it by hand if need be.")
            return
        if not self._is_to_go_back(asked.subject, held, asked.value, before):
            return
        each = by_server(before)
        pairs = [(server, before)] if each is None else list(each.items())
        for node, value in pairs:
            try:
                draft.set_setting(asked.key, value, server=node)
            except OpsError as exc:
                self._stay("undo_refused", asked.subject, exc.message, exc.hint)

    def _is_to_go_back(self, subject: str, held: str | None, left_at: str, before: str) -> bool:
        if is_same_value(held, before):
            self._need_not(subject, f"{subject} is {held or 'empty'} already, as it was.")
            return False
        if is_same_value(held, left_at):
            return True
        is_known = "unknown" if held is None else f"{held or 'empty'} now"
        self._stay(
            "undo_changed_since",
            subject,
            f"{subject} is {is_known}; the run left it at {left_at}: somebody changed it since.",
            "Ask who did, and set it by hand if it still has to go back.",
        )
        return False

    # -- partitions -----------------------------------------------------------------------------

    def _move_back(self, asked: MoveReplica) -> None:
        gpid, config = asked.partition.gpid, self._config(asked.partition.gpid)
        if config is None:
            return
        held = config.secondaries if asked.move == "copy_sec" else (config.primary,)
        if asked.target not in held:
            is_back = asked.source in held
            self._moved_since(gpid, config, asked.source if is_back else None)
        elif self._is_safe(
            gpid, lambda: self._propose(config, KINDS[asked.move], asked.target, asked.source)
        ):
            self._check_level()
            self._draft.move(gpid, asked.move, asked.target, asked.source)

    def _change_back(self, gpid: str, asked: ChangeReplica) -> None:
        config = self._config(gpid)
        if config is None:
            return
        if asked.change == "ASSIGN_PRIMARY":
            sentence = f"{gpid} keeps its primary {config.primary}: it had none before."
            self._stay("undo_assigned", gpid, sentence)
        elif asked.change == "ADD_SECONDARY":
            self._take_out(config, asked.node)
        else:
            self._add_again(config, asked.node)

    def _take_out(self, config: PartitionConfig, node: str) -> None:
        gpid = config.gpid
        if node not in config.members:
            self._moved_since(gpid, config, f"without {node}")
        elif self._is_safe(gpid, lambda: self._change(config, ConfigType.REMOVE, node)):
            self._check_level()
            self._draft.change(gpid, "REMOVE", node)

    def _add_again(self, config: PartitionConfig, node: str) -> None:
        gpid = config.gpid
        if node in config.members:
            self._need_not(gpid, f"{node} serves {gpid} already.")
        elif self._is_safe(gpid, lambda: self._change(config, ConfigType.ADD_SECONDARY, node)):
            self._check_level()
            self._draft.change(gpid, "ADD_SECONDARY", node)
        elif config.replica_count >= config.max_replica_count:
            self._full.append(gpid)

    def _batch_back(self, asked: ProposeMany) -> None:
        if asked.verb != "move_pri":
            for item in reversed(asked.items):
                config = self._config(item.partition.gpid)
                if config is not None:
                    self._add_again(config, asked.node)
            return
        back: dict[str, list[Proposed]] = {}
        for item in asked.items:
            found = self._primary_back(item, asked.node)
            if found is not None and item.target is not None:
                back.setdefault(item.target, []).append(found)
        for node, items in back.items():
            self._check_level()
            self._draft.steps.append(
                ProposeMany(
                    node=node,
                    verb="move_pri",
                    items=tuple(items),
                    reason=self._draft.terms.reason,
                )
            )

    def _primary_back(self, item: Proposed, node: str) -> Proposed | None:
        """Return the inverse of one move of a batch, and take it for done."""
        course, gpid, target = self._draft.course, item.partition.gpid, item.target
        config = self._config(gpid)
        if config is None or target is None:
            return None
        if config.primary != target:
            self._moved_since(gpid, config, node if config.primary == node else None)
            return None
        try:
            self._draft.check_table(config)
            found = propose_move(course.sight(), config, PlanKind.MOVE_PRIMARY, target, node)
        except OpsError as exc:
            self._stay("undo_refused", gpid, exc.message, exc.hint)
            return None
        back = Proposed(partition=course.partition(config), target=node)
        course.advance(config, found.actions)
        return back

    def _propose(self, config: PartitionConfig, kind: PlanKind, source: str, target: str) -> None:
        self._draft.check_table(config)
        propose_move(self._draft.course.sight(), config, kind, source, target)

    def _change(self, config: PartitionConfig, change: ConfigType, node: str) -> None:
        self._draft.check_table(config)
        propose_change(self._draft.course.sight(), config, change, node)

    def _is_safe(self, gpid: str, propose: Callable[[], None]) -> bool:
        try:
            propose()
        except OpsError as exc:
            self._stay("undo_refused", gpid, exc.message, exc.hint)
            return False
        return True

    def _config(self, gpid: str) -> PartitionConfig | None:
        try:
            return self._draft.course.config(gpid)
        except UnknownNameError as exc:
            self._stay("undo_gone", gpid, exc.message, exc.hint)
            return None

    def _moved_since(self, gpid: str, config: PartitionConfig, where: str | None) -> None:
        if where is not None:
            self._need_not(gpid, f"{gpid} is as it was already ({where}).")
            return
        sentence = f"{gpid} has {membership(config)} now: somebody changed it since the run."
        self._stay("undo_moved_since", gpid, sentence)

    # -- telling --------------------------------------------------------------------------------

    def _check_level(self) -> None:
        """Once, before the first proposal: by then an inverse step may have set the level."""
        if not self._is_level_checked:
            self._is_level_checked = True
            self._draft.check_level()

    def _stay(self, code: str, subject: str, sentence: str, hint: str = _BY_HAND) -> None:
        self._stays.append((sentence, hint))
        self._draft.tell("warning", code, sentence, subject=subject, hint=hint)

    def _need_not(self, subject: str, sentence: str) -> None:
        self._needless.append(sentence)
        self._draft.tell("info", "undo_not_needed", sentence, subject=subject)
