"""What is said of a split whose parts no broker serves."""

from __future__ import annotations

import pytest
from test_apply_unload import ONE, TWO

from connectors.pulsar.acting.bundle_reader import BundleState
from connectors.pulsar.acting.topics_reader import LoadedTopics
from connectors.pulsar.actions.split import SplitAction
from core.actions.model import Observation, StepResult
from core.pulsar.steps.split import SplitBundle

BUNDLE = "acme/orders/0x00000000_0x40000000"
PARTS = ("acme/orders/0x00000000_0x20000000", "acme/orders/0x20000000_0x40000000")
SPLIT = SplitBundle(
    bundle=BUNDLE, owner=ONE, algorithm="range_equally_divide", boundaries=(0x20000000,)
)


class Halves:
    """The bundle until it is split, then its parts with their owners."""

    def __init__(self, *owners: str | None) -> None:
        self._owners = dict(zip(PARTS, owners, strict=True))
        self.is_split = False

    def look(self, step: SplitBundle) -> BundleState:
        if step.bundle != BUNDLE:
            return BundleState(exists=True, holder=self._owners[step.bundle], token="8")
        if self.is_split:
            return BundleState(exists=False, parts=PARTS)
        return BundleState(exists=True, holder=ONE, token="7")


class Topics:
    """Topics of the bundle before, and of its parts."""

    def __init__(self, loaded: int | None, with_topics: tuple[str, ...]) -> None:
        self._loaded = loaded
        self._with_topics = with_topics

    def loaded(self, bundle: str, owner: str) -> LoadedTopics:
        return LoadedTopics(self._loaded, self._loaded)

    def has_topics(self, bundle: str) -> bool | None:
        return bundle in self._with_topics


def _ended(owners: tuple[str | None, str | None], topics: Topics) -> tuple[Observation, StepResult]:
    halves = Halves(*owners)
    action = SplitAction(SPLIT, halves, lambda _: None, lambda *_: True, topics)
    before = action.look()
    action.send()
    halves.is_split = True
    return before, action.on_timeout(before, action.look())


@pytest.mark.parametrize(
    ("owners", "loaded", "with_topics", "unserved"),
    [
        ((ONE, None), 5, PARTS, PARTS[1:]),
        ((None, None), 5, PARTS, PARTS),
        ((None, TWO), None, PARTS, PARTS[:1]),
        ((ONE, None), 5, PARTS[:1], ()),  # all topics are in the part that is served
        ((None, None), 0, PARTS, ()),  # no topic was loaded: nothing asks for it
        ((ONE, TWO), 5, PARTS, ()),
    ],
)
def test_a_split_is_done_when_its_parts_are_served_or_nothing_asks_for_them(
    owners, loaded, with_topics, unserved
) -> None:
    before, result = _ended(owners, Topics(loaded, with_topics))
    assert before.topics == loaded
    if not unserved:
        assert (result.state, result.code) == ("DONE", "split")
        return
    assert (result.state, result.code) == ("UNKNOWN", "unassigned")
    assert f"No broker owns {' and '.join(unserved)}." in result.sentence
    assert "`pulsar-admin topics lookup TOPIC`" in result.hint
    assert SPLIT.flags_of(result.code).unserved == "unassigned"
