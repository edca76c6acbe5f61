"""Diagnosis of Pulsar clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.diagnosis.model import Diagnosis
from core.diagnosis.pulsar.answer import diagnose
from core.diagnosis.request import DiagnoseRequest
from core.diagnosis.systems import DiagnosedState, SystemDiagnosis
from core.findings.finding import Fix
from core.progress import Progress
from core.pulsar.explain import Explanation
from core.pulsar.measures import measure
from core.pulsar.presets import set_command
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot


class PulsarDiagnosis:
    """Pulsar; see :class:`core.diagnosis.systems.SystemDiagnosis`."""

    def diagnose(
        self,
        snapshot: PulsarSnapshot,
        request: DiagnoseRequest,
        progress: Progress,
        *,
        earlier: Sequence[PulsarSnapshot] = (),
    ) -> Diagnosis:
        """Name the causes on one snapshot."""
        del earlier  # a leader's memory is not in them
        return diagnose(snapshot, request, progress)

    def state(self, snapshot: PulsarSnapshot) -> DiagnosedState:
        """Return brokers, settings, policies and errors, and the traffic of each broker."""
        spread = measure(snapshot).throughput
        mean = spread.mean or 0.0
        known = zip(spread.brokers, spread.values, spread.known, strict=True)
        problems = verdict_of(snapshot).problems
        return DiagnosedState(
            fixed=(
                tuple(spread.brokers),
                snapshot.settings.to_pylist(),
                snapshot.policies.to_pylist(),
                {(one.code, one.subject) for one in problems if one.severity == "error"},
            ),
            deviations={
                name: float(value) / mean - 1
                for name, value, is_known in known
                if is_known and mean
            },
        )

    def verdict(self, snapshot: PulsarSnapshot) -> str:
        """Return the next action of the balancer."""
        found = _explanation(snapshot)
        return f"{found.off} is false." if found.off else found.sentence

    def why(self, snapshot: PulsarSnapshot, name: str) -> str:
        """Return the reason an object moves or stays."""
        return _explanation(snapshot).of_bundle(name).sentence

    def unevenness(self, snapshot: PulsarSnapshot) -> float | None:
        """Return the max deviation of a server, or ``None`` if unknown."""
        return measure(snapshot).throughput.max_deviation_ratio

    def fix_command(self, fix: Fix, cluster: str, more: str = "") -> str:
        """Return the ``trimtab set`` that makes a plan of a fix."""
        return set_command(fix.wanted, cluster, more)


def _explanation(snapshot: PulsarSnapshot) -> Explanation:
    settings = effective_settings(snapshot)
    return Explanation(
        LoadView.of(snapshot, settings),
        settings,
        lambda assumed: effective_settings(snapshot, overrides=assumed),
    )


PULSAR: Final[SystemDiagnosis[PulsarSnapshot]] = PulsarDiagnosis()
