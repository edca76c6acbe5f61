"""How each system is diagnosed: the one list of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from core.diagnosis.model import Diagnosis
from core.diagnosis.pegasus.registry import diagnose as diagnose_pegasus
from core.diagnosis.pulsar.answer import diagnose as diagnose_pulsar
from core.diagnosis.request import DiagnoseRequest
from core.errors import InputError
from core.pegasus.ids import is_gpid
from core.progress import NoProgress, Progress
from core.pulsar.explain import Explanation
from core.pulsar.measures import measure
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot


class SystemDiagnosis(Protocol):
    """One system, as a diagnosis uses it."""

    def diagnose(
        self,
        snapshot: Any,
        request: DiagnoseRequest,
        progress: Progress,
        *,
        earlier: Sequence[Any] = (),
    ) -> Diagnosis:
        """Name the causes on one snapshot.

        Args:
            snapshot: Of the system.
            request: The object in question, and the time for simulations.
            progress: Where the number of changes tried so far goes.
            earlier: Snapshots before it, oldest first.
        Raises:
            UnknownNameError: The broker, bundle or node of the request is not there.
        """
        ...

    def verdict(self, snapshot: Any) -> str:
        """Return the next action of the balancer, one sentence."""
        ...

    def why(self, snapshot: Any, name: str) -> str:
        """Return the reason an object moves or stays, one sentence.

        Raises:
            UnknownNameError: It is not there.
        """
        ...

    def unevenness(self, snapshot: Any) -> float | None:
        """Return the max deviation of a server, share of the mean, or ``None`` if unknown."""
        ...


class _Pulsar:
    def diagnose(
        self,
        snapshot: PulsarSnapshot,
        request: DiagnoseRequest,
        progress: Progress,
        *,
        earlier: Sequence[PulsarSnapshot] = (),
    ) -> Diagnosis:
        del earlier  # a leader's memory is not in them
        return diagnose_pulsar(snapshot, request, progress)

    def verdict(self, snapshot: PulsarSnapshot) -> str:
        found = _explanation(snapshot)
        return f"{found.off} is false." if found.off else found.sentence

    def why(self, snapshot: PulsarSnapshot, name: str) -> str:
        return _explanation(snapshot).of_bundle(name).sentence

    def unevenness(self, snapshot: PulsarSnapshot) -> float | None:
        return measure(snapshot).throughput.max_deviation_ratio


def _explanation(snapshot: PulsarSnapshot) -> Explanation:
    settings = effective_settings(snapshot)
    return Explanation(
        LoadView.of(snapshot, settings),
        settings,
        lambda assumed: effective_settings(snapshot, overrides=assumed),
    )


class _Pegasus:
    def diagnose(
        self,
        snapshot: Any,
        request: DiagnoseRequest,
        progress: Progress,
        *,
        earlier: Sequence[Any] = (),
    ) -> Diagnosis:
        del progress  # it takes no two seconds
        option = "--broker" if request.broker is not None else "--bundle"
        if request.broker is not None or request.bundle is not None:
            raise InputError(
                f"{snapshot.manifest.cluster} is a Pegasus cluster; {option} is for Pulsar.",
                hint="Specify a node (--node host:port) or a partition (app.index).",
            )
        is_partition = request.node is not None and is_gpid(request.node)
        return diagnose_pegasus(
            snapshot,
            node=None if is_partition else request.node,
            partition=request.node if is_partition else None,
            earlier=[one for one in earlier if one is not snapshot],
            budget_s=request.budget_s,
        )

    def verdict(self, snapshot: Any) -> str:
        problem = diagnose_pegasus(snapshot, budget_s=0.0).problem
        return problem or "the cluster is balanced."

    def why(self, snapshot: Any, name: str) -> str:
        found = diagnose_pegasus(snapshot, partition=name, budget_s=_WHY_S)
        return " ".join((found.problem, *found.notes)).strip()

    def unevenness(self, snapshot: Any) -> float | None:
        del snapshot
        return None


_WHY_S: Final = 1.0

SYSTEMS: Final[Mapping[str, SystemDiagnosis]] = {"pulsar": _Pulsar(), "pegasus": _Pegasus()}
"""By the name of the system."""


def system_of(kind: str) -> SystemDiagnosis:
    """Return the diagnosis of a system.

    Raises:
        InputError: It has no diagnosis.
    """
    if kind not in SYSTEMS:
        raise InputError(
            f"Diagnosis is not available for {kind} clusters.",
            hint=f"Use `trimtab health`; diagnosis is available for {', '.join(SYSTEMS)}.",
        )
    return SYSTEMS[kind]


def diagnose(
    snapshot: Any,
    request: DiagnoseRequest | None = None,
    progress: Progress | None = None,
    *,
    earlier: Sequence[Any] = (),
) -> Diagnosis:
    """Name the causes on a snapshot of any system.

    Args:
        snapshot: With a manifest.
        request: What is asked; by default about the cluster.
        progress: Where progress goes.
        earlier: Snapshots of the cluster before it, the newest last.
    Raises:
        InputError: The system has no diagnosis.
        UnknownNameError: The broker, bundle or node of the request is not there.
    """
    chosen = (request or DiagnoseRequest()).checked()
    system = system_of(snapshot.manifest.kind)
    return system.diagnose(snapshot, chosen, progress or NoProgress(), earlier=earlier)
