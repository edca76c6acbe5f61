"""The theme in the first message of every run of a page: composed once."""

from __future__ import annotations

from streamlit.proto.NewSession_pb2 import CustomThemeConfig
from streamlit.runtime import app_session


def compose_once() -> None:
    """Let Streamlit read its theme from its configuration once, and not with each run of a page.

    It goes through all options, six times for a run: a tenth of what an answer takes. Nothing
    changes the theme of a server that runs.
    """
    compose = app_session._populate_theme_msg  # noqa: SLF001  # there is no other place
    composed: dict[str, CustomThemeConfig] = {}

    def copy(msg: CustomThemeConfig, section: str = "theme") -> None:
        if section not in composed:
            config = CustomThemeConfig()
            compose(config, section)
            composed[section] = config
        if composed[section].ListFields():  # an empty one would be there, and mean something
            msg.MergeFrom(composed[section])

    app_session._populate_theme_msg = copy  # noqa: SLF001  # the same
