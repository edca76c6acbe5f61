"""What pages put into tables and hand out as downloads, as readable text.

:func:`recording` notes what the page under test gives to ``tables.grid`` and ``tables.downloads``
in its latest run; :meth:`Frames.text` has columns, types and first rows of each.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.components import tables

_ROWS: Final = 3
_DIGITS: Final = 6
_LETTERS: Final = 200
_VALUES: Final = 4
"""Of a sparkline."""

_IDS: Final = re.compile(r"\b[0-9a-f]{12,}\b")
"""Of snapshots, plans and entries: they follow from every last bit of what they are of."""


class Frames:
    """Tables and downloads of one run of a page, in their order."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}

    def clear(self) -> None:
        self._parts.clear()

    def table(self, frame: Any, options: Mapping[str, Any]) -> None:
        shown = options.get("column_order")
        head = f"table {options.get('key', '')}"
        self._note(head, _text(head, _frame_of(frame), None if shown is None else list(shown)))

    def download(self, frame: pd.DataFrame, what: str) -> None:
        csv = tables.inert(_rounded(frame.head(_ROWS))).to_csv(index=False)
        self._note(f"download {what}", _head(f"download {what}", frame) + csv)

    def _note(self, head: str, text: str) -> None:
        """Note a part; where a page began again within a run, only its last form counts."""
        self._parts.pop(head, None)
        self._parts[head] = text

    def text(self) -> str:
        return _IDS.sub("ID", "\n".join(self._parts.values()))


def recording(patch: pytest.MonkeyPatch) -> Frames:
    """Return what pages show from now on; each run of a page begins anew."""
    frames = Frames()
    grid, downloads, run = tables.grid, tables.downloads, AppTest._run

    def recorded_grid(frame: Any, **options: Any) -> Any:
        frames.table(frame, options)
        return grid(frame, **options)

    def recorded_downloads(
        frame: pd.DataFrame | Callable[[], pd.DataFrame],
        *,
        cluster: str,
        what: str,
        moment: datetime,
    ) -> None:
        frames.download(frame if isinstance(frame, pd.DataFrame) else frame(), what)
        downloads(frame, cluster=cluster, what=what, moment=moment)

    def recorded_run(app: AppTest, *args: Any, **options: Any) -> AppTest:
        frames.clear()
        return run(app, *args, **options)

    patch.setattr(tables, "grid", recorded_grid)
    patch.setattr(tables, "downloads", recorded_downloads)
    patch.setattr(AppTest, "_run", recorded_run)
    return frames


def _frame_of(frame: Any) -> pd.DataFrame:
    if isinstance(frame, pa.Table):
        return frame.to_pandas()
    return pd.DataFrame(getattr(frame, "data", frame))  # a styled frame has it in data


def _text(head: str, frame: pd.DataFrame, shown: list[str] | None) -> str:
    text = _head(head, frame)
    if shown is not None and shown != list(frame.columns):
        text += f"shown: {', '.join(map(str, shown))}\n"
    rows = _rounded(frame.head(_ROWS)).to_dict(orient="records")
    return text + "".join(f"{json.dumps(row, default=str, ensure_ascii=False)}\n" for row in rows)


def _head(head: str, frame: pd.DataFrame) -> str:
    types = "".join(f"{name}: {kind}\n" for name, kind in frame.dtypes.items())
    return f"# {head}: {len(frame)} rows\n{types}"


def _rounded(frame: pd.DataFrame) -> pd.DataFrame:
    made = frame.astype(object)
    return made.apply(lambda column: column.map(_plain).astype(object))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.{_DIGITS}g}")
    if isinstance(value, str):
        return "PICTURE" if value.startswith("data:") else value[:_LETTERS]
    if isinstance(value, list | tuple) or hasattr(value, "tolist"):
        several = value if isinstance(value, list | tuple) else value.tolist()
        if isinstance(several, list | tuple):
            return [_plain(one) for one in several[:_VALUES]]
        return _plain(several)
    return value
