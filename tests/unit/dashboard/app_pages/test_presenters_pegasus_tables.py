"""What the page of Pegasus tables shows: lists, matrix, heatmap, partitions, lost ones."""

from __future__ import annotations

import numpy as np
import pytest
from pegasus_snapshots import NODES, generated, part_row, snapshot_of, table_row, whole

from core.pegasus.ddd import DddNode, ddd_text
from core.pegasus.snapshot import PegasusFacts
from dashboard.app_pages.pegasus.tables import model
from dashboard.app_pages.pegasus.tables.charts import partition_matrix, table_grid


def facts_of(content=None):
    return PegasusFacts(snapshot_of(content or whole()))


def mixed():
    """A table with every state, an uneven one, and one that was not read."""
    dropped = [DddNode(NODES[3], 1_700_000_000_000, False, False, -1, -1, -1)]  # noqa: FBT003  # fields of a record in their order
    parts = [
        part_row(1, 0, NODES[0], [NODES[1], NODES[2]]),
        part_row(1, 1, NODES[1], [NODES[2]], last_drops=[NODES[3]]),
        part_row(1, 2, NODES[2]),
        part_row(1, 3, None, [NODES[0]]),
        part_row(
            1,
            4,
            None,
            last_drops=[NODES[3], NODES[0]],
            ddd_reason="not back",
            ddd_dropped=ddd_text(dropped),
        ),
        part_row(1, 5, NODES[0], [NODES[1], NODES[2], NODES[3]]),
        *(part_row(2, at, NODES[0], [NODES[1], NODES[2]]) for at in range(4)),
    ]
    content = whole(
        parts,
        tables=[
            table_row(1, "orders", 6),
            table_row(2, "profiles", 4, is_bulk_loading=True),
            table_row(3, "unread", 8),
        ],
    )
    for row in content["replicas"]:
        if row["app_id"] == 2 and not row["is_primary"]:
            row["size_mb"] = None
    return content


def rows_of(content=None):
    return model.tables_frame(facts_of(content)).set_index("table")


def test_answer_names_tables_with_unhealthy_partitions_and_uneven_ones():
    said = model.answer(facts_of(mixed()))
    assert said.startswith("3 tables with 18 partitions, 5 unhealthy (in orders")
    assert "1 table not read" in said
    assert "2 tables with unbalanced primaries" in said


def test_answer_of_an_even_healthy_cluster_says_so():
    parts = [part_row(1, at, NODES[at], [NODES[at - 1], NODES[at - 2]]) for at in range(4)]
    said = model.answer(facts_of(whole(parts, tables=[table_row(1, "orders", 4)])))
    assert said == ("1 table with 4 partitions, all healthy; primaries of all tables balanced.")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("orders", "orders: 6 partitions of 3 replicas, 5 unhealthy; primaries per node: min"),
        ("profiles", "profiles: 4 partitions of 3 replicas, all healthy; primaries per node: min"),
        ("unread", "unread: 8 partitions of 3 replicas; state not read."),
    ],
)
def test_answer_about_one_table_tells_health_and_evenness(name, said):
    assert model.table_answer(facts_of(mixed()), name).startswith(said)


def test_three_countings_of_one_table_differ_on_purpose():
    orders = rows_of(mixed()).loc["orders"]
    assert (orders["fully_healthy"], orders["unhealthy"]) == (2, 4)
    assert (orders["write_unhealthy"], orders["read_unhealthy"]) == (3, 2)
    assert (orders["state_healthy"], orders["state_unwritable"]) == (2, 1)
    assert orders["guardian_ill"] == 5
    assert orders["worst"] == "✖ dead (1)"


def test_table_that_was_not_read_is_unknown_everywhere():
    unread = rows_of(mixed()).loc["unread"]
    for column in ("unhealthy", "state_dead", "guardian_ill", "reads", "size_all_mb"):
        assert np.isnan(unread[column]), column
    assert unread["worst"] == "? not read"


def test_size_with_unknown_parts_is_unknown_and_says_how_many_are_known():
    profiles = rows_of(mixed()).loc["profiles"]
    assert np.isnan(profiles["size_all_mb"])
    assert profiles["size_primary_mb"] == 40.0
    assert profiles["sizes_known"] == "4 of 12"
    assert profiles["marks"] == "bulk load"


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, ["orders", "profiles", "unread"]),
        ({"only": "unhealthy"}, ["orders"]),
        ({"only": "uneven"}, ["orders", "profiles"]),
        ({"only": "not read"}, ["unread"]),
        ({"contains": "ORD"}, ["orders"]),
        ({"contains": "2"}, ["profiles"]),
        ({"sort": "name"}, ["orders", "profiles", "unread"]),
        ({"sort": "partitions"}, ["unread", "orders", "profiles"]),
        ({"sort": "reads"}, ["orders", "profiles", "unread"]),
        ({"limit": 1}, ["orders"]),
    ],
)
def test_list_is_filtered_and_sorted_with_the_unknown_last(asked, names):
    page = model.table_page(model.tables_frame(facts_of(mixed())), model.TableFilter(**asked))
    assert page.rows["table"].tolist() == names
    assert page.total == 3


def test_grid_shows_the_most_uneven_table_first_and_the_unread_as_unknown():
    data = model.grid(facts_of(mixed()), "primaries")
    assert list(data.rows) == ["profiles", "orders", "unread"]
    assert data.values[0].tolist() == [4, 0, 0, 0]
    assert np.isnan(data.values[2]).all()
    texts = table_grid(data).data[0].text
    assert texts[2][0] == "unknown"


