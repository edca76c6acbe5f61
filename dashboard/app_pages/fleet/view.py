"""Widgets of the fleet overview: the clusters of each system, findings, and what moved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.findings.finding import Finding, findings_sentence
from dashboard import services, state
from dashboard.app_pages.fleet import model
from dashboard.components import frame, tables, words
from dashboard.components.activity import acting_of
from dashboard.presenters.moves import moves_frame, moves_sentence
from dashboard.queries.pegasus.snapshots import primary_moves
from dashboard.queries.snapshots import broker_history, moves_seen, span_minutes, thinned, within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dashboard.presenters.fleet import ClusterSummary
    from dashboard.presenters.moves import Move
    from dashboard.presenters.pegasus.fleet import PegasusSummary
    from dashboard.queries.snapshots import ShelfState
    from dashboard.services import Cluster, Config


# -- clusters, moves -------------------------------------------------------------------------------

HOUR: Final = timedelta(hours=1)
_MOVES_SHOWN: Final = 200
_READ_ONLY_HELP: Final = (
    "Configured clusters are read-only unless trimtab.toml says `read_only = false` for them."
)


def _open_cluster(page: str, name: str) -> None:
    st.session_state[state.CLUSTER] = name
    state.go(page, cluster=name)


def pulsar_clusters(
    config: Config,
    clusters: Sequence[Cluster],
    saved: Mapping[str, ShelfState],
    summaries: Mapping[str, ClusterSummary | None],
) -> None:
    """Show one row a Pulsar cluster."""
    rows = [
        (one.name, one.environment, summaries[one.name], _trend(saved[one.name]))
        for one in clusters
    ]
    acting = [acting_of(config, one) for one in clusters]
    tables.table(
        model.clusters_table(rows, acting, services.now()),
        {
            "cluster": tables.opener("Cluster", "_open_cluster", partial(_open_cluster, "brokers")),
            "environment": tables.words("Kind"),
            "state": tables.words("State", "The worst finding; unknown is never fine."),
            "access": tables.words("Access", _READ_ONLY_HELP),
            "run": tables.words("Run", "The run that has not ended: see Activity."),
            "deviation": tables.signed_percent(
                "Deviation", "Busiest broker's traffic over the mean."
            ),
            "trend": st.column_config.LineChartColumn("Deviation, last hour", y_min=0, width=120),
            "worst": tables.words("Busiest broker", "By weighted maximum usage."),
            "brokers": tables.whole("Brokers"),
            "bundles": tables.whole("Bundles", "With an owner, of those that can move."),
            "traffic": tables.megabytes("Traffic"),
            "findings": tables.words("Findings"),
            "balancer": tables.words("Own balancer", "Whether the cluster sheds load by itself."),
            "age": tables.words("Read"),
        },
        key="clusters",
        alt="Pulsar clusters with their balance, worst broker and findings",
    )


def _trend(held: ShelfState) -> list[float]:
    if held.latest is None:
        return []
    return model.deviation_trend(
        broker_history(thinned(within(held.entries, held.latest.taken_at, HOUR), 40))
    )


def pegasus_clusters(
    config: Config,
    clusters: Sequence[Cluster],
    summaries: Mapping[str, PegasusSummary | None],
) -> None:
    """Show one row a Pegasus cluster."""
    rows = [(one.name, one.environment, summaries[one.name]) for one in clusters]
    acting = [acting_of(config, one) for one in clusters]
    tables.table(
        model.pegasus_clusters_table(rows, acting, services.now()),
        {
            "cluster": tables.opener("Cluster", "_open_pegasus", partial(_open_cluster, "pegasus")),
            "environment": tables.words("Kind"),
            "state": tables.words("State", "The worst finding; unknown is never fine."),
            "access": tables.words("Access", _READ_ONLY_HELP),
            "run": tables.words("Run", "The run that has not ended: see Activity."),
            "balance": tables.words("Balance", "By what the meta server counts."),
            "unhealthy": tables.whole("Unhealthy", "Partitions that miss replicas, by state."),
            "partitions": tables.whole("Partitions"),
            "level": tables.words("Level", "Effective level; the stored one too if it differs."),
            "nodes": tables.words("Nodes alive"),
            "tables": tables.whole("Tables"),
            "findings": tables.words("Findings"),
            "age": tables.words("Read"),
        },
        key="pegasus_clusters",
        alt="Pegasus clusters with their health, balance, level and findings",
    )


def moved_bundles(page: frame.PageContext) -> None:
    """Show the bundles that changed hands in the last hour."""
    window = thinned(within(page.saved.entries, page.shelved.taken_at, HOUR), 30)
    moves = moves_seen(window)
    st.caption(moves_sentence(moves, span_minutes(window)) + " Inferred from snapshots.")
    _moves_table(moves, "Bundle", frame.bundle_link)


def moved_primaries(page: frame.PegasusPage) -> None:
    """Show the partitions whose primary changed in the last hour."""
    window = thinned(within(page.saved.entries, page.shelved.taken_at, HOUR), 30)
    moves = primary_moves(window)
    said = moves_sentence(moves, span_minutes(window), "node")
    st.caption(f"Primaries: {said} Inferred from snapshots.")
    names = {app_id: table.name for app_id, table in page.facts.tables.items()}
    _moves_table(moves, "Partition", partial(frame.partition_link, tables=names))


def _moves_table(moves: Sequence[Move], what: str, open_row: Callable[[str], None]) -> None:
    if not moves:
        return
    shown = moves[-_MOVES_SHOWN:]
    tables.table(
        moves_frame(shown),
        {
            "bundle": tables.opener(what, "_moved", open_row),
            "from": tables.words("From"),
            "to": tables.words("To"),
            "mark": tables.words("Mark"),
            "seen_at": st.column_config.DatetimeColumn("Seen (UTC)", format="HH:mm:ss"),
        },
        key="fleet_moves",
        alt=f"{what}s that moved in the last hour",
        height=min(430, tables.height_of(len(shown))),
    )


def figures(found: Sequence[tuple[str, str, str]]) -> None:
    """Show the figures of the chosen cluster in a row."""
    with st.container(horizontal=True, gap="small"):
        for label, value, text in found:
            st.metric(label, value, help=words.plain(text), border=True, width="content")


# -- findings --------------------------------------------------------------------------------------

_ICONS: Final = {
    "error": ":red[:material/error:]",
    "warning": ":orange[:material/warning:]",
    "unknown": ":gray[:material/help:]",
    "info": ":gray[:material/info:]",
}
_PAGES: Final = {
    "broker": ("broker", "broker"),
    "bundle": ("bundle", "bundle"),
    "namespace": ("bundles", "namespace"),
    "node": ("pegasus", "node"),
    "pegasus_table": ("pegasus_tables", "table"),
}
"""By kind of subject: the page that shows it, and the parameter that names it there."""

_PAGES_OF_CODES: Final = {
    "not_balanced": "pegasus_balance",
    "balance_unknown": "pegasus_balance",
    "level_low": "pegasus",
    "level_unknown": "pegasus",
}
"""Of findings on a whole cluster: the page on which something can be done about them."""


def finding_list(findings: Sequence[Finding], *, key: str, limit: int = 12) -> None:
    """Show findings; those beyond ``limit`` are shown on request."""
    if not findings:
        st.caption(":material/check_circle: Nothing to report, and nothing is unknown.")
        return
    shown = list(findings)
    if len(findings) > limit:
        text = findings_sentence(tuple(findings))
        if not st.toggle(f"Show all {len(findings)} ({text})", key=f"_{key}_all"):
            shown = shown[:limit]
    for number, finding in enumerate(shown):
        _one(finding, key=f"_{key}_{number}")


def _one(finding: Finding, *, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        text = f"{_ICONS[finding.severity]} {words.plain(finding.sentence)}"
        if finding.hint:
            text += f" :gray[{words.plain(finding.hint)}]"
        st.markdown(text)
        page, parameter = _PAGES.get(finding.subject_kind, ("", ""))
        if page and finding.subject:
            st.button(
                "Open",
                key=key,
                type="tertiary",
                icon=":material/arrow_forward:",
                help=words.plain(f"Open {parameter} {finding.subject}"),
                on_click=_go,
                args=(page, parameter, finding.subject),
            )
        elif finding.code in _PAGES_OF_CODES:
            st.button(
                "Open",
                key=key,
                type="tertiary",
                icon=":material/arrow_forward:",
                help="Open the page on which something can be done about it",
                on_click=state.go,
                args=(_PAGES_OF_CODES[finding.code],),
            )


def _go(page: str, parameter: str, subject: str) -> None:
    state.go(page, **{parameter: subject})
