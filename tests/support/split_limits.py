"""The limits of a split as a release has them by default, with some of them changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core.pulsar.settings import EffectiveSettings
from core.pulsar.split import SplitLimits


def split_limits(**changes: Any) -> SplitLimits:
    """Return the default limits with changes."""
    return replace(SplitLimits.of(EffectiveSettings.defaults()), **changes)
