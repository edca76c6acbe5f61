"""Results of a back-test: ranking, Pareto chart, time lines, moves, changes and their plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import OpsError
from core.history.backtest.model import AS_RECORDED
from dashboard import services, state
from dashboard.app_pages.backtest import model, queries
from dashboard.app_pages.backtest.charts import pareto_chart, timeline_chart
from dashboard.components import figures, tables, words
from dashboard.legible import option
from dashboard.presenters import candidates
from dashboard.services import config_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from dashboard.app_pages.backtest.model import BacktestView, ResultTables
    from dashboard.app_pages.backtest.system import BacktestPages
    from dashboard.components.frame import FleetContext
    from dashboard.services import Config
    from dashboard.services.jobs import Job


# -- ranking, chart, time lines --------------------------------------------------------------------

_MOVES: Final = 2_000


def read(job: Job) -> ResultTables | None:
    """Return the result of a finished job; ``None`` if unreadable or if nothing was replayed."""
    try:
        found = queries.found(job)
    except OpsError as error:
        words.failed(error, what="Could not read the result")
        return None
    if found.candidates.empty:
        st.info("No replays.", icon=":material/info:")
        return None
    return found


def pick_cluster(job: Job, result_tables: ResultTables) -> BacktestView:
    """Draw the choice of the cluster where there are several; return the selected one."""
    cluster = result_tables.clusters[0]
    if len(result_tables.clusters) > 1:
        chosen = st.segmented_control(
            "Cluster",
            result_tables.clusters,
            default=cluster,
            required=True,
            format_func=option,
            key=state.OF,
            bind="query-params",
        )
        cluster = str(chosen) if chosen in result_tables.clusters else cluster
    ranking = result_tables.ranking(cluster)
    known = model.candidates_of(ranking)
    parameters = [name for name in state.listed(state.PICK) if name in known]
    return model.BacktestView(
        job=job,
        found=result_tables,
        target=queries.target_of(job),
        nouns=queries.nouns_of(job),
        cluster=cluster,
        ranking=ranking,
        picked=parameters[: model.MAX_LINES] or model.default_pick(ranking),
    )


def nothing_recorded(config: Config, cluster: str) -> None:
    """Render how to record a history."""
    st.info(
        f"No history of {words.plain(cluster)} yet. Start a collector, or import an export "
        "from another machine.",
        icon=":material/history:",
    )
    more = config_option(config)
    st.code(f"trimtab collect {cluster}{more}\ntrimtab history import FILE{more}", "bash")


def draw_pareto(view: BacktestView) -> None:
    """Draw moves a day against the deviation that is left."""
    points = model.points_of(view.ranking, view.advised)
    if not points:
        st.info(
            "No candidate was replayed. See the reasons in the ranking.",
            icon=":material/info:",
        )
        return
    goal, moves = view.target, view.nouns.moves.capitalize()
    figures.chart(
        pareto_chart(
            points,
            target=(goal.unloads_per_day, goal.deviation) if goal else None,
            nouns=view.nouns,
        ),
        key="backtest_pareto",
        alt=f"{moves} per day vs. max deviation, one point per candidate",
    )
    note = "Number at a point: rank. Error bars: min and max over the seeds."
    lost = model.reassigned_words(model.record_of(view.ranking), view.nouns)
    st.caption(words.plain(" ".join(filter(None, (note, lost)))))


def draw_references(sentence: str) -> None:
    """Draw the actual result and the replay of the recorded settings, if the answer has them."""
    _, rest = model.headline(sentence)
    if rest:
        with st.expander("Actual and replayed", icon=":material/fact_check:"):
            st.markdown(words.plain(rest))


def draw_ranking(view: BacktestView) -> None:
    """Draw the candidates, best first; a click adds one to the time lines."""
    rows = model.ranking_frame(view.ranking)
    own, common = candidates.own_names(rows["candidate"].tolist(), AS_RECORDED)
    short = candidates.short_keys(list(own.values()))
    own = candidates.with_short_keys(own, short)
    if common:
        st.caption(words.plain(f"All candidates with changed settings: {common}"))
    spelled = [f"{said}: {key}" for key, said in short.items() if said != key]
    if spelled:
        st.caption(words.plain(" · ".join(spelled)))
    whole = {name: label for label, name in own.items()}
    moves = view.nouns.moves.capitalize()
    words.notes(candidates.not_simulated(view.ranking.to_dict("records")))
    columns = {
        "rank": tables.whole("Rank", f"{view.nouns.rule} Comparisons have no rank.", width_px=52),
        "candidate": tables.opener(
            "Candidate", "_ranked", partial(_toggle_own, view.picked, whole), width_px=210
        ),
        "deviation_p95": tables.percent(
            "Deviation p95", "Max deviation from the mean, p95 over the minutes."
        ),
        "unloads_per_day": st.column_config.NumberColumn(f"{moves} a day", format="%,.1f"),
        "marks": st.column_config.TextColumn("Status", width=150),
        "deviation_mean": tables.percent(
            "Deviation mean", "Max deviation from the mean, averaged over the minutes."
        ),
        "minutes_over": tables.percent("Minutes over 20%"),
        "client_cuts_per_day": tables.whole(
            "Disconnects a day", "Clients that a move disconnects."
        ),
        "ping_pongs_per_day": tables.whole(
            "Ping-pongs a day", f"{moves} back to the previous {view.nouns.server}."
        ),
        "problem": tables.words("Reason"),
    }
    if rows["problem"].isna().all():
        del columns["problem"]
    tables.table(
        rows.assign(candidate=rows["candidate"].map(own)),
        columns,
        key="backtest_ranking",
        alt="Candidates, best first, and the actual result",
        height=min(480, tables.height_of(len(rows))),
        missing="",
    )
    tables.downloads(rows, cluster=view.cluster, what="backtest", moment=services.now())
    st.caption("The download also has ranges over the seeds, moved traffic, splits and runs.")


def _toggle_own(picked: list[str], whole: Mapping[str, str], short: str) -> None:
    _toggle(picked, whole.get(short, short))


def _toggle(picked: list[str], name: str) -> None:
    """Show the time line of a candidate, or no more; for callbacks."""
    remaining = [one for one in picked if one != name]
    state.keep_list(state.PICK, remaining if name in picked else [*remaining, name])


def draw_timelines(view: BacktestView) -> None:
    """Draw the selected candidates over time, with the actual result."""
    names = model.candidates_of(view.ranking)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        picked = st.multiselect(
            "Candidates",
            names,
            default=view.picked,
            key=f"_lines_{view.job.id}_{view.cluster}_{'/'.join(view.picked)}",
            max_selections=model.MAX_LINES,
            on_change=_note_picked,
            args=(f"_lines_{view.job.id}_{view.cluster}_{'/'.join(view.picked)}",),
        )
        seeds = queries.seeds_of(view.job)
        seed = st.selectbox("Seed", seeds, key="_line_seed", width=110)
    if not picked:
        st.caption("Select a candidate.")
        return
    try:
        _over_time(view, picked, int(seed or seeds[0]))
    except OpsError as error:
        words.failed(error, what="Could not read the timelines")


def _over_time(view: BacktestView, picked: list[str], seed: int) -> None:
    timeline = queries.simulated(view.job, "timeline", view.one_cluster, picked)
    lines = [] if timeline is None else model.lines_of(timeline, picked, seed)
    if not lines:
        st.caption("No timelines recorded.")
        return
    figures.chart(
        timeline_chart(
            lines, target=view.target.deviation if view.target else None, nouns=view.nouns
        ),
        key="backtest_timeline",
        alt=f"Deviation and {view.nouns.moves} of the selected candidates over time",
    )
    _history_link(view, lines[0].times[0], lines[0].times[-1])
    _moves(view, picked, seed)


def _note_picked(key: str) -> None:
    state.keep_list(state.PICK, st.session_state.get(key) or [])


def _history_link(view: BacktestView, start: datetime, end: datetime) -> None:
    ends = (start, end + timedelta(minutes=1))  # whole minutes, the last one among them
    stamps = [moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M") for moment in ends]
    st.button(
        "Open this period in History",
        icon=":material/history:",
        type="tertiary",
        key="_backtest_history",
        on_click=_open_history,
        args=(view.one_cluster, *stamps),
    )


def _open_history(cluster: str, start: str, end: str) -> None:
    state.go("history", cluster=cluster, range="dates", start=start, end=end)


def _moves(view: BacktestView, picked: list[str], seed: int) -> None:
    """Draw the moves of one of the picked candidates."""
    if "moves" not in (view.job.answer.tables if view.job.answer else ()):
        return
    with st.expander("Moves", icon=":material/swap_horiz:"):
        name = str(st.selectbox("Moves of", picked, index=len(picked) - 1, key="_moves_of"))
        moves = queries.simulated(view.job, "moves", view.one_cluster, [name])
        if moves is None:
            return
        rows = model.moves_frame(moves, seed)
        cut = f"; first {_MOVES:,} shown" if len(rows) > _MOVES else ""
        st.caption(f"{len(rows):,} moves{cut}.")
        tables.table(
            rows.head(_MOVES),
            {
                "taken_at": st.column_config.DatetimeColumn(
                    "Time (UTC)", format="YYYY-MM-DD HH:mm:ss"
                ),
                "source": tables.words("From"),
                "destination": tables.words("To"),
                "kind": tables.words("Kind"),
                "moved": tables.megabytes("Traffic"),
                "clients": tables.whole("Clients"),
                "subject": tables.words(view.nouns.subject.capitalize()),
            },
            key="backtest_moves",
            alt=f"Moves of {name}",
            height=min(360, tables.height_of(min(len(rows), _MOVES))),
            missing="",
        )
        tables.downloads(rows, cluster=view.cluster, what="moves", moment=services.now())


# -- what to change, and its plan ------------------------------------------------------------------

PLAN: Final = "plan"
TO_PLAN: Final = "to_plan"

_OPENED: Final = "_plan_opened"
_INTO_VIEW: Final = """<script>
document.querySelector(".st-key-backtest_plan")?.scrollIntoView({block: "start"});
</script>"""
"""The plan that was asked for is below what the button was next to."""


def draw_change(page: FleetContext, system: BacktestPages, view: BacktestView) -> None:
    """Draw the changes of the cluster and their plan."""
    name = view.one_cluster
    words.section("Changes", f"on {name}; simulated to convergence from its last minute")
    for note in model.cautions(view.found.ranking(name)):
        st.caption(f":material/block: {words.plain(note)}")
    changes = _changes(view, name)
    if changes is None:
        return
    st.caption(words.plain(model.verdict_words(changes)))
    st.code(model.diff_text(changes), language="diff", wrap_lines=True)
    words.notes(model.change_notes(changes))
    restart = model.restart_note(changes)
    if restart:
        st.warning(words.plain(restart), icon=":material/restart_alt:")
    if name != page.choice.cluster.name:
        st.button(
            f"Open {words.plain(name)} to create a plan",
            icon=":material/open_in_new:",
            on_click=_choose,
            args=(name,),
        )
        return
    if not model.wanted(changes):
        return  # the notes say what needs a restart
    label = str(changes["candidate"].iloc[0])
    if st.query_params.get(PLAN) != label:
        st.button(
            "Preview plan",
            icon=":material/preview:",
            type="secondary" if restart else "primary",
            key="_preview_plan",
            help="No setting changes until you apply the plan.",
            on_click=_open_plan,
            args=(label,),
        )
        return
    _plan(page, system, changes)


def _plan(page: FleetContext, system: BacktestPages, changes: pd.DataFrame) -> None:
    """Draw the plan, in sight where it has just been opened."""
    if page.page is None:
        name = words.plain(page.choice.cluster.name)
        st.info(
            f"A plan requires a snapshot of {name}; none exists yet.",
            icon=":material/info:",
        )
        return
    with st.container(key="backtest_plan"):
        system.draw_plan(page.page, changes, model.wanted(changes))
    if st.session_state.pop(_OPENED, False):
        st.html(_INTO_VIEW, unsafe_allow_javascript=True)


def _changes(view: BacktestView, name: str) -> pd.DataFrame | None:
    """Draw the choice of a candidate; return its changes, ``None`` if none is selected."""
    advised = view.found.changes(name)
    if advised.empty:
        st.caption(
            ":material/check_circle: No recommendation: no candidate improves on the recorded "
            "settings."
        )
    offered = model.plannable(view.found.ranking(name))
    best = None if advised.empty else str(advised["candidate"].iloc[0])
    chosen = st.selectbox(
        "Candidate",
        offered,
        index=offered.index(best) if best in offered else None,
        placeholder="Choose a candidate",
        format_func=option,
        key=TO_PLAN,
        bind="query-params",
    )
    if chosen is None or chosen == best:
        return None if advised.empty else advised
    try:
        changes = queries.changes_to(view.job, name, chosen)
    except OpsError as error:
        words.failed(error, what="Could not read the changes")
        return None
    if changes.empty:
        st.caption("No changed settings, or the recorded settings were not replayed.")
        return None
    return changes


def _open_plan(candidate: str) -> None:
    st.query_params[PLAN] = candidate
    st.session_state[_OPENED] = True


def _choose(cluster: str) -> None:
    st.session_state[state.CLUSTER] = cluster
