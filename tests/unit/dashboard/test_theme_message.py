"""The theme that browsers get is the one that Streamlit would compose."""

from __future__ import annotations

from streamlit import config
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import app_session

from dashboard.theme_message import compose_once


def test_theme_is_the_same_and_read_once(monkeypatch) -> None:
    compose = app_session._populate_theme_msg
    monkeypatch.setattr(app_session, "_populate_theme_msg", compose)  # put back afterwards
    before, after, unset = ForwardMsg(), ForwardMsg(), config.get_option("theme.primaryColor")
    config.set_option("theme.primaryColor", "#2b8aa3")
    try:
        compose(before.new_session.custom_theme)
        compose(before.new_session.custom_theme.dark, "theme.dark")
        compose_once()
        for _ in range(2):
            after.Clear()
            app_session._populate_theme_msg(after.new_session.custom_theme)
            app_session._populate_theme_msg(after.new_session.custom_theme.dark, "theme.dark")
            assert after == before
            config.set_option("theme.primaryColor", "#000000")
    finally:
        config.set_option("theme.primaryColor", unset)
