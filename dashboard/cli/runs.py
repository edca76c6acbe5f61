"""``trimtab runs``: what was done, by whom and why, and whether the journal is sound."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, get_args

import typer

from core.actions.copies import CopyProgress
from core.actions.describe import (
    EMPTY,
    count_named,
    describe_event,
    describe_forged,
    describe_value,
    describe_void,
    why_nothing_lasts,
)
from core.actions.events import Entry
from core.actions.model import Control, Observation, RunId
from core.actions.pace import pace_of
from core.actions.undo import not_brought_back
from core.actions.views import RunView, StepView
from core.errors import InputError
from core.files import whole_text
from core.step import SettingChange
from core.units import format_bytes_per_s, format_ratio, pluralize
from dashboard import services
from dashboard.cli import run_answers
from dashboard.cli.config import configured_journal
from dashboard.cli.options import Config, Json
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    EXIT_REFUSED,
    Answer,
    UsageFaultError,
    emit,
    note,
    print_line,
    table,
)
from dashboard.cli.served import SERVED, check_whole, refuse_served
from dashboard.presenters.run_steps import purpose_words, same_reason, waiting_step
from dashboard.services import access, verifications

_BATCH = 1000
_LIST: Final = "list"


app = typer.Typer()


def _none_of_list(run: str | None) -> str | None:
    """Return the name of a run; ``None`` for the word that lists all, as other commands have it."""
    return None if run == _LIST else run


@app.command()
def runs(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", callback=_none_of_list, help="Run to show; default, or list: all runs."
        ),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Only runs of this cluster.")] = None,
    last: Annotated[int, typer.Option(min=1, help="Number of runs to list.")] = 20,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify the whole journal; exit code 1: not intact.")
    ] = False,
    expect: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="With --verify: hash that the journal must contain."),
    ] = None,
    anchors: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --verify: copy of the anchor file."),
    ] = None,
    archive: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="With --verify: archive to verify too; oldest first."),
    ] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Export the entries to a file.")
    ] = None,
    pause: Annotated[
        bool, typer.Option("--pause", help="Pause RUN after the current step.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume RUN.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop RUN after the current step.")] = False,
    reason: Annotated[str, typer.Option(help="Reason (recorded in the audit log).")] = "",
    config_file: Config = None,
    as_json: Json = False,
) -> int:
    """List, show and control runs; verify the journal.

    Show time, person, reason and result.
    """
    config = configured_journal(config_file)
    if not verify and (expect is not None or anchors is not None or archive):
        raise UsageFaultError(
            "--expect, --anchors and --archive need --verify.", hint="Pass --verify too."
        )
    if control := _control_given(pause=pause, resume=resume, stop=stop):
        if run is None or verify or export:
            raise UsageFaultError(
                "--pause, --resume and --stop need one run and cannot be combined.",
                hint=f"Use: trimtab runs RUN --{control}.",
            )
        return _control(config, run, control, reason, as_json=as_json)
    if verify:
        if run or export:
            raise UsageFaultError(
                "--verify checks the whole journal and cannot be combined with a run or --export.",
                hint="Pass --verify alone.",
            )
        found = _verified(config, expect, anchors, archive or ())
        return _verify(services.journal(config), found, as_json=as_json)
    if export is not None:
        check_whole(run or cluster)
        return _export(config, export, run, cluster, as_json=as_json)
    if run is not None:
        return _show(config, run, as_json=as_json)
    return _list(config, cluster, last, as_json=as_json)


def _verified(
    config: services.Config, expect: str | None, anchors: Path | None, archive: Sequence[Path]
) -> services.Verified:
    """Return the result of a verification; callers of the HTTP interface share one a minute.

    Raises:
        UsageFaultError: A caller wants more than that one.
    """
    if SERVED.get() is None:
        return services.verify_journal(config, expect, anchors, archive)
    if expect is not None or anchors is not None or archive:
        refuse_served("--expect, --anchors and --archive")
    return verifications.latest(config)[1]


def _control_given(**given: bool) -> Control | None:
    """Return the one control that was given, if any.

    Raises:
        UsageFaultError: More than one was given.
    """
    controls = [name for name in get_args(Control) if given[name]]
    if len(controls) > 1:
        raise UsageFaultError(
            "--pause, --resume and --stop need one run and cannot be combined.",
            hint=f"Use: trimtab runs RUN --{controls[0]}.",
        )
    return controls[0] if controls else None


def _control(
    config: services.Config, run: str, control: Control, reason: str, *, as_json: bool
) -> int:
    services.ask_control(config, run, control, access.command_identity(config), reason)
    sentence = (
        f"{control.capitalize()} of run {run} requested. A running worker reacts within about 1 s."
    )
    return emit(
        Answer({"run_id": run, "control": control}, lambda: print_line(sentence)), as_json=as_json
    )


def _list(config: services.Config, cluster: str | None, last: int, *, as_json: bool) -> int:
    views = services.runs(config, cluster, last)

    def show() -> None:
        if not views:
            where = f" on {cluster}" if cluster else ""
            place = services.journal(config).place
            print_line(f"The journal {place} has no runs{where}.")
            return
        columns = ("run", "requested (UTC)", "who", "cluster", "state", "steps", "why")
        rows = [_row(view) for view in views]
        table(columns, rows, spare=("steps", "cluster", "requested (UTC)"))

    problems = run_answers.problems(services.journal(config), views)
    for problem in problems:
        note(problem)
    place = {} if SERVED.get() else {"journal": services.journal(config).place}
    body = {"runs": [run_answers.summary(view) for view in views], **place, "problems": problems}
    code = EXIT_INCOMPLETE if problems else EXIT_DONE
    return emit(Answer(body, show, code), as_json=as_json)


def _row(view: RunView) -> list[str]:
    done = f"{view.counts.get('DONE', 0)} of {len(view.steps)} done"
    others = [
        f"{count} {state.lower()}"
        for state in ("FAILED", "UNKNOWN", "SKIPPED")
        if (count := view.counts.get(state, 0))
    ]
    why = f"undoes {view.undoes}: {view.reason}" if view.undoes else view.reason
    return [
        view.run_id,
        f"{view.requested_at:%Y-%m-%d %H:%M}",
        view.requested_by,
        view.cluster,
        "DAMAGED" if view.damage else view.state,
        ", ".join((done, *others)),
        why,
    ]


def _show(config: services.Config, run_id: str, *, as_json: bool) -> int:
    view = services.run_view(config, run_id)
    entries = services.journal(config).entries(run_id=RunId(run_id))

    def show() -> None:
        _print_head(view)
        if forged := describe_forged(view.forged, is_run_forged=view.is_request_forged):
            print_line(forged)
        print_line()
        columns = ("step", "subject", "from", "requested", "landed", "state", "took")
        rows = [_step_row(step) for step in view.steps]
        table(columns, rows, spare=("took", "from", "requested"))
        waits = waiting_step(view)
        if waits is not None:
            print_line(f"Step {waits.index + 1} waits: {waits.waiting}")
        skipped = same_reason(view.steps)
        for step in view.steps:
            is_new = step.index not in skipped.repeated
            if step.result is not None and step.state != "DONE" and is_new:
                print_line(
                    f"Step {step.index + 1}: {step.result.sentence} {step.result.hint}".rstrip()
                )
        for sentence in skipped.sentences:
            print_line(sentence)
        _print_results(view)
        print_line()
        rows = [entry_row(entry, view.disregarded) for entry in entries]
        table(("entry", "at (UTC)", "who", "what"), rows, spare=("who",))

    body = run_answers.of_run(view, entries)
    return emit(Answer(body, show), as_json=as_json)


def _print_head(view: RunView) -> None:
    counts = ", ".join(f"{count} {state.lower()}" for state, count in view.counts.items())
    print_line(f"Run {view.run_id} on {view.cluster} is {view.state}: {counts}. {view.sentence}")
    if purpose := purpose_words(view):
        print_line(purpose)
    print_line(f"{view.requested_by} requested it at {_time(view.requested_at)}: {view.reason}")
    if view.undoes:
        print_line(f"It undoes run {view.undoes}.")
        for sentence in not_brought_back(view.plan):
            print_line(f"Not moved back: {sentence}")
    if view.state == "RUNNING":
        print_line(f"Rate: {pace_of(view).sentence}.")
    if view.worker:
        again = f", taken over {pluralize(view.takeovers, 'time')}" if view.takeovers else ""
        print_line(f"Executed by {view.worker}{again}.")
    if view.control is not None and view.is_control_pending:
        print_line(f"{view.control.requested_by} requested: {view.control.control}.")
    if view.damage:
        print_line(view.damage)


def _print_settings(view: RunView) -> None:
    for setting in view.settings:
        left = setting.sentence or "Not yet restored."
        before = describe_value(setting.before) or "not set"
        during = describe_value(setting.during) or EMPTY
        print_line(f"{setting.key}: {before} before the run, {during} during the run. {left}")
        for sentence in setting.set_again:
            print_line(sentence)
    if view.is_ended and (nothing := why_nothing_lasts(view)):
        print_line(nothing)


def _print_results(view: RunView) -> None:
    _print_settings(view)
    for move in view.external_changes:
        print_line(move.sentence)
    for step in view.next_moves:
        print_line(f"{step.subject} may still move from {step.owner} to {step.destination}.")
    rows = list(_compared(view))
    if rows:
        print_line()
        columns = ("broker", "usage before", "predicted", "measured")
        table((*columns, "traffic before", "predicted", "measured"), rows)
    measured, expected = view.measured, view.plan.expected
    if expected.nodes:
        _print_nodes(view)
    elif measured is not None:
        if view.unassigned:
            print_line(f"{count_named('Unassigned', view.unassigned)}: no broker owns them.")
        print_line(
            "Traffic of the busiest broker above the mean: "
            f"{format_ratio(expected.throughput_deviation_before)} before, "
            f"{format_ratio(expected.throughput_deviation_after)} predicted, "
            f"{format_ratio(measured.throughput_deviation)} measured at "
            f"{_time(measured.taken_at)}."
        )
    if measured is not None and measured.disturbed_by:
        print_line(
            f"Run {measured.disturbed_by} changed the cluster in between; the difference is not "
            "only from this run."
        )


def _print_nodes(view: RunView) -> None:
    """Print the nodes of the plan on a Pegasus cluster: before, predicted, counted; copies."""
    copied = CopyProgress.of(view).describe()
    parts = [
        f"{'Copied' if view.is_ended else 'Copied so far'}: {copied.pop('so far')}",
        *(f"{name} {value}" for name, value in copied.items()),
    ]
    print_line(f"{', '.join(parts)}.")
    came = {item.node: item for item in view.measured.nodes} if view.measured else {}
    print_line()
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
            item.describe_usage_after(),
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
    """Return the subject's holders, or the values of a setting: before, requested, observed."""
    step, seen = view.step, view.before
    after = view.result.after if view.result and view.begun_at else None
    if step.setting is not None:
        return _values(step.setting, seen, after)
    if not step.has_before_and_after:
        return "", step.describe(), ""
    now = "" if after is None else step.describe_after(after)
    return step.describe_before(seen), step.describe_target(), now


