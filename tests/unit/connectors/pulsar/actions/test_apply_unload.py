"""What is said of an unload, from what was seen before and after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connectors.pulsar.acting.bundle_reader import BundleState, OwnersAnswer
from connectors.pulsar.acting.topics_reader import LoadedTopics
from connectors.pulsar.actions.unload import UnloadAction
from core.actions.model import Observation, StepResult
from core.actions.reconcile import _seen_before
from core.actions.views import StepView
from core.errors import AuthError, UnreachableError
from core.pulsar.steps.base import AdminRequest
from core.pulsar.steps.unload import UnloadBundle

BUNDLE = "acme/orders/0x00000000_0x40000000"
ONE, TWO, THREE = "10.1.0.1:8080", "10.1.0.2:8080", "10.1.0.3:8080"
TOWARDS = UnloadBundle(bundle=BUNDLE, owner=ONE, destination=TWO)
ANYWHERE = UnloadBundle(bundle=BUNDLE, owner=ONE)


class ScriptedEyes:
    """Sees one thing after the other, the last one for ever."""

    def __init__(self, *sights: BundleState) -> None:
        self._sights = list(sights)

    def look(self, step: UnloadBundle) -> BundleState:
        return self._sights.pop(0) if len(self._sights) > 1 else self._sights[0]


class Cluster:
    """Takes requests down; answers what it was told to about what it serves."""

    def __init__(self, *, serves: bool | None = True) -> None:
        self.sent: list[str] = []
        self._serves = serves

    def send(self, request: AdminRequest) -> None:
        self.sent.append(f"/admin/v2/{request.path}")

    def serves(self, broker: str, bundle: str) -> bool:
        if self._serves is None:
            raise UnreachableError(
                f"{broker} cannot be reached.", endpoint=broker, operation="GET", outcome="not_sent"
            )
        return self._serves


class Topics:
    """Answers how many topics the owner has loaded, and whether any exists."""

    def __init__(self, count: int | None, clients: int | None, *, exist: bool | None) -> None:
        self._loaded = LoadedTopics(count, clients)
        self._exist = exist

    def loaded(self, bundle: str, owner: str) -> LoadedTopics:
        return self._loaded

    def has_topics(self, bundle: str) -> bool | None:
        return self._exist


def action_of(
    step: UnloadBundle,
    *sights: BundleState,
    serves: bool | None = True,
    topics: int | None = None,
    clients: int | None = None,
    exist: bool | None = None,
) -> UnloadAction:
    cluster = Cluster(serves=serves)
    answers = Topics(topics, clients, exist=exist)
    return UnloadAction(step, ScriptedEyes(*sights), cluster.send, cluster.serves, answers)


def sight(holder: str | None, token: str | None = None) -> BundleState:
    return BundleState(exists=True, holder=holder, token=token)


GONE = BundleState(
    exists=False,
    parts=("acme/orders/0x00000000_0x20000000", "acme/orders/0x20000000_0x40000000"),
)


@pytest.mark.parametrize(
    ("step", "path"),
    [
        (ANYWHERE, f"/admin/v2/namespaces/{BUNDLE}/unload"),
        (
            TOWARDS,
            f"/admin/v2/namespaces/{BUNDLE}/unload?destinationBroker={TWO}",
        ),
    ],
)
def test_request_names_bundle_and_destination(step: UnloadBundle, path: str) -> None:
    cluster = Cluster()
    answers = Topics(0, 0, exist=None)
    UnloadAction(step, ScriptedEyes(sight(ONE)), cluster.send, cluster.serves, answers).send()
    assert cluster.sent == [path]


@pytest.mark.parametrize(
    ("step", "after", "code"),
    [
        (TOWARDS, sight(TWO, "8"), "landed"),
        (TOWARDS, sight(THREE, "8"), "landed_elsewhere"),
        (TOWARDS, sight(ONE, "8"), "returned"),
        (ANYWHERE, sight(TWO, "8"), "landed"),
        (ANYWHERE, sight(ONE, "8"), "returned"),
        (TOWARDS, sight(ONE, "7"), None),
        (TOWARDS, sight(None), None),
        (TOWARDS, GONE, "bundle_split"),
    ],
)
def test_ending_follows_from_the_new_ownership(
    step: UnloadBundle, after: BundleState, code: str | None
) -> None:
    action = action_of(step, sight(ONE, "7"), after)
    before = action.look()
    action.send()
    result = action.result(before, action.look())
    assert (result.code if result else None) == code
    if result is not None:
        assert BUNDLE in result.sentence
        assert result.after is not None
        assert (result.after.holder, result.after.token) == (after.holder, after.token)


def test_hint_of_a_bundle_that_landed_elsewhere_is_the_next_move() -> None:
    action = action_of(TOWARDS, sight(ONE, "7"), sight(THREE, "8"))
    before = action.look()
    result = action.result(before, action.look())
    assert result is not None
    assert f"not to {TWO}" in result.sentence
    assert f"`trimtab unload SNAPSHOT --bundle {BUNDLE} --to {TWO} --plan OUT`" in result.hint


@pytest.mark.parametrize(
    ("token", "is_answered", "serves", "state", "code"),
    [
        ("7", True, True, "FAILED", "not_done"),
        ("7", False, True, "FAILED", "not_done"),
        ("7", False, False, "UNKNOWN", "timed_out"),
        ("7", False, None, "UNKNOWN", "timed_out"),
        (None, True, True, "DONE", "returned"),  # no token: the answer came when it was over
        (None, False, True, "FAILED", "not_done"),
        (None, False, None, "UNKNOWN", "timed_out"),
    ],
)
def test_bundle_that_never_left_is_told_from_one_that_still_may(
    token, is_answered, serves, state: str, code: str
) -> None:
    action = action_of(TOWARDS, sight(ONE, token), serves=serves)
    before = action.look()
    if is_answered:
        action.send()
    result = action.on_timeout(before, action.look())
    assert (result.state, result.code) == (state, code), result.sentence
    assert BUNDLE in result.sentence


@pytest.mark.parametrize(("step", "words"), [(TOWARDS, TWO), (ANYWHERE, "first lookup")])
@pytest.mark.parametrize(("topics", "exist"), [(0, True), (None, False)])
def test_an_unassigned_bundle_without_topics_is_idle(
    step: UnloadBundle, words: str, topics: int | None, exist
) -> None:
    action = action_of(step, sight(ONE, "7"), sight(None), topics=topics, exist=exist)
    before = action.look()
    result = action.on_timeout(before, action.look())
    assert (result.state, result.code) == ("DONE", "idle")
    assert "unassigned: no lookup of its topics yet" in result.sentence
    assert words in result.sentence


@pytest.mark.parametrize(
    ("topics", "clients", "exist", "words"),
    [
        (5, 3, None, "It had 5 loaded topics with 3 clients before."),
        (1, 0, False, "It had 1 loaded topic with 0 clients before."),  # loaded by whomever
        (2, None, None, "It had 2 loaded topics before."),
        (None, None, True, "The number of topics it had loaded is unknown."),
        (None, None, None, "The number of topics it had loaded is unknown."),
    ],
)
def test_an_unassigned_bundle_with_topics_is_never_done(topics, clients, exist, words) -> None:
    sights = sight(ONE, "7"), sight(None)
    action = action_of(ANYWHERE, *sights, topics=topics, clients=clients, exist=exist)
    before = action.look()
    action.send()
    result = action.on_timeout(before, action.look())
    assert (result.state, result.code) == ("UNKNOWN", "unassigned")
    assert "it is unassigned" in result.sentence
    assert words in result.sentence
    assert "`pulsar-admin topics list acme/orders -b 0x00000000_0x40000000`" in result.hint


def test_topics_are_counted_before_the_request_only() -> None:
    action = action_of(ANYWHERE, sight(ONE, "7"), sight(TWO, "8"), topics=5, clients=3)
    before = action.look()
    assert (before.topics, before.clients) == (5, 3)
    action.send()
    assert action.look() == Observation(exists=True, holder=TWO, token="8")


def test_who_takes_a_run_over_goes_by_the_topics_of_the_intent() -> None:
    before = Observation(exists=True, holder=ONE, token="7", topics=0)
    action = action_of(ANYWHERE, sight(None), topics=9)
    assert action.on_timeout(before, action.look()).code == "idle"
    before = replace(before, topics=4)
    assert action.on_timeout(before, action.look()).code == "unassigned"


def test_without_tokens_the_owner_before_may_serve_an_unassigned_bundle_again() -> None:
    before = Observation(exists=True, holder=ONE, topics=4)
    lost = StepResult(
        state="UNKNOWN", code="unassigned", sentence="", after=Observation(exists=True)
    )
    view = StepView(index=0, step=ANYWHERE, state="UNKNOWN", before=before, result=lost)
    action = action_of(ANYWHERE, sight(ONE))
    result = action.result(_seen_before(view), action.look())
    assert result is not None
    assert (result.state, result.code) == ("DONE", "returned")
    assert f"unloaded from {ONE} and returned to it (served by {ONE})" in result.sentence


@pytest.mark.parametrize("serves", [False, None])
def test_a_new_owner_that_does_not_serve_the_bundle_is_no_landing(serves) -> None:
    action = action_of(TOWARDS, sight(ONE, "7"), sight(TWO, "8"), serves=serves, topics=5)
    before = action.look()
    action.send()
    now = action.look()
    assert action.result(before, now) is None
    result = action.on_timeout(before, now)
    assert (result.state, result.code) == ("UNKNOWN", "not_answering")
    assert f"{TWO} owns {BUNDLE} but does not serve it." in result.sentence
    reason = "but does not serve it" if serves is False else "cannot be reached"
    assert reason in result.sentence


def test_a_broker_that_refuses_the_question_lives() -> None:
    def refuses(broker: str, bundle: str) -> bool:
        raise AuthError("401", endpoint=broker, operation="GET", outcome="refused")

    eyes, cluster = ScriptedEyes(sight(ONE, "7"), sight(TWO, "8")), Cluster()
    answers = Topics(5, 3, exist=None)
    action = UnloadAction(TOWARDS, eyes, cluster.send, refuses, answers)
    before = action.look()
    result = action.result(before, action.look())
    assert result is not None
    assert result.code == "landed"


def test_the_step_says_who_serves_the_bundle() -> None:
    action = action_of(TOWARDS, sight(ONE, "7"), sight(TWO, "8"))
    before = action.look()
    action.send()
    result = action.result(before, action.look())
    assert result is not None
    assert f"as requested (served by {TWO} after 0.0 s)." in result.sentence


def test_a_namespace_that_was_deleted_meanwhile_is_no_split() -> None:
    action = action_of(TOWARDS, sight(ONE, "7"), BundleState(exists=False))
    before = action.look()
    result = action.result(before, action.look())
    assert result is not None
    assert (result.state, result.code) == ("FAILED", "unknown_bundle")
    assert "was deleted or recreated" in result.hint


@pytest.mark.parametrize("step", [TOWARDS, ANYWHERE])
@pytest.mark.parametrize(("topics", "state"), [(0, "DONE"), (3, "UNKNOWN")])
def test_bundle_whose_owner_left_the_cluster_is_not_said_to_be_given_up(
    step: UnloadBundle, topics: int, state: str
) -> None:
    lost = replace(sight(None), is_owner_there=False)
    action = action_of(step, sight(ONE, "7"), lost, topics=topics)
    before = action.look()
    result = action.on_timeout(before, action.look())
    assert (result.state, result.code) == (state, "owner_lost")
    assert f"{ONE} left the cluster; {BUNDLE} lost its owner" in result.sentence
    assert "gave" not in result.sentence


def test_without_tokens_a_gap_in_between_tells_that_it_came_back() -> None:
    action = action_of(TOWARDS, sight(ONE), sight(None), sight(ONE))
    before = action.look()
    assert action.result(before, action.look()) is None
    result = action.result(before, action.look())
    assert result is not None
    assert result.code == "returned"


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (GONE, "bundle_split"),
        (BundleState(exists=False), "unknown_bundle"),
        (replace(GONE, parts=("acme/orders/0x00000000_0x80000000",)), "unknown_bundle"),
        (sight(None), "not_owned"),
        (sight(THREE, "7"), "moved_meanwhile"),
        (sight(TWO, "7"), "moved_meanwhile"),
        (replace(sight(ONE, "7"), is_destination_there=False), "destination_unknown"),
        (sight(ONE, "7"), None),
    ],
)
def test_last_look_forbids_what_is_not_as_planned(seen: BundleState, code: str | None) -> None:
    action = action_of(TOWARDS, seen)
    refusal = action.check_precondition(action.look())
    assert (refusal.code if refusal else None) == code


def test_a_registered_destination_that_does_not_answer_is_sent_nothing() -> None:
    action = action_of(TOWARDS, sight(ONE, "7"), serves=None)
    refusal = action.check_precondition(action.look())
    assert refusal is not None
    assert refusal.code == "destination_dead"
    assert (
        f"{TWO}, the destination of {BUNDLE}, is registered but does not respond"
    ) in refusal.sentence
    assert (
        action_of(ANYWHERE, sight(ONE, "7"), serves=None).check_precondition(action.look()) is None
    )


def test_many_parts_are_counted() -> None:
    parts = tuple(
        f"acme/orders/0x{low:08x}_0x{low + 0x8000000:08x}"
        for low in range(0, 0x40000000, 0x8000000)
    )
    sentence = BundleState(exists=False, parts=parts).absence(BUNDLE)
    assert sentence.startswith(f"{BUNDLE} was split into {parts[0]}, ")
    assert sentence.endswith("and 4 more.")


def test_observation_of_a_bundle_that_is_there_needs_no_words() -> None:
    assert action_of(TOWARDS, sight(ONE, "7")).look() == Observation(
        exists=True, holder=ONE, token="7"
    )


class _Answers:
    """Brokers that answer what they own, as client and as addresses of it."""

    def __init__(self, owned: dict[str, dict[str, bool] | None]) -> None:
        self._owned = owned

    def brokers(self) -> list[str]:
        return sorted(self._owned)

    def find(self, broker: str) -> str:
        return broker

    def get(self, base: str, path: str, kind: object) -> dict[str, object]:
        del path, kind
        owned = self._owned[base]
        if owned is None:
            raise UnreachableError("refused", endpoint=base, operation="GET", outcome="not_sent")
        return {name: {"is_active": is_active} for name, is_active in owned.items()}


@pytest.mark.parametrize(
    ("owned", "owner"),
    [
        ({"a": {"b": True}, "c": {}}, "a"),
        ({"a": {"b": False}, "c": {}}, "a"),  # it is being closed there
        ({"a": {"b": False}, "c": {"b": True}}, "c"),  # `a` was frozen while it was
        ({"a": {}, "c": {"b": False}, "d": {"b": True}}, "d"),
        ({"a": {"b": False}, "c": None}, "a"),
        ({"a": {"x": True}, "c": {}}, None),
    ],
)
def test_the_owner_is_the_broker_that_lists_the_bundle_as_active(owned, owner) -> None:
    answers = _Answers(owned)
    asked = OwnersAnswer(answers, answers, lambda: "test", 2)  # type: ignore[arg-type]
    assert asked.find("b", likely=("a", None)) == owner
