"""Data about the demo that serves the pages; see :mod:`dashboard.services`."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from core.files import write_whole

if TYPE_CHECKING:
    from dashboard.services import Config

PAST_ACTOR: Final = "demo"
"""Who requested the runs of the simulated past."""

STEPS: Final = ("broker", "unload")
"""Pages whose opening is a first step."""

_FILE: Final = "demo.json"


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """A demo.

    Attributes:
        started_at: When.
        has_past: Whether the history before it is simulated; else there is none.
        is_dismissed: Whether the user has dismissed the first steps.
        done: Names of the pages of the first steps that were opened.
    """

    started_at: datetime
    has_past: bool = True
    is_dismissed: bool = False
    done: tuple[str, ...] = ()


def note_demo(state_dir: Path, started_at: datetime, *, has_past: bool) -> None:
    """Note in a state directory that a demo uses it, and since when."""
    _write(state_dir / _FILE, Demo(started_at=started_at, has_past=has_past))


def demo_of(config: Config) -> Demo | None:
    """Return the demo that the configuration belongs to; ``None``: it is of real clusters."""
    try:
        content = (config.state_dir / _FILE).read_bytes()
        return msgspec.json.decode(content, type=Demo)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None


def dismiss_first_steps(config: Config) -> None:
    """Note that the first steps are not shown any more."""
    _change(config, demo_of(config), is_dismissed=True)


def note_opened(config: Config, page: str) -> None:
    """Note that a page was opened, where it is one of the first steps."""
    demo = demo_of(config) if page in STEPS else None
    if demo is not None and page not in demo.done:
        _change(config, demo, done=(*demo.done, page))


def _change(config: Config, demo: Demo | None, **values: object) -> None:
    if demo is not None:
        with suppress(OSError):  # a full disk: it is forgotten
            _write(config.state_dir / _FILE, msgspec.structs.replace(demo, **values))


def _write(path: Path, demo: Demo) -> None:
    write_whole(path, msgspec.json.encode(demo), is_durable=False)
