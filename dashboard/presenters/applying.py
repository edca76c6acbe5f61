"""May this plan be applied from here, and how much must a person confirm?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.actions.model import Refusal
from core.actions.preconditions import plan_refusal
from core.actions.undo import is_left
from core.plan.describe import tally, things
from core.plan.model import DiagnosticSeverity, Plan
from core.step import Step
from core.units import format_age, format_bytes_per_s, format_mb, pluralize
from dashboard.presenters.naming import clock
from dashboard.presenters.workers import WorkerState

FREE_CHANGES: Final = 3
"""More lasting changes than this are confirmed by typing the cluster's name; bundles that brokers
unload by themselves because of a step count as much as those that a step unloads."""

FREE_CLIENTS: Final = 500
"""More clients that reconnect, or whose limits change, likewise, be it for one bundle."""

FREE_BYTES_PER_S: Final = 250e6
"""More moved traffic than this, likewise."""

FREE_COPIED_MB: Final = 100 * 1024
"""More data copied between nodes than this, likewise."""

FREE_SERVERS: Final = 4
"""More brokers or nodes touched than this, likewise, unless by a single change."""

FREE_PARTITIONS: Final = 20
"""More partitions changed than this, likewise, be it by one step that empties a node."""

MAX_REMARKS: Final = 6
"""Diagnostics of one severity that are shown one by one."""

_USELESS: Final = "split_cannot_help"
_LABEL_LENGTH: Final = 44
_LABEL_KINDS: Final = 2
"""What a button has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyContext:
    """Facts that decide whether a plan may be applied.

    Attributes:
        plan: The plan that is shown.
        now: The present moment.
        is_past: It was made on a snapshot that was chosen by its time.
        is_read_only: The configuration forbids every action on its cluster.
        worker: Whether a worker carries out runs.
        open_run: Id of a run that has not ended, with who requested it; ``None``: there is none.
        max_steps: Most steps of one run.
    """

    plan: Plan
    now: datetime
    is_past: bool
    is_read_only: bool
    worker: WorkerState
    open_run: tuple[str, str] | None
    max_steps: int


def why_not(context: ApplyContext) -> str | None:
    """Return the reason why the plan cannot be applied, with the remedy; ``None`` if it can."""
    plan = context.plan
    refusal = plan_refusal(
        plan,
        cluster=plan.cluster,
        is_read_only=context.is_read_only,
        max_steps=context.max_steps,
        now=context.now,
    )
    if context.is_past and (refusal is None or refusal.code != "read_only"):
        return "Plans require the newest snapshot. Choose Live under Time."
    return describe(refusal) if refusal else _of_cluster(context)


def describe(refusal: Refusal) -> str:
    """Return a refusal with its remedy."""
    return f"{refusal.sentence} {refusal.hint}".strip()


def _of_cluster(context: ApplyContext) -> str | None:
    if not context.worker.is_alive:
        return f"{context.worker.sentence} {context.worker.remedy}"
    if context.open_run is not None:
        run_id, who = context.open_run
        return (
            f"Run {run_id} by {who} is active. Only one run per cluster is allowed: wait, or stop "
            "that run."
        )
    return None


def doubt(plan: Plan) -> str:
    """Return the diagnostic of a plan without benefit; empty if it has one."""
    useless = (item for item in plan.diagnostics if item.code == _USELESS)
    return next((item.sentence for item in useless), "")


STOP_WORDS: Final = "To stop the run: Stop on its page, or `trimtab runs RUN --stop`."
"""How to stop a run that is not requested yet."""


def expiry_words(plan: Plan, now: datetime) -> str:
    """Return the identity of the plan and its expiry."""
    left_s = (plan.expires_at - now).total_seconds()
    left = f"in {format_age(left_s)}" if left_s > 0 else "already"
    return (
        f"Plan `{plan.short_id}` on snapshot `{plan.snapshot_id}`, expires {left} "
        f"({clock(plan.expires_at)})."
    )


