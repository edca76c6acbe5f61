"""What a person may change on the Rebalance page: strategy settings, goals of the optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import OpsError
from core.optimize import OptimizeRequest
from core.pulsar.placement import PAIRED_NAMES, STRATEGY_NAMES
from core.pulsar.settings import EffectiveSettings, parse_set_options
from core.pulsar.shedding import find_shedding_strategy
from dashboard import state
from dashboard.app_pages.pulsar.rebalance import queries
from dashboard.app_pages.pulsar.rebalance.fleets import Fleet
from dashboard.components import words
from dashboard.legible import option
from dashboard.presenters.pulsar.sliders import Number, Slider, sliders

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage

_MEASURES: Final = {"traffic": "throughput", "usage": "usage"}
_NARROW: Final = 2
_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"


def turned(strategy: str, settings: EffectiveSettings) -> queries.Assumed:
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
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Back to the cluster's values",
            icon=":material/restart_alt:",
            type="tertiary",
            disabled=not assumed,
            on_click=partial(_reset, offered, settings),
            key="_dials_reset",
        )
        st.caption(
            f"◇ What if: {words.plain(settings_words(assumed))}. Nothing is set on the cluster."
            if assumed
            else "These are the cluster's own values. Turning them changes nothing but this page."
        )
    return assumed


def _placement(settings: EffectiveSettings) -> queries.Assumed:
    """Draw who places what is shed; return the setting where it is another than the cluster's."""
    present = settings.text(_PLACEMENT).rpartition(".")[2]
    known = [present, *(name for name in STRATEGY_NAMES if name != present)]
    with st.container(gap=None):
        chosen = st.selectbox(
            "Placed by",
            known,
            key=_PLACEMENT,
            bind="query-params",
            help=f"{_PLACEMENT}: the class that picks the broker for what is shed. "
            f"{', '.join(PAIRED_NAMES)} plans destinations itself, so it belongs in both places.",
        )
        mark = "◇ " if chosen != present else ""
        st.caption(f"{mark}:small[{_PLACEMENT}] · here {words.plain(present)}")
    return ((_PLACEMENT, str(chosen)),) if chosen != present else ()


def _further(turned: set[str], settings: EffectiveSettings) -> queries.Assumed:
    """Draw settings that no slider has; return those that differ from the cluster's."""
    named = st.query_params.get_all(state.SET) or st.session_state.get(state.SET) or []
    options = st.multiselect(
        "Further settings, KEY=VALUE",
        list(dict.fromkeys(named)),
        format_func=option,
        key=state.SET,
        bind="query-params",
        accept_new_options=True,
        select_all=False,
        placeholder="loadBalancerDistributeBundlesEvenlyEnabled=false",
        help="VALUE is JSON. Nothing is set on the cluster.",
    )
    try:
        values = parse_set_options(options)
    except OpsError as error:
        words.failed(error, what="These settings cannot be read")
        return ()
    return tuple(
        (key, value)
        for key, value in values.items()
        if key not in turned
        and value != settings.value(key)
        and isinstance(value, int | float | str)
    )


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


def _reset(offered: Sequence[Slider], settings: EffectiveSettings) -> None:
    for slider in offered:
        st.session_state[slider.key] = slider.present(settings)
    st.session_state[_PLACEMENT] = settings.text(_PLACEMENT).rpartition(".")[2]


def optimization(page: PulsarPage, pinned: tuple[str, ...], fleet: Fleet) -> queries.Optimization:
    """Draw the request to the optimizer, and return it."""
    left, right = st.columns(_NARROW, gap="medium")
    with left:
        within = st.slider(
            "Every broker within, % of the mean",
            min_value=1,
            max_value=50,
            value=5,
            key=state.WITHIN,
            bind="query-params",
            help="The goal: no broker farther from the mean than this.",
        )
        limit = st.number_input(
            "Most moves (0: no limit)",
            min_value=0,
            value=page.cluster.apply.max_steps,
            key=state.MOST,
            bind="query-params",
            help=f"One run of this cluster may have {page.cluster.apply.max_steps} steps.",
        )
    with right:
        relief = st.slider(
            "Only relieve brokers above, % usage (0: balance all)",
            min_value=0,
            max_value=100,
            value=0,
            key=state.RELIEF,
            bind="query-params",
            help="Relief: brokers above this usage are brought down to it, nothing else moves.",
        )
        load = st.segmented_control(
            "Balance",
            list(_MEASURES),
            default="traffic",
            required=True,
            key=state.LOAD,
            bind="query-params",
            disabled=bool(relief),
            help="Relief always goes by usage." if relief else None,
        )
    request = OptimizeRequest(
        within=int(within or 5) / 100,
        measure="usage" if relief or load == "usage" else "throughput",
        relief=relief / 100 if relief else None,
        max_moves=int(limit) if limit else None,
        exclusions=tuple(page.cluster.exclusions),
        recently_moved=pinned,
    )
    return queries.Optimization(stored=page.stored, request=request, fleet=fleet)
