"""Causes of uneven load, each proven by simulation, with its fix."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypedDict

import msgspec
import pyarrow as pa

from core.diagnosis.model import Cause, Diagnosis, Effect
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import diagnose, first_about, system_of
from core.findings.finding import Fix
from core.findings.json import scope_json
from core.operations.diagnose.tables import CAUSES, DIAGNOSES
from core.operations.operation import (
    Answer,
    CountedSummary,
    Job,
    Line,
    Operation,
    Prose,
    Tables,
)
from core.progress import Progress
from core.snapshot.model import Manifest
from core.units import format_ratio, pluralize


class CostJson(TypedDict):
    """What clients lose now: 0 for nothing or unknown."""

    bundles: int
    topics: int
    connections: int


class FixJson(TypedDict):
    """A fix.

    Attributes:
        sentence: What to do.
        present: Active values of the settings that a proven fix changes.
        dynamic: Dynamic settings to set; null: reset to the default.
        broker_conf: Lines of the servers' configuration file.
        restart: Whether a part of it takes effect only when a server starts.
        command: The commands that make a plan of it; null: there is none.
    """

    sentence: str
    present: dict[str, Any]
    dynamic: dict[str, Any]
    broker_conf: list[str]
    restart: bool
    command: str | None


class CauseJson(TypedDict):
    """A cause.

    Attributes:
        code: Stable word of the pattern.
        keys: Settings concerned, the deciding one first.
        objects: Brokers, bundles, nodes, partitions or policies concerned.
        summary: The cause in one sentence.
        measured: The value that decides, in ``unit``; null if no number does.
        threshold: What it is compared with.
        unit: Of both.
        effect: Simulated result without and with the fix; null for a fact.
        severity: Of a fact, or of the findings that the cause explains.
        cost: What clients lose now.
        fix: The fix.
    """

    code: str
    keys: list[str]
    objects: list[str]
    summary: str
    measured: float | None
    threshold: float | None
    unit: str
    effect: dict[str, Any] | None
    severity: str
    cost: CostJson
    fix: FixJson


class DiagnosisJson(TypedDict):
    """The JSON of the answer.

    Attributes:
        cluster: Name of the cluster.
        snapshot_id: Id of the snapshot.
        taken_at: Time of the snapshot.
        answer: Problem and progress of the search.
        subject: The verdict on the broker, bundle or node in question; null: on the cluster.
        causes: The first to act on first.
        scope: The areas that were examined, and the others with the reason.
        tried: Changes that were simulated to the end.
        untried: Changes that the time did not allow.
        untried_pairs: Pairs of changes that the time did not allow.
        cut_short: Of these, changes that were begun.
        notes: What was assumed, and what could not be judged.
    """

    cluster: str
    snapshot_id: str
    taken_at: str
    answer: str
    subject: str | None
    causes: list[CauseJson]
    scope: list[dict[str, Any]]
    tried: int
    untried: int
    untried_pairs: int
    cut_short: int
    notes: list[str]


@dataclass(frozen=True, eq=False)
class ClusterDiagnosis(Answer):
    """The answer.

    Attributes:
        snapshot_id: Snapshot that it was read from.
        manifest: Of the snapshot.
        diagnosis: Causes, best first.
        deviation: Max deviation of the snapshot from the mean, share of it; ``None``: unknown.
        took_ms: Time that the search took.
        more: Further words of its command lines, such as the configuration.
    """

    snapshot_id: str
    manifest: Manifest
    diagnosis: Diagnosis
    deviation: float | None = None
    took_ms: float = 0.0
    more: str = ""

    def with_words(self, more: str) -> Self:
        """Return the answer with further words of its command lines."""
        return replace(self, more=more)

    def body(self) -> DiagnosisJson:
        """Return the JSON object."""
        found, manifest = self.diagnosis, self.manifest
        return {
            "cluster": manifest.cluster,
            "snapshot_id": self.snapshot_id,
            "taken_at": manifest.taken_at.isoformat(),
            "answer": self.answer,
            "subject": found.subject or None,
            "causes": [self._cause(one) for one in found.by_effect],
            "scope": [] if found.verdict is None else scope_json(found.verdict),
            "tried": found.tried,
            "untried": found.untried,
            "untried_pairs": found.untried_pairs,
            "cut_short": found.cut_short,
            "notes": list(found.notes),
        }

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables of a job."""
        found = self.diagnosis
        row = {
            "answer": found.answer,
            "causes": len(found.causes),
            "tried": found.tried,
            "untried": found.untried + found.untried_pairs,
            "notes": " ".join(found.notes),
            "took_ms": self.took_ms,
        }
        rows = [_row(rank, self._cause(one)) for rank, one in enumerate(found.by_effect, 1)]
        return {
            "diagnoses": pa.Table.from_pylist([row], schema=DIAGNOSES),
            "causes": pa.Table.from_pylist(rows, schema=CAUSES),
        }

    @property
    def answer(self) -> str:
        """The answer, with the option that continues a search that is not complete."""
        found = self.diagnosis
        if found.is_complete:
            return found.answer
        return f"{found.answer} Continue with --seconds {found.continue_seconds:g}."

    def command(self, fix: Fix) -> str:
        """Return the commands that make a plan of a fix, one a line; empty: there is none."""
        manifest = self.manifest
        return system_of(manifest.kind).fix_command(fix, manifest.cluster, self.more)

    def text(self, _: DiagnoseRequest) -> Iterator[Line]:
        """Return the text for people."""
        found = self.diagnosis
        yield self.answer
        if found.subject:
            yield found.subject
        for number, cause in enumerate(found.by_effect, 1):
            yield Prose(f"{number}. {cause.summary}")
            for line in _consequence(cause):
                yield Prose(f"   {line}")
            for line in fix_lines("Fix", cause.fix, self.command(cause.fix), cause.hint):
                yield f"   {line}"
        if found.causes and found.tried:  # facts need no simulation
            yield f"{pluralize(found.tried, 'change')} simulated."
        yield from map(Prose, found.notes)

    def _cause(self, cause: Cause) -> CauseJson:
        return {
            "code": cause.code,
            "keys": list(cause.keys),
            "objects": list(cause.objects),
            "summary": cause.summary,
            "measured": cause.measured,
            "threshold": cause.threshold,
            "unit": cause.unit,
            "effect": None if cause.effect is None else cause.effect.as_json(),
            "severity": cause.severity,
            "cost": {
                "bundles": cause.cost.bundles,
                "topics": cause.cost.topics,
                "connections": cause.cost.connections,
            },
            "fix": {
                "sentence": cause.hint,
                "present": dict(cause.present),
                "dynamic": dict(cause.fix.wanted),
                "broker_conf": list(cause.fix.lines),
                "restart": cause.fix.restart,
                "command": self.command(cause.fix) or None,
            },
        }


