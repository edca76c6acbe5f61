"""Known defects of Pulsar's brokers, and the version of each release line that fixes them.

Source: issues, pull requests and release notes of apache/pulsar, by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.pulsar.releases import Number, Release, version_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A defect that operators met, and where it is fixed.

    Attributes:
        code: Stable word.
        effect: What happens, a clause with its subject.
        reports: Numbers of the issues and pull requests.
        since: Oldest version that it was reported of.
        fixed: First version of each line that has the fix, oldest first. A line between two of
            these lines that is not named never got the fix; later lines have it.
    """

    code: str
    effect: str
    reports: tuple[int, ...]
    since: str
    fixed: tuple[str, ...]

    def is_in(self, number: Number) -> bool:
        """Return whether a version has the defect."""
        return number >= version_number(self.since) and not self.is_fixed_in(number)

    def is_fixed_in(self, number: Number) -> bool:
        """Return whether a version has the fix."""
        fixes = [version_number(version) for version in self.fixed]
        of_line = [fix for fix in fixes if fix[:2] == number[:2]]
        return number >= (of_line[0] if of_line else fixes[-1])

    def fixed_for(self, number: Number) -> tuple[str, ...]:
        """Return the versions that fix it, of the same line where that has the fix; else all."""
        line = [one for one in self.fixed if version_number(one)[:2] == number[:2]]
        return tuple(line) or tuple(one for one in self.fixed if version_number(one) > number)


UNLOAD_STOPS: Final = "unload_stops"
LEADER_FOLLOWS: Final = "leader_follows"
REGISTRATION_STAYS: Final = "registration_stays"
UNLOAD_HANGS: Final = "unload_hangs"
ASSIGNING_STAYS: Final = "assigning_stays"
HEARTBEAT_MISPLACED: Final = "heartbeat_misplaced"
SPLIT_KEEPS_PARENT: Final = "split_keeps_parent"
SPLIT_OF_ONE_TOPIC: Final = "split_of_one_topic"

DEFECTS: Final = {
    one.code: one
    for one in (
        Defect(
            code=UNLOAD_STOPS,
            effect="an incomplete unload leaves its bundle disabled",
            reports=(11920, 16327, 21445),
            since="2.8.0",
            fixed=("2.10.6", "2.11.3", "3.0.2", "3.1.2"),
        ),
        Defect(
            code=LEADER_FOLLOWS,
            effect="the elected leader acts as a follower",
            reports=(23125, 23138),
            since="2.8.0",
            fixed=("2.11.5", "3.0.7", "3.1.4", "3.2.5", "3.3.2"),
        ),
        Defect(
            code=REGISTRATION_STAYS,
            effect="the registration of a dead broker remains as a non-ephemeral znode",
            reports=(23889, 23984, 23988),
            since="3.0.0",
            fixed=("3.0.10", "3.3.5", "4.0.3"),
        ),
        Defect(
            code=UNLOAD_HANGS,
            effect="an unload can hang in Releasing",
            reports=(20157, 21332),
            since="3.0.0",
            fixed=("3.0.2", "3.1.2"),
        ),
        Defect(
            code=ASSIGNING_STAYS,
            effect="a restarted broker ignores a bundle in state Assigning",
            reports=(25379,),
            since="3.0.0",
            fixed=("4.0.10", "4.2.0"),
        ),
        Defect(
            code=HEARTBEAT_MISPLACED,
            effect="the heartbeat bundle of a restarted broker is assigned to another broker",
            reports=(21213, 21083),
            since="3.0.0",
            fixed=("3.0.2", "3.1.2"),
        ),
        Defect(
            code=SPLIT_KEEPS_PARENT,
            effect="a split does not release the ownership of the parent bundle",
            reports=(13677, 13678),
            since="2.9.0",
            fixed=("2.9.2",),
        ),
        Defect(
            code=SPLIT_OF_ONE_TOPIC,
            effect="a bundle with one busy topic is split again and again",
            reports=(11937, 12527),
            since="2.7.0",
            fixed=("2.8.2", "2.9.1"),
        ),
    )
}
"""Each defect by its code."""


def defect_words(code: str, release: Release) -> str:
    """Return the versions with the fix, for a sentence about a cluster.

    Args:
        code: Key of :data:`DEFECTS`.
        release: Of the cluster.
    Raises:
        KeyError: There is no such defect.

    Example:
        >>> defect_words(UNLOAD_STOPS, Release.of("3.0.1"))
        'fixed in 3.0.2 (this is 3.0.1)'
        >>> defect_words(UNLOAD_STOPS, Release.of("4.0.8"))
        'this release has the fix'
    """
    defect = DEFECTS[code]
    if not release.is_known:
        name = (
            f" (this is {release.reported})"
            if release.reported
            else "; no broker reports a version"
        )
        return f"fixed in {_listed(defect.fixed)}{name}"
    if defect.is_fixed_in(release.number):
        return "this release has the fix"
    return f"fixed in {_listed(defect.fixed_for(release.number))} (this is {release.name})"


def defect_note(code: str, release: Release) -> str:
    """Return a sentence on a defect that a release has; blank: the release does not have it.

    Example:
        >>> defect_note(UNLOAD_HANGS, Release.of("3.1.0"))
        'An unload can hang in Releasing: fixed in 3.1.2 (this is 3.1.0).'
    """
    defect = DEFECTS[code]
    if release.is_known and not defect.is_in(release.number):
        return ""
    effect = f"{defect.effect[0].upper()}{defect.effect[1:]}"
    return f"{effect}: {defect_words(code, release)}."


def _listed(versions: tuple[str, ...]) -> str:
    *first, last = versions
    return f"{', '.join(first)} and {last}" if first else last
