"""Steps of every kind: what always holds of plan files, hashes, words and commands."""

from __future__ import annotations

import shlex
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_entries import plan_of, record_of, requested
from sampled import examples

from core.actions.describe import describe_event
from core.actions.events import Record, canonical
from core.errors import UnusablePlanError
from core.ids import FULL_UPPER, range_text
from core.plan.codec import dump_plan, load_plan
from core.plan.describe import done, tally, things, whether
from core.plan.model import Plan, Step, content_hash, sealed
from core.pulsar.plan.preview import rest_line
from core.pulsar.settings import SETTINGS
from core.pulsar.steps.setting import SetDynamicSetting
from core.pulsar.steps.split import SplitBundle
from core.pulsar.steps.unload import UnloadBundle
from core.systems import STEPS

brokers = st.sampled_from(["b1:8080", "b2:8080", "10.1.0.7:8443"])
bounds = st.lists(st.integers(0, FULL_UPPER), min_size=2, max_size=6, unique=True).map(sorted)
texts = st.text(max_size=12)


@st.composite
def bundles(draw: st.DrawFn) -> str:
    lower, upper = draw(st.tuples(st.integers(0, 2**31), st.integers(2**31 + 1, FULL_UPPER)))
    return f"acme/{draw(st.sampled_from(['x', 'y-z']))}/{range_text(lower, upper)}"


unloads = st.builds(
    UnloadBundle,
    bundle=bundles(),
    owner=brokers,
    destination=st.none() | brokers,
    predicted=st.dictionaries(brokers, st.floats(0.01, 1.0), max_size=3),
    reason=texts,
)
splits = st.builds(
    SplitBundle,
    bundle=bundles(),
    owner=brokers,
    algorithm=st.sampled_from(["range_equally_divide", "specified_positions_divide"]),
    positions=bounds.map(tuple),
    boundaries=bounds.map(tuple),
    is_unloaded=st.booleans(),
    reason=texts,
)
changes = st.builds(
    SetDynamicSetting,
    key=st.sampled_from([setting.key for setting in SETTINGS]),
    before=st.none() | texts,
    value=st.none() | texts,
    reason=texts,
)
plans = st.lists(unloads | splits | changes, min_size=1, max_size=5).map(
    lambda steps: sealed(replace(plan_of(1), steps=tuple(steps)))
)


@settings(max_examples=examples(150), deadline=None)
@given(plans)
def test_plan_files_round_trip_to_the_same_id(plan: Plan) -> None:
    again = load_plan(dump_plan(plan), STEPS)
    assert again == plan
    assert again.plan_id == content_hash(again) == plan.plan_id


@settings(max_examples=examples(100), deadline=None)
@given(plans)
def test_a_journal_keeps_every_step_as_it_was_asked_for(plan: Plan) -> None:
    text = canonical(record_of(requested(plan=plan)))
    record = msgspec.json.decode(text, type=Record, dec_hook=STEPS.decode)
    assert record.event.plan == plan
    assert canonical(record) == text
    assert describe_event(record.event).what.startswith("Requested to ")


@settings(max_examples=examples(100), deadline=None)
@given(plans, st.data())
def test_no_field_of_a_step_can_be_changed_behind_the_plans_back(plan: Plan, data) -> None:
    content = msgspec.json.decode(dump_plan(plan))
    step = data.draw(st.sampled_from(content["steps"]))
    field = data.draw(st.sampled_from(sorted(step)))
    step[field] = not step[field] if isinstance(step[field], bool) else "another"
    with pytest.raises(UnusablePlanError):
        load_plan(msgspec.json.encode(content), STEPS)


@settings(max_examples=examples(150), deadline=None)
@given(unloads | splits | changes)
def test_every_step_has_words_and_commands(step: Step) -> None:
    for words in (
        step.describe(),
        step.describe_progress(),
        whether(step),
        step.describe_dry_run(),
    ):
        assert step.subject in words
    assert tally([step])[0].islower()
    assert things([step]).startswith("1 ")
    assert done([step])
    admin, rest = shlex.split(step.command_lines()[0]), shlex.split(rest_line(step, None))
    assert admin[0] == "pulsar-admin"
    assert rest[-1].startswith("http://")
    assert " " not in rest[-1]
    assert hash(step) == hash(msgspec.structs.replace(step))
