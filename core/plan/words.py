"""The steps of plans in words: the one place that knows how to speak of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from core.plan.pegasus_words import (
    PEGASUS_KINDS,
    describe_pegasus,
    doing_pegasus,
    would_pegasus,
)
from core.plan.steps import SetDynamicSetting, SetPolicy, SplitBundle, Step, UnloadBundle
from core.pulsar.presets import upstream_words
from core.pulsar.settings import SETTING_BY_KEY
from core.units import counted, format_ratio

NOT_SET: Final = "not set dynamically"
"""What is said of a setting that has no dynamic value."""

NOT_THERE: Final = "not set"
"""What is said of a policy that there is not."""

_KINDS: Final = {
    "unload_bundle": ("unload", "bundle", "moved"),
    "split_bundle": ("split", "bundle", "split"),
    "set_dynamic_setting": ("change", "setting", "changed"),
    "set_policy": ("change", "policy", "changed"),
    **PEGASUS_KINDS,
}
"""By kind: verb, what it is done to, and the participle of having done it."""


_MANY_STEPS: Final = frozenset({"node", "state"})
"""What several steps of one plan may be about."""


def describe(step: Step) -> str:
    """Return what a step does, as an order: ``Unload acme/x/0x0_0x4 from b1, to b2``."""
    match step:
        case UnloadBundle():
            towards = f", to {step.destination}" if step.destination else ""
            return f"Unload {step.bundle} from {step.owner}{towards}"
        case SplitBundle():
            after = " and unload the parts" if step.is_unloaded else ""
            return f"Split {step.bundle} on {step.owner} {_where(step)}{after}"
        case SetDynamicSetting():
            return _setting_order(step)
        case SetPolicy():
            return _policy_order(step)
        case _:
            return describe_pegasus(step)


def doing(step: Step) -> str:
    """Return the same as something under way: ``Unloading acme/x/0x0_0x4 from b1``."""
    match step:
        case UnloadBundle():
            return f"Unloading {step.bundle} from {step.owner}"
        case SplitBundle():
            return f"Splitting {step.bundle} on {step.owner}"
        case SetDynamicSetting():
            if step.value is None:
                return f"Taking the dynamic value {step.before} of {step.key} away"
            return f"Setting {step.key} to {step.value}"
        case SetPolicy():
            return f"{'Removing' if step.value is None else 'Setting'} the {step.subject}"
        case _:
            return doing_pegasus(step)


def whether(step: Step) -> str:
    """Return the question about a step's outcome: ``whether acme/x/0x0_0x4 moved``."""
    return f"whether {step.subject} {'was ' * (step.kind != 'unload_bundle')}{_KINDS[step.kind][2]}"


def would(step: Step, holder: str | None = None) -> str:
    """Return what would be asked of the cluster, as a whole sentence.

    Args:
        step: The step.
        holder: Who has its subject now; ``None``: as planned.
    """
    where = holder or step.owner
    match step:
        case UnloadBundle():
            asked = f", {step.destination} asked for" if step.destination else ""
            foreseen = ", ".join(
                f"{broker} ({format_ratio(step.foreseen[broker])})" for broker in step.likely[:3]
            )
            ends = f"; foreseen on {foreseen}" if foreseen else ""
            return f"{step.bundle} would be unloaded from {where}{asked}{ends}."
        case SplitBundle():
            after = ", and its parts unloaded" if step.is_unloaded else ""
            return f"{step.bundle} would be split on {where} {_where(step)}{after}."
        case SetDynamicSetting():
            return _setting_wish(step)
        case SetPolicy():
            return _policy_wish(step)
        case _:
            return would_pegasus(step)


def tally(steps: Iterable[Step]) -> str:
    """Return ``unload 2 bundles, split 1 bundle``; ``do nothing`` without steps."""
    # one node is emptied in several steps
    told = {
        (step.kind, step.subject if step.kind == "propose_many" else str(at))
        for at, step in enumerate(steps)
    }
    counts = Counter(kind for kind, _ in told)
    parts = [
        f"{verb} {counted(counts[kind], thing)}"
        for kind, (verb, thing, _) in _KINDS.items()
        if counts[kind]
    ]
    return ", ".join(parts) or "do nothing"


def things(steps: Iterable[Step]) -> str:
    """Return what steps are about, counted: ``2 bundles``, ``1 bundle and 1 setting``.

    Several steps may be about one node: they are counted as steps.
    """
    asked = tuple(steps)
    counts = Counter(_KINDS[step.kind][1] for step in asked)
    if len(asked) > 1 and counts.keys() & _MANY_STEPS:
        return counted(len(asked), "step")
    parts = [counted(number, thing) for thing, number in sorted(counts.items())]
    return " and ".join(parts) or "nothing"


def things_done(steps: Iterable[Step]) -> str:
    """Return the same with its participle; of different kinds ``5 steps done``."""
    asked = tuple(steps)
    told = things(asked)
    if len({step.kind for step in asked}) > 1 or told.endswith(("step", "steps")):
        return f"{counted(len(asked), 'step')} done"
    return f"{told} {done(asked)}"


def done(steps: Iterable[Step]) -> str:
    """Return the participle that fits all steps: ``moved``, ``split``, ``changed``, ``done``."""
    kinds = {step.kind for step in steps}
    return _KINDS[kinds.pop()][2] if len(kinds) == 1 else "done"


def _where(step: SplitBundle) -> str:
    if not step.boundaries:
        return f"by {step.algorithm}"
    return "at " + ", ".join(f"0x{bound:08x}" for bound in step.boundaries)


def _setting_order(step: SetDynamicSetting) -> str:
    if step.value is None:
        return f"Take {step.key} away, which is {step.before} dynamically"
    return f"Set {step.key} to {step.value} ({_was(step)})"


def _setting_wish(step: SetDynamicSetting) -> str:
    if step.value is None:
        return f"The dynamic value {step.before} of {step.key} would be taken away."
    return f"{step.key} would be set to {step.value} ({_was(step)})."


def _policy_order(step: SetPolicy) -> str:
    if step.value is None:
        return f"Remove the {step.subject}, which is {step.before}"
    return f"Set the {step.subject} to {step.value} ({_policy_was(step)})"


def _policy_wish(step: SetPolicy) -> str:
    if step.value is None:
        return f"The {step.subject}, {step.before}, would be removed."
    return f"The {step.subject} would be set to {step.value} ({_policy_was(step)})."


def _policy_was(step: SetPolicy) -> str:
    return f"until now {NOT_THERE if step.before is None else step.before}"


def _was(step: SetDynamicSetting) -> str:
    """What the setting was when the plan was made; a plan does not know the brokers' files."""
    if step.before is not None:
        return f"until now {step.before}"
    setting = SETTING_BY_KEY.get(step.key)
    if setting is None or setting.default in (None, "", ()):
        return f"until now {NOT_SET}"
    released = upstream_words(setting.default)
    return f"until now {NOT_SET}; {released} unless the brokers' own file says otherwise"
