"""Widgets of the settings page: diagnoses, one setting, presets, changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import OpsError, UnknownNameError
from core.findings.finding import Finding
from core.pulsar.presets import PRESET_BY_NAME, PRESETS, Preset, differences, set_option
from core.pulsar.rules.combinations import combinations
from core.pulsar.rules.doctor import Examination
from core.pulsar.settings import SETTING_BY_KEY
from core.pulsar.shedding import active_shedding_strategy
from dashboard import state
from dashboard.app_pages.pulsar.settings import model, queries
from dashboard.components import action_bar, choice, findings, frame, tables, words
from dashboard.components.pulsar import changes_box, moves_plan, setting_plan
from dashboard.queries.pulsar import explanations

if TYPE_CHECKING:
    from core.pulsar.settings import EffectiveSettings
    from dashboard.components.pulsar.page import PulsarPage


def opened_by(params: Collection[str], *, has_changes: bool) -> str:
    """Return the tab of the object that an address without a tab names.

    Args:
        params: Names of its parameters.
        has_changes: It requests changes.
    """
    if has_changes:
        return model.CHANGES_TAB
    return model.PRESETS_TAB if state.PRESET in params else model.SETTINGS_TAB


# -- findings ------------------------------------------------------------------------------------


def findings_tab(page: PulsarPage, examination: Examination) -> None:
    """Render the findings of the doctor, each with its fix, and the checks without a verdict."""
    findings.show(
        findings.of_cluster(page, examination.of_settings),
        key="settings",
        moment=page.stored.taken_at,
        title="Conflicts and fixes",
        more=_fix,
        scope=page.reading.cluster_verdict.elsewhere(("settings", "policies", "measurements")),
    )
    words.notes(examination.unjudged)


def _fix(finding: Finding) -> None:
    """Render the settings of a finding's fix and the button that adds them to the changes."""
    fix = finding.fix
    if fix.wanted:
        options = model.fix_options(finding)
        st.code("\n".join(options), language="properties", wrap_lines=True)
        st.button(
            "Add to changes",
            icon=":material/add:",
            key="_settings_fix",
            help="No setting changes until you apply the plan.",
            on_click=add_changes,
            args=(options,),
        )
    if fix.lines:
        st.caption(f"Change {fix.file('broker.conf')}, then restart the brokers one by one:")
        st.code("\n".join(fix.lines), language="properties", wrap_lines=True)
    elif fix.restart:
        st.caption("Read at broker start. Restart the brokers one by one.")


# -- one setting, presets, changes -----------------------------------------------------------------

_NEW: Final = "_new_value"
_REFUSED: Final = "_new_value_refused"
"""In the session: the setting whose new value was refused, and why."""
_TABLE_PX: Final = 480
_NOT_SIMULATED: Final = "Rebalance does not simulate these settings."
_STRATEGY: Final = "loadBalancerLoadSheddingStrategy"


def choose(key: str) -> None:
    """Look at another setting; for callbacks."""
    st.session_state[state.VIEW] = model.SETTINGS_TAB
    _show(key)


def _show(key: str) -> None:
    """Have the card show a setting, whatever tab is open; for callbacks."""
    st.session_state[state.SETTING] = key
    st.session_state.pop(_NEW, None)
    st.session_state.pop(_REFUSED, None)


def add_changes(options: Sequence[str]) -> None:
    """Add changes to the requested ones; for callbacks. Each key once."""
    held: list[str] = list(st.session_state.get(state.SET) or [])
    keys = {option.partition("=")[0] for option in options}
    remaining = [option for option in held if option.partition("=")[0] not in keys]
    st.session_state[state.SET] = [*remaining, *options]
    st.toast("Added to the changes.", icon=":material/add:")


def settings_tab(page: PulsarPage, examination: Examination) -> None:
    """Show every setting as a table, conflicts first, and the chosen one at its side."""
    left, right = frame.columns([0.72, 0.28], key="settings")
    with left:
        first = _settings_table(page, examination)
    with right, st.container(border=True):
        one_setting(page, examination, first)


def _choose_match(settings: EffectiveSettings) -> None:
    """Look at the setting that the filter names, or the one it leaves; for callbacks."""
    named = state.text(state.CONTAINS).partition("=")[0].strip()
    if named in SETTING_BY_KEY:
        choose(named)
        return
    rows = model.settings_table(
        settings, load_manager="", shown="all", contains=state.text(state.CONTAINS)
    )
    if len(rows) == 1:
        choose(str(rows["key"][0]))


