"""Alerts: what fires comes first, with value and limit; its badge; silences; every threshold."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from fleet_builder import make_snapshot
from snapshot_site import APP, RememberingPages, Site, assert_calm, now, texts

from connectors.alerts.store import AlertStore
from connectors.config.model import TrimtabConfig
from core.access import Identity
from core.alerts.model import Alert, AlertKey
from core.alerts.rules import RULES
from dashboard import services
from dashboard.app_pages.alerts import model
from dashboard.components.navigation import firing_badge
from dashboard.queries import access
from dashboard.services import alerts
from dashboard.sitemap import ENTRIES, SECTIONS

HOUR = timedelta(hours=1)


def alert(rule: str, severity: str, state: str = "firing", **fields: object) -> Alert:
    began = now() - 2 * HOUR
    key = AlertKey(rule, "fleet", str(fields.pop("subject", "")))
    told = {"sentence": "A sentence.", "hint": "A hint.", "since": began}
    return Alert(key=key, state=state, severity=severity, **(told | fields))  # type: ignore[arg-type]


UNEVEN = alert("uneven", "warning", subject="traffic", measured="+134%", limit="+50%")
STALE = alert("stale", "critical", measured="9 min", limit="5 min")
OVER = alert("flapping", "warning", "resolved", ended_at=now())


@pytest.fixture
def config(tmp_path, monkeypatch) -> TrimtabConfig:
    site = Site(tmp_path)
    site.put(make_snapshot(brokers=3, bundles=12, now=now()))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    found = access.page_config()
    store = AlertStore(services.journal(found).database)
    store.save({}, {one.key: one for one in (UNEVEN, STALE, OVER)}, now())
    return found


def table_with(app, column: str):
    return next(one.value for one in app.dataframe if column in one.value.columns)


def test_what_fires_is_first_with_value_and_limit_and_every_rule_has_a_threshold(
    config, tmp_path
) -> None:
    app = Site(tmp_path).open("alerts")
    assert_calm(app)
    firing, others, thresholds = (one.value for one in app.dataframe)
    assert list(firing["title"]) == ["Stale data", "Uneven load"]
    assert list(firing["measured"]) == ["9 min", "+134%"]
    assert list(firing["message"]) == ["A sentence."] * 2
    assert list(firing["limit"]) == ["5 min", "+50%"]
    assert list(firing["object"]) == ["fleet", "fleet · traffic"]
    assert [list(one) for one in others["state"]] == [["● Resolved"]]
    assert list(thresholds["title"]) == [rule.title for rule in RULES]
    conditions = dict(zip(thresholds["title"], thresholds["condition"], strict=True))
    assert conditions["Stale data"] == "age of snapshot > 5 min"
    assert conditions["Finding at level error"] == "findings at level error > 0"
    assert conditions["History not rolled up"] == "lag > 180 min"
    assert all(conditions.values())
    assert "A hint." in texts(app), "of the most urgent alert"
    figures = {one.label: one.value for one in app.metric}
    assert (figures["Firing"], figures["Silenced"], figures["Resolved"]) == ("2", "0", "1")


def test_the_kind_of_a_finding_is_the_title_of_its_alert() -> None:
    one = alert("problem", "critical", subject="broker_overloaded")
    assert (model.title_of(one), model.object_of(one)) == ("Broker overloaded", "fleet")


def entry_of(site: Site, **params: str) -> str:
    """Return the title of the entry in the navigation."""
    assert_calm(site.open("fleet", **params))
    known = RememberingPages.known[str(APP)].values()
    return next(one["page_name"] for one in known if one["url_pathname"] == "alerts")


def test_the_navigation_counts_what_fires_and_is_not_silenced(config, tmp_path) -> None:
    site = Site(tmp_path)
    assert ENTRIES["alerts"] in SECTIONS["Monitor"]
    assert not ENTRIES["alerts"].parent
    assert entry_of(site) == "Alerts :red-badge[2]"
    alerts.silence(config, "stale", "fleet", "*", HOUR, Identity(name="ann"), "works on it")
    assert entry_of(site) == "Alerts :orange-badge[1]"
    assert firing_badge(Counter()) == ("", "")


def test_the_navigation_counts_nothing_while_a_past_moment_is_shown(config, tmp_path) -> None:
    site = Site(tmp_path)
    moment = now() - timedelta(minutes=30)
    site.put(make_snapshot(brokers=4, bundles=40, now=moment), make_snapshot(now=now()))
    assert entry_of(site, at="-30min") == "Alerts"
    assert entry_of(site, at="now") == "Alerts :red-badge[2]"


def test_fleet_the_page_and_the_navigation_count_the_same(config, tmp_path) -> None:
    site = Site(tmp_path)
    alerts.silence(config, "stale", "fleet", "*", HOUR, Identity(name="ann"), "works on it")
    counts = {"Alerts": "fleet", "Firing": "alerts"}
    shown = {
        label: next(one.value for one in site.open(page).metric if one.label == label)
        for label, page in counts.items()
    }
    assert shown == {"Alerts": "1", "Firing": "1"}
    assert entry_of(site) == "Alerts :orange-badge[1]"


def test_a_silence_of_one_alert_covers_that_alert_only(config, tmp_path) -> None:
    key = UNEVEN.key
    alerts.silence(config, *key, HOUR, Identity(name="ann"), "load test")
    app = Site(tmp_path).open("alerts")
    assert_calm(app)
    firing, others, _ = (one.value for one in app.dataframe)
    assert list(firing["title"]) == ["Stale data"]
    assert [list(one) for one in others["state"]] == [["◌ Silenced"], ["● Resolved"]]
    assert "Uneven load · fleet · traffic · until" in texts(app)


def test_without_an_alert_the_page_says_so_and_keeps_the_thresholds(tmp_path, monkeypatch) -> None:
    site = Site(tmp_path)
    site.put(make_snapshot(brokers=3, bundles=12, now=now()))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    app = site.open("alerts")
    assert_calm(app)
    assert "No firing alerts." in texts(app)
    assert len(table_with(app, "minutes")) == len(RULES)


def test_a_cluster_that_was_never_read_makes_no_all_clear(tmp_path, monkeypatch) -> None:
    site = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    app = site.open("alerts")
    assert_calm(app)
    [firing] = [one for one in app.metric if one.label == "Firing"]
    assert (firing.value, firing.delta) == ("0", "? 1 cluster without data")
    assert "No firing alerts. No data: fleet." in texts(app)


def test_a_silence_is_preselected_for_the_most_urgent_alert_or_the_selected_one(
    config, tmp_path
) -> None:
    app = Site(tmp_path).open("alerts")
    chosen = app.selectbox(key="_silence_rule").value, app.selectbox(key="_silence_cluster").value
    assert chosen == ("stale", "fleet")
    app.session_state["alerts_firing"] = {"selection": {"rows": [1], "columns": []}}
    app.run()
    assert_calm(app)
    assert app.selectbox(key="_silence_rule").value == "uneven"


def test_without_a_firing_alert_a_silence_covers_nothing_until_an_alert_is_selected(
    tmp_path, monkeypatch
) -> None:
    site = Site(tmp_path)
    site.put(make_snapshot(brokers=3, bundles=12, now=now()))
    monkeypatch.setenv("TRIMTAB_CONFIG", str(site.config))
    app = site.open("alerts")
    assert app.selectbox(key="_silence_rule").value is None
    next(one for one in app.button if one.label == "Silence").click().run()
    assert "Select an alert and a cluster" in texts(app)
    assert "No firing alerts" in texts(app)
