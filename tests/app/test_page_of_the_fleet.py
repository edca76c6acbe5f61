"""The Fleet page's groups and views, labels of its servers, and the guide of a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now, texts

from dashboard import services
from dashboard.components import palette
from dashboard.services import access, fleet_views


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path, clusters=("pay-eu", "pay-us"), each='group = "pay"\ntags = ["gold"]')
    text = made.config.read_text().replace(
        'name = "pay-eu"\n', 'name = "pay-eu"\nlabels = { "*" = "pod {host}" }\n'
    )
    made.config.write_text(text)
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    for name in ("pay-eu", "pay-us"):
        made.put(make_snapshot(brokers=4, bundles=40, now=now(), cluster=name))
    return made


def clusters_in(app) -> list[str]:
    table = next(one.value for one in app.dataframe if "balancer" in one.value)
    return list(table["cluster"])


def test_filters_are_saved_as_a_view_and_opened_by_its_name(site: Site) -> None:
    app = site.open("fleet", contains="us")
    assert_calm(app)
    assert clusters_in(app) == ["pay-us"]
    app.text_input(key="_view_name").set_value("US only")
    app.button(key="FormSubmitter:_save_view-Save view").click().run()
    assert_calm(app)
    config = services.page_config()
    saved = fleet_views.views(config, access.local_identity(is_page=True))
    assert saved["US only"].contains == "us"
    assert "US only" in [hit.name for hit in palette.standing(config) if hit.kind == "view"]

    opened = site.open("fleet", saved="US only")
    assert_calm(opened)
    assert clusters_in(opened) == ["pay-us"]
    assert "saved" not in opened.query_params
    everything = site.open("fleet", group="pay", tag="gold", sort="name")
    assert clusters_in(everything) == ["pay-eu", "pay-us"]


def test_no_cluster_left_is_said(site: Site) -> None:
    app = site.open("fleet", contains="nowhere")
    assert_calm(app)
    assert "No cluster matches" in texts(app)


def test_labels_stand_for_addresses_on_pages_of_their_cluster(site: Site) -> None:
    app = site.open("brokers", cluster="pay-eu")
    assert_calm(app)
    config = services.page_config()
    address = next(iter(app.session_state["_labels"]))
    assert f"pod {address.rpartition(':')[0]}" in texts(app)
    broker = site.open("broker", cluster="pay-eu", broker=address)
    assert_calm(broker)
    assert f"({address})" in texts(broker)  # the title has both
    other = site.open("brokers", cluster="pay-us")
    assert "pod " not in texts(other)
    assert config.cluster("pay-us").labels == {}


def test_every_page_opens_its_guide(site: Site) -> None:
    app = site.open("unload", cluster="pay-eu")
    app.button(key="guide").click().run()
    assert_calm(app)
    assert "## Choose, plan, preview" in texts(app)
