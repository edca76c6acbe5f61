"""What one load-balancer setting is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal

from core.pulsar.releases import (
    RELEASES,
    Number,
    Release,
    releases_with,
    value_at,
    version_number,
)

Kind = Literal["bool", "int", "float", "text", "names", "optional_float"]
Value = bool | int | float | str | tuple[str, ...] | None
TakesEffect = Literal["at once", "next round", "restart"]
Manager = Literal["modular", "extensible", "simple", "resource groups", "brokers"]


class Absent(Enum):
    """A release that does not have the setting."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
History = Mapping[str, Value | Absent]
"""First version of each default to that default; :data:`ABSENT` where the setting is missing."""

BOTH: Final[tuple[Manager, ...]] = ("modular", "extensible")
MODULAR: Final[tuple[Manager, ...]] = ("modular",)
EXTENSIBLE: Final[tuple[Manager, ...]] = ("extensible",)
_LOAD_MANAGERS: Final = frozenset(("modular", "extensible", "simple"))


INT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """Values of a number that are worth trying, in the setting's unit.

    Attributes:
        min: Smallest value.
        max: Largest value; a page widens the range where the cluster is beyond it.
        step: Distance of the values that a slider offers.
    """

    min: float
    max: float
    step: float = 1.0


@dataclass(frozen=True, slots=True)
class Extremes:
    """Values between which a number is searched for the one at which a decision changes.

    Attributes:
        eager: Value at which brokers shed most readily.
        idle: Value at which they shed least.
    """

    eager: float
    idle: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of the brokers, under its upstream key.

    Attributes:
        key: Upstream name in ``broker.conf``.
        kind: Type of its value; ``names`` is a tuple of texts, ``optional_float`` may be ``None``.
        unit: Of a number, as upstream counts it (``percent``, ``min``, ``ms``, ``bytes/s`` ...).
        default: Built-in value where a release does not have the setting, and the default of every
            release without a ``history``.
        since: First version that has the setting; empty: every release has it.
        backports: First versions of older lines that have it too.
        history: Defaults by the first version that has them, where ``default`` does not apply to
            every release that has the setting.
        is_dynamic: Whether ``pulsar-admin brokers update-dynamic-config`` accepts it, in the newest
            releases.
        dynamic_since: First version in which it is dynamic; empty: as long as it exists.
        takes_effect: When a change is felt: ``at once``, in the ``next round`` of its timer, or at
            the broker's ``restart`` (several dynamic settings are read only once, at the start).
        managers: The load managers that read it; ``resource groups`` and ``brokers``: read whatever
            load manager there is.
        meaning: One sentence: what it is.
        effect: One sentence: what raising or changing it does; empty when the meaning says it.
        label: A few words with the unit, for a form; empty: no form offers it.
        range: Values worth trying; ``None`` if no number, or no form offers it.
        extremes: Ends of a search; ``None`` if no number, or no shedding strategy decides by it.

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
    since: str = ""
    backports: tuple[str, ...] = ()
    history: History = field(default_factory=dict)
    dynamic_since: str = ""
    label: str = ""
    range: Range | None = None
    extremes: Extremes | None = None

    def __post_init__(self) -> None:
        """Write ``since`` and ``backports`` as a history."""
        if self.since:
            object.__setattr__(self, "history", self._history())

    def _history(self) -> History:
        history: dict[str, Value | Absent] = {RELEASES[0]: ABSENT}
        for version in self.backports:
            line = Release.of(version).line
            history |= {version: self.default, RELEASES[RELEASES.index(line) + 1]: ABSENT}
        return history | {self.since: self.default}

    def default_for(self, release: Release | str) -> Value:
        """Return the default of a version or a line; the built-in value where it is missing."""
        found = self._at(_number(release))
        return self.default if isinstance(found, Absent) else found

    @property
    def defaults_by_release(self) -> dict[str, Value]:
        """Default of each of :data:`RELEASES` that has the setting."""
        return {line: self.default_for(line) for line in RELEASES if self.exists_in(line)}

    @property
    def available_in(self) -> str:
        """Releases that have the setting, for example ``4.0.11 and later``."""
        exists = {version: found is not ABSENT for version, found in self.history.items()}
        return releases_with(exists or {RELEASES[0]: True})

    def _at(self, number: Number) -> Value | Absent:
        return value_at(self.history, number) if self.history else self.default

    def is_read_by(self, load_manager: str) -> bool:
        """Return whether it is read under that load manager; an unknown one counts as modular."""
        manager = load_manager if load_manager in ("extensible", "simple") else "modular"
        return manager in self.managers or not _LOAD_MANAGERS.intersection(self.managers)

    def exists_in(self, release: Release | str) -> bool:
        """Return whether a version or a line has the setting."""
        return not isinstance(self._at(_number(release)), Absent)

    def is_dynamic_in(self, release: Release | str) -> bool:
        """Return whether a version or a line accepts it as a dynamic setting."""
        if not self.is_dynamic or not self.exists_in(release):
            return False
        return not self.dynamic_since or _number(release) >= version_number(self.dynamic_since)


def _number(release: Release | str) -> Number:
    return (Release.of(release) if isinstance(release, str) else release).number
