"""The input of operations: a snapshot with everything derived from it, of either system.

Modules are imported when a cluster of their system is read: commands must start fast, and that of
one system needs nothing of another.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.system import Snapshot


class Assumed(NamedTuple):
    """Settings and release that a what-if assumes instead of the cluster's own.

    Attributes:
        settings: Upstream key to typed value; ``None``: none.
        release: Release line or version; ``None``: the cluster's own.
    """

    settings: Mapping[str, object] | None = None
    release: str | None = None


NOTHING_ASSUMED: Final = Assumed()


def facts_module(kind: str) -> Any:
    """Return the module with a system's ``load``, ``facts`` and ``assumed``."""
    return import_module(f"core.{kind}.facts")


def facts_of(
    snapshot: Snapshot, assumed: Assumed = NOTHING_ASSUMED, earlier: Sequence[Snapshot] = ()
) -> Any:
    """Return the facts of a snapshot.

    Args:
        snapshot: Of any system with operations.
        assumed: Settings and release instead of the cluster's own.
        earlier: Snapshots of the cluster before it, oldest first.
    """
    return facts_module(snapshot.manifest.kind).facts(snapshot, assumed, earlier)


def release_warnings(facts: Any) -> Sequence[str]:
    """Return what is doubtful about the release of a cluster, in words."""
    warnings: Sequence[str] = getattr(getattr(facts, "settings", None), "release_warnings", ())
    return warnings
