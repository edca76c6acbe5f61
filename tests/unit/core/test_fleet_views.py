"""Groups, tags and saved views of the fleet: what they select, whose they are, in commands."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.config.model import TrimtabConfig
from connectors.journal.fleet_views import VIEWS, FleetViewStore
from connectors.journal.journal import SqlJournal
from core.access import Identity
from core.alerts.model import Limits
from core.errors import InputError, UnknownNameError
from core.findings.finding import SEVERITIES, Finding
from core.findings.verdict import Verdict
from core.fleet_views import MAX_VIEWS, FleetView, clusters_of
from core.history.analysis.flaps.flaps import flaps_of
from core.history.analysis.requests import FlapsRequest
from core.history.analysis.trends.trends import NO_MINUTES
from core.units import datetime_to_ms
from dashboard.app_pages.fleet.model import FleetRow, in_order, key_figures
from dashboard.cli.main import run
from dashboard.components import tables
from dashboard.presenters.fleet import ActionStatus
from dashboard.presenters.moves import ObservedMove, returning
from dashboard.services import fleet_views
from dashboard.services.alerts import _flap_count

ANN, BEN = (Identity(name=name, source="users") for name in ("ann", "ben"))
CLUSTERS = (("pay-eu", "eu", ["gold"]), ("pay-us", "us", ["gold"]), ("log-eu", "eu", []))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrimtabConfig:
    path = tmp_path / "trimtab.toml"
    path.write_text(
        'state_dir = "state"\n'
        + "".join(
            f'[[clusters]]\nname = "{name}"\nzookeeper = "127.0.0.1:{port}"\ngroup = "{group}"\n'
            f"tags = {tags}\n[clusters.timeouts]\nzookeeper_s = 0.2\n"
            for port, (name, group, tags) in enumerate(CLUSTERS, 1)
        )
    )
    monkeypatch.setenv("TRIMTAB_CONFIG", str(path))
    return TrimtabConfig.load(path, ())


def names(view: FleetView, config: TrimtabConfig) -> list[str]:
    return [one.name for one in clusters_of(view, config.clusters)]


def test_every_filter_of_a_view_counts(config: TrimtabConfig) -> None:
    assert names(FleetView(), config) == ["pay-eu", "pay-us", "log-eu"]
    assert names(FleetView(group="eu"), config) == ["pay-eu", "log-eu"]
    assert names(FleetView(group="eu", tag="gold"), config) == ["pay-eu"]
    assert names(FleetView(contains="PAY"), config) == ["pay-eu", "pay-us"]


def test_unknown_numbers_are_last_in_every_order() -> None:
    acting = ActionStatus(access="", run="")
    rows = [
        FleetRow(cluster="b", acting=acting, deviation_ratio=-0.9, group="us"),
        FleetRow(cluster="c", acting=acting),
        FleetRow(cluster="a", acting=acting, deviation_ratio=0.3, group="eu"),
    ]
    assert [one.cluster for one in in_order(rows, "deviation")] == ["b", "a", "c"]
    assert [one.cluster for one in in_order(rows, "group")] == ["a", "b", "c"]
    assert [one.cluster for one in in_order(rows, "")] == ["b", "c", "a"], "none has a verdict"


def test_the_cluster_to_look_at_first_is_first() -> None:
    def row(name: str, severities: str = "", **more: Any) -> FleetRow:
        found = tuple(
            Finding(code=str(at), title="", sentence="", severity=SEVERITIES["ew".index(letter)])
            for at, letter in enumerate(severities)
        )
        verdict = Verdict(findings=found, areas=())
        acting = ActionStatus(access="", run="")
        return FleetRow(cluster=name, acting=acting, verdict=verdict, target_ratio=0.2, **more)

    rows = [
        row("healthy"),
        FleetRow(cluster="no snapshot", acting=ActionStatus(access="", run="")),
        row("near", "w", deviation_ratio=0.3),
        row("far", "w", deviation_ratio=-0.9),
        row("one error", "ew"),
        row("two errors", "ee"),
        row("firing", "w", alerts=1),
    ]
    assert [one.cluster for one in in_order(rows, "")] == [
        *("two errors", "one error", "firing", "far", "near", "no snapshot", "healthy"),
    ]


def test_views_belong_to_one_person_and_are_limited(config: TrimtabConfig) -> None:
    view = FleetView(group="eu", sort="usage")
    fleet_views.save_view(config, ANN, " EU ", view)
    fleet_views.save_view(config, ANN, "EU", FleetView(group="us"))
    fleet_views.save_view(config, BEN, "EU", view)
    assert fleet_views.views(config, ANN) == {"EU": FleetView(group="us")}
    fleet_views.delete_view(config, ANN, "EU")
    assert fleet_views.views(config, ANN) == {}
    assert fleet_views.views(config, BEN) == {"EU": view}
    for wrong in ("", "x" * 61, "a\u202eb"):
        with pytest.raises(InputError):
            fleet_views.save_view(config, ANN, wrong, view)
    for number in range(MAX_VIEWS):
        fleet_views.save_view(config, ANN, f"v{number}", view)
    with pytest.raises(InputError, match="views"):
        fleet_views.save_view(config, ANN, "one more", view)


def test_a_view_that_cannot_be_read_is_left_out(config: TrimtabConfig) -> None:
    with closing(SqlJournal(config.journal_address)) as journal:
        store = FleetViewStore(journal.database)
        with journal.database.writing() as writer:
            writer.execute(VIEWS.insert().values(person="ann", name="odd", body='{"sort": 7}'))
        assert store.views("ann") == {}


def test_pages_and_commands_of_the_local_user_share_views(config: TrimtabConfig) -> None:
    fleet_views.save_view(config, Identity(name="dashboard/ann"), "EU", FleetView(group="eu"))
    found = fleet_views.selected(config, "view:EU", Identity(name="ann"))
    assert [one.name for one in found] == ["pay-eu", "log-eu"]
    assert [one.name for one in fleet_views.selected(config, "tag:gold", ANN)] == [
        "pay-eu",
        "pay-us",
    ]
    with pytest.raises(UnknownNameError, match="ue"):
        fleet_views.selected(config, "group:ue", ANN)


@pytest.mark.usefixtures("config")
def test_commands_take_a_group_for_its_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["health", "group:nowhere"]) != 0
    assert "nowhere" in capsys.readouterr().err
    assert run(["health", "group:us"]) != 0
    assert "127.0.0.1:2 cannot be reached" in capsys.readouterr().err  # that of pay-us
    assert run(["unload", "group:eu", "--bundle", "a/b/0x0_0x1", "--plan", "p.json"]) == 2


def test_max_deviation_is_the_largest_outside_a_target_not_the_most_times_over_one() -> None:
    acting = ActionStatus(access="", run="")
    pulsar = FleetRow(
        cluster="p", measure="traffic", acting=acting, deviation_ratio=1.23, target_ratio=0.2
    )
    pegasus = FleetRow(
        cluster="g", measure="primaries", acting=acting, deviation_ratio=1.07, target_ratio=0.1
    )
    calm = FleetRow(
        cluster="c", measure="traffic", acting=acting, deviation_ratio=1.5, target_ratio=2.0
    )

    def shown(*rows: FleetRow) -> tuple[str, str]:
        figures = key_figures(rows, None, None, datetime.now(UTC))
        [figure] = [one for one in figures if one.label == "Max deviation"]
        return figure.value, figure.note

    assert shown(pegasus, pulsar) == ("+123%", "traffic of p, target ±20%")
    assert shown(calm, pegasus)[1].startswith("primaries of g,"), (
        "what is within its target is no problem"
    )
    assert shown(calm)[1].startswith("traffic of c,")


BUNDLE = "a/b/0x0_0x8"
PATHS = {
    "undo": ["b1", "b2", "b1"],
    "longer way back": ["b1", "b2", "b3", "b1"],
    "twice": ["b1", "b2", "b1", "b2"],
    "in two halves": ["b1", "b2", None, "b1"],
    "unassigned, same broker": ["b1", None, "b1"],
    "onwards": ["b1", "b2", "b3"],
}
RETURNED = {"undo": 1, "longer way back": 1, "twice": 2, "in two halves": 1}


@pytest.mark.parametrize("path", PATHS)
def test_every_page_command_and_alert_counts_the_same_returns(path: str) -> None:
    now = datetime.now(UTC)
    moves = [
        ObservedMove(
            seen_at=now - timedelta(minutes=50 - at), bundle=BUNDLE, from_broker=old, to_broker=new
        )
        for at, (old, new) in enumerate(pairwise(PATHS[path]))
    ]
    row = FleetRow(cluster="p", acting=ActionStatus(access="", run=""), moves=moves)
    events = pa.table(
        {
            "taken_at": [datetime_to_ms(one.seen_at) for one in moves],
            "kind": ["move"] * len(moves),
            "subject": [BUNDLE] * len(moves),
            "before": [one.from_broker for one in moves],
            "after": [one.to_broker for one in moves],
            "by": ["cluster", *["trimtab"] * (len(moves) - 1)],
            "run_id": ["r-1"] * len(moves),
        }
    )
    fleet = next(
        one for one in key_figures([row], None, None, now) if one.label == "Moves, last hour"
    )
    found = {
        "fleet": fleet.note,
        "bundle and broker pages": f"{len(returning(moves))} returned",
        "history": f"{flaps_of(events, NO_MINUTES, FlapsRequest())['flaps'].num_rows} returned",
        "alerts": f"{_flap_count(events)} returned",
    }
    assert set(found.values()) == {f"{RETURNED.get(path, 0)} returned"}, found


def test_returns_warn_from_the_limit_of_the_alert_on() -> None:
    now = datetime.now(UTC)
    moves = [
        ObservedMove(seen_at=now, bundle=f"a/b/{at}", from_broker=old, to_broker=new)
        for old, new in (("b1", "b2"), ("b2", "b1"))
        for at in range(3)
    ]
    row = FleetRow(cluster="p", acting=ActionStatus(access="", run=""), moves=moves)

    def status(limit: int) -> str:
        figures = key_figures([row], None, None, now, Limits(returned_per_hour=limit))
        return next(one.status for one in figures if one.label == "Moves, last hour")

    assert (status(2), status(3)) == ("warning", ""), "as the alert fires"


def test_a_table_that_scrolls_shows_half_of_its_next_row() -> None:
    assert tables.height_within(12, 12) == tables.height_of(12)
    assert tables.height_of(12) < tables.height_within(13, 12) < tables.height_of(13)
