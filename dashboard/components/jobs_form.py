"""The form of a kind of job: fields, what it would be asked, the button that starts it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.errors import OpsError
from dashboard import services_jobs, state
from dashboard.components import jobs, words
from dashboard.presenters import jobs_form as presenter
from dashboard.presenters.jobs import JOBS, page_of

if TYPE_CHECKING:
    from dashboard.services import Config
    from dashboard.services_jobs import Job, JobKind

_COLUMNS = 3
_CARDS = 4


def cards(kinds: Mapping[str, JobKind], shown: Job | None) -> JobKind | None:
    """Draw a card a kind with the question it answers; return the chosen one.

    Args:
        kinds: By name.
        shown: A job that is looked at: its kind is chosen unless the address says otherwise.
    """
    own = {name: kind for name, kind in kinds.items() if page_of(name) == JOBS}
    asked = st.query_params.get(state.KIND) or (shown.kind if shown is not None else "")
    chosen = own.get(asked) or next(iter(own.values()), None)
    every = list(kinds.values())
    for first in range(0, len(every), _CARDS):
        row = every[first : first + _CARDS]
        for column, kind in zip(st.columns(_CARDS, gap="small"), row, strict=False):
            with column.container(border=True, height="stretch", gap="xsmall"):
                _card(kind, is_chosen=kind is chosen, is_elsewhere=kind.name not in own)
    return chosen


def _card(kind: JobKind, *, is_chosen: bool, is_elsewhere: bool) -> None:
    st.markdown(f"**{words.plain(kind.title)}**")
    st.caption(words.plain(kind.answers))
    st.button(
        "Open its page" if is_elsewhere else "Chosen" if is_chosen else "Ask this",
        icon=":material/open_in_new:" if is_elsewhere else ":material/edit_note:",
        type="tertiary",
        key=f"_card_{kind.name}",
        disabled=is_chosen,
        on_click=_choose,
        args=(kind.name,),
    )


def _choose(name: str) -> None:
    if page_of(name) != JOBS:
        state.go(page_of(name))
        return
    st.query_params[state.KIND] = name


def draw_form(config: Config, kind: JobKind, cluster: str, shown: Job | None) -> None:
    """Draw the form of a kind, filled with what the shown job was asked.

    Args:
        config: The configuration.
        kind: Which.
        cluster: That the header shows.
        shown: A job of this kind that is looked at; ``None``: none.
    """
    names = [one.name for one in config.clusters if kind.system in (None, one.kind)]
    fields = presenter.fields_of(kind, names, cluster if cluster in names else "")
    asked = shown.request.asked if shown and shown.request else {}
    columns = st.columns(_COLUMNS, gap="medium")
    given: dict[str, Any] = {}
    stamp = shown.id if shown else "new"
    for rank, field in enumerate(fields):
        with columns[rank % _COLUMNS]:
            key = f"_field_{kind.name}_{stamp}_{field.name}"
            given[field.name] = _widget(field, asked.get(field.name, field.default), key)
    told, body = "", {}
    missing = presenter.missing_of(fields, given)
    try:
        body = presenter.asked_of(fields, given)
        if missing:
            told = f"To be filled in: {', '.join(missing)}."
        else:
            services_jobs.checked(kind, body)
    except OpsError as found:
        told = f"{found.message} {found.hint}".strip()
    _start(config, kind, body, told, is_wrong=not missing)


def _start(
    config: Config, kind: JobKind, body: Mapping[str, Any], told: str, *, is_wrong: bool
) -> None:
    """Draw the button that starts a job, or why it cannot be started yet."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Start",
            icon=":material/play_arrow:",
            type="primary",
            key=f"_start_{kind.name}",
            disabled=bool(told),
            on_click=jobs.start,
            args=(config, kind.name, body, JOBS),
        )
        if told:
            icon = ":material/block:" if is_wrong else ":material/edit:"
            st.caption(f"{icon} {words.coded(told)}", width="content")
    jobs.draw_refusal()


def _widget(field: presenter.Field, value: Any, key: str) -> Any:
    """Draw one field; return its value."""
    label = words.plain(field.label) + (" *" if field.is_needed else "")
    help_text = words.plain(field.help) or None
    if field.form == "flag":
        return st.toggle(label, value=bool(value), key=key, help=help_text)
    if field.form in ("whole", "number", "percent"):
        return _number(field, value, label, key)
    if field.form == "choice":
        options = list(field.options)
        index = options.index(str(value)) if str(value) in options else None
        return st.selectbox(label, options, index=index, key=key, help=help_text)
    if field.form in ("choices", "texts"):
        present = [str(one) for one in value or ()]
        return st.multiselect(
            label,
            list(dict.fromkeys([*field.options, *present])),
            default=present,
            key=key,
            help=help_text,
            accept_new_options=field.form == "texts",
            placeholder="All" if field.name in presenter.CLUSTER_FIELDS else "None",
        )
    if field.form == "json":
        text = "" if value in (None, {}, []) else json.dumps(value)
        hint = 'empty: none; or JSON, as in {"key": 1}'
        return st.text_area(label, text, key=key, help=help_text, placeholder=hint, height=80)
    text = "" if value is None else str(value)
    return st.text_input(label, text, key=key, help=help_text, placeholder=field.hint or None)


def _number(field: presenter.Field, value: Any, label: str, key: str) -> Any:
    help_text = words.plain(field.help) or None
    if field.form == "whole":
        low, high = (None if end is None else int(end) for end in (field.low, field.high))
        whole = None if value is None else int(value)
        return st.number_input(
            label, low, high, whole, step=1, key=key, help=help_text, placeholder="none"
        )
    number = None if value is None else float(value)
    if field.form == "percent":
        shown = None if number is None else round(number * 100, 6)
        share = st.number_input(
            f"{label}, %", 0.0, None, shown, format="%g", key=key, help=help_text
        )
        return None if share is None else round(share / 100, 8)
    return st.number_input(
        label, field.low, field.high, number, format="%g", key=key, help=help_text
    )
