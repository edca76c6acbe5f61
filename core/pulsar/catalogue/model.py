"""What one load-balancer setting is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

Kind = Literal["bool", "int", "float", "text", "names", "optional_float"]
Value = bool | int | float | str | tuple[str, ...] | None
TakesEffect = Literal["at once", "next round", "restart"]
Manager = Literal["modular", "extensible", "simple", "resource groups", "brokers"]

RELEASES: Final = ("4.0", "4.2", "5.0")
"""Release lines whose defaults are known, oldest first."""

BOTH: Final[tuple[Manager, ...]] = ("modular", "extensible")
MODULAR: Final[tuple[Manager, ...]] = ("modular",)
EXTENSIBLE: Final[tuple[Manager, ...]] = ("extensible",)
_LOAD_MANAGERS: Final = frozenset(("modular", "extensible", "simple"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of the brokers, under its upstream key.

    Attributes:
        key: Upstream name in ``broker.conf``.
        kind: Type of its value; ``names`` is a tuple of texts, ``optional_float`` may be ``None``.
        unit: Of a number, as upstream counts it (``percent``, ``min``, ``ms``, ``bytes/s`` ...).
        default: What holds where nothing is known about the release.
        defaults_by_release: One entry for each of :data:`RELEASES` that has the setting.
        is_dynamic: Whether ``pulsar-admin brokers update-dynamic-config`` accepts it.
        takes_effect: When a change is felt: ``at once``, in the ``next round`` of its timer, or at
            the broker's ``restart`` (several dynamic settings are read only once, at the start).
        managers: The load managers that read it; ``resource groups`` and ``brokers``: read whatever
            load manager there is.
        meaning: One sentence: what it is.
        effect: One sentence: what raising or changing it does; empty when the meaning says it.

    Source:
        Pulsar ``ServiceConfiguration``.
    """

    key: str
    kind: Kind
    default: Value
    meaning: str
    unit: str = ""
    effect: str = ""
    is_dynamic: bool = True
    takes_effect: TakesEffect = "at once"
    managers: tuple[Manager, ...] = BOTH
    defaults_by_release: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fill the releases that have nothing of their own with the default."""
        if not self.defaults_by_release:
            whole = dict.fromkeys(RELEASES, self.default)
            object.__setattr__(self, "defaults_by_release", MappingProxyType(whole))

    def default_for(self, release: str) -> Value:
        """Return the default of a release line; the general one where the release lacks it."""
        return self.defaults_by_release.get(release, self.default)

    def is_read_by(self, load_manager: str) -> bool:
        """Return whether it counts under that load manager; an unknown one is taken for modular."""
        manager = load_manager if load_manager in ("extensible", "simple") else "modular"
        return manager in self.managers or not _LOAD_MANAGERS.intersection(self.managers)

    def exists_in(self, release: str) -> bool:
        """Return whether that release line has the setting at all."""
        return release in self.defaults_by_release


def since(release: str, default: Value) -> dict[str, Value]:
    """Return defaults for a setting that older releases do not have."""
    return {line: default for line in RELEASES if line >= release}
