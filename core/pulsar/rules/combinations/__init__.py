"""Settings that do not go together: each is sound by itself, and the pair does harm.

| module | about |
|---|---|
| ``measures`` | shedding by one measure and placing by another; classes of the other manager |
| ``shedding`` | thresholds, weights and shares of the shedders |
| ``clocks`` | periods of rounds, reports and numbers |
| ``bundles`` | numbers and splits of bundles |
| ``keys`` | look-alike keys, unread keys, stored keys without effect |
| ``storage`` | retention, time to live, ledgers |

A new rule: a generator in the fitting module, its place in that module's ``RULES``, and two cases
in ``tests/unit/core/pulsar/rules/test_combinations.py``, one that it fires on and one that it does
not.
"""

from __future__ import annotations

from typing import Final

from core.findings.engine import Rule, run_rules
from core.findings.finding import Finding
from core.pulsar.rules.combinations import bundles, clocks, keys, measures, shedding, storage
from core.pulsar.rules.combinations.measures import unpaired_avg_shedder
from core.pulsar.rules.combinations.model import Case
from core.pulsar.settings import EffectiveSettings
from core.snapshot import LoadManager

__all__ = ["combinations", "unpaired_avg_shedder"]

RULES: Final[tuple[Rule[Case], ...]] = (
    *measures.RULES,
    *shedding.RULES,
    *keys.RULES,
    *clocks.RULES,
    *bundles.RULES,
    *storage.RULES,
)


def combinations(settings: EffectiveSettings, load_manager: LoadManager) -> tuple[Finding, ...]:
    """Return harmful combinations of settings, warnings first.

    Args:
        load_manager: Which one decides; the modular one's rules hold where it is unknown.
    """
    return run_rules(RULES, Case(settings, load_manager), limit=None)
