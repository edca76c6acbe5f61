"""What a plan for a Pegasus cluster is for, whether that holds, and what has to be done again.

A plan that empties, stops or restarts nodes is for that: its levels and settings are means. Any
other plan is for the roles, levels and settings that its steps leave for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from core.actions.views import RunView, StepView
from core.pegasus.partition import PartitionConfig
from core.pegasus.plan.verify import configs_of
from core.pegasus.server_settings import changeable, value_before
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.batch import ProposeMany
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import Awaited, AwaitState
from core.plan.model import Plan
from core.snapshot.pegasus import PegasusSnapshot
from core.step import Step
from core.units import pluralize

_MAX_NAMED: Final = 3
_OF_NODES: Final[Mapping[Awaited, str]] = {
    "no_primaries": "{node} has no primaries",
    "no_replicas": "{node} holds no replicas",
    "gone": "{node} holds no replicas and is not alive",
    "restarted": "{node} was restarted",
}
"""Waits for a node that say what a plan is for; of one node the last one counts."""


class _Role(NamedTuple):
    """Who shall have a partition; ``is_primary``: as its primary, else as a secondary."""

    node: str
    is_primary: bool


class _Goals(NamedTuple):
    """What shall hold; ``steps``: places of steps whose result is the goal."""

    nodes: Mapping[str, Awaited]
    roles: Mapping[str, _Role]
    settings: Mapping[str, SetMetaLevel | SetServerSetting]
    steps: Mapping[int, str]


def purpose_of(plan: Plan) -> str:
    """Return what shall hold when a plan was executed, a clause; empty: nothing in particular.

    Args:
        plan: The plan; what it sets for the time of the run is no purpose.
    """
    goals = _goals(plan.steps)
    if len(goals.roles) > _MAX_NAMED:
        roles = [f"{len(goals.roles):,} partitions have the replicas that the plan moves"]
    else:
        roles = [_of_role(gpid, role) for gpid, role in goals.roles.items()]
    clauses = [
        *(_OF_NODES[word].format(node=node) for node, word in goals.nodes.items()),
        *roles,
        *(_of_setting(step) for step in goals.settings.values()),
        *dict.fromkeys(goals.steps.values()),
    ]
    return ", ".join(clauses)


def lacking(view: RunView, snapshot: PegasusSnapshot) -> str:
    """Return what of a run's purpose does not hold, one sentence; empty: all of it holds.

    Args:
        view: The run, none of whose steps is pending.
        snapshot: A fresh one with every partition.
    """
    facts = PegasusFacts(snapshot)
    goals = _goals(view.plan.steps)
    found = [
        *chain.from_iterable(_of_node(facts, view, *goal) for goal in goals.nodes.items()),
        *_misplaced(snapshot, goals.roles),
        *filter(None, (_is_else(facts, step) for step in goals.settings.values())),
        *_not_done(view, goals.steps),
    ]
    more = f" and {len(found) - _MAX_NAMED:,} more" if found[_MAX_NAMED:] else ""
    return f"{'; '.join(found[:_MAX_NAMED])}{more}." if found else ""


def undone(view: RunView, snapshot: PegasusSnapshot) -> dict[int, str]:
    """Return steps to execute again, by place in the plan, with the reason of each.

    A batch is executed again when partitions that it took off a node have the node again and the
    node was neither stopped nor restarted since; so are the waits and the closing after it.

    Args:
        view: The run.
        snapshot: A fresh one.
    """
    facts = PegasusFacts(snapshot)
    alive = {node.name for node in facts.nodes if node.is_alive}
    batches = [
        (one, one.step)
        for one in view.steps
        if isinstance(one.step, ProposeMany)
        and _is_settled(one)
        and one.step.node in alive
        and _is_to_last(view, one.step, one.index)
    ]
    gpids = chain.from_iterable(step.touched for _, step in batches)
    configs = {config.gpid: config for config in configs_of(snapshot, gpids)}
    found: dict[int, str] = {}
    for one, step in batches:
        planned = _planned_back(view, step.node, one.index)
        back = [
            gpid
            for gpid in step.touched
            if gpid not in planned and _has_again(step, configs.get(gpid))
        ]
        if back:
            are = f"{pluralize(len(back), 'partition')} {'is' if len(back) == 1 else 'are'}"
            found[one.index] = f"{are} on {step.node} again ({_named(back)})."
    return found | _after(view, found)


# -- what a plan is for ----------------------------------------------------------------------------


def _goals(steps: Sequence[Step]) -> _Goals:
    nodes = _node_goals(steps)
    if nodes:
        return _Goals(nodes, {}, {}, {})
    roles: dict[str, _Role] = {}
    settings: dict[str, SetMetaLevel | SetServerSetting] = {}
    results: dict[int, str] = {}
    for index, step in enumerate(steps):
        roles |= _roles_of(step)
        match step:
            case AwaitState(state="balanced"):
                results[index] = step.wait.description
            case ChangeReplica(change="DOWNGRADE_TO_INACTIVE" | "REMOVE"):
                # the guardian may add the replica again: it was taken away all the same
                results[index] = f"{step.node} was taken out of {step.partition.gpid}"
            case SetMetaLevel() | SetServerSetting() if step.temporary_value is None:
                settings[step.subject] = step
            case _:
                pass
    return _Goals({}, roles, settings, results)


def _node_goals(steps: Iterable[Step]) -> dict[str, Awaited]:
    nodes: dict[str, Awaited] = {}
    for step in steps:
        for role in _roles_of(step).values():
            nodes.pop(role.node, None)  # what it was emptied for comes back by the plan itself
        match step:
            case AwaitState(node=str(node), state=state) if state in _OF_NODES:
                if nodes.get(node) != "no_replicas" or state != "no_primaries":
                    nodes[node] = state
            case _:
                pass
    return nodes


def _roles_of(step: Step) -> dict[str, _Role]:
    """Return who shall have which partition after a step, by gpid."""
    match step:
        case MoveReplica():
            return {step.partition.gpid: _Role(step.target, step.move != "copy_sec")}
        case ChangeReplica(change="ASSIGN_PRIMARY" | "ADD_SECONDARY"):
            return {step.partition.gpid: _Role(step.node, step.change == "ASSIGN_PRIMARY")}
        case ProposeMany(verb="move_pri"):
            return {
                one.partition.gpid: _Role(one.target or "", is_primary=True) for one in step.items
            }
        case _:
            return {}


def _of_role(gpid: str, role: _Role) -> str:
    return f"{role.node} has the {'primary' if role.is_primary else 'secondary'} of {gpid}"


def _of_setting(step: SetMetaLevel | SetServerSetting) -> str:
    if isinstance(step, SetMetaLevel):
        return f"the meta level is {step.level}"
    return f"{step.subject} is {step.value or 'empty'}"


# -- whether it holds ------------------------------------------------------------------------------


def _of_node(facts: PegasusFacts, view: RunView, node: str, word: Awaited) -> Iterator[str]:
    is_alive = any(one.name == node and one.is_alive for one in facts.nodes)
    if word == "restarted":
        waits = [
            one
            for one in view.steps
            if isinstance(one.step, AwaitState) and (one.step.node, one.step.state) == (node, word)
        ]
        if any(one.state != "DONE" for one in waits):
            yield f"{node} was not seen to restart"
        elif not is_alive:
            yield f"{node} is not alive"
        return
    leads, follows = _held(facts, node)
    if word == "no_primaries":
        if leads:
            yield _still(leads, "primary", "primaries", node)
        return
    if leads + follows:
        of_them = f", {leads:,} as primary" if leads else ""
        yield f"{_still(leads + follows, 'replica', 'replicas', node)}{of_them}"
    if word == "gone" and is_alive:
        yield f"{node} is still alive"


def _still(count: int, one: str, many: str, node: str) -> str:
    return f"{count:,} {f'{one} is' if count == 1 else f'{many} are'} still on {node}"


def _held(facts: PegasusFacts, node: str) -> tuple[int, int]:
    """Return how many partitions a node leads, and of how many it is a secondary."""
    parts = facts.columns.partitions

    def count(names: pa.ChunkedArray) -> int:
        return int(pc.sum(pc.equal(names, node)).as_py() or 0)

    return count(parts["primary"]), count(pc.list_flatten(parts["secondaries"]))


def _misplaced(snapshot: PegasusSnapshot, roles: Mapping[str, _Role]) -> list[str]:
    """Return a clause about the partitions without the roles that they were to get."""
    if not roles:
        return []
    configs = {config.gpid: config for config in configs_of(snapshot, roles)}
    wrong = [gpid for gpid, role in roles.items() if not _has(configs.get(gpid), role)]
    if not wrong:
        return []
    if len(wrong) > 1:
        return [f"{len(wrong):,} of {len(roles):,} partitions are elsewhere ({_named(wrong)})"]
    gpid, config = wrong[0], configs.get(wrong[0])
    if config is None:
        return [f"partition {gpid} is not there"]
    holders = [config.primary] if roles[gpid].is_primary else list(config.secondaries)
    word = "primary" if roles[gpid].is_primary else "secondaries"
    names = ", ".join(filter(None, holders)) or "no node"
    return [f"the {word} of {gpid} {'is' if word == 'primary' else 'are'} on {names}"]


def _named(gpids: list[str]) -> str:
    more = f" and {len(gpids) - _MAX_NAMED:,} more" if gpids[_MAX_NAMED:] else ""
    return f"{', '.join(gpids[:_MAX_NAMED])}{more}"


def _has(config: PartitionConfig | None, role: _Role) -> bool:
    if config is None:
        return False
    if role.is_primary:
        return config.primary == role.node
    return role.node in config.members  # a secondary that became the primary holds its replica


def _is_else(facts: PegasusFacts, step: SetMetaLevel | SetServerSetting) -> str:
    """Return what a setting is instead of what it was to be; empty: as it was to be, or unknown."""
    if isinstance(step, SetMetaLevel):
        level = facts.stored_level
        is_as_set = level is None or level.word == step.level
        return "" if is_as_set or level is None else f"the meta level is {level.word}"
    value = value_before(changeable(step.key), facts, step.node)
    if value is None or _entries(value) == _entries(step.value):
        return ""
    return f"{step.subject} is {value or 'empty'}"


def _entries(value: str) -> frozenset[str]:
    return frozenset(value.lower().split(","))  # lists have no order


def _not_done(view: RunView, results: Mapping[int, str]) -> list[str]:
    return [
        f"step {index + 1} was not done" for index in results if not _is_settled(view.steps[index])
    ]


def _is_settled(one: StepView) -> bool:
    """Whether a step was done, or skipped because nothing was left to do."""
    if one.state != "SKIPPED" or one.result is None:
        return one.state == "DONE"
    return one.step.flags_of(one.result.code).is_needless


# -- what is done again ----------------------------------------------------------------------------


def _is_to_last(view: RunView, step: ProposeMany, index: int) -> bool:
    """Whether a wait relies on the batch, and the node was not restarted or stopped since."""
    empty = "no_primaries" if step.verb == "move_pri" else "no_replicas"
    later = [
        one
        for one in view.steps[index + 1 :]
        if isinstance(one.step, AwaitState) and one.step.node == step.node
    ]
    is_relied_on = any(isinstance(w := one.step, AwaitState) and w.state == empty for one in later)
    is_over = any(
        isinstance(wait := one.step, AwaitState)
        and wait.state in ("restarted", "gone")
        and one.state == "DONE"
        for one in later
    )
    return is_relied_on and not is_over


def _planned_back(view: RunView, node: str, index: int) -> set[str]:
    """Return the partitions that later steps of the plan bring to the node."""
    return {
        gpid
        for one in view.steps[index + 1 :]
        for gpid, role in _roles_of(one.step).items()
        if role.node == node
    }


def _has_again(step: ProposeMany, config: PartitionConfig | None) -> bool:
    if config is None:
        return False
    if step.verb == "move_pri":
        return config.primary == step.node
    return step.node in config.members


def _after(view: RunView, batches: Mapping[int, str]) -> dict[int, str]:
    """Return what has ended after the first of the batches and goes by it: waits, the closing."""
    if not batches:
        return {}
    first = min(batches)
    nodes = {view.steps[index].step.subject for index in batches}
    why = f"Step {first + 1} is executed again."

    def goes_by_it(one: StepView) -> bool:
        match one.step:
            case AwaitState(state="healthy"):
                return True
            case AwaitState(state="no_primaries" | "no_replicas" | "closed", node=node):
                return node in nodes
            case CloseReplicas(node=node):
                return node in nodes
            case _:
                return False

    return {
        one.index: why
        for one in view.steps[first + 1 :]
        if one.index not in batches and one.state == "DONE" and goes_by_it(one)
    }
