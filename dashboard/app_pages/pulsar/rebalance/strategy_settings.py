"""Controls of the Rebalance page: the objective, settings of the strategies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import OpsError
from core.optimize import LoadMeasure, OptimizeRequest
from core.pulsar.placement import PAIRED_NAMES, STRATEGY_NAMES
from core.pulsar.settings import EffectiveSettings, parse_set_options
from core.pulsar.shedding import find_shedding_strategy
from core.units import format_band, pluralize
from dashboard import state
from dashboard.app_pages.pulsar.rebalance import queries
from dashboard.components import words
from dashboard.components.pulsar import changes_box
from dashboard.presenters.pulsar.sliders import Number, Slider, sliders

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

_MEASURES: Final[dict[str, LoadMeasure]] = {"traffic": "throughput", "usage": "usage"}
_NARROW: Final = 2
_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Objective of a plan.

    Attributes:
        target_ratio: Half width of the target band around the mean.
        max_moves: Of the optimal plan; ``None``: no limit.
        measure: What the optimal plan evens out, and the chart shows.
    """

    target_ratio: float
    max_moves: int | None
    measure: LoadMeasure

    def request(
        self, page: PulsarPage, relief: float | None, pinned: tuple[str, ...]
    ) -> OptimizeRequest:
        """Return the request to the optimizer."""
        return OptimizeRequest(
            within=self.target_ratio,
            measure="usage" if relief else self.measure,
            relief=relief,
            max_moves=self.max_moves,
            exclusions=tuple(page.cluster.exclusions),
            recently_moved=pinned,
        )


def objective(page: PulsarPage) -> Objective:
    """Draw the controls of the objective, and return it."""
    within = st.slider(
        "Target band",
        min_value=1,
        max_value=50,
        value=max(1, min(50, round(page.reading.measures.target.bound * 100))),
        format="±%d%%",
        key=state.WITHIN,
        bind="query-params",
        width=150,
        help="Goal of the optimal plan on this page; target of the cluster: "
        f"{format_band(page.reading.measures.target.bound)} (target_percent).",
    )
    limit = st.number_input(
        "Max moves",
        min_value=0,
        value=page.cluster.apply.max_steps,
        key=state.MOST,
        bind="query-params",
        width=124,
        help="Max moves of the optimal plan; 0: no limit. Max steps of a run on this cluster: "
        f"{page.cluster.apply.max_steps}.",
    )
    load = st.segmented_control(
        "Balance by",
        list(_MEASURES),
        default="traffic",
        required=True,
        key=state.LOAD,
        bind="query-params",
    )
    return Objective(
        target_ratio=int(within) / 100,
        max_moves=int(limit) if limit else None,
        measure=_MEASURES[load or "traffic"],
    )


def relief() -> float | None:
    """Draw the goal of relieving brokers only; return the usage, ``None``: all are balanced."""
    percent = st.slider(
        "Min usage to shed (%)",
        min_value=0,
        max_value=100,
        value=0,
        key=state.RELIEF,
        bind="query-params",
        help="Only brokers above this usage shed; 0: all brokers.",
    )
    return percent / 100 if percent else None


def simulation_switch(page: PulsarPage) -> bool:
    """Draw the switch whether rounds are simulated to convergence."""
    count = page.reading.view.bundles.size
    return st.toggle(
        "Simulate to convergence",
        value=count <= queries.PLAY_BUNDLES,
        key=state.PLAY,
        bind="query-params",
        help=f"Up to {queries.ROUNDS} rounds per strategy; takes minutes with more than "
        f"{pluralize(queries.PLAY_BUNDLES, 'bundle')}.",
    )


def adjusted(strategy: str, settings: EffectiveSettings) -> queries.Assumed:
    """Draw a strategy's settings; return those that differ from the cluster's."""
    offered = sliders(strategy)
    columns = st.columns(_NARROW, gap="medium")
    values = {}
    for rank, slider in enumerate(offered):
        with columns[rank % _NARROW]:
            values[slider] = _draw(slider, slider.present(settings))
    assumed: queries.Assumed = tuple(
        (slider.key, value) for slider, value in values.items() if value != slider.present(settings)
    )
    if find_shedding_strategy(strategy).manager == "modular":
        with columns[len(offered) % _NARROW]:
            assumed += _placement(settings)
    assumed += _further({key for key, _ in assumed}, settings)
    st.button(
        "Reset settings",
        icon=":material/restart_alt:",
        type="tertiary",
        disabled=not assumed,
        on_click=partial(reset, strategy, settings),
        key="_dials_reset",
    )
    st.caption("Settings of this page. To change the cluster, use Apply settings….")
    return assumed


