"""The steps for a Pegasus cluster in words, and the shell line that does each by hand."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Final, assert_never

from msgspec import structs

from core.plan.pegasus_steps import (
    EVERY_NODE,
    LEADER,
    AwaitState,
    ChangeReplica,
    CloseReplicas,
    MoveReplica,
    ProposeMany,
    SetMetaLevel,
    SetServerSetting,
)
from core.plan.steps import PegasusStep
from core.units import counted, format_age

PEGASUS_KINDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "set_meta_level": ("set", "meta level", "set"),
    "move_replica": ("move", "replica", "moved"),
    "change_replica": ("change", "replica", "changed"),
    "propose_many": ("empty", "node", "emptied"),
    "close_replicas": ("close replicas of", "node", "closed"),
    "set_server_setting": ("change", "server setting", "changed"),
    "await_state": ("wait for", "state", "reached"),
}
"""By kind: verb, what it is done to, and the participle of having done it."""

_MOVES: Final = {
    "move_pri": ("Move the primary of", "Moving the primary of"),
    "copy_pri": ("Copy the primary of", "Copying the primary of"),
    "copy_sec": ("Copy a secondary of", "Copying a secondary of"),
}
_CHANGES: Final = {
    "ASSIGN_PRIMARY": ("Make {node} the primary of", "Making {node} the primary of"),
    "ADD_SECONDARY": ("Add a secondary on {node} to", "Adding a secondary on {node} to"),
    "DOWNGRADE_TO_INACTIVE": ("Take {node} out of", "Taking {node} out of"),
    "REMOVE": ("Remove the replica on {node} from", "Removing the replica on {node} from"),
}
_STATES: Final = {
    "no_primaries": "{node} has no primaries",
    "no_replicas": "{node} has no replicas",
    "closed": "{node} has closed its replicas",
    "gone": "{node} is not alive",
    "running": "{node} is alive and tells when it was started",
    "restarted": "{node} was restarted and is alive",
    "healthy": "every partition has its replicas",
    "balanced": "nothing is left to balance",
}


def describe_pegasus(step: PegasusStep) -> str:
    """Return what a step does, as an order."""
    match step:
        case SetMetaLevel():
            text = f"Set the meta level from {step.before} to {step.level}{_while(step)}"
        case MoveReplica():
            text = f"{_MOVES[step.move][0]} {_named(step)} from {step.source} to {step.target}"
        case ChangeReplica():
            text = f"{_CHANGES[step.change][0].format(node=step.node)} {_named(step)}"
        case ProposeMany():
            text = f"{_many(step, 'Move', 'Take')}"
        case CloseReplicas():
            text = f"Close {counted(len(step.partitions), 'replica')} on {step.node}"
        case SetServerSetting():
            text = f"Set {step.key} of {_server(step)} to {step.value} ({_was(step)}){_while(step)}"
        case AwaitState():
            text = f"Wait until {awaited(step)}{_limit(step)}"
        case _:
            assert_never(step)
    return text


def doing_pegasus(step: PegasusStep) -> str:
    """Return the same as something under way."""
    match step:
        case SetMetaLevel():
            text = f"Setting the meta level to {step.level}"
        case MoveReplica():
            text = f"{_MOVES[step.move][1]} {_named(step)} from {step.source} to {step.target}"
        case ChangeReplica():
            text = f"{_CHANGES[step.change][1].format(node=step.node)} {_named(step)}"
        case ProposeMany():
            text = _many(step, "Moving", "Taking")
        case CloseReplicas():
            text = f"Closing {counted(len(step.partitions), 'replica')} on {step.node}"
        case SetServerSetting():
            text = f"Setting {step.key} of {_server(step)} to {step.value}"
        case AwaitState():
            text = f"Waiting until {awaited(step)}"
        case _:
            assert_never(step)
    return text


def would_pegasus(step: PegasusStep) -> str:
    """Return what would be asked of the cluster, as a whole sentence."""
    order = describe_pegasus(step)
    return f"Would be done: {order[0].lower()}{order[1:]}."


def awaited(step: AwaitState) -> str:
    """Return the state that is waited for: ``n1:34801 has no primaries``."""
    return _STATES[step.state].format(node=step.node or "the cluster")


def shell_lines(step: PegasusStep) -> tuple[str, ...]:
    """Return the lines of Pegasus' shell that do a step by hand; none for waiting."""
    lines: tuple[str, ...]
    match step:
        case SetMetaLevel():
            lines = (f"set_meta_level {step.level}",)
        case MoveReplica():
            line = ["balance", "-g", step.partition.gpid, "-p", step.move]
            lines = (shlex.join([*line, "-f", step.source, "-t", step.target]),)
        case ChangeReplica():
            lines = (_propose(step.partition.gpid, step.change, step.partition.primary, step.node),)
        case ProposeMany():
            lines = tuple(_one_of(step, place) for place in range(len(step.items)))
        case CloseReplicas():
            lines = tuple(
                f"remote_command -l {step.node} replica.kill_partition {gpid.replace('.', ' ')}"
                for gpid in step.partitions
            )
        case SetServerSetting():
            lines = (_setting_line(step),)
        case AwaitState():
            lines = ()
        case _:
            assert_never(step)
    return lines


