"""How each system is diagnosed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Final, Protocol, TypeVar

from core.diagnosis.model import Diagnosis
from core.diagnosis.request import DiagnoseRequest
from core.errors import InputError
from core.findings.finding import Fix
from core.progress import NoProgress, Progress
from core.system import Snapshot
from core.systems import SYSTEMS

S = TypeVar("S", bound=Snapshot)
S_contra = TypeVar("S_contra", bound=Snapshot, contravariant=True)


SAME_RATIO: Final = 0.1
"""A diagnosis holds while no server's deviation changes by more of the mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosedState:
    """What a diagnosis depends on.

    Attributes:
        fixed: Settings, policies, servers and errors: any change asks for another diagnosis.
        deviations: By server, share of the mean; they always vary a little.
    """

    fixed: object
    deviations: Mapping[str, float]

    def is_about(self, other: DiagnosedState) -> bool:
        """Return whether a diagnosis of one state holds for the other."""
        if self.fixed != other.fixed or self.deviations.keys() != other.deviations.keys():
            return False
        pairs = ((ratio, other.deviations[name]) for name, ratio in self.deviations.items())
        return all(abs(one - two) <= SAME_RATIO for one, two in pairs)


class SystemDiagnosis(Protocol[S_contra]):
    """One system, as a diagnosis uses it."""

    def diagnose(
        self,
        snapshot: S_contra,
        request: DiagnoseRequest,
        progress: Progress,
        *,
        earlier: Sequence[S_contra] = (),
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

    def state(self, snapshot: S_contra) -> DiagnosedState:
        """Return what a diagnosis of the snapshot depends on."""
        ...

    def verdict(self, snapshot: S_contra) -> str:
        """Return the next action of the balancer, one sentence."""
        ...

    def why(self, snapshot: S_contra, name: str) -> str:
        """Return the reason an object moves or stays, one sentence.

        Raises:
            UnknownNameError: It is not there.
        """
        ...

    def unevenness(self, snapshot: S_contra) -> float | None:
        """Return the max deviation of a server, share of the mean, or ``None`` if unknown."""
        ...

    def fix_command(self, fix: Fix, cluster: str, more: str = "") -> str:
        """Return the commands that make a plan of a fix, one a line; empty where it sets nothing.

        Args:
            fix: The fix.
            cluster: Name of the cluster.
            more: Further words of each command, such as the configuration.
        """
        ...


def first_about(snapshot: S, earlier: Sequence[S]) -> S:
    """Return the first of the earlier snapshots whose diagnosis holds; else the snapshot itself.

    Args:
        snapshot: With a manifest.
        earlier: Snapshots of the cluster before it, oldest first.
    """
    system = system_of(snapshot.manifest.kind)
    state = system.state(snapshot) if earlier else None
    return next((one for one in earlier if state and system.state(one).is_about(state)), snapshot)


def system_of(kind: str) -> SystemDiagnosis[Any]:
    """Return the diagnosis of a system.

    Raises:
        InputError: It has no diagnosis.
    """
    parts = {one.name: one.parts.diagnosis for one in SYSTEMS if one.parts.diagnosis}
    if kind not in parts:
        raise InputError(
            f"Diagnosis is not available for {kind} clusters.",
            hint=f"Use `trimtab health`; diagnosis is available for {', '.join(parts)}.",
        )
    system: SystemDiagnosis[Any] = resolve_name(parts[kind])
    return system


def diagnose(
    snapshot: S_contra,
    request: DiagnoseRequest | None = None,
    progress: Progress | None = None,
    *,
    earlier: Sequence[S_contra] = (),
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
