"""Shedding is switched off, for the cluster or for namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.diagnosis.pulsar.context import Candidate, DiagnosisContext, with_setting
from core.diagnosis.pulsar.trials import NOTHING

_POLICED: Final = "loadBalancerSheddingBundlesWithPoliciesEnabled"
_EXCLUDED: Final = "loadBalancerSheddingExcludedNamespaces"


def shedding_off(context: DiagnosisContext) -> Iterator[Candidate]:
    """The switch of the load balancer, or of shedding, is off."""
    off = context.settings.shedding_off
    if context.base is not NOTHING:
        yield Candidate(
            code="shedding_off",
            keys=off,
            summary=f"Shedding is off ({', '.join(off)} = false): no bundle is shed.",
            changes=(context.base,),
            tier=-1,
        )


def excluded_namespaces(context: DiagnosisContext) -> Iterator[Candidate]:
    """Namespaces that are excluded from shedding hold the load."""
    names = context.settings.names(_EXCLUDED)
    if names and _EXCLUDED in context.reads():
        yield Candidate(
            code="namespaces_excluded",
            keys=(_EXCLUDED,),
            objects=names,
            summary=f"{_EXCLUDED} holds {', '.join(names[:3])}: their bundles are never shed.",
            changes=with_setting(context, _EXCLUDED, []),
        )


def policed_bundles(context: DiagnosisContext) -> Iterator[Candidate]:
    """Bundles of namespaces with a policy hold the load, and the strategy moves none of them."""
    if _POLICED not in context.strategy.deciding or context.settings.flag(_POLICED):
        return
    view = context.view
    is_policed = (view.namespace_policy >= 0) | (view.namespace_group >= 0)
    names = tuple(name for name, row in view.namespace_index.items() if is_policed[row])
    if names:
        yield Candidate(
            code="policed_bundles",
            keys=(_POLICED,),
            objects=names,
            summary=f"{_POLICED} is false: bundles of {', '.join(names[:3])} (isolation policy or "
            "anti-affinity group) are never transferred.",
            changes=with_setting(context, _POLICED, True),  # noqa: FBT003  # a value, no argument
        )
