"""Waiting for a state: what is observed and judged; nothing is sent.

The other half is :mod:`core.pegasus.steps.wait`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Protocol

from connectors.pegasus.acting.partition_reader import PartitionReader
from connectors.pegasus.acting.settings import ServerSettings
from core.actions.model import Observation, Refusal, StepResult
from core.actions.waits import gone_on, not_reached
from core.errors import RemoteError
from core.pegasus.answers import ClusterInfo, NodeEntry
from core.pegasus.partition import PartitionConfig
from core.pegasus.steps.wait import AwaitState
from core.units import format_age, pluralize

CLOSING_DELAY: Final = "gc_memory_replica_interval_ms"
"""Flag of a replica server: how long a replica that it has closed by itself stays in memory."""

READINGS: Final = 4
_TICKS_APART: Final = 3
_APART_S: Final = 30.0
_SOON_S: Final = 1.0
_LATER_S: Final = 2.0
_RESTS_A_LOOK: Final = 3.0
_MAX_NAMED: Final = 4
Info = Callable[[], ClusterInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProbe:
    """Cluster queries of a wait.

    Attributes:
        reader: Look at the cluster.
        settings: Speaks to nodes.
        info: Reads the effective level and the counts of the leading meta server.
        open_replicas: Asks a node how many replicas it has open.
        closing_delay_s: Asks a node how long it keeps a replica that it closes by itself.
    """

    reader: PartitionReader
    settings: ServerSettings
    info: Info
    open_replicas: Callable[[NodeEntry], int]
    closing_delay_s: Callable[[NodeEntry], float]


class WaitPort(Protocol):
    """Its cluster interface."""

    @property
    def senses(self) -> ClusterProbe:
        """Cluster to query."""
        ...

    @property
    def readings_apart_s(self) -> float | None:
        """Seconds between two readings that say that nothing is left to balance."""
        ...


def await_action(step: AwaitState, cluster: WaitPort) -> AwaitAction:
    """Return the action on a cluster."""
    return AwaitAction(step, cluster.senses, apart_s=cluster.readings_apart_s)


class AwaitAction:
    """One wait; its precondition is the state that is waited for.

    Args:
        senses: Whom to ask.
        apart_s: Seconds between two readings that say that nothing is left to balance; ``None``:
            three ticks of the meta server, 30 s as shipped.
        now_s: Seconds that only ever grow.
    """

    timeout_s = 0.0

    def __init__(
        self,
        step: AwaitState,
        senses: ClusterProbe,
        *,
        apart_s: float | None = None,
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        self._step = step
        self._reader = senses.reader
        self._settings = senses.settings
        self._info = senses.info
        self._open_replicas = senses.open_replicas
        self._closing_delay_s = senses.closing_delay_s
        self._delay = ""
        self._apart_s = apart_s
        self._now_s = now_s
        self._first: int | None = None
        self._took_s = 0.0
        self._calm = 0
        self._next_reading_s = 0.0
        self._start: str | None = None
        self._looks: Mapping[str, Callable[[], str]] = {
            "no_primaries": self._primaries_left,
            "no_replicas": self._replicas_left,
            "closed": self._still_open,
            "gone": self._still_there,
            "running": self._start_unknown,
            "restarted": self._not_restarted,
            "healthy": self._unhealthy,
            "balanced": self._unbalanced,
        }

    def look(self) -> Observation:
        """Return the progress; the detail is empty when the state is reached.

        The value is when the node's process was started, where the wait asks for that.
        """
        began_s = self._now_s()
        lacking = self._looks[self._step.state]()
        self._took_s = self._now_s() - began_s
        return Observation(exists=True, holder=self._step.node, value=self._start, detail=lacking)

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return the missing condition."""
        if self._step.state == "restarted" and self._step.started_at is None:
            return Refusal(
                code="start_unknown",
                sentence=f"The start time of {self._step.node} was not recorded; its restart is "
                "unknown.",
                hint="Plan the remaining steps again.",
            )
        if not seen.detail:
            return None
        rest_s = _LATER_S if self._step.state in ("running", "restarted", "balanced") else _SOON_S
        # a large cluster takes long to read: most of the time it is left in peace
        rest_s = max(rest_s, _RESTS_A_LOOK * self._took_s)
        return Refusal(code="not_yet", sentence=seen.detail, retry_s=rest_s)

    def send(self) -> None:
        """Send nothing."""

    def result(self, before: Observation, now: Observation) -> StepResult:
        """Return that it is reached, unless the attempt started after its timeout."""
        if before.detail and now.detail:  # who began it had no time to say so
            give_up = gone_on if self._step.wait.is_optional else not_reached
            return give_up(self._step.wait, now.detail, now)
        state = self._step.wait.description
        return StepResult(state="DONE", code="reached", sentence=f"Reached: {state}.", after=now)

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the same."""
        return self.result(before, now)

    # -- states of a node -----------------------------------------------------------------------

    def _primaries_left(self) -> str:
        node = self._step.node
        return self._left("primaries", lambda config: config.primary == node)

    def _replicas_left(self) -> str:
        node = self._step.node or ""
        return self._left("replicas", lambda config: node in config.members)

    def _left(self, what: str, holds: Callable[[PartitionConfig], bool]) -> str:
        count = sum(holds(config) for config in self._reader.every_partition())
        self._first = max(self._first or 0, count)
        return f"{self._step.node}: {count:,} of {self._first:,} {what} left." if count else ""

    def _still_there(self) -> str:
        node = self._reader.nodes().get(self._step.node or "")
        if node is None or not node.is_alive:
            return ""
        return f"{self._step.node} is still alive. Stop its process now."

    def _still_open(self) -> str:
        name = self._step.node or ""
        node = self._reader.nodes().get(name)
        if node is None or not node.is_alive:
            return ""  # nothing is open in a process that has ended
        if self._step.started_at is not None and self._has_restarted():
            return ""  # what the new process has loaded is not open for clients
        try:
            count = self._open_replicas(node)
        except RemoteError as exc:
            return f"{name} does not report how many replicas it has open: {exc.message}"
        if not count:
            return ""
        if self._first is None:
            self._delay = self._describe_delay(node)
        self._first = max(self._first or 0, count)
        return f"{name}: {count:,} of {self._first:,} replicas are still open.{self._delay}"

    def _describe_delay(self, node: NodeEntry) -> str:
        try:
            delay_s = self._closing_delay_s(node)
        except RemoteError:  # an old server without the page: what it does is not known
            return ""
        return f" It closes them after {format_age(delay_s)} ({CLOSING_DELAY})."

    def _start_unknown(self) -> str:
        """Note since when the process runs; return why that is unknown."""
        name, self._start = self._step.node or "", None
        node = self._reader.nodes().get(name)
        if node is None or not node.is_alive:
            return f"{name} is not alive. Start its process."
        try:
            info: Any = self._settings.request(node, "server-info")
        except RemoteError:
            return f"{name} does not respond: its process is stopping or starting."
        self._start = str(info.get("start_time", "")) if isinstance(info, Mapping) else ""
        return "" if self._start else f"{name} does not report its start time."

    def _has_restarted(self) -> bool:
        return not self._start_unknown() and self._start != self._step.started_at

    def _not_restarted(self) -> str:
        lacking = self._start_unknown()
        if lacking or self._start != self._step.started_at:
            return lacking
        name = self._step.node
        return f"{name} still runs the process started at {self._start}. Restart it now."

    # -- states of the cluster ------------------------------------------------------------------

    def _unhealthy(self) -> str:
        return self._lacking(_is_healthy)

    def _lacking(self, is_well: Callable[[PartitionConfig], bool]) -> str:
        every = self._reader.every_partition()
        lacking = [config.gpid for config in every if not is_well(config)]
        if not lacking:
            return ""
        more = f" and {len(lacking) - _MAX_NAMED} more" if lacking[_MAX_NAMED:] else ""
        some = f"{', '.join(lacking[:_MAX_NAMED])}{more}"
        return f"{len(lacking):,} of {len(every):,} partitions lack replicas or a primary: {some}."

    def _unbalanced(self) -> str:
        """Read what the balancer counts, not more often than its readings are to be apart."""
        now_s = self._now_s()
        if self._apart_s is None:
            self._apart_s = self._three_ticks_s()
        lacking = self._not_calm()
        if lacking:
            self._calm, self._next_reading_s = 0, now_s
            return lacking
        if now_s >= self._next_reading_s:
            self._calm += 1
            self._next_reading_s = now_s + self._apart_s
        if self._calm >= READINGS:
            return ""
        return (
            f"The balancer reports nothing to do on {self._calm} of {READINGS} readings, "
            f"{self._apart_s:g} s apart."
        )

    def _three_ticks_s(self) -> float:
        try:
            tick_s = self._settings.tick_s()
        except RemoteError:
            tick_s = None
        return _APART_S if tick_s is None else _TICKS_APART * tick_s

    def _not_calm(self) -> str:
        """Return the reason the count does not show a balanced cluster."""
        info = self._info()
        if info.level_word != "lively":
            return f"The effective level is {info.level_word}: balancing starts at lively."
        counts = info.operations
        if counts is None or counts.total < 0:
            return "The meta server has not counted its pending changes yet."
        if counts.total > 0:
            lacking = self._lacking(_is_whole)  # one replica too many is the balancer's own doing
            if lacking:
                return f"Balancing waits until every partition is healthy: {lacking}"
            return f"The balancer counts {pluralize(counts.total, 'change')} in one round."
        return self._unhealthy()  # the count is from before while any partition is unhealthy


def _is_healthy(config: PartitionConfig) -> bool:
    return config.primary is not None and config.replica_count == config.max_replica_count


def _is_whole(config: PartitionConfig) -> bool:
    return config.primary is not None and config.replica_count >= config.max_replica_count
