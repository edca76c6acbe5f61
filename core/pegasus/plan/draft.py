"""A plan for a Pegasus cluster while it is being made: steps, what was found, what they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Final, cast

from msgspec import structs

from core.errors import GuardRefusedError, InputError, OpsError
from core.pegasus.balance.model import ConfigType
from core.pegasus.levels import ALLOWANCES, FunctionLevel
from core.pegasus.partition import PartitionConfig
from core.pegasus.plan.projected_state import Course
from core.pegasus.proposal import MOVE_KINDS, Change, Move, Proposal, propose_change, propose_move
from core.pegasus.server_settings import (
    COPY_RATE,
    FLOW_CONTROL,
    changeable,
    dangers,
    desired_value,
    value_before,
)
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.base import PegasusStep
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.setting import EVERY_NODE, LEADER, SetServerSetting, server_settings_of
from core.plan.model import Diagnostic, DiagnosticSeverity, Expected, Plan, PolicyRef, sealed
from core.plan.options import PlanOptions, in_order
from core.snapshot.pegasus import PegasusSnapshot
from core.step import Step
from core.units import format_age, format_mb, pluralize

_MAX_LISTED: Final = 5

MIN_FREE_SHARE: Final = 0.1
"""A disk filled beyond this is reported."""


class Draft:
    """What a plan builder fills.

    Args:
        snapshot: The cluster.
        terms: When, why and how long.
    Attributes:
        course: The cluster as the steps so far leave it.
        steps: So far.
    """

    def __init__(self, snapshot: PegasusSnapshot, terms: PlanOptions) -> None:
        self.facts = PegasusFacts(snapshot)
        self.terms = terms
        self.course = Course(self.facts)
        self.steps: list[Step] = []
        self._found: list[Diagnostic] = []
        self._set: dict[tuple[str, str], str] = {}
        self._stored = self.facts.stored_level
        self._left_out = 0
        self._check_reading()

    # -- findings --------------------------------------------------------------------------------

    def note(
        self,
        severity: DiagnosticSeverity,
        code: str,
        sentence: str,
        *,
        subject: str = "",
        hint: str = "",
    ) -> None:
        """Keep something that a person must know."""
        self._found.append(
            Diagnostic(severity=severity, code=code, sentence=sentence, subject=subject, hint=hint)
        )

    def refuse(self, exc: OpsError, subject: str) -> None:
        """Keep a refusal: the plan is errored."""
        self._left_out += 1
        self.note("error", exc.code, exc.message, subject=subject, hint=exc.hint)

    def note_refused(self, refused: Sequence[tuple[str, OpsError]]) -> None:
        """Keep refusals of one batch: the first ones by name, the others by number."""
        for gpid, exc in refused[:_MAX_LISTED]:
            self.refuse(exc, gpid)
        if len(refused) > _MAX_LISTED:
            more = pluralize(len(refused) - _MAX_LISTED, "more partition")
            self.note("error", "guard_refused", f"{more} cannot be taken along for such reasons.")

    @property
    def is_refused(self) -> bool:
        """Whether something forbids the plan already."""
        return any(item.severity == "error" for item in self._found)

    @property
    def setting_steps(self) -> list[SetServerSetting]:
        """The steps so far that change settings."""
        return server_settings_of(self.steps)

    # -- steps ----------------------------------------------------------------------------------

    def set_level(self, level: FunctionLevel, *, is_restored: bool = False) -> None:
        """Add the step that sets the function level, even where it is stored already."""
        if self._stored is None:
            self.note(
                "error",
                "level_unknown",
                "The stored level is unknown: what a run would change cannot be restored.",
                hint="Take another snapshot; its problems say what the meta server did not report.",
            )
            return
        before, self._stored = self._stored, level
        self.course.level = self.course.level_after(level)
        self.steps.append(
            SetMetaLevel(
                before=before.word,
                level=level.word,
                is_restored=is_restored,
                reason=self.terms.reason,
            )
        )

    def hold_steady(self) -> None:
        """Set steady for the time of the run, where another level is stored."""
        if self._stored is not FunctionLevel.STEADY:
            self.set_level(FunctionLevel.STEADY, is_restored=True)

    def check_level(self) -> None:
        """Refuse what needs proposals while none would be executed; warn at lively."""
        level = self.course.level
        if level is None:
            sentence = "The effective level is unknown: a proposal might wait unseen."
            hint = "Take another snapshot; its problems say what the meta server did not report."
            self.note("error", "level_unknown", sentence, hint=hint)
        elif level <= FunctionLevel.FREEZED:
            is_few = self._stored is not None and self._stored > FunctionLevel.FREEZED
            self.note(
                "error",
                "level_too_low",
                f"The effective level is {level.word}: {ALLOWANCES[level].sentence}",
                hint="Too few nodes are alive: bring them back first."
                if is_few
                else "Set the level to steady first.",
            )
        elif level is FunctionLevel.LIVELY:
            self.note(
                "warning",
                "balancer_may_clash",
                "At lively the meta server balances as well: it may change a partition first, or "
                "move back what was moved.",
                hint="Let the run hold the level at steady.",
            )

    def set_setting(
        self, key: str, value: str, *, server: str | None = None, is_restored: bool = False
    ) -> None:
        """Add the step that changes a setting; what it is worth is checked.

        Args:
            key: Upstream key, or its name in a snapshot.
            value: As a person writes it.
            server: For a setting of replica servers the registered name of one; ``None``: all.
            is_restored: Restored when the run ends.
        Raises:
            InputError: The setting does not take the value, or not at that server.
            UnknownNameError: There is no such setting or server.
        """
        one = changeable(key)
        wanted = desired_value(one, value)
        if one.whose == "meta":
            if server is not None:
                raise InputError(
                    f"{one.key} is a setting of the leading meta server, not of {server}.",
                    hint="Leave the node out.",
                )
            place = LEADER
        else:
            place = EVERY_NODE if server is None else self.course.node(server).name
        before = self._set.get((one.key, place), value_before(one, self.facts, server))
        is_limited = self._set.get((FLOW_CONTROL, LEADER)) == "true"
        for danger in dangers(one, wanted, self.facts):
            if danger.code == "not_consulted" and is_limited:
                continue
            severity: DiagnosticSeverity = "error" if danger.weight == "refused" else "warning"
            self.note(severity, danger.code, danger.sentence, subject=one.key, hint=danger.hint)
        self._set[one.key, place] = wanted
        self.steps.append(
            SetServerSetting(
                key=one.key,
                value=wanted,
                server=place,
                how=one.setting.how,
                before=before,
                is_restored=is_restored,
                reason=self.terms.reason,
            )
        )

    def move(self, gpid: str, move: Move, source: str, target: str) -> None:
        """Add a move or a copy of a replica; one that is refused is reported instead."""
        try:
            config = self._whole(gpid)
            proposal = propose_move(self.course.sight(), config, MOVE_KINDS[move], source, target)
        except OpsError as exc:
            self.refuse(exc, gpid)
            return
        size_mb = 0.0 if move == "move_pri" else self.course.size_mb(config)
        self.steps.append(
            MoveReplica(
                partition=self.course.partition(config),
                move=move,
                source=source,
                target=target,
                size_mb=size_mb,
                reason=self.terms.reason,
            )
        )
        self.course.advance(config, proposal.actions)

    def change(self, gpid: str, change: Change, node: str) -> None:
        """Add a single change of a partition; one that is refused is reported instead."""
        try:
            config = self._whole(gpid)
            proposal = self.changed(config, change, node)
        except OpsError as exc:
            self.refuse(exc, gpid)
            return
        self.steps.append(
            ChangeReplica(
                partition=self.course.partition(config),
                change=change,
                node=node,
                reason=self.terms.reason,
            )
        )
        self.course.advance(config, proposal.actions)

    def changed(self, config: PartitionConfig, change: Change, node: str) -> Proposal:
        """Return the proposal of a single change.

        Raises:
            GuardRefusedError: It is not safe.
        """
        return propose_change(self.course.sight(), config, ConfigType[change], node)

    def check_table(self, config: PartitionConfig) -> None:
        """Keep to what the configuration excludes.

        Raises:
            GuardRefusedError: The partition's table is excluded.
        """
        table = self.course.table(config)
        if any(fnmatchcase(table, pattern) for pattern in self.terms.exclusions):
            raise GuardRefusedError(
                f"Table {table} is excluded from every plan by Trimtab's configuration.",
                hint="Take it out of `exclusions` first.",
            )

    def append(self, step: PegasusStep) -> None:
        """Add a step whose parts were checked one by one."""
        self.steps.append(cast("Step", structs.replace(step, reason=self.terms.reason)))

    # -- the end --------------------------------------------------------------------------------

    def seal(self) -> Plan:
        """Return the plan."""
        _check_room(self)
        diagnostics = in_order(self._found)
        is_errored = any(item.severity == "error" for item in diagnostics)
        manifest = self.facts.snapshot.manifest
        policy = self.facts.snapshot.settings.get("balance_cluster")
        return sealed(
            Plan(
                cluster=manifest.cluster,
                snapshot_id=self.facts.snapshot.snapshot_id,
                taken_at=manifest.taken_at,
                created_at=self.terms.now,
                expires_at=self.terms.now + timedelta(seconds=self.terms.lifetime_s),
                strategy=PolicyRef(
                    name="cluster" if policy == "true" else "app",
                    release=manifest.release or "unknown",
                ),
                steps=tuple(self.steps),
                expected=Expected(
                    nodes=self.course.expected_nodes(), copied_mb=self.course.copied_mb
                ),
                diagnostics=diagnostics,
                reason=self.terms.reason,
                complete=not self._left_out and bool(self.steps),
                applyable=bool(self.steps) and not is_errored,
                errored=is_errored,
                undoes=self.terms.undoes,
                derived_from=self.terms.derived_from,
            )
        )

    def _whole(self, gpid: str) -> PartitionConfig:
        config = self.course.config(gpid)
        self.check_table(config)
        return config

    def _check_reading(self) -> None:
        if not self.facts.has_all_partitions:
            self.note(
                "warning",
                "incomplete_snapshot",
                "The partitions of some table were not read: counts and choices leave them out.",
                hint="The snapshot's problems name them.",
            )


def _check_room(draft: Draft) -> None:
    """Add what the copies of a plan need: disk space and time.

    A copy is made before the old replica goes, and the old one is deleted only at lively and much
    later; so nothing that leaves a node counts as free space.
    """
    course = draft.course
    if not course.received_mb:
        return
    disks: dict[str, list[tuple[int, int]]] = {}
    for row in draft.facts.rows("disks"):
        disks.setdefault(row["node"], []).append((row["available_mb"], row["capacity_mb"]))
    for node, received_mb in sorted(course.received_mb.items()):
        _check_node(draft, node, received_mb, disks.get(node))
    _check_single(draft, {node: max(one[0] for one in listed) for node, listed in disks.items()})
    _note_time(draft)


def _check_node(
    draft: Draft, node: str, received_mb: float | None, disks: list[tuple[int, int]] | None
) -> None:
    if disks is None:
        sentence = f"The free space of {node} is unknown: it reported no disks."
        draft.note("warning", "room_unknown", sentence, subject=node)
        return
    if received_mb is None:
        sentence = f"How much {node} receives is unknown: a replica's size is not known."
        draft.note("warning", "room_unknown", sentence, subject=node)
        return
    free_mb, capacity_mb = (sum(values) for values in zip(*disks, strict=True))
    what = f"{node} receives {format_mb(received_mb)} and has {format_mb(free_mb)} free"
    if received_mb > free_mb:
        draft.note(
            "error",
            "no_room",
            f"{what}; a copy is made before the old replica is deleted.",
            subject=node,
            hint="Choose another node, or make room first.",
        )
    elif free_mb - received_mb < MIN_FREE_SHARE * capacity_mb:
        rest = f"{(free_mb - received_mb) / capacity_mb:.0%}" if capacity_mb else "nothing"
        sentence = f"{what}: {rest} of its disks would be left."
        draft.note("warning", "little_room", sentence, subject=node)


def _check_single(draft: Draft, largest_mb: dict[str, int]) -> None:
    """A replica is on one disk: it must fit on one."""
    for step in draft.steps:
        size_mb = step.copied_mb if isinstance(step, PegasusStep) else None
        if size_mb and step.destination in largest_mb:
            free_mb = largest_mb[step.destination]
            if size_mb > free_mb:
                sentence = (
                    f"{step.subject} has {format_mb(size_mb)}, and no disk of "
                    f"{step.destination} has more than {format_mb(free_mb)} free."
                )
                hint = "Choose another node."
                draft.note("error", "no_room", sentence, subject=step.subject, hint=hint)


def _note_time(draft: Draft) -> None:
    known = [size for size in draft.course.received_mb.values() if size is not None]
    total_mb, nodes = sum(known), pluralize(len(draft.course.received_mb), "node")
    unknown = len(draft.course.received_mb) - len(known)
    about = f"{format_mb(total_mb)}{' or more' if unknown else ''} is copied onto {nodes}"
    rate = _slowest_rate(draft)
    if rate is None:
        sentence = f"{about}; how long that takes is unknown, since the copying has no limit."
    else:
        shortest, longest = max(known, default=0.0) / rate, total_mb / rate
        sentence = (
            f"{about}: at {rate:g} MB/s a disk {format_age(shortest)} when all receive at once, "
            f"{format_age(longest)} one after the other."
        )
    draft.note("info", "copies", sentence)


def _slowest_rate(draft: Draft) -> float | None:
    """MB/s that a disk may receive while the plan runs; ``None``: without limit, or unknown."""
    for step in draft.setting_steps:
        if step.key == COPY_RATE and step.server == EVERY_NODE:
            return float(step.value) or None
    rates = [row["copy_rate_mb_per_s"] for row in draft.facts.rows("nodes") if row["is_alive"]]
    return min(rates) if rates and all(rates) else None
