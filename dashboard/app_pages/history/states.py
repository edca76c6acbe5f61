"""The states in which the History page has little to show: each says why, and what to do."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from dashboard import services
from dashboard.components import words
from dashboard.components.header import Choice
from dashboard.presenters.moments import span_words, stamp
from dashboard.queries.history import ClusterHistory, history_of

if TYPE_CHECKING:
    from dashboard.services import Config

_LOOK_EVERY_S: Final = 3.0
_MOST_NAMED: Final = 8
_LATE_AFTER: Final = 3.0
_SWITCH: Final = """[history]
is_recorded = true
"""


def nothing_recorded(config: Config, choice: Choice) -> None:
    """Render why there is no history; show the page as soon as there is one."""
    name = choice.cluster.name
    if not config.history.is_recorded:
        words.answer(f"Recording is off for {name}.")
        st.markdown(f"Enable it in `{config.file or 'trimtab.toml'}`:")
        st.code(_SWITCH, language="toml")
        return
    words.answer(f"No history of {name} yet.")
    st.markdown(
        "A running collector records load, owners, settings and events once a minute. The "
        f"first minute appears with the first snapshot, approx. {config.collect_every_s:g} s "
        "after the collector starts. Times are UTC."
    )
    st.code(f"trimtab collect {name}{services.config_option(config)}", language="bash")
    st.markdown("To import an export from another machine:")
    st.code(f"trimtab history import FILE{services.config_option(config)}", language="bash")
    st.fragment(partial(_look, config, choice), run_every=_LOOK_EVERY_S)()


def _look(config: Config, choice: Choice) -> None:
    st.caption(f"Checks for records every {_LOOK_EVERY_S:.0f} s.")
    if history_of(config, choice.cluster).span() is not None:
        st.rerun()


def outside(span: tuple[datetime, datetime]) -> None:
    """Render the period that the history covers."""
    st.caption(f"The history covers {stamp(span[0])} to {stamp(span[1])} UTC.")


def draw_gap(config: Config, choice: Choice, last: datetime) -> None:
    """Render a warning if the recording has stopped."""
    silent = services.now() - last
    interval_s = max(config.collect_every_s, config.history.interval_s)
    if choice.is_past or silent <= timedelta(seconds=_LATE_AFTER * interval_s):
        return
    why = (
        "Recording is off."
        if not config.history.is_recorded
        else "No collector has recorded since. See the collector's last error on the Fleet page, "
        "or start a collector: `trimtab collect "
        f"{choice.cluster.name}{services.config_option(config)}`"
    )
    st.warning(
        words.coded(why),
        title=f"The newest recorded minute is {span_words(silent)} old",
        icon=":material/history_toggle_off:",
    )


def draw_damage(history: ClusterHistory) -> None:
    """Render the damage of the history: the page shows less than was recorded."""
    damage = history.damage()
    if damage:
        lines = [f"- {words.plain(one)}" for one in damage[:_MOST_NAMED]]
        lines += [f"- {len(damage) - _MOST_NAMED:,} more"] if len(damage) > _MOST_NAMED else []
        lines.append("")
        lines.append("To list recoverable and lost records, run `trimtab history repair`.")
        st.warning(
            "\n".join(lines),
            title="Incomplete history",
            icon=":material/broken_image:",
        )
