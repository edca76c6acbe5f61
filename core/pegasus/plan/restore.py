"""What must not be put back: a share of living nodes at which the cluster would freeze."""

from __future__ import annotations

from core.actions.session import Session
from core.actions.views import SettingView
from core.pegasus.server_settings import LIVE_PERCENTAGE
from core.pegasus.snapshot import PegasusFacts
from core.snapshot import PegasusSnapshot


def why_left(session: Session, saved: SettingView, by_hand: str) -> str:
    """Return why a setting is left as the run has made it; empty: it can be put back.

    Args:
        session: The run.
        saved: A setting that the run changed for its time.
        by_hand: The line of the shell that puts it back.
    Raises:
        RemoteError: The cluster cannot be read.
        SnapshotError: It tells too little.
    """
    share = saved.before or ""
    if saved.key != LIVE_PERCENTAGE or not share.isdecimal():
        return ""
    snapshot = session.ports.cluster.snapshot()
    if not isinstance(snapshot, PegasusSnapshot):
        return ""
    nodes = PegasusFacts(snapshot).nodes
    alive = sum(node.is_alive for node in nodes)
    if alive * 100 >= int(share) * len(nodes):
        return ""
    return (
        f"{saved.key} is left at {saved.during}: with {alive} of {len(nodes)} nodes alive {share} "
        "would freeze the cluster. After a restart of the meta servers it is as configured, and "
        f"nodes that left are forgotten; by hand: {by_hand}"
    )
