"""The JSON objects of plans, runs, jobs and snapshots: of commands, HTTP interface and client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from core.actions.model import Control, StepState

Action = Literal["approve", "reject"] | Control
"""What a person does with a run."""


class DiagnosticJson(TypedDict):
    """A remark about a plan.

    Attributes:
        code: Its kind.
        severity: error, warning or info.
        sentence: In words.
        hint: What to do; empty: nothing.
        subject: What it is about; empty: the whole plan.
    """

    code: str
    severity: str
    sentence: str
    hint: str
    subject: str


class PlanJson(TypedDict):
    """A plan, as its file has it; the times are ISO 8601, UTC.

    Attributes:
        plan_id: Hash of its content.
        format_version: Version of the format.
        cluster: Name of the cluster.
        snapshot_id: Snapshot that it was made on.
        taken_at: Time of that snapshot.
        created_at: When it was made.
        expires_at: Until when its run can be requested.
        strategy: Placement strategy that predicts destinations, with its settings.
        steps: The steps, with what is sent by each.
        expected: Measures before and after.
        diagnostics: Remarks.
        reason: Why it was made.
        complete: Whether it has all that was requested.
        applyable: Whether it can be executed.
        errored: Whether it has errors.
        undoes: The run that it undoes; null: none.
        derived_from: The plan that it was made from; null: none.
        signature: Of the installation; a plan that a run has is without it.
    """

    plan_id: str
    format_version: int
    cluster: str
    snapshot_id: str
    taken_at: str
    created_at: str
    expires_at: str
    strategy: dict[str, Any]
    steps: list[dict[str, Any]]
    expected: dict[str, Any]
    diagnostics: list[DiagnosticJson]
    reason: str
    complete: bool
    applyable: bool
    errored: bool
    undoes: str | None
    derived_from: str | None
    signature: NotRequired[str]


class PlanRunJson(TypedDict):
    """A run of a plan."""

    run_id: str
    state: str


class KnownPlanJson(TypedDict):
    """A plan whose run was requested.

    Attributes:
        plan_id: Hash of its content.
        cluster: Its cluster.
        answer: What it does, in words.
        steps: Number of steps.
        created_at: When it was made.
        expires_at: Until when its run can be requested.
        undoes: The run that it undoes; null: none.
        is_waiting: Whether a run of it waits for the approval of another person.
        runs: Its runs, the newest first.
    """

    plan_id: str
    cluster: str
    answer: str
    steps: int
    created_at: str
    expires_at: str
    undoes: str | None
    is_waiting: bool
    runs: list[PlanRunJson]


class MadeJson(TypedDict):
    """A plan that was made.

    Attributes:
        verdict: Whether there is something to do.
        answer: What the plan does, in words.
        plan: The plan file, signed; null: nothing to do.
    """

    verdict: Literal["ready", "nothing_to_do"]
    answer: str
    plan: PlanJson | None


class PreviewJson(TypedDict):
    """Expected effects of a plan; further keys by system.

    Attributes:
        plan_id: The plan.
        cluster: Its cluster.
        snapshot_id: Its snapshot.
        applyable: Whether it can be executed.
        diagnostics: Remarks.
        steps: The steps with their effects.
        before_after: Brokers before and after; Pulsar only.
        clients: Clients that reconnect; Pulsar only.
        measures_before: Measures before; Pulsar only.
        measures_after: Measures after; Pulsar only.
        other_steps: Steps that move no bundle by themselves; Pulsar only.
        outcomes: Number of outcomes that were computed; Pulsar only.
        is_exact: Whether these are all outcomes; Pulsar only.
        notes: Assumptions; Pulsar only.
        answer: The effects in words; Pegasus only.
        sentence: The same; Pegasus only.
        restored: What the end of the run restores; Pegasus only.
        waits_for_people: Whether the run waits for a person; Pegasus only.
        expired: Whether it has expired; Pegasus only.
        nodes: Nodes before and after; Pegasus only.
        copied_mb: Data to copy; null: unknown; Pegasus only.
    """

    plan_id: str
    cluster: str
    snapshot_id: str
    applyable: bool
    diagnostics: list[DiagnosticJson]
    steps: list[dict[str, Any]]
    before_after: NotRequired[list[dict[str, Any]]]
    clients: NotRequired[dict[str, Any]]
    measures_before: NotRequired[dict[str, Any]]
    measures_after: NotRequired[dict[str, Any]]
    other_steps: NotRequired[list[dict[str, Any]]]
    outcomes: NotRequired[int]
    is_exact: NotRequired[bool]
    notes: NotRequired[list[str]]
    answer: NotRequired[str]
    sentence: NotRequired[str]
    restored: NotRequired[list[str]]
    waits_for_people: NotRequired[bool]
    expired: NotRequired[bool]
    nodes: NotRequired[list[dict[str, Any]]]
    copied_mb: NotRequired[float | None]


class DryRunStepJson(TypedDict):
    """What would be sent by a step.

    Attributes:
        index: Place in the plan, from 0.
        kind: Kind of step.
        subject: Bundle, partition, setting or node.
        would_send: Whether a request would be sent.
        code: Result.
        sentence: The same in words.
        hint: What to do; empty: nothing.
        after_s: Seconds from the start.
    """

    index: int
    kind: str
    subject: str
    would_send: bool
    code: str
    sentence: str
    hint: str
    after_s: float


class RehearsalJson(TypedDict):
    """Result of a dry run.

    Attributes:
        plan_id: The plan.
        state: State in which the run would end.
        sentence: The same in words.
        refusal: Why it would not begin; null: it would.
        requests: Number of requests that would be sent.
        steps: The steps.
        settings: Temporary settings of the run.
    """

    plan_id: str
    state: str
    sentence: str
    refusal: dict[str, Any] | None
    requests: int
    steps: list[DryRunStepJson]
    settings: list[dict[str, str | None]]


class DryRunJson(TypedDict):
    """The answer to a dry run."""

    dry_run: RehearsalJson


class StepJson(TypedDict):
    """One step of a run.

    Attributes:
        index: Place in the plan, from 0.
        kind: Kind of step.
        subject: Bundle, partition, setting or node.
        bundle: The bundle; null: the step is about something else.
        what: What it does, in words.
        owner: Owner before the run; null: none, or unknown.
        destination: Requested destination; null: the cluster's choice.
        predicted: Probability of each destination.
        state: Its state.
        code: Result; null: pending.
        sentence: The same in words; null: pending.
        hint: What to do; null: pending.
        before: What was observed before; null: not begun.
        after: What was observed after; null: pending.
        begun_at: When it was begun; null: not yet.
        ended_at: When it ended; null: not yet.
        took_ms: Time until the effect was visible; null: unknown.
        is_reconciled: Whether its result was observed later.
        attempt: Attempt number, from 1.
    """

    index: int
    kind: str
    subject: str
    bundle: str | None
    what: str
    owner: str | None
    destination: str | None
    predicted: dict[str, float]
    state: StepState
    code: str | None
    sentence: str | None
    hint: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    begun_at: str | None
    ended_at: str | None
    took_ms: float | None
    is_reconciled: bool
    attempt: int


class SummaryJson(TypedDict):
    """One run, as in the list.

    Attributes:
        run_id: Its name; names sort by time.
        cluster: Where.
        state: Its state.
        sentence: The same in words.
        plan_id: Its plan.
        undoes: The run that it undoes; null: none.
        not_brought_back: What an undo does not move back, with the reason.
        reason: Why it was requested.
        requested_by: Who requested it.
        requested_at: When.
        started_at: When a worker began it; null: not yet.
        ended_at: When it ended; null: not yet.
        worker: Who executes it; null: none yet.
        steps: Number of steps.
        counts: Number of steps by state.
        damage: Why later entries could not be read; null: none.
    """

    run_id: str
    cluster: str
    state: str
    sentence: str
    plan_id: str
    undoes: str | None
    not_brought_back: Sequence[str]
    reason: str
    requested_by: str
    requested_at: str
    started_at: str | None
    ended_at: str | None
    worker: str | None
    steps: int
    counts: Mapping[StepState, int]
    damage: str | None


class RunJson(SummaryJson):
    """One run with its steps.

    Attributes:
        options: How it is executed.
        lease: Where the worker's right to write is held; null: no worker.
        takeovers: How often another worker continued it.
        refusal: Why it never began; null: it did, or waits.
        control: The latest control request; null: none.
        is_control_pending: Whether that is pending.
        purpose: What the run is for, and whether that holds; null: no purpose.
        steps: The steps.
        settings: Temporary settings, with the values before and during the run.
        external_changes: Changes by others during the run.
        next_moves: Moves that are still expected.
        unassigned: Bundles without an owner.
        expected: Predicted measures.
        measured: Measured values; null: not yet.
        disregarded: Places of entries that do not count.
    """

    options: dict[str, Any]
    lease: str | None
    takeovers: int
    refusal: dict[str, Any] | None
    control: dict[str, Any] | None
    is_control_pending: bool
    purpose: dict[str, Any] | None
    steps: list[StepJson]  # type: ignore[misc]  # the list of runs has their number
    settings: list[dict[str, Any]]
    external_changes: list[dict[str, Any]]
    next_moves: list[dict[str, Any]]
    unassigned: list[str]
    expected: dict[str, Any]
    measured: dict[str, Any] | None
    disregarded: list[int]


class WholeJson(TypedDict):
    """One run with its entries.

    Attributes:
        run: The run with its steps, settings, predicted and measured values.
        entries: Its entries in the journal, as they are sealed.
        unsigned: Places of entries that are not signed by this installation, or are copies.
    """

    run: RunJson
    entries: list[dict[str, Any]]
    unsigned: list[int]


class DecisionJson(TypedDict):
    """The decision of another person."""

    is_approved: bool
    by: str
    comment: str


class WholeRunJson(WholeJson):
    """One run with its entries.

    Attributes:
        run: The run with its steps, settings, predicted and measured values.
        entries: Its entries in the journal, as they are sealed.
        unsigned: Places of entries that are not signed by this installation, or are copies.
        plan: Its plan.
        is_waiting: Whether it waits for the approval of another person.
        decision: That person's decision; null: none.
    """

    plan: PlanJson
    is_waiting: bool
    decision: DecisionJson | None


class PlaceJson(TypedDict):
    """Place and hash of an entry."""

    seq: int
    digest: str


class DamageJson(TypedDict):
    """A break of the chain."""

    seq: int
    what: str


class VerifiedJson(TypedDict):
    """Result of a verification of the journal.

    Attributes:
        is_sound: Whether the checked parts have no problem.
        entries: Intact entries from the first one on.
        newest: The last intact entry.
        anchors: Hashes stored elsewhere that the entries have.
        archived: Last entry that is in an archive and was not verified; 0: none.
        damage: The first break of the chain; null: none.
        unsigned: Places of entries that are not signed by this installation, or are copies.
        checked: What was checked.
        not_checked: What this database cannot check.
        problems: In words.
    """

    is_sound: bool
    entries: int
    newest: PlaceJson
    anchors: int
    archived: int
    damage: DamageJson | None
    unsigned: list[int]
    checked: list[str]
    not_checked: list[str]
    problems: list[str]


class JobJson(TypedDict):
    """A job.

    Attributes:
        id: Its name; names sort by time.
        kind: Kind of job.
        state: queued, running, done, failed or stopped.
        is_stopping: Whether its end was requested.
        asked: Its parameters; null: unreadable.
        actor: Who requested it.
        asked_at: When.
        started_at: When a server claimed it; empty: not yet.
        ended_at: When it ended; null: not yet.
        done: Parts that are done.
        total: Parts in all; 0: unknown.
        words: What is computed now.
        error: Code, message and hint of its failure; null: none.
        problem: What of it cannot be read; empty: nothing.
        answer: Its answer in words; null: none yet.
        facts: Figures of the answer.
        tables: Content of each result table.
    """

    id: str
    kind: str
    state: str
    is_stopping: bool
    asked: dict[str, Any] | None
    actor: str | None
    asked_at: str | None
    started_at: str
    ended_at: str | None
    done: int
    total: int
    words: str
    error: dict[str, str] | None
    problem: str
    answer: str | None
    facts: dict[str, Any] | None
    tables: dict[str, str]


class ClusterJson(TypedDict):
    """A cluster.

    Attributes:
        name: As configured.
        kind: Its system.
        environment: As configured.
        group: As configured.
        tags: As configured.
        snapshot_id: Of the newest saved snapshot; null: none.
        taken_at: Its time.
    """

    name: str
    kind: str
    environment: str
    group: str
    tags: list[str]
    snapshot_id: str | None
    taken_at: str | None


class SnapshotJson(TypedDict):
    """A saved snapshot.

    Attributes:
        snapshot_id: Hash of its content.
        taken_at: When the reading ended.
    """

    snapshot_id: str
    taken_at: str
