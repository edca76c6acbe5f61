"""What every page has around it: the header, and the states in which there is nothing to show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, cast

import streamlit as st

from core.errors import ConfigError, OpsError, SnapshotError
from dashboard import services, state
from dashboard.components import words
from dashboard.components.header import Choice, render_header
from dashboard.components.waiting import no_clusters, no_snapshot
from dashboard.queries import runs
from dashboard.queries.pegasus.snapshots import PEGASUS, PegasusReading, pegasus_reading
from dashboard.queries.snapshots import Reading, ShelfState, reading, shelf_state
from dashboard.sitemap import kinds_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.pegasus.snapshot import PegasusFacts
    from core.snapshot.pegasus import PegasusSnapshot
    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Cluster, Config


_FRAME: Final = "_frame"


@dataclass(frozen=True, eq=False)
class PageContext:
    """What a page works on.

    Attributes:
        config: The configuration.
        cluster: The chosen cluster.
        saved: Its saved snapshots.
        shelved: The one that is shown.
        reading: That snapshot with everything derived from it.
        is_past: It was chosen by hand and is not followed by newer ones.
        now: When the page was drawn.
    """

    config: Config
    cluster: Cluster
    saved: ShelfState
    shelved: CachedSnapshot
    reading: Reading
    is_past: bool
    now: datetime

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.cluster.name


@dataclass(frozen=True, eq=False)
class PegasusPage:
    """What a page of a Pegasus cluster works on.

    Attributes:
        config: The configuration.
        cluster: The chosen cluster.
        saved: Its saved snapshots.
        shelved: The one that is shown.
        reading: That snapshot with everything derived from it.
        is_past: It was chosen by hand and is not followed by newer ones.
        now: When the page was drawn.
    """

    config: Config
    cluster: Cluster
    saved: ShelfState
    shelved: CachedSnapshot
    reading: PegasusReading
    is_past: bool
    now: datetime

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.cluster.name

    @property
    def snapshot(self) -> PegasusSnapshot:
        """The snapshot itself."""
        return self.reading.snapshot

    @property
    def facts(self) -> PegasusFacts:
        """The snapshot in the form that the kernels take."""
        return self.reading.facts


def draw_header(page: str) -> None:
    """Draw the header; the entry file does it, so that its choices outlive a change of page.

    Args:
        page: Name of the page that follows: its clusters are offered.
    """
    words.style()
    kinds = kinds_of(page)
    try:
        config = services.page_config()
    except ConfigError as error:
        st.session_state[_FRAME] = error
        return
    offered = [cluster for cluster in config.clusters if cluster.kind in kinds]
    if page == "run":
        offered = _of_shown_run(config, offered)
    choice = render_header(config, offered) if offered else None
    st.session_state[_FRAME] = (config, kinds, choice)


def _of_shown_run(config: Config, offered: list[Cluster]) -> list[Cluster]:
    """Return only the cluster of the run that is shown; all where that cannot be known."""
    run_id = state.text(state.RUN)
    try:
        shown = runs.find(config, run_id) if run_id else None
    except OpsError:
        return offered  # the page itself says why
    return [one for one in offered if shown is not None and one.name == shown.cluster] or offered


def _drawn(title: str) -> tuple[Config, Choice]:
    """Return what the header says; stop where no cluster of the page's kind is configured."""
    words.title(title)
    drawn = st.session_state[_FRAME]
    if isinstance(drawn, ConfigError):
        words.failed(drawn, what="The configuration cannot be used")
        st.stop()
    config, kinds, choice = cast("tuple[Config, Sequence[str], Choice | None]", drawn)
    if choice is None:
        no_clusters(config, kinds)
        st.stop()
    return config, choice


def open_page(title: str) -> PageContext:
    """Return what a page of a Pulsar cluster works on; stop where there is nothing to show.

    Needs :func:`draw_header` in the same run.
    """
    config, choice = _drawn(title)
    if choice.shelved is None:
        no_snapshot(config, choice)
        st.stop()
    return _context(config, choice, choice.shelved)


