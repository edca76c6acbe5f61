"""The trend subjects of all systems."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Final

from core.history.analysis.trends.subject import SystemTrends, TrendSubject
from core.systems import SYSTEMS

TRENDS_OF: Final[dict[str, SystemTrends]] = {
    one.name: resolve_name(one.parts.trends) for one in SYSTEMS if one.parts.trends
}

SUBJECT_OF_KIND: Final[dict[str, TrendSubject]] = {
    subject.kind: subject for one in TRENDS_OF.values() for subject in one.subjects
}


def subjects_of(system: str) -> tuple[TrendSubject, ...]:
    """Return the trend subjects of a system; empty without a declaration."""
    found = TRENDS_OF.get(system)
    return () if found is None else found.subjects
