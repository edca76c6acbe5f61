"""Plans and their files: the same id comes back, or the file is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from core.errors import UnusablePlanError
from core.ids import SnapshotId
from core.plan.codec import dump_plan, load_plan
from core.plan.model import (
    MAX_LIFETIME_S,
    Diagnostic,
    Expected,
    Plan,
    PolicyRef,
    content_hash,
    sealed,
)
from core.pulsar.steps.unload import UnloadBundle
from core.systems import STEPS

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def a_plan(**changes: object) -> Plan:
    plan = Plan(
        cluster="prod-eu",
        snapshot_id=SnapshotId("0123456789abcdef"),
        taken_at=NOON,
        created_at=NOON + timedelta(seconds=5),
        expires_at=NOON + timedelta(minutes=10),
        strategy=PolicyRef(
            name="LeastLongTermMessageRate", release="4.2", settings={"maxUnloadPercentage": 0.5}
        ),
        steps=(
            UnloadBundle(
                bundle="acme/orders/0x00000000_0x40000000", owner="b1:8080", reason="too hot"
            ),
        ),
        expected=Expected(clients=12, moved_bytes_per_s=1.5e6),
        diagnostics=(Diagnostic(severity="info", code="x", sentence="Something."),),
        complete=True,
        applyable=True,
        errored=False,
    )
    return sealed(replace(plan, **changes))  # type: ignore[arg-type]  # fields of a plan


def test_a_plan_reads_back_as_the_same_plan() -> None:
    plan = a_plan()
    assert load_plan(dump_plan(plan), STEPS) == plan


def test_a_plan_reads_back_from_a_file(tmp_path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(dump_plan(a_plan()))
    assert load_plan(path, STEPS).plan_id == a_plan().plan_id


def test_the_id_does_not_depend_on_the_order_of_settings() -> None:
    one = PolicyRef(name="S", release="4.2", settings={"a": 1, "b": 2})
    other = PolicyRef(name="S", release="4.2", settings={"b": 2, "a": 1})
    assert a_plan(strategy=one).plan_id == a_plan(strategy=other).plan_id


@pytest.mark.parametrize(
    "changes",
    [
        {"expires_at": NOON + timedelta(minutes=11)},
        {"reason": "another"},
        {"steps": ()},
        {"applyable": False},
        {"cluster": "prod-us"},
        {"diagnostics": ()},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_field_is_part_of_the_id(changes) -> None:
    assert a_plan(**changes).plan_id != a_plan().plan_id


def test_a_changed_file_is_refused_and_both_ids_are_named() -> None:
    content = json.loads(dump_plan(a_plan()))
    content["steps"][0]["destination"] = "b9:8080"
    with pytest.raises(UnusablePlanError, match="was changed after it was made") as caught:
        load_plan(json.dumps(content).encode(), STEPS)
    assert a_plan().plan_id[:12] in caught.value.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format_version": 1}, "plan format 1; this version of Trimtab reads format 5"),
        ({"surprise": 1}, "fields that are not part of a plan"),
        ({"steps": "none"}, "is damaged"),
        ({"created_at": "2026-11-21T12:00:00"}, "created_at is not in UTC"),
        ({"created_at": "2026-11-21T12:00:00+02:00"}, "created_at is not in UTC"),
    ],
)
def test_a_file_of_another_form_is_refused(change, words) -> None:
    content = json.loads(dump_plan(a_plan())) | change
    with pytest.raises(UnusablePlanError, match=words):
        load_plan(json.dumps(content).encode(), STEPS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bundle": 5}, r"The plan is damaged at steps\[0\]\.bundle: expected `str`, got `int`\."),
        ({"kind": "gone"}, r"The plan is damaged at steps\[0\]: unknown kind of step 'gone'\."),
    ],
)
def test_a_damaged_step_is_named_by_one_path(change, words) -> None:
    content = json.loads(dump_plan(a_plan()))
    content["steps"][0] |= change
    with pytest.raises(UnusablePlanError, match=words) as caught:
        load_plan(json.dumps(content).encode(), STEPS)
    assert caught.value.hint == "Create a new plan from a fresh snapshot."
    assert " - at " not in caught.value.message


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"\xff\xfe", b'{"plan_id": NaN}'])
def test_what_is_no_plan_is_refused(raw) -> None:
    with pytest.raises(UnusablePlanError):
        load_plan(raw, STEPS)


@pytest.mark.parametrize("raw", [b"[]", b"{}", b"5", b'"plan_id"', b'["plan_id"]', b"null"])
def test_json_that_is_no_plan_is_named_as_such(raw) -> None:
    with pytest.raises(UnusablePlanError) as caught:
        load_plan(raw, STEPS)
    assert caught.value.message == "The plan is not a Trimtab plan."


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(UnusablePlanError, match=r"none\.json cannot be read"):
        load_plan(tmp_path / "none.json", STEPS)


def test_a_plan_expires() -> None:
    plan = a_plan()
    assert not plan.is_expired(NOON)
    assert plan.is_expired(plan.expires_at)


@pytest.mark.parametrize(
    ("ahead_s", "words"), [(0, ""), (60, ""), (61, "dated in the future"), (9e5, "in the future")]
)
def test_a_plan_from_the_future_is_refused_beyond_what_clocks_differ(ahead_s, words) -> None:
    plan = a_plan()
    reason = plan.bad_lifetime(plan.created_at - timedelta(seconds=ahead_s))
    assert bool(reason) == bool(words)
    assert words in reason


def test_a_plan_that_lives_too_long_is_refused() -> None:
    plan = a_plan(expires_at=NOON + timedelta(seconds=5 + MAX_LIFETIME_S))
    assert plan.bad_lifetime(NOON) == ""
    longer = a_plan(expires_at=plan.expires_at + timedelta(seconds=1))
    assert longer.bad_lifetime(NOON).startswith(f"Plan {longer.short_id} is valid for ")


def test_the_id_is_a_sha256_and_has_a_short_form() -> None:
    plan = a_plan()
    assert len(plan.plan_id) == 64
    assert plan.plan_id.startswith(plan.short_id)
    assert content_hash(plan) == plan.plan_id


@pytest.mark.parametrize("name", ["cluster", "plan_id", "bundle"])
def test_a_name_that_stands_twice_in_an_object_is_refused(name) -> None:
    raw = dump_plan(a_plan()).decode()
    at = raw.index(f'"{name}":')
    again = f'{raw[:at]}"{name}": "something else", {raw[at:]}'
    with pytest.raises(UnusablePlanError, match=f"the key '{name}' twice"):
        load_plan(again.encode(), STEPS)
