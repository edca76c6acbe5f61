"""Diagnosis of Pegasus clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.diagnosis.model import Diagnosis
from core.diagnosis.pegasus.commands import fix_commands
from core.diagnosis.pegasus.registry import diagnose
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import DiagnosedState, SystemDiagnosis
from core.errors import InputError
from core.findings.finding import Fix
from core.pegasus.ids import is_gpid
from core.progress import Progress
from core.snapshot.pegasus import PegasusSnapshot

_WHY_S: Final = 1.0


class PegasusDiagnosis:
    """Pegasus; see :class:`core.diagnosis.systems.SystemDiagnosis`."""

    def diagnose(
        self,
        snapshot: PegasusSnapshot,
        request: DiagnoseRequest,
        progress: Progress,
        *,
        earlier: Sequence[PegasusSnapshot] = (),
    ) -> Diagnosis:
        """Name the causes on one snapshot."""
        del progress  # it takes no two seconds
        option = "--broker" if request.broker is not None else "--bundle"
        if request.broker is not None or request.bundle is not None:
            raise InputError(
                f"{snapshot.manifest.cluster} is a Pegasus cluster; {option} is for Pulsar.",
                hint="Specify a node (--node host:port) or a partition (app.index).",
            )
        is_partition = request.node is not None and is_gpid(request.node)
        return diagnose(
            snapshot,
            node=None if is_partition else request.node,
            partition=request.node if is_partition else None,
            earlier=[one for one in earlier if one is not snapshot],
            budget_s=request.budget_s,
        )

    def state(self, snapshot: PegasusSnapshot) -> DiagnosedState:
        """Return the snapshot itself: a diagnosis takes no two seconds."""
        return DiagnosedState(fixed=snapshot.snapshot_id, deviations={})

    def verdict(self, snapshot: PegasusSnapshot) -> str:
        """Return the next action of the balancer."""
        problem = diagnose(snapshot, budget_s=0.0).problem
        return problem or "the cluster is balanced."

    def why(self, snapshot: PegasusSnapshot, name: str) -> str:
        """Return the reason an object moves or stays."""
        found = diagnose(snapshot, partition=name, budget_s=_WHY_S)
        return " ".join((found.problem, *found.notes)).strip()

    def unevenness(self, snapshot: PegasusSnapshot) -> float | None:
        """Return the max deviation of a server, or ``None`` if unknown."""
        del snapshot
        return None

    def fix_command(self, fix: Fix, cluster: str, more: str = "") -> str:
        """Return the commands of the settings, then that of the function level."""
        return "\n".join(fix_commands(fix.wanted, cluster, more))


PEGASUS: Final[SystemDiagnosis[PegasusSnapshot]] = PegasusDiagnosis()
