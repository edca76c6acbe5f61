"""The verdict on a cluster: what is wrong, what was examined, and what could not be.

One verdict a cluster, from one source: pages, commands and alerts show this one. An all-clear is
given only where nothing at warning or above was found, and it names its scope.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from core.findings.finding import Finding, State, findings_sentence, overall_state
from core.findings.starts import Spans, with_starts

PROBLEMS: Final = ("error", "warning")
"""Severities that no all-clear may stand beside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """One part of a cluster that is examined.

    Attributes:
        name: Stable word, also for people: ``load``, ``serving``, ``liveness``.
        unexamined: Why it could not be examined, or not all of it, a clause such as ``not in this
            dump``; blank: it was examined.
    """

    name: str
    unexamined: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Verdict on a cluster.

    Attributes:
        findings: Of every rule, the worst first.
        areas: Every area of the system, examined or not.
    """

    findings: tuple[Finding, ...]
    areas: tuple[Area, ...]

    @property
    def state(self) -> State:
        """The worst state; an area that could not be examined is unknown, never green."""
        found = overall_state(self.findings)
        return "unknown" if found == "ok" and any(one.unexamined for one in self.areas) else found

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings at warning or above."""
        return tuple(one for one in self.findings if one.severity in PROBLEMS)

    def dated(self, spans: Spans | None, moment: datetime) -> Verdict:
        """Return the verdict with the time since when each finding holds.

        Args:
            spans: Stored spans of the cluster's findings, if any.
            moment: Time of the snapshot.
        """
        return replace(self, findings=with_starts(self.findings, spans, moment))

    @property
    def is_clear(self) -> bool:
        """Whether the examined areas have no finding at warning or above."""
        return not self.problems

    def elsewhere(self, areas: Collection[str]) -> str:
        """Return the open findings outside of some areas, one sentence, or "".

        Args:
            areas: Those that a page or command is about: it gives no all-clear for the others.
        """
        others = tuple(one for one in self.problems if one.area not in areas)
        if not others:
            return ""
        named = ", ".join(dict.fromkeys(one.area for one in others))
        return f"Elsewhere in this cluster: {findings_sentence(others)} ({named})."

    @property
    def unexamined(self) -> tuple[Area, ...]:
        """The areas that could not be examined, or not all of them."""
        return tuple(one for one in self.areas if one.unexamined)

    @property
    def sentence(self) -> str:
        """Result and scope of the examination."""
        return f"{self.headline} {self.scope}"

    @property
    def headline(self) -> str:
        """Result of the examination."""
        return "No problem found." if self.is_clear else f"{findings_sentence(self.findings)}."

    @property
    def scope(self) -> str:
        """Examined and unexamined areas, with the reasons."""
        seen = ", ".join(one.name for one in self.areas if not one.unexamined)
        lacks = [f"{one.name} ({one.unexamined})" for one in self.areas if one.unexamined]
        missed = "; ".join(lacks)
        parts = (f"Examined: {seen}." if seen else "Nothing was examined.",)
        return " ".join((*parts, f"Not examined: {missed}.") if missed else parts)
