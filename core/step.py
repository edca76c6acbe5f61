"""What every step of a plan is, whatever system it acts on: the one protocol of step kinds.

A step kind is one class in ``core/<system>/steps/<kind>.py``, a subclass of its system's base
(``core/<system>/steps/base.py``), plus one action in ``connectors/<system>/actions/<kind>.py``.
Plan, preview, executor, journal, undo, pages and commands read only what is declared here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import msgspec

from core.access import Role

StepState = Literal["PENDING", "RUNNING", "DONE", "FAILED", "UNKNOWN", "SKIPPED"]
DiagnosticSeverity = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """Something to know about a plan.

    Attributes:
        severity: ``error`` forbids applying the plan.
        code: Stable word, for scripts and tests.
        sentence: One sentence with its facts.
        subject: The bundle, broker or setting it is about; empty for the whole plan.
        hint: One sentence: what to do about it.
    """

    severity: DiagnosticSeverity
    code: str
    sentence: str
    subject: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Observation of a step's subject at one moment.

    Attributes:
        exists: The subject is there under that name (a bundle that was split is not).
        holder: Broker id of the owner; ``None`` if unassigned.
        token: Changes whenever the holder changes hands, even back to the same one (the ownership
            znode's creation transaction); ``None`` where the cluster shows no such thing.
        value: For settings: the value that is set; ``None`` if not set.
        detail: One sentence for people, empty when there is nothing to add.
        topics: Loaded topics of a bundle, by its owner's statistics; ``None`` if not read.
        clients: Their producers and consumers; ``None`` if not read.
    """

    exists: bool
    holder: str | None = None
    token: str | None = None
    value: str | None = None
    detail: str = ""
    topics: int | None = None
    clients: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """Journal data of one step of a run: the input of its inverse.

    Attributes:
        state: How far it got.
        before: Observed before the request was sent; ``None`` if it was not sent.
        after: Observed at the end; ``None`` if not observed.
    """

    state: StepState
    before: Observation | None = None
    after: Observation | None = None


class SettingChange(NamedTuple):
    """A value of a setting that a step replaces.

    Attributes:
        before: Value that the plan found; ``None`` if not set, or unknown (see ``is_persistent``).
        value: The new value; ``None`` if the setting is removed.
        is_persistent: The cluster stores it, so that no value means "not set". Otherwise servers
            keep it until they restart, and no value means "unknown".
        is_temporary: The value before is restored when the run ends.
    """

    before: str | None
    value: str | None
    is_persistent: bool = False
    is_temporary: bool = False


NodeAction = Literal["", "restart", "stop", "start"]
"""What an operator does to a node; empty: nothing."""


class Wait(NamedTuple):
    """A state that a step waits for; the step changes nothing.

    Attributes:
        description: The state, a clause: ``n1:34801 has no primaries``.
        within_s: Longest wait; ``None`` for no limit.
        node_action: What an operator does to the step's subject, a node, to reach the state.
        emptied_node: Node that holds nothing, or leads nothing, in the state; ``None`` if no node.
        is_for_balance: The cluster's own balancer has nothing left to do in the state.
        is_optional: The run goes on where the state is not reached in time.
    """

    description: str
    within_s: float | None = None
    node_action: NodeAction = ""
    emptied_node: str | None = None
    is_for_balance: bool = False
    is_optional: bool = False

    @property
    def needs_operator(self) -> bool:
        """Whether the state is reached only if an operator acts."""
        return self.node_action in ("restart", "stop")


class ResultFlags(NamedTuple):
    """Generic meaning of a step's result code.

    Attributes:
        needs_grace: The subject has no owner; one reading cannot tell that from a subject in
            transfer, so it must be seen so for a while.
        is_needless: The step was skipped because nothing was left to do.
        differs: What became of the subject where the step was done, but not as requested; of one
            or several, without a verb's number: ``landed elsewhere than requested``.
        is_external_change: Others moved the subject since the plan was made.
        is_doubtful: An incomplete reading gives the same result.
        unserved: Why no server serves the subject of a step that was not done, one or two words:
            ``unassigned``; empty: it is served.
        is_repeatable: The cluster has certainly lost the request: the step may be executed again.
    """

    needs_grace: bool = False
    is_needless: bool = False
    differs: str = ""
    is_external_change: bool = False
    is_doubtful: bool = False
    unserved: str = ""
    is_repeatable: bool = False


