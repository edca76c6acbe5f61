"""Any sequence that a sound worker could write folds; anything else is refused, never guessed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from journal_entries import (
    SHEDDING,
    begun,
    chain_of,
    claimed,
    ended,
    record_of,
    requested,
)
from sampled import examples

from core.actions.events import (
    ControlRequested,
    Entry,
    Event,
    ExternalMove,
    RunEnded,
    RunMeasured,
    RunPaused,
    RunRefused,
    RunResumed,
    SettingChanged,
    SettingRestored,
    SettingSaved,
)
from core.actions.model import LEGAL_MOVES
from core.actions.runs import RunView, fold
from core.errors import InvariantError

STEPS = 3
MEASURED = RunMeasured(
    snapshot_id="x",
    taken_at=record_of(claimed()).at,
    usage_deviation=None,
    throughput_deviation=None,
)


class Writer:
    """A model of a sound worker: what it may write next, kept apart from the fold."""

    def __init__(self) -> None:
        self.state = "QUEUED"
        self.steps = ["PENDING"] * STEPS
        self.is_saved = False
        self.events: list[Event] = [requested(STEPS)]

    def choices(self) -> list[Event]:
        found: list[Event] = [
            ControlRequested(control=word) for word in ("pause", "resume", "stop")
        ]
        is_going = self.state in ("RUNNING", "PAUSED")
        if self.state in ("QUEUED", "RUNNING", "PAUSED"):
            found.append(claimed(is_takeover=is_going))
        if self.state == "QUEUED":
            found.append(RunRefused(code="x", sentence="No."))
        if is_going:
            found += [
                RunPaused(sentence="p"),
                ExternalMove(subject="b", source="x", destination="y", sentence="s"),
            ]
            found += self._settings() + self._steps()
            if not {"PENDING", "RUNNING"} & set(self.steps) and not self.is_saved:
                found += [
                    RunEnded(state=word, sentence="e") for word in ("DONE", "STOPPED", "FAILED")
                ]
        if self.state == "PAUSED":
            found.append(RunResumed(sentence="r"))
        if self.state == "ENDED":
            found.append(MEASURED)
        return found

    def _settings(self) -> list[Event]:
        if not self.is_saved:
            return [SettingSaved(key=SHEDDING, before="true", during="false")]
        fates = [
            SettingRestored(key=SHEDDING, result=fate, sentence="s")
            for fate in ("restored", "failed", "changed_by_others")
        ]
        return [SettingChanged(key=SHEDDING), *fates]

    def _steps(self) -> list[Event]:
        found: list[Event] = []
        for index, state in enumerate(self.steps):
            for after in sorted(LEGAL_MOVES[state]):
                if after != "RUNNING":
                    found.append(ended(index, after, is_reconciled=state == "UNKNOWN"))
                elif self.state == "RUNNING":
                    found.append(begun(index))
        return found

    def write(self, event: Event) -> None:
        self.events.append(event)
        name = type(event).__name__
        if name == "RunClaimed" and self.state == "QUEUED":
            self.state = "RUNNING"
        self.state = {
            "RunPaused": "PAUSED",
            "RunResumed": "RUNNING",
            "RunRefused": "REFUSED",
            "RunEnded": "ENDED",
        }.get(name, self.state)
        if name == "StepStarted":
            self.steps[event.step] = "RUNNING"
        if name == "StepEnded":
            self.steps[event.step] = event.result.state
        if name == "SettingSaved":
            self.is_saved = True
        if name == "SettingRestored" and event.result != "failed":
            self.is_saved = False


@st.composite
def sound_runs(draw) -> Writer:
    writer = Writer()
    if draw(st.booleans()):
        writer.write(claimed())
    for _ in range(draw(st.integers(0, 30))):
        writer.write(draw(st.sampled_from(writer.choices())))
    return writer


@settings(max_examples=examples(200), deadline=None)
@given(sound_runs())
def test_whatever_a_sound_worker_writes_folds_to_what_it_means(writer) -> None:
    view = fold(chain_of(writer.events))
    assert [step.state for step in view.steps] == writer.steps
    assert view.is_ended == (writer.state in ("ENDED", "REFUSED"))
    if not view.is_ended:
        assert view.state == writer.state
    assert bool(view.outstanding_settings) == writer.is_saved
    assert sum(view.counts.values()) == STEPS
    assert view.disregarded == ()


@settings(max_examples=examples(100), deadline=None)
@given(sound_runs(), st.data())
def test_folding_in_parts_gives_the_same(writer, data) -> None:
    entries = chain_of(writer.events)
    cut = data.draw(st.integers(1, len(entries)))
    assert fold(entries[cut:], onto=fold(entries[:cut])) == fold(entries)


ANY = st.sampled_from(
    [
        *(begun(index) for index in range(STEPS)),
        *(
            ended(index, state)
            for index in range(STEPS)
            for state in ("DONE", "FAILED", "UNKNOWN", "SKIPPED")
        ),
        claimed(),
        RunPaused(sentence="p"),
        RunResumed(sentence="r"),
        RunEnded(state="DONE", sentence="e"),
        RunEnded(state="FAILED", sentence="e"),
        RunRefused(code="x", sentence="No."),
        SettingSaved(key=SHEDDING, before=None, during="false"),
        SettingRestored(key=SHEDDING, result="restored", sentence="s"),
        MEASURED,
        requested(STEPS),
    ]
)


def tried(entry: Entry, view: RunView | None) -> tuple[InvariantError | None, RunView | None]:
    try:
        return None, fold([entry], onto=view)
    except InvariantError as error:
        return error, view


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(ANY, max_size=12))
def test_any_other_sequence_is_refused_or_keeps_every_rule(events) -> None:
    view: RunView | None = None
    before: list[str] = []
    for entry in chain_of([requested(STEPS), *events]):
        refusal, view = tried(entry, view)
        if refusal is not None:
            assert f"Entry {entry.seq} " in refusal.message
            assert refusal.hint
            return
        assert view is not None
        after = [step.state for step in view.steps]
        for old, new in zip(before, after, strict=False):
            assert old == new or new in LEGAL_MOVES[old]
        if view.is_ended and view.state != "REFUSED":
            assert "PENDING" not in after
            assert "RUNNING" not in after
        before = after
