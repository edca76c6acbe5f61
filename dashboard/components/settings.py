"""Parts of the page of settings: what does not fit, presets, one setting, the wished changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import OpsError, UnknownNameError
from core.pulsar.combinations import combinations
from core.pulsar.presets import PRESET_BY_NAME, PRESETS, Preset, differences, set_option
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings
from core.pulsar.shedding import shedding_strategy_in_force
from dashboard import explaining, state
from dashboard.components import moves_plan, tables, words
from dashboard.components.applying import Ask
from dashboard.presenters import settings as presenter

if TYPE_CHECKING:
    from dashboard.components.frame import PageContext

_NEW: Final = "_new_value"


def choose(key: str) -> None:
    """Look at another setting; for callbacks."""
    st.session_state[state.SETTING] = key
    st.session_state.pop(_NEW, None)


def wish(options: Sequence[str]) -> None:
    """Add changes to those that are wished; for callbacks. A key is wished once."""
    held: list[str] = list(st.session_state.get(state.SET) or [])
    keys = {option.partition("=")[0] for option in options}
    kept = [option for option in held if option.partition("=")[0] not in keys]
    st.session_state[state.SET] = [*kept, *options]
    st.toast("Added: see Changes for what they would do.", icon=":material/add:")


def one_setting(page: PageContext) -> None:
    """Draw everything about one setting, and the way to change it."""
    settings = page.reading.settings
    words.section("One setting")
    key = st.selectbox(
        "Setting",
        list(SETTING_BY_KEY),
        index=list(SETTING_BY_KEY).index("loadBalancerLoadSheddingStrategy"),
        key=state.SETTING,
        bind="query-params",
        label_visibility="collapsed",
    )
    setting = SETTING_BY_KEY[key or "loadBalancerLoadSheddingStrategy"]
    st.markdown(words.plain(f"{setting.meaning} {setting.effect}".strip()))
    facts = presenter.about(settings, setting, page.reading.snapshot.manifest.load_manager)
    st.table(
        {name: words.plain(text) for name, text in facts.items()},
        border="horizontal",
        alt=f"Facts about {setting.key}",
    )
    if not setting.is_dynamic:
        st.caption(
            ":material/block: Not dynamic: change it in broker.conf and restart the brokers. "
            "What it would do can be tried all the same."
        )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input(
            "New value",
            key=_NEW,
            placeholder=presenter.value_words(settings.value(setting.key)),
            width=260,
        )
        st.button(
            "Add to the changes",
            icon=":material/add:",
            disabled=not (text or "").strip(),
            on_click=wish,
            args=([f"{setting.key}={(text or '').strip()}"],),
        )
        if settings.origin(setting.key) == "dynamic":
            st.button(
                "Take it away",
                icon=":material/undo:",
                type="tertiary",
                help="Then what each broker's own file says holds again.",
                on_click=wish,
                args=([set_option(setting.key, None)],),
            )


def presets(page: PageContext) -> None:
    """Draw what a preset has otherwise, and the way to take it over."""
    settings = page.reading.settings
    words.section("Presets", "Sets that go together, as what would change here.")
    name = st.selectbox(
        "Preset",
        [preset.name for preset in PRESETS],
        key=state.PRESET,
        bind="query-params",
        label_visibility="collapsed",
    )
    preset: Preset = PRESET_BY_NAME[name or PRESETS[0].name]
    found = list(differences(preset, settings))
    st.caption(f"**{words.plain(preset.title)}.** {words.plain(preset.summary)}")
    if not found:
        st.caption(":material/check_circle: Nothing: every setting of it is so already.")
    else:
        tables.table(
            presenter.preset_table(found),
            {
                "key": tables.opener("Setting", "_preset_key", choose),
                "now": st.column_config.TextColumn("Now", width=120),
                "preset": st.column_config.TextColumn("Preset", width=130),
                "dynamic": tables.words("Dynamic"),
            },
            key="preset_diff",
            alt=f"What {preset.title} has otherwise",
            height=min(330, tables.height_of(len(found))),
        )
    words.notes(preset.notes)
    options = [set_option(one.setting.key, one.wanted) for one in found]
    st.button(
        "Put these into the changes",
        icon=":material/add:",
        disabled=not found,
        on_click=wish,
        args=(options,),
    )


def changes(page: PageContext) -> None:
    """Draw the wished changes, what they would do, and the plan of those that are dynamic."""
    words.section("Changes", "Nothing is set until a plan is applied.")
    asked = st.query_params.get_all(state.SET) or st.session_state.get(state.SET) or []
    options = st.multiselect(
        "Changes, KEY=VALUE",
        list(dict.fromkeys(asked)),
        key=state.SET,
        bind="query-params",
        accept_new_options=True,
        select_all=False,
        placeholder="Take a preset, choose a setting below, or write KEY=VALUE",
        help="VALUE is JSON; null takes a dynamic value away.",
    )
    if not options:
        return
    try:
        wished = presenter.parsed_changes(options)
        _what_if(page, wished)
        draw_plan(page, wished)
    except OpsError as error:
        words.failed(error, what="These changes cannot be read")


def _what_if(page: PageContext, wished: Mapping[str, Any]) -> None:
    """Say what the next round would be, and what would not fit any more."""
    reading = page.reading
    assumed = tuple((key, value) for key, value in wished.items() if value is not None)
    after = explaining.assumed_settings((page.shelved, assumed))
    manager = reading.snapshot.manifest.load_manager
    try:
        now = explaining.explanation(page.shelved).decision.sentence
        then = explaining.explanation_with((page.shelved, assumed)).decision.sentence
        now = presenter.round_words(now, reading.settings)
        then = presenter.round_words(then, after)
        st.markdown(f"**The next shedding round now:** {words.plain(now)}")
        st.markdown(f"**With the changes:** {words.plain(then)}")
    except UnknownNameError as error:
        words.failed(error, what="The next round cannot be told")
    before = {item.code for item in combinations(reading.settings, manager)}
    for item in combinations(after, manager):
        if item.weight == "warning" and item.code not in before:
            st.warning(words.plain(item.sentence), icon=":material/warning:")
    _rebalance_button(page, wished, reading.settings)


def _rebalance_button(
    page: PageContext, wished: Mapping[str, Any], settings: EffectiveSettings
) -> None:
    manager = page.reading.snapshot.manifest.load_manager
    try:
        in_force = shedding_strategy_in_force(manager, settings).name
    except UnknownNameError:
        return
    params = presenter.rebalance_params(wished, settings, in_force)
    st.button(
        "Try them under Rebalance",
        icon=":material/balance:",
        disabled=not params,
        help=None if params else "None of them is one of the dials of that page.",
        on_click=_try,
        args=(params,),
    )


def _try(params: dict[str, str]) -> None:
    state.go("rebalance", **params)


def draw_plan(page: PageContext, wished: Mapping[str, Any]) -> None:
    """Draw the plan; what is not dynamic is named and left to the brokers' files."""
    fixed = [key for key in wished if not SETTING_BY_KEY[key].is_dynamic]
    dynamic = {key: value for key, value in wished.items() if key not in fixed}
    if fixed:
        st.info(
            words.plain(
                f"Not dynamic, so for broker.conf and a restart: {', '.join(fixed)}. "
                "The plan leaves them out."
            ),
            icon=":material/block:",
        )
    if not dynamic:
        return
    request = explaining.SettingRequest(
        shelved=page.shelved, wanted=presenter.wanted_words(dynamic)
    )
    plan, preview = explaining.setting_preview(request)
    ask = state.asking()
    # behind an open dialog stands what it is about
    if isinstance(ask, Ask) and ask.preview is not None:
        plan, preview = ask.plan, ask.preview
    words.section("The plan", "Each is checked, set, and read back from every broker.")
    words.notes([other.sentence for other in preview.others])
    moves_plan.draw_remarks(plan)
    if not preview.others:
        return
    moves_plan.draw_apply(page, plan, preview)
    with st.expander("The brokers' own lines", icon=":material/terminal:"):
        st.code("\n".join(other.command for other in preview.others), language="bash")