class Phrase(NamedTuple):
    """Phrases for steps of one kind: ``unload 2 bundles``, ``2 bundles moved``.

    Attributes:
        verb: ``unload``.
        thing: ``bundle``, singular.
        done: ``moved``.
        outcome: The same as a predicate: ``moved``, ``was split``.
        order: Place among the kinds of its system when the steps of a plan are counted.
        is_by_subject: Several steps with one subject count as one.
    """

    verb: str
    thing: str
    done: str
    outcome: str
    order: int = 0
    is_by_subject: bool = False


class Step:
    """One step of a plan: what neutral code reads of it.

    It is no Struct, so that a decoder looks its kind up in a registry
    (:class:`core.plan.registry.StepRegistry`) and no type has to list the kinds of all systems.

    Attributes:
        phrase: How steps of the kind are counted; see :attr:`counted_as`.
        result_flags: Result code, or code of a finding, to its meaning; others have no flag.
    """

    __slots__ = ()

    phrase: ClassVar[Phrase]
    result_flags: ClassVar[Mapping[str, ResultFlags]] = {
        "already_set": ResultFlags(is_needless=True),
    }

    # -- identity -------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Stable word for the type of the step."""
        raise NotImplementedError

    @property
    def reason(self) -> str:
        """Reason, one sentence; shown and recorded, never interpreted."""
        raise NotImplementedError

    @property
    def subject(self) -> str:
        """Subject: the name of a bundle, or the key of a setting."""
        raise NotImplementedError

    @property
    def namespace(self) -> str | None:
        """Namespace that it belongs to; ``None`` if none."""
        return None

    @property
    def scopes(self) -> tuple[str, ...]:
        """Scopes for exclusions: its namespace, or the tables that it touches."""
        return () if self.namespace is None else (self.namespace,)

    @property
    def recorded_as(self) -> tuple[str, ...]:
        """Subjects under which history records what the step caused."""
        return (self.subject,)

    # -- capabilities: what neutral code goes by ------------------------------------------------

    @property
    def counted_as(self) -> Phrase:
        """How the step is counted: as its kind, where a kind does one thing."""
        return self.phrase

    @property
    def role(self) -> Role:
        """Role that a person needs on the cluster to have it executed."""
        change = self.setting
        is_lasting = change is not None and not change.is_temporary
        return "admin" if is_lasting else "operator"

    @property
    def is_paced(self) -> bool:
        """Whether it counts as a move for pace and moves per day."""
        return True

    @property
    def is_placed_by_cluster(self) -> bool:
        """Whether the cluster chooses the new owner, unless :attr:`destination` is set."""
        return False

    @property
    def is_prerequisite(self) -> bool:
        """Whether the preconditions of all later steps depend on it."""
        return False

    @property
    def is_assumed(self) -> bool:
        """Whether later steps are checked as if it had been done."""
        return False

    @property
    def touched(self) -> tuple[str, ...]:
        """Names of what it changes, where that is more or other than its subject."""
        return ()

    @property
    def is_queued(self) -> bool:
        """Whether the cluster queues it, and may execute it after its timeout."""
        return False

    @property
    def discards_queued(self) -> bool:
        """Whether the cluster discards its queue when the step is executed."""
        return False

    @property
    def starts_balancer(self) -> bool:
        """Whether the cluster's own balancer moves something once it is done."""
        return False

    @property
    def copied_replicas(self) -> int:
        """Replicas that it copies to another node."""
        return 0

    @property
    def copied_mb(self) -> float | None:
        """Data that it copies between nodes; ``None`` if unknown."""
        return 0.0

    @property
    def emptied_node(self) -> str | None:
        """Node that loses many replicas at once; ``None`` if there is none."""
        return None

    @property
    def has_parts(self) -> bool:
        """Whether its subject is replaced by parts of it."""
        return False

    def covers(self, name: str) -> bool:
        """Return whether a name is its subject, or a part of it."""
        return name == self.subject

    @property
    def has_before_and_after(self) -> bool:
        """Whether its subject has a holder, or a value, before and after it."""
        return True

    @property
    def setting(self) -> SettingChange | None:
        """Its change of a setting, or ``None`` if its subject is not a setting."""
        return None

    @property
    def wait(self) -> Wait | None:
        """Condition that it waits for, or ``None`` if it changes something."""
        return None

    @property
    def temporary_value(self) -> str | None:
        """Value of its setting during the run, or ``None`` if not temporary."""
        change = self.setting
        return change.value if change is not None and change.is_temporary else None

    @property
    def why_irreversible(self) -> str:
        """Reason it cannot be undone at all, or ""."""
        return ""

    @property
    def not_undone(self) -> str:
        """Effects that its undo does not revert, one sentence, or "".

        It is about the kind of step, not about its subject: many steps give one sentence. What a
        single step leaves behind is a finding of its inverse.
        """
        return ""

    @property
    def lets_others_move(self) -> bool:
        """Whether the cluster may move something because of it, also after it has ended.

        An undo then counts what moved, and can plan it back.
        """
        return self.starts_balancer

    @property
    def confirmation(self) -> str:
        """Reason the cluster's name must be typed, even for one step, or ""."""
        return ""

    @property
    def owner(self) -> str | None:
        """Broker id of the subject's owner when the plan was made, or ``None`` if it has none."""
        return None

    @property
    def destination(self) -> str | None:
        """Broker id that is requested to take it; ``None`` if none in particular."""
        return None

    @property
    def predicted(self) -> Mapping[str, float]:
        """Broker id to probability: where it is expected to land; empty: nothing moves."""
        return {}

    @property
    def likely(self) -> tuple[str, ...]:
        """Brokers of :attr:`predicted`, most likely first, equals by name."""
        return tuple(sorted(self.predicted, key=lambda broker: (-self.predicted[broker], broker)))

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return its description, imperative: ``Unload acme/x/0x0_0x4 from b1, to b2``."""
        raise NotImplementedError

    def describe_prediction(self) -> str:
        """Return its description, with its predicted result where the cluster decides it."""
        return self.describe()

    def describe_progress(self) -> str:
        """Return the same while it is executed: ``Unloading acme/x/0x0_0x4 from b1``."""
        raise NotImplementedError

    def describe_dry_run(self, holder: str | None = None) -> str:
        """Return the dry-run sentence.

        Args:
            holder: Who has its subject now; ``None`` if as planned.
        """
        raise NotImplementedError

    def describe_before(self, seen: Observation | None) -> str:
        """Return the holder of its subject before it, or "".

        Args:
            seen: Observed before the request was sent; ``None`` if as planned.
        """
        return (seen.holder if seen else None) or self.owner or ""

    def describe_target(self) -> str:
        """Return the target of its subject, in a word or two."""
        return self.destination or ""

    def describe_after(self, seen: Observation) -> str:
        """Return the holder or state of its subject after it."""
        return seen.holder or ""

    def command_lines(self) -> tuple[str, ...]:
        """Return the equivalent lines of the system's own shell, quoted; none for waiting."""
        raise NotImplementedError

    def restore_lines(self, before: str | None) -> tuple[str, ...]:
        """Return the shell lines that restore a previous value, or nothing if it sets none.

        Args:
            before: The former value; ``None`` if it had none.
        """
        del before
        return ()

    # -- what it did, and what may follow -------------------------------------------------------

    def resolve(self, earlier: Iterable[tuple[Step, Executed]]) -> Step:
        """Return the step as it is executed, with the observations of earlier steps.

        Args:
            earlier: Steps before it with what the journal has about each, the latest first.
        """
        del earlier
        return self

    def has_taken_effect(self, done: Executed) -> bool:
        """Return whether something of it is in effect, so that it could be undone."""
        return done.state == "DONE"

    def flags_of(self, code: str) -> ResultFlags:
        """Return the meaning of a result code, or of a finding code about it.

        Args:
            code: Code of a result, a refusal or a finding.
        """
        return self.result_flags.get(code, ResultFlags())

    def fails_waits(self, code: str) -> bool:
        """Return whether later waits are useless if it was not done.

        Args:
            code: Result code of the step.
        """
        del code
        return False

    def next_move(self, code: str, after: Observation) -> Step | None:
        """Return the step that completes the move of its subject, or ``None`` if it arrived.

        Args:
            code: Result code of the step.
            after: The last observation.
        """
        del code, after
        return None


class StepBase(Step, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of all step kinds; ``kind`` is the tag of its class in a plan file.

    Attributes:
        reason: Why, one sentence; shown and recorded, never interpreted.
    """

    reason: str = ""

    @property
    def kind(self) -> str:
        """Tag of its class."""
        return str(self.__struct_config__.tag)


@dataclass(frozen=True, slots=True)
class Inverse:
    """Inverse of an executed step.

    Attributes:
        step: Undoes it; ``None`` if there is nothing to do, or it cannot be undone.
        finding: Why not: ``info`` where it is not needed, ``warning`` where it is not possible.
        is_compensated: It is not possible because the cluster has made up for the step by itself.
    """

    step: Step | None = None
    finding: Diagnostic | None = None
    is_compensated: bool = False
