"""The closed loop: the meta server looks, acts, and copies take their time.

Load is that of the record and stays with its partition; who holds the partition is up to the
candidate. Nodes die and come back as they did in the record. At each look the guardian repairs
what is unhealthy; once everything is healthy and nothing is under way the balancer plans its next
round.
Roles change between two looks; a copy takes as long as its size at the nodes' limits, one after
the other a node; a replica that comes back to where it had been is taken up between two looks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from core.history.backtest.model import Candidate
from core.history.backtest.pegasus.fleet import CopyQueue, Fleet, copy_queue, in_tape
from core.history.backtest.pegasus.rules import Rules, rules_of
from core.history.backtest.pegasus.tape import PegasusTape, RowChange
from core.pegasus.balance.model import BalancePlan, ConfigType, PlanKind, ProposalAction
from core.pegasus.balance.rounds import balance_round, pick_by_seed
from core.pegasus.guardian import GuardedNode, Guardian, adds_to_send
from core.pegasus.levels import ALLOWANCES, Allowance
from core.pegasus.partition import PartitionConfig
from core.pegasus.view import NO_NODE, Ints

_MS: Final = 1000
_NO_CHANGE: Final = RowChange(np.zeros(0, np.int32), np.zeros((0, 1), np.int32))

StepKind = Literal["move_primary", "copy_primary", "copy_secondary", "fail_over", "refill", "trim"]
OPERATIONS: Final = ("move_primary", "copy_primary", "copy_secondary")
"""What the balancer does; the other kinds are repairs."""


@dataclass(frozen=True, slots=True)
class BacktestStep:
    """One change that happened.

    Attributes:
        row: Partition.
        kind: What.
        source: Node that gave; ``NO_NODE``: none.
        target: Node that took; ``NO_NODE``: none.
        copied_mb: What had to be copied.
    """

    row: int
    kind: StepKind
    source: int
    target: int
    copied_mb: float = 0.0


@dataclass(frozen=True)
class SimulatedMinute:
    """The cluster at a recorded minute.

    Attributes:
        number: Which.
        members: Shape ``(n_partitions, n_roles)``; only until the next minute is computed.
        version: The same number means the same members.
        steps: What happened since the minute before.
        headless_s: Seconds without primary, summed over partitions, since the minute before.
    """

    number: int
    members: Ints
    version: int
    steps: tuple[BacktestStep, ...]
    headless_s: float


@dataclass(frozen=True, slots=True)
class _OngoingChange:
    """Something that is being done: a plan of the balancer, or an addition of the guardian's."""

    due_s: float
    row: int
    target: int
    plan: BalancePlan | None = None
    copied_mb: float = 0.0


def simulate_tape(
    tape: PegasusTape, candidate: Candidate, *, seed: int, minute_s: float = 60.0
) -> Iterator[SimulatedMinute]:
    """Give the cluster minute by minute as the candidate would have had it.

    Args:
        tape: The record.
        candidate: What is tried.
        seed: Of the order of nodes, which breaks ties, and of draws among equal disks.
        minute_s: Seconds of the record that count as a minute of the cluster.
    """
    return _Simulation(tape, candidate, seed, 60.0 / minute_s).minutes()


