"""Widgets of the settings page: diagnoses, brokers compared, one setting, presets, changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import OpsError, UnknownNameError
from core.findings.finding import Finding
from core.pulsar.presets import PRESET_BY_NAME, PRESETS, Preset, differences, set_option
from core.pulsar.rules.combinations import combinations
from core.pulsar.rules.doctor import AREAS, Examination
from core.pulsar.rules.doctor.groups import Comparison
from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings
from core.pulsar.shedding import active_shedding_strategy
from dashboard import state
from dashboard.app_pages.pulsar.settings import model, queries
from dashboard.components import tables, words
from dashboard.components.pulsar import setting_plan
from dashboard.legible import option
from dashboard.queries.pulsar import explanations

if TYPE_CHECKING:
    from dashboard.components.pulsar.page import PulsarPage


# -- the doctor: diagnoses, brokers compared -------------------------------------------------------

_ICONS: Final = {
    "error": ":red[:material/error:]",
    "warning": ":orange[:material/warning:]",
    "unknown": ":gray[:material/help:]",
    "info": ":gray[:material/info:]",
}
_MOST_OF_A_CODE: Final = 3
_MOST_OPEN: Final = 5


def diagnoses(page: PulsarPage, found: Examination) -> None:
    """Draw what was found: what needs a look openly, the rest folded away."""
    words.section("Doctor", "Conflicts and fixes.")
    urgent = [one for one in found.diagnoses if one.severity != "info"]
    known = [one for one in found.diagnoses if one.severity == "info"]
    if not urgent:
        st.caption(":material/check_circle: Nothing is known to do harm.")
    _listed(urgent[:_MOST_OPEN], "look")
    if rest := urgent[_MOST_OPEN:]:
        with st.expander(f"{len(rest)} more that need a look", icon=":material/warning:"):
            _listed(rest, "rest")
    if known:
        with st.expander(f"Worth knowing ({len(known)})", icon=":material/info:"):
            _listed(known, "known")
    if found.diagnoses:
        tables.downloads(
            model.diagnoses_table(found.diagnoses),
            cluster=page.name,
            what="doctor",
            moment=page.stored.taken_at,
        )


def _listed(found: list[Finding], name: str) -> None:
    """Draw the first ones of each code; the others are counted."""
    shown: Counter[str] = Counter()
    for number, one in enumerate(found):
        shown[one.code] += 1
        if shown[one.code] <= _MOST_OF_A_CODE:
            _card(one, f"{name}-{number}")
    more = sum(count - _MOST_OF_A_CODE for count in shown.values() if count > _MOST_OF_A_CODE)
    if more:
        st.caption(f"{more} more of the same kinds: the file below has all of them.")


def _card(one: Finding, key: str) -> None:
    with st.container(border=True):
        left, right = st.columns([0.58, 0.42], gap="medium")
        with left:
            st.markdown(f"{_ICONS[one.severity]} {words.coded(one.sentence)}")
            st.markdown(f"**So:** {words.coded(one.consequence)}")
            st.caption(f"{AREAS[one.area]} · rule `{one.code}`")
        with right:
            _fix(one, key)


def _fix(one: Finding, key: str) -> None:
    fix = one.fix
    if one.hint:
        st.markdown(f"**Fix:** {words.coded(one.hint)}")
    if fix.wanted:
        options = model.fix_options(one)
        st.code("\n".join(options), language="properties", wrap_lines=True)
        st.button(
            "Put it into the changes",
            icon=":material/add:",
            key=f"fix-{key}",
            help="Shows what it would do, and makes the plan that sets it.",
            on_click=add_changes,
            args=(options,),
        )
    if fix.lines:
        st.caption("Not dynamic: a line of broker.conf, and a restart of the brokers one by one.")
        st.code("\n".join(fix.lines), language="properties", wrap_lines=True)
    elif fix.restart:
        st.caption("Read when a broker starts: restart the brokers one by one.")


def comparison(compared: Comparison) -> None:
    """Draw the brokers against each other."""
    words.section(
        "Brokers against each other",
        "Settings, release and limits that are not the same everywhere.",
    )
    if not compared.rows:
        if compared.brokers > 1:
            text = f"All {compared.brokers} brokers have equal settings."
            st.caption(f":material/check_circle: {text}")
        elif compared.brokers:
            st.caption("There is one broker: nothing to compare.")
        return
    table = model.comparison_table(compared)
    tables.table(
        table,
        {
            "what": tables.words("What differs", pinned=True),
            "common": st.column_config.TextColumn("Most brokers", width=150),
            **{
                name: st.column_config.TextColumn(name, width=170)
                for name in table.columns
                if name not in ("what", "common")
            },
        },
        key="brokers_compared",
        alt="What differs between groups of equal brokers",
        height=min(420, tables.height_of(len(table))),
    )
    st.caption("A column is a group of equal brokers; · is what most brokers have.")
    more = len(compared.groups) - model.MOST_GROUPS
    if more > 0:
        st.caption(f"{more} more groups of brokers; `trimtab doctor` with --json has all of them.")
    if members := model.members(compared):
        with st.expander("Who is in which group", icon=":material/dns:"):
            words.notes(members)


# -- one setting, presets, changes -----------------------------------------------------------------

_NEW: Final = "_new_value"


def choose(key: str) -> None:
    """Look at another setting; for callbacks."""
    st.session_state[state.SETTING] = key
    st.session_state.pop(_NEW, None)


def add_changes(options: Sequence[str]) -> None:
    """Add changes to the requested ones; for callbacks. Each key once."""
    held: list[str] = list(st.session_state.get(state.SET) or [])
    keys = {option.partition("=")[0] for option in options}
    remaining = [option for option in held if option.partition("=")[0] not in keys]
    st.session_state[state.SET] = [*remaining, *options]
    st.toast("Added: see Changes for what they would do.", icon=":material/add:")


def one_setting(page: PulsarPage) -> None:
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
    facts = model.about(settings, setting, page.reading.snapshot.manifest.load_manager)
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
            placeholder=model.value_words(settings.value(setting.key)),
            width=260,
        )
        st.button(
            "Add to the changes",
            icon=":material/add:",
            disabled=not (text or "").strip(),
            on_click=add_changes,
            args=([f"{setting.key}={(text or '').strip()}"],),
        )
        if settings.origin(setting.key) == "dynamic":
            st.button(
                "Take it away",
                icon=":material/undo:",
                type="tertiary",
                help="Then what each broker's own file says holds again.",
                on_click=add_changes,
                args=([set_option(setting.key, None)],),
            )


def presets(page: PulsarPage) -> None:
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
            model.preset_table(found),
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
        "Add preset",
        icon=":material/add:",
        disabled=not found,
        on_click=add_changes,
        args=(options,),
    )


def changes(page: PulsarPage) -> None:
    """Draw the requested changes, what they would do, and the plan of those that are dynamic."""
    words.section("Changes", "Nothing is set until a plan is applied.")
    options_named = st.query_params.get_all(state.SET) or st.session_state.get(state.SET) or []
    options = st.multiselect(
        "Changes, KEY=VALUE",
        list(dict.fromkeys(options_named)),
        format_func=option,
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
        changed = model.parsed_changes(options)
        _what_if(page, changed)
        setting_plan.draw_plan(page, changed)
    except OpsError as error:
        words.failed(error, what="These changes cannot be read")


def _what_if(page: PulsarPage, changed: Mapping[str, Any]) -> None:
    """Say what the next round would be, and what would not fit any more."""
    reading = page.reading
    assumed = tuple((key, value) for key, value in changed.items() if value is not None)
    after = explanations.assumed_settings((page.stored, assumed))
    manager = reading.snapshot.manifest.load_manager
    try:
        now = explanations.explanation(page.stored).decision.sentence
        then = explanations.explanation_with((page.stored, assumed)).decision.sentence
        now = model.round_words(now, reading.settings)
        then = model.round_words(then, after)
        st.markdown(f"**The next shedding round now:** {words.plain(now)}")
        st.markdown(f"**With the changes:** {words.plain(then)}")
    except UnknownNameError as error:
        words.failed(error, what="The next round cannot be predicted")
    _outcome(page, assumed)
    before = {item.code for item in combinations(reading.settings, manager)}
    for item in combinations(after, manager):
        if item.severity == "warning" and item.code not in before:
            st.warning(words.plain(item.text), icon=":material/warning:")
    _rebalance_button(page, changed, reading.settings)


def _outcome(page: PulsarPage, assumed: tuple[tuple[str, Any], ...]) -> None:
    """Say how the balancer ends with the changes, simulated until nothing moves any more."""
    with st.spinner("Simulating the balancer with these changes", show_time=True):
        text, is_no_worse = queries.outcome((page.stored, assumed))
    if is_no_worse is False:
        st.warning(words.plain(text), icon=":material/warning:")
    elif text:
        st.markdown(words.plain(text))


def _rebalance_button(
    page: PulsarPage, changed: Mapping[str, Any], settings: EffectiveSettings
) -> None:
    manager = page.reading.snapshot.manifest.load_manager
    try:
        effective = active_shedding_strategy(manager, settings).name
    except UnknownNameError:
        return
    params = model.rebalance_params(changed, settings, effective)
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
