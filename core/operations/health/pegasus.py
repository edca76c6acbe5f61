"""Health of a Pegasus cluster: findings, states of partitions, and balance of replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final, Self, TypedDict

import numpy as np
import pyarrow as pa

from core.findings.json import verdict_json
from core.findings.request import HealthRequest
from core.findings.starts import Spans
from core.findings.verdict import Verdict
from core.operations.health.tables import finding_lines, health_tables
from core.operations.operation import Answer, Aside, Cells, Line
from core.pegasus.balance.score import count_spread
from core.pegasus.headline import cluster_sentence
from core.pegasus.rules.registry import pegasus_verdict
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import guardian_unhealthy, summarize_tables
from core.progress import Progress
from core.snapshot import Problem
from core.snapshot.pegasus import PegasusSnapshot
from core.units import pluralize

_MAX_SHOWN: Final = 20
_STATE_WORDS: Final = {"writable_ill": "degraded"}
"""What a state is called where that is not its name in the counting."""


class PegasusHealthJson(TypedDict):
    """The JSON of the answer.

    Attributes:
        cluster: Its name.
        taken_at: Time of the snapshot.
        snapshot_id: Snapshot that it was read from.
        leader: Address of the primary meta server; null: unknown.
        problems: Parts that could not be read.
        answer: State and balance of the cluster, in words.
        state: ``bad``, ``attention``, ``unknown`` or ``ok``.
        findings: The findings, worst first.
        scope: What was examined, and what was not, with the reason.
        balance: How even the replicas are, with the counts that decide.
        target_percent: Allowed deviation from the mean, percent.
        max_deviation: Max deviation from the mean of ``primaries`` and ``replicas``, ratio; null:
            unknown.
        nodes_set_aside: Nodes that the balancer does not count.
        nodes_down: Nodes that are down.
        nodes_not_answering: Nodes that did not answer.
        states: Partitions by state, by table; null: they were not read.
        listed: The same by the words of Pegasus.
        unwritable: Partitions that take no write now, by table; null: they were not read.
        guardian: Unhealthy partitions (``ill``), and whether every partition was read.
        ddd: Partitions that lost every replica, with the reason.
    """

    cluster: str
    taken_at: str
    snapshot_id: str
    leader: str | None
    problems: list[dict[str, str]]
    answer: str
    state: str
    findings: list[dict[str, Any]]
    scope: list[dict[str, Any]]
    balance: dict[str, Any]
    target_percent: float
    max_deviation: Mapping[str, float | None]
    nodes_set_aside: Sequence[str]
    nodes_down: Sequence[str]
    nodes_not_answering: Sequence[str]
    states: Mapping[str, dict[str, int] | None]
    listed: Mapping[str, dict[str, int] | None]
    unwritable: Mapping[str, int | None]
    guardian: dict[str, Any]
    ddd: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class PegasusHealth(Answer):
    """The answer.

    Attributes:
        values: The JSON object.
        verdict: The verdict on the cluster.
        rows: Tables of :mod:`core.operations.health.tables`.
        unread: Parts of the snapshot that could not be read.
    """

    values: PegasusHealthJson
    verdict: Verdict
    rows: Mapping[str, pa.Table]
    unread: tuple[Problem, ...]

    def body(self) -> PegasusHealthJson:
        """Return the JSON object."""
        return self.values

    def dated(self, spans: Spans | None, moment: datetime) -> Self:
        """Return the answer with the time since when its findings hold."""
        verdict = self.verdict.dated(spans, moment)
        values = self.values.copy()
        values["findings"] = verdict_json(verdict)["findings"]
        return replace(self, values=values, verdict=verdict)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables of a job."""
        return self.rows

    def text(self, _: HealthRequest) -> Iterator[Line]:
        """Return the text for people."""
        values = self.values
        yield values["answer"]
        yield self.verdict.sentence
        yield f"Nodes down: {', '.join(values['nodes_down']) or 'none'}."
        if silent := values["nodes_not_answering"]:
            yield f"Nodes not answering: {', '.join(silent)}."
        yield "Partitions by state:"
        states = values["states"]
        columns = tuple(dict.fromkeys(word for one in states.values() for word in one or ()))
        rows = [
            (name, *(_number((one or {}).get(word)) for word in columns))
            for name, one in states.items()
        ]
        yield Cells(("table", *(_STATE_WORDS.get(word, word) for word in columns)), rows)
        if not values["guardian"]["is_complete"]:
            yield "Some partitions were not read and are not included."
        unhealthy = values["guardian"]["ill"]
        count = pluralize(len(unhealthy), "unhealthy partition")
        yield f"The meta server's guardian reports {count}{_few(unhealthy)}."
        for one in values["ddd"]:
            yield f"{one['gpid']} lost every replica: {one['reason']}"
        yield from finding_lines(self.verdict.findings)
        for problem in self.unread:
            yield Aside(problem.sentence)


