"""Spans of the findings of a cluster, in a file of the state directory.

``<state_dir>/findings/<cluster>.json`` is rewritten by the process that evaluates the alerts, once
a snapshot. Pages, commands and HTTP read it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from connectors.config.model import TrimtabConfig
from core.files import make_private, write_whole
from core.findings.starts import Spans


def spans_path(config: TrimtabConfig, cluster: str) -> Path:
    """Return the file of a cluster."""
    return config.state_dir / "findings" / f"{cluster}.json"


def read_spans(config: TrimtabConfig, cluster: str) -> Spans | None:
    """Return the spans of a cluster; ``None`` if none are stored, or the file is damaged."""
    try:
        return msgspec.json.decode(spans_path(config, cluster).read_bytes(), type=Spans)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def write_spans(config: TrimtabConfig, cluster: str, spans: Spans) -> None:
    """Store the spans of a cluster; a full disk only makes them older."""
    path = spans_path(config, cluster)
    with suppress(OSError):
        make_private(path.parent)
        write_whole(path, msgspec.json.encode(spans), is_durable=False)
