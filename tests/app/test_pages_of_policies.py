"""Policies & quotas: what limits whom, and a change from its form to the dialog that applies it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from fleet_builder import make_snapshot
from snapshot_site import Site, assert_calm, now, texts

from core.pulsar.settings import effective_settings as settings_of
from core.snapshot import PulsarSnapshot
from core.snapshot.store import SnapshotStore
from dashboard import state
from dashboard.app_pages.pulsar.policies.model import key_figures, limits_table
from dashboard.components.applying import REASON
from dashboard.queries.pulsar import policies

ORDERS, MAIL = "acme/orders", "acme/mail"
POLICIES = (
    ("resource_group", "gold", {"publishRateInMsgs": 1000}),
    ("resource_quota", "default", {"msgRateIn": 40.0, "msgRateOut": 120.0, "dynamic": True}),
)


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path, each="read_only = false")
    monkeypatch.setenv("TRIMTAB_CONFIG", str(made.config))
    return made


def _limited(mail: int = 1, later_s: int = 0) -> PulsarSnapshot:
    plain = make_snapshot(brokers=6, bundles=80, now=now())
    spaces = plain.namespaces.to_pylist()
    for row in spaces:
        row["resource_group"] = "gold" if row["namespace"] == ORDERS else None
    rate = {"publishThrottlingRateInMsg": mail, "publishThrottlingRateInByte": -1}
    rows = [
        *plain.policies.to_pylist(),
        *(
            {"kind": kind, "name": name, "body": json.dumps(body)}
            for kind, name, body in (*POLICIES, ("publish_rate", MAIL, rate))
        ),
    ]
    tables = {
        **plain.tables,
        "policies": pa.Table.from_pylist(rows, schema=plain.policies.schema),
        "namespaces": pa.Table.from_pylist(spaces, schema=plain.namespaces.schema),
    }
    taken_at = plain.manifest.taken_at + timedelta(seconds=later_s)
    return PulsarSnapshot.build(replace(plain.manifest, taken_at=taken_at), tables)


@pytest.fixture
def fleet(site) -> PulsarSnapshot:
    snapshot = _limited()
    site.put(snapshot)
    return snapshot


def _press(app, label: str):
    next(one for one in app.button if one.label == label).click().run()
    assert_calm(app)
    return texts(app)


def _added(app, label: str = "Add to changes"):
    """Add a form to the changes, and open their preview."""
    said = _press(app, label)
    if not any(one.label == "Preview" for one in app.button):  # the form was refused
        return said
    return _press(app, "Preview")


def _field(app, name: str):
    """Return a field of a form; what is stored follows its name in the key."""
    return next(one for one in app.text_input if (one.key or "").startswith(f"_field_{name}"))


def test_namespaces_come_first_the_nearest_to_its_limit_on_top(site, fleet):
    app = site.open("policies")
    assert_calm(app)
    rows = next(table.value for table in app.dataframe if "use" in table.value)
    assert len(rows) == 10
    first = rows.iloc[0]
    assert first["namespace"] == MAIL
    assert list(first["state"]) == ["▲ at limit"]
    assert first["use"] >= 100
    assert first["limit"] == "publish 1 msg/s per topic"
    assert {tuple(one) for one in rows["state"][1:]} == {("◌ no limit",)}
    assert rows["use"][1:].isna().all(), "the group has no effect on this cluster"
    app = site.open("policies", show="limited")
    (rows,) = (table.value for table in app.dataframe if "use" in table.value)
    assert list(rows["namespace"]) == [MAIL]
    app = site.open("policies", contains="ORD")
    (rows,) = (table.value for table in app.dataframe if "use" in table.value)
    assert ORDERS in set(rows["namespace"])
    assert all("ord" in name for name in rows["namespace"])


def test_a_group_with_effect_counts_as_a_limit_of_its_namespaces(site, fleet):
    limits = policies.limits_of(SnapshotStore(site.state_dir / "snapshots").latest("fleet", now()))
    rows = limits_table(limits, is_enforced=True).set_index("namespace")
    assert rows.loc[ORDERS, "limit"] == "publish messages 1k msg/s, group gold"
    assert rows.loc[ORDERS, "use"] > 100
    rows = limits_table(limits, is_enforced=False).set_index("namespace")
    assert rows.loc[ORDERS, "limit"] == ""


def test_groups_are_shown_with_live_use_and_each_brokers_share(site, fleet):
    app = site.open("policies", view="Groups")
    assert_calm(app)
    said = texts(app)
    figures = {one.label: (one.value, one.delta) for one in app.metric}
    assert figures["Resource groups"] == ("1", "▲ no effect on this cluster")
    assert figures["With rate limits"] == ("1", "of 10 namespaces")
    assert figures["Unlimited"] == ("8", "of 10 namespaces")
    assert figures["At limit"] == ("1", f"▲ {MAIL}")
    assert "resourceUsageTransportClassName" in said
    shares = next(table.value for table in app.dataframe if "upstream" in table.value)
    assert len(shares) > 1
    assert "PIP-82" in said


def test_a_limit_that_may_be_reached_is_not_green(site, fleet):
    limits = policies.limits_of(SnapshotStore(site.state_dir / "snapshots").latest("fleet", now()))
    (rate,) = (one for one in limits.rates if one.limit > 0)
    shared = replace(rate, limit=rate.live / 2, max_holders=10)
    shown = [
        next(one for one in key_figures(replace(limits, rates=rates), settings_of(fleet)))
        for rates in ((shared,), (replace(shared, limit=rate.live * 2),))
    ]
    assert [(one.label, one.value) for one in shown] == [("At limit", "0")] * 2
    assert [(one.status, one.note) for one in shown] == [
        ("unknown", f"may be: {rate.namespace}"),
        ("ok", "no namespace"),
    ]


def test_a_cluster_without_limits_is_told_how_to_make_one(site):
    site.put(make_snapshot(brokers=6, bundles=80, now=now()))
    app = site.open("policies", view="Groups")
    assert_calm(app)
    assert "No resource groups" in texts(app)
    figures = {one.label: one.value for one in app.metric}
    assert figures["Resource groups"] == figures["With rate limits"] == "0"


def test_a_group_is_made_by_its_form_previewed_and_could_be_applied(site, fleet):
    site.worker_says()
    app = site.open("policies", resource_group="New group")
    app.text_input(key="_group_name").set_value("silver").run()
    _field(app, "resource_group_silver_publishRateInMsgs").set_value("2,500")
    said = _added(app)
    assert "Publish, msg/s (publishRateInMsgs)" in said
    assert "2,500" in said
    assert "no client" in said
    assert "pulsar-admin resourcegroups update silver --msg-publish-rate 2500" in said
    assert next(one for one in app.button if one.label == "Apply plan…").disabled is False
    _press(app, "Apply plan…")
    assert app.text_input(key=REASON).label.startswith("Reason")


def test_attaching_and_detaching_is_one_plan(site, fleet):
    app = site.open("policies", resource_group="gold")
    app.multiselect(key="_attached_gold").set_value([MAIL]).run()
    said = _added(app, "Add to changes (attach 1, detach 1)")
    assert "set-resource-group acme/mail --resource-group-name gold" in said
    assert "remove-resource-group acme/orders" in said
    assert "1 namespace (acme/mail)" in said


def test_deleting_a_group_that_is_attached_is_refused_until_the_plan_detaches_it(site, fleet):
    site.worker_says()
    app = site.open("policies", change=["delete resource_group gold"])
    assert_calm(app)
    assert "brokers would refuse" in texts(app)
    assert not [one for one in app.button if one.label == "Apply plan…" and not one.disabled]
    assert app.session_state[state.VIEW] == "Unapplied changes"
    both = [f"delete namespace_resource_group {ORDERS}", "delete resource_group gold"]
    app = site.open("policies", change=both)
    said = texts(app)
    assert "would refuse" not in said
    assert "pulsar-admin resourcegroups delete gold" in said


def test_what_cannot_be_is_refused_before_anything_is_sent(site, fleet):
    site.worker_says()
    app = site.open("policies", change=['set resource_group g {"publishRateInMsgs": -5}'])
    assert_calm(app)
    assert "-1 to 2,147,483,647" in texts(app)
    assert not [one for one in app.button if one.label == "Apply plan…" and not one.disabled]
    app = site.open("policies", change=["nonsense"])
    assert_calm(app)
    assert "'nonsense' is not a valid policy change" in texts(app)


def test_what_is_no_number_does_not_leave_its_form(site, fleet):
    app = site.open("policies", resource_group="gold")
    _field(app, "resource_group_gold_publishRateInMsgs").set_value("nan")
    said = _added(app)
    assert "publishRateInMsgs is 'nan'" in said
    assert not app.query_params.get(state.CHANGE)


def test_a_limit_that_is_so_already_is_told_and_taken_out(site, fleet):
    app = site.open("policies", change=['set resource_group gold {"publishRateInMsgs": 1000}'])
    assert "already has this value" in texts(app)
    _press(app, "Clear")
    assert not app.query_params.get(state.CHANGE)
    assert "No changes." in texts(app)


def test_rates_are_shown_against_live_ones_and_changed(site, fleet):
    app = site.open("policies", view="Rates", namespace=MAIL)
    assert_calm(app)
    said = texts(app)
    assert "▲ at limit" in said
    field = _field(app, "publish_rate_acme/mail_publishThrottlingRateInMsg")
    assert field.value == "1"
    field.set_value("")
    said = _added(app)
    assert "no limit" in said
    assert "pulsar-admin namespaces set-publish-rate acme/mail" in said


def test_a_form_left_open_follows_what_is_set_meanwhile(site, fleet):
    app = site.open("policies", view="Rates", namespace=MAIL)
    assert _field(app, "publish_rate_acme/mail_publishThrottlingRateInMsg").value == "1"
    site.put(_limited(mail=5000, later_s=1))
    app.run()
    assert _field(app, "publish_rate_acme/mail_publishThrottlingRateInMsg").value == "5000"


def test_quotas_are_shown_and_reset(site, fleet):
    bundle = fleet.bundles["bundle"][0].as_py()
    app = site.open("policies", view="Quotas", bundle=bundle)
    assert_calm(app)
    _field(app, f"resource_quota_{bundle}_msgRateIn").set_value("50")
    said = _added(app)
    assert "uses the quota" in said
    assert "pulsar-admin resource-quotas set" in said


def test_tenants_are_shown_against_the_sum_of_their_limits(site, fleet):
    app = site.open("policies", view="Tenants", tenant="acme")
    assert_calm(app)
    said = texts(app)
    assert "of the traffic" in said
    assert "no limit" in said
    spaces = next(table.value for table in app.dataframe if "limits" in table.value)
    assert set(spaces["namespace"]) >= {ORDERS, MAIL}


def test_the_calculator_gives_the_published_example(site, fleet):
    app = site.open("policies", view="Calculator")
    assert_calm(app)
    rows = next(table.value for table in app.dataframe if "room" in table.value)
    assert [round(value, 2) for value in rows["published"]] == [11.11, 55.56, 33.33]
    assert rows["upstream"].tolist() == [11, 55, 33]
    assert "of the demand" in texts(app)


def test_the_calculator_is_wholly_in_its_address_and_takes_live_figures(site, fleet):
    app = site.open(
        "policies", view="Calculator", limit="20", usage="5,5", steps="3:5,5; 3:50,0", period="10"
    )
    assert_calm(app)
    assert app.text_input(key=state.PERIOD).value == "10"
    rows = next(table.value for table in app.dataframe if "room" in table.value)
    assert rows["upstream"].tolist() == [10, 10]
    _press(app, "Copy values")
    assert app.text_input(key=state.LIMIT).value == "1000"
    assert "," in app.text_input(key=state.USAGE).value


def test_what_cannot_be_calculated_is_said(site, fleet):
    app = site.open("policies", view="Calculator", limit="-2", period="0")
    assert_calm(app)
    said = texts(app)
    assert "the range is -1" in said
    app = site.open("policies", view="Calculator", steps="5:1,2;5:1")
    assert "another 1" in texts(app)
