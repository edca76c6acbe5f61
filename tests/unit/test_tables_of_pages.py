"""Cells of tables: sentences of others are shortened, sizes have a unit that shows figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dashboard.components import tables


def test_a_sentence_in_a_cell_ends_at_a_word() -> None:
    reason = "The hot broker serves two tenants and is to be relieved before tonight"
    (shown,) = tables.shortened([reason], 30)
    assert shown == "The hot broker serves two…"
    assert tables.shortened(["short", ""]) == ["short", ""]


@pytest.mark.parametrize(
    ("sizes_mb", "head", "shown"),
    [
        ([551_517.0, None], "Free GB", 551.517),
        ([4.2, 551_517.0], "Free MB", 4.2),
        ([0.002], "Free kB", 2.0),
        ([None], "Free GB", None),
        ([0.0, 20.0], "Free GB", 0.0),
    ],
)
def test_a_column_of_sizes_has_a_unit_that_shows_figures(
    sizes_mb: list[float | None], head: str, shown: float | None
) -> None:
    frame = pd.DataFrame({"node": "a", "free_mb": sizes_mb})
    rows, columns = tables.sized(
        frame, {"node": tables.words("Node"), "free_mb": tables.size("Free")}
    )
    assert columns["free_mb"]["label"] == head
    first = rows["free_mb"].iloc[0]
    assert np.isnan(first) if shown is None else first == pytest.approx(shown)
    assert frame["free_mb"].iloc[0] == sizes_mb[0] or shown is None  # downloads are unchanged
