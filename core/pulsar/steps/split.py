"""Split a bundle: everything Trimtab knows about this kind of step but how to talk to a broker.

The other half is :mod:`connectors.pulsar.actions.split`.
"""

from __future__ import annotations

import json
from typing import ClassVar
from urllib.parse import quote

from core.ids import is_part
from core.pulsar.steps.base import AdminRequest, BundleStep, Checks
from core.step import Diagnostic, Executed, Inverse, Observation, Phrase


class SplitBundle(BundleStep, frozen=True, kw_only=True, tag="split_bundle"):
    """Cut a bundle into parts; they can never be merged again.

    Attributes:
        algorithm: The requested algorithm of the brokers, for example ``range_equally_divide``.
        positions: Inner boundaries that the request names, ascending; only for
            ``specified_positions_divide``.
        boundaries: Inner boundaries that are expected, ascending; empty: the brokers find them.
        is_unloaded: Whether the parts are unloaded too, and so placed again.
    """

    phrase: ClassVar[Phrase] = Phrase("split", "bundle", "split", "was split", order=1)

    algorithm: str
    positions: tuple[int, ...] = ()
    boundaries: tuple[int, ...] = ()
    is_unloaded: bool = False

    # -- capabilities ---------------------------------------------------------------------------

    @property
    def confirmation(self) -> str:
        """It is for good."""
        return "a split cannot be undone"

    @property
    def why_irreversible(self) -> str:
        """Bundles are never merged."""
        return "A split cannot be undone: bundles are never merged again."

    @property
    def has_parts(self) -> bool:
        """It has."""
        return True

    @property
    def unloads(self) -> tuple[str, ...]:
        """The bundle, where its parts are unloaded."""
        return (self.bundle,) if self.is_unloaded else ()

    def covers(self, name: str) -> bool:
        """Return whether a bundle is the bundle itself or part of it."""
        return is_part(name, self.bundle)

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return ``Split acme/x/0x0_0x4 on b1 at 0x00000002 and unload the parts``."""
        after = " and unload the parts" if self.is_unloaded else ""
        return f"Split {self.bundle} on {self.owner} {self._describe_cut()}{after}"

    def describe_progress(self) -> str:
        """Return ``Splitting acme/x/0x0_0x4 on b1``."""
        return f"Splitting {self.bundle} on {self.owner}"

    def describe_dry_run(self, holder: str | None = None) -> str:
        """Return the boundary of the split."""
        after = ", and its parts unloaded" if self.is_unloaded else ""
        where = f"on {holder or self.owner} {self._describe_cut()}"
        return f"{self.bundle} would be split {where}{after}."

    def _describe_cut(self) -> str:
        if not self.boundaries:
            return f"by {self.algorithm}"
        return "at " + ", ".join(f"0x{bound:08x}" for bound in self.boundaries)

    def describe_target(self) -> str:
        """Return ``split``, or ``split and unload``."""
        return "split and unload" if self.is_unloaded else "split"

    def describe_after(self, seen: Observation) -> str:
        """Return ``in parts``, or ``whole``."""
        return "whole" if seen.exists else "in parts"

    def admin_words(self) -> list[str]:
        """Return ``namespaces split-bundle``."""
        words = ["namespaces", "split-bundle", *self.bundle_words, "-san", self.algorithm]
        if self.positions:
            words += ["-sb", ",".join(str(position) for position in self.positions)]
        return [*words, "-u"] if self.is_unloaded else words

    def request(self) -> AdminRequest:
        """Return the ``PUT``; positions are its body, in decimals."""
        unload = "true" if self.is_unloaded else "false"
        algorithm = quote(self.algorithm, safe="")
        path = f"{self.bundle_path}/split?unload={unload}&splitAlgorithmName={algorithm}"
        return AdminRequest("PUT", path, json.dumps(self.positions) if self.positions else None)

    # -- precondition and inverse ---------------------------------------------------------------

    def check(self, checks: Checks) -> Diagnostic | None:
        """Check that the bundle is where it was and would still be cut there."""
        refusal = self.check_owner(checks)
        return refusal or checks.split(self.bundle, self.algorithm, self.positions)

    def inverse(self, done: Executed, checks: Checks) -> Inverse:
        """Return no inverse."""
        del checks
        if done.state not in ("DONE", "UNKNOWN"):
            return Inverse()
        return Inverse(
            finding=Diagnostic(
                severity="warning",
                code="undo_split",
                sentence=f"The split of {self.bundle} cannot be undone: bundles are never "
                "merged again.",
                subject=self.bundle,
                hint="Unload the parts to one broker if they belong together.",
            )
        )
