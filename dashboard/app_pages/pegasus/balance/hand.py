"""A single move by hand: partition, kind, where from, where to, and why nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from core.pegasus.partition import PartitionConfig
from core.pegasus.plan.build import RequestedMove
from core.pegasus.proposal import Move
from dashboard import state
from dashboard.app_pages.pegasus.balance import changes
from dashboard.components import tables, words
from dashboard.legible import option

if TYPE_CHECKING:
    from dashboard.components.pegasus.page import PegasusPage

_KIND = "move"
_MOST_PX = 320


def requested_move(page: PegasusPage) -> RequestedMove | None:
    """Draw the choices, and return the move; ``None``: none is possible as chosen."""
    config = _partition(page)
    if config is None:
        return None
    word = st.segmented_control(
        "Change",
        list(changes.MOVES),
        default=next(iter(changes.MOVES)),
        required=True,
        key=_KIND,
        bind="query-params",
    )
    move = changes.MOVES[word]
    st.caption(changes.EXPLAINED[move])
    return _ends(page, config, move)


def _partition(page: PegasusPage) -> PartitionConfig | None:
    """Draw the choice of the partition and its members."""
    known = {one.name: one.partition_count for one in page.facts.tables.values()}
    if not known:
        st.info("The cluster has no tables.")
        return None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        table = st.selectbox(
            "Table",
            sorted(known),
            format_func=option,
            key=state.TABLE,
            bind="query-params",
            width=260,
        )
        count = known.get(str(table), 1)
        index = st.number_input(
            f"Partition, 0 to {count - 1}",
            min_value=0,
            max_value=max(count - 1, 0),
            value=0,
            key=state.PARTITION,
            bind="query-params",
            width=170,
        )
    config = changes.config_of(page.facts, str(table), int(index))
    if config is None:
        st.warning("This partition was not read. See the problems of the snapshot.")
        return None
    primary = config.primary or "no node"
    secondaries = ", ".join(config.secondaries) or "no node"
    st.markdown(
        words.plain(
            f"Partition {config.gpid}: primary on {primary}, secondaries on {secondaries}; ballot "
            f"{config.ballot}."
        )
    )
    return config


def _ends(page: PegasusPage, config: PartitionConfig, move: Move) -> RequestedMove | None:
    sources = changes.sources(config, move)
    if not sources:
        st.info("The partition has no replica with this role.")
        return None
    source = sources[0]
    if len(sources) > 1:
        source = st.selectbox(
            "From", sources, format_func=option, key=state.FROM, bind="query-params", width=260
        )
    rows = changes.targets_frame(page.facts, config, move, source)
    allowed = changes.allowed(rows)
    target = None
    if allowed:
        if st.session_state.get(state.TO) not in (None, *allowed):
            st.session_state.pop(state.TO)
        target = st.selectbox(
            "To", allowed, format_func=option, key=state.TO, bind="query-params", width=260
        )
    else:
        st.info("No node is allowed. See the reason in each row.", icon=":material/block:")
    tables.table(
        rows,
        {
            "node": tables.words("Node"),
            "verdict": st.column_config.TextColumn("Allowed", width=640),
            "primaries": tables.whole("Primaries"),
            "replicas": tables.whole("Replicas"),
            "free_mb": tables.size("Free"),
        },
        key="hand_targets",
        alt="Nodes with permission to receive the replica and the reason",
        height=min(_MOST_PX, tables.height_of(len(rows))),
    )
    return None if target is None else RequestedMove(config.gpid, move, source, str(target))
