"""The header's choices: which moment, which cluster; and what newer snapshots change."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleet_builder import make_history, make_snapshot
from snapshot_site import Site, assert_calm, now, texts

from dashboard.sitemap import FILES


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, clusters=("fleet", "other"))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


def stamp(snapshot):
    return snapshot.manifest.taken_at.strftime("%Y-%m-%d %H:%M:%S")


def test_newest_snapshot_is_shown_and_called_live(site):
    site.put(*make_history(3, brokers=4, bundles=40, now=now()))
    app = site.open("brokers")
    assert "live, read-only" in texts(app)
    assert "past" not in texts(app)


def test_earlier_moment_in_the_address_is_shown_and_called_past(site):
    history = make_history(3, brokers=4, bundles=40, now=now())
    site.put(*history)
    app = site.open("brokers", at=stamp(history[0]))
    assert_calm(app)
    assert f"Not live:** {stamp(history[0])} UTC" in texts(app)
    assert "live, read-only" not in texts(app)


def test_one_control_leads_to_an_hour_ago_by_minutes_and_back_to_live(site):
    times = [now() - timedelta(minutes=one) for one in (62, 61, 60, 30, 0)]
    site.put(*(make_snapshot(brokers=4, bundles=40, now=one) for one in times))
    app = site.open("brokers")
    control = app.selectbox(key="at")
    assert control.options[:5] == ["Live", "15 min ago", "1 h ago", "6 h ago", "24 h ago"]
    assert control.value == "now"
    control.set_value("-1h").run()
    assert_calm(app)
    assert f"Not live:** {times[2]:%Y-%m-%d %H:%M:%S} UTC · 60 min ago" in texts(app)
    assert app.query_params["at"] == f"{times[2]:%Y-%m-%d %H:%M:%S}"
    app.button(key="_earlier").click().run()
    assert app.query_params["at"] == f"{times[1]:%Y-%m-%d %H:%M:%S}"
    for moment in (times[2], times[3]):
        app.button(key="_later").click().run()
        assert app.query_params["at"] == f"{moment:%Y-%m-%d %H:%M:%S}"
    app.button(key="_back_to_live").click().run()
    assert "at" not in app.query_params
    assert "Not live" not in texts(app)


def test_an_address_may_say_how_long_ago(site):
    moment = now() - timedelta(minutes=31)
    site.put(make_snapshot(brokers=4, bundles=40, now=moment))
    site.put(make_snapshot(brokers=5, bundles=40, now=now()))
    app = site.open("brokers", at="-30min")
    assert_calm(app)
    assert f"Not live:** {moment:%Y-%m-%d %H:%M:%S} UTC" in texts(app)
    app.button(key="_back_to_live").click().run()
    app.query_params["at"] = "-0.5h"
    app.run()
    assert f"Not live:** {moment:%Y-%m-%d %H:%M:%S} UTC" in texts(app)
    app.selectbox(key="at").set_value("-24h").run()
    assert "No saved snapshot of fleet at -24h" in app.toast[0].value.replace("\\", "")
    assert not app.error, "the address names nothing that is not there"
    assert "Not live" not in texts(app)
    app.query_params["at"] = "-9d"
    app.run()
    assert "No saved snapshot of fleet at -9d" in texts(app)
    assert "Not live" not in texts(app)


def test_a_typed_time_shows_the_nearest_snapshot_and_says_which(site):
    start = now() - timedelta(minutes=20)
    times = [start, start + timedelta(minutes=4), now()]
    site.put(*(make_snapshot(brokers=4, bundles=40, now=one) for one in times))
    app = site.open("brokers", at=f"{start + timedelta(minutes=3):%Y-%m-%d %H:%M:%S}")
    assert_calm(app)
    shown = f"{times[1]:%Y-%m-%d %H:%M:%S}"
    assert f"Not live:** {shown} UTC" in texts(app)
    assert app.toast[0].value.replace("\\", "").endswith(f": {shown} UTC.")


def test_nothing_refreshes_and_nothing_is_counted_in_the_past(site):
    history = make_history(3, brokers=4, bundles=40, now=now())
    site.put(*history)
    app = site.open("brokers", at=stamp(history[0]))
    assert app.selectbox(key="refresh").disabled
    app.selectbox(key="at").set_value("now").run()
    assert not app.selectbox(key="refresh").disabled


def test_moment_that_is_no_longer_kept_is_said_and_the_newest_is_shown(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    app = site.open("fleet", at="2020-01-01 00:00:00")
    assert_calm(app)
    assert "No saved snapshot of" in texts(app)
    assert len(app.error) == 1
    assert "live, read-only" in texts(app)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"at": "garbage"}, "at=garbage is not a valid time. Specify at=2026"),
        ({"at": "2026-13-45 00:00:00"}, "at=2026-13-45 00:00:00 is not a valid time."),
        ({"at": "2999-01-01 00:00:00"}, "is in the future"),
        ({"cluster": "flet"}, "No cluster named 'flet'. Did you mean fleet?"),
    ],
)
def test_what_the_address_names_and_is_not_is_said_until_something_is_chosen(site, params, told):
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    app = site.open("fleet", **params)
    assert_calm(app)
    assert told in " ".join(texts(app).split())
    assert "live, read-only" in texts(app)
    app.run()
    assert len(app.error) == 1, "drawing again does not take it away"
    app.selectbox(key="cluster").set_value("other").run()
    assert not (app.error and "cluster" in params)
    app.switch_page(FILES["settings"]).run()
    assert not app.error


def test_newer_snapshot_is_followed(site):
    site.put(make_snapshot(brokers=4, bundles=40, minutes_ago=1, now=now()))
    app = site.open("brokers")
    site.put(make_snapshot(brokers=5, bundles=40, now=now()))
    app.run()
    assert "5 brokers" in texts(app)


def test_other_cluster_is_chosen_by_address(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet"))
    site.put(make_snapshot(brokers=7, bundles=40, now=now(), cluster="other"))
    app = site.open("brokers", cluster="other")
    assert_calm(app)
    assert "7 brokers" in texts(app)


def test_overview_has_a_row_for_every_cluster_also_without_a_snapshot(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet"))
    app = site.open("fleet")
    table = next(one.value for one in app.dataframe if "cluster" in one.value.columns)
    assert table["cluster"].tolist() == ["fleet", "other"]
    assert list(table["state"][1]) == ["? No snapshot"]


def test_damaged_snapshot_is_said_in_a_sentence(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now()))
    for file in site.state_dir.glob("snapshots/*/*/brokers.parquet"):
        file.write_bytes(b"not parquet")
    app = site.open("brokers")
    assert_calm(app)
    assert "is damaged" in " ".join(error.value for error in app.error).replace("\\", "")


def test_unload_of_bundles_in_the_address_is_previewed(site):
    snapshot = make_snapshot(brokers=6, bundles=60, now=now())
    site.put(snapshot)
    names = snapshot.bundles["bundle"].slice(2, 2).to_pylist()
    app = site.open("unload", bundles=names)
    assert_calm(app)
    assert "Unloading 2 bundles" in texts(app)
    next(one for one in app.button if one.label == "Copy pulsar-admin").click().run()
    assert "pulsar-admin namespaces unload" in texts(app)


def test_bundle_that_nobody_knows_offers_near_names(site):
    snapshot = make_snapshot(brokers=4, bundles=40, now=now())
    site.put(snapshot)
    name = snapshot.bundles["bundle"][0].as_py()
    app = site.open("bundle", bundle=name[:-1] + ("0" if name[-1] != "0" else "1"))
    assert_calm(app)
    said = " ".join(str(error.value) for error in app.error)
    assert "Did you mean" in said.replace("\\", "")


def test_newer_snapshot_is_followed_after_a_damaged_one(site):
    site.put(make_snapshot(brokers=4, bundles=40, minutes_ago=1, now=now()))
    for file in site.state_dir.glob("snapshots/*/*/brokers.parquet"):
        file.write_bytes(b"not parquet")
    app = site.open("brokers")
    assert app.error
    site.put(make_snapshot(brokers=5, bundles=40, now=now()))
    app.run()
    assert not app.error
    assert "5 brokers" in texts(app)


def test_chosen_moment_and_cluster_outlive_a_click_in_the_sidebar(site):
    history = make_history(3, brokers=4, bundles=40, now=now(), cluster="other")
    site.put(*history)
    app = site.open("brokers", cluster="other", at=stamp(history[0]))
    for page in ("bundles", "unload", "lookup"):
        app.query_params.clear()  # a link of the sidebar carries no parameters
        app.switch_page(FILES[page]).run()
        assert_calm(app)
        assert "Not live:**" in texts(app)
        assert app.query_params["at"] == stamp(history[0])
        assert app.query_params["cluster"] == "other"


def test_address_that_names_no_cluster_of_ours_shows_the_first(site):
    site.put(make_snapshot(brokers=4, bundles=40, now=now(), cluster="fleet"))
    app = site.open("brokers", cluster="nobody")
    assert_calm(app)
    assert "4 brokers" in texts(app)
