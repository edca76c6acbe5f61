"""Jobs on a page: whether a job server runs them, how far each is, stopping one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.errors import OpsError
from dashboard import services, state
from dashboard.components import tables, words
from dashboard.presenters import jobs as presenter
from dashboard.queries import access
from dashboard.services import config_option
from dashboard.services import jobs as services_jobs

if TYPE_CHECKING:
    from dashboard.services import Config
    from dashboard.services.jobs import Job

LOOK_EVERY_S: Final = 1.0
MOST_SHOWN: Final = 8
_LIST_PX: Final = 560
_LINE_LETTERS: Final = 62
"""A result with more letters wraps."""
_RESULT_LETTERS: Final = 170
"""Letters of three lines; the page of a job has the whole result."""
_FAILED: Final = "_job_failed"


def listed(config: Config) -> list[Job]:
    """Return all jobs, the newest first; a queue that cannot be read is reported on the page."""
    try:
        return services_jobs.jobs(config)
    except OpsError as error:
        words.failed(error, what="Could not read the jobs")
        return []


def server_of(config: Config) -> presenter.ServerState:
    """Return whether a job server runs."""
    return presenter.server_state(
        services_jobs.server_status(config), now=services.now(), config_words=config_option(config)
    )


def draw_server(server: presenter.ServerState) -> None:
    """Render how to start a server where none runs."""
    if server.is_alive:
        return
    st.warning(
        f"{words.plain(server.sentence)} Jobs stay queued until a job server runs. `trimtab "
        "dashboard` and `trimtab demo` start a job server; to start one separately:",
        title="No job server running",
        icon=":material/power_off:",
    )
    st.code(server.remedy, language="bash")


def request(config: Config, kind: str, parameters: Mapping[str, Any]) -> str | None:
    """Request a job and return its name; ``None``: it is refused, see :func:`draw_refusal`.

    Args:
        config: The configuration.
        kind: Name of its kind.
        parameters: What its model takes.
    """
    st.session_state.pop(_FAILED, None)
    try:
        return services_jobs.request_job(config, kind, parameters, access.person(config))
    except OpsError as error:
        st.session_state[_FAILED] = error
        return None


def start(config: Config, kind: str, parameters: Mapping[str, Any], page: str) -> None:
    """Request a job and open it on the page that shows it; for callbacks.

    Args:
        config: The configuration.
        kind: Name of its kind.
        parameters: What its model takes.
        page: That shows it.
    """
    job_id = request(config, kind, parameters)
    if job_id is not None:
        state.go(page, job=job_id)


def draw_refusal() -> None:
    """Render why the last requested job was refused."""
    failed = st.session_state.get(_FAILED)
    if isinstance(failed, OpsError):
        words.failed(failed, what="Could not start the job")


def chosen(config: Config) -> Job | None:
    """Return the job that the address names; ``None``: none. An unknown one is said."""
    name = st.query_params.get(state.JOB, "")
    if not name:
        return None
    try:
        return services_jobs.job(config, name)
    except OpsError as error:
        words.failed(error, what="Job not found")
        return None


def draw_under_way(config: Config, job_ids: Sequence[str]) -> None:
    """Draw jobs that are not ended, and look again by itself until one is."""
    if job_ids:
        every = state.ticking(LOOK_EVERY_S)
        st.fragment(partial(_under_way, config, tuple(job_ids)), run_every=every)()


def _under_way(config: Config, job_ids: Sequence[str]) -> None:
    server = server_of(config)
    has_ended = False
    for job_id in job_ids[:MOST_SHOWN]:
        try:
            job = services_jobs.job(config, job_id)
        except OpsError:  # removed by another user
            has_ended = True
            continue
        has_ended = has_ended or job.is_ended
        _bar(config, job, server)
    if len(job_ids) > MOST_SHOWN:
        st.caption(f"{len(job_ids) - MOST_SHOWN:,} more queued.")
    if has_ended and not state.is_busy():
        st.rerun()


def _bar(config: Config, job: Job, server: presenter.ServerState) -> None:
    title = presenter.title_of(job, services_jobs.kinds())
    with st.container(horizontal=True, vertical_alignment="center", key=f"job_{job.id}"):
        progress = presenter.progress_words(job, is_served=server.is_alive)
        st.progress(
            presenter.progress_ratio(job),
            text=f"**{words.plain(title)}** · {words.plain(progress)}",
        )
        st.button(
            "Stop",
            icon=":material/stop_circle:",
            type="tertiary",
            key=f"_stop_{job.id}",
            disabled=job.is_stopping or job.is_ended,
            help="The job stops after the current part, on Spark within a minute. Partial results "
            "are discarded.",
            on_click=_stop,
            args=(config, job.id),
        )


def _stop(config: Config, job_id: str) -> None:
    try:
        services_jobs.stop_job(config, job_id, access.person(config))
    except OpsError as error:
        st.toast(words.plain(str(error)), icon=":material/error:")


def draw_failure(job: Job) -> None:
    """Render why a job has no result."""
    error = job.status.error or {}
    body = words.coded(f"{error.get('message', '')} {error.get('hint', '')}".strip())
    if job.state == "stopped":
        st.info(body or "The job was stopped.", title="Stopped", icon=":material/stop_circle:")
    else:
        st.error(body, title="Job failed", icon=":material/error:")


def leave(config: Config, job_id: str) -> None:
    """Show no job any more, and drop it; for callbacks."""
    try:
        services_jobs.drop_job(config, job_id, access.person(config))
    except OpsError as error:
        st.toast(words.plain(str(error)), icon=":material/error:")
    close()


def close() -> None:
    """Show no job any more; for callbacks."""
    st.query_params.pop(state.JOB, None)


def draw_list(config: Config, jobs: Sequence[Job], *, key: str) -> None:
    """Draw jobs as a table that follows the running ones; a click opens or stops a job.

    Args:
        config: The configuration.
        jobs: Newest first.
        key: Of the table.
    """
    is_over = all(job.is_ended for job in jobs)
    every = None if is_over else state.ticking(LOOK_EVERY_S)
    names = frozenset(job.id for job in jobs)
    ended = sum(job.is_ended for job in jobs)
    shown = st.query_params.get(state.JOB)
    st.fragment(partial(_list, config, names, ended, shown, key), run_every=every)()


def _list(config: Config, names: Collection[str], ended: int, shown: str | None, key: str) -> None:
    if st.query_params.get(state.JOB) != shown:
        st.rerun()  # a click opened a job: all of the page shows it, at once
    jobs = [job for job in listed(config) if job.id in names]
    active, over = presenter.in_order(jobs)
    if len(over) != ended and not state.is_busy():
        st.rerun()
    if active:
        words.section("Active", "in the order of execution")
        _table(config, active, f"{key}_active", is_active=True)
    if active and over:
        words.section("Ended", "newest first")
    if over:
        _table(config, over, key, is_active=False)


def _table(config: Config, jobs: Sequence[Job], key: str, *, is_active: bool) -> None:
    """Draw jobs, either active or ended ones."""
    rows = presenter.jobs_frame(
        jobs, services_jobs.kinds(), services.now(), is_served=server_of(config).is_alive
    )
    rows = rows.assign(result=tables.shortened(rows["outcome"], _RESULT_LETTERS))
    is_long = not is_active and rows["result"].str.len().max() > _LINE_LETTERS
    row_px = tables.WRAPPED_ROW_PX if is_long else tables.ROW_PX
    columns = _columns(config, jobs, key)
    without = ("open",) if is_active else ("progress", "stop")
    tables.table(
        rows,
        {name: column for name, column in columns.items() if name not in without},
        key=key,
        alt="Active jobs with state, progress and activity"
        if is_active
        else "Ended jobs with state and result",
        height=min(_LIST_PX, tables.height_of(len(rows), row_px)),
        row_px=row_px,
        missing="",
    )


def _columns(config: Config, jobs: Sequence[Job], key: str) -> dict[str, tables.Column]:
    """Return the columns of a list of jobs, with what a click does."""

    def open_of(click_key: str) -> None:
        click = st.session_state.get(click_key)
        if click is not None:
            job = jobs[click["row"]]
            state.go(presenter.page_of(job.kind), job=job.id)

    def stop_clicked() -> None:
        click = st.session_state.get(f"_{key}_stop")
        if click is not None:
            _stop(config, jobs[click["row"]].id)

    return {
        "kind": st.column_config.ButtonColumn(
            "Job",
            type="tertiary",
            alignment="left",
            pinned=True,
            on_click=partial(open_of, f"_{key}_job"),
            key=f"_{key}_job",
            width=250,
        ),
        "state": tables.words("State", width_px=88),
        "progress": tables.share("Progress", width_px=90),
        "result": tables.words("Activity" if not jobs[0].is_ended else "Result", width_px=380),
        "open": st.column_config.ButtonColumn(
            "",
            type="tertiary",
            on_click=partial(open_of, f"_{key}_open"),
            key=f"_{key}_open",
            width=100,
        ),
        "cluster": tables.words("Cluster"),
        "asked_at": st.column_config.DatetimeColumn("Requested (UTC)", format="MM-DD HH:mm"),
        "took_s": tables.seconds("Duration"),
        "who": tables.words("User"),
        "stop": st.column_config.ButtonColumn(
            "", on_click=stop_clicked, key=f"_{key}_stop", width=70
        ),
    }
