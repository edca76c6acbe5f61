"""Requested changes of policies and the calculator's inputs: what is taken and what is refused."""

from __future__ import annotations

import json

import pytest
from fleet_builder import NOON, make_snapshot

from core.errors import InputError, OpsError
from core.plan.options import PlanOptions
from core.planning.advisors.share_steps import MAX_PERIODS, demand_steps
from core.planning.limits.effects import limit_effects
from core.pulsar.plan.policy.build import DesiredPolicy, build_policy_plan
from core.pulsar.settings import effective_settings
from core.pulsar.steps.base import policy_changes
from core.snapshot import PulsarSnapshot
from dashboard.app_pages.pulsar.policies import model as calculator
from dashboard.presenters.pulsar import policy_edits as presenter

ORDERS, MAIL = "acme/orders", "acme/mail"


@pytest.fixture(scope="module")
def fleet() -> PulsarSnapshot:
    return make_snapshot(brokers=6, bundles=80)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('set resource_group g {"publishRateInMsgs": -5}', "the range is -1 to 2,147,483,647"),
        ('set resource_group g {"publishRateInMsgs": 99999999999}', "the range is -1"),
        ('set resource_group g {"publishRateInBytes": 9223372036854775808}', "the range is -1"),
        ('set resource_group g {"publishRateInBytes": NaN}', "whole number"),
        ('set resource_group g {"publishRateInMsg": 5}', "No field named 'publishRateInMsg'"),
        ("set resource_group g h i", "must be JSON"),
        ('set resource_group g {"publishRateInMsgs": true}', "True; it must be a whole number"),
        (f'set dispatch_rate {MAIL} {{"relativeToPublishRate": 1}}', "1; it must be true or false"),
        ('set resource_quota default {"msgRateIn": true}', "True; it must be a number from 0"),
        (f'set resource_quota default {{"msgRateIn": {10**400}}}', "a number from 0"),
        ('set resource_quota default {"dynamic": 7}', "7; it must be true or false"),
        ("delete publish_rate acme/nowhere", "does not exist"),
        ('set publish_rate acme/nowhere {"publishThrottlingRateInMsg": 5}', "does not exist"),
        (f"set namespace_resource_group {MAIL} gould", "no resource group 'gould'"),
        ('set resource_quota acme/mail/0x0_0x1 {"msgRateIn": 1}', "no bundle"),
        (f"set resource_quota default {json.dumps({'msgRateIn': -1})}", "a number from 0"),
        (f"set resource_quota default {json.dumps({'msgRateIn': 1e300})}", "a number from 0"),
        (
            'set publish_rate pulsar/10.1.0.1:8080 {"publishThrottlingRateInMsg": 5}',
            "system namespace",
        ),
        ("nonsense", "not a valid policy change"),
        ("set isolation .. {}", "'..' in it changes the path"),
        ("delete failure_domain .", "'.' in it changes the path"),
        ('set resource_group .. {"publishRateInMsgs": 5}', "'..' in it changes the path"),
        (f"set namespace_resource_group {MAIL} ..", "'..' in it changes the path"),
        ("set isolaton a {}", "isolation"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(fleet, change, words):
    try:
        plan = build_policy_plan(fleet, [presenter.parse_change(change)], PlanOptions(now=NOON))
        told = " ".join(f"{one.sentence} {one.hint}" for one in plan.by_severity("error"))
        assert not plan.applyable
    except OpsError as error:
        told = f"{error.message} {error.hint}"
    assert words in told


def test_what_is_not_set_cannot_be_removed(fleet):
    plan = build_policy_plan(
        fleet, [DesiredPolicy("resource_group", "gold", None)], PlanOptions(now=NOON)
    )
    told = [one.sentence for one in plan.diagnostics if one.code == "already_set"]
    assert told == ["The resource group gold does not exist: nothing to remove."]
    assert not plan.steps


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"limit": "-2"}, "the range is -1"),
        ({"limit": "1e30"}, "the range is -1"),
        ({"limit": "nan"}, "finite number"),
        ({"usage": "1,x"}, "not a list of numbers"),
        ({"usage": "1,-3"}, "of 0 or more"),
        ({"usage": "inf"}, "of 0 or more"),
        ({"steps": "x:1,2"}, "not a number of periods"),
        ({"steps": "5:1,2;5:1"}, "another 1"),
        ({"steps": "9999999:1"}, "periods"),
        ({"steps": ""}, "No step"),
        ({"period": "0"}, "whole seconds"),
        ({"tolerance": "-1"}, "of 0 or more"),
    ],
)
def test_what_cannot_be_calculated_is_refused_in_one_sentence(wrong, words):
    given = {"limit": "100", "usage": "1,2", "steps": "5:1,2", "period": "60", "tolerance": "5"}
    given |= wrong
    with pytest.raises(InputError, match=words):
        _calculate(**given)


