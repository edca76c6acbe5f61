"""What a diagnosis answers on the reports of both systems, with the default time."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from frozen_texts import RENEW, assert_frozen_by_test
from report_cluster import REPORTS, Report, all_reports
from report_pegasus import earlier_of_report, pegasus_reports, snapshot_of_report

from core.diagnosis.model import Cause, Diagnosis
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose

_FROZEN = ("problem", "subject", "outlook", "notes", "tried", "refuted", "target_ratio", "causes")


def assert_diagnosis_frozen(name: str, found: Diagnosis) -> None:
    """Compare a diagnosis, apart from its verdict and its time, with the frozen one."""
    assert_answer_frozen(name, {field: getattr(found, field) for field in _FROZEN})


def assert_answer_frozen(name: str, answer: Mapping[str, Any] | Sequence[Any]) -> None:
    """Compare the answer to a report with the frozen one.

    Args:
        name: Of the report: system and name of its file.
        answer: Dataclasses in it become objects.
    """
    plain = msgspec.to_builtins(answer, enc_hook=_plain)
    plain = json.loads(json.dumps(plain), parse_float=lambda digits: float(f"{float(digits):.9g}"))
    text = json.dumps(plain, indent=1, ensure_ascii=False) + "\n"
    renew = f"{RENEW} reports"
    assert_frozen_by_test({REPORTS / "answers": text}, f"{name}.json", renew)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else dict(value)


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
