import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from fleet_builder import make_history, make_snapshot
from fleet_edit import edited

from core.errors import UnknownNameError
from core.ids import FULL_UPPER
from core.pulsar.measures import BundleCounts, measure, uncounted_bundles
from core.pulsar.owners import ownership_of
from core.pulsar.settings import effective_settings
from dashboard.app_pages.pulsar.broker import model as one_broker
from dashboard.app_pages.pulsar.brokers import model as brokers
from dashboard.app_pages.pulsar.brokers.model import BROKER_MEASURES, broker_measure
from dashboard.app_pages.pulsar.bundle import model as bundle
from dashboard.app_pages.pulsar.bundles import model as bundle_list
from dashboard.app_pages.pulsar.ownership import model as ownership
from dashboard.charts.bars import (
    BeforeAfter,
    before_after_bars,
    distribution_bars,
)
from dashboard.charts.heatmap import broker_heatmap, distance_colors
from dashboard.charts.lines import history_lines
from dashboard.charts.ring import LESS_BUSY, namespace_ring
from dashboard.charts.scale import moments_of, scale_of, text_of
from dashboard.charts.template import WITHIN
from dashboard.charts.treemap import REST, ROOT, bundle_treemap
from dashboard.presenters import moves
from dashboard.presenters.pulsar import bundles
from dashboard.queries.pulsar.broker_load import RecordedBundle

SNAPSHOT = make_snapshot()
SETTINGS = effective_settings(SNAPSHOT)
MEASURES = measure(SNAPSHOT, SETTINGS)
HISTORY = [(one.manifest.taken_at, one.brokers) for one in make_history(6)]


HOURS = timedelta(hours=6)


def with_totals(snapshot):
    table = snapshot.bundles
    for name, part in (("throughput", "msg_throughput"), ("msg_rate", "msg_rate")):
        for prefix in ("", "short_", "long_"):
            both = pa.compute.add(table[f"{prefix}{part}_in"], table[f"{prefix}{part}_out"])
            table = table.append_column(f"{prefix}{name}", both)
    return table


BUNDLES = with_totals(SNAPSHOT)
MOVABLE = BUNDLES.filter(pa.compute.invert(BUNDLES["is_broker_bound"]))


# -- brokers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", BROKER_MEASURES, ids=lambda one: one.key)
def test_heatmap_has_a_row_a_broker_and_a_column_a_snapshot(chosen):
    data = brokers.heatmap_data(HISTORY, chosen, SETTINGS, 0.2)
    assert data.values.shape == (12, 6)
    assert np.isfinite(data.values).all()
    last = data.values[:, -1]
    assert (np.diff(last) <= 0).all()
    assert broker_heatmap(data).data


def test_heatmap_of_many_brokers_draws_the_hottest_and_means_over_all():
    data = brokers.heatmap_data(HISTORY, broker_measure("throughput"), SETTINGS, 0.2, max_rows=3)
    assert len(data.rows) == 3
    assert data.fleet_mean[-1] == pytest.approx(MEASURES.throughput.mean)
    assert "3 hottest of 12" in brokers.heatmap_note(data, total=12)


def test_broker_that_joined_late_is_unknown_before():
    late = HISTORY[-1][1]
    early = [(moment, table.slice(1)) for moment, table in HISTORY[:-1]]
    data = brokers.heatmap_data([*early, HISTORY[-1]], broker_measure("usage"), SETTINGS, 0.2)
    row = data.rows.index(late["broker"][0].as_py())
    assert np.isnan(data.values[row, :-1]).all()
    assert np.isfinite(data.values[row, -1])


def test_heatmap_without_any_snapshot_is_empty():
    data = brokers.heatmap_data([], broker_measure("usage"), SETTINGS, 0.2)
    assert data.rows == []
    assert broker_heatmap(data).data


def test_unknown_measure_offers_near_names():
    with pytest.raises(UnknownNameError, match="throughput"):
        broker_measure("througput")


