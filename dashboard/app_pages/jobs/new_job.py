"""A new job: started in one step with its defaults, or from the dialog with all parameters.

The dialog is open while the address names a kind, so that any page links to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import OpsError
from dashboard import state
from dashboard.app_pages.jobs import model
from dashboard.components import jobs, words
from dashboard.legible import option
from dashboard.presenters.jobs import JOBS, page_of
from dashboard.services import jobs as services_jobs

if TYPE_CHECKING:
    from dashboard.services import Config
    from dashboard.services.jobs import Job, JobKind

FIRST: Final = "trends"
"""Kind that is chosen unless a page chooses another one."""

_COLUMNS: Final = 2
_CHOICE: Final = "_new_job_kind"
_NEXT: Final = "_next_job_kind"


def draw_start(config: Config, kinds: Mapping[str, JobKind], cluster: str) -> None:
    """Draw the kinds of jobs, and the button that starts one with its defaults.

    Args:
        config: The configuration.
        kinds: By name.
        cluster: That the header shows: of the job, where it is of one cluster.
    """
    own = {name: kind for name, kind in kinds.items() if page_of(name) == JOBS}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox(
            "New job",
            sorted(own),
            index=sorted(own).index(FIRST),
            format_func=lambda one: own[str(one)].title,
            key=_NEXT,
            width=300,
        )
        kind = own[str(name)]
        fields = _fields_of(config, kind, cluster)
        problem, body = _request_of(kind, fields, {field.name: field.default for field in fields})
        is_started = st.button(
            "Start job",
            icon=":material/play_arrow:",
            type="primary",
            key="_start_next",
            disabled=bool(problem),
            help="Runs in the background with default parameters; read-only.",
        )
        draw_button(kind.name, "Parameters…")
    about = words.coded(problem) if problem else ""
    st.caption(f"{words.plain(kind.answers)} {about}".strip())
    if is_started and jobs.request(config, kind.name, body) is not None:
        st.rerun()
    jobs.draw_refusal()


def _fields_of(config: Config, kind: JobKind, cluster: str) -> tuple[model.Field, ...]:
    """Return the fields of a kind, the cluster of the header where it can be of that."""
    names = [one.name for one in config.clusters if kind.system in (None, one.kind)]
    return model.fields_of(kind, names, cluster if cluster in names else "")


def _request_of(
    kind: JobKind, fields: Sequence[model.Field], given: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the reason why a job cannot be requested, empty if it can, and its parameters."""
    if missing := model.missing_of(fields, given):
        return f"Required parameters: {', '.join(missing)}.", {}
    try:
        body = model.parameters_of(fields, given)
        services_jobs.checked(kind, body)
    except OpsError as found:
        return f"{found.message} {found.hint}".strip(), {}
    return "", body


def draw_button(kind: str = FIRST, label: str = "New job…") -> None:
    """Draw the button that opens the dialog.

    Args:
        kind: That is chosen at first.
        label: Of the button.
    """
    st.button(
        label,
        icon=":material/tune:",
        key="_new_job",
        on_click=_open,
        args=(kind if page_of(kind) == JOBS else FIRST,),
    )


def _open(kind: str) -> None:
    st.query_params[state.KIND] = kind


def _close() -> None:
    st.query_params.pop(state.KIND, None)
    st.session_state.pop(_CHOICE, None)
    state.set_dialog_open(is_open=False)


def draw_dialog(
    config: Config, kinds: Mapping[str, JobKind], cluster: str, shown: Job | None
) -> None:
    """Draw the dialog where the address names a kind.

    Args:
        config: The configuration.
        kinds: By name.
        cluster: That the header shows.
        shown: A job that is looked at: its parameters fill the form.
    """
    own = {name: kind for name, kind in kinds.items() if page_of(name) == JOBS}
    if st.query_params.get(state.KIND, "") not in own:
        return
    state.set_dialog_open(is_open=True)
    st.dialog("New job", width="large", icon=":material/pending_actions:", on_dismiss=_close)(
        partial(_body, config, own, cluster, shown)
    )()


def _body(config: Config, own: Mapping[str, JobKind], cluster: str, shown: Job | None) -> None:
    names = list(own)
    st.session_state.setdefault(_CHOICE, st.query_params.get(state.KIND, names[0]))
    name = st.selectbox("Kind", names, format_func=lambda one: own[str(one)].title, key=_CHOICE)
    kind = own[str(name)]
    st.caption(words.plain(kind.answers))
    _form(config, kind, cluster, shown if shown and shown.kind == kind.name else None)


def _form(config: Config, kind: JobKind, cluster: str, shown: Job | None) -> None:
    """Draw the form of a kind, filled with the parameters of a job of it."""
    fields = _fields_of(config, kind, cluster)
    stamp = shown.id if shown else "new"
    filled = shown.request.parameters if shown and shown.request else {}
    plain = [field for field in fields if field.name not in model.ADVANCED]
    advanced = [field for field in fields if field.name in model.ADVANCED]
    given = _fields(plain, filled, f"{kind.name}_{stamp}")
    if advanced:
        with st.expander("Advanced", icon=":material/tune:"):
            given |= _fields(advanced, filled, f"{kind.name}_{stamp}")
    problem, body = _request_of(kind, fields, given)
    _start(config, kind, body, problem, is_wrong=not model.missing_of(fields, given))


def _fields(fields: Sequence[model.Field], filled: Mapping[str, Any], stamp: str) -> dict[str, Any]:
    columns = st.columns(_COLUMNS, gap="medium")
    given = {}
    for rank, field in enumerate(fields):
        with columns[rank % _COLUMNS]:
            value = filled.get(field.name, field.default)
            given[field.name] = _widget(field, value, f"_field_{stamp}_{field.name}")
    return given


def _start(
    config: Config, kind: JobKind, body: Mapping[str, Any], problem: str, *, is_wrong: bool
) -> None:
    """Draw the button that starts a job, or why it cannot be started yet."""
    with st.container(horizontal=True, vertical_alignment="center"):
        is_started = st.button(
            "Start job",
            icon=":material/play_arrow:",
            type="primary",
            key=f"_start_{kind.name}",
            disabled=bool(problem),
        )
        if problem:
            icon = ":material/block:" if is_wrong else ":material/edit:"
            st.caption(f"{icon} {words.coded(problem)}", width="content")
    if is_started:
        job_id = jobs.request(config, kind.name, body)
        if job_id is not None:
            _close()
            st.query_params[state.JOB] = job_id
            st.rerun()
    jobs.draw_refusal()


def _widget(field: model.Field, value: Any, key: str) -> Any:
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
            format_func=option,
            key=key,
            help=help_text,
            accept_new_options=field.form == "texts",
            placeholder="All" if field.name in model.CLUSTER_FIELDS else "None",
        )
    if field.form == "json":
        text = "" if value in (None, {}, []) else json.dumps(value)
        hint = 'JSON, for example {"key": 1}; empty: none'
        return st.text_area(label, text, key=key, help=help_text, placeholder=hint, height=80)
    text = "" if value is None else str(value)
    return st.text_input(label, text, key=key, help=help_text, placeholder=field.hint or None)


def _number(field: model.Field, value: Any, label: str, key: str) -> Any:
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
