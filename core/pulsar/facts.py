"""A snapshot of a Pulsar cluster with everything derived from it, each part computed once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from core.facts import NOTHING_ASSUMED, Assumed
from core.pulsar.settings import (
    EffectiveSettings,
    effective_settings,
    find_release,
    parse_set_options,
)
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_snapshot

if TYPE_CHECKING:
    from core.pulsar.measures import Measures


class PulsarFacts:
    """The input of every operation on a Pulsar cluster.

    Args:
        snapshot: The cluster.
        assumed: Settings and release instead of the cluster's own.
        earlier: Snapshots of the cluster before it, oldest first.
    """

    def __init__(
        self,
        snapshot: PulsarSnapshot,
        assumed: Assumed = NOTHING_ASSUMED,
        earlier: Sequence[PulsarSnapshot] = (),
    ) -> None:
        self._given = snapshot
        self.assumed = assumed
        self.earlier = earlier

    @property
    def snapshot(self) -> PulsarSnapshot:
        """The snapshot itself."""
        return self._given

    @cached_property
    def settings(self) -> EffectiveSettings:
        """The settings in force, with their origin.

        Raises:
            UnknownNameError: A release or an override that does not exist.
            InputError: An override of the wrong type.
        """
        return effective_settings(
            self.snapshot, overrides=self.assumed.settings, release=self.assumed.release
        )

    @cached_property
    def view(self) -> LoadView:
        """Integer-coded columns for the kernels."""
        return LoadView.of(self.snapshot, self.settings)

    @cached_property
    def measures(self) -> Measures:
        """Load measures of the brokers."""
        from core.pulsar.measures import measure  # noqa: PLC0415  # commands must start fast

        return measure(self.snapshot, self.settings)


def load(directory: Path) -> PulsarSnapshot:
    """Read a snapshot directory.

    Raises:
        SnapshotError: It is damaged.
    """
    return load_snapshot(directory)


def assumed(settings: Iterable[str], release: str | None) -> Assumed:
    """Return the assumptions of ``--set`` and ``--release``.

    Raises:
        InputError: A key or a release that does not exist, or a value that does not fit.
    """
    values = parse_set_options(settings)
    if release is not None:
        find_release(release)
    return Assumed(values, release)


facts = PulsarFacts