@dataclass
class _Simulation:
    """One run."""

    tape: PegasusTape
    candidate: Candidate
    seed: int
    pace: float
    now_s: float = 0.0
    headless_s: float = 0.0
    under_way: list[_OngoingChange] = field(default_factory=list)
    wakes_s: dict[int, float] = field(default_factory=dict)
    steps: list[BacktestStep] = field(default_factory=list)
    converged_at: tuple[int, Rules] | None = None
    _node_code: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fleet = Fleet.begun(self.tape, self.seed)
        self.queue: CopyQueue = copy_queue(self.tape)
        self.pick = pick_by_seed(self.seed)
        self._node_code = {name: code for code, name in enumerate(self.tape.start.nodes)}
        self.reported = self.tape.settings_at(0)
        self.rules = rules_of(self.reported, self.candidate)
        self.ill: set[int] = set()
        self.ever_alive = self.tape.is_alive[0].copy()

    def minutes(self) -> Iterator[SimulatedMinute]:
        for number in range(self.tape.minute_count):
            if number:
                elapsed_ms = int(self.tape.at_ms[number] - self.tape.at_ms[number - 1])
                self._run_until(self.now_s + elapsed_ms / _MS * self.pace)
            self._enter(number)
            steps, headless_s = tuple(self.steps), self.headless_s
            self.steps, self.headless_s = [], 0.0
            yield SimulatedMinute(number, self.fleet.members, self.fleet.version, steps, headless_s)

    # -- what the record brings -------------------------------------------------------------------

    def _enter(self, number: int) -> None:
        """Take over what happened by itself: nodes, tables, settings."""
        tape, fleet = self.tape, self.fleet
        reported = tape.settings_at(number)
        if reported is not self.reported:
            self.reported, self.rules = reported, rules_of(reported, self.candidate)
        alive = tape.is_alive[number]
        back = np.nonzero(alive & ~fleet.alive)[0].tolist()
        if number == 0:
            died = np.nonzero(~alive & np.isin(np.arange(len(alive)), fleet.members))[0].tolist()
        else:
            died = np.nonzero(fleet.alive & ~alive)[0].tolist()
        if back:
            fleet.revive(back)
            self.ever_alive[back] = True
        if died:
            fleet.kill(died, int(self.now_s * _MS))
            self.under_way = [one for one in self.under_way if self._survives(one)]
        is_other_set = number > 0 and (tape.exists[number] != tape.exists[number - 1]).any()
        if is_other_set:
            fleet.follow(tape.changes.get(number, _NO_CHANGE), tape.exists[number])
        if number == 0 or back or died or is_other_set:
            self.ill = set(fleet.ill_rows())
            self.wakes_s.clear()
            self.converged_at = None
            self._look()

    def _survives(self, one: _OngoingChange) -> bool:
        alive = self.fleet.alive
        if one.plan is not None:
            return self.fleet.can_happen(one.plan)
        return bool(alive[one.target]) and self.fleet.members[one.row, 0] != NO_NODE

    @property
    def _allowed(self) -> Allowance:
        alive = int(self.fleet.alive.sum())
        dead = int((self.ever_alive & ~self.fleet.alive).sum())
        return ALLOWANCES[self.rules.active_level(alive, dead)]

    # -- time -------------------------------------------------------------------------------------

    def _run_until(self, end_s: float) -> None:
        """Look as often as the meta server does, but only while a look can change anything."""
        while (look_s := self._next_look()) is not None and look_s <= end_s:
            self._pass_to(look_s)
            self._look()
        self._pass_to(max(end_s, self.now_s))

    def _pass_to(self, moment_s: float) -> None:
        headless = sum(1 for row in self.ill if self.fleet.members[row, 0] == NO_NODE)
        self.headless_s += headless * (moment_s - self.now_s)
        self.now_s = moment_s

    def _next_look(self) -> float | None:
        """Return the first tick with something to do, or ``None`` if other events come first."""
        step = self.rules.interval_s
        following = (math.floor(self.now_s / step + 1e-9) + 1) * step
        waits = [one.due_s for one in self.under_way] + list(self.wakes_s.values())
        busy = {one.row for one in self.under_way}
        is_urgent = any(row not in self.wakes_s and row not in busy for row in self.ill)
        allowed = self._allowed
        if self.ill and not allowed.cures:
            is_urgent = False
        if is_urgent or (not waits and not self.ill and self._may_balance(allowed)):
            return following
        due = min((wait for wait in waits if wait != math.inf), default=None)
        return None if due is None else max(following, math.ceil(due / step - 1e-9) * step)

    def _may_balance(self, allowed: Allowance) -> bool:
        return allowed.balances and self.converged_at != (self.fleet.version, self.rules)

    # -- one look ---------------------------------------------------------------------------------

    def _look(self) -> None:
        self._finish()
        allowed = self._allowed
        if self.ill and allowed.cures:
            self._heal()
        if not self.ill and not self.under_way and self._may_balance(allowed):
            self._balance()

    def _finish(self) -> None:
        """Let everything happen whose time has come."""
        due = [one for one in self.under_way if one.due_s <= self.now_s + 1e-9]
        if not due:
            return
        self.under_way = [one for one in self.under_way if one.due_s > self.now_s + 1e-9]
        plans = [one.plan for one in due if one.plan is not None and self._is_possible(one.plan)]
        self.fleet.execute_run(plans)
        for plan in plans:
            copied = plan.kind is not PlanKind.MOVE_PRIMARY
            size_mb = float(self.tape.size_mb[plan.row]) if copied else 0.0
            word = _WORDS[plan.kind]
            self.steps.append(BacktestStep(plan.row, word, plan.source, plan.target, size_mb))
        for one in due:
            if one.plan is None and one.target not in self.fleet.members[one.row]:
                self.fleet.add(one.row, one.target)
                self.steps.append(
                    BacktestStep(one.row, "refill", NO_NODE, one.target, one.copied_mb)
                )
        touched = {one.row for one in due}
        self.ill = {row for row in self.ill if row not in touched or self._is_ill(row)}

    def _is_possible(self, plan: BalancePlan) -> bool:
        return self.fleet.can_happen(plan)

    def _is_ill(self, row: int) -> bool:
        members = self.fleet.members[row]
        count = int((members != NO_NODE).sum())
        is_ill = bool(members[0] == NO_NODE) or count != int(self.tape.wanted[row])
        if not is_ill:
            self.wakes_s.pop(row, None)
        return is_ill

    # -- repairs ----------------------------------------------------------------------------------

    def _heal(self) -> None:
        """Query the guardian about every unhealthy partition that is not being repaired."""
        busy = {one.row for one in self.under_way}
        rows = sorted(
            row
            for row in self.ill
            if row not in busy and self.wakes_s.get(row, 0.0) <= self.now_s + 1e-9
        )
        if not rows:
            return
        nodes = self._guarded(rows)
        guardian = Guardian(nodes, self.rules.guardian, int(self.now_s * _MS))
        wanted: list[tuple[int, PartitionConfig, ProposalAction]] = []
        for row in rows:
            self.wakes_s.pop(row, None)
            config = self.fleet.config(row)
            cure = guardian.next_cure(config, self.fleet.memory(row))
            if cure.action is None:
                self._wait(row)
            elif cure.action.type is ConfigType.ADD_SECONDARY:
                wanted.append((row, config, cure.action))
                _count(nodes, config.app_id, cure.action.node, as_primary=False)
            else:
                self._change(row, cure.action)
                is_primary = cure.action.type is not ConfigType.REMOVE
                if is_primary:
                    _count(nodes, config.app_id, cure.action.node, as_primary=True)
        additions = [(config, action) for _, config, action in wanted]
        for at in adds_to_send(additions, most_per_node=self.rules.most_added):
            self._send(wanted[at][0], wanted[at][2])

    def _wait(self, row: int) -> None:
        """Look again when the one that left has had its time, or when a node comes or goes."""
        left = self.fleet.dropped.get(row, ())
        delay_s = self.rules.guardian.assign_delay_ms / _MS
        until_s = left[-1].time_ms / _MS + delay_s if left else math.inf
        self.wakes_s[row] = until_s + 0.001 if until_s > self.now_s else math.inf

    def _change(self, row: int, action: ProposalAction) -> None:
        node = self._node_code[action.node]
        if action.type is ConfigType.REMOVE:
            self.fleet.remove(row, node, int(self.now_s * _MS))
            self.steps.append(BacktestStep(row, "trim", node, NO_NODE))
        elif self.fleet.alive[node]:
            self.fleet.promote(row, node)
            self.steps.append(BacktestStep(row, "fail_over", NO_NODE, node))
        else:
            self.wakes_s[row] = math.inf
        self.ill = {one for one in self.ill if one != row or self._is_ill(row)}

    def _send(self, row: int, action: ProposalAction) -> None:
        primary, node = self._node_code[action.target], self._node_code[action.node]
        had_it = self.fleet.memory(row).dropped_on(action.node) is not None
        due_s = self.now_s
        copied_mb = 0.0
        if not had_it:
            due_s = self.queue.book(row, primary, node, self.now_s)
            copied_mb = float(self.tape.size_mb[row])
        self.under_way.append(_OngoingChange(due_s, row, node, copied_mb=copied_mb))

    def _guarded(self, rows: list[int]) -> list[GuardedNode]:
        """Count what living nodes hold; of the tables in question one by one."""
        fleet = self.fleet
        seen, _ = fleet.living()
        led, held = seen.primary_counts, seen.replica_counts
        places = {int(app_id): place for place, app_id in enumerate(seen.app_ids)}
        app_ids = sorted({fleet.view.gpid(row)[0] for row in rows})
        return [
            GuardedNode(
                name=name,
                table_primaries={one: int(led[places[one], node]) for one in app_ids},
                table_partitions={one: int(held[places[one], node]) for one in app_ids},
                primary_count=int(led[:, node].sum()),
                partition_count=int(held[:, node].sum()),
            )
            for node, name in enumerate(seen.nodes)
        ]

    # -- balance ----------------------------------------------------------------------------------

    def _balance(self) -> None:
        seen, rows = self.fleet.living()
        plans = balance_round(seen, self.rules.options, self.pick)
        if not plans:
            self.converged_at = (self.fleet.version, self.rules)
            return
        for plan in in_tape(plans, self.fleet, seen, rows):
            due_s = self.now_s
            if plan.kind is not PlanKind.MOVE_PRIMARY:
                due_s = self._booked(plan)
            self.under_way.append(_OngoingChange(due_s, plan.row, plan.target, plan))

    def _booked(self, plan: BalancePlan) -> float:
        """Queue the copy of a plan; the primary is what is copied from."""
        primary = int(self.fleet.members[plan.row, 0])
        return self.queue.book(plan.row, primary, plan.target, self.now_s)


_WORDS: Final[Mapping[PlanKind, StepKind]] = {
    PlanKind.MOVE_PRIMARY: "move_primary",
    PlanKind.COPY_PRIMARY: "copy_primary",
    PlanKind.COPY_SECONDARY: "copy_secondary",
}


def _count(nodes: list[GuardedNode], app_id: int, name: str, *, as_primary: bool) -> None:
    """Book what was just decided, so that the next decision of the same look sees it."""
    for place, node in enumerate(nodes):
        if node.name == name:
            led = {**node.table_primaries}
            held = {**node.table_partitions}
            led[app_id] = led.get(app_id, 0) + as_primary
            held[app_id] = held.get(app_id, 0) + (not as_primary)
            nodes[place] = replace(
                node,
                table_primaries=led,
                table_partitions=held,
                primary_count=node.primary_count + as_primary,
                partition_count=node.partition_count + (not as_primary),
            )
            return