@pytest.mark.parametrize(
    ("deviation", "word"),
    [
        (0.0, "● within"),
        (0.2, "● within"),
        (0.3, "▲ above"),
        (0.5, "▲▲ far above"),
        (-0.3, "▼ below"),
        (-0.9, "▼▼ far below"),
        (float("nan"), "? unknown"),
    ],
)
def test_band_is_said_in_a_word_with_a_shape(deviation, word):
    assert brokers.band_words(np.array([deviation]), 0.2) == [word]


def test_brokers_table_names_the_limiting_resource_hottest_first():
    usage = brokers.broker_measure("usage")
    table = brokers.brokers_table(SNAPSHOT, MEASURES, SETTINGS, usage)
    assert len(table) == 12
    assert table["usage"].is_monotonic_decreasing
    assert table["broker"][0] == MEASURES.usage.worst
    hottest = table["limiting"][0]
    assert re.fullmatch(r"CPU|NIC in|NIC out", hottest)


@pytest.mark.parametrize("measure", brokers.BROKER_MEASURES, ids=lambda one: one.key)
def test_brokers_table_is_judged_by_the_measure_that_the_chart_shows(measure):
    table = brokers.brokers_table(SNAPSHOT, MEASURES, SETTINGS, measure)
    history = [(SNAPSHOT.manifest.taken_at, SNAPSHOT.brokers)]
    data = brokers.heatmap_data(history, measure, SETTINGS, 0.2)
    assert table["broker"].tolist() == data.rows
    colors = distance_colors(data.values[:, -1], data.fleet_mean[-1], data.tolerance_ratio)
    is_within = [one[0].startswith("●") for one in table["band"]]
    assert is_within == [color == WITHIN for color in colors]


def test_a_file_of_brokers_names_the_measure_that_they_are_judged_by():
    measure = brokers.broker_measure("cpu")
    rows = brokers.brokers_table(SNAPSHOT, MEASURES, SETTINGS, measure)
    columns = set(brokers.as_file(rows.assign(bar="", trend=""), measure).columns)
    assert {"cpu_deviation", "cpu_band", "cpu"} <= columns
    assert not {"deviation", "band", "bar", "trend"} & columns


def test_brokers_with_equal_load_are_in_the_order_of_their_numbers():
    names = ["b-10", "b-2", "b-1"]
    table = pa.table({"broker": names, "cpu_ratio": [0.5, 0.5, 0.5]})
    data = brokers.heatmap_data(
        [(SNAPSHOT.manifest.taken_at, table)], brokers.broker_measure("cpu"), SETTINGS, 0.2
    )
    assert data.rows == ["b-1", "b-2", "b-10"]


def test_colour_says_distance_and_not_side():
    over, under = distance_colors(np.array([150.0, 50.0]), 100.0, 0.2)
    assert over == under


# -- one broker ------------------------------------------------------------------------------------


def test_resources_of_a_broker_have_value_limit_and_weight():
    rows = one_broker.resources(SNAPSHOT, SETTINGS, 0).set_index("resource")
    assert len(rows) == 5
    assert sum(name.endswith(" *") for name in rows.index) == 1
    cpu = next(row for name, row in rows.iterrows() if str(name).startswith("CPU"))
    assert "cores" in cpu["value"]
    assert cpu["weight"] == "1"


def test_broker_without_a_report_is_unknown_in_words():
    lost = SNAPSHOT.brokers.schema
    names = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
    table = SNAPSHOT.brokers
    for name in [f"{one}_{part}" for one in names for part in ("usage", "limit", "ratio")]:
        at = lost.get_field_index(name)
        table = table.set_column(at, lost.field(name), pa.nulls(12, pa.float64()))
    snapshot = type(SNAPSHOT)(SNAPSHOT.manifest, {**SNAPSHOT.tables, "brokers": table})
    found = one_broker.past([], table["broker"][0].as_py(), SETTINGS, None)
    figures = one_broker.key_figures(snapshot, measure(snapshot, SETTINGS), SETTINGS, 0, found)
    cpu = next(one for one in figures if one.label == "CPU")
    assert (cpu.value, cpu.status) == ("unknown", "unknown")
    rows = one_broker.resources(snapshot, SETTINGS, 0)
    assert set(rows["value"]) == {"unknown"}
    assert rows["use"].isna().all()


