"""Steps that change policies, in the words of the forms and not as the documents that are sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.pulsar.policy_kinds import PolicyChange
from core.pulsar.steps.base import policy_change_of
from core.pulsar.steps.policy import NOT_THERE
from dashboard.presenters.pulsar.policy_edits import describe_fields, difference, is_no_change

if TYPE_CHECKING:
    from core.actions.views import StepView
    from core.step import Step


@dataclass(frozen=True, slots=True)
class PolicyText:
    """The texts of one change of a policy.

    Attributes:
        change: The change.
    """

    change: PolicyChange

    def requested(self) -> str:
        """Return the requested change: ``Set Msg/s, each topic: 5,000``, or ``Remove``."""
        value = self.change.value
        return "Remove" if value is None else f"Set {describe_fields(self.change.policy, value)}"

    def value(self, value: str | None) -> str:
        """Return the fields of a value that say something; ``not set``: it has none."""
        return NOT_THERE if value is None else describe_fields(self.change.policy, value)

    def before(self, view: StepView) -> str:
        """Return the value before the step."""
        return self.value(self._before(view))

    def changed(self, view: StepView) -> str:
        """Return the fields that changed, as read before and after."""
        result = view.result
        if result is None or result.after is None or result.state != "DONE":
            return ""
        seen = replace(self.change, before=self._before(view), value=result.after.value)
        rows = difference((seen,)).to_dict("records")
        values = "; ".join(
            f"{row['field'].partition(' (')[0]} {row['now']} → {row['then']}"
            for row in rows
            if not is_no_change(row)
        )
        return f"Verified: {values}." if values else ""

    def _before(self, view: StepView) -> str | None:
        return self.change.before if view.before is None else view.before.value


def step_text(step: Step) -> PolicyText | None:
    """Return the texts of a step that changes a policy; ``None``: it changes none."""
    change = policy_change_of(step)
    return None if change is None else PolicyText(change)
