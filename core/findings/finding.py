"""Findings: what a person should look at, one sentence each, with the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from core.findings.quantity import Quantity

Severity = Literal["error", "warning", "unknown", "info"]
State = Literal["bad", "attention", "unknown", "ok"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "unknown", "info")
"""Worst first. ``unknown``: it could not be judged, so it is not green."""

_OPTIONS: Final = ("PULSAR_MEM=", "PULSAR_EXTRA_OPTS=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """Values that a fix sets.

    Attributes:
        wanted: Dynamic settings to set, ready for a plan; ``None`` resets it to the default.
        lines: Lines for the servers' configuration file, each with a restart of them one by one.
        restart: Whether part of it takes effect only when a server starts.
    """

    wanted: Mapping[str, Any] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    restart: bool = False

    def file(self, servers_file: str) -> str:
        """Return the file of the lines: options of the process have one of their own.

        Args:
            servers_file: The servers' configuration file.
        """
        is_of_process = any(line.startswith(_OPTIONS) for line in self.lines)
        return "conf/pulsar_env.sh" if is_of_process else servers_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Current cost of a problem for clients; 0 for none or unknown.

    Attributes:
        bundles: Bundles (partitions of Pegasus) that clients cannot use, or reach by chance only.
        topics: Topics in them, as far as they were counted.
        connections: Producers and consumers that are refused, wait, or are sent astray.
        unit: What ``bundles`` counts, a singular noun.
    """

    bundles: int = 0
    topics: int = 0
    connections: int = 0
    unit: str = "bundle"

    @property
    def counts(self) -> tuple[tuple[int, str], ...]:
        """Numbers above 0 with their nouns, the largest part first."""
        every = ((self.bundles, self.unit), (self.topics, "topic"))
        return tuple(one for one in (*every, (self.connections, "connection")) if one[0])

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sort key: larger costs more."""
        return self.bundles, self.topics, self.connections


FREE: Final = Cost()
"""It costs clients nothing now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem or note.

    Attributes:
        code: Stable word of the rule's verdict.
        severity: ``error`` hurts now, ``warning`` will, ``unknown`` cannot be judged, ``info`` is
            worth knowing.
        subject_kind: What kind of thing ``subject`` names, a word of the system: ``cluster``,
            ``broker``, ``node``, ``setting``.
        subject: Its name; empty for a cluster.
        title: What is wrong in at most eight words, without numbers and without the subject.
        sentence: One sentence with its numbers.
        measured: What was found, where it is one number or value.
        limit: What ``measured`` should be, or should not pass.
        since: When it began, where the snapshot has that; ``None`` if it does not.
        evidence: The facts behind it, ready for JSON; ``rows`` holds a list when there are several.
        hint: One sentence: what to do; empty when there is nothing to do.
        consequence: What follows from it, a sentence; empty where ``sentence`` has it.
        fix: What ``hint`` sets.
        area: Word of the group of rules it belongs to; :class:`core.findings.verdict.Area` for the
            rules of health.
        keys: The settings concerned.
        servers: Brokers or nodes concerned, where several are; empty: all, or the subject alone.
        assumed: Those of ``keys`` that were not read: the defaults of the release are assumed, so
            the finding is uncertain.
        cost: What it costs clients now; a diagnosis ranks by it what has no effect on balance.
    """

    code: str
    severity: Severity
    subject_kind: str = "cluster"
    subject: str = ""
    title: str
    sentence: str
    measured: Quantity | None = None
    limit: Quantity | None = None
    since: datetime | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""
    consequence: str = ""
    fix: Fix = field(default_factory=Fix)
    area: str = ""
    keys: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    cost: Cost = FREE

    @property
    def text(self) -> str:
        """The sentence and the consequence."""
        return f"{self.sentence} {self.consequence}".rstrip()

    @property
    def is_rest(self) -> bool:
        """Whether it counts the findings that are not listed; see ``engine.capped``."""
        return "more" in self.evidence


def overall_state(findings: Iterable[Finding]) -> State:
    """Return the worst state: ``ok`` only when nothing is wrong and nothing is unknown."""
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return "bad"
    if "warning" in severities:
        return "attention"
    return "unknown" if "unknown" in severities else "ok"


def count_by_severity(findings: Iterable[Finding]) -> dict[Severity, int]:
    """Return the number of findings per severity, worst first, including zeros."""
    counts: dict[Severity, int] = dict.fromkeys(SEVERITIES, 0)
    for finding in findings:
        counts[finding.severity] += 1
    return counts


def findings_sentence(findings: tuple[Finding, ...]) -> str:
    """Return for example ``2 errors, 3 warnings, 1 unknown``; ``nothing to report`` without any."""
    counts = count_by_severity(findings)
    words = {"error": "error", "warning": "warning", "unknown": "unknown", "info": "note"}
    parts = [
        f"{number} {words[severity]}{'' if number == 1 or severity == 'unknown' else 's'}"
        for severity, number in counts.items()
        if number
    ]
    return ", ".join(parts) if parts else "no findings"
