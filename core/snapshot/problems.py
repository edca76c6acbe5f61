"""Collecting what was wrong while reading, each thing once and never without bound."""

from __future__ import annotations

from collections import Counter
from typing import Final

from core.snapshot.model import Problem, Severity

MAX_PER_CODE: Final = 100


class ProblemLog:
    """Problems in the order in which they were found.

    The same subject (place and field) is named once; after :data:`MAX_PER_CODE` problems of one
    code the rest are only counted, and the last entry of that code says how many there were.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._listed: list[Problem] = []
        self._count: Counter[str] = Counter()
        self._worst: dict[str, Severity] = {}

    def add(
        self,
        code: str,
        place: str,
        what: str,
        *,
        done: str = "",
        severity: Severity = "warning",
        subject: str = "",
    ) -> None:
        """Note a problem.

        Args:
            code: See :class:`core.snapshot.model.Problem`.
            place: Path or endpoint.
            what: One sentence.
            done: One sentence.
            severity: How bad it is.
            subject: Field within the place; a place and a subject are named once.
        """
        key = (place, subject or what)
        if key in self._seen:
            return
        self._seen.add(key)
        self._count[code] += 1
        if self._count[code] <= MAX_PER_CODE:
            problem = Problem(code=code, place=place, what=what, done=done, severity=severity)
            self._listed.append(problem)
        else:
            self._note_unlisted(code, severity)

    def extend(self, other: ProblemLog) -> None:
        """Note what another log found, those that it only counted included."""
        for each in other._listed:
            self.add(each.code, each.place, each.what, done=each.done, severity=each.severity)
        for code, count in other._count.items():
            if count > MAX_PER_CODE:
                self._count[code] += count - MAX_PER_CODE
                self._note_unlisted(code, other._worst.get(code, "warning"))

    def _note_unlisted(self, code: str, severity: Severity) -> None:
        if severity == "error" or code not in self._worst:
            self._worst[code] = severity

    def __len__(self) -> int:
        return self._count.total()

    def named(self) -> tuple[Problem, ...]:
        """Return all of them, with one more entry for every code that had too many."""
        rest = [
            Problem(
                code=code,
                place="the whole capture",
                what=f"{count - MAX_PER_CODE:,} more problems of this kind.",
                done=f"Only the first {MAX_PER_CODE} are listed.",
                severity=self._worst.get(code, "warning"),
            )
            for code, count in self._count.items()
            if count > MAX_PER_CODE
        ]
        return (*self._listed, *rest)
