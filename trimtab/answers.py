"""Answers of a running Trimtab: the JSON of an operation, and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec
import pyarrow as pa

from core.operations.sent import SentAnswer, Shown, arrow_table

if TYPE_CHECKING:  # a client starts without the operations' kernels
    from core.operations.balance import BalanceJson
    from core.operations.diagnose import DiagnosisJson
    from core.operations.drill.pegasus import NodeDrillJson
    from core.operations.drill.pulsar import DrillJson
    from core.operations.health.pegasus import PegasusHealthJson
    from core.operations.health.pulsar import PulsarHealthJson
    from core.operations.owners import OwnersJson

__all__ = [
    "Answered",
    "BalanceAnswered",
    "CommandAnswer",
    "DiagnoseAnswered",
    "DrillAnswered",
    "HealthAnswered",
    "OwnersAnswered",
]


class CommandAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a command that a server has run.

    Attributes:
        exit_code: Of the command.
        body: The JSON object; ``None`` without ``--json``.
        lines: The text for people; with ``--json`` only what is for standard error.
        files: Files that the command wrote, Base64, by the names that the command line has.
    """

    exit_code: int
    body: dict[str, Any] | None
    lines: tuple[Shown, ...]
    files: dict[str, str] = {}  # msgspec copies it


B = TypeVar("B", bound=Mapping[str, object])


class Answered(Generic[B]):
    """The answer of an operation; its tables are attributes.

    Attributes:
        body: The JSON object.
        tables: The tables by name.
        snapshot_id: Id of the snapshot.
        taken_at: Time of the snapshot.
        sent: The answer as it was sent, with the text for people.
    """

    def __init__(self, sent: SentAnswer, snapshot_id: str, taken_at: datetime) -> None:
        self.sent = sent
        self.body = cast("B", sent.body)
        self.tables = {name: arrow_table(content) for name, content in sent.tables.items()}
        self.snapshot_id = snapshot_id
        self.taken_at = taken_at
        vars(self).update(self.tables)

    if not TYPE_CHECKING:  # type checkers take the attributes from the annotations

        def __getattr__(self, name: str) -> pa.Table:
            if name.startswith("_"):
                raise AttributeError(name)
            known = ", ".join(vars(self).get("tables", ())) or "none"
            raise AttributeError(f"The answer has no table {name}; its tables: {known}.")

    def __repr__(self) -> str:
        names = ", ".join(sorted({*self.tables, *self.body}))
        return f"<Answer of {self.taken_at:%Y-%m-%d %H:%M:%S} UTC: {names}>"


class BalanceAnswered(Answered["BalanceJson"]):
    """The rounds of the Pegasus balancer.

    Attributes:
        balances: Rounds and plans, and the spread before and after.
        plans: Every partition that changes, round by round.
    """

    balances: pa.Table
    plans: pa.Table


class DiagnoseAnswered(Answered["DiagnosisJson"]):
    """The causes of uneven load.

    Attributes:
        diagnoses: Changes tried, and the answer in words.
        causes: Each cause with the simulated effect of its fix, best first.
    """

    diagnoses: pa.Table
    causes: pa.Table


class DrillAnswered(Answered["DrillJson | NodeDrillJson"]):
    """The failure of each broker, failure domain or node.

    Attributes:
        failures: Each failed broker or failure domain, worst first; Pulsar only.
        hot: Brokers above the hot threshold after a failure; Pulsar only.
        groups: Remaining brokers of isolation groups after a failure; Pulsar only.
        nodes: Each failed node, worst first; Pegasus only.
    """

    failures: pa.Table
    hot: pa.Table
    groups: pa.Table
    nodes: pa.Table


class HealthAnswered(Answered["PulsarHealthJson | PegasusHealthJson"]):
    """The findings of a cluster, and how even its load is.

    Attributes:
        health: State and balance, in one row.
        measures: Mean, spread and the busiest broker or node, by measure.
        findings: The findings, worst first.
    """

    health: pa.Table
    measures: pa.Table
    findings: pa.Table


class OwnersAnswered(Answered["OwnersJson"]):
    """Owners, sessions and ownership problems.

    Attributes:
        bundles: The bundles with their owners, worst first.
        sessions: The owners' sessions.
        namespaces: The namespaces, by the brokers that own their bundles.
    """

    bundles: pa.Table
    sessions: pa.Table
    namespaces: pa.Table