def _settings_table(page: PulsarPage, examination: Examination) -> str:
    """Draw the table; return the setting of its first row, empty without one."""
    reading = page.reading
    with st.container(horizontal=True, vertical_alignment="center"):
        shown = st.segmented_control(
            "Show",
            list(model.SHOWN),
            default="all",
            required=True,
            key=state.ONLY,
            bind="query-params",
            label_visibility="collapsed",
        )
        contains = st.text_input(
            "Contains",
            live=tables.TYPING_PAUSE,
            key=state.CONTAINS,
            bind="query-params",
            placeholder="Name, description or value",
            label_visibility="collapsed",
            icon=":material/search:",
            width=260,
            on_change=_choose_match,
            args=(reading.settings,),
        )
    rows = model.settings_table(
        reading.settings,
        load_manager=reading.snapshot.manifest.load_manager,
        shown=shown or "all",
        contains=contains or "",
        diagnoses=examination.of_settings,
    )
    columns = {
        "key": tables.opener("Setting", "_setting_key", choose, width_px=308),
        "state": tables.status("State", model.STATES, width_px=96),
        "value": st.column_config.TextColumn("Effective", width=146),
        "other": st.column_config.TextColumn(
            "Default", width=124, help="Shown if different from the effective value."
        ),
        "finding": tables.words("Conflict", width_px=230),
        "origin": tables.words("Origin", "assumed: not in the snapshot.", width_px=78),
        "dynamic": tables.words(
            "Takes effect",
            "file + restart: after a change of broker.conf and a restart.",
            width_px=92,
        ),
        "brokers": tables.words("Other values", "Values of single brokers."),
    }
    for key in ("brokers", "finding"):
        if not rows[key].any():
            columns.pop(key)
    tables.table(
        rows.assign(
            other=rows["default"].where(rows["mark"] == model.CHANGED, rows["release"]),
            state=rows["state"].map(lambda one: one if one[0] else []),  # no pill without a text
        ),
        columns,
        key="settings_table",
        alt="Load-balancer settings",
        height=min(_TABLE_PX, tables.height_of(max(len(rows), 1))),
        missing="",
    )
    tables.downloads(
        rows.drop(columns="release").assign(state=rows["state"].str[0]),
        cluster=page.name,
        what="settings",
        moment=page.stored.taken_at,
    )
    return str(rows["key"][0]) if len(rows) else ""


def one_setting(page: PulsarPage, examination: Examination, first: str) -> None:
    """Draw everything about one setting, and the way to change it.

    Args:
        examination: What the doctor found: the conflicts of the setting come first.
        first: Setting that is shown until another is chosen; empty: the shedding strategy.
    """
    settings = page.reading.settings
    key = state.from_address(state.SETTING, SETTING_BY_KEY)
    state.keep_in_address(state.SETTING, key, default="")
    setting = SETTING_BY_KEY[key or first or _STRATEGY]
    st.markdown(f"**{words.plain(setting.key)}**")
    st.markdown(words.plain(f"{setting.meaning} {setting.effect}".strip()))
    for number, one in enumerate(model.findings_of(examination.of_settings, setting.key)):
        _conflict(one, number)
    facts = model.about(settings, setting, page.reading.snapshot.manifest.load_manager)
    st.table(
        {name: words.plain(text) for name, text in facts.items()},
        border="horizontal",
        alt=f"Facts about {setting.key}",
    )
    form = st.form("_new_value_form", border=False)  # Enter adds the value, too
    with form, st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            "New value",
            key=_NEW,
            placeholder=model.value_words(settings.value(setting.key)),
            width=150,
        )
        st.form_submit_button(
            "Add to changes",
            icon=":material/add:",
            key="_new_value_add",
            help="No setting changes until you apply the plan.",
            on_click=_add_typed,
            args=(setting.key,),
        )
    refused_key, why = st.session_state.get(_REFUSED, ("", ""))
    if refused_key == setting.key:
        form.error(words.plain(why))
    if settings.origin(setting.key) == "dynamic":
        st.button(
            "Remove value",
            icon=":material/undo:",
            type="tertiary",
            help="The value in broker.conf applies again.",
            on_click=add_changes,
            args=([set_option(setting.key, None)],),
        )


def _conflict(finding: Finding, number: int) -> None:
    """Draw a conflict of the chosen setting, and the button of its fix."""
    show = st.error if finding.severity == "error" else st.warning
    show(words.plain(f"{finding.sentence} {finding.hint}".strip()))
    if finding.fix.wanted:
        st.button(
            "Add fix to changes",
            icon=":material/add:",
            key=f"_conflict_fix_{number}",
            help=words.plain(", ".join(model.fix_options(finding))),
            on_click=add_changes,
            args=(model.fix_options(finding),),
        )


def _add_typed(key: str) -> None:
    """Add the new value; one that the setting does not take is refused at the field."""
    st.session_state.pop(_REFUSED, None)
    value = state.text(_NEW)
    if not value:
        st.session_state[_REFUSED] = (key, "Enter a value first.")
        return
    try:
        model.parsed_change(f"{key}={value}")
    except OpsError as error:
        st.session_state[_REFUSED] = (key, str(error))
        return
    add_changes([f"{key}={value}"])


