"""A policy that a run set, in the words of its form and not as the document that was sent."""

from __future__ import annotations

from core.actions.model import Observation, StepResult
from core.actions.views import StepView
from core.pulsar.steps.policy import SetPolicy
from dashboard.presenters.pulsar.steps import PolicyText
from dashboard.presenters.runs import after_words, before_words, what_happened

RATE = '{"publishThrottlingRateInByte":-1,"publishThrottlingRateInMsg":5000}'
SET = SetPolicy(policy="publish_rate", name="acme/orders", value=RATE)


def _done(step: SetPolicy, before: str | None, after: str | None) -> StepView:
    result = StepResult(
        state="DONE",
        code="set",
        sentence=f"It was set to {after}.",
        after=Observation(exists=True, value=after),
    )
    return StepView(
        index=0,
        step=step,
        state="DONE",
        before=Observation(exists=True, value=before),
        result=result,
    )


def test_what_was_and_is_stands_field_by_field():
    step = _done(SET, None, RATE)
    assert before_words(step) == "not set"
    assert after_words(step) == "Msg/s per topic: 5,000"
    assert "set → 5,000" in what_happened(step)
    assert "{" not in what_happened(step)
    assert PolicyText(SET.policy_change).requested() == "Set Msg/s per topic: 5,000"


def test_what_was_taken_away_is_not_set_any_more():
    gone = SetPolicy(policy="publish_rate", name="acme/orders", before=RATE)
    step = _done(gone, RATE, None)
    assert (before_words(step), after_words(step)) == ("Msg/s per topic: 5,000", "not set")
    assert "topic 5,000 →" in what_happened(step)
    assert PolicyText(gone.policy_change).requested() == "Remove"


def test_a_step_that_failed_keeps_its_own_sentence():
    failed = StepResult(state="FAILED", code="not_done", sentence="It is not as wanted.")
    step = StepView(index=0, step=SET, state="FAILED", result=failed)
    assert what_happened(step) == "It is not as wanted."
    assert after_words(step) == ""


def test_a_text_and_a_limit_of_nothing_are_told_as_such():
    group = SetPolicy(policy="namespace_resource_group", name="acme/mail", value="gold")
    assert PolicyText(group.policy_change).requested() == "Set gold"
    none = '{"publishThrottlingRateInByte":-1,"publishThrottlingRateInMsg":-1}'
    assert PolicyText(SET.policy_change).value(none) == "no limit"


def test_what_says_nothing_is_left_out_and_an_empty_list_is_told():
    body = '{"namespaces":["acme/audit"],"primary":["h"],"secondary":[],"unload_scope":"none"}'
    step = SetPolicy(policy="isolation", name="apart", value=body)
    told = what_happened(_done(step, None, body))
    assert "Secondary" not in told
    assert "Unload scope" in told
    more = body.replace("[]", '["s"]')
    changed = SetPolicy(policy="isolation", name="apart", before=more, value=body)
    assert "Secondary brokers s" in what_happened(_done(changed, more, body))
