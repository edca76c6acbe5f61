"""Cells of tables: sentences of others are shortened, sizes have one unit."""

from __future__ import annotations

import pandas as pd
import pytest

from dashboard.components import tables


def test_a_sentence_in_a_cell_ends_at_a_word() -> None:
    reason = "The hot broker serves two tenants and is to be relieved before tonight"
    (shown,) = tables.shortened([reason], 30)
    assert shown == "The hot broker serves two…"
    assert tables.shortened(["short", ""]) == ["short", ""]


def test_every_size_is_also_in_gigabytes() -> None:
    frame = pd.DataFrame({"node": ["a"], "free_mb": [551_517.0], "size_mb": [None]})
    rows = tables.with_gigabytes(frame)
    assert rows["free_gb"].iloc[0] == pytest.approx(551.517)
    assert rows["size_gb"].isna().all()
    assert list(frame.columns) == ["node", "free_mb", "size_mb"]  # downloads stay as they were
