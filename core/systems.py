"""The systems that Trimtab knows: the one list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from core.errors import SnapshotError
from core.findings.verdict import Verdict
from core.gauges import Gauge
from core.pegasus.system import PEGASUS
from core.plan.model import Plan
from core.plan.registry import StepRegistry
from core.pulsar.system import PULSAR
from core.snapshot.record import AnyRecord
from core.system import System, SystemParts


class KnownSystem(System[Any], Protocol):
    """A system from its snapshots to the undo of a run."""

    @property
    def record(self) -> AnyRecord:
        """Storage of its snapshots in directories and in the history."""
        ...

    @property
    def parts(self) -> SystemParts:
        """Its diagnosis, back-test and trends."""
        ...

    @property
    def default_target_ratio(self) -> float:
        """Deviation from the mean that a cluster may have where its configuration is silent."""
        ...

    def gauges(self, snapshot: Any) -> Iterable[Gauge]:
        """Return the figures of a snapshot for monitoring systems."""
        ...

    def servers(self, snapshot: Any) -> dict[str, str | None]:
        """Return the brokers or nodes by name, with the failure domain of each."""
        ...

    def verdict(self, snapshot: Any, earlier: Callable[[], Sequence[Any]] = tuple) -> Verdict:
        """Return the verdict on a cluster: findings, worst first, and what was examined.

        Args:
            snapshot: Of the cluster.
            earlier: Returns snapshots before it, the newest last, where something may last.
        Raises:
            SnapshotError: It has too little.
        """
        ...


SYSTEMS: Final[tuple[KnownSystem, ...]] = (PULSAR, PEGASUS)


def record_of(kind: str, systems: Iterable[KnownSystem] = SYSTEMS) -> AnyRecord:
    """Return the storage of a system's snapshots.

    Args:
        kind: The system's name, as a manifest has it.
        systems: Those that are known.
    Raises:
        SnapshotError: None of them has that name.
    """
    for system in systems:
        if system.name == kind:
            return system.record
    raise SnapshotError(
        f"The snapshot is of system {kind!r}, which this version of Trimtab does not support.",
        hint="Read it with the version of Trimtab that wrote it.",
    )


def steps_of(systems: Iterable[KnownSystem]) -> StepRegistry:
    """Return every kind of step of some systems."""
    return StepRegistry(kind for system in systems for kind in system.steps)


STEPS: Final = steps_of(SYSTEMS)
"""Every kind of step of every system."""


def purpose_of(plan: Plan, systems: Iterable[KnownSystem] = SYSTEMS) -> str:
    """Return the purpose of a plan, a clause, or "".

    Args:
        plan: Of any system.
        systems: Those that are known.
    """
    kinds = {type(step) for step in plan.steps}
    found = (system.purpose(plan) for system in systems if kinds & set(system.steps))
    return next(found, "")