def test_past_of_a_broker_has_the_mean_of_all_next_to_it():
    broker = SNAPSHOT.brokers["broker"][0].as_py()
    found = one_broker.past(HISTORY, broker, SETTINGS, "cpu")
    assert found.usage.shape == found.mean_usage.shape == (6,)
    table = one_broker.usage_table(found)
    assert table["at"].tolist() == [moment for moment, _ in HISTORY][::-1]
    none = one_broker.past(HISTORY, "gone:8080", SETTINGS, "cpu")
    assert np.isnan(none.usage).all()
    assert np.isfinite(none.mean_usage).all()
    assert one_broker.known_points(none.usage) == []


def test_events_of_a_broker_are_its_moves_and_its_restart():
    at = HISTORY[-1][0]
    seen = [
        moves.ObservedMove(seen_at=at, bundle=name, from_broker=source, to_broker=to)
        for name, source, to in (("a", "x", "y"), ("b", "x", None), ("c", "y", "x"))
    ]
    since = HISTORY[0][0]
    started = int(HISTORY[1][0].timestamp() * 1000)
    assert one_broker.events(seen, "x", started, since) == [
        (HISTORY[1][0], "restart"),
        (at, "+1, -2 bundles"),
    ]
    assert one_broker.events([], "x", int(since.timestamp() * 1000) - 1, since) == []


def test_rows_of_a_brokers_bundles_have_share_trend_and_destination():
    broker = MEASURES.throughput.worst
    mine = one_broker.bundles_of(MOVABLE, broker)
    total = MEASURES.throughput.value_of(broker)
    first = mine["bundle"][0].as_py()
    rows = one_broker.bundle_rows(mine, total, {first: [1.0, 2.0]}, {first: ("b:8080", 0.92)})
    assert rows["part"].is_monotonic_decreasing
    assert rows["part"].sum() <= 101
    assert rows["trend"][0] == [1.0, 2.0]
    assert rows["likely"].tolist()[:2] == ["b:8080 · 92%", "\u2013"]
    assert one_broker.shared_destination(rows) == "b:8080 · 92%"
    rows.loc[1, "likely"] = "c:8080 · 50%"
    assert one_broker.shared_destination(rows) == ""


def test_setting_that_differs_is_shown_with_both_values():
    name = SNAPSHOT.brokers["broker"][11].as_py()
    shown = one_broker.own_settings(SETTINGS, name)
    assert "loadBalancerReportUpdateMaxIntervalMinutes" in set(shown["setting"])


def test_facts_of_a_broker_have_no_empty_value():
    assert all(one_broker.facts(SNAPSHOT, 0).values())


# -- bundles ---------------------------------------------------------------------------------------


def test_filter_by_part_owner_and_namespace_counts_what_matches():
    namespace = MOVABLE["namespace"][0].as_py()
    owner = MOVABLE["owner"][0].as_py()
    page = bundle_list.bundle_page(
        MOVABLE,
        bundle_list.BundleTableFilter(contains="0X", owner=owner, namespace=namespace, limit=2),
    )
    assert len(page.rows) == min(2, page.matching.assigned)
    assert set(page.rows["owner"]) == {owner}
    assert set(page.rows["namespace"]) == {namespace}
    assert page.total == BundleCounts(assigned=600, unassigned=0)


@pytest.mark.parametrize("sort", bundle_list.SORTS)
def test_every_order_of_the_table_works(sort):
    page = bundle_list.bundle_page(MOVABLE, bundle_list.BundleTableFilter(sort=sort, limit=50))
    column = {"traffic": "throughput", "rate": "msg_rate", "topics": "topics"}.get(sort)
    if column:
        assert page.rows[column].is_monotonic_decreasing


