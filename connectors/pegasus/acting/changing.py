"""Setting the level, and settings of servers: steps whose effect is read back at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from connectors.pegasus.acting.settings import DEFAULT, ServerSettings, is_same
from connectors.pegasus.acting.sight import Eyes
from core.actions.model import Ending, Observation, Refusal
from core.actions.values import by_server
from core.errors import InputError
from core.pegasus.levels import clears_proposals, parse_level
from core.pegasus.server_settings import BLACK_LIST, LIVE_PERCENTAGE, changeable, dangers
from core.pegasus.snapshot import PegasusFacts
from core.plan.pegasus_steps import LEVEL_KEY, SetMetaLevel, SetServerSetting

_PLAN_ANEW: Final = "Take a fresh snapshot and plan anew."
_UNTOLD: Final = "unknown"
_RISKY: Final = frozenset(
    {"balance_cluster", BLACK_LIST, LIVE_PERCENTAGE, "min_live_node_count_for_unfreeze"}
)
Facts = Callable[[], PegasusFacts]


class SettingAction:
    """One change of a setting of servers.

    Args:
        step: What to do.
        settings: Of the cluster.
        facts: Reads the cluster, for values that would do harm to it as it is now.
    """

    patience_s = 0.0

    def __init__(self, step: SetServerSetting, settings: ServerSettings, facts: Facts) -> None:
        self._step = step
        self._settings = settings
        self._facts = facts
        self._is_answered = False

    def look(self) -> Observation:
        """Read the value."""
        return Observation(exists=True, value=self._settings.value(self._step.subject))

    def forbids(self, seen: Observation) -> Refusal | None:
        """Return why it may not be changed as planned."""
        step = self._step
        if is_same(step.subject, seen.value, step.value):
            sentence = f"{step.subject} is {_shown(seen.value)} already."
            return Refusal(code="already_set", sentence=sentence, hint="Nothing has to be done.")
        if step.before is None or is_same(step.subject, seen.value, step.before):
            return self._harm()
        return Refusal(
            code="changed_meanwhile",
            sentence=f"{step.subject} is {_shown(seen.value)}; it was {_shown(step.before)} when "
            "the plan was made.",
            hint=_PLAN_ANEW,
        )

    def _harm(self) -> Refusal | None:
        """Return what the value would do to the cluster as it is now."""
        step = self._step
        if step.key not in _RISKY:
            return None
        found = dangers(changeable(step.key), step.value, self._facts())
        refused = next((one for one in found if one.weight == "refused"), None)
        if refused is None:
            return None
        return Refusal(code=refused.code, sentence=refused.sentence, hint=refused.hint)

    def send(self) -> None:
        """Ask for the change, each server once."""
        self._settings.set_value(self._step.subject, self._step.value)
        self._is_answered = True

    def ending(self, before: Observation, now: Observation) -> Ending | None:
        """Return that it is set, ``None`` while it is not."""
        step = self._step
        is_default = step.value == DEFAULT and self._is_answered
        if not is_default and not is_same(step.subject, now.value, step.value):
            return None
        return Ending(
            state="DONE",
            code="set",
            sentence=f"{step.subject} was set to {_shown(now.value)}; it was "
            f"{_shown(before.value)}.",
            hint="It is forgotten when its server restarts.",
            after=now,
        )

    def ending_at_last(self, before: Observation, now: Observation) -> Ending:
        """Return what is to be said when it does not read as asked."""
        step = self._step
        found = self.ending(before, now)
        if found is not None:
            return found
        if now.value is None:
            return Ending(
                state="UNKNOWN",
                code="timed_out",
                sentence=f"Whether {step.subject} was set is unknown: nobody tells its value.",
                hint="It is settled by looking.",
                after=now,
            )
        is_as_before = is_same(step.subject, now.value, before.value)
        told = f"{step.subject} is {_shown(now.value)}, not {_shown(step.value)}."
        code = "not_done" if is_as_before else "changed_by_others"
        each = by_server(now.value) or {}
        behind = [node for node, text in each.items() if not is_same(step.key, text, step.value)]
        if 0 < len(behind) < len(each) and not is_as_before:
            code, total = "partly", len(each)
            told = f"{step.subject} was set on {total - len(behind)} of {total} nodes, not on "
            told += ", ".join(f"{node} ({each[node]})" for node in behind) + "."
        return Ending(
            state="FAILED",
            code=code,
            sentence=told,
            hint="Look into the log of that server, then plan anew.",
            after=now,
        )


class LevelAction:
    """One change of the function level.

    Args:
        step: What to do.
        settings: Of the cluster.
        eyes: Look at the level in force.
    """

    patience_s = 0.0

    def __init__(self, step: SetMetaLevel, settings: ServerSettings, eyes: Eyes) -> None:
        self._step = step
        self._settings = settings
        self._eyes = eyes
        self._is_answered = False

    def look(self) -> Observation:
        """Read the stored level."""
        return Observation(exists=True, value=self._settings.value(LEVEL_KEY))

    def forbids(self, seen: Observation) -> Refusal | None:
        """Return why it may not be set as planned."""
        step = self._step
        try:
            parse_level(step.level)
        except InputError as exc:  # the meta server would store it, and die of it later
            return Refusal(code="unknown_level", sentence=exc.message, hint=exc.hint)
        if seen.value == step.level != step.before:  # else it is meant to clear what is pending
            sentence = f"The meta level is {step.level} already."
            return Refusal(code="already_set", sentence=sentence, hint="Nothing has to be done.")
        if seen.value == step.before:
            return None
        return Refusal(
            code="changed_meanwhile",
            sentence=f"The meta level is {seen.value}; it was {step.before} when the plan was "
            "made.",
            hint=_PLAN_ANEW,
        )

    def send(self) -> None:
        """Set it, once."""
        self._settings.set_value(LEVEL_KEY, self._step.level)
        self._is_answered = True

    def _cannot_tell(self, before: Observation) -> bool:
        """Whether the level says nothing of the request: it is to clear what is pending."""
        is_same_level = before.value == self._step.level
        return is_same_level and _clears(self._step.level) and not self._is_answered

    def ending(self, before: Observation, now: Observation) -> Ending | None:
        """Return that it is set, ``None`` while it is not."""
        step = self._step
        if now.value != step.level or self._cannot_tell(before):
            return None
        in_force = self._eyes.cluster().level
        lower = (
            "" if in_force.word == step.level else f" In force is {in_force.word}: too few nodes."
        )
        cleared = " What was pending is thrown away." if _clears(step.level) else ""
        return Ending(
            state="DONE",
            code="set",
            sentence=f"The meta level was set to {step.level}; it was "
            f"{before.value or step.before}.{cleared}{lower}",
            hint="It is steady again when another meta server takes over.",
            after=now,
        )

    def ending_at_last(self, before: Observation, now: Observation) -> Ending:
        """Return what is to be said when it does not read as asked."""
        found = self.ending(before, now)
        if found is not None:
            return found
        if now.value == self._step.level:
            return Ending(
                state="FAILED",
                code="not_done",
                sentence=f"The meta level is {now.value} as before; nobody saw the request that was"
                " to throw away what is pending being answered.",
                hint=_PLAN_ANEW,
                after=now,
            )
        is_as_before = now.value == before.value
        return Ending(
            state="FAILED",
            code="not_done" if is_as_before else "changed_by_others",
            sentence=f"The meta level is {now.value}, not {self._step.level}.",
            hint=_PLAN_ANEW,
            after=now,
        )


def _clears(level: str) -> bool:
    return clears_proposals(parse_level(level))


def _shown(value: str | None) -> str:
    return _UNTOLD if value is None else value or "empty"
