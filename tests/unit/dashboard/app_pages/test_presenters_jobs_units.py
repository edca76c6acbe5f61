"""Result tables with several units: plain names, units in heads or in a column, never mixed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors.jobs.kinds.fleet import failed
from core.history.analysis.trends.tables import GAPS, HOT, MOVERS, OF_CLUSTERS
from core.history.analysis.trends.trends import TRENDS
from dashboard.app_pages.jobs.model import (
    MEASURES,
    as_recorded,
    charts_of,
    described,
    frame_of,
    is_mixed,
    labels_of,
    measures_of,
    only,
    shown_columns,
    words_of,
)


def trends(*rows: tuple[str, str, float]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "cluster": "fleet",
                "kind": kind,
                "subject": "a",
                "measure": measure,
                "starts_at": 1_795_363_200_000,
                "mean": value,
                "max": value,
                "p95": value,
                "minutes": 60,
            }
            for kind, measure, value in rows
        ],
        OF_CLUSTERS,
    )


def hot(*rows: tuple[str, float]) -> pa.Table:
    names = ("mean", "max", "worst_p95")
    return pa.Table.from_pylist(
        [
            {"cluster": "x", "kind": kind, "subject": kind, "share": 0.5} | dict.fromkeys(names, of)
            for kind, of in rows
        ],
        HOT,
    )


def test_rows_of_several_measures_say_their_unit_and_are_scaled_to_it() -> None:
    shown = described(
        trends(
            ("broker", "msg_throughput", 62.5e6),
            ("broker", "usage", 0.75),
            ("broker", "bundle_count", 33.0),
            ("node", "request_rate", 1_200.0),
        )
    )
    assert shown.select(["measure", "unit", "mean"]).to_pylist() == [
        {"measure": "throughput", "unit": "MB/s", "mean": 62.5},
        {"measure": "usage of the busiest resource", "unit": "%", "mean": 75.0},
        {"measure": "bundles", "unit": "", "mean": 33.0},
        {"measure": "requests", "unit": "req/s", "mean": 1_200.0},
    ]
    assert {one.name: one.form for one in shown_columns(shown)}["mean"] == "number"


@pytest.mark.parametrize(
    ("measure", "value", "form", "seen"),
    [
        ("msg_throughput", 62.5e6, "megabytes", 62.5),
        ("usage", 0.75, "percent", 75.0),
        ("msg_rate", 900.0, "rate", 900.0),
        ("request_rate", 900.0, "requests", 900.0),
        ("bundle_count", 33.0, "number", 33.0),
    ],
)
def test_rows_of_one_measure_have_the_unit_in_the_head(measure, value, form, seen) -> None:
    shown = described(trends(("broker", measure, value), ("broker", measure, value)))
    columns = shown_columns(shown)
    assert "unit" not in shown.schema.names
    assert [one.form for one in columns if one.name in ("mean", "max", "p95")] == [form] * 3
    assert frame_of(shown, columns)["p95"].tolist() == [seen, seen]


def test_hot_bundles_are_told_in_megabytes_and_beside_pegasus_tables_with_a_unit() -> None:
    pulsar = described(hot(("bundle", 64.8e6)))
    assert {one.name: one.form for one in shown_columns(pulsar)}["worst_p95"] == "megabytes"
    both = described(hot(("bundle", 64.8e6), ("table", 120.0)))
    assert both["unit"].to_pylist() == ["MB/s", "req/s"]
    assert both["max"].to_pylist() == [64.8, 120.0]
    assert measures_of(hot(("bundle", 1.0))) == []
    assert [words_of(*one) for one in measures_of(hot(("bundle", 1.0), ("table", 1.0)))] == [
        "bundles",
        "tables",
    ]


def test_a_measure_is_drawn_by_itself() -> None:
    table = trends(("broker", "usage", 0.5), ("broker", "msg_rate", 9.0), ("node", "reads", 1.0))
    assert not is_mixed(table)  # a measure that nobody knows is shown as it is
    table = trends(("broker", "usage", 0.5), ("broker", "msg_rate", 9.0))
    assert measures_of(table) == [("broker", "msg_rate"), ("broker", "usage")]
    assert only(table, "broker", "usage")["mean"].to_pylist() == [0.5]
    assert words_of("broker", "msg_rate") == "broker: message rate"


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("Message rate", "msg_rate"),
        ("throughput", "throughput"),
        ("10.0.0.1", "10.0.0.1"),
        ("", ""),
    ],
)
def test_a_plain_name_finds_what_was_recorded_under_another(text, raw) -> None:
    assert as_recorded(text) == raw


def test_gaps_and_movers_have_units_and_every_head_is_its_own() -> None:
    for schema in (GAPS, MOVERS, HOT, OF_CLUSTERS):
        labels = list(labels_of(schema.empty_table()).values())
        assert len(labels) == len(set(labels)), labels
    assert not is_mixed(MOVERS.empty_table())
    assert set(TRENDS.names) <= set(OF_CLUSTERS.names)
    assert all("_" not in one.name for one in MEASURES.values())


def test_one_period_is_drawn_as_bars_and_several_as_lines() -> None:
    table = described(trends(("broker", "usage", 0.5), ("broker", "usage", 0.6)))
    assert charts_of(table, shown_columns(table)).time == ""
    later = table.set_column(
        table.schema.get_field_index("starts_at"), table.schema.field("starts_at"), [[1, 2]]
    )
    assert not charts_of(later, shown_columns(later)).time  # no times: the first is 1 ms
    later = table.set_column(
        table.schema.get_field_index("starts_at"),
        table.schema.field("starts_at"),
        [[1_795_363_200_000, 1_795_366_800_000]],
    )
    assert charts_of(later, shown_columns(later)).time == "starts_at"


def test_clusters_that_failed_are_all_named_with_the_reasons_of_the_first() -> None:
    reasons = {f"c-{number}": f"Fault {number}." for number in range(1, 6)}
    assert failed(reasons, "See the log.") == (
        "c-1: Fault 1. c-2: Fault 2. c-3: Fault 3. Also failed: c-4 and c-5. See the log."
    )
    assert failed({"c-1": "Fault 1."}, "See the log.") == "c-1: Fault 1."
