"""``trimtab alerts``: what fires, silences, thresholds, and a test of targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from core.alerts.rules import RULE_BY_CODE
from core.alerts.thresholds import ADJUSTABLE, describe, differences, fields_of, requested
from core.units import format_age
from dashboard import services
from dashboard.cli.config import configured_journal
from dashboard.cli.history.moments import moment
from dashboard.cli.options import Config, Json
from dashboard.cli.output import EXIT_DONE, Answer, UsageFaultError, emit, note, print_line, table
from dashboard.services import access, alerts

if TYPE_CHECKING:
    from core.alerts.model import Alert

_MAX_CHANGES = 10

app = typer.Typer()


@app.command()
def past(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="Cluster name.")],
    start: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Start, for example -24h.")
    ] = "-24h",
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="End.")] = "now",
    config_file: Config = None,
    as_json: Json = False,
) -> int:
    """List past alerts of a cluster."""
    config = configured_journal(config_file)
    name = config.cluster(cluster).name
    now = services.now()
    changes = alerts.changes(config, name, moment(start, now), moment(end, now))
    words = {"firing": "began", "resolved": "ended"}

    def show() -> None:
        if not changes:
            print_line(f"No alert fired or resolved on {name} in this period.")
            return
        rows = [
            (
                f"{change.at:%Y-%m-%d %H:%M:%S}",
                words[change.state],
                change.severity,
                change.sentence,
            )
            for change in changes
        ]
        table(("at (UTC)", "what", "severity", "message"), rows, spare=("severity",))

    body = {
        "changes": [
            {
                "at": change.at.isoformat(),
                "state": change.state,
                "rule": change.key.rule,
                "cluster": change.key.cluster,
                "subject": change.key.subject,
                "severity": change.severity,
                "sentence": change.sentence,
            }
            for change in changes
        ]
    }
    return emit(Answer(body, show), as_json=as_json)


@app.command("list")
def list_alerts(config_file: Config = None, as_json: Json = False) -> int:
    """List firing, pending and resolved alerts.

    Silences are listed too.
    """
    config = configured_journal(config_file)
    found, silences = alerts.current(config)
    unread = alerts.unread(config)
    now = services.now()

    def show() -> None:
        if not found:
            print_line("No alerts.")
        if unread and not any(one.key.rule == "unread" for one in found):
            print_line(f"No data: {', '.join(unread)}.")
        rows = []
        for one in found:
            is_quiet = any(quiet.covers(one, now) for quiet in silences)
            word = "silenced" if is_quiet and one.state == "firing" else one.state
            age = format_age((now - one.since).total_seconds())
            rows.append((word, one.severity, one.key.cluster, one.key.rule, age, one.sentence))
        if rows:
            table(
                ("state", "severity", "cluster", "rule", "since", "message"),
                rows,
                spare=("severity",),
            )
        _print_next(found)
        if found and not config.alerts.targets:
            print_line("Notifications: none. Configure [[alerts.targets]] to send them.")
        for quiet in silences:
            what = f"{quiet.rule} on {quiet.cluster}"
            what += f" ({quiet.subject})" if quiet.subject != "*" else ""
            until = f"{quiet.until:%Y-%m-%d %H:%M} UTC"
            print_line(
                f"Silence {quiet.number}: {what} until {until}, by {quiet.by}: {quiet.reason}"
            )

    body = {
        "alerts": [
            {
                "rule": one.key.rule,
                "cluster": one.key.cluster,
                "subject": one.key.subject,
                "state": one.state,
                "severity": one.severity,
                "since": one.since.isoformat(),
                "told_at": one.sent_at and one.sent_at.isoformat(),
                "ended_at": one.ended_at and one.ended_at.isoformat(),
                "measured": one.measured,
                "limit": one.limit,
                "sentence": one.sentence,
                "hint": one.hint,
            }
            for one in found
        ],
        "silences": [
            {
                "number": silence.number,
                "rule": silence.rule,
                "cluster": silence.cluster,
                "subject": silence.subject,
                "until": silence.until.isoformat(),
                "by": silence.by,
                "reason": silence.reason,
            }
            for silence in silences
        ],
        "unread": unread,
    }
    return emit(Answer(body, show), as_json=as_json)


def _print_next(found: Sequence[Alert]) -> None:
    """Print the fix of each firing alert."""
    for one in found:
        if one.state == "firing" and one.hint:
            print_line(f"Next for {one.key.rule} on {one.key.cluster}: {one.hint}", is_prose=True)


@app.command("silence")
def silence_alerts(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="Rule or pattern; '*' matches all.")],
    reason: Annotated[str, typer.Option(help="Reason (recorded).")],
    cluster: Annotated[str, typer.Option(help="Cluster or pattern.")] = "*",
    subject: Annotated[str, typer.Option(help="Subject or pattern.")] = "*",
    length: Annotated[
        str, typer.Option("--for", metavar="2h", help="Duration, for example 2h.")
    ] = "2h",
    config_file: Config = None,
) -> int:
    """Silence alerts for a time; they stay in the list."""
    config = configured_journal(config_file)
    if rule not in RULE_BY_CODE and not set(rule) & set("*?["):
        raise UsageFaultError(
            f"No rule {rule!r}.", hint=f"Rules: {', '.join(RULE_BY_CODE)}; or '*'."
        )
    now = services.now()
    try:
        span = now - moment(f"-{length.strip().removeprefix('-')}", now)
    except UsageFaultError as exc:
        hint = "Use a duration such as 30min, 2h or 1d."
        raise UsageFaultError(f"--for {length!r} is not a duration.", hint=hint) from exc
    by = access.command_identity(config)
    number = alerts.silence(config, rule, cluster, subject, span, by, reason)
    note(f"Silence {number} until {now + span:%Y-%m-%d %H:%M} UTC.")
    return EXIT_DONE


@app.command("unsilence")
def end_silence(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Number of the silence.")],
    config_file: Config = None,
) -> int:
    """End a silence."""
    config = configured_journal(config_file)
    alerts.end_silence(config, number, access.command_identity(config))
    note(f"Silence {number} ended.")
    return EXIT_DONE


@app.command("limits")
def list_limits(config_file: Config = None, as_json: Json = False) -> int:
    """List the alert thresholds and their changes.

    A changed threshold overrides the configuration until it is reset.
    """
    config = configured_journal(config_file)
    active, configured = alerts.limits(config), config.alerts.limits()
    changes = alerts.threshold_changes(config)
    rows = [
        {
            "rule": rule,
            "field": name,
            "value": getattr(active, name),
            "configured": getattr(configured, name),
        }
        for rule in ADJUSTABLE
        for name in fields_of(rule)
    ]

    def show() -> None:
        table(
            ("rule", "field", "effective", "configured"),
            [
                (
                    row["rule"],
                    row["field"],
                    describe(active, row["field"]),
                    describe(configured, row["field"]),
                )
                for row in rows
            ],
        )
        for one in changes[-_MAX_CHANGES:]:
            value = "configured" if one.value is None else f"{one.value:g}"
            print_line(f"{one.at:%Y-%m-%d %H:%M} UTC {one.by}: {one.field} {value}: {one.reason}")

    body = {
        "limits": rows,
        "changes": [
            {
                "at": change.at.isoformat(),
                "field": change.field,
                "value": change.value,
                "by": change.by,
                "reason": change.reason,
            }
            for change in changes
        ],
    }
    return emit(Answer(body, show), as_json=as_json)


@app.command("set")
def set_limit(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="Rule, such as uneven.")],
    reason: Annotated[str, typer.Option(help="Reason (recorded).")],
    threshold: Annotated[
        float | None,
        typer.Option(metavar="X", help="Threshold: %, min or moves/h, by the rule."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(metavar="MIN", help="Minimum duration (min).")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Reset to the configuration.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Apply; without, preview only.")] = False,
    config_file: Config = None,
    as_json: Json = False,
) -> int:
    """Preview or change an alert threshold.

    It applies to every cluster; user and reason are recorded.
    """
    config = configured_journal(config_file)
    values: dict[str, float | None] = (
        dict.fromkeys(fields_of(rule)) if reset else {**requested(rule, threshold, minutes)}
    )
    before, after = alerts.limits(config), alerts.preview_thresholds(config, values)
    changed = differences(before, after)
    if yes and changed:
        alerts.change_thresholds(config, values, access.command_identity(config), reason)

    def show() -> None:
        if not changed:
            print_line("No change: the threshold already has this value.")
            return
        table(("field", "before", "after"), changed)
        print_line(
            "Changed." if yes else "Preview: nothing was changed. Repeat with --yes to apply."
        )

    body = {
        "changes": [
            {"field": name, "before": getattr(before, name), "after": getattr(after, name)}
            for name, _, _ in changed
        ],
        "applied": yes and bool(changed),
    }
    return emit(Answer(body, show), as_json=as_json)


@app.command("test")
def send_test(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Target name in trimtab.toml.")],
    config_file: Config = None,
) -> int:
    """Send a test message to a target."""
    config = configured_journal(config_file)
    alerts.send_test(config, target, access.command_identity(config))
    note(f"{target} received the message.")
    return EXIT_DONE
