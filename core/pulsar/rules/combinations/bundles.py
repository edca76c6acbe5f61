"""Numbers and splits of bundles that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.findings.engine import Rule
from core.findings.finding import Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.rules.combinations.model import PLACEMENT, Case

_SPLIT: Final = "loadBalancerAutoBundleSplitEnabled"
_UNLOAD_PARTS: Final = "loadBalancerAutoUnloadSplitBundlesEnabled"
_EVENLY: Final = "loadBalancerDistributeBundlesEvenlyEnabled"
_FIRST: Final = "defaultNumberOfNamespaceBundles"
_MAX: Final = "loadBalancerNamespaceMaximumBundles"
_ALGORITHM: Final = "defaultNamespaceBundleSplitAlgorithm"
_ALLOWED: Final = "supportedNamespaceBundleSplitAlgorithms"


def evenly(case: Case) -> Iterator[Finding]:
    """The number of bundles decides before their load."""
    if case.settings.flag(_EVENLY) and not case.is_extensible:
        yield Finding(
            code="count_before_load",
            title="Placement counts bundles before load",
            measured=Quantity("true"),
            limit=Quantity("false"),
            severity="info",
            keys=(_EVENLY, PLACEMENT),
            sentence=f"{_EVENLY} is true: before the placement strategy runs, brokers with "
            "more bundles of the namespace than others are excluded.",
            consequence="The bundle count takes precedence over load.",
        )


def parts(case: Case) -> Iterator[Finding]:
    """Placement of the parts of an automatic split."""
    settings = case.settings
    if case.is_extensible or not settings.flag(_SPLIT):
        return
    if settings.flag(_UNLOAD_PARTS):
        yield Finding(
            code="split_unloads",
            title="Automatic split unloads its parts",
            measured=Quantity("true"),
            limit=Quantity("false"),
            severity="info",
            keys=(_SPLIT, _UNLOAD_PARTS),
            sentence="An automatic split unloads its parts.",
            consequence="The clients of a busy bundle reconnect when it is busiest.",
            hint="With false the parts stay, and shedding moves one when necessary.",
            fix=Fix(wanted={_UNLOAD_PARTS: False}),
        )
        return
    never_shed = bool(settings.shedding_off)
    yield Finding(
        code="split_stays",
        title="Split bundles stay on their broker",
        severity="warning" if never_shed else "info",
        keys=(_SPLIT, _UNLOAD_PARTS, *settings.shedding_off),
        sentence="Bundles are split automatically and their parts stay where they are"
        + (f"; {settings.shedding_off[0]} is false." if never_shed else "."),
        consequence="Nothing moves the parts: splits increase the bundle count and relieve "
        "no broker."
        if never_shed
        else "A split alone relieves no broker; shedding has to move a part in a later round.",
        hint="Unload the parts, enable shedding, or disable splits." if never_shed else "",
        fix=Fix(wanted={_UNLOAD_PARTS: True} if never_shed else {}),
    )


def born_full(case: Case) -> Iterator[Finding]:
    """Namespaces that are created with all the bundles there may be."""
    first, most = case.number(_FIRST), case.number(_MAX)
    if case.settings.flag(_SPLIT) and 0 < most <= first:
        yield Finding(
            code="bundles_start_full",
            title="New namespaces start at the split limit",
            measured=Quantity(first, "bundles"),
            limit=Quantity(most, "bundles"),
            severity="warning",
            keys=(_FIRST, _MAX, _SPLIT),
            sentence=f"A new namespace gets {first:g} bundles, and automatic splits stop at "
            f"{most:g}.",
            consequence="No bundle of such a namespace is ever split, however hot it gets.",
            hint="Allow several times the number of bundles that namespaces start with.",
            fix=Fix(wanted={_MAX: max(128, round(4 * first))}),
        )


def split_algorithm(case: Case) -> Iterator[Finding]:
    """An algorithm that is the default, and not among those allowed."""
    default, allowed = case.settings.text(_ALGORITHM), case.settings.names(_ALLOWED)
    if default not in allowed:
        yield Finding(
            code="split_refused",
            title="Default split algorithm is not allowed",
            measured=Quantity(default or "(empty)"),
            limit=Quantity(", ".join(allowed) or "nothing"),
            severity="info",
            keys=(_ALGORITHM, _ALLOWED),
            sentence=f"{_ALGORITHM} is {default or '(empty)'}; {_ALLOWED} has "
            f"{', '.join(allowed) or 'nothing'}.",
            consequence="Automatic splits use it, but a request with the same algorithm is "
            "refused.",
            hint="Choose one that is allowed.",
            fix=Fix(wanted={_ALGORITHM: allowed[0]} if allowed else {}),
        )


RULES: Final[tuple[Rule[Case], ...]] = (evenly, parts, born_full, split_algorithm)
