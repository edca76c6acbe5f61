"""Closing replicas on a node that serves them no more, before its process is ended."""

from __future__ import annotations

from typing import Any, Final

from connectors.pegasus.acting.settings import ServerSettings
from connectors.pegasus.acting.sight import Eyes
from core.actions.model import Ending, Observation, Refusal
from core.errors import ConflictError, NotFoundError, RemoteError
from core.pegasus.answers import NodeEntry
from core.plan.pegasus_steps import CloseReplicas

COMMAND: Final = "replica.kill_partition"
FLUSH: Final = "flush-log"
_TAKEN: Final = ("ERR_OK", "OK", "ok")


class CloseAction:
    """``replica.kill_partition`` for some partitions of a node, each once, and ``flush-log``.

    That the log was written out is told in the ending; the end of the process waits for nothing of
    it.

    What is closed already is closed again without harm; so an answer that was lost leaves nothing
    open that a person would have to see to, and a member is never closed.

    Args:
        step: What to do.
        eyes: Look at the cluster.
        settings: Speaks to nodes.
    """

    patience_s = 0.0

    def __init__(self, step: CloseReplicas, eyes: Eyes, settings: ServerSettings) -> None:
        self._step = step
        self._eyes = eyes
        self._settings = settings
        self._node: NodeEntry | None = None
        self._served: set[str] = set()
        self._closed: list[str] = []
        self._flushed = ""

    def look(self) -> Observation:
        """Read which of the partitions the node still serves."""
        step = self._step
        self._node = self._eyes.nodes().get(step.node)
        wanted = set(step.partitions)
        self._served = {
            config.gpid
            for config in self._eyes.every_partition()
            if config.gpid in wanted and step.node in config.members
        }
        is_alive = self._node is not None and self._node.is_alive
        return Observation(
            exists=is_alive,
            holder=step.node,
            value=",".join(sorted(self._served)),
            detail="" if is_alive else f"{step.node} is not alive: nothing is open there.",
        )

    def forbids(self, seen: Observation) -> Refusal | None:
        """Return why nothing may be closed."""
        step = self._step
        if not seen.exists:
            return Refusal(code="node_gone", sentence=seen.detail, hint="Nothing has to be done.")
        if not step.partitions:
            return Refusal(code="nothing_to_close", sentence=f"{step.node} has nothing to close.")
        if self._served:
            some = ", ".join(sorted(self._served)[:6])
            return Refusal(
                code="still_member",
                sentence=f"{step.node} still serves {len(self._served)} of them ({some}): closing "
                "a member would fail reads and writes.",
                hint="Take the node out of those partitions first.",
            )
        return None

    def send(self) -> None:
        """Close each, once."""
        failure: RemoteError | None = None
        for gpid in self._step.partitions:
            app_id, _, index = gpid.partition(".")
            try:
                self._close(app_id, index)
            except RemoteError as exc:
                failure = failure or exc
                if exc.outcome != "refused" or isinstance(exc, NotFoundError):
                    break
            else:
                self._closed.append(gpid)
        if failure is not None:
            raise failure
        self._flush()

    def _flush(self) -> None:
        """Have the log written out before the process ends, as the scripts do."""
        if self._node is None:
            return
        try:
            self._settings.ask(self._node, FLUSH)
        except RemoteError as exc:
            self._flushed = f" Its log was not flushed: {exc.message}"
        else:
            self._flushed = " Its log was flushed."

    def _close(self, app_id: str, index: str) -> None:
        if self._node is None:
            raise NotFoundError(
                f"{self._step.node} is not registered.",
                endpoint=self._step.node,
                operation=COMMAND,
                outcome="not_sent",
                hint="Take a fresh snapshot and plan anew.",
            )
        answer: Any = self._settings.ask(self._node, COMMAND, app_id, index)
        if str(answer).strip() not in _TAKEN:
            raise ConflictError(
                f"{self._step.node} answered {answer} to {COMMAND} {app_id} {index}.",
                endpoint=self._step.node,
                operation=COMMAND,
                outcome="refused",
                hint="See the log of that server.",
            )

    def ending(self, before: Observation, now: Observation) -> Ending | None:
        """Return that all are closed; nobody tells which replicas are open besides the answers."""
        del before
        step = self._step
        if not now.exists:
            sentence = f"{step.node} is not alive any more: nothing is open there."
            return Ending(state="DONE", code="closed", sentence=sentence, after=now)
        if len(self._closed) < len(step.partitions):
            return None
        sentence = f"{step.node} closed {len(self._closed):,} replicas that it serves no more."
        sentence += self._flushed
        return Ending(state="DONE", code="closed", sentence=sentence, after=now)

    def ending_at_last(self, before: Observation, now: Observation) -> Ending:
        """Return what is to be said when not every answer came."""
        found = self.ending(before, now)
        if found is not None:
            return found
        total = len(self._step.partitions)
        return Ending(
            state="FAILED",
            code="partly" if self._closed else "not_done",
            sentence=f"{self._step.node} confirmed {len(self._closed):,} of {total:,} closings; it "
            "serves none of these partitions any more, so the end of its process does no harm.",
            hint="Close the rest by hand, or go on.",
            after=now,
        )
