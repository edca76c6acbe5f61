"""Nothing ticks behind the dialog of an apply: a late tick would name the page that is left."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def page() -> None:
    import streamlit as st  # noqa: PLC0415  # the script runs by itself

    from dashboard import state  # noqa: PLC0415  # the script runs by itself

    if st.button("Apply"):
        state.set_dialog("a plan")
    if st.button("Cancel"):
        state.set_dialog(None)
    st.write(str(state.ticking(2.0)), str(state.ticking(None)))


def test_fragments_look_again_by_themselves_only_while_no_dialog_asks() -> None:
    app = AppTest.from_function(page).run()
    assert [one.value for one in app.markdown] == ["2.0 None"]
    app.button[0].click().run()
    assert [one.value for one in app.markdown] == ["None None"]
    app.button[1].click().run()
    assert [one.value for one in app.markdown] == ["2.0 None"]
