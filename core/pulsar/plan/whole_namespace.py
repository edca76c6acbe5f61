"""A plan that unloads all bundles of a namespace: every client of it looks its topic up again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow.compute as pc

from core.ids import namespace_of
from core.plan.model import Diagnostic
from core.pulsar.plan.checks import Basis
from core.pulsar.plan.clients import client_impact
from core.pulsar.steps.unload import UnloadBundle

CODE: Final = "whole_namespace"
_FEWEST: Final = 2


def check_whole_namespaces(basis: Basis, steps: Sequence[UnloadBundle]) -> Iterator[Diagnostic]:
    """Warn of every namespace of which the plan unloads each bundle that has an owner.

    A namespace with a single owned bundle cannot be unloaded in any other way.

    Args:
        basis: What the plan is made on.
        steps: Of the plan.
    Source:
        The vivo report: a namespace-wide unload makes all of its clients look up at once.
    """
    taken: dict[str, list[str]] = {}
    for step in steps:
        taken.setdefault(namespace_of(step.bundle), []).append(step.bundle)
    bundles = basis.snapshot.bundles
    for namespace, names in taken.items():
        if len(names) < _FEWEST:
            continue
        own = bundles.filter(pc.equal(bundles["namespace"], namespace))
        if len(names) < own.num_rows - own["owner"].null_count:
            continue
        rows = np.array([basis.view.bundle_row(name) for name in names], np.int64)
        clients = client_impact(bundles, rows).clients
        who = "all of its clients" if clients is None else f"all of its {clients:,} clients"
        yield Diagnostic(
            severity="warning",
            code=CODE,
            sentence=f"The plan unloads every owned bundle of {namespace} ({len(names)}): {who} "
            "look their topics up again.",
            subject=namespace,
            hint="Apply it at a slow pace, or in parts; the Advisors page shows both with each "
            "other (trimtab advise lookups).",
        )
