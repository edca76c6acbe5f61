"""What a diagnosis answers on the reports of both systems, with the default time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from report_cluster import Report, all_reports
from report_pegasus import earlier_of_report, pegasus_reports, snapshot_of_report

from core.diagnosis.model import Cause, Diagnosis
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose


def is_right(report: Report, cause: Cause) -> bool:
    """Return whether a cause names what is established."""
    return bool(
        report.keys.intersection(cause.keys)
        or report.objects.intersection(cause.objects)
        or cause.code in report.facts["expected"].get("codes", ())
    )


def is_harmful(report: Report, cause: Cause) -> bool:
    """Return whether a cause recommends what makes it worse, or what the report forbids."""
    if cause.effect is not None and cause.effect.is_harmful:
        return True
    words = " ".join((cause.hint, *cause.fix.lines, *map(str, cause.fix.wanted)))
    return any(one in words for one in report.facts["expected"].get("never", ()))


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One report with its answer.

    Attributes:
        report: It.
        found: The answer.
        seconds: That it took.
    """

    report: Report
    found: Diagnosis
    seconds: float

    @property
    def first(self) -> str:
        """Code of the first cause; a dash without any."""
        return self.found.causes[0].code if self.found.causes else "-"

    @property
    def rank(self) -> int | None:
        """Of the right cause, from 1; ``None``: it is not named, or there is none to name."""
        ranks = [
            number
            for number, cause in enumerate(self.found.causes, 1)
            if is_right(self.report, cause)
        ]
        return ranks[0] if ranks else None

    @property
    def is_false_alarm(self) -> bool:
        """Whether a control has a cause that its report does not allow."""
        allowed = self.report.facts["expected"].get("findings", ())
        codes = {cause.code for cause in self.found.causes}
        return self.report.is_control and not codes <= set(allowed)

    @property
    def is_false_clear(self) -> bool:
        """Whether an all-clear is given though something is established."""
        return not self.report.is_control and self.found.is_clear

    @property
    def is_harmful(self) -> bool:
        """Whether any cause recommends harm."""
        return any(is_harmful(self.report, cause) for cause in self.found.causes)


def answered(report: Report, system: str, request: DiagnoseRequest | None = None) -> Answered:
    """Diagnose one report."""
    is_pulsar = system == "pulsar"
    snapshot: Any = report.snapshot() if is_pulsar else snapshot_of_report(report)
    earlier = [] if is_pulsar else earlier_of_report(report)
    started = time.perf_counter()
    found = diagnose(snapshot, request, earlier=earlier)
    return Answered(report=report, found=found, seconds=time.perf_counter() - started)


def every_report() -> list[tuple[str, Report]]:
    """Return all reports with the system that each is about."""
    pulsar = [("pulsar", one) for one in all_reports("pulsar")]
    return [*pulsar, *(("pegasus", one) for one in pegasus_reports())]