def _values(
    change: SettingChange, observation: Observation | None, after: Observation | None
) -> tuple[str, str, str]:
    """Values of a setting: before, requested, read at the end."""
    value = observation.value if observation else change.before
    if change.is_persistent:
        return value or "not set", change.value or "not set", _value(after)
    was = "unknown" if value is None else describe_value(value) or EMPTY
    now = "" if after is None else describe_value(after.value) or EMPTY
    return was, change.value or EMPTY, now


def _value(after: Observation | None) -> str:
    return "" if after is None else after.value or "not set"


def entry_row(entry: Entry, disregarded: Collection[int] = ()) -> list[str]:
    """Return the cells of an entry: place, time, person and event.

    Args:
        entry: The entry.
        disregarded: Places of entries that do not count, for they are forged, or their writer had
            lost the run.
    """
    record = entry.record
    words = describe_event(record.event)
    what = f"{describe_void(entry, disregarded)}{words.what} {words.why}".rstrip()
    return [str(entry.seq), _time(record.at), record.actor, what]


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _entries_text(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _print_skipped(verified: services.Verified) -> None:
    if verified.skipped:
        print_line(f"Not checked: {', '.join(verified.skipped)}.")


def _verify(journal: services.Journal, verified: services.Verified, *, as_json: bool) -> int:
    def show() -> None:
        if verified.is_sound:
            print_line(f"The journal {journal.place} is intact: {_entries_text(verified.entries)}.")
        elif verified.damage is None:
            print_line(f"The journal {journal.place} is NOT INTACT.")
        else:
            print_line(f"The journal {journal.place} is DAMAGED at entry {verified.damage.seq}.")
        for sentence in (*verified.problems, *verified.unchecked):
            print_line(sentence)
        print_line(f"Checked: {', '.join(verified.checked)}.")
        _print_skipped(verified)
        if verified.archived:
            print_line(
                f"Entries up to {verified.archived} are in an archive; verify it with --archive "
                f"FILE."
            )
        print_line(f"Newest intact entry: {verified.newest_seq}, hash {verified.newest_digest}")
        if verified.anchors:
            print_line(f"{pluralize(verified.anchors, 'anchor')} match.")
        else:
            print_line(
                "To detect a truncated journal, store that hash elsewhere and run `runs "
                "--verify --expect HASH`, or set anchor_file under [audit]."
            )

    place = {} if SERVED.get() else {"journal": journal.place}
    body = {**place, **run_answers.verified(verified)}
    code = EXIT_INCOMPLETE if verified.unchecked else EXIT_DONE
    if not verified.is_sound:
        code = EXIT_REFUSED
    return emit(Answer(body, show, code), as_json=as_json)


def _export(
    config: services.Config, out: Path, run: str | None, cluster: str | None, *, as_json: bool
) -> int:
    count = 0
    try:
        with whole_text(out) as file:
            for entry in _entries(config, run, cluster):
                line = json.dumps(run_answers.entry(entry), sort_keys=True, ensure_ascii=True)
                file.write(line + "\n")
                count += 1
    except OSError as exc:
        raise InputError(
            f"{out} cannot be written: {exc.strerror}.", hint="Specify another file."
        ) from exc
    body = {"export": str(out), "entries": count}
    return emit(
        Answer(body, lambda: print_line(f"{count:,} entries written to {out}.")), as_json=as_json
    )


def _entries(config: services.Config, run: str | None, cluster: str | None) -> Iterator[Entry]:
    journal = services.journal(config)
    run_id = services.run_view(config, run).run_id if run else None
    batch: Sequence[Entry] = journal.entries(run_id=run_id, limit=_BATCH)
    while batch:
        for entry in batch:
            if cluster in (None, entry.record.cluster):
                yield entry
        batch = journal.entries(run_id=run_id, after=batch[-1].seq, limit=_BATCH)