def put_back_lines(step: SetMetaLevel | SetServerSetting, before: str) -> tuple[str, ...]:
    """Return the lines of Pegasus' shell that give what a step changed its former value.

    Args:
        step: What changed it.
        before: What it was; where servers differed a JSON object of server to value.
    """
    if isinstance(step, SetMetaLevel):
        return shell_lines(structs.replace(step, level=before))
    try:
        values = json.loads(before) if before.startswith("{") else None
    except ValueError:
        values = None
    if not isinstance(values, dict):
        return shell_lines(structs.replace(step, value=before))
    return tuple(
        _setting_line(structs.replace(step, server=server, value=str(value)))
        for server, value in sorted(values.items())
    )


def _one_of(step: ProposeMany, place: int) -> str:
    item = step.items[place]
    gpid = item.partition.gpid
    if step.verb == "move_pri":
        words = ["balance", "-g", gpid, "-p", "move_pri", "-f", step.node, "-t", item.target or ""]
        return shlex.join(words)
    return _propose(gpid, step.verb, item.partition.primary, step.node)


def _propose(gpid: str, change: str, primary: str | None, node: str) -> str:
    target = node if change == "ASSIGN_PRIMARY" else primary or ""
    return shlex.join(["propose", "-g", gpid, "-p", change, "-t", target, "-n", node])


def _setting_line(step: SetServerSetting) -> str:
    if step.how == "flag":
        return f"curl 'http://<leading meta server>/updateConfig?{step.key}={step.value}'"
    where = {LEADER: "-t meta-server", EVERY_NODE: "-t replica-server"}
    to = where.get(step.server, f"-l {step.server}")
    return f"remote_command {to} {step.key} {step.value}"


def _named(step: MoveReplica | ChangeReplica) -> str:
    return f"{step.partition.gpid} ({step.partition.table})"


def _many(step: ProposeMany, move: str, take: str) -> str:
    number = len(step.items)
    if step.verb == "move_pri":
        return f"{move} {'1 primary' if number == 1 else f'{number:,} primaries'} off {step.node}"
    return f"{take} {step.node} out of {counted(number, 'partition')}"


def _server(step: SetServerSetting) -> str:
    names = {LEADER: "the leading meta server", EVERY_NODE: "every replica server"}
    return names.get(step.server, step.server)


def _was(step: SetServerSetting) -> str:
    return "unknown until now" if step.before is None else f"until now {step.before or 'empty'}"


def _while(step: SetMetaLevel | SetServerSetting) -> str:
    return ", until the run ends" if step.is_restored else ""


def _limit(step: AwaitState) -> str:
    return "" if step.within_s is None else f", {format_age(step.within_s)} at most"
