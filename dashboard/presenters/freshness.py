"""Is what a page shows fresh and whole? From the manifest and the collector's own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from core.snapshot import Manifest
from core.snapshot.clock import is_ahead
from core.systems import record_of
from core.units import format_age, format_ago, pluralize

STALE_AFTER_INTERVALS: Final = 3.0

Tone = Literal["green", "orange", "red", "gray", "blue", "violet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """A word with a shape and a tone; the word alone says everything.

    Attributes:
        text: A few words.
        icon: Material symbol.
        tone: Colour name.
        help: One or two sentences more.
    """

    text: str
    icon: str
    tone: Tone
    help: str = ""


def is_stale(manifest: Manifest, *, now: datetime, every_s: float) -> bool:
    """Return whether three collections were missed, or the reading is from the future."""
    if is_ahead(manifest.taken_at, now):
        return True
    return (now - manifest.taken_at).total_seconds() > STALE_AFTER_INTERVALS * every_s


def freshness_badge(
    manifest: Manifest,
    *,
    now: datetime,
    every_s: float,
    status: Mapping[str, object],
    is_past: bool = False,
    why_read_only: str = "",
) -> Badge:
    """Return the age of the reading and the permitted actions; stale data are never "live".

    Args:
        manifest: Of the snapshot.
        now: The present moment.
        every_s: How often the collector reads.
        status: What the collector reports of itself.
        is_past: An earlier snapshot was chosen.
        why_read_only: Why nothing can be changed, and how to change that; empty: actions are
            allowed.
    """
    text = format_ago((now - manifest.taken_at).total_seconds())
    if is_past:
        return Badge(
            text=text,
            icon=":material/schedule:",
            tone="gray",
            help="Point in time. Select Back to live to follow the newest snapshot.",
        )
    error = last_error(status)
    limit = f" {why_read_only}" if why_read_only else ""
    if is_stale(manifest, now=now, every_s=every_s):
        why = f" The collector's last error: {error}" if error else ""
        about = (
            "The snapshot time is in the future. Check the clock of the collector host."
            if is_ahead(manifest.taken_at, now)
            else "The newest snapshot is older than the collection interval "
            f"({format_age(every_s)}). The cluster may have changed.{why}"
        )
        return Badge(
            text=("" if is_ahead(manifest.taken_at, now) else "stale: ")
            + text
            + (", read-only" if why_read_only else ""),
            icon=":material/history_toggle_off:",
            tone="orange",
            help=about + limit,
        )
    paused = str(status.get("retention_paused") or "")
    return Badge(
        text=f"live{', read-only' if why_read_only else ''} · {text}",
        icon=":material/lock:" if why_read_only else ":material/sensors:",
        tone="gray" if not error and not paused else "orange",
        help=f"Collected in {manifest.duration_s:.1f} s, interval {format_age(every_s)}."
        + (f" The last collection failed: {error}" if error else "")
        + (f" {paused}" if paused else "")
        + limit,
    )


_NOTHING: Final[Mapping[str, int]] = {}


def coverage_badge(
    manifest: Manifest,
    uncounted: Mapping[str, int] = _NOTHING,
    trouble: Badge | None = None,
) -> Badge:
    """Return the coverage of the reading: the parts that carry load, and the load.

    Args:
        manifest: Of the snapshot.
        uncounted: How many of its bundles are not counted, by why: ``heartbeat/SLA``.
        trouble: What is wrong with what was read. It takes the place of the tick; what is missing
            from the reading is added to it.
    """
    coverage, is_whole = _coverage(manifest, uncounted)
    if trouble is None:
        return coverage
    if is_whole:
        return trouble
    return replace(
        trouble, text=f"{trouble.text}, {coverage.text}", help=f"{trouble.help} {coverage.help}"
    )


def _coverage(manifest: Manifest, uncounted: Mapping[str, int]) -> tuple[Badge, bool]:
    parts: list[str] = []
    is_whole, is_known = True, True
    for name in record_of(manifest.kind).counted:
        table = manifest.tables.get(name)
        if table is None or (table.rows == 0 and table.source == "none"):
            parts.append(f"no {name}")
            is_whole = False
            continue
        is_known &= table.expected is not None or name == "nodes"  # the meta server lists them
        own = sum(uncounted.values()) if name == "bundles" else 0
        rows = table.rows - own
        expected = table.expected - own if table.expected is not None else rows
        is_whole &= rows >= expected
        known = rows >= expected
        noun = name.removesuffix("s") if rows == 1 and known else name
        parts.append(f"{rows:,}{'' if known else f' of {expected:,}'} {noun}")
    if is_whole and not is_known:
        unknown = Badge(
            text=", ".join(parts),
            icon=":material/help:",
            tone="gray",
            help="The expected number is unknown, so completeness is unknown as well.",
        )
        return unknown, is_whole
    badge = Badge(
        text=", ".join(parts),
        icon=":material/task_alt:" if is_whole else ":material/incomplete_circle:",
        tone="gray" if is_whole else "orange",
        help="The snapshot is complete." + _not_counted(uncounted)
        if is_whole
        else f"The snapshot is incomplete. Missing values are shown as unknown. {_why(manifest)}",
    )
    return badge, is_whole


def _why(manifest: Manifest) -> str:
    """Return where the reasons of an incomplete snapshot are: on the button next to the badge."""
    if not manifest.problems:
        return "No capture problem was recorded."
    return f"Reasons: {problems_badge(manifest).text}, next to this badge."


def _not_counted(uncounted: Mapping[str, int]) -> str:
    parts = [f"{number:,} {why}" for why, number in uncounted.items() if number]
    return f" Bundles not counted: {', '.join(parts)}." if parts else ""


def problems_badge(manifest: Manifest) -> Badge:
    """Return the number of problems of a snapshot."""
    number = len(manifest.problems)
    errors = sum(problem.severity == "error" for problem in manifest.problems)
    return Badge(
        text=pluralize(number, "capture problem") if number else "no capture problems",
        icon=":material/error:" if errors else ":material/warning:",
        tone="red" if errors else "orange" if number else "gray",
        help="Data that could not be read, and the fallback used.",
    )


def last_error(status: Mapping[str, object]) -> str:
    """Return the collector's last error if later than the last success, else an empty string."""
    error = status.get("last_error")
    if not error:
        return ""
    failed, succeeded = status.get("last_error_at"), status.get("last_success_at")
    if isinstance(failed, str) and isinstance(succeeded, str) and failed <= succeeded:
        return ""
    if isinstance(error, Mapping):
        return str(error.get("message", "unknown error"))
    return str(error)


def environment_badge(environment: str) -> Badge:
    """Return the kind of cluster: production stands out."""
    tones: dict[str, Tone] = {"production": "violet", "staging": "blue", "demo": "gray"}
    icons = {
        "production": ":material/domain:",
        "staging": ":material/science:",
        "demo": ":material/toys:",
    }
    return Badge(
        text=environment,
        icon=icons.get(environment, ":material/domain:"),
        tone=tones.get(environment, "violet"),
        help=f"Environment in the configuration: {environment}.",
    )


def read_only_badge(why: str) -> Badge:
    """Return that nothing can be changed, for a cluster without a snapshot to show."""
    return Badge(text="read-only", icon=":material/lock:", tone="gray", help=why)
