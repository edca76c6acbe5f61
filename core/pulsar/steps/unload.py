"""Unload a bundle: everything Trimtab knows about this kind of step but how to talk to a broker.

The other half is :mod:`connectors.pulsar.actions.unload`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final
from urllib.parse import quote

import msgspec

from core.pulsar.steps.base import AdminRequest, BundleStep, Checks
from core.step import Diagnostic, Executed, Inverse, Observation, Phrase, Step
from core.units import format_ratio

MIN_PROBABILITY: Final = 0.01
"""Destinations less likely than this are not written into a plan."""

_MISSED: Final = frozenset({"landed_elsewhere", "returned"})


class UnloadBundle(BundleStep, frozen=True, kw_only=True, tag="unload_bundle"):
    """Take a bundle from its owner; the cluster (or ``destination``) takes it up again.

    Attributes:
        destination: Requested destination, a broker id, or ``None`` if the cluster places it.
        predicted: Broker id to probability, at least :data:`MIN_PROBABILITY`: where it is expected
            to land; empty: unknown. A journal sorts its keys: :attr:`likely` has the order.
    """

    phrase: ClassVar[Phrase] = Phrase("unload", "bundle", "moved", "moved", order=0)

    destination: str | None = None
    predicted: Mapping[str, float] = msgspec.field(default_factory=dict)

    def __hash__(self) -> int:
        """Leave out what cannot be hashed."""
        return hash((self.bundle, self.owner, self.destination, self.reason))

    @property
    def is_placed_by_cluster(self) -> bool:
        """It is."""
        return True

    @property
    def unloads(self) -> tuple[str, ...]:
        """The bundle."""
        return (self.bundle,)

    @property
    def not_undone(self) -> str:
        """That clients reconnect a second time."""
        return "Clients reconnected after the unload. The undo disconnects them again."

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return ``Unload acme/x/0x0_0x4 from b1, to b2``."""
        towards = f", to {self.destination}" if self.destination else ""
        return f"Unload {self.bundle} from {self.owner}{towards}"

    def describe_prediction(self) -> str:
        """Return ``Unload acme/x/0x0_0x4 from b1; predicted on b2 (66.7%), b3 (33.3%)``."""
        return f"{self.describe()}{self._predicted_on()}"

    def describe_progress(self) -> str:
        """Return ``Unloading acme/x/0x0_0x4 from b1``."""
        return f"Unloading {self.bundle} from {self.owner}"

    def describe_dry_run(self, holder: str | None = None) -> str:
        """Return from where it would be unloaded, and where it is expected."""
        requested = f", {self.destination} requested" if self.destination else ""
        origin = holder or self.owner
        return f"{self.bundle} would be unloaded from {origin}{requested}{self._predicted_on()}."

    def _predicted_on(self) -> str:
        predicted = ", ".join(
            f"{broker} ({format_ratio(self.predicted[broker])})" for broker in self.likely[:3]
        )
        return f"; predicted on {predicted}" if predicted else ""

    def describe_target(self) -> str:
        """Return the destination, or ``any`` with the most likely broker."""
        return self.destination or (f"any ({self.likely[0]})" if self.likely else "any")

    def describe_after(self, seen: Observation) -> str:
        """Return the owner."""
        return seen.holder or "unassigned"

    def admin_words(self) -> list[str]:
        """Return ``namespaces unload``."""
        towards = ["-d", self.destination] if self.destination is not None else []
        return ["namespaces", "unload", *self.bundle_words, *towards]

    def request(self) -> AdminRequest:
        """Return the ``PUT``; the destination is a query parameter."""
        towards = (
            ""
            if self.destination is None
            else f"?destinationBroker={quote(self.destination, safe=':')}"
        )
        return AdminRequest("PUT", f"{self.bundle_path}/unload{towards}")

    # -- precondition and inverse ---------------------------------------------------------------

    def check(self, checks: Checks) -> Diagnostic | None:
        """Check that the bundle is where it was and, if one is named, that its destination fits."""
        refusal = self.check_owner(checks)
        if refusal is not None:
            return refusal
        if self.destination is None:
            return checks.placement(self.bundle)
        return checks.destination(self.destination) or checks.move(self.bundle, self.destination)

    def has_taken_effect(self, done: Executed) -> bool:
        """Return whether the bundle left its owner, even if no broker owns it since."""
        if done.state != "UNKNOWN" or done.after is None:
            return done.state == "DONE"
        is_owned_before = done.before is not None and done.before.holder is not None
        return is_owned_before and done.after.exists and done.after.holder is None

    def inverse(self, done: Executed, checks: Checks) -> Inverse:
        """Return the unload to where it came from, unless it has been moved since."""
        if done.state == "UNKNOWN" and not self.has_taken_effect(done):
            return self._stays(
                "undo_unknown",
                f"The result of {self.bundle} is unknown: it is not moved back.",
                "Check its owner, and move it manually if needed.",
            )
        before = done.before if self.has_taken_effect(done) else None
        origin = None if before is None else before.holder
        return Inverse() if origin is None else self._back_to(origin, done.after, checks)

    def _back_to(self, origin: str, after: Observation | None, checks: Checks) -> Inverse:
        refusal = checks.bundle(self.bundle)
        if refusal is not None:
            sentence = f"{self.bundle} cannot be moved back: {refusal.sentence}"
            return self._stays("undo_refused", sentence, refusal.hint)
        owner = checks.owner(self.bundle)
        if owner == origin:
            return Inverse(
                finding=Diagnostic(
                    severity="info",
                    code="undo_not_needed",
                    sentence=f"{self.bundle} is already at {origin}, as before.",
                    subject=self.bundle,
                )
            )
        # left unassigned: a lookup has given it to this owner since
        if after is None or after.holder not in (None, owner):
            left_at = after.holder if after else "an unknown broker"
            return self._stays(
                "undo_moved_since",
                f"{self.bundle} is now at {owner}; the run left it at {left_at}: it was "
                "moved externally.",
                "Find out who moved it, and move it manually if it still has to be reverted.",
            )
        # one after the other: a move to a broker that is gone cannot be checked
        refusal = checks.destination(origin) or checks.move(self.bundle, origin)
        if refusal is None:
            return Inverse(UnloadBundle(bundle=self.bundle, owner=owner, destination=origin))
        code = "undo_owner_gone" if refusal.code == "destination_unknown" else "undo_refused"
        sentence = f"{self.bundle} cannot be moved back to {origin}: {refusal.sentence}"
        return self._stays(code, sentence, refusal.hint)

    def _stays(self, code: str, sentence: str, hint: str) -> Inverse:
        return Inverse(
            finding=Diagnostic(
                severity="warning", code=code, sentence=sentence, subject=self.bundle, hint=hint
            )
        )

    def next_move(self, code: str, after: Observation) -> Step | None:
        """Return the unload from where it landed to its requested destination."""
        holder, wanted = after.holder, self.destination
        if code not in _MISSED or wanted is None or holder is None or holder == wanted:
            return None
        return msgspec.structs.replace(self, owner=holder, predicted={})


def unloads_of(steps: Iterable[Step]) -> tuple[UnloadBundle, ...]:
    """Return the unloads among the steps of a plan, in order."""
    return tuple(step for step in steps if isinstance(step, UnloadBundle))