def _calculate(limit: str, usage: str, steps: str, period: str, tolerance: str) -> None:
    calculator.calculated(limit, usage)
    calculator.timeline_data(limit, steps, period=period, tolerance=tolerance)


@pytest.mark.parametrize(
    "text",
    [
        'set resource_group gold {"publishRateInMsgs": 5}',
        "delete resource_group gold",
        "set anti_affinity acme/mail apart from all",
    ],
)
def test_a_change_is_the_same_after_its_text(text):
    assert presenter.change_text(presenter.parse_change(text)) == text


def test_of_one_policy_the_last_change_counts():
    first, second, other = (
        DesiredPolicy("publish_rate", MAIL, "{}"),
        DesiredPolicy("publish_rate", MAIL, None),
        DesiredPolicy("publish_rate", ORDERS, None),
    )
    assert presenter.joined([first, other], [second]) == [other, second]


def test_a_form_is_a_document_and_blank_is_no_limit():
    entered = {"publishRateInMsgs": "2,500", "publishRateInBytes": " "}
    assert json.loads(presenter.document("resource_group", entered)) == {
        "dispatchRateInBytes": -1,
        "dispatchRateInMsgs": -1,
        "publishRateInBytes": -1,
        "publishRateInMsgs": 2500,
    }
    assert presenter.field_text(-1) == ""
    assert presenter.field_text(40.0) == "40"
    with pytest.raises(InputError, match="msgRateIn of a resource quota of bundle is empty"):
        presenter.document("resource_quota", {"msgRateIn": ""})


def test_a_changed_limit_tells_whom_it_touches(fleet):
    desired = [
        DesiredPolicy(
            "resource_group", "gold", '{"publishRateInMsgs": 1, "dispatchRateInMsgs": 9}'
        ),
        DesiredPolicy("namespace_resource_group", ORDERS, "gold"),
        DesiredPolicy("publish_rate", MAIL, '{"publishThrottlingRateInMsg": 1000000000}'),
    ]
    plan = build_policy_plan(fleet, desired, PlanOptions(now=NOON))
    assert len(plan.steps) == 3
    told = limit_effects(fleet, effective_settings(fleet), policy_changes(plan.steps))
    assert any("throttled" in one for one in told)
    assert any("do not apply" in one for one in told)
    assert any("no client is" in one for one in told)
    assert len(presenter.difference(policy_changes(plan.steps))) == 4 + 1 + 2
    sentence = presenter.plan_sentence(plan.steps)
    assert sentence.startswith("Change 3 policies: resource group gold: Dispatch")
    assert "resource group acme/orders" in sentence


def test_zero_is_said_to_be_no_limit(fleet):
    policy = DesiredPolicy("publish_rate", MAIL, '{"publishThrottlingRateInMsg": 0}')
    plan = build_policy_plan(fleet, [policy], PlanOptions(now=NOON))
    assert "brokers treat" in plan.by_severity("warning")[0].sentence


def test_steps_of_demand_are_repeated_and_bounded():
    assert demand_steps("2:1,2; 3,4;") == [[1, 2], [1, 2], [3, 4]]
    with pytest.raises(InputError, match="periods"):
        demand_steps(f"{MAX_PERIODS}:1;1:1")


def test_a_simulation_tells_what_was_held_back_and_what_got_over():
    data, timeline = calculator.timeline_data("100", "1:0,0; 8:100,100", period="60", tolerance="5")
    said = calculator.timeline_answer(data, timeline)
    assert "Throttled" in said
    assert "max 2.0 times" in said
    assert len(calculator.timeline_table(data, timeline)) == 18
    assert "No demand" in calculator.timeline_answer(
        *calculator.timeline_data("100", "0,0", period="60", tolerance="5")
    )
    assert "0%" in calculator.timeline_answer(
        *calculator.timeline_data("-1", "5,5", period="60", tolerance="5")
    )