def test_bundle_nobody_owns_is_not_the_same_as_unknown():
    table = MOVABLE.slice(0, 2)
    at = table.schema.get_field_index
    table = table.set_column(at("owner"), "owner", pa.array([None, None], pa.string()))
    table = table.set_column(
        at("owner_source"), "owner_source", pa.array(["ownership", None], pa.string())
    )
    assert bundles.owner_words(table) == ["unassigned", None]
    assert (
        bundle_list.filtered(table, bundle_list.BundleTableFilter(owner="unassigned")).num_rows == 1
    )
    load = bundle_list.load_of(table)
    assert load.counts == BundleCounts(assigned=1, unassigned=1, unclear=1)
    assert bundle_list.subtitle(load).startswith("1 bundle + 1 unassigned · ")
    page = bundle_list.bundle_page(table, bundle_list.BundleTableFilter())
    assert page.text == "2 rows · 1 bundle + 1 unassigned in all"
    page = bundle_list.bundle_page(table, bundle_list.BundleTableFilter(owner="unassigned"))
    assert page.text == "1 row · 0 bundles + 1 unassigned match · 1 bundle + 1 unassigned in all"
    groups = bundles.treemap_data(table, "owner").labels
    assert {"unassigned", "owner unknown"} <= set(groups)
    namespace = table["namespace"][0].as_py()
    ring = bundles.ring_data(table, namespace)
    assert ring is not None
    assert [trace.name for trace in namespace_ring(ring).data] == ["unassigned", "owner unknown"]


@pytest.mark.parametrize("group_by", ["owner", "namespace"])
def test_treemap_groups_add_up_to_the_whole(group_by):
    data = bundles.treemap_data(MOVABLE, group_by)
    parents = np.array(data.parents)
    total = np.nansum(np.array(MOVABLE["throughput"]))
    assert data.values[parents == ROOT].sum() == pytest.approx(total)
    assert data.values[list(data.ids).index(ROOT)] == pytest.approx(total)
    assert len(set(data.ids)) == len(data.ids)
    for group in {parent for parent in data.parents if parent not in ("", ROOT)}:
        whole = data.values[list(data.ids).index(group)]
        assert data.values[parents == group].sum() == pytest.approx(whole)
    assert any(key.endswith(REST) for key in data.ids)
    assert bundle_treemap(data).data


def test_ring_covers_the_whole_range_once():
    namespace = MOVABLE["namespace"][0].as_py()
    ring = bundles.ring_data(MOVABLE, namespace, marked=MOVABLE["bundle"][0].as_py())
    assert ring is not None
    assert ring.lower[0] == 0
    assert ring.upper[-1] == FULL_UPPER
    assert (ring.lower[1:] == ring.upper[:-1]).all()
    assert ring.marked == 0
    assert namespace_ring(ring).data


