"""``trimtab leader record``: a cluster's znodes, as the leader works from them, into a file."""

from __future__ import annotations

import threading
from pathlib import Path

from core.units import pluralize
from dashboard.cli.clusters import duration_s
from dashboard.cli.config import configured, led_cluster
from dashboard.cli.output import EXIT_DONE, UsageFaultError, note
from dashboard.cli.supervisor import shutting_down
from dashboard.services import leader


def record(config: Path | None, cluster: str, out: Path, duration: str | None) -> int:
    """Record until the duration is over, or Ctrl-C.

    Raises:
        UsageFaultError: The cluster has no such leader, or an option's value cannot be used.
    """
    for_s = None if duration is None else duration_s(duration)
    if for_s == 0:
        raise UsageFaultError("--for 0 records nothing.", hint="Write 10min, or leave it out.")
    known = led_cluster(configured(config), cluster)

    def begun(count: int) -> None:
        note(f"{cluster}: {pluralize(count, 'znode')} read; recording into {out}. Ctrl-C ends it.")

    with shutting_down(threading.Event()) as stop:
        events = leader.record_leader(known, out, stop, begun, for_s)
    note(f"{out}: {pluralize(events, 'event')}.")
    return EXIT_DONE
