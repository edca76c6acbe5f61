"""Setting a policy: what is observed, sent and judged.

The other half is :mod:`core.pulsar.steps.policy`.

It counts as done when the cluster then reports it as requested.
"""

from __future__ import annotations

from typing import Protocol

from core.actions.compare_and_set import CompareAndSet
from core.actions.model import Observation, Refusal, StepResult
from core.pulsar.policy_kinds import PolicyChange, policy_kind
from core.pulsar.steps.base import AdminRequest
from core.pulsar.steps.policy import NOT_THERE, SetPolicy


class PolicyPort(Protocol):
    """Its cluster interface."""

    def policy(self, change: PolicyChange) -> str | None:
        """Return the current policy, or ``None`` if not set."""
        ...

    def send_to_any(self, request: AdminRequest) -> None:
        """Send a request to one broker, once."""
        ...


class PolicyAction:
    """One change of a policy.

    Args:
        step: What to do.
        cluster: Where.
    """

    def __init__(self, step: SetPolicy, cluster: PolicyPort) -> None:
        self._step = step
        self._cluster = cluster
        is_same = policy_kind(step.policy).is_same
        self._rule = CompareAndSet(f"The {step.subject}", step.before, step.value, is_same, _text)

    @property
    def timeout_s(self) -> float:
        """The run's own."""
        return 0.0

    def look(self) -> Observation:
        """Read what is set now."""
        return Observation(exists=True, value=self._cluster.policy(self._step.policy_change))

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return the reason it cannot be changed as planned."""
        return self._rule.check(seen.value)

    def send(self) -> None:
        """Request the change, once."""
        self._cluster.send_to_any(self._step.request())

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        """Return the success, or ``None`` while it is not as requested."""
        step = self._step
        if not self._rule.is_same(now.value, step.value):
            return None
        was = _text(before.value)
        sentence = (
            f"The {step.subject}, {was}, was removed."
            if step.value is None
            else f"The {step.subject} was set to {step.value} (was {was})."
        )
        return StepResult(state="DONE", code="set", sentence=sentence, after=now)

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the result when the change was not seen in time."""
        if (done := self.result(before, now)) is not None:
            return done
        return self._rule.failed(
            before,
            now,
            hint="Check the log of the brokers, then plan again.",
            others=" It was changed externally after the step began.",
        )


def _text(value: str | None) -> str:
    return NOT_THERE if value is None else value
