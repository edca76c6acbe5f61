"""The History page in every state, and every page at a minute that only the history has."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleet_builder import make_history, make_snapshot
from history_rows import recorded, store_in
from pegasus_snapshots import generated
from snapshot_site import PAGES, Site, assert_calm, now, texts

from dashboard.app_pages.history import view as history_views
from dashboard.presenters.moments import stamp

VIEWS = ("Events", "Minute", "Series", "Long term", "Predictions")


def labels(app):
    """The labels of the key figures."""
    return [one.label for one in app.metric]


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


@pytest.fixture(scope="module")
def history():
    return make_history(8, brokers=6, bundles=60, now=now())


@pytest.fixture(scope="module")
def place(tmp_path_factory, history):
    """Where the history is recorded, once for all tests that only read it."""
    folder = tmp_path_factory.mktemp("recorded")
    recorded(store_in(folder), history)
    return folder / "history"


@pytest.fixture
def remembered(tmp_path, monkeypatch, place, history):
    """A site whose shelf has only the newest snapshot, and whose history has all."""
    made = Site(tmp_path, extra=f'[history]\nuri = "{place}"')
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.put(history[-1])
    return made


@pytest.mark.parametrize("part", [*({"view": one} for one in VIEWS), {"kind": "moves"}])
def test_every_part_of_the_page_is_drawn(remembered, part):
    app = remembered.open("history", **part)
    assert_calm(app)
    assert not app.error
    assert "Mean of max deviation" in labels(app)
    assert len(app.get("plotly_chart")) >= 1


def test_key_figures_count_moves_and_tell_how_even_it_was(remembered):
    shown = {one.label: one.value for one in remembered.open("history").metric}
    assert shown["Recorded"] == "7 min"
    assert shown["Bundle moves"] == "0"
    assert shown["Mean of max deviation"].startswith("+")


def test_the_same_of_every_cluster_is_a_job(remembered):
    app = remembered.open("history", view="Series")
    app.button(key="_all_trends").click().run()
    assert_calm(app)
    assert app.title[0].value == "Jobs"
    assert app.query_params["kind"] == "trends"


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_at_a_minute_that_only_the_history_has(remembered, history, page):
    at = stamp(history[0].manifest.taken_at)
    params = {
        "broker": {"broker": history[0].brokers["broker"][0].as_py()},
        "bundle": {"bundle": history[0].bundles["bundle"][5].as_py()},
    }.get(page, {})
    app = remembered.open(page, at=at, **params)
    assert_calm(app)
    assert not app.error
    assert "Not live:**" in texts(app)
    assert app.query_params["at"] == at


def test_time_between_two_minutes_opens_the_earlier_one(remembered, history):
    between = history[2].manifest.taken_at + timedelta(seconds=20)
    app = remembered.open("brokers", at=stamp(between))
    assert_calm(app)
    assert app.query_params["at"] == stamp(history[2].manifest.taken_at)


def test_time_before_the_history_shows_the_newest(remembered):
    app = remembered.open("brokers", at="2020-01-01 00:00:00")
    assert_calm(app)
    assert "Not live:**" not in texts(app)
    assert "at" not in app.query_params


def test_buttons_lead_from_minute_to_minute(remembered, history):
    app = remembered.open("history", view="Minute")
    app.get_by_key("_to_minute_before").click().run()
    assert_calm(app)
    assert app.query_params["minute"] == stamp(history[-2].manifest.taken_at)
    app.get_by_key("_to_next_minute").click().run()
    assert "minute" not in app.query_params
    assert app.get_by_key("_to_next_minute").disabled


def test_page_opens_at_the_minute_that_is_looked_at(remembered, history):
    app = remembered.open("history", view="Minute", minute=stamp(history[3].manifest.taken_at))
    app.get_by_key("_open_bundles").click().run()
    assert_calm(app)
    assert "Not live:**" in texts(app)
    assert app.query_params["at"] == stamp(history[3].manifest.taken_at)


def test_tabs_are_five_at_most(remembered):
    assert [tab.label for tab in remembered.open("history").tabs] == list(VIEWS)
    assert len(VIEWS) <= 5


def test_two_minutes_are_compared_in_a_sentence(remembered, history):
    app = remembered.open("history", view="Minute", quantity="changes")
    said = texts(app)
    assert f"From {stamp(history[0].manifest.taken_at)}" in said
    assert "traffic deviation" in said


def test_compare_opens_on_the_first_and_the_newest_minute(remembered, history):
    said = texts(remembered.open("history", view="Minute", quantity="changes"))
    assert f"From {stamp(history[0].manifest.taken_at)}" in said
    assert "two different minutes" not in said


def test_range_without_a_minute_says_what_there_is(remembered):
    app = remembered.open(
        "history", range="dates", start="2020-01-01T00:00", end="2020-01-02T00:00"
    )
    assert_calm(app)
    assert "No records" in texts(app)
    assert "The history covers" in texts(app)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        (
            {"range": "dates", "start": "2026-13-45T00:00"},
            "start=2026-13-45T00:00 is not a valid time.",
        ),
        ({"end": "xx"}, "end=xx is not a valid time."),
        ({"minute": "zz"}, "minute=zz is not a valid time."),
        ({"minute": "2020-01-01 00:00:00"}, "is outside this range"),
    ],
)
def test_times_of_the_address_that_are_not_there_are_said(remembered, params, told):
    app = remembered.open("history", **params)
    assert_calm(app)
    assert told in texts(app)
    assert len(app.error) == 1
    assert "Mean of max deviation" in labels(app), "the page is drawn all the same"


def test_nothing_recorded_teaches_how(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    app = site.open("history")
    assert_calm(app)
    assert "No history of fleet" in texts(app)
    assert "trimtab collect fleet" in texts(app)


def test_recording_that_is_off_says_where_it_is_switched_on(tmp_path, monkeypatch):
    site = Site(tmp_path, extra="[history]\nis_recorded = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    said = texts(site.open("history"))
    assert "is off" in said
    assert "is_recorded = true" in said


def test_history_that_stands_still_is_said(site):
    old = make_history(3, brokers=4, bundles=40, now=now() - timedelta(hours=3))
    recorded(store_in(site.state_dir), old)
    app = site.open("history")
    assert_calm(app)
    assert any("trimtab collect fleet" in item.value for item in app.warning)


def test_history_without_a_kept_snapshot_is_shown(site, history):
    recorded(store_in(site.state_dir), history[-2:])
    app = site.open("history")
    assert_calm(app)
    assert "Mean of max deviation" in labels(app)


def test_damaged_history_is_told_and_the_other_pages_go_on(site, history):
    recorded(store_in(site.state_dir), history[-2:])
    site.put(history[-1])
    for file in (site.state_dir / "history" / "brokers").rglob("*.parquet"):
        file.write_bytes(b"not parquet")
    app = site.open("history")
    assert app.error
    assert_calm(app)
    assert not site.open("brokers").error


def test_peaks_of_a_damaged_history_are_unknown_to_the_doctor(site):
    before, after = make_history(2, every_minutes=20, brokers=3, bundles=12, now=now())
    recorded(store_in(site.state_dir), [before, after])
    site.put(after)
    for file in (site.state_dir / "history" / "brokers").rglob("*.parquet"):
        file.write_bytes(b"not parquet")
    app = site.open("settings", view="Findings")
    assert_calm(app)
    assert not app.error
    assert "peaks are unknown" in texts(app)


def test_large_fleet_is_drawn_by_its_hottest(site):
    large = make_history(3, brokers=1_000, bundles=2_000, now=now())
    recorded(store_in(site.state_dir), large)
    app = site.open("history")
    assert_calm(app)
    assert "40 hottest of" in texts(app)


@pytest.mark.slow
def test_history_of_a_pegasus_cluster_shows_its_nodes(tmp_path, monkeypatch):
    site = Site(tmp_path, clusters=(), pegasus=("sessions",))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    snapshot = generated(3, 8, 5, cluster="sessions", taken_at=now())
    recorded(store_in(site.state_dir), [snapshot], cluster="sessions")
    site.put(snapshot)
    for view in VIEWS:
        app = site.open("history", view=view)
        assert_calm(app)
        assert not app.error, view
        assert "Primaries gap, mean" in labels(app)


def test_a_range_that_is_too_long_for_a_browser_is_left_to_the_command_line(
    remembered, monkeypatch
):
    app = remembered.open("history")
    app.session_state["_export"] = True
    said = texts(app.run())
    assert "history export" in said
    assert "too long" not in said
    monkeypatch.setattr(history_views, "MOST_BYTES", 1_000)
    assert "browser limit (1 kB)" in texts(app.run())