def open_pegasus_page(title: str) -> PegasusPage:
    """Return what a page of a Pegasus cluster works on; stop where there is nothing to show.

    Needs :func:`draw_header` in the same run.
    """
    config, choice = _drawn(title)
    if choice.shelved is None:
        no_snapshot(config, choice)
        st.stop()
    return _pegasus_context(config, choice, choice.shelved)


@dataclass(frozen=True, eq=False)
class FleetContext:
    """What a page over every cluster works on.

    Attributes:
        config: The configuration.
        choice: What the header says.
        pulsar: The chosen cluster and its snapshot, when it is a Pulsar one and has a snapshot.
        pegasus: The same of a Pegasus one.
        now: When the page was drawn.
    """

    config: Config
    choice: Choice
    pulsar: PageContext | None
    pegasus: PegasusPage | None
    now: datetime


def open_fleet(title: str, *, needs_snapshot: bool = True) -> FleetContext:
    """Return what a page over every cluster works on.

    Needs :func:`draw_header` in the same run.

    Args:
        title: Of the page.
        needs_snapshot: Stop where no cluster has one.
    """
    config, choice = _drawn(title)
    shelved, is_pegasus = choice.shelved, choice.cluster.kind == PEGASUS
    has_none = shelved is None and needs_snapshot
    if has_none and not any(one.latest for one in saved_by_cluster(config).values()):
        no_snapshot(config, choice)
        st.stop()
    return FleetContext(
        config=config,
        choice=choice,
        pulsar=_context(config, choice, shelved) if shelved and not is_pegasus else None,
        pegasus=_pegasus_context(config, choice, shelved) if shelved and is_pegasus else None,
        now=services.now(),
    )


def open_journal(title: str) -> Config:
    """Return the configuration for a page that reads the journal and needs no snapshot.

    Needs :func:`draw_header` in the same run.
    """
    config, _ = _drawn(title)
    return config


def open_history(title: str) -> tuple[Config, Choice]:
    """Return what the header says for a page that reads the history and needs no snapshot.

    Needs :func:`draw_header` in the same run.
    """
    return _drawn(title)


def _pegasus_context(config: Config, choice: Choice, shelved: CachedSnapshot) -> PegasusPage:
    chosen = pegasus_reading(shelved)
    _read_or_stop(chosen)
    return PegasusPage(
        config=config,
        cluster=choice.cluster,
        saved=choice.saved,
        shelved=shelved,
        reading=chosen,
        is_past=choice.is_past,
        now=services.now(),
    )


def _read_or_stop(chosen: Reading | PegasusReading) -> None:
    """Read the snapshot here, so that a damaged one is said in one place."""
    try:
        chosen.snapshot  # noqa: B018  # computed at first use
    except SnapshotError as error:
        words.failed(error, what="This snapshot cannot be read")
        st.stop()


def _context(config: Config, choice: Choice, shelved: CachedSnapshot) -> PageContext:
    chosen = reading(shelved)
    _read_or_stop(chosen)
    return PageContext(
        config=config,
        cluster=choice.cluster,
        saved=choice.saved,
        shelved=shelved,
        reading=chosen,
        is_past=choice.is_past,
        now=services.now(),
    )


def saved_by_cluster(config: Config) -> dict[str, ShelfState]:
    """Return what is saved for every configured cluster."""
    shelf = services.shelf(config)
    return {one.name: shelf_state(shelf, one.name) for one in config.clusters}


def broker_link(broker: str) -> None:
    """Open the broker's page."""
    state.go("broker", broker=broker)


def bundle_link(bundle: str) -> None:
    """Open the bundle's page."""
    state.go("bundle", bundle=bundle)


def partition_link(gpid: str, tables: Mapping[int, str]) -> None:
    """Open the page of the table of a partition.

    Args:
        gpid: ``app.index``.
        tables: Names by id.
    """
    app_id, _, index = gpid.partition(".")
    state.go("pegasus_tables", table=tables.get(int(app_id), ""), partition=index)


def unload_link(bundles: list[str]) -> None:
    """Open the unload preview of these bundles."""
    state.go("unload", bundles=bundles)
