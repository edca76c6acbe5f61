"""``trimtab history``: minutes, events, agreement of predictions, and snapshots of minutes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from core.errors import UnknownNameError
from core.history.queries.events import moment_of
from core.history.store.layout import HistoryError
from core.snapshot.store import save_snapshot
from core.units import datetime_to_ms, format_age, format_bytes, ms_to_datetime, pluralize
from dashboard import services
from dashboard.cli.config import read_config
from dashboard.cli.history import Cluster, From, To, Uri
from dashboard.cli.history.moments import moment, span
from dashboard.cli.options import Config, Json
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    Answer,
    UsageFaultError,
    emit,
    note,
    print_line,
    table,
)
from dashboard.cli.pulsar.leader import ACCURACY_COLUMNS, accuracy_rows
from dashboard.cli.served import refuse_served
from dashboard.presenters.pulsar import leader_round
from dashboard.services import history as recorded_history
from dashboard.services.pulsar import leader

if TYPE_CHECKING:
    import pyarrow as pa

    from core.history.analysis.accuracy.accuracy import Agreement
    from core.history.store.store import HistoryStore

app = typer.Typer()

EVENT_NAMES: Final = (
    *("move", "split", "merge", "leader", "broker_up", "broker_down", "setting", "policy"),
    *("primary", "replica", "level", "node_up", "node_down", "node_restart", "step", "run"),
)
BY_NAMES: Final = ("cluster", "trimtab")
_MOST_SHOWN: Final = 60
_MOST_NAMED: Final = 8
_REACH: Final = 2.5
"""Minutes farther apart than so many usual distances have a gap between them."""
_AROUND: Final = 5
"""Distances before and after one that say what is usual."""


@dataclass(frozen=True)
class CommandHistory:
    """A history that a command is about.

    Attributes:
        config: With which it is read.
        store: It.
    """

    config: services.Config
    store: HistoryStore

    @classmethod
    def of(cls, uri: str | None, path: Path | None) -> CommandHistory:
        """Open the history named, by default the configuration's.

        Raises:
            ConfigError: The configuration cannot be read.
        """
        config = read_config(path)
        if uri is not None:
            refuse_served("--history")
            place = uri if "://" in uri else str(Path(uri).expanduser().resolve())
            history = config.history.model_copy(update={"uri": place})
            config = config.model_copy(update={"history": history})
        return cls(config, recorded_history.history(config))

    @property
    def place(self) -> str:
        """The location of the history."""
        return self.config.history_uri

    def span_of(self, cluster: str) -> tuple[datetime, datetime]:
        """Return the first and the last recorded minute of a cluster.

        Raises:
            UnknownNameError: Nothing of it is recorded.
        """
        found = self.store.span(cluster)
        if found is None and (bad := self.store.problems(cluster, ["minutes"], is_deep=False)):
            raise HistoryError(
                f"The recorded minutes of {cluster} cannot be read: {bad[0]}", hint=REPAIR
            )
        if found is None:
            raise UnknownNameError.of(
                "recorded cluster", cluster, self.store.clusters(), place=self.place
            )
        return found


REPAIR: Final = "`trimtab history repair` shows what can be restored and what is lost."


def _incomplete(
    past: CommandHistory,
    cluster: str,
    kinds: Sequence[str] | None,
    start: datetime | None = None,
    end: datetime | None = None,
) -> list[str]:
    """Print and return the damage of these kinds: the answer is less than was recorded."""
    found = [str(problem) for problem in past.store.problems(cluster, kinds, start, end)]
    for one in found[:_MOST_NAMED]:
        note(f"{cluster}: the answer is incomplete: {one}")
    if found:
        more = f"... and {len(found) - _MOST_NAMED:,} more. " if len(found) > _MOST_NAMED else ""
        note(f"{more}{REPAIR}")
    return found


def _code(problems: Sequence[str]) -> int:
    return EXIT_INCOMPLETE if problems else EXIT_DONE


@app.command()
def minutes(
    cluster: Cluster,
    from_time: From = None,
    to_time: To = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """List the recorded minutes of a cluster, and the gaps."""
    past = CommandHistory.of(uri, config)
    start, end = span(from_time, to_time, services.now())
    past.span_of(cluster)
    found = past.store.minutes(cluster, start, end)
    times: list[int] = found["taken_at"].to_pylist()
    gaps = gaps_in(times)
    problems = _incomplete(past, cluster, None, start, end)
    sizes = past.store.sizes(cluster)
    held = sum(size.bytes for size in sizes.values())
    body = {
        "cluster": cluster,
        "history": past.place,
        "minutes": [row | {"taken_at": as_iso(row["taken_at"])} for row in found.to_pylist()],
        "gaps": [{"from": as_iso(first), "to": as_iso(last)} for first, last in gaps],
        "kinds": {
            name: {"files": size.files, "bytes": size.bytes, "rows": size.rows}
            for name, size in sizes.items()
        },
        "problems": problems,
        "isolated": past.store.isolated(),
    }

    def show() -> None:
        if not times:
            print_line(f"No snapshot of {cluster} is recorded in that period.")
            return
        whole = "no gaps" if not gaps else pluralize(len(gaps), "gap")
        print_line(
            f"{cluster}: {span_text(len(times), times[0], times[-1])}, {clock(times[0])} to "
            f"{clock(times[-1])} UTC, {whole}; total history: {format_bytes(held)}."
        )
        rows = [
            (clock(first), clock(last), format_age((last - first) / 1_000)) for first, last in gaps
        ]
        table(("gap after (UTC)", "until", "for"), rows[-_MOST_SHOWN:])

    return emit(Answer(body, show, _code(problems)), as_json=as_json)


def _check_known(what: str, name: str, known: tuple[str, ...]) -> None:
    """Refuse a word of the command line that is none.

    Raises:
        UsageFaultError: With the near ones.
    """
    if name not in known:
        unknown = UnknownNameError.of(what, name, known)
        raise UsageFaultError(unknown.message, hint=unknown.hint)


def gaps_in(times: list[int]) -> list[tuple[int, int]]:
    """Return the pairs of minutes (ms) with a gap between, far wider than their neighbours'."""
    steps = [after - before for before, after in pairwise(times)]
    found = []
    for at, step in enumerate(steps):
        # not of the whole history: the demo's past has two minutes between snapshots, later seconds
        around = sorted(steps[max(at - _AROUND, 0) : at + _AROUND + 1])
        if step > around[len(around) // 2] * _REACH:
            found.append((times[at], times[at + 1]))
    return found


@app.command()
def events(
    cluster: Cluster,
    from_time: From = None,
    to_time: To = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Only this kind: move, split, leader, setting, step, run ..."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Only events caused by: cluster or trimtab.")
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """List events with their causes: moves, splits, settings.

    Includes leader changes and steps of runs.
    """
    past = CommandHistory.of(uri, config)
    start, end = span(from_time, to_time, services.now())
    for kind in kinds or ():
        _check_known("kind of event", kind, EVENT_NAMES)
    if by is not None:
        _check_known("doer", by, BY_NAMES)
    past.span_of(cluster)
    rows: list[dict[str, Any]] = past.store.rows("events", cluster, start, end).to_pylist()
    counts = Counter(row["kind"] for row in rows)
    chosen = [
        row for row in rows if (not kinds or row["kind"] in kinds) and by in (None, row["by"] or "")
    ]
    chosen.sort(key=moment_of)
    problems = _incomplete(past, cluster, ["minutes", "events"], start, end)
    body = {
        "cluster": cluster,
        "history": past.place,
        "events": [_event(row) for row in chosen],
        "problems": problems,
    }

    def show() -> None:
        kinds_text = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
        total = pluralize(len(rows), "event")
        shown = total if len(chosen) == len(rows) else f"{len(chosen):,} of {total}"
        print_line(f"{cluster}: {shown}{f' ({kinds_text})' if rows else ''}.")
        table(
            ("at (UTC)", "kind", "what", "before", "after", "by", "run"),
            [
                (
                    clock(moment_of(row)[0]),
                    row["kind"],
                    row["subject"] or "",
                    row["before"] or "",
                    row["after"] or "",
                    row["by"] or "",
                    row["run_id"] or "",
                )
                for row in chosen[-_MOST_SHOWN:]
            ],
            spare=("run", "kind"),
        )
        if len(chosen) > _MOST_SHOWN:
            print_line(f"... and {len(chosen) - _MOST_SHOWN:,} earlier events; --json lists all.")

    return emit(Answer(body, show, _code(problems)), as_json=as_json)


def _event(row: dict[str, Any]) -> dict[str, Any]:
    names = ("kind", "subject", "before", "after", "by", "run_id", "actor", "reason")
    details = json.loads(row["details"]) if row["details"] else {}
    fields = {name: row[name] or None for name in names}
    return {"taken_at": as_iso(row["taken_at"])} | fields | {"details": details}


@app.command()
def agreement(
    cluster: Cluster,
    from_time: From = None,
    to_time: To = None,
    strategy: Annotated[
        str | None, typer.Option(help="Shedding strategy; default: the configured one.")
    ] = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", help="Replay the recorded minutes instead of the live predictions."
        ),
    ] = False,
    minute_s: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="With --replay: seconds per recorded minute (s); default: as configured.",
        ),
    ] = None,
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Compare predicted and actual moves of the leader.

    The comparison is by round.
    """
    from core.history.analysis.accuracy.accuracy import agreement as compared  # noqa: PLC0415  # commands start fast

    past = CommandHistory.of(uri, config)
    start, end = span(from_time, to_time, services.now())
    first, last = past.span_of(cluster)
    until = datetime_to_ms(last if end is None else min(last, end))
    events = past.store.rows("events", cluster, start, end)
    if replay:
        window = (start or first, end or last)
        shadow = _predicted_again(
            past, cluster, window, strategy, minute_s or past.config.history.minute_s
        )
    else:
        shadow = past.store.rows("shadow", cluster, start, end)
        known = sorted(set(shadow["strategy"].to_pylist()))
        if strategy is not None and not known:
            raise UnknownNameError(
                f"No predictions are recorded for {cluster} in this period.",
                hint="Predict again from recorded data: add --replay.",
            )
        if strategy is not None and strategy not in known:
            raise UnknownNameError.of("shedding strategy", strategy, known, place=cluster)
    found = compared(shadow, events, strategy=strategy, until=until)
    kinds = None if replay else ["minutes", "events", "shadow"]
    problems = _incomplete(past, cluster, kinds, start, end)
    body = {"cluster": cluster, "history": past.place} | agreement_json(found)
    body["problems"] = problems
    forecast = leader.leader_forecast(past.config, cluster)
    body["by_lead"] = [] if forecast is None else msgspec.to_builtins(forecast.accuracy)

    def show() -> None:
        _show_agreement(found)
        if forecast is not None and forecast.accuracy:
            until = leader_round.measured_note(forecast, services.now().timestamp())
            print_line(
                f"Rounds predicted from ZooKeeper events by the leader observer: {until}".rstrip()
            )
            table(ACCURACY_COLUMNS, accuracy_rows(forecast))

    return emit(Answer(body, show, _code(problems)), as_json=as_json)


def _predicted_again(
    past: CommandHistory,
    cluster: str,
    window: tuple[datetime, datetime],
    strategy: str | None,
    minute_s: float,
) -> pa.Table:
    """Return the predicted unloads of each round, from the recorded state of its minute."""
    from core.history.backtest.model import Candidate, Window  # noqa: PLC0415  # commands start fast
    from core.history.backtest.pulsar.recorded import load_series  # noqa: PLC0415  # the same
    from core.history.backtest.pulsar.replay import predicted  # noqa: PLC0415  # the same

    end = window[1] + timedelta(milliseconds=1)  # a window ends before its last moment
    whole = Window(number=0, start=window[0], end=end)
    series = load_series(past.store, cluster, whole, minute_s=minute_s)
    candidate = Candidate(shedding=strategy) if strategy is not None else None
    return predicted(series, candidate)


def agreement_json(found: Agreement) -> dict[str, Any]:
    """Return an agreement as ``--json`` prints it."""
    return {
        "strategy": found.strategy,
        "sentence": found.sentence,
        "rounds": [
            row | {"taken_at": as_iso(row["taken_at"]), "until": as_iso(row["until"])}
            for row in found.rounds.to_pylist()
        ],
        "landings": [
            row | {"taken_at": as_iso(row["taken_at"]), "seen_at": as_iso(row["seen_at"])}
            for row in found.landings.to_pylist()
        ],
        "counts": dict(found.counts),
        "judged": found.judged,
        "moves": found.moves,
        "moves_predicted": found.moves_predicted,
        "moves_early": found.moves_early,
        "moves_by_others": found.moves_by_others,
        "excluded": dict(found.excluded),
        "agreed_ratio": found.agreed_ratio,
        "acting_ratio": found.acting_ratio,
        "landing_ratio": found.landing_ratio,
        "landing_expected": found.landing_expected,
    }


def _show_agreement(found: Agreement) -> None:
    print_line(found.sentence)
    if found.landing_ratio is not None and found.landing_expected is not None:
        print_line(
            "Actual destinations of predicted moves had a mean probability of "
            f"{found.landing_ratio:.0%}; expected {found.landing_expected:.0%}."
        )
    if found.moves_by_others:
        moves = pluralize(found.moves_by_others, "further move")
        reasons = "; ".join(f"{count:,}: {why}" for why, count in found.excluded.items())
        print_line(f"{moves} excluded ({reasons}).")
    table(
        ("verdict", "rounds"),
        [(name.replace("_", " "), str(count)) for name, count in found.counts.items()],
    )
    acting = [row for row in found.rounds.to_pylist() if row["predicted"] or row["moved"]]
    print_line()
    table(
        (
            "round (UTC)",
            "verdict",
            "predicted",
            "moved",
            "matched",
            "earlier",
            "not compared because",
        ),
        [
            (
                clock(row["taken_at"]),
                row["verdict"].replace("_", " "),
                str(len(row["predicted"])),
                str(len(row["moved"])),
                str(row["both"]),
                str(row["early"]),
                row["why"],
            )
            for row in acting[-_MOST_SHOWN:]
        ],
        spare=("earlier", "matched"),
    )


@app.command()
def snapshot(
    cluster: Cluster,
    at: Annotated[
        str, typer.Option(metavar="TIME", help="Time; the newest minute up to it is used.")
    ],
    out: Annotated[Path, typer.Option(help="Directory to create.")],
    uri: Uri = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Write a recorded minute as a snapshot directory.

    Every other command can read it.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageFaultError(f"{out} already exists.", hint="Specify a new directory.")
    past = CommandHistory.of(uri, config)
    wanted = moment(at, services.now())
    past.span_of(cluster)
    found = past.store.snapshot_at(cluster, wanted)
    save_snapshot(found, out)
    # where the requested minute is missing, this is an earlier one
    problems = _incomplete(past, cluster, None, found.manifest.taken_at, wanted)
    taken_at = datetime_to_ms(found.manifest.taken_at)
    body = {
        "cluster": cluster,
        "snapshot_id": found.snapshot_id,
        "taken_at": as_iso(taken_at),
        "out": str(out),
        "problems": problems,
    }

    def show() -> None:
        print_line(f"{out}: {cluster} at {clock(taken_at)} UTC, snapshot {found.snapshot_id}.")

    return emit(Answer(body, show, _code(problems)), as_json=as_json)


def span_text(count: int, first: int, last: int) -> str:
    """Return the number of snapshots and the time they span: ``144 snapshots over 36m``.

    Args:
        count: Of snapshots.
        first: Time of the first one, ms.
        last: Time of the last one, ms.
    """
    return f"{pluralize(count, 'snapshot')} over {format_age((last - first) / 1_000)}"


def clock(taken_at: int) -> str:
    """Return a time (ms) for people, UTC, to the second."""
    return f"{ms_to_datetime(taken_at):%Y-%m-%d %H:%M:%S}"


def as_iso(taken_at: int) -> str:
    """Return a time (ms) as ISO 8601, UTC."""
    return ms_to_datetime(taken_at).isoformat(timespec="milliseconds").replace("+00:00", "Z")
