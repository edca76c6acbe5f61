"""How each system is diagnosed: the one list of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from core.diagnosis.model import Diagnosis
from core.diagnosis.pegasus.registry import diagnose as diagnose_pegasus
from core.diagnosis.pulsar.answer import diagnose as diagnose_pulsar
from core.diagnosis.request import DiagnoseRequest
from core.errors import InputError
from core.progress import NoProgress, Progress


class Diagnose(Protocol):
    """Names the causes on one snapshot."""

    def __call__(self, snapshot: Any, request: DiagnoseRequest, progress: Progress, /) -> Diagnosis:
        """Return the diagnosis.

        Raises:
            UnknownNameError: The broker, bundle or node of the request is not there.
        """
        ...


def _pegasus(snapshot: Any, request: DiagnoseRequest, progress: Progress, /) -> Diagnosis:
    del progress  # it takes no two seconds
    named = request.broker or request.bundle
    if named is not None:
        raise InputError(
            f"{snapshot.manifest.cluster} is a Pegasus cluster: it has no {named}.",
            hint="It has nodes: give --node.",
        )
    return diagnose_pegasus(snapshot, node=request.node, budget_s=request.seconds or _SECONDS)


_SECONDS: Final = 5.0

SYSTEMS: Final[Mapping[str, Diagnose]] = {"pulsar": diagnose_pulsar, "pegasus": _pegasus}
"""By the name of the system."""


def diagnose(
    snapshot: Any, request: DiagnoseRequest | None = None, progress: Progress | None = None
) -> Diagnosis:
    """Name the causes on a snapshot of any system.

    Args:
        snapshot: With a manifest.
        request: What is asked; by default about the cluster.
        progress: Where progress goes.
    Raises:
        InputError: The system has no diagnosis.
        UnknownNameError: The broker, bundle or node of the request is not there.
    """
    kind = snapshot.manifest.kind
    if kind not in SYSTEMS:
        raise InputError(
            f"There is no diagnosis of {kind} clusters.",
            hint=f"`trimtab health` has their findings; diagnosed are {', '.join(SYSTEMS)}.",
        )
    chosen = (request or DiagnoseRequest()).checked()
    return SYSTEMS[kind](snapshot, chosen, progress or NoProgress())
