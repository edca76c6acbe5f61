"""What the page of a bundle says of it by metrics, beside its load report."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from fleet_builder import make_snapshot

from core.schemas.pulsar import BUNDLE_METRICS
from dashboard.app_pages.pulsar.bundle import model as presenter


def exposing(*rows):
    snapshot = make_snapshot(brokers=3, bundles=12)
    table = pa.Table.from_pylist(list(rows), schema=BUNDLE_METRICS)
    return replace(snapshot, tables={**snapshot.tables, "bundle_metrics": table})


def first():
    return presenter.find_row(
        make_snapshot(brokers=3, bundles=12).bundles,
        make_snapshot(brokers=3, bundles=12).bundles["bundle"][0].as_py(),
    )


def rates(broker, amount):
    row = {"bundle": first()["bundle"], "broker": broker}
    names = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
    return row | dict.fromkeys(names, amount)


def test_the_owner_s_own_rates_stand_beside_the_report() -> None:
    owner = first()["owner"]
    snapshot = exposing(rates("another:8080", 5.0), rates(owner, 7.0))
    told = presenter.exposed_rates(snapshot, first())
    assert told["broker"] == owner
    table = presenter.averages_table(first(), told)
    assert table.loc["Messages in", "metrics"] == "7 msg/s"
    assert presenter.exposed_note(snapshot, told, owner) == f"Metrics from {owner}."


def test_rates_of_a_broker_that_does_not_own_it_are_told_as_such() -> None:
    snapshot = exposing(rates("another:8080", 5.0))
    told = presenter.exposed_rates(snapshot, first())
    said = presenter.exposed_note(snapshot, told, first()["owner"])
    assert said == "Metrics from another:8080, which is not the current owner."


def test_without_metrics_there_is_no_column() -> None:
    told = presenter.exposed_rates(exposing(), first())
    assert told is None
    assert "metrics" not in presenter.averages_table(first(), told).columns
    assert presenter.exposed_note(exposing(), told, first()["owner"]) == ""
