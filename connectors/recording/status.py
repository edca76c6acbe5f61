"""How the collecting and recording of a cluster is doing, for pages, commands and alerts."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from connectors.config.model import TrimtabConfig


@dataclass(slots=True, kw_only=True)
class RecordingStatus:
    """Status of a cluster's recorder. Times are ISO 8601, UTC.

    Attributes:
        place: Where the history is.
        minutes: Minutes recorded since the collector started.
        last_minute_at: The newest of them.
        last_rows: Rows that it took.
        last_events: Events among them.
        last_duration_s: How long writing it took.
        bytes: Size of the cluster's history when it was last put in order.
        is_standby: Another collector records the cluster in this history; this one waits.
        missed: Snapshots that were not recorded, because writing failed or took too long.
        last_error_at: Moment of the last failure; a later success does not clear it.
        last_error: ``{"code", "message", "hint"}`` of it.
        upkeep_at: When small files were last put together and old days dropped.
        upkeep_error: The same of the last failure of that; ``None`` after a success.
        upkeep_paused: Why nothing is put together and dropped for now; empty: it is.
    """

    place: str
    minutes: int = 0
    last_minute_at: str | None = None
    last_rows: int | None = None
    last_events: int | None = None
    last_duration_s: float | None = None
    bytes: int | None = None
    is_standby: bool = False
    missed: int = 0
    last_error_at: str | None = None
    last_error: dict[str, str] | None = None
    upkeep_at: str | None = None
    upkeep_error: dict[str, str] | None = None
    upkeep_paused: str = ""


class _Failure(msgspec.Struct):
    message: str = ""


class _Outcome(msgspec.Struct):
    last_error: _Failure | None = None


def last_collect_error(config: TrimtabConfig, cluster: str) -> str:
    """Return the message of the collector's last failure; empty: it reported none.

    A later success does not clear it.
    """
    path = config.state_dir / "collectors" / f"{cluster}.json"
    try:
        outcome = msgspec.json.decode(path.read_bytes(), type=_Outcome)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return outcome.last_error.message if outcome.last_error else ""
