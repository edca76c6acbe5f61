"""Groups, tags and saved views of the fleet: what they select, whose they are, in commands."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from connectors.config.model import TrimtabConfig
from connectors.journal.fleet_views import VIEWS, FleetViewStore
from connectors.journal.journal import SqlJournal
from core.access import Identity
from core.errors import InputError, UnknownNameError
from core.fleet_views import MAX_VIEWS, FleetView, clusters_of
from dashboard.app_pages.fleet.model import FleetRow, in_order, key_figures
from dashboard.cli.main import run
from dashboard.components import tables
from dashboard.presenters.fleet import ActionStatus
from dashboard.presenters.moves import ObservedMove
from dashboard.services import fleet_views

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
    assert [one.cluster for one in in_order(rows, "")] == ["b", "c", "a"]


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
    pulsar = FleetRow(cluster="p", acting=acting, deviation_ratio=1.23, target_ratio=0.2)
    pegasus = FleetRow(cluster="g", acting=acting, deviation_ratio=1.07, target_ratio=0.1)
    calm = FleetRow(cluster="c", acting=acting, deviation_ratio=1.5, target_ratio=2.0)

    def shown(*rows: FleetRow) -> tuple[str, str]:
        figures = key_figures(rows, None, None, datetime.now(UTC))
        [figure] = [one for one in figures if one.label == "Max deviation"]
        return figure.value, figure.note

    assert shown(pegasus, pulsar) == ("+123%", "target ±20% · p")
    assert shown(calm, pegasus)[1].endswith("· g"), "what is within its target is no problem"
    assert shown(calm)[1].endswith("· c")


def test_a_bundle_that_an_undo_moved_back_did_not_return_by_itself() -> None:
    now = datetime.now(UTC)
    bundle = "a/b/0x0_0x8"
    there, back = (
        ObservedMove(seen_at=at, bundle=bundle, from_broker=source, to_broker=to)
        for at, source, to in (
            (now - timedelta(minutes=9), "b1", "b2"),
            (now - timedelta(minutes=4), "b2", "b1"),
        )
    )
    acting = ActionStatus(access="", run="")
    row = FleetRow(cluster="p", acting=acting, moves=(there, back))

    def returned(*runs: object) -> str:
        figures = key_figures([row], runs, None, now)  # type: ignore[arg-type]
        return next(one.note for one in figures if one.label == "Moves, last hour")

    def undo(minutes: int, undoes: str | None = "r-1") -> SimpleNamespace:
        start = now - timedelta(minutes=minutes)
        steps = [SimpleNamespace(step=SimpleNamespace(subject=bundle))]
        times = {"requested_at": start, "ended_at": start + timedelta(minutes=1)}
        return SimpleNamespace(cluster="p", undoes=undoes, steps=steps, is_ended=True, **times)

    assert returned() == "1 returned"
    assert returned(undo(5)) == "0 returned"
    assert returned(undo(5, undoes=None)) == "1 returned"
    assert returned(undo(30)) == "1 returned"


def test_a_table_that_scrolls_shows_half_of_its_next_row() -> None:
    assert tables.height_within(12, 12) == tables.height_of(12)
    assert tables.height_of(12) < tables.height_within(13, 12) < tables.height_of(13)