@pytest.mark.parametrize("measure", model.GRID_MEASURES)
def test_grid_of_a_big_cluster_keeps_to_a_readable_number_of_tables(measure):
    data = model.grid(PegasusFacts(generated(120, 8, 30)), measure)
    assert data.values.shape == (model.MAX_GRID_ROWS, 30)
    assert "of 120 tables" in model.grid_note(data)
    assert table_grid(data).data[0].texttemplate is None


# -- matrix -----------------------------------------------------------------------------------


def test_matrix_marks_primary_secondary_and_what_is_missing():
    data = model.matrix(facts_of(mixed()), "orders", "0-5")
    assert data.group == 1
    assert data.primaries[0].tolist() == [1, 0, 0, 0, 0, 1]
    assert data.secondaries[2].tolist() == [1, 1, 0, 0, 0, 1]
    assert data.missing.tolist() == [0, 1, 2, 2, 3, -1]
    trace = partition_matrix(data).data[0]
    assert list(trace.text[0]) == ["P", "", "", "s", "", "P"]
    assert list(trace.text[-1]) == ["", "−1", "−2", "−2", "−3", "+1"]  # noqa: RUF001  # minus signs
    assert trace.y[-1] == "missing"


def test_matrix_of_a_whole_table_has_no_row_for_missing_replicas():
    trace = partition_matrix(model.matrix(facts_of(), "temp", "0-3")).data[0]
    assert list(trace.y) == list(NODES)
    assert "max 4" in model.matrix_sentence(model.matrix(facts_of(), "temp", "0-3"))


def test_big_table_is_shown_in_groups_or_by_stretches():
    facts = PegasusFacts(generated(1, 1_000, 100))
    stretches = model.windows(1_000)
    assert stretches[0] == model.EVERY
    assert stretches[-1] == "960-999"
    data = model.matrix(facts, "table0", model.EVERY)
    assert len(data.columns) <= 24
    assert data.columns[-1].endswith("-999")
    assert int(data.primaries.sum()) == 1_000
    assert int(data.secondaries.sum()) == 2_000
    single = model.matrix(facts, "table0", "960-999")
    assert single.primaries.shape == (100, 40)
    assert partition_matrix(data).data
    assert partition_matrix(single).data


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 128, 129, 1_000])
def test_stretches_cover_every_partition_once(count):
    covered = []
    for stretch in model.windows(count):
        if stretch != model.EVERY:
            first, _, last = stretch.partition("-")
            covered += range(int(first), int(last) + 1)
    assert covered == list(range(count))


# -- partitions -------------------------------------------------------------------------------


def test_partitions_are_listed_worst_first_and_what_only_the_guardian_calls_ill_before_healthy():
    facts = facts_of(mixed())
    rows = model.worst_first(facts, model.rows_of_table(facts.columns, "orders"))
    frame, found = model.partitions_frame(facts, rows)
    assert frame["gpid"].tolist() == ["1.4", "1.3", "1.2", "1.1", "1.5", "1.0"]
    assert frame["guardian"].tolist() == ["dead", "ill", "ill", "ill", "ill", "healthy"]
    assert frame["replicas"].tolist()[:2] == ["0 of 3", "1 of 3"]
    assert frame["next"].tolist()[1] == f"UPGRADE_TO_PRIMARY {NODES[0]}"
    assert frame["reason"].tolist()[-1] == ""
    assert len(found) == 5


def test_unhealthy_partitions_of_all_tables_are_those_the_guardian_looks_after():
    facts = facts_of(mixed())
    assert len(model.unhealthy_rows(facts)) == 5
    assert len(model.unhealthy_rows(facts_of())) == 0


def test_one_partition_is_found_by_its_number_and_nonsense_finds_nothing():
    columns = facts_of(mixed()).columns
    assert len(model.rows_of_table(columns, "orders", "3")) == 1
    for index in ("6", "-1", "x"):
        assert len(model.rows_of_table(columns, "orders", index)) == 0
    assert len(model.rows_of_table(columns, "nobody")) == 0


def test_numbers_of_a_partition_are_of_its_primary_and_unknown_without_one():
    facts = facts_of(mixed())
    rows = model.rows_of_table(facts.columns, "orders")
    frame, _ = model.partitions_frame(facts, rows)
    assert frame["size_mb"].tolist()[:3] == [10.0, 10.0, 10.0]
    assert np.isnan(frame["size_mb"][3])
    assert np.isnan(frame["size_mb"][4])


def test_snapshot_without_replicas_still_lists_partitions():
    content = whole()
    content["replicas"] = []
    facts = facts_of(content)
    frame, _ = model.partitions_frame(facts, model.rows_of_table(facts.columns, "temp"))
    assert len(frame) == 4
    assert frame["size_mb"].isna().all()


def test_lost_partition_tells_reason_next_step_and_recommendation():
    facts = facts_of(mixed())
    _, found = model.partitions_frame(facts, model.unhealthy_rows(facts))
    lost = model.lost(found)
    assert [one.config.gpid for one in lost] == ["1.4"]
    said = model.lost_sentences(lost[0])
    assert said[0] == "Meta server: not back"
    assert any("recommends no node" in one for one in said)
    frame = model.dropped_frame(lost[0].dropped)
    assert np.isnan(frame["ballot"][0])
    assert frame["alive"].tolist() == ["no"]


def test_shell_lines_name_the_table_and_the_lost_partitions():
    assert model.shell_lines("orders", ["1.4"]) == [
        "ls -d",
        "app orders -d",
        "app_stat -a orders",
        "app_disk orders -d",
        "ddd_diagnose -g 1.4",
    ]
