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
from core.optimize.planner import optimize
from core.optimize.request import OptimizeRequest
from core.progress import NoProgress
from core.pulsar.emptied import drained_by, with_emptied
from core.pulsar.measures import measure
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.preview import preview_plan
from core.pulsar.rules.registry import assess
from core.pulsar.settings import effective_settings
from core.pulsar.steps.unload import UnloadBundle
from dashboard.app_pages.pulsar.brokers import model
from dashboard.presenters.pulsar import unload


def column(table, name, values):
    at = table.schema.get_field_index(name)
    field = table.schema.field(at)
    return table.set_column(at, field, pa.array(values, field.type))


PLAIN = make_snapshot(brokers=4, bundles=40)
BEFORE = PLAIN.with_tables({"brokers": column(PLAIN.brokers, "started_at", [1, 2, 3, 4])})
DRAINED = BEFORE.brokers["broker"][2].as_py()
PLAN = build_unload_plan(PLAIN, [PLAIN.bundles["bundle"][0].as_py()], now=PLAIN.manifest.taken_at)


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


def plan(*owners, **fields):
    """A plan that unloads one bundle of each of the owners."""
    steps = tuple(UnloadBundle(bundle=f"a/b/{at}", owner=one) for at, one in enumerate(owners))
    return replace(PLAN, steps=steps, **fields)


def drains(_since, _until):
    return [plan(DRAINED, DRAINED)]


def test_only_a_plan_that_unloads_several_bundles_of_one_broker_drains_it():
    other = BEFORE.brokers["broker"][0].as_py()
    assert drained_by([plan(DRAINED, DRAINED)]) == {DRAINED}
    assert not drained_by([plan(DRAINED, DRAINED, undoes="r-1")])
    assert not drained_by([plan(DRAINED), plan(DRAINED, other)])


def test_a_broker_whose_bundles_were_moved_back_is_alive_and_a_destination():
    def undone(_since, _until):
        return [plan(DRAINED, DRAINED, undoes="r-1")]

    snapshot = with_emptied(after(), BEFORE, undone)
    assert snapshot.brokers["emptied_at"].null_count == 4
    traffic = measure(snapshot).throughput
    assert traffic.excluded == ""
    assert traffic.known.all()
    assert with_emptied(after(), BEFORE).brokers["emptied_at"].null_count == 4


def test_the_journal_is_read_only_for_a_broker_that_became_empty():
    asked = []

    def executed(since, until):
        asked.append((since, until))
        return []

    with_emptied(BEFORE, BEFORE, executed)
    assert not asked
    with_emptied(after(), BEFORE, executed)
    assert [until for _, until in asked] == [after().manifest.taken_at]


def test_every_surface_leaves_a_drained_broker_out_of_one_mean_and_names_it():
    snapshot = with_emptied(after(), BEFORE, drains)
    measures = measure(snapshot)
    mean = measures.throughput.mean
    assert measures.throughput.excluded == f"{DRAINED} (drained)"
    settings = effective_settings(snapshot)
    for brokers in (snapshot.brokers, snapshot.brokers.drop_columns(["emptied_at"])):
        data = model.heatmap_data(
            [(snapshot.manifest.taken_at, brokers)],
            model.BROKER_MEASURES[0],
            settings,
            0.2,
            aside=measures.throughput.set_aside_names,
        )
        assert data.fleet_mean[-1] == pytest.approx(mean)
    assert model.heatmap_note(data, total=4) == f"not compared: {DRAINED} (drained)"
    owner = snapshot.bundles["owner"][0].as_py()
    wanted = build_unload_plan(
        snapshot,
        [snapshot.bundles["bundle"][0].as_py()],
        now=snapshot.manifest.taken_at,
        destination=next(one for one in measures.brokers if one not in (owner, DRAINED)),
    )
    preview = preview_plan(snapshot, wanted)
    bars = unload.before_after(preview, "traffic")
    assert bars.mean_after == pytest.approx(preview.measures_after.throughput.mean)
    assert DRAINED not in bars.brokers
    proposal = optimize(snapshot, OptimizeRequest(), settings=settings)
    assert f"Excluded as source and destination: {DRAINED} (drained)." in proposal.notes


def test_a_broker_that_a_plan_drained_is_drained_until_it_owns_bundles_again():
    drained = with_emptied(after(), BEFORE, drains)
    at = int(drained.manifest.taken_at.timestamp() * 1000)
    assert drained.brokers["emptied_at"].to_pylist() == [None, None, at, None]
    assert with_emptied(after(), drained).brokers["emptied_at"][2].as_py() == at
    assert with_emptied(BEFORE, drained).brokers["emptied_at"].null_count == 4
    assert with_emptied(after(restarted=True), BEFORE, drains).brokers["emptied_at"].null_count == 4
    assert with_emptied(after(), None).snapshot_id == after().snapshot_id


def test_a_drained_broker_is_a_note_and_no_part_of_the_mean():
    snapshot = with_emptied(after(), BEFORE, drains)
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
    snapshot = with_emptied(after(), BEFORE, drains)
    found = diagnose(snapshot, DiagnoseRequest(), progress=NoProgress())
    assert f"Drained and excluded: {DRAINED}." in found.notes
