"""Release lines of the brokers: the line of a version, and the rules that changed between releases.

Source: the released ``ServiceConfiguration`` and load-balancer classes of Apache Pulsar, and the
release commits of its repository where the package registry has no jar (docs/releases.md).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self, TypeVar

T = TypeVar("T")

Number = tuple[int, int, int]
"""Major, minor and patch."""

REFERENCE_VERSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "2.8": "2.8.4",
        "2.9": "2.9.5",
        "2.10": "2.10.5",
        "2.11": "2.11.4",
        "3.0": "3.0.17",
        "3.1": "3.1.3",
        "3.2": "3.2.4",
        "3.3": "3.3.9",
        "4.0": "4.0.8",
        "4.1": "4.1.3",
        "4.2": "4.2.4",
        "5.0": "5.0.0",
    }
)
"""Each line, oldest first, with the version that represents it where no patch version is known."""

RELEASES: Final = tuple(REFERENCE_VERSIONS)
NEWEST_STABLE: Final = "4.2"
"""The line that is assumed where no broker reports a release."""

_PART: Final = r"([0-9]{1,9})"
_VERSION: Final = re.compile(rf"\s*v?{_PART}\.{_PART}(?:\.{_PART})?(?![0-9])")


def version_number(text: str) -> Number:
    """Return the number of a version; a missing patch is 0.

    Raises:
        ValueError: The text does not start with a version.

    Example:
        >>> version_number("2.10"), version_number("4.0.8")
        ((2, 10, 0), (4, 0, 8))
    """
    match = _VERSION.match(text)
    if match is None:
        raise ValueError(text)
    return int(match[1]), int(match[2]), int(match[3] or 0)


def value_at(history: Mapping[str, T], number: Number) -> T:
    """Return the value that a history has at a version.

    Args:
        history: First version of each value to the value; the oldest entry also holds before it.
        number: The version.

    Example:
        >>> value_at({"2.8": 1.0, "3.1.1": 0.0}, (3, 1, 0))
        1.0
    """
    ordered = sorted((version_number(since), value) for since, value in history.items())
    before = [value for since, value in ordered if since <= number]
    return before[-1] if before else ordered[0][1]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the load manager that differ between releases.

    Attributes:
        heap_is_weighed: The weighted maximum of a broker's usage includes JVM heap.
        overload_is_weighted: The usage that OverloadShedder and placement compare with the overload
            limit is the weighted maximum; otherwise the largest usage without weights.
        heap_is_in_maximum: The largest usage without weights includes JVM heap.
        drops_over_limit: ThresholdShedder ignores resources above 100% of their limit when the
            weighted maximum is above it.
        uniform_is_joint: UniformLoadShedder takes one pair of brokers for both measures, which a
            higher rate or a higher throughput replaces.
        uniform_skips_single: UniformLoadShedder does not look at brokers with one bundle or none.
        uniform_rate_slack: Amount by which a bundle may exceed the rest, msg/s.
        uniform_throughput_slack: The same, bytes/s.
        avg_ranks_by_points: AvgShedder ranks brokers less than one point apart as equal.
        transfer_moves_idle: TransferShedder moves bundles without traffic, too.
        transfer_counts_bytes: TransferShedder calls a broker underloaded when its traffic is under
            1 byte/s; otherwise when it is far below that of the busiest broker.
        sheds_system_namespace: Strategies of the modular manager pick bundles of ``pulsar/system``.
        splits_need_second: The modular manager splits bundles only where there is a second broker.
        placement_forgets_idle: LeastResourceUsageWithWeight starts again with a broker that has no
            bundles or no messages; otherwise it goes on smoothing that broker's usage.
        names_destination: The leader chooses the destination of an unload; otherwise the bundle
            goes where the next lookup places it.
        checks_policies: The leader unloads only bundles that another broker may own by policy.
    """

    heap_is_weighed: bool
    overload_is_weighted: bool
    heap_is_in_maximum: bool
    drops_over_limit: bool
    uniform_is_joint: bool
    uniform_skips_single: bool
    uniform_rate_slack: float
    uniform_throughput_slack: float
    avg_ranks_by_points: bool
    transfer_moves_idle: bool
    transfer_counts_bytes: bool
    sheds_system_namespace: bool
    splits_need_second: bool
    placement_forgets_idle: bool
    names_destination: bool
    checks_policies: bool

    @classmethod
    def at(cls, number: Number) -> Self:
        """Return the rules of a version."""
        found: dict[str, Any] = {
            name: value_at(history, number) for name, history in RULE_HISTORY.items()
        }
        return cls(**found)


