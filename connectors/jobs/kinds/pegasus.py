"""Jobs on Pegasus clusters: what the balancer would propose."""

from __future__ import annotations

from typing import Final

import pyarrow.compute as pc

from connectors.jobs.kinds.fleet import FleetScope, answers_of, counted_answer, write
from connectors.jobs.model import JobAnswer, JobContext, JobKind, ScopedRequest
from core.pegasus.balance.request import BalanceRequest
from core.spark.fleet import FleetRequest
from core.spark.pegasus.jobs.balance import BALANCE
from core.units import pluralize


def _balance(context: JobContext, job: ScopedRequest) -> JobAnswer:
    found = answers_of(context, job.scope, FleetRequest(BALANCE, job.request), "pegasus")
    write(context, found)
    plans = pc.sum(found["balances"]["plans"]).as_py() or 0
    return counted_answer(
        found,
        "balances",
        f"the meta servers would execute {pluralize(plans, 'plan')}.",
        {
            "balances": "Rounds and plans of each cluster, and the spread before and after.",
            "plans": "Every partition that changes, round by round.",
        },
    )


KINDS: Final = (
    JobKind(
        name="balance",
        title="What the Pegasus balancers would propose",
        answers="Which replicas would move in each Pegasus cluster, round by round?",
        scope=FleetScope,
        request=BalanceRequest,
        run=_balance,
        system="pegasus",
    ),
)