def presets(page: PulsarPage) -> None:
    """Render the effects of a preset here and the button that adds it to the changes."""
    settings = page.reading.settings
    name = choice.selected(
        "Preset",
        [preset.name for preset in PRESETS],
        key=state.PRESET,
        format_func=lambda name: PRESET_BY_NAME[name].title,
        has_label=False,
    )
    preset: Preset = PRESET_BY_NAME[name]
    found = list(differences(preset, settings))
    st.caption(words.plain(preset.summary))
    if not found:
        st.caption(":material/check_circle: All settings already have these values.")
    else:
        tables.table(
            model.preset_table(found),
            {
                "key": tables.opener("Setting", "_preset_key", choose),
                "now": st.column_config.TextColumn("Now", width=120),
                "preset": st.column_config.TextColumn("Preset", width=130),
                "dynamic": tables.words("Takes effect"),
            },
            key="preset_diff",
            alt=f"Differences to preset {preset.title}",
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


def requested() -> dict[str, Any]:
    """Draw the requested changes and the errors of invalid ones; return the valid ones by key."""
    options = changes_box.draw(
        label="Changes (KEY=VALUE)",
        help_text="VALUE is JSON; null removes a dynamic value.",
        on_pick=choose,
        on_change=_show,
        is_bare=True,
    )
    changes, errors = model.parsed_changes(changes_box.newest(options))
    for error in errors:
        words.failed(error, what="Invalid change")
    return changes


def changes_tab(page: PulsarPage, changed: Mapping[str, Any]) -> None:
    """Render the effects of the requested changes, by key."""
    if not changed:
        st.caption("No valid changes. Add changes from settings, findings or a preset.")
        return
    try:
        _what_if(page, changed)
        setting_plan.draw_effects(page, changed)
    except OpsError as error:
        words.failed(error, what="Could not create a plan")


def bar(page: PulsarPage, changed: Mapping[str, Any]) -> None:
    """Draw the action bar: the changes, and their actions."""
    fixed = sum(not SETTING_BY_KEY[key].is_dynamic for key in changed)
    effects = [
        action_bar.PlanFigure(
            label="Dynamic", value=f"{len(changed) - fixed:,}", note="in the plan"
        ),
        action_bar.PlanFigure(label="broker.conf", value=f"{fixed:,}", note="require a restart"),
    ]
    more = [_try_button(page, changed), action_bar.Button(label="Clear", on_click=_clear)]
    is_preview = st.session_state.get(state.VIEW) == model.CHANGES_TAB
    preview = action_bar.Button(label="Preview", on_click=_preview, shortcut="p")
    try:
        made = setting_plan.planned(page, changed)
    except OpsError as error:
        words.failed(error, what="Could not create a plan")
        return
    if made is None or not made[1].others:
        action_bar.show(effects, more if is_preview else [*more, preview], key="settings")
        return
    dialog = moves_plan.dialog_of(page, *made)
    moves_plan.draw_bar(
        page,
        dialog,
        key="settings",
        effects=effects,
        more=more,
        preview=preview,
        is_preview=is_preview,
    )


def _clear() -> None:
    st.session_state[state.SET] = []


def _preview() -> None:
    st.session_state[state.VIEW] = model.CHANGES_TAB


def _what_if(page: PulsarPage, changed: Mapping[str, Any]) -> None:
    """Render the next round with the changes, and new conflicts."""
    reading = page.reading
    assumed = tuple((key, value) for key, value in changed.items() if value is not None)
    after = explanations.assumed_settings((page.stored, assumed))
    manager = reading.snapshot.manifest.load_manager
    try:
        now = explanations.explanation(page.stored).decision.sentence
        then = explanations.explanation_with((page.stored, assumed)).decision.sentence
        for label, sentence in model.rounds_words((now, reading.settings), (then, after)):
            st.markdown(f"**{label}:** {words.plain(sentence)}")
    except UnknownNameError as error:
        words.failed(error, what="Could not predict the next round")
    _outcome(page, assumed)
    if not model.rebalance_params(changed, reading.settings, strategy_of(page)):
        st.caption(_NOT_SIMULATED)
    before = {item.code for item in combinations(reading.settings, manager)}
    for item in combinations(after, manager):
        if item.severity == "warning" and item.code not in before:
            st.warning(words.plain(item.text), icon=":material/warning:")


def _outcome(page: PulsarPage, assumed: tuple[tuple[str, Any], ...]) -> None:
    """Render the balance with the changes, simulated to convergence."""
    with st.spinner("Simulating the balancer", show_time=True):
        text, is_no_worse = queries.outcome((page.stored, assumed))
    if is_no_worse is False:
        st.warning(words.plain(text), icon=":material/warning:")
    elif text:
        st.markdown(words.plain(text))


def _try_button(page: PulsarPage, changed: Mapping[str, Any]) -> action_bar.Button:
    """Return the button that tries the changes on the page of the balancer."""
    settings = page.reading.settings
    params = model.rebalance_params(changed, settings, strategy_of(page))
    return action_bar.Button(
        label="Try in Rebalance",
        on_click=_try,
        args=(params,),
        is_disabled=not params,
        help="" if params else _NOT_SIMULATED,
    )


def strategy_of(page: PulsarPage) -> str:
    """Return the class name of the active shedding strategy; empty: unknown."""
    reading = page.reading
    try:
        manager = reading.snapshot.manifest.load_manager
        return active_shedding_strategy(manager, reading.settings).name
    except UnknownNameError:
        return ""


def _try(params: dict[str, str]) -> None:
    state.go("rebalance", **params)
