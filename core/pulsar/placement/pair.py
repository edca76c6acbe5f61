"""Strategies that shed and place as a pair: what follows where only one half is configured."""

from __future__ import annotations

from core.pulsar.placement.selectors import PAIRED_NAMES
from core.pulsar.settings import EffectiveSettings

_KEYS = ("loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy")


def half_pair_evidence(settings: EffectiveSettings) -> str:
    """Return the two configured classes of which one requires the other, a sentence."""
    shedder, placement = (settings.text(key).rpartition(".")[2] for key in _KEYS)
    pair = shedder if shedder in PAIRED_NAMES else placement
    return (
        f"Bundles are shed by {shedder} and placed by {placement}: {pair} works "
        "only as a pair, because it plans the destination when it sheds."
    )


def unpaired_outcome(settings: EffectiveSettings) -> str:
    """Return the consequence of configuring only one strategy of the pair, or "".

    Source:
        Pulsar ``ModularLoadManagerImpl``, 4.x: a placement class that sheds too has to be the
        shedding class, else it throws at the start; 5.0: a classic shedder with it means
        ``LeastLongTermMessageRate``.
    """
    shedder, placement = (settings.text(key).rpartition(".")[2] for key in _KEYS)
    if shedder == placement or not {shedder, placement}.intersection(PAIRED_NAMES):
        return ""
    if shedder in PAIRED_NAMES:
        return "Its plan is not used, and bundles are placed elsewhere than planned."
    if settings.release < "5.0":
        return f"With these two a broker of {settings.release} does not start."
    return f"A broker of {settings.release} then places by LeastLongTermMessageRate."


def describe_unpaired(settings: EffectiveSettings) -> str:
    """Return evidence and outcome; empty: both halves, or neither, are configured."""
    outcome = unpaired_outcome(settings)
    return f"{half_pair_evidence(settings)} {outcome}" if outcome else ""
