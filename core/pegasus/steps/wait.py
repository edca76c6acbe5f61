"""Wait for a state: everything Trimtab knows about this kind of step but how to look for it.

The other half is :mod:`connectors.pegasus.actions.wait`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, Literal, Self

from msgspec import structs

from core.pegasus.steps.base import NodeGoal, PegasusStep, PlanBuilder, ProjectedState
from core.step import Diagnostic, Executed, Inverse, NodeAction, Phrase, Step, Wait
from core.units import format_age, pluralize

Awaited = Literal[
    "no_primaries",
    "no_replicas",
    "closed",
    "gone",
    "running",
    "restarted",
    "healthy",
    "balanced",
]

_STATES: Final[Mapping[Awaited, str]] = {
    "no_primaries": "{node} has no primaries",
    "no_replicas": "{node} has no replicas",
    "closed": "{node} has closed its replicas",
    "gone": "{node} is not alive",
    "running": "{node} is alive and reports its start time",
    "restarted": "{node} was restarted and is alive",
    "healthy": "every partition has its replicas",
    "balanced": "the balancer has nothing to do",
}
_NODE_ACTIONS: Final[Mapping[str, NodeAction]] = {
    "restarted": "restart",
    "gone": "stop",
    "running": "start",
}
_EMPTY: Final = ("no_primaries", "no_replicas")
_BY_START: Final = ("closed", "restarted")


class AwaitState(PegasusStep, frozen=True, kw_only=True, tag="await_state"):
    """Change nothing: wait until the cluster, or a node of it, is in a state.

    Attributes:
        state: ``no_primaries``, ``no_replicas``: of ``node``; ``closed``: by its own count its
            process has no replica open; ``gone``: it is not alive any more; ``running``: it is
            alive and reports since when; ``restarted``: its process is another one than that;
            ``healthy``: every partition has its replicas; ``balanced``: at lively, nothing is left
            to do on several readings.
        node: Registered name, for the states of a node.
        within_s: Longest wait; then the step fails. ``None`` for unlimited, until someone
            stops the run.
        started_at: For ``restarted`` and ``closed``: start time of the process that has to end, as
            the server writes it; a run takes it from the wait for ``running`` before.
    """

    phrase: ClassVar[Phrase] = Phrase("wait for", "state", "reached", "was reached", order=6)

    state: Awaited
    node: str | None = None
    within_s: float | None = None
    started_at: str | None = None

    @property
    def subject(self) -> str:
        """The node, or the whole cluster."""
        return self.node or "cluster"

    # -- capabilities ---------------------------------------------------------------------------

    @property
    def wait(self) -> Wait:
        """The state."""
        return Wait(
            description=_STATES[self.state].format(node=self.node or "the cluster"),
            within_s=self.within_s,
            node_action=_NODE_ACTIONS.get(self.state, ""),
            emptied_node=self.node if self.state in _EMPTY else None,
            is_for_balance=self.state == "balanced",
            is_optional=self.state == "closed",
        )

    @property
    def node_goal(self) -> tuple[str, NodeGoal] | None:
        """The node, where it is to be empty, stopped or restarted."""
        match self.state:
            case "no_primaries" | "no_replicas" | "gone" | "restarted" as goal:
                return None if self.node is None else (self.node, goal)
            case _:
                return None

    @property
    def result_goal(self) -> str:
        """That nothing is left to balance: the count says so at lively only."""
        return self.wait.description if self.state == "balanced" else ""

    @property
    def is_prerequisite(self) -> bool:
        """Whether later steps are planned for the state that it waits for."""
        return True

    @property
    def not_undone(self) -> str:
        """Actions of operators."""
        if not self.wait.needs_operator:
            return ""
        return "Restarts and stops of nodes by their operators are not undone."

    @property
    def has_before_and_after(self) -> bool:
        """It changes nothing."""
        return False

    @property
    def is_paced(self) -> bool:
        """It moves nothing."""
        return False

    @property
    def ends_repaired(self) -> bool:
        """Whether it waits for that state."""
        return self.state == "healthy"

    @property
    def ends_with_node_back(self) -> bool:
        """Whether it waits for a restart."""
        return self.state == "restarted"

    def resolve(self, earlier: Iterable[tuple[Step, Executed]]) -> Step:
        """Return it with the start of the process that the wait for ``running`` before it saw.

        So a restart that is older than the node's turn does not count, and a worker that takes the
        run over goes by the same one. A wait for closed replicas goes by it, too: a process that
        was restarted meanwhile has none of the old ones open.
        """
        if self.state not in _BY_START:
            return self
        for step, done in earlier:
            if isinstance(step, AwaitState) and (step.state, step.node) == ("running", self.node):
                seen = done.before if done.state == "DONE" else None
                return structs.replace(self, started_at=None if seen is None else seen.value)
        return self

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return ``Wait until n1:34801 has no primaries, 10 min at most``."""
        limit = "" if self.within_s is None else f", up to {format_age(self.within_s)}"
        return f"Wait until {self.wait.description}{limit}"

    def describe_progress(self) -> str:
        """Return ``Waiting until n1:34801 has no primaries``."""
        return f"Waiting until {self.wait.description}"

    @classmethod
    def summarize(cls, steps: Sequence[Self]) -> str:
        """Return ``waits 2 times``."""
        return f"waits {pluralize(len(steps), 'time')}"

    def command_lines(self) -> tuple[str, ...]:
        """Return no line."""
        return ()

    # -- precondition and inverse ---------------------------------------------------------------

    def check(self, state: ProjectedState) -> Diagnostic | None:
        """Allow it: nothing can be known now of what will be when it is over."""
        del state
        return None

    def add_to(self, plan: PlanBuilder) -> None:
        """Add it."""
        plan.append(self)

    def inverse(self, done: Executed, plan: PlanBuilder) -> Iterator[Inverse]:
        """Yield no inverse: it changes nothing."""
        del done, plan
        yield from ()