def _values(facts: PegasusFacts, verdict: Verdict) -> PegasusHealthJson:
    balance, tables = facts.verdict(), summarize_tables(facts)
    head, judged = head_json(facts.snapshot), verdict_json(verdict)
    return {
        "cluster": head["cluster"],
        "taken_at": head["taken_at"],
        "snapshot_id": head["snapshot_id"],
        "leader": head["leader"],
        "problems": head["problems"],
        "answer": cluster_sentence(facts, balance),
        "state": judged["state"],
        "findings": judged["findings"],
        "scope": judged["scope"],
        "balance": asdict(balance),
        "target_percent": round(facts.target_ratio * 100, 3),
        "max_deviation": {
            name: facts.columns.max_deviation(primaries_only=name == "primaries")
            for name in ("primaries", "replicas")
        },
        "nodes_set_aside": facts.columns.set_aside,
        "nodes_down": facts.columns.nodes_with("down"),
        "nodes_not_answering": facts.columns.nodes_with("not answering"),
        "states": {one.name: one.states for one in tables},
        "listed": {one.name: one.listed for one in tables},
        "unwritable": {one.name: one.unwritable for one in tables},
        "guardian": {"ill": guardian_unhealthy(facts), "is_complete": facts.has_all_partitions},
        "ddd": [
            {
                "gpid": f"{row['app_id']}.{row['index']}",
                "last_drops": row["last_drops"],
                "reason": row["ddd_reason"],
            }
            for row in facts.rows("partitions")
            if row["ddd_reason"] is not None
        ],
    }


def _tables(facts: PegasusFacts, found: Verdict) -> Mapping[str, pa.Table]:
    """Return the tables; without measures where partitions were not read."""
    balance, rows = facts.verdict(), []
    if facts.has_all_partitions:
        view = facts.view()
        spread = count_spread(view)
        rows = [
            _counted(view.nodes, name, counts, std)
            for name, counts, std in (
                ("primaries", spread.primaries, spread.primary_stddev),
                ("replicas", spread.replicas, spread.replica_stddev),
            )
        ]
    identity = (facts.snapshot.snapshot_id, facts.snapshot.manifest)
    return health_tables(identity, (balance.state, balance.sentence), rows, found)


def head_json(snapshot: PegasusSnapshot) -> dict[str, Any]:
    """Return the first keys of every answer about a Pegasus snapshot."""
    manifest = snapshot.manifest
    return {
        "cluster": manifest.cluster,
        "taken_at": manifest.taken_at.isoformat(),
        "snapshot_id": snapshot.snapshot_id,
        "leader": manifest.leader,
        "problems": [
            {
                "code": problem.code,
                "place": problem.place,
                "what": problem.what,
                "done": problem.done,
                "severity": problem.severity,
            }
            for problem in manifest.problems
        ],
    }


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _few(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return f": {', '.join(names[:_MAX_SHOWN])}{more}"


def pegasus_health(facts: PegasusFacts, _: HealthRequest, progress: Progress) -> PegasusHealth:
    """Return the findings of a cluster; its counts are judged without a target."""
    verdict = pegasus_verdict(facts, facts.earlier, progress)
    return PegasusHealth(
        values=_values(facts, verdict),
        verdict=verdict,
        rows=_tables(facts, verdict),
        unread=tuple(facts.snapshot.manifest.problems),
    )


def _counted(nodes: tuple[str, ...], name: str, counts: np.ndarray, std: float) -> dict[str, Any]:
    mean = float(counts.mean()) if counts.size else None
    return {
        "measure": name,
        "unit": name,
        "mean": mean,
        "std": std,
        "maximum": float(counts.max()) if counts.size else None,
        "minimum": float(counts.min()) if counts.size else None,
        "max_deviation_ratio": float(counts.max()) / mean - 1 if mean else None,
        "worst": nodes[int(counts.argmax())] if counts.size else None,
        "known": len(nodes),
        "count": len(nodes),
    }