def _is_lasting(step: Step) -> bool:
    """Whether something of a step is left when its run has ended."""
    return step.wait is None and step.temporary_value is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Reach of a plan, which decides how much a person confirms.

    Attributes:
        changes: Steps whose effect outlasts the run.
        described: The same in words: ``4 bundles``.
        unloaded: Bundles that the cluster unloads by itself because of a step.
        clients: Producers and consumers that reconnect.
        limited: Producers and consumers whose limits change.
        is_unknown: Clients that it reaches could not be counted.
        moved_bytes_per_s: Traffic of what moves.
        copied_mb: What is copied between nodes.
        servers: Brokers or nodes that lose or gain something.
        server: What one of them is called.
        emptied: Nodes that lose everything they serve.
        partitions: Partitions whose replicas or roles change.
        is_balancing: The cluster's own balancer is set going: it moves what it selects.
        irreversible: Why the name is asked for whatever the size; empty: no such reason.
    """

    changes: int
    described: str
    unloaded: int
    clients: int
    limited: int
    is_unknown: bool
    moved_bytes_per_s: float
    copied_mb: float
    servers: int
    server: str
    emptied: int
    partitions: int
    is_balancing: bool
    irreversible: str

    @classmethod
    def of(cls, plan: Plan) -> Impact:
        """Return the impact of a plan; unknown values count as nothing."""
        steps, expected = plan.steps, plan.expected
        lasting = [step for step in steps if _is_lasting(step)]
        destinations = {step.destination or next(iter(step.likely), None) for step in steps}
        unloaded = _known(expected.unloaded_by_cluster)
        landing = {broker.broker for broker in expected.brokers} if unloaded else set()
        servers = ({step.owner for step in steps} | destinations | landing) - {None}
        emptied = {step.emptied_node for step in steps} - {None}
        return cls(
            changes=len(lasting),
            described=things(lasting),
            unloaded=unloaded,
            clients=expected.clients or 0,
            limited=_known(expected.limited_clients),
            is_unknown=expected.limited_clients is None
            or (bool(unloaded) and expected.clients is None),
            moved_bytes_per_s=expected.moved_bytes_per_s or 0.0,
            copied_mb=expected.copied_mb or 0.0,
            servers=len(servers),
            server="node" if expected.nodes or emptied else "broker",
            emptied=len(emptied),
            partitions=len({name for step in steps for name in step.touched}),
            is_balancing=any(step.starts_balancer for step in steps),
            irreversible=next((step.confirmation for step in steps if step.confirmation), ""),
        )

    @property
    def moving(self) -> int:
        """Lasting changes, and bundles that move because of them."""
        return self.changes + self.unloaded

    @property
    def _described_all(self) -> str:
        if not self.unloaded:
            return self.described
        return f"{self.described}, {pluralize(self.unloaded, 'unloaded bundle')}"

    def why_large(self, environment: str) -> str | None:
        """Return the reason for a large impact, a clause; ``None`` if it is small.

        Args:
            environment: Of the cluster: ``production`` counts two changes as many.
        """
        partitions = pluralize(self.partitions, "partition")
        reasons = (
            (bool(self.irreversible), self.irreversible),
            (self.is_balancing, "balancing of the whole cluster by the meta server"),
            (self.clients > FREE_CLIENTS, f"{pluralize(self.clients, 'client')} to reconnect"),
            (
                self.limited > FREE_CLIENTS,
                f"changed limits for {pluralize(self.limited, 'client')}",
            ),
            (
                self.moved_bytes_per_s > FREE_BYTES_PER_S,
                f"{format_bytes_per_s(self.moved_bytes_per_s)} of moved traffic",
            ),
            (self.is_unknown, "unknown number of affected clients"),
            (self.copied_mb > FREE_COPIED_MB, f"{format_mb(self.copied_mb)} to copy"),
            (self.emptied > 1, f"{pluralize(self.emptied, 'drained node')}"),
            (self.partitions > FREE_PARTITIONS, f"changes to {partitions}"),
            (
                environment == "production" and self.moving > 1,
                f"{self._described_all} on a production cluster",
            ),
            (self.moving > FREE_CHANGES, f"{self._described_all} at once"),
            (
                self.moving > 1 and self.servers > FREE_SERVERS,
                f"{pluralize(self.servers, self.server)} affected",
            ),
        )
        return next((reason for is_so, reason in reasons if is_so), None)


def _known(count: object) -> int:
    """Return a count of a plan; one that is unset or unknown counts as nothing."""
    return count if isinstance(count, int) else 0


def must_type_name(plan: Plan, environment: str) -> str | None:
    """Return the reason for typing the cluster's name; ``None`` if the impact is small."""
    return Impact.of(plan).why_large(environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Entries of a person in the dialog.

    Attributes:
        reason: Why.
        typed_name: The cluster's name as typed; empty where it is not required.
    """

    reason: str
    typed_name: str


def missing(plan: Plan, environment: str, answers: Answers) -> str | None:
    """Return the missing input before the plan can be applied; ``None`` if complete."""
    if not answers.reason.strip():
        return "Enter a reason (recorded in the audit log)."
    if must_type_name(plan, environment) and answers.typed_name.strip() != plan.cluster:
        return f"Enter the cluster name {plan.cluster} to confirm."
    return None


def send_label(plan: Plan) -> str:
    """Return the title of the dialog of a plan, and the label of the button that sends it."""
    steps = plan.steps
    if plan.undoes is not None and {step.counted_as.verb for step in steps} == {"unload"}:
        return f"Move {things(steps)} back"
    if len(steps) == 1 and len(whole := steps[0].describe()) <= _LABEL_LENGTH:
        return whole
    if len({step.counted_as for step in steps}) > _LABEL_KINDS:
        return f"Execute {pluralize(len(steps), 'step')}"
    return tally(steps).capitalize()


def remarks(plan: Plan) -> dict[DiagnosticSeverity, list[str]]:
    """Return the remarks about the plan by severity, worst first; a few of each."""
    severities: tuple[DiagnosticSeverity, ...] = ("error", "warning", "info")
    by_severity = {
        one: list(
            dict.fromkeys(
                f"{item.sentence} {item.hint}".strip()
                for item in plan.by_severity(one)
                if not is_left(item)  # drawn by themselves
            )
        )
        for one in severities
    }
    return {
        severity: items[:MAX_REMARKS]
        + ([f"{len(items) - MAX_REMARKS:,} similar steps."] if len(items) > MAX_REMARKS else [])
        for severity, items in by_severity.items()
        if items
    }