def _placement(settings: EffectiveSettings) -> queries.Assumed:
    """Draw the choice of placement; return the setting if it differs from the cluster's."""
    present = settings.text(_PLACEMENT).rpartition(".")[2]
    known = [present, *(name for name in STRATEGY_NAMES if name != present)]
    with st.container(gap=None):
        chosen = st.selectbox(
            "Placement strategy",
            known,
            key=_PLACEMENT,
            bind="query-params",
            help=f"{_PLACEMENT}: selects the destination of shed bundles. "
            f"{', '.join(PAIRED_NAMES)} "
            "plans destinations itself and requires both strategies.",
        )
        mark = "◇ " if chosen != present else ""
        st.caption(f"{mark}:small[{_PLACEMENT}] · cluster: {words.plain(present)}")
    return ((_PLACEMENT, str(chosen)),) if chosen != present else ()


def _further(turned: set[str], settings: EffectiveSettings) -> queries.Assumed:
    """Draw settings that no slider has; return those that differ from the cluster's."""
    options = changes_box.draw(
        label="Other settings (KEY=VALUE)",
        help_text="VALUE is JSON. Applies to this page only.",
        on_pick=_ask_value,
        is_bare=False,
    )
    key = st.session_state.get(_ASKED, "")
    if key:
        st.text_input(
            f"Value of {key}",
            key=_VALUE,
            placeholder=f"here {settings.value(key)}",
            on_change=_add_value,
            args=(key,),
        )
    try:
        values = parse_set_options(options)
    except OpsError as error:
        words.failed(error, what="Invalid settings")
        return ()
    return tuple(
        (key, value)
        for key, value in values.items()
        if key not in turned
        and value != settings.value(key)
        and isinstance(value, int | float | str)
    )


_ASKED: Final = "_further_asked"
_VALUE: Final = "_further_value"


def _ask_value(key: str) -> None:
    """Ask for the value of a setting; for callbacks."""
    st.session_state[_ASKED] = key
    st.session_state.pop(_VALUE, None)


def _add_value(key: str) -> None:
    """Add the typed value; a text needs no quotes."""
    value = state.text(_VALUE)
    if not value:
        return
    try:
        json.loads(value)
    except ValueError:
        value = json.dumps(value)
    others = [one for one in st.session_state[state.SET] if one.partition("=")[0] != key]
    st.session_state[state.SET] = [*others, f"{key}={value}"]
    del st.session_state[_ASKED]


def settings_words(assumed: queries.Assumed) -> str:
    """Return settings as ``key=value``."""
    return ", ".join(f"{key}={_text(value)}" for key, value in assumed)


def _text(value: Number | str) -> str:
    if isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else f"{value:,.12g}"


def _draw(slider: Slider, present: Number) -> Number:
    with st.container(gap=None):
        value = _widget(slider, present)
        mark = "◇ " if value != present else ""
        st.caption(f"{mark}:small[{words.plain(slider.key)}] · here {_text(present)}")
    return value


def _widget(slider: Slider, present: Number) -> Number:
    if slider.is_switch:
        value: Number = st.toggle(
            slider.label,
            value=bool(present),
            key=slider.key,
            bind="query-params",
            help=words.plain(slider.help),
        )
    else:
        low, high = slider.span(present)
        value = st.slider(
            slider.label,
            min_value=low,
            max_value=high,
            value=present,
            step=slider.number(slider.step),
            key=slider.key,
            bind="query-params",
            help=words.plain(slider.help),
        )
    return value


def reset(strategy: str, settings: EffectiveSettings) -> None:
    """Reset every control of a strategy to the cluster's value; for callbacks."""
    for slider in sliders(strategy):
        st.session_state[slider.key] = slider.present(settings)
    st.session_state[_PLACEMENT] = settings.text(_PLACEMENT).rpartition(".")[2]
    st.session_state[state.SET] = []
