"""The tab that compares settings: brokers with each other, defaults, a cluster, a past time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import InputError, OpsError, SnapshotError
from core.pulsar.rules.doctor.groups import Comparison
from core.pulsar.settings import EffectiveSettings
from dashboard import services, state
from dashboard.app_pages.pulsar.settings import model, view
from dashboard.components import choice, tables, words
from dashboard.presenters.moments import parse_stamp, stamp, typed_moment
from dashboard.queries.history import nearest
from dashboard.queries.pulsar.snapshots import reading
from dashboard.queries.snapshots import saved_snapshots

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.components.pulsar.page import PulsarPage

_TABLE_PX: Final = 480
_AN_HOUR_AGO: Final = "-1h"


def draw(page: PulsarPage, brokers: Comparison) -> None:
    """Draw the choice of what to compare with, and the differences.

    Args:
        page: Of the cluster.
        brokers: Its brokers, compared with each other.
    """
    with st.container(horizontal=True, vertical_alignment="center"):
        against = choice.segmented(
            "Compare with",
            list(model.COMPARED_WITH),
            key=state.COMPARE,
            format_func=model.COMPARED_WITH.__getitem__,
        )
        place = st.container(width="content")
    if against == model.BROKERS:
        _brokers(brokers)
    elif against == model.DEFAULTS:
        _differences(page, None, f"Default of {page.reading.settings.target.label}")
    else:
        try:
            with place:
                other = _cluster(page) if against == model.CLUSTER else _past(page)
            if other is not None:
                stored, label = other
                _differences(page, reading(stored).settings, label)
        except OpsError as error:
            words.failed(error, what="Could not read these settings")


def _cluster(page: PulsarPage) -> tuple[CachedSnapshot, str] | None:
    """Draw the choice of another cluster; return its newest snapshot and its name."""
    store = services.snapshot_store(page.config)
    newest = {
        one.name: latest
        for one in page.config.clusters
        if one.kind == page.cluster.kind
        and one.name != page.name
        and (latest := saved_snapshots(store, one.name).latest) is not None
    }
    if not newest:
        st.caption("No other Pulsar cluster has a snapshot.")
        return None
    name = choice.selected(
        "Cluster", list(newest), key=state.OTHER, format_func=str, width=240, has_label=False
    )
    return newest[name], name


def _past(page: PulsarPage) -> tuple[CachedSnapshot, str] | None:
    """Draw the choice of a time; return the nearest snapshot and its time."""
    text = st.text_input(
        "Time (UTC)",
        value=_AN_HOUR_AGO,
        key=state.THEN,
        bind="query-params",
        label_visibility="collapsed",
        icon=":material/history:",
        width=240,
        help="14:03 (UTC), a date, or -90min.",
    )
    moment = typed_moment(text, services.now()) or parse_stamp(text)
    if moment is None:
        raise InputError(f"{text} is not a time.", hint="Enter 14:03 (UTC), a date, or -90min.")
    found = nearest(page.config, page.cluster, page.saved, moment)
    if found is None:
        raise SnapshotError(f"No snapshot of {page.name} near {stamp(moment)} UTC.")
    return found, f"{stamp(found.taken_at)} UTC"


def _differences(page: PulsarPage, there: EffectiveSettings | None, label: str) -> None:
    """Draw the settings with other values.

    Args:
        page: Of the cluster.
        there: What they are compared with; ``None``: the defaults.
        label: Of these.
    """
    rows = model.differences(page.reading.settings, there)
    if rows.empty:
        st.caption(f":material/check_circle: {words.plain(f'{label}: no differences.')}")
        return
    tables.table(
        rows,
        {
            "key": tables.opener("Setting", "_compared_key", view.choose, width_px=308),
            "here": st.column_config.TextColumn("Here", width=190),
            "there": st.column_config.TextColumn(label, width=190),
            "dynamic": tables.words("Takes effect", width_px=110),
        },
        key="settings_compared",
        alt=f"Settings that differ from {label}",
        height=tables.height_within(len(rows), _TABLE_PX // tables.ROW_PX),
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        if there is not None:
            st.button(
                "Add to changes",
                icon=":material/add:",
                key="_adopt",
                help="Takes over the values of the second column. No setting changes until you "
                "apply the plan.",
                on_click=view.add_changes,
                args=(model.adopted(rows["key"], there),),
            )
        st.space("stretch")
        tables.downloads(
            rows, cluster=page.name, what="settings-compared", moment=page.stored.taken_at
        )


def _brokers(compared: Comparison) -> None:
    """Draw the differences between the brokers: settings, release, limits."""
    if not compared.rows:
        if compared.brokers > 1:
            text = f"All {compared.brokers} brokers have the same settings."
            st.caption(f":material/check_circle: {text}")
        elif compared.brokers:
            st.caption("Only one broker; no comparison.")
        return
    table = model.comparison_table(compared)
    tables.table(
        table,
        {
            "what": tables.words("Differences"),
            "common": st.column_config.TextColumn("Most brokers", width=150),
            **{
                name: st.column_config.TextColumn(name, width=170)
                for name in table.columns
                if name not in ("what", "common")
            },
        },
        key="brokers_compared",
        alt="Different settings by group of brokers",
        height=min(420, tables.height_of(len(table))),
    )
    st.caption("Columns: groups of brokers with the same settings; ·: value of most brokers.")
    more = len(compared.groups) - model.MOST_GROUPS
    if more > 0:
        st.caption(f"{more} more groups. For all groups, run `trimtab doctor --json`.")
    if members := model.members(compared):
        with st.expander("Brokers by group", icon=":material/dns:"):
            words.notes(members)