_JOINT: Final = {"2.10": True, "2.11.3": False, "3.0": True, "3.0.2": False}
RULE_HISTORY: Final[Mapping[str, Mapping[str, bool | float]]] = MappingProxyType(
    {
        "heap_is_weighed": {"2.8": True, "3.0": False},
        "overload_is_weighted": {"2.8": False, "4.0": True},
        "heap_is_in_maximum": {"2.8": True, "2.9.5": False, "2.10": True, "2.10.2": False},
        "drops_over_limit": dict.fromkeys(("2.8", "2.10", "2.10.4"), False)
        | dict.fromkeys(("2.9.5", "2.10.2"), True),
        "uniform_is_joint": {**_JOINT, "3.1": True, "3.1.1": False},
        "uniform_skips_single": {"2.10": True, "2.11": False},
        "uniform_rate_slack": {"2.10": 1000.0, "4.1": 0.0},
        "uniform_throughput_slack": {
            "2.10": 0.0,
            "2.11.3": 1000.0,
            "3.0": 0.0,
            "3.0.2": 1000.0,
            "3.1": 0.0,
            "3.1.1": 1000.0,
            "4.1": 0.0,
        },
        "avg_ranks_by_points": {"3.0.6": True, "4.0.8": False, "4.1": True, "4.1.2": False},
        "transfer_moves_idle": {"3.0": True, "3.3.3": False, "4.0": True, "4.0.1": False},
        "transfer_counts_bytes": {"3.0": True, "3.0.5": False, "3.1": True, "3.2.3": False},
        "sheds_system_namespace": {"2.8": True, "2.11": False, "2.11.1": True},
        "splits_need_second": {
            "2.8": False,
            "2.10.5": True,
            "2.11": False,
            "2.11.2": True,
            "3.0": False,
            "3.0.1": True,
        },
        "placement_forgets_idle": {"2.11": False, "3.0": True},
        "names_destination": {"2.8": False, "3.0.2": True},
        "checks_policies": {"2.8": False, "2.11": True},
    }
)
"""Each field of :class:`Rules` to its values by the first version that has them."""


class OldRule(NamedTuple):
    """Behavior of older releases by a rule.

    Attributes:
        strategy: The only shedding strategy that goes by it; empty: all do.
        clause: What the strategy, or all, do.
    """

    strategy: str
    clause: str

    @property
    def sentence(self) -> str:
        """The clause with its strategy."""
        return f"{self.strategy} {self.clause}".strip()


RULES: Final[Mapping[str, OldRule]] = {
    "drops_over_limit": OldRule("ThresholdShedder", "drops resources above 100% of their limit"),
    "uniform_is_joint": OldRule(
        "UniformLoadShedder", "compares the rate of one broker with another's traffic"
    ),
    "uniform_skips_single": OldRule("UniformLoadShedder", "skips brokers with one bundle or none"),
    "uniform_rate_slack": OldRule("UniformLoadShedder", "selects up to 1,000 msg/s too much"),
    "uniform_throughput_slack": OldRule(
        "UniformLoadShedder", "selects up to 1,000 bytes/s too much"
    ),
    "avg_ranks_by_points": OldRule(
        "AvgShedder", "ranks brokers less than one point apart as equal"
    ),
    "transfer_moves_idle": OldRule("TransferShedder", "moves bundles without traffic"),
    "transfer_counts_bytes": OldRule("TransferShedder", "fills only brokers without any traffic"),
    "sheds_system_namespace": OldRule("", "bundles of pulsar/system are never shed"),
    "placement_forgets_idle": OldRule(
        "", "LeastResourceUsageWithWeight drops the history of an idle broker"
    ),
    "names_destination": OldRule("", "an unload goes wherever the next lookup places it"),
    "checks_policies": OldRule(
        "", "bundles are unloaded although policies return them to their broker"
    ),
    "overload_is_weighted": OldRule("", "resource weights are not used for the overload limit"),
    "heap_is_weighed": OldRule("", "JVM heap counts in the usage of a broker"),
    "heap_is_in_maximum": OldRule("", "JVM heap counts for the overload limit"),
}
"""The rules of :class:`Rules` that change what a balancer decides, by field."""