def test_ring_of_a_huge_namespace_joins_what_is_less_busy():
    namespace = MOVABLE["namespace"][0].as_py()
    table = MOVABLE.filter(pa.compute.equal(MOVABLE["namespace"], namespace)).sort_by("lower")
    names, whole = table["bundle"].to_pylist(), bundles.ring_data(MOVABLE, namespace)
    assert whole is not None
    for marked in (names[0], names[len(names) // 2], names[-1]):
        ring = bundles.ring_data(MOVABLE, namespace, marked=marked, max_bundles=10)
        assert ring is not None
        assert len(ring.lower) < len(whole.lower)
        assert ring.marked is not None
        assert marked.endswith(f"0x{ring.lower[ring.marked]:08x}_0x{ring.upper[ring.marked]:08x}")
        assert (ring.lower[0], ring.upper[-1]) == (0, FULL_UPPER)
        assert (ring.lower[1:] == ring.upper[:-1]).all()
        assert np.nanmax(ring.values) == np.nanmax(whole.values)
        joined = [at for at, owner in enumerate(ring.owners) if owner == LESS_BUSY]
        assert joined
        for at in joined:
            inside = (whole.lower >= ring.lower[at]) & (whole.upper <= ring.upper[at])
            assert ring.values[at] == pytest.approx(np.nanmean(whole.values[inside]))
        drawn = {trace.name: trace.marker for trace in namespace_ring(ring).data}
        assert drawn.pop(LESS_BUSY).pattern.shape
        assert not any(marker.pattern.shape for marker in drawn.values())


def test_figures_about_bundles_count_those_that_carry_half():
    load = bundle_list.load_of(MOVABLE)
    assert load.counts == BundleCounts(assigned=600, unassigned=0)
    assert 0 < load.half < 300
    assert f"{load.half} with half" in bundle_list.subtitle(load)
    figures = {one.label: one for one in bundle_list.key_figures(load, 1.0, [1.0, 2.0])}
    assert figures["Hottest bundle"].status == "warning"
    assert figures["Half of the traffic"].value == f"{load.half} bundles"
    none = bundle_list.load_of(MOVABLE.slice(0, 0))
    assert (none.half, none.hottest) == (0, None)
    assert "no traffic" in bundle_list.subtitle(none)


def test_selected_bundles_are_summed():
    rows = bundles.rows_of(MOVABLE.slice(0, 3))
    found = bundle_list.picked(rows, [0, 2], carried=1e9)
    assert found.bundles == (rows["bundle"][0], rows["bundle"][2])
    assert found.traffic == pytest.approx((rows["throughput"][0] + rows["throughput"][2]) * 1e6)
    assert found.share == pytest.approx(found.traffic / 1e9)


def test_every_place_counts_the_same_bundles():
    free = [name for at, name in enumerate(MOVABLE["bundle"].to_pylist()) if at % 20 == 0]
    snapshot = edited(SNAPSHOT, "bundles", {name: {"owner": None} for name in free})
    table = snapshot.bundles
    movable = table.filter(pa.compute.invert(table["is_broker_bound"]))
    counts, uncounted = BundleCounts.of(movable), uncounted_bundles(snapshot)
    assert uncounted == {"heartbeat/SLA": 12, "unassigned": 30}
    assert counts.text == "570 bundles + 30 unassigned"
    found = ownership.key_figures(
        ownership_of(snapshot, SETTINGS), None, counts, 12, is_shedding=True
    )
    figures = {one.label: (one.value, one.note) for one in found}
    assert figures["Assigned"] == ("570", "and 12 heartbeat/SLA")
    assert figures["Unassigned"][0] == "30"


# -- one bundle ------------------------------------------------------------------------------------


def test_bundle_is_named_with_its_owner_and_its_figures():
    row = bundle.find_row(MOVABLE, MOVABLE["bundle"][0].as_py())
    assert row is not None
    assert f"on {row['owner']}" in bundle.subtitle(row)
    assert "owner unknown" in bundle.subtitle({**row, "owner": None, "owner_source": None})
    assert "unassigned" in bundle.subtitle({**row, "owner": None})
    found = bundle.key_figures(
        row, MEASURES.throughput.total, 1.0, [], [], ("b:8080", 0.5), span=HOURS
    )
    figures = {one.label: one for one in found}
    assert figures["Traffic"].status == "warning"
    assert "of the cluster" in figures["Traffic"].note
    assert (figures["If unloaded"].value, figures["If unloaded"].note) == ("50%", "to b:8080")
    given = bundle.key_figures(row, None, 1.0, [], [], ("b:8080", 0.5), ["b:8080"], span=HOURS)
    assert given[-1].note == "to b:8080, drained"
    lost = bundle.key_figures({**row, "throughput": None}, None, None, [], [], None, span=HOURS)
    assert lost[0].value == "unknown"


def test_bundle_that_was_split_is_found_by_its_parts():
    children = bundle.children_of(
        MOVABLE, f"{MOVABLE['namespace'][0].as_py()}/0x00000000_0xffffffff"
    )
    assert len(children) > 1


def test_history_of_a_bundle_marks_every_change_of_owner():
    base = datetime(2026, 11, 21, tzinfo=UTC)
    times = [base + timedelta(minutes=step) for step in range(4)]
    table = pa.table(
        {
            "bundle": ["t/n/0x0_0x1"] * 4,
            "owner": ["a:1", "b:1", None, "a:1"],
            "owner_source": ["ownership", "ownership", None, "ownership"],
            "msg_throughput_in": [1.0, 2.0, 3.0, None],
            "msg_throughput_out": [1.0, 2.0, 3.0, 4.0],
            "taken_at": pa.array(times, pa.timestamp("ms", tz="UTC")),
        }
    )
    at, series, found = bundle.history_series(table)
    assert at == times
    assert [(move.from_broker, move.to_broker) for move in found] == [
        ("a:1", "b:1"),
        ("b:1", "a:1"),
    ]
    assert len(moves.returning(found)) == 1
    assert history_lines(at, series, "bytes/s", events=bundle.events_of(found)).data
    recorded = RecordedBundle(
        times=[base - timedelta(hours=6), times[1]],
        rates={f"msg_throughput_{way}": np.array([5.0, 6.0]) for way in ("in", "out")},
        moves=[],
        end=times[1],
    )
    at, series, found = bundle.history_series(table, recorded)
    assert at == [*recorded.times, *times[2:]]
    assert series[1].values.tolist() == [5.0, 6.0, 3.0, 4.0]
    assert [move.seen_at for move in found] == times[3:], "the record has the others"
    at, series, _ = bundle.history_series(pa.table({}), recorded)
    assert [at, series[0].values.tolist()] == [recorded.times, [5.0, 6.0]]


# -- moves -----------------------------------------------------------------------------------------


def owners(minute, **by_bundle):
    return datetime(2026, 11, 21, 12, minute, tzinfo=UTC), pa.table(
        {
            "bundle": pa.array(list(by_bundle), pa.string()),
            "owner": pa.array(list(by_bundle.values()), pa.string()),
        }
    )


def test_moves_are_seen_between_snapshots_also_when_bundles_come_and_go():
    tables = [
        owners(0, a="x", b="x", c="y"),
        owners(1, a="y", b="x", c="y"),
        owners(2, b="x", c=None, d="x", a="x"),
    ]
    found = moves.moves_between(tables)
    assert [(move.bundle, move.from_broker, move.to_broker) for move in found] == [
        ("a", "x", "y"),
        ("c", "y", None),
        ("a", "y", "x"),
    ]
    assert [move.bundle for move in moves.returning(found)] == ["a"]
    assert "3 moves" in moves.moves_sentence(found, 60)
    assert moves.moves_frame(found)["mark"].tolist()[0] == "↩ returned"


def test_no_move_is_said_so():
    assert moves.moves_sentence([], 60) == "No moves in the last 60 min."


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.123, "ratio", "12.3%"),
        (38_100_000.0, "bytes/s", "38.1 MB/s"),
        (1.0, "bundles", "1 bundle"),
        (float("nan"), "msgs/s", "unknown"),
        (None, "count", "unknown"),
    ],
)
def test_value_is_written_in_its_unit(value, unit, text):
    assert text_of(value, unit) == text


@pytest.mark.parametrize(
    ("unit", "template"),
    [
        ("ratio", "%{z:,.1f}%"),
        ("bytes/s", "%{z:,.3~r} MB/s"),
        ("msgs/s", "%{z:.3~s} msg/s"),
        ("bundles", "%{z:,.0f} bundles"),
        ("count", "%{z:,.0f}"),
    ],
)
def test_value_of_a_hover_text_has_its_unit(unit, template):
    assert scale_of(unit).hover("z") == template


def test_moments_are_whole_seconds_in_milliseconds():
    [moment] = moments_of([datetime(2026, 7, 1, 12, 0, 1, 750_000, tzinfo=UTC)])
    assert moment == datetime(2026, 7, 1, 12, 0, 1, tzinfo=UTC).timestamp() * 1000


def test_distribution_and_before_after_draw_without_a_broker():
    assert distribution_bars([], []).data
    empty = np.zeros(0)
    data = BeforeAfter([], empty, empty, empty, empty, float("nan"), 0.2, "ratio")
    assert before_after_bars(data).data
