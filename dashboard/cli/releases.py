"""The settings that a command uses, with warnings on what the release does not have."""

from __future__ import annotations

from collections.abc import Mapping

from core.pulsar.settings import EffectiveSettings, effective_settings
from core.snapshot import PulsarSnapshot
from dashboard.cli.output import warn


def active_settings(
    snapshot: PulsarSnapshot,
    overrides: Mapping[str, object] | None = None,
    release: str | None = None,
) -> EffectiveSettings:
    """Return the settings of a cluster, and warn of an unknown release and of dead values.

    Args:
        snapshot: The cluster.
        overrides: ``{key: value}`` to assume.
        release: Line or version to assume; ``None``: the brokers' own.

    Raises:
        UnknownNameError: A release or an override that does not exist.
        InputError: An override of the wrong type.
    """
    settings = effective_settings(snapshot, overrides=overrides, release=release)
    for sentence in settings.release_warnings:
        warn(sentence)
    return settings
