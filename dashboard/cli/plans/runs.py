"""``trimtab runs``: what was done, by whom and why, and whether the journal is sound."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from core.actions.describe import EMPTY, told, told_value, why_nothing_lasts
from core.actions.events import Entry
from core.actions.model import Control, Observation, RunId
from core.actions.views import RunView, StepView
from core.errors import InputError
from core.step import SettingChange
from core.units import format_bytes_per_s, format_ratio, pluralize
from dashboard import services
from dashboard.cli.config import configured_journal
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    EXIT_REFUSED,
    Answer,
    UsageFaultError,
    emit,
    note,
    say,
    table,
)
from dashboard.cli.plans import run_answers
from dashboard.presenters.run_waits import waiting_step
from dashboard.presenters.skipped_steps import same_reason

_BATCH = 1000


@dataclass(frozen=True)
class RunsRequest:
    """What is asked of the journal.

    Attributes:
        run: Show this run; ``None``: list them.
        cluster: List those of this cluster only.
        last: How many are listed.
        verify: Compute the chain of the whole journal again.
        expect: A hash kept from an earlier look, which must still be in the chain.
        export: Write all entries (those of ``run`` or ``cluster``, when given) to this file.
        controls: Ask ``run`` to pause, resume or stop: one of them.
        reason: Why.
    """

    run: str | None = None
    cluster: str | None = None
    last: int = 20
    verify: bool = False
    expect: str | None = None
    export: Path | None = None
    controls: tuple[Control, ...] = ()
    reason: str = ""


def controls_of(*, pause: bool, resume: bool, stop: bool) -> tuple[Control, ...]:
    """Return what is asked of a run; more than one is refused by :func:`runs`."""
    asked: dict[Control, bool] = {"pause": pause, "resume": resume, "stop": stop}
    return tuple(control for control, is_asked in asked.items() if is_asked)


def runs(config_file: Path | None, request: RunsRequest, *, as_json: bool) -> int:
    """``trimtab runs``."""
    config = configured_journal(config_file)
    if request.expect is not None and not request.verify:
        raise UsageFaultError("--expect needs --verify.", hint="Give both.")
    if request.controls:
        return _control(config, request, as_json=as_json)
    if request.verify:
        if request.run or request.export:
            raise UsageFaultError(
                "--verify looks at the whole journal, not at a run, and exports nothing.",
                hint="Give it alone.",
            )
        return _verify(config, request.expect, as_json=as_json)
    if request.export is not None:
        return _export(config, request, request.export, as_json=as_json)
    if request.run is not None:
        return _show(config, request.run, as_json=as_json)
    return _list(config, request, as_json=as_json)


def _control(config: services.Config, request: RunsRequest, *, as_json: bool) -> int:
    run, (control, *others) = request.run, request.controls
    if run is None or others or request.verify or request.export:
        raise UsageFaultError(
            "--pause, --resume and --stop are asked of one run, one at a time.",
            hint=f"Write: trimtab runs RUN --{control}.",
        )
    services.ask_control(config, run, control, services.actor(), request.reason)
    sentence = f"Run {run} was asked to {control}; its worker acts within about a second."
    return emit(Answer({"run_id": run, "control": control}, lambda: say(sentence)), as_json=as_json)


def _list(config: services.Config, request: RunsRequest, *, as_json: bool) -> int:
    views = services.runs(config, request.cluster, request.last)

    def show() -> None:
        if not views:
            where = f" on {request.cluster}" if request.cluster else ""
            place = services.journal(config).place
            say(f"No run was ever asked for{where}, says the journal {place}.")
            return
        columns = ("run", "asked for (UTC)", "who", "cluster", "state", "done", "failed")
        table((*columns, "unknown", "skipped", "of", "why"), [_row(view) for view in views])

    problems = _problems(services.journal(config), views)
    for one in problems:
        note(one)
    body = {
        "runs": [run_answers.summary(view) for view in views],
        "journal": services.journal(config).place,
        "problems": problems,
    }
    code = EXIT_INCOMPLETE if problems else EXIT_DONE
    return emit(Answer(body, show, code), as_json=as_json)


def _problems(journal: services.Journal, views: Sequence[RunView]) -> list[str]:
    """Return what of the journal is not as it was written: of these runs, and at its end."""
    found = [f"Run {view.run_id} is damaged: {view.damage}" for view in views if view.damage]
    damage = journal.recent_damage()
    if damage is not None and not any(f"Entry {damage.seq} " in one for one in found):
        found.append(
            f"Entry {damage.seq} of the journal {journal.place} is not as it was written: "
            f"{damage.what} Check it with `trimtab runs --verify`; restore it from a copy."
        )
    return found


def _row(view: RunView) -> list[str]:
    counts = [view.counts.get(state, 0) for state in ("DONE", "FAILED", "UNKNOWN", "SKIPPED")]
    why = f"undoes {view.undoes}: {view.reason}" if view.undoes else view.reason
    return [
        view.run_id,
        f"{view.requested_at:%Y-%m-%d %H:%M:%S}",
        view.requested_by,
        view.cluster,
        "DAMAGED" if view.damage else view.state,
        *(str(count) for count in (*counts, len(view.steps))),
        why,
    ]


def _show(config: services.Config, run_id: str, *, as_json: bool) -> int:
    view = services.run_view(config, run_id)
    entries = services.journal(config).entries(run_id=RunId(run_id))

    def show() -> None:
        _say_head(view)
        say()
        columns = ("step", "subject", "from", "asked for", "landed", "state", "took")
        table(columns, [_step_row(step) for step in view.steps])
        waits = waiting_step(view)
        if waits is not None:
            say(f"Step {waits.index + 1} waits: {waits.waiting}")
        skipped = same_reason(view.steps)
        for step in view.steps:
            is_new = step.index not in skipped.repeated
            if step.result is not None and step.state != "DONE" and is_new:
                say(f"Step {step.index + 1}: {step.result.sentence} {step.result.hint}".rstrip())
        for sentence in skipped.sentences:
            say(sentence)
        _say_rest(view)
        say()
        rows = [_entry_row(entry, view.disregarded) for entry in entries]
        table(("entry", "at (UTC)", "who", "what"), rows)

    body = {
        "run": run_answers.whole(view),
        "entries": [run_answers.entry(entry) for entry in entries],
    }
    return emit(Answer(body, show), as_json=as_json)


def _say_head(view: RunView) -> None:
    counts = ", ".join(f"{count} {state.lower()}" for state, count in view.counts.items())
    say(f"Run {view.run_id} on {view.cluster} is {view.state}: {counts}. {view.sentence}")
    say(f"{view.requested_by} asked for it at {_time(view.requested_at)}: {view.reason}")
    if view.undoes:
        say(f"It takes run {view.undoes} back.")
    if view.worker:
        again = f", taken over {pluralize(view.takeovers, 'time')}" if view.takeovers else ""
        say(f"Carried out by {view.worker}{again}.")
    if view.control is not None and view.is_control_pending:
        say(f"{view.control.asked_by} asked to {view.control.control} it.")
    if view.damage:
        say(view.damage)


def _say_settings(view: RunView) -> None:
    for setting in view.settings:
        left = setting.sentence or "It has not been put back yet."
        before = told_value(setting.before) or "not set"
        during = told_value(setting.during) or EMPTY
        say(f"{setting.key}: {before} before the run, {during} during it. {left}")
        for sentence in setting.set_again:
            say(sentence)
    if view.is_ended and (nothing := why_nothing_lasts(view)):
        say(nothing)


def _say_rest(view: RunView) -> None:
    _say_settings(view)
    for move in view.external_changes:
        say(move.sentence)
    for step in view.next_moves:
        say(f"{step.subject} could still go from {step.owner} to {step.destination}.")
    rows = list(_compared(view))
    if rows:
        say()
        columns = ("broker", "usage before", "predicted", "measured")
        table((*columns, "traffic before", "predicted", "measured"), rows)
    measured, expected = view.measured, view.plan.expected
    if expected.nodes:
        _say_nodes(view)
    elif measured is not None:
        say(
            "The busiest broker's traffic over the mean: "
            f"{format_ratio(expected.throughput_deviation_before)} before, "
            f"{format_ratio(expected.throughput_deviation_after)} predicted, "
            f"{format_ratio(measured.throughput_deviation)} measured at {_time(measured.taken_at)}."
        )
    if measured is not None and measured.disturbed_by:
        say(f"Run {measured.disturbed_by} acted in between: not all of it is this run's doing.")


def _say_nodes(view: RunView) -> None:
    """Nodes of the plan on a Pegasus cluster: before, predicted, counted."""
    came = {item.node: item for item in view.measured.nodes} if view.measured else {}
    say()
    columns = ("node", "primaries before", "predicted", "counted")
    table(
        (*columns, "replicas before", "predicted", "counted"),
        [
            (
                *(item.node, str(item.primaries_before), str(item.primaries_after)),
                str(came[item.node].primaries) if item.node in came else "not yet",
                *(str(item.replicas_before), str(item.replicas_after)),
                str(came[item.node].replicas) if item.node in came else "not yet",
            )
            for item in view.plan.expected.nodes
        ],
    )


def _compared(view: RunView) -> Iterator[list[str]]:
    """Brokers of the plan: before, predicted, measured."""
    measured = {item.broker: item for item in view.measured.brokers} if view.measured else {}
    for item in view.plan.expected.brokers:
        came = measured.get(item.broker)
        yield [
            item.broker,
            format_ratio(item.usage_before),
            format_ratio(item.usage_after),
            format_ratio(came.usage_ratio) if came else "not yet",
            format_bytes_per_s(item.throughput_before),
            format_bytes_per_s(item.throughput_after),
            format_bytes_per_s(came.throughput_bytes_per_s) if came else "not yet",
        ]


def _step_row(view: StepView) -> list[str]:
    step = view.step
    took = "" if view.took_ms is None else f"{view.took_ms / 1000:.1f} s"
    before, wanted, landed = _ways(view)
    return [
        str(view.index + 1),
        step.subject,
        before,
        wanted,
        landed,
        view.state,
        took,
    ]


def _ways(view: StepView) -> tuple[str, str, str]:
    """Where the subject was, where it should go, where it is: holders, or values of a setting."""
    step, seen = view.step, view.before
    after = view.result.after if view.result and view.begun_at else None
    if step.setting is not None:
        return _values(step.setting, seen, after)
    if not step.has_before_and_after:
        return "", step.describe(), ""
    now = "" if after is None else step.describe_after(after)
    return step.describe_before(seen), step.describe_target(), now


def _values(
    change: SettingChange, seen: Observation | None, after: Observation | None
) -> tuple[str, str, str]:
    """Values of a setting: before, asked for, read at the end."""
    value = seen.value if seen else change.before
    if change.is_persistent:
        return value or "not set", change.value or "not set", _value(after)
    was = "unknown" if value is None else told_value(value) or EMPTY
    now = "" if after is None else told_value(after.value) or EMPTY
    return was, change.value or EMPTY, now


def _value(after: Observation | None) -> str:
    return "" if after is None else after.value or "not set"


def _entry_row(entry: Entry, disregarded: Collection[int]) -> list[str]:
    record = entry.record
    words = told(record.event)
    void = "Does not count, its writer had lost the run: " if entry.seq in disregarded else ""
    what = f"{void}{words.what} {words.why}".rstrip()
    return [str(entry.seq), _time(record.at), record.actor, what]


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _entries_text(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _verify(config: services.Config, expect: str | None, *, as_json: bool) -> int:
    journal = services.journal(config)
    found = journal.verify(expect)

    def show() -> None:
        if found.damage is None:
            say(f"The journal {journal.place} is sound: {_entries_text(found.entries)}.")
        else:
            say(f"The journal {journal.place} is DAMAGED at entry {found.damage.seq}.")
            say(f"{found.damage.what} {_entries_text(found.entries)} before it are sound.")
        say(f"Newest sound entry: {found.newest_seq}, hash {found.newest_digest}")
        say("Keep that hash elsewhere: `runs --verify --expect HASH` then notices a cut end, too.")

    damage = found.damage
    body = {
        "journal": journal.place,
        "is_sound": found.is_sound,
        "entries": found.entries,
        "newest": {"seq": found.newest_seq, "digest": found.newest_digest},
        "damage": None if damage is None else {"seq": damage.seq, "what": damage.what},
    }
    code = EXIT_DONE if found.is_sound else EXIT_REFUSED
    return emit(Answer(body, show, code), as_json=as_json)


def _export(config: services.Config, request: RunsRequest, out: Path, *, as_json: bool) -> int:
    chosen = _entries(config, request)
    count = 0
    try:
        with out.open("w", encoding="utf-8") as file:
            for entry in chosen:
                line = json.dumps(run_answers.entry(entry), sort_keys=True, ensure_ascii=True)
                file.write(line + "\n")
                count += 1
    except OSError as exc:
        raise InputError(
            f"{out} cannot be written: {exc.strerror}.", hint="Name another file."
        ) from exc
    body = {"export": str(out), "entries": count}
    return emit(Answer(body, lambda: say(f"{count:,} entries written to {out}.")), as_json=as_json)


def _entries(config: services.Config, request: RunsRequest) -> Iterator[Entry]:
    journal = services.journal(config)
    run_id = services.run_view(config, request.run).run_id if request.run else None
    batch: Sequence[Entry] = journal.entries(run_id=run_id, most=_BATCH)
    while batch:
        for entry in batch:
            if request.cluster in (None, entry.record.cluster):
                yield entry
        batch = journal.entries(run_id=run_id, after=batch[-1].seq, most=_BATCH)
