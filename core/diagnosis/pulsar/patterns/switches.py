"""Shedding is switched off, for the cluster or for namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.diagnosis.pulsar.context import Candidate, DiagnosisContext, with_setting
from core.diagnosis.pulsar.trials import NOTHING

_EXCLUDED: Final = "loadBalancerSheddingExcludedNamespaces"


def shedding_off(context: DiagnosisContext) -> Iterator[Candidate]:
    """The switch of the load balancer, or of shedding, is off."""
    off = context.settings.shedding_off
    if context.base is not NOTHING:
        yield Candidate(
            code="shedding_off",
            keys=off,
            summary=f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} false: "
            "no bundle is shed.",
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
