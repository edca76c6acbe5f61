"""The lines of the command line that show, or prepare, what the Balance page shows."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final

from core.pegasus.balance.model import BalanceOptions
from core.pegasus.plan.build import AskedMove
from dashboard.rebalancing_pegasus import EvenWish, Measure

_BY: Final[dict[Measure, str]] = {
    "primaries": "primaries",
    "replicas": "count",
    "disk": "disk",
    "requests": "qps",
    "capacity units": "cu",
}
_SWITCHES: Final = (
    "only_move_primary",
    "only_primary_balancer",
    "balancer_in_turn",
    "intended_skew",
    "balance_op_count_per_round",
)


def policy_line(snapshot: Path, options: BalanceOptions, here: BalanceOptions) -> str:
    """Return the line that shows a policy's rounds to the end.

    Args:
        snapshot: The directory of the kept snapshot.
        options: The policy with its switches.
        here: The cluster's own.
    """
    line = ["trimtab", "pegasus", "balance", str(snapshot), "--rounds", "0"]
    if options.policy != here.policy:
        line += ["--policy", options.policy]
    for name in _SWITCHES:
        value = getattr(options, name)
        if value != getattr(here, name):
            line += ["--set", f"{name}={json.dumps(value)}"]
    if options.ignored_app_ids != here.ignored_app_ids:
        ids = json.dumps(sorted(options.ignored_app_ids), separators=(",", ":"))
        line += ["--set", f"ignored_app_list={ids}"]
    return shlex.join(line)


def even_line(cluster: str, wish: EvenWish) -> str:
    """Return the line that prepares the plan of our own planner."""
    line = ["trimtab", "pegasus", "even", cluster, "--by", _BY[wish.measure]]
    line += ["--within", f"{wish.within * 100:g}"]
    if wish.max_steps is not None:
        line += ["--moves", str(wish.max_steps)]
    return shlex.join(line if wish.may_copy else [*line, "--no-copy"])


def move_line(cluster: str, asked: AskedMove, *, is_held: bool) -> str:
    """Return the line that prepares one move by hand."""
    line = ["trimtab", "pegasus", "move", cluster, asked.gpid, asked.move]
    line += ["--from", asked.source, "--to", asked.target]
    return shlex.join([*line, "--steady"] if is_held else line)
