"""What really happened, minute by minute, in the form of a played run: scored by the same rules."""

from __future__ import annotations

from collections.abc import Iterator

from core.history.backtest.pegasus.engine import PlayedMinute, Step
from core.history.backtest.pegasus.tape import PegasusTape
from core.pegasus.view import NO_NODE, Flags, Ints


def recorded_minutes(tape: PegasusTape, *, minute_s: float = 60.0) -> Iterator[PlayedMinute]:
    """Give the record's own minutes.

    What happened between two minutes is seen by comparing them: a role that changed while both
    nodes live was moved or copied; what a dead node lost, and what an ill partition got, is repair.

    Args:
        tape: The record.
        minute_s: Seconds of the record that count as a minute of the cluster.
    """
    members = tape.start.members.copy()
    version = 0
    yield PlayedMinute(0, members, version, (), 0.0)
    for number in range(1, tape.minute_count):
        headless = int(((members[:, 0] == NO_NODE) & tape.exists[number - 1]).sum())
        change = tape.changes.get(number)
        steps: tuple[Step, ...] = ()
        if change is not None:
            before = members[change.rows]
            members = members.copy()
            members[change.rows] = change.members
            version += 1
            steps = tuple(_steps(tape, change.rows, before, change.members, number))
        elapsed_s = float(tape.at_ms[number] - tape.at_ms[number - 1]) / 1000 * 60 / minute_s
        yield PlayedMinute(number, members, version, steps, headless * elapsed_s)


def _steps(tape: PegasusTape, rows: Ints, before: Ints, after: Ints, number: int) -> Iterator[Step]:
    alive = tape.is_alive[number]
    there = tape.exists[number] & tape.exists[number - 1]
    for row, was, now in zip(rows.tolist(), before.tolist(), after.tolist(), strict=True):
        if there[row]:
            yield from _steps_of(row, was, now, alive, float(tape.size_mb[row]))


def _steps_of(
    row: int, was: list[int], now: list[int], alive: Flags, size_mb: float
) -> Iterator[Step]:
    held = {node for node in was if node != NO_NODE}
    holds = {node for node in now if node != NO_NODE}
    gone = [node for node in was if node in held - holds]
    come = [node for node in now if node in holds - held]
    led, leads = was[0], now[0]
    left = [node for node in gone if alive[node]]
    if leads not in (led, NO_NODE):
        if led == NO_NODE or not alive[led]:
            yield Step(row, "fail_over", NO_NODE, leads)
        elif led in gone and leads in come:
            yield Step(row, "copy_primary", led, leads, size_mb)
            left.remove(led)
            come.remove(leads)
        else:
            yield Step(row, "move_primary", led, leads)
    for node in come:
        if left:
            yield Step(row, "copy_secondary", left.pop(0), node, size_mb)
        else:
            yield Step(row, "refill", NO_NODE, node, size_mb)
    for node in left:
        yield Step(row, "trim", node, NO_NODE)
