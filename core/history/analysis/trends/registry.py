"""The systems that have trends: the one list of them."""

from __future__ import annotations

from typing import Final

from core.history.analysis.trends.pegasus import PEGASUS_TRENDS
from core.history.analysis.trends.pulsar import PULSAR_TRENDS
from core.history.analysis.trends.subject import SystemTrends, TrendSubject

TRENDS_OF: Final[dict[str, SystemTrends]] = {
    one.system: one for one in (PULSAR_TRENDS, PEGASUS_TRENDS)
}

SUBJECT_OF_KIND: Final[dict[str, TrendSubject]] = {
    subject.kind: subject for one in TRENDS_OF.values() for subject in one.subjects
}


def subjects_of(system: str) -> tuple[TrendSubject, ...]:
    """Return the trend subjects of a system; empty without a declaration."""
    found = TRENDS_OF.get(system)
    return () if found is None else found.subjects
