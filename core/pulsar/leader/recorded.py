"""A leader replayed from a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from core.pulsar.leader.events import ZnodeEvent
from core.pulsar.leader.prediction import LEADS_S, LeaderModel, RoundPrediction

_FIRST: Final = -1
_ANOTHER_S: Final = 20.0
"""A round predicted so far from a true one is another one."""


def in_order(events: Iterable[ZnodeEvent]) -> list[ZnodeEvent]:
    """Return events in the order in which ZooKeeper applied them.

    A watch reads a znode some time after its event, and a poll reads one znode after the other, so
    that later changes may come first. A deletion has no transaction of its own in a recording: it
    keeps its place after what was received before it. The state when watching began stays first,
    and nothing passes the loss of a session.

    Args:
        events: As received.
    """
    keyed: list[tuple[tuple[int, int], ZnodeEvent]] = []
    session, latest = 0, _FIRST
    for event in events:
        if event.loses_watch:
            session, latest = session + 2, _FIRST
            keyed.append(((session - 1, 0), event))
            continue
        if event.kind in ("new", "mod") and event.mzxid is not None:
            latest = max(latest, event.mzxid)
            keyed.append(((session, event.mzxid), event))
        else:
            keyed.append(((session, latest), event))
    return [event for _, event in sorted(keyed, key=lambda one: one[0])]


def replay_recording(
    events: Iterable[ZnodeEvent],
    model: LeaderModel,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
) -> Iterator[RoundPrediction]:
    """Yield the rounds of a recording, idle ones included, each as known when it began.

    Args:
        events: Of the recording, in any order that :func:`in_order` accepts.
        model: A new one.
        start_s: First round wanted, seconds since the epoch; earlier events and rounds count for
            the memory all the same.
        end_s: Last round wanted.
    """
    ordered = in_order(events)
    last_s = max((event.received_at_s for event in ordered), default=0.0)
    for event in ordered:
        yield from _wanted(model.apply(event), start_s, end_s)
    if ordered and not ordered[-1].loses_watch:
        yield from _wanted(model.advance(last_s), start_s, end_s)


def predictions_by_lead(
    events: Iterable[ZnodeEvent],
    model: LeaderModel,
    rounds_s: Iterable[float],
    *,
    leads_s: Iterable[float] = LEADS_S,
    before: Callable[[ZnodeEvent], None] = lambda _event: None,
    draws: int | None = None,
) -> dict[float, dict[float, RoundPrediction]]:
    """Return the predictions of rounds, each at several lead times.

    Args:
        events: Of the recording; a prediction has those from before its own time only.
        model: A new one.
        rounds_s: When the rounds really began, seconds since the epoch.
        leads_s: Lead times, seconds.
        before: Called before each event is applied, for what no event carries.
        draws: Futures for the shares of each prediction.
    Returns:
        ``{start of a round: {lead time: prediction}}``; a prediction that is missing could not be
        made: watching had not begun, or there was no leader.
    """
    ordered, next_event = in_order(events), 0
    found: dict[float, dict[float, RoundPrediction]] = {}
    begun: list[RoundPrediction] = []
    leads_s = tuple(leads_s)
    points = sorted((at_s - lead_s, lead_s, at_s) for at_s in rounds_s for lead_s in leads_s)
    for at_s, lead_s, round_s in points:
        while next_event < len(ordered) and _is_before(ordered[next_event], at_s):
            before(ordered[next_event])
            begun = [*begun, *model.apply(ordered[next_event])][-1:]
            next_event += 1
        if not next_event:
            continue
        due_s = model.next_round_at_s
        if due_s is not None and due_s < round_s - _ANOTHER_S:
            model.advance(due_s)  # the round before has begun: only its own phase is a bit late
        held = found.setdefault(round_s, {})
        # the phase is an estimate: the model may have begun the round a moment early
        for prediction in (model.predict(at_s, draws=draws), *begun):
            if prediction is not None and abs(prediction.at_s - round_s) <= _ANOTHER_S:
                held.setdefault(lead_s, prediction)
    return found


def _is_before(event: ZnodeEvent, at_s: float) -> bool:
    return event.kind == "init" or event.at_s < at_s


def _wanted(
    rounds: Iterable[RoundPrediction], start_s: float | None, end_s: float | None
) -> Iterator[RoundPrediction]:
    for one in rounds:
        if (start_s is None or one.at_s >= start_s) and (end_s is None or one.at_s <= end_s):
            yield one