_AVG_SHEDDER: Final = {
    "2.8": False,
    "3.0.6": True,
    "3.1": False,
    "3.2.4": True,
    "3.3": False,
    "3.3.1": True,
}
CLASS_HISTORY: Final[Mapping[str, Mapping[str, bool]]] = MappingProxyType(
    {
        "UniformLoadShedder": {"2.8": False, "2.10": True},
        "AvgShedder": _AVG_SHEDDER,
        "TransferShedder": {"2.8": False, "3.0": True},
        "LeastResourceUsageWithWeight": {"2.8": False, "2.11": True},
        "RoundRobinBrokerSelector": {"2.8": False, "3.0": True},
    }
)
"""Strategy classes that older releases do not have; every other class is in every release."""


@dataclass(frozen=True, slots=True)
class Release:
    """The release whose defaults and rules apply.

    Attributes:
        line: One of :data:`RELEASES`.
        number: Version within the line.
        reported: Text of the version; ``None`` if no broker reports one.
        is_known: Whether the text names a version of :data:`RELEASES`.
    """

    line: str
    number: Number
    reported: str | None
    is_known: bool

    @classmethod
    def of(cls, version: str | None) -> Release:
        """Return the release of a broker's version, or of a line.

        An unknown version takes the newest line that is not newer, or the oldest line; a text
        without a version takes :data:`NEWEST_STABLE`.

        Example:
            >>> Release.of("2.8.4").line, Release.of("3.0.12").line, Release.of("6.0").line
            ('2.8', '3.0', '5.0')
        """
        return _release_of(version)

    @property
    def name(self) -> str:
        """Version whose rules apply, for example ``4.0.8``."""
        return ".".join(map(str, self.number))

    @property
    def rules(self) -> Rules:
        """Rules of the load manager."""
        return _rules_at(self.number)

    @property
    def warning(self) -> str:
        """Sentence on an unknown release; empty when the release is known."""
        if self.is_known:
            return ""
        if self.reported is None:
            return f"No broker reports its release: the rules of {self.line} are assumed."
        return f"Release {self.reported} is unknown: the rules of {self.line} are assumed."

    @property
    def label(self) -> str:
        """Short text for a page, for example ``4.2.4`` or ``6.0.1 (unknown, as 5.0)``."""
        if self.is_known:
            return str(self.reported)
        return f"{self.reported or 'not reported'} (unknown, as {self.line})"

    def has_class(self, name: str) -> bool:
        """Return whether the release has a strategy class, by its simple name."""
        history = CLASS_HISTORY.get(name)
        return True if history is None else value_at(history, self.number)


@functools.lru_cache(maxsize=256)
def _release_of(version: str | None) -> Release:
    match = _VERSION.match(version or "")
    if match is None:
        line = NEWEST_STABLE
        return Release(
            line, version_number(REFERENCE_VERSIONS[line]), version or None, is_known=False
        )
    wanted = (int(match[1]), int(match[2]))
    lines = {version_number(line)[:2]: line for line in RELEASES}
    if wanted in lines:
        line = lines[wanted]
        number = (*wanted, int(match[3])) if match[3] else version_number(REFERENCE_VERSIONS[line])
        return Release(line, number, version, is_known=True)
    older = [number for number in lines if number <= wanted]
    line = lines[older[-1] if older else min(lines)]
    return Release(line, version_number(REFERENCE_VERSIONS[line]), version, is_known=False)


@functools.cache
def _rules_at(number: Number) -> Rules:
    return Rules.at(number)


def releases_with(history: Mapping[str, bool]) -> str:
    """Return the releases that have something, for example ``4.0.11 and later``.

    Args:
        history: First version of each state to whether it exists from there on.

    Example:
        >>> releases_with({"2.8": False, "3.0.6": True, "3.1": False, "3.2.4": True})
        '3.0 from 3.0.6, 3.2.4 and later'
    """
    spans = [_span(history, line) for line in RELEASES]
    last = len(spans)
    while last and spans[last - 1] == RELEASES[last - 1]:
        last -= 1
    if last and " from " in spans[last - 1] and last < len(spans):
        last -= 1
    parts = [span for span in spans[:last] if span]
    if last < len(spans):
        parts.append(f"{spans[last].rpartition(' ')[2]} and later")
    return ", ".join(parts) or "no release"


def _span(history: Mapping[str, bool], line: str) -> str:
    """Return the line, the line with its first version that has it, or nothing."""
    major, minor, _ = version_number(line)
    if value_at(history, (major, minor, 0)):
        return line
    versions = sorted(map(version_number, history))
    for number in versions:
        if number[:2] == (major, minor) and value_at(history, number):
            return f"{line} from {'.'.join(map(str, number))}"
    return ""
