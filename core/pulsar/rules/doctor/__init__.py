"""The settings doctor: what contradicts, what differs, what cannot be right, and the fix of each.

| module | about |
|---|---|
| ``model`` | areas and fixes |
| ``contradictions`` | settings against each other: :mod:`core.pulsar.rules.combinations` |
| ``file_keys`` | keys and values of a configuration file |
| ``alike``, ``groups`` | brokers against each other |
| ``capacity`` | limits of network, CPU and memory |
| ``host_load`` | load that messages do not explain |
| ``policies`` | settings against policies and load |
| ``recorded`` | metrics against the recorded history |

A new rule: a generator from the health context in the fitting module, its place in that module's
``RULES``, and two cases in ``tests/unit/core/pulsar/rules/test_doctor.py``, one that it fires on
and one that it does not.
"""

from __future__ import annotations

from core.pulsar.rules.doctor.examine import DOCTOR_RULES, Examination, examine
from core.pulsar.rules.doctor.model import AREAS

__all__ = ["AREAS", "DOCTOR_RULES", "Examination", "examine"]
