"""What must not be restored: a share of living nodes at which the cluster would freeze."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.actions.views import SettingView
from core.pegasus.levels import FunctionLevel
from core.pegasus.server_settings import CHANGEABLE, LIVE_PERCENTAGE
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.level import LEVEL_KEY
from core.snapshot.pegasus import PegasusSnapshot
from core.units import is_whole

_RESET: Final = "this is its default, which a new or restarted leading meta server uses"


def why_left(saved: SettingView, by_hand: str, take_snapshot: Callable[[], PegasusSnapshot]) -> str:
    """Return the reason a temporary setting cannot be restored, or "".

    Args:
        saved: A setting that the run changed for its time.
        by_hand: The line of the shell that puts it back.
        take_snapshot: Takes a fresh snapshot.
    Raises:
        RemoteError: The cluster cannot be read.
        SnapshotError: It has too little.
    """
    share = saved.before or ""
    if saved.key != LIVE_PERCENTAGE or not is_whole(share):
        return ""
    nodes = PegasusFacts(take_snapshot()).nodes
    alive = sum(node.is_alive for node in nodes)
    if alive * 100 >= int(share) * len(nodes):
        return ""
    return (
        f"{saved.key} stays at {saved.during}: with {alive} of {len(nodes)} nodes "
        f"alive {share} would freeze the cluster. A restart of the meta servers "
        "restores the configured value and drops the nodes that left. To set it "
        f"manually: {by_hand}"
    )


def why_reset(key: str, value: str | None) -> str:
    """Return the clause about a default value of Pegasus servers, or ""."""
    if key == LEVEL_KEY:
        is_default = value == FunctionLevel.STEADY.word
    else:
        found = (one for one in CHANGEABLE if one.key == key.partition("@")[0])
        is_default = any(
            value in (one.shipped, one.setting.default) for one in found if value is not None
        )
    return _RESET if is_default else ""
