"""How the collecting and recording of a cluster is doing, for pages, commands and alerts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

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
        rolled_up_to: Start of the first hour that is not in the tier of hours; ``None`` before the
            first turn.
        hours_due: Hours that were due after the last turn.
        tier_rows: Rows of hours and days written since the collector started.
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
    rolled_up_to: str | None = None
    hours_due: int = 0
    tier_rows: int = 0


class _Failure(msgspec.Struct):
    message: str = ""


class _History(msgspec.Struct):
    last_minute_at: datetime | None = None
    rolled_up_to: datetime | None = None
    hours_due: int = 0


class _Outcome(msgspec.Struct):
    last_error: _Failure | None = None
    history: _History | None = None


def last_collect_error(config: TrimtabConfig, cluster: str) -> str:
    """Return the message of the collector's last failure; empty: it reported none.

    A later success does not clear it.
    """
    error = _outcome(config, cluster).last_error
    return error.message if error else ""


def pipeline_lag_s(config: TrimtabConfig, cluster: str, now: datetime) -> float | None:
    """Return the time since the end of the first recorded hour that is not rolled up, s.

    Returns:
        0 if that hour is not over or has no minute; ``None`` if the collector reported no turn of
        the pipeline.
    """
    found = _outcome(config, cluster).history
    if not config.pipeline.is_enabled or found is None or found.rolled_up_to is None:
        return None
    is_recorded = found.last_minute_at is not None and found.last_minute_at >= found.rolled_up_to
    if not found.hours_due and not is_recorded:
        return 0.0
    return max(0.0, (now - found.rolled_up_to).total_seconds() - 3_600)


def _outcome(config: TrimtabConfig, cluster: str) -> _Outcome:
    path = config.state_dir / "collectors" / f"{cluster}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Outcome)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Outcome()
