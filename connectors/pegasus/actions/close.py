"""Closing replicas on a node that serves them no more: what is observed, sent and judged.

The other half is :mod:`core.pegasus.steps.close`.

A server closes such a replica by itself when the meta server does not name it in the answer to its
report (every 30 s), and then answers that it has no such replica. That is the state that the step
is for, so it counts as closed, as long as the node is no member by a fresh look.

Source: Pegasus ``replica_stub::on_kill_replica``, ``on_node_query_reply_scatter2``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from connectors.pegasus.acting.partition_reader import PartitionReader
from connectors.pegasus.acting.settings import ServerSettings
from core.actions.model import Observation, Refusal, StepResult
from core.errors import ConflictError, NotFoundError, RemoteError, UnreachableError
from core.pegasus.answers import NodeEntry
from core.pegasus.steps.close import CloseReplicas
from core.units import pluralize

COMMAND: Final = "replica.kill_partition"
FLUSH: Final = "flush-log"
_TAKEN: Final = ("ERR_OK", "OK", "ok")
_ABSENT: Final = "ERR_OBJECT_NOT_FOUND"
_RETRY_S: Final = 2.0


class ClosePort(Protocol):
    """Its cluster interface."""

    @property
    def reader(self) -> PartitionReader:
        """Reads nodes and partitions."""
        ...

    @property
    def settings(self) -> ServerSettings:
        """Sends commands to nodes."""
        ...


class CloseAction:
    """``replica.kill_partition`` for some partitions of a node, each once, and ``flush-log``.

    The result reports that the log was written out; the end of the process does not wait for it.

    What is closed already is closed again without harm; so an answer that was lost leaves nothing
    open that a person would have to see to, and a member is never closed.

    Args:
        step: What to do.
        cluster: Where.
    """

    timeout_s = 60.0
    """The failure detector takes up to 22 s to see that a process has ended."""

    def __init__(self, step: CloseReplicas, cluster: ClosePort) -> None:
        self._step = step
        self._reader = cluster.reader
        self._settings = cluster.settings
        self._node: NodeEntry | None = None
        self._served: set[str] = set()
        self._closed: list[str] = []
        self._absent: list[str] = []
        self._flushed = ""

    def look(self) -> Observation:
        """Read which of the partitions the node still serves."""
        step = self._step
        self._node = self._reader.nodes().get(step.node)
        wanted = set(step.partitions)
        self._served = {
            config.gpid
            for config in self._reader.every_partition()
            if config.gpid in wanted and step.node in config.members
        }
        is_alive = self._node is not None and self._node.is_alive
        return Observation(
            exists=is_alive,
            holder=step.node,
            token=self._start() if is_alive else None,
            value=",".join(sorted(self._served)),
            detail="" if is_alive else f"{step.node} is not alive; its replicas are closed.",
        )

    def _start(self) -> str | None:
        """Return since when the node's process runs; ``None`` if it does not answer."""
        if self._node is None:
            return None
        try:
            answer: Any = self._settings.request(self._node, "server-info")
        except NotFoundError:
            return ""
        except RemoteError:
            return None
        return str(answer.get("start_time", "")) if isinstance(answer, Mapping) else ""

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return the reason nothing can be closed."""
        step = self._step
        if not seen.exists:
            return Refusal(code="node_gone", sentence=seen.detail, hint="Nothing to do.")
        if seen.token is None:
            return Refusal(
                code="node_silent",
                sentence=f"{step.node} does not respond: its process is stopping or starting.",
                retry_s=_RETRY_S,
            )
        if not step.partitions:
            return Refusal(
                code="nothing_to_close", sentence=f"{step.node} has no replicas to close."
            )
        if self._served:
            some = ", ".join(sorted(self._served)[:6])
            return Refusal(
                code="still_member",
                sentence=f"{step.node} still serves {len(self._served)} of these partitions "
                f"({some}): closing a member would fail reads and writes.",
                hint="Remove the node from these partitions first.",
            )
        return None

    def send(self) -> None:
        """Close each, once."""
        failure: RemoteError | None = None
        for gpid in self._step.partitions:
            app_id, _, index = gpid.partition(".")
            try:
                is_found = self._close(app_id, index)
            except RemoteError as exc:
                failure = failure or exc
                if isinstance(exc, UnreachableError):
                    exc.outcome = "unknown"  # its process may be ending: a look decides
                if exc.outcome != "refused" or isinstance(exc, NotFoundError):
                    break
            else:
                (self._closed if is_found else self._absent).append(gpid)
        failure = failure or self._unexplained()
        if failure is not None:
            raise failure
        self._flush()

    def _unexplained(self) -> RemoteError | None:
        """Return the problem of replicas that the server does not have, if any.

        Raises:
            RemoteError: The partitions cannot be read.
        """
        if not self._absent:
            return None
        self.look()
        served = sorted(self._served.intersection(self._absent))
        if not served:
            return None
        return ConflictError(
            f"{self._step.node} has no replica of {', '.join(served[:6])}, but the meta server "
            "lists it as a member of these partitions.",
            endpoint=self._step.node,
            operation=COMMAND,
            outcome="refused",
            hint="Wait for the next repair by the meta server, then plan the remaining steps "
            "again.",
        )

    def _flush(self) -> None:
        """Have the log written out before the process ends, as the scripts do."""
        if self._node is None:
            return
        try:
            self._settings.request(self._node, FLUSH)
        except RemoteError as exc:
            self._flushed = f" Its log was not flushed: {exc.message}"
        else:
            self._flushed = " Its log was flushed."

    def _close(self, app_id: str, index: str) -> bool:
        """Close one replica; ``False`` if the server has none open."""
        if self._node is None:
            raise NotFoundError(
                f"{self._step.node} is not registered.",
                endpoint=self._step.node,
                operation=COMMAND,
                outcome="not_sent",
                hint="Take a fresh snapshot and plan again.",
            )
        answer: Any = self._settings.request(self._node, COMMAND, app_id, index)
        word = str(answer).strip()
        if word == _ABSENT:
            return False
        if word not in _TAKEN:
            raise ConflictError(
                f"{self._step.node} answered {answer} to {COMMAND} {app_id} {index}.",
                endpoint=self._step.node,
                operation=COMMAND,
                outcome="refused",
                hint="See the log of that server.",
            )
        return True

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        """Return that all are closed: by the answers, or because the process has ended."""
        step = self._step
        if before.token and now.token and now.token != before.token:
            sentence = f"{step.node} was restarted; its replicas are closed."
            return StepResult(state="DONE", code="closed", sentence=sentence, after=now)
        if not now.exists:
            sentence = f"{step.node} is no longer alive; its replicas are closed."
            return StepResult(state="DONE", code="closed", sentence=sentence, after=now)
        if len(self._closed) + len(self._absent) < len(step.partitions):
            return None
        sentence = f"{step.node} closed {pluralize(len(self._closed), 'replica')} on request."
        if self._absent:
            sentence += f" {len(self._absent):,} were already closed."
        sentence += self._flushed
        return StepResult(state="DONE", code="closed", sentence=sentence, after=now)

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the result when not every answer came."""
        found = self.result(before, now)
        if found is not None:
            return found
        total, confirmed = len(self._step.partitions), len(self._closed) + len(self._absent)
        return StepResult(
            state="FAILED",
            code="partly" if confirmed else "not_done",
            sentence=f"{self._step.node} confirmed {confirmed:,} of {total:,} closings. It no "
            "longer serves any of these partitions, so its process can be stopped "
            "safely.",
            hint="Close the others manually, or continue.",
            after=now,
        )
