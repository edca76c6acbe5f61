"""Cells of tables: sentences of others are shortened, sizes have a unit that shows figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.components import tables


def _selected_in_a_table() -> None:
    import streamlit as st  # noqa: PLC0415  # the function is a script

    from dashboard.components import tables  # noqa: PLC0415  # the same

    names = st.session_state["names"]
    st.session_state["found"] = tables.selected("table", names)
    st.dataframe(names, key="table", on_select="rerun", selection_mode="single-row")
    st.session_state["drawn"] = list(st.session_state["table"]["selection"]["rows"])


def test_a_selected_row_stays_selected_when_rows_are_added_above_it() -> None:
    app = AppTest.from_function(_selected_in_a_table, default_timeout=60)
    app.session_state["names"] = ["b", "a"]
    app.run()
    assert app.session_state["found"] is None
    app.session_state["table"] = {"selection": {"rows": [1], "columns": []}}
    app.run()
    assert app.session_state["found"] == 1
    app.session_state["names"] = ["d", "c", "b", "a"]
    app.run()
    assert (app.session_state["found"], app.session_state["drawn"]) == (3, [3])
    app.run()
    assert app.session_state["found"] == 3
    app.session_state["names"] = ["d", "c", "b"]
    app.run()
    assert (app.session_state["found"], app.session_state["drawn"]) == (None, [])


def _rows_in_the_address() -> None:
    import pandas as pd  # noqa: PLC0415  # the function is a script
    import streamlit as st  # noqa: PLC0415  # the same

    from dashboard.components import tables  # noqa: PLC0415  # the same

    names = st.session_state["names"]
    frame = pd.DataFrame({"name": names})
    rows = tables.table(
        frame,
        {"name": tables.words("Name")},
        key="table",
        alt="Names",
        selection="multi-row",
        names=list(names),
    )
    st.session_state["found"] = [names[row] for row in rows]


def _chosen(app: AppTest) -> tuple[list[str], list[str]]:
    """Selected names, and those of the address."""
    return app.session_state["found"], list(app.query_params.get("selected", []))


def test_selected_rows_are_in_the_address_and_follow_their_names() -> None:
    app = AppTest.from_function(_rows_in_the_address, default_timeout=60)
    app.session_state["names"] = ["a", "b", "c"]
    app.run()
    assert _chosen(app) == ([], [])
    app.session_state["table"] = {"selection": {"rows": [1, 2], "columns": []}}
    app.run()
    assert _chosen(app) == (["b", "c"], ["b", "c"])
    app.session_state["names"] = ["c", "x", "b", "a"]  # another order
    app.run()
    assert sorted(_chosen(app)[0]) == sorted(_chosen(app)[1]) == ["b", "c"]
    app.session_state["names"] = ["a", "b"]
    app.run()
    assert _chosen(app) == (["b"], ["b"])
    app.session_state["table"] = {"selection": {"rows": [], "columns": []}}
    app.run()
    assert _chosen(app) == ([], [])


def test_an_address_selects_rows_and_what_the_table_lacks_is_told() -> None:
    app = AppTest.from_function(_rows_in_the_address, default_timeout=60)
    app.session_state["names"] = ["a", "b", "c"]
    app.query_params["selected"] = ["c", "gone", "a"]
    app.run()
    assert sorted(_chosen(app)[0]) == sorted(_chosen(app)[1]) == ["a", "c"]
    assert [one.value for one in app.toast] == ["Not in this table: 1 selected row from the URL."]
    app.run()
    assert not app.toast


def test_an_address_has_so_many_rows_as_fit() -> None:
    app = AppTest.from_function(_rows_in_the_address, default_timeout=60)
    names = [f"n{at}" for at in range(80)]
    app.session_state["names"] = names
    app.run()
    app.session_state["table"] = {"selection": {"rows": list(range(80)), "columns": []}}
    app.run()
    app.run()
    assert _chosen(app) == (names, names[:50])


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
        ([551_517.0, 640_000.0, 0.002], "Free GB", 551.517),
        ([0.0, 20.0], "Free MB", 0.0),
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
