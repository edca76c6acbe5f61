"""What a plan for a Pegasus cluster is for, whether that holds, and what has to be done again.

A plan that empties, stops or restarts nodes is for that: its levels and settings are means. Any
other plan is for the roles, levels and settings that its steps leave for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from core.actions.views import RunView, StepView
from core.errors import InvariantError
from core.pegasus.partition import PartitionConfig
from core.pegasus.plan.verify import configs_of
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.base import NodeGoal, PegasusStep, Role
from core.plan.model import Plan
from core.snapshot.pegasus import PegasusSnapshot
from core.step import Step
from core.units import pluralize

_MAX_NAMED: Final = 3
_OF_NODES: Final[Mapping[NodeGoal, str]] = {
    "no_primaries": "{node} has no primaries",
    "no_replicas": "{node} has no replicas",
    "gone": "{node} has no replicas and is not alive",
    "restarted": "{node} was restarted",
}
"""Waits for a node that say what a plan is for; of one node the last one counts."""


class _Goals(NamedTuple):
    """Goals of a plan; ``steps``: positions of steps whose result is the goal."""

    nodes: Mapping[str, NodeGoal]
    roles: Mapping[str, Role]
    settings: Mapping[str, PegasusStep]
    steps: Mapping[int, str]


def purpose_of(plan: Plan) -> str:
    """Return the purpose of a plan, a clause, or "".

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
    """Return the unmet part of a run's purpose, one sentence, or "".

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
    if not found:
        return ""
    more = f" and {len(found) - _MAX_NAMED:,} more" if found[_MAX_NAMED:] else ""
    text = f"{'; '.join(found[:_MAX_NAMED])}{more}."
    is_name = not text.split(maxsplit=1)[0].isalpha()  # of a node or a setting: it stays as it is
    return text if is_name else text[:1].upper() + text[1:]


def undone(view: RunView, snapshot: PegasusSnapshot) -> dict[int, str]:
    """Return steps to execute again, by place in the plan, with the reason of each.

    A batch is executed again when partitions that it took off a node have the node again and the
    node was neither stopped nor restarted since; so are the waits and the closing after it.

    Args:
        snapshot: A fresh one.
    """
    alive = {node.name for node in PegasusFacts(snapshot).nodes if node.is_alive}
    batches = [
        (one.index, step)
        for one, step in zip(view.steps, _own(view.plan.steps), strict=True)
        if step.emptied_node in alive and _is_settled(one) and _is_to_last(view, one)
    ]
    gpids = chain.from_iterable(step.touched for _, step in batches)
    configs = {config.gpid: config for config in configs_of(snapshot, gpids)}
    found: dict[int, str] = {}
    for index, step in batches:
        planned = _planned_back(view, str(step.emptied_node), index)
        back = [
            gpid
            for gpid in step.touched
            if gpid in configs and gpid not in planned and step.is_undone(configs[gpid])
        ]
        if back:
            count = pluralize(len(back), "partition")
            found[index] = f"{step.emptied_node} has {count} again ({_named(back)})."
    return found | _after(view, found)


# -- what a plan is for ----------------------------------------------------------------------------


def _own(steps: Iterable[Step]) -> list[PegasusStep]:
    found = []
    for step in steps:
        if not isinstance(step, PegasusStep):
            raise InvariantError(f"A Pegasus cluster has no step of kind {step.kind}.")
        found.append(step)
    return found


def _goals(planned: Iterable[Step]) -> _Goals:
    steps = _own(planned)
    nodes = _node_goals(steps)
    if nodes:
        return _Goals(nodes, {}, {}, {})
    roles = {gpid: role for step in steps for gpid, role in step.roles.items()}
    lasting = {
        step.subject: step
        for step in steps
        if step.setting is not None and step.temporary_value is None
    }
    results = {index: step.result_goal for index, step in enumerate(steps) if step.result_goal}
    return _Goals({}, roles, lasting, results)


def _node_goals(steps: Iterable[PegasusStep]) -> dict[str, NodeGoal]:
    nodes: dict[str, NodeGoal] = {}
    for step in steps:
        for role in step.roles.values():
            nodes.pop(role.node, None)  # what it was emptied for comes back by the plan itself
        if step.node_goal is not None:
            node, goal = step.node_goal
            if nodes.get(node) != "no_replicas" or goal != "no_primaries":
                nodes[node] = goal
    return nodes


def _of_role(gpid: str, role: Role) -> str:
    return f"{role.node} has the {'primary' if role.is_primary else 'secondary'} of {gpid}"


def _of_setting(step: PegasusStep) -> str:
    value = None if step.setting is None else step.setting.value
    return f"{step.subject} is {value or 'empty'}"


# -- whether it holds ------------------------------------------------------------------------------


def _of_node(facts: PegasusFacts, view: RunView, node: str, word: NodeGoal) -> Iterator[str]:
    is_alive = any(one.name == node and one.is_alive for one in facts.nodes)
    if word == "restarted":
        waits = zip(view.steps, _own(view.plan.steps), strict=True)
        if any(one.state != "DONE" for one, step in waits if step.node_goal == (node, word)):
            yield f"no restart of {node} was observed"
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
    return f"{node} still has {count:,} {one if count == 1 else many}"


def _held(facts: PegasusFacts, node: str) -> tuple[int, int]:
    """Return the number of partitions with the primary and with a secondary on a node."""
    parts = facts.columns.partitions

    def count(names: pa.ChunkedArray) -> int:
        return int(pc.sum(pc.equal(names, node)).as_py() or 0)

    return count(parts["primary"]), count(pc.list_flatten(parts["secondaries"]))


def _misplaced(snapshot: PegasusSnapshot, roles: Mapping[str, Role]) -> list[str]:
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
        return [f"partition {gpid} does not exist"]
    holders = [config.primary] if roles[gpid].is_primary else list(config.secondaries)
    word = "primary" if roles[gpid].is_primary else "secondaries"
    names = ", ".join(filter(None, holders)) or "no node"
    return [f"{gpid} has its {word} on {names}"]


def _named(gpids: list[str]) -> str:
    more = f" and {len(gpids) - _MAX_NAMED:,} more" if gpids[_MAX_NAMED:] else ""
    return f"{', '.join(gpids[:_MAX_NAMED])}{more}"


def _has(config: PartitionConfig | None, role: Role) -> bool:
    if config is None:
        return False
    if role.is_primary:
        return config.primary == role.node
    return role.node in config.members  # a secondary that became the primary holds its replica


def _is_else(facts: PegasusFacts, step: PegasusStep) -> str:
    """Return the value of a setting that differs from its goal, or ""."""
    value, change = step.value_in(facts), step.setting
    if value is None or change is None or _entries(value) == _entries(change.value or ""):
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


def _is_to_last(view: RunView, batch: StepView) -> bool:
    """Whether a wait depends on the batch, and the node was not restarted or stopped since."""
    node = batch.step.emptied_node
    later = [
        (one, one.step.wait) for one in view.steps[batch.index + 1 :] if one.step.wait is not None
    ]
    is_relied_on = any(wait.emptied_node == node for _, wait in later)
    is_over = any(
        one.state == "DONE" and one.step.subject == node and wait.needs_operator
        for one, wait in later
    )
    return is_relied_on and not is_over


def _planned_back(view: RunView, node: str, index: int) -> set[str]:
    """Return the partitions that later steps of the plan bring to the node."""
    return {
        gpid
        for step in _own(view.plan.steps[index + 1 :])
        for gpid, role in step.roles.items()
        if role.node == node
    }


def _after(view: RunView, batches: Mapping[int, str]) -> dict[int, str]:
    """Return the later steps that depend on the first of the batches: waits, the closing."""
    if not batches:
        return {}
    first = min(batches)
    nodes = {view.steps[index].step.subject for index in batches}
    why = f"Step {first + 1} is executed again."
    return {
        one.index: why
        for one, step in zip(view.steps, _own(view.plan.steps), strict=True)
        if one.index > first and one.state == "DONE" and _goes_by(step, nodes)
    }


def _goes_by(step: PegasusStep, nodes: Collection[str]) -> bool:
    if step.ends_repaired:
        return True
    is_for_operator = step.wait is not None and step.wait.node_action
    return step.subject in nodes and not step.is_queued and not is_for_operator
