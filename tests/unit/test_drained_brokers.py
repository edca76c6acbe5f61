"""A drained broker is named as such: no deviation, and no other is compared with it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from fleet_builder import make_snapshot

from core.diagnosis.pulsar.answer import diagnose
from core.diagnosis.request import DiagnoseRequest
from core.progress import NoProgress
from core.pulsar.emptied import with_emptied
from core.pulsar.measures import measure
from core.pulsar.rules.registry import assess
from core.pulsar.settings import effective_settings
from dashboard.app_pages.pulsar.brokers import model


def column(table, name, values):
    at = table.schema.get_field_index(name)
    field = table.schema.field(at)
    return table.set_column(at, field, pa.array(values, field.type))


PLAIN = make_snapshot(brokers=4, bundles=40)
BEFORE = PLAIN.with_tables({"brokers": column(PLAIN.brokers, "started_at", [1, 2, 3, 4])})
DRAINED = BEFORE.brokers["broker"][2].as_py()


def after(*, restarted=False):
    """The next snapshot: the third broker gave its bundles to the first one."""
    first = BEFORE.brokers["broker"][0].as_py()
    owners = [first if one == DRAINED else one for one in BEFORE.bundles["owner"].to_pylist()]
    movable = BEFORE.bundles["is_broker_bound"].to_pylist()
    kept = [
        before if is_bound else now
        for before, now, is_bound in zip(
            BEFORE.bundles["owner"].to_pylist(), owners, movable, strict=True
        )
    ]
    started = BEFORE.brokers["started_at"].to_pylist()
    if restarted:
        started[2] += 1
    tables = {
        "bundles": column(BEFORE.bundles, "owner", kept),
        "brokers": column(BEFORE.brokers, "started_at", started),
    }
    moment = BEFORE.manifest.taken_at + timedelta(minutes=1)
    return replace(BEFORE.with_tables(tables), manifest=replace(BEFORE.manifest, taken_at=moment))


def test_a_broker_that_was_emptied_while_it_ran_is_drained_until_it_owns_bundles_again():
    drained = with_emptied(after(), BEFORE)
    at = int(drained.manifest.taken_at.timestamp() * 1000)
    assert drained.brokers["emptied_at"].to_pylist() == [None, None, at, None]
    assert with_emptied(after(), drained).brokers["emptied_at"][2].as_py() == at
    assert with_emptied(BEFORE, drained).brokers["emptied_at"].null_count == 4
    assert with_emptied(after(restarted=True), BEFORE).brokers["emptied_at"].null_count == 4
    assert with_emptied(after(), None).snapshot_id == after().snapshot_id


def test_a_drained_broker_is_a_note_and_no_part_of_the_mean():
    snapshot = with_emptied(after(), BEFORE)
    measures = measure(snapshot)
    for spread in measures:
        assert np.isnan(spread.deviations[2])
        assert spread.mean == pytest.approx(float(spread.values[[0, 1, 3]].mean()))
    codes = {(one.code, one.severity) for one in assess(snapshot) if one.subject == DRAINED}
    assert ("broker_drained", "info") in codes
    assert "idle_broker" not in {code for code, _ in codes}
    plain = {(one.code, one.subject) for one in assess(after())}
    assert ("idle_broker", DRAINED) in plain
    settings = effective_settings(snapshot)
    rows = model.brokers_table(snapshot, measures, settings, model.BROKER_MEASURES[0])
    row = rows[rows["broker"] == DRAINED].iloc[0]
    assert row["band"] == ["○ drained"]


def test_a_diagnosis_names_a_drained_broker():
    snapshot = with_emptied(after(), BEFORE)
    found = diagnose(snapshot, DiagnoseRequest(), progress=NoProgress())
    assert f"Drained and excluded: {DRAINED}." in found.notes
