"""The journal for people: each entry as a row, and the verdict on its chain of hashes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from core.actions import describe
from core.actions.events import (
    Entry,
    Event,
    ExternalMove,
    SettingChanged,
    SettingRestored,
    SettingSaved,
    StepEnded,
    StepReopened,
    StepStarted,
    StepWaiting,
)


def entries_frame(entries: Iterable[Entry], disregarded: Collection[int] = ()) -> pd.DataFrame:
    """Return one row an entry, in the order given; ``disregarded`` ones say that they are void."""
    rows = []
    for entry in entries:
        record = entry.record
        said = describe.describe_event(record.event)
        rows.append(
            {
                "seq": entry.seq,
                "at": record.at,
                "who": record.actor,
                "cluster": record.cluster,
                "run": record.run_id,
                "kind": describe.KINDS[type(record.event).__name__],
                "of": _object_of(record.event),
                "what": f"{describe.describe_void(entry, disregarded)}{said.what}",
                "why": said.why,
                "before": said.before,
                "after": said.after,
                "digest": entry.digest,
            }
        )
    return pd.DataFrame(
        rows,
        columns=[
            *("seq", "at", "who", "cluster", "run", "kind", "of"),
            *("what", "why", "before", "after", "digest"),
        ],
    )


def _object_of(event: Event) -> str:
    """Return the step, setting or bundle that an entry is about; empty: the run."""
    match event:
        case StepWaiting() | StepStarted() | StepEnded() | StepReopened():
            return f"step {event.step + 1}"
        case SettingSaved() | SettingChanged() | SettingRestored():
            return event.key
        case ExternalMove():
            return event.subject
        case _:
            return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The verdict on a journal's chain of hashes.

    Attributes:
        is_sound: Every entry is the one that was written, in its place.
        sentence: The same with its figures.
    """

    is_sound: bool
    sentence: str


def chain_of(entries: int, digest: str, problems: Sequence[str]) -> Chain:
    """Return the verdict in words.

    Args:
        entries: Sound entries, from the first one on.
        digest: Hash of the last sound entry.
        problems: What is wrong, or could not be checked, sentences.
    """
    if problems:
        return Chain(is_sound=False, sentence=" ".join(problems))
    count = "1 entry" if entries == 1 else f"{entries:,} entries"
    return Chain(is_sound=True, sentence=f"{count}, chain intact, newest digest {digest[:16]}")