def _row(rank: int, cause: CauseJson) -> dict[str, Any]:
    """Return the row of a cause in :data:`CAUSES`."""
    fix = cause["fix"]
    return {
        **(cause["effect"] or {}),
        "rank": rank,
        "code": cause["code"],
        "summary": cause["summary"],
        "keys": ", ".join(cause["keys"]),
        "objects": ", ".join(cause["objects"]),
        "hint": fix["sentence"],
        "fix": "\n".join(fix["broker_conf"]) or msgspec.json.encode(fix["dynamic"]).decode(),
    }


def fix_lines(title: str, fix: Fix, command: str, hint: str = "") -> Sequence[str]:
    """Return a fix, each command and setting on a line of its own: they are copied."""
    ways = [*command.splitlines(), *(f"{fix.file('broker.conf')}: {line}" for line in fix.lines)]
    restart = "then a rolling restart"
    if not ways:
        return [f"{title}: {hint}{f', {restart}' if fix.restart else ''}"]
    return [f"{title}:", *(f"  {way}" for way in ways), *([f"  {restart}"] * fix.restart)]


def _consequence(cause: Cause) -> list[str]:
    """Return the effect of a fix, or the known cost of a fact to clients."""
    if cause.effect is not None:
        return [_effect_words(cause.effect)]
    parts = [pluralize(count, noun) for count, noun in cause.cost.counts]
    return [f"Affected: {', '.join(parts)}."] if parts else []


def _effect_words(effect: Effect) -> str:
    before, after = effect.before, effect.after
    parts = [
        f"deviation {format_ratio(before.deviation)} -> {format_ratio(after.deviation)}",
        f"moves {before.moves:,} -> {after.moves:,}",
    ]
    if before.missing or after.missing:
        parts.insert(0, f"unhealthy {before.missing:,} -> {after.missing:,}")
    if before.returned or after.returned:
        parts.append(f"returned {before.returned:,} -> {after.returned:,}")
    if before.idle_moves or after.idle_moves:
        parts.append(f"moves without traffic {before.idle_moves:,} -> {after.idle_moves:,}")
    if not before.converges:
        when = f"after {pluralize(after.rounds, 'round')}" if after.rounds else "immediately"
        parts.append(f"converges {when} (now: never)" if after.converges else "never converges")
    return "With the fix: " + ", ".join(parts)


def diagnose_cluster(facts: Any, request: DiagnoseRequest, progress: Progress) -> ClusterDiagnosis:
    """Return the causes of a cluster's uneven load.

    Simulations of slightly different load find different causes: while the state is about the
    same, those of the cluster are those of an earlier snapshot.

    Raises:
        InputError: The request is about several things, or about one of another system.
        UnknownNameError: The broker, bundle or node of the request is not there.
    """
    started = time.perf_counter()
    snapshot, earlier = facts.snapshot, facts.earlier
    if OPERATION.reads_earlier[snapshot.manifest.kind] == "marks":
        snapshot = snapshot if request.is_about_one else first_about(snapshot, earlier)
        earlier = ()
    found = diagnose(snapshot, request, progress, earlier=earlier)
    took_ms = (time.perf_counter() - started) * 1000
    deviation = system_of(snapshot.manifest.kind).unevenness(snapshot)
    return ClusterDiagnosis(snapshot.snapshot_id, snapshot.manifest, found, deviation, took_ms)


def _words(found: Tables) -> str:
    """Return the number of causes."""
    return f"causes: {found['causes'].num_rows:,}"


OPERATION: Final[Operation[DiagnoseRequest, ClusterDiagnosis]] = Operation(
    name="diagnose",
    module=__name__,
    help="""Find the causes of uneven load, verified by simulation.

    The fix of each cause is simulated to convergence.
    """,
    request=DiagnoseRequest,
    answers={"pulsar": diagnose_cluster, "pegasus": diagnose_cluster},
    reads_earlier={"pegasus": "last", "pulsar": "marks"},
    job=Job(
        title="Diagnosis of clusters",
        question="Which settings, policies or data make the load of each cluster uneven?",
        tables={
            "causes": "Each cause with the simulated effect of its fix, best first.",
            "diagnoses": "Changes tried and summary of each cluster.",
        },
        summary=CountedSummary("diagnoses", _words),
        schemas={"diagnoses": DIAGNOSES, "causes": CAUSES},
    ),
)
