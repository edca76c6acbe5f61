"""What the diagnosis answers on every public report, in the default time.

    .venv/bin/python bench/reports.py [--seconds 60] [--only serving] [NAME ...]

Prints one line a report: input, first cause, rank of the right one, seconds, state of the verdict;
then the dumps and snapshots that no report names, and the goals: right first 90 %, in the first
three 100 %, controls with a cause 0, harmful 0, false all-clears 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from report_answers import Answered, answered, every_report
from report_cluster import DUMPS, Report

from core.diagnosis.request import DiagnoseRequest

FIRST_THREE = 3


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--seconds", type=float, default=0.0)
    arguments.add_argument("--only", default="", help="part of the input's name, such as serving")
    options = arguments.parse_args()
    request = DiagnoseRequest(seconds=options.seconds)
    done: list[Answered] = []
    print(f"{'report':40} {'input':22} {'first cause':30} rank {'s':>6}  state      untried")
    for system, report in every_report():
        if options.names and report.name not in options.names:
            continue
        if options.only not in _input(report):
            continue
        one = answered(report, system, request)
        done.append(one)
        print(_line(system, one), flush=True)
    if not options.names:
        for name in _unnamed():
            print(f"{'no report names it':40} {name}")
    _goals(done)


def _input(report: Report) -> str:
    return str(report.facts.get("dump") or report.facts.get("saved") or "built")


def _line(system: str, one: Answered) -> str:
    report, found = one.report, one.found
    rank = "ctrl" if report.is_control else str(one.rank or "-")
    state = "load only" if found.verdict is None else found.verdict.state
    marks = [
        word
        for word, holds in (
            ("FALSE ALARM", one.is_false_alarm),
            ("FALSE ALL-CLEAR", one.is_false_clear),
            ("HARMFUL", one.is_harmful),
        )
        if holds
    ]
    return (
        f"{f'{system}/{report.name}':40} {_input(report):22} {one.first:30} {rank:>4} "
        f"{one.seconds:6.1f}  {state:10} {found.progress} {' '.join(marks)}"
    ).rstrip()


def _unnamed() -> Iterator[str]:
    """Yield dumps and snapshots of the reports about serving that no report names."""
    named = {Path(_input(report)).name for _, report in every_report()}
    for path in sorted((DUMPS / "serving").iterdir()):
        if path.suffix != ".md" and path.name not in named:
            yield f"serving/{path.name}"


def _goals(done: Sequence[Answered]) -> None:
    cases = [one for one in done if not one.report.is_control]
    known = [one for one in cases if "missed" not in one.report.facts["expected"]]
    first = sum(one.rank == 1 for one in cases)
    three = sum((one.rank or FIRST_THREE + 1) <= FIRST_THREE for one in cases)
    print(f"right first: {first} of {len(cases)} ({_percent(first, len(cases))}; goal 90 %)")
    print(f"in first three: {three} of {len(cases)} ({_percent(three, len(cases))}; goal 100 %)")
    print(f"known to be missed: {len(cases) - len(known)}")
    controls = len(done) - len(cases)
    print(f"controls with a cause: {sum(one.is_false_alarm for one in done)} of {controls}; goal 0")
    print(f"harmful: {sum(one.is_harmful for one in done)}; goal 0")
    print(f"false all-clears: {sum(one.is_false_clear for one in done)}; goal 0")
    print(f"seconds: {sum(one.seconds for one in done):.0f} in all")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "none"


if __name__ == "__main__":
    main()
