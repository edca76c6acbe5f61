"""What can be made to go wrong with unloads, switched while the sandbox runs."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

import msgspec

from core.errors import InputError

Accident = Literal["", "leader_change", "owner_dies"]
Outcome = Literal["redirected", "refused", "unowned", "acted"]
_REFUSALS: Final = (0, 409, 500, 503)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Injected faults; all off by default.

    Attributes:
        hint_loss_ratio: Share of destinations that the leader forgets at once.
        elsewhere_ratio: Share of bundles that land on another broker than the one chosen for them.
        slow_s: Seconds that a broker is busy closing a bundle before it lets go of it.
        refuse_status: 409, 500 or 503: brokers answer so to an unload and do nothing; 0: off.
        lost_answer_ratio: Share of unloads that are done but never answered.
        accident: Happens once, in the middle of the next unload: ``leader_change``, or
            ``owner_dies`` with its nodes left behind until its session runs out.
        brokers: Numbers of the brokers that are slow, refuse or lose answers; empty: all.
        clients_gone_ratio: Share of bundles whose clients do not look them up again after an
            unload or the end of their broker; a lookup by others still assigns them.
        clients_return_s: Seconds after which the clients of a bundle look it up; 0: at once.
    """

    hint_loss_ratio: float = 0.0
    elsewhere_ratio: float = 0.0
    slow_s: float = 0.0
    refuse_status: int = 0
    lost_answer_ratio: float = 0.0
    accident: Accident = ""
    brokers: tuple[int, ...] = ()
    clients_gone_ratio: float = 0.0
    clients_return_s: float = 0.0

    def __post_init__(self) -> None:
        if self.refuse_status not in _REFUSALS:
            raise InputError(
                f"A sandbox broker cannot refuse with {self.refuse_status}.",
                hint="Use 409, 500 or 503; 0 disables it.",
            )

    def concerns(self, broker: int) -> bool:
        """Return whether a broker is slow, refuses or loses answers."""
        return not self.brokers or broker in self.brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadRequest:
    """One request to unload a bundle, as it came in at a broker.

    Attributes:
        at_s: Seconds since the epoch.
        bundle: Name.
        broker: Id of the addressed broker.
        destination: What was requested, as it was written.
        outcome: ``redirected``, ``refused``, ``unowned``, or ``acted``: that broker gave it up.
    """

    at_s: float
    bundle: str
    broker: str
    destination: str | None
    outcome: Outcome


def changed(faults: Faults, changes: dict[str, Any]) -> Faults:
    """Return the faults with some switched.

    Raises:
        InputError: There is no such switch, or it does not take that value.
    """
    known = {item.name for item in fields(Faults)}
    unknown = changes.keys() - known
    if unknown:
        raise InputError(
            f"The sandbox has no fault named {min(unknown)!r}.",
            hint=f"Available: {', '.join(sorted(known))}.",
        )
    try:
        return msgspec.convert(
            msgspec.to_builtins(replace(faults, **changes)), Faults, strict=False
        )
    except msgspec.ValidationError as exc:
        raise InputError(f"That fault cannot be set: {exc}.", hint="See the README.") from exc
