"""Setting or removing a policy: one step of a plan on a Pulsar cluster.

It counts as done when the cluster, asked again, tells it as it was wanted.
"""

from __future__ import annotations

from typing import Protocol

from core.actions.model import Ending, Observation, Refusal
from core.plan.policy_kinds import policy_kind
from core.plan.steps import SetPolicy
from core.plan.words import NOT_THERE


class PolicyStore(Protocol):
    """Where policies are kept."""

    def policy(self, step: SetPolicy) -> str | None:
        """Return the policy that a step is about, as it is now; ``None``: it is not set."""
        ...

    def send_policy(self, step: SetPolicy) -> None:
        """Ask for it to be set or removed, once."""
        ...


class PolicyAction:
    """One change of a policy.

    Args:
        step: What to do.
        store: The cluster's policies.
    """

    def __init__(self, step: SetPolicy, store: PolicyStore) -> None:
        self._step = step
        self._store = store
        self._kind = policy_kind(step.policy)

    @property
    def patience_s(self) -> float:
        """The run's own."""
        return 0.0

    def look(self) -> Observation:
        """Read what is set now."""
        return Observation(exists=True, value=self._store.policy(self._step))

    def forbids(self, seen: Observation) -> Refusal | None:
        """Return why it may not be changed as planned."""
        step = self._step
        if self._is_wanted(seen.value):
            return Refusal(
                code="already_set",
                sentence=f"The {step.subject} is {_text(seen.value)} already.",
                hint="Nothing has to be done.",
            )
        if self._kind.is_same(seen.value, step.before):
            return None
        return Refusal(
            code="changed_meanwhile",
            sentence=f"The {step.subject} is {_text(seen.value)}; it was {_text(step.before)} when "
            "the plan was made.",
            hint="Take a fresh snapshot and plan anew.",
        )

    def send(self) -> None:
        """Ask for the change, once."""
        self._store.send_policy(self._step)

    def ending(self, before: Observation, now: Observation) -> Ending | None:
        """Return that it is as wanted, ``None`` while it is not."""
        if not self._is_wanted(now.value):
            return None
        step = self._step
        was = _text(before.value)
        sentence = (
            f"The {step.subject}, {was}, was removed."
            if step.value is None
            else f"The {step.subject} was set to {step.value}, it was {was}."
        )
        return Ending(state="DONE", code="set", sentence=sentence, after=now)

    def ending_at_last(self, before: Observation, now: Observation) -> Ending:
        """Return what is to be said when the change was not seen in time."""
        if (done := self.ending(before, now)) is not None:
            return done
        step = self._step
        is_as_before = self._kind.is_same(now.value, before.value)
        others = "" if is_as_before else " Somebody else changed it since the step began."
        return Ending(
            state="FAILED",
            code="not_done" if is_as_before else "changed_by_others",
            sentence=f"The {step.subject} is {_text(now.value)}, not {_text(step.value)}.{others}",
            hint="Look into the log of the brokers, then plan anew.",
            after=now,
        )

    def _is_wanted(self, value: str | None) -> bool:
        return self._kind.is_same(value, self._step.value)


def _text(value: str | None) -> str:
    return NOT_THERE if value is None else value
