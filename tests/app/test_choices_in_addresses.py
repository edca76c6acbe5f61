"""Choices in addresses: the option's own name, whatever the page shows for it."""

from __future__ import annotations

import pytest
from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now, texts

from dashboard import state
from dashboard.app_pages.pulsar.ownership.model import DEATH
from dashboard.sitemap import FILES


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    made.put(make_snapshot(brokers=6, bundles=80, now=now()))
    return made


def test_the_address_says_the_upstream_name(site):
    app = site.open("policies", view="Rates", kind="dispatch_rate")
    assert_calm(app)
    assert "subscriptions together" in texts(app)
    assert app.query_params["kind"] == "dispatch_rate"


def test_what_is_chosen_is_written_and_the_default_is_left_out(site):
    app = site.open("brokers")
    assert "measure" not in app.query_params
    chosen = app.button_group(key="measure")
    chosen.set_value("cpu").run()
    assert_calm(app)
    assert app.query_params["measure"] == "cpu"
    assert app.button_group(key="measure").value == "cpu"
    app.button_group(key="measure").set_value("throughput").run()
    assert "measure" not in app.query_params


def test_refresh_is_of_the_session_and_no_page_appends_it(site, monkeypatch):
    app = site.open("brokers")
    assert "refresh" not in app.query_params
    app.selectbox(key="refresh").set_value("off").run()
    assert app.query_params["refresh"] == "off"
    del app.query_params["refresh"]  # as the links of the navigation do
    app.switch_page(FILES["bundles"]).run()
    assert_calm(app)
    assert app.selectbox(key="refresh").value == "off"
    assert "refresh" not in app.query_params
    app.query_params["refresh"] = "60 s"  # an address from before the choice
    real = state.get_script_run_ctx

    def back():
        context = real()
        if not context.is_history_navigation:
            context.is_history_navigation = True
            context.query_string = "refresh=60+s"
        return context

    monkeypatch.setattr(state, "get_script_run_ctx", back)
    app.run()
    assert_calm(app)
    assert app.selectbox(key="refresh").value == "off"
    assert app.query_params["refresh"] == "off"
    monkeypatch.setattr(state, "get_script_run_ctx", real)
    fresh = site.open("fleet", refresh="60 s")
    assert fresh.selectbox(key="refresh").value == "60 s"


def test_another_address_wins_and_an_unknown_word_is_told(site):
    app = site.open("brokers", measure="cpu")
    assert app.button_group(key="measure").value == "cpu"
    app.query_params["measure"] = "memory"
    app.run()
    assert app.button_group(key="measure").value != "cpu"
    app.query_params["measure"] = "speed"
    app.run()
    assert_calm(app)
    assert any("speed" in one.value for one in app.toast)


def test_a_broker_that_leads_is_named_without_the_word(site):
    leader = "10.1.0.1:8080"
    app = site.open("ownership", view=DEATH, broker=leader)
    assert_calm(app)
    assert app.selectbox(key="broker").value == leader
    app = site.open("ownership", view=DEATH, broker="10.1.0.4:8080")
    assert app.selectbox(key="broker").value == "10.1.0.4:8080"


def test_a_bundle_of_an_unknown_namespace_names_the_namespace(site):
    app = site.open("bundle", bundle="acme/nowhere/0x00000000_0xffffffff")
    assert_calm(app)
    assert "No namespace named 'acme/nowhere'" in texts(app)


def test_an_address_of_no_page_is_named_with_the_pages_near_it_until_the_page_is_left(site):
    app = site.open("fleet", no_page="brokesr")
    assert "Page not found: /brokesr" in [one.proto.title.replace("\\", "") for one in app.error]
    assert "Brokers" in [one.proto.label for one in app.get("page_link")]
    assert "no_page" not in app.query_params
    app.run()
    assert app.error
    app.switch_page(FILES["activity"])
    app.run()
    assert not app.error


def test_bundles_of_the_address_are_selected(site):
    names = sorted(set(make_snapshot(brokers=6, bundles=80).bundles["bundle"].to_pylist()))
    wanted = [name for name in names if not name.startswith("pulsar/")][:2]
    app = site.open("bundles", selected=wanted)
    assert_calm(app)
    assert "Preview unload" in [one.label for one in app.button]
    assert sorted(app.query_params["selected"]) == sorted(wanted)
    next(one for one in app.button if one.label == "Preview unload").click().run()
    assert sorted(app.query_params["bundles"]) == sorted(wanted)
    assert "selected" not in app.query_params


@pytest.mark.parametrize("page", ["rebalance", "unload", "splits"])
def test_a_tab_of_the_address_is_open(site, page):
    names = make_snapshot(brokers=6, bundles=80).bundles["bundle"].to_pylist()
    bundle = next(name for name in names if not name.startswith(("pulsar/", "sla-monitor/")))
    tab, more = {
        "rebalance": ("Why", {}),
        "unload": ("Clients", {"bundles": bundle}),
        "splits": ("Algorithms", {"bundle": bundle}),
    }[page]
    app = site.open(page, view=tab, **more)
    assert_calm(app)
    assert app.session_state["view"] == tab
    assert app.query_params["view"] == tab or app.query_params["view"] == [tab]


def test_an_address_of_a_ring_written_before_opens_the_ring(site):
    app = site.open("bundles", ring="acme/orders")
    assert_calm(app)
    assert app.session_state["group"] == "hash ring"
    assert app.selectbox(key="ring").value == "acme/orders"
    assert not any(one.key == "ring" for one in site.open("bundles").selectbox)
