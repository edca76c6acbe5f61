"""The commands that act on a Pegasus cluster: plan, preview, write or execute.

Every one of them captures the cluster (or reads a snapshot directory, to plan only), makes a plan,
and shows it. With ``--plan`` it is written, with ``--apply`` a run is requested and followed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer

from core.actions.copies import recent_copy_rate
from core.errors import OpsError, PlanError, UnknownNameError
from core.pegasus.even.planner import EvenPlan
from core.pegasus.even.request import EvenRequest
from core.pegasus.levels import parse_level
from core.pegasus.plan.build import (
    RequestedMove,
    change_plan,
    gpid_of,
    level_plan,
    moves_plan,
    setting_plan,
)
from core.pegasus.plan.even import even_plan, even_search
from core.pegasus.plan.maintenance import (
    drain_plan,
    migrate_plan,
    offline_plan,
    rebalance_plan,
    rolling_update_plan,
)
from core.pegasus.plan.preview import PegasusPreview, preview_pegasus
from core.pegasus.proposal import Change, Move
from core.pegasus.server_settings import CHANGEABLE, changeable
from core.plan.model import Diagnostic, Plan
from core.plan.options import CopyRate, PlanOptions
from core.snapshot.pegasus import PegasusSnapshot
from core.units import format_ratio, pluralize
from dashboard import services
from dashboard.cli import plan_answers
from dashboard.cli.apply import Yes, check_can_confirm, execute
from dashboard.cli.config import configured
from dashboard.cli.options import Config, Json
from dashboard.cli.output import Answer, UsageFaultError, emit, note, print_line
from dashboard.cli.pegasus.live import note_problems, pegasus_snapshot
from dashboard.cli.pegasus.preview import preview_json, show_nodes, show_preview
from dashboard.cli.pegasus.state import show_level
from dashboard.cli.plan_answers import nothing_to_do, refusal, show_plan_file, write_plan
from dashboard.cli.requests import takes
from dashboard.cli.source import is_path
from dashboard.services.run_queue import in_the_way

app = typer.Typer()

_MAX_RUNS: Final = 100
"""Runs that are searched for copies."""

_MOVES: Final[tuple[Move, ...]] = get_args(Move)
_CHANGES: Final[tuple[Change, ...]] = get_args(Change)
_REFUSED: Final = (
    "INVALID",
    "UPGRADE_TO_PRIMARY",
    "UPGRADE_TO_SECONDARY",
    "DOWNGRADE_TO_SECONDARY",
    "ADD_SECONDARY_FOR_LB",
    "PRIMARY_FORCE_UPDATE_BALLOT",
    "DROP_PARTITION",
    "REGISTER_CHILD",
)

Make = Callable[[PegasusSnapshot, PlanOptions], "Plan | Diagnostic"]
"""Return the plan, or the reason why there is nothing to do."""

Cluster = Annotated[
    str,
    typer.Argument(metavar="CLUSTER", help="Cluster name; a snapshot directory plans only."),
]
Reason = Annotated[
    str, typer.Option(help="Reason (recorded in the audit log); required with --apply.")
]
PlanFile = Annotated[
    Path | None,
    typer.Option("--plan", metavar="OUT", help="Write the plan to a file; send nothing."),
]
Apply = Annotated[bool, typer.Option("--apply", help="Request the run and follow it.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be sent now; change nothing.")
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Request the run and return; a worker executes it.")
]
Rate = Annotated[
    int,
    typer.Option("--rate", min=0, metavar="MB/S", help="Copy rate per disk (MB/s); 0: no limit."),
]
MaxUnderReplicated = Annotated[
    int,
    typer.Option(
        "--max-under-replicated",
        min=1,
        metavar="PARTITIONS",
        help="Max partitions that lack a replica at the same time.",
    ),
]
Node = Annotated[str, typer.Argument(metavar="NODE", help="Registered name, host:port.")]
Nodes = Annotated[list[str], typer.Argument(metavar="NODE...", help="Registered names, host:port.")]
Steady = Annotated[bool, typer.Option("--steady", help="Keep the level at steady during the run.")]


def act(
    make: Make,
    *,
    source: Cluster,
    reason: Reason = "",
    plan_file: PlanFile = None,
    apply: Apply = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Make a plan, show it, and write it or execute it; return the exit code.

    Args:
        make: Makes the plan.
        source: Cluster of the configuration, or a snapshot directory to plan on.
        reason: Recorded in the plan and in the journal.
        plan_file: Where the plan is written; ``None``: nowhere.
        apply: Request a run and follow it.
        yes: Do not ask for confirmation.
        dry_run: Show what would be sent.
        detach: Only request the run.
        config: Configuration file; ``None``: the usual one.
        as_json: Print one JSON object on standard output.

    Raises:
        OpsError: There cannot be such a plan, or the run is refused. A plan without errors and
            without steps is done: there is nothing to do.
    """
    is_run = apply or dry_run or detach
    is_snapshot = is_path(source)
    if is_run:
        _check_run(source, reason, plan_file, is_dry=dry_run)
        check_can_confirm(yes=yes, dry_run=dry_run, as_json=as_json)
    snapshot = pegasus_snapshot(source, config)
    options = PlanOptions(now=services.now(), reason=reason)
    loaded = None if is_snapshot else configured(config)
    if loaded is not None:
        options = replace(
            options,
            exclusions=frozenset(loaded.cluster(source).exclusions),
            copy_rate=_measured_rate(loaded, source),
        )
    plan = make(snapshot, options)
    note_problems(snapshot)
    if isinstance(plan, Diagnostic):
        return nothing_to_do([plan], as_json=as_json)
    if loaded is not None:
        _note_preceding_run(loaded, source, plan, is_run=is_run)
    _refuse_errors(plan)
    if not plan.steps:
        return nothing_to_do(plan.diagnostics, as_json=as_json)
    found = preview_pegasus(snapshot, plan)
    if loaded is None or not is_run:
        return _write(plan, found, plan_file, reason, as_json=as_json)
    show_preview(plan, found, note)  # on standard error: the answer is the run
    return execute(
        loaded,
        plan,
        source,
        reason=reason,
        yes=yes,
        dry_run=dry_run,
        detach=detach,
        as_json=as_json,
    )


def _measured_rate(config: services.Config, cluster: str) -> CopyRate | None:
    """Return the rate of the latest copies of a cluster; ``None`` if no run measured one."""
    try:
        return recent_copy_rate(services.runs(config, cluster, limit=_MAX_RUNS))
    except OpsError:
        return None


def _check_run(source: str, reason: str, plan_file: Path | None, *, is_dry: bool) -> None:
    """Check the options of a run.

    Raises:
        UsageFaultError: A plan file too, no reason, or a snapshot.
    """
    if plan_file is not None:
        raise UsageFaultError(
            "--plan only writes the plan; --apply, --detach and --dry-run execute it.",
            hint="Omit --plan, or omit --apply, --detach and --dry-run.",
        )
    if not is_dry and not reason.strip():
        raise UsageFaultError("A run needs a reason.", hint="Pass --reason TEXT; it is recorded.")
    if is_path(source):
        raise UsageFaultError(
            f"{source} is a snapshot and cannot be changed.",
            hint="Specify a configured cluster, or write a plan with --plan OUT.",
        )


def _note_preceding_run(config: services.Config, cluster: str, plan: Plan, *, is_run: bool) -> None:
    """Note which run is in the way; where a run is requested that is said with the request."""
    if is_run and plan.applyable:
        return
    if ahead := in_the_way(config, cluster):
        note(ahead)


def _refuse_errors(plan: Plan) -> None:
    """Note every further error of a plan and raise the first.

    Raises:
        PlanError: The plan has an error.
    """
    if errors := plan.by_severity("error"):
        for item in errors[1:]:
            note(f"error: {item.sentence} {item.hint}".rstrip())
        raise refusal(errors, shown=1)


def _write(
    plan: Plan,
    preview: PegasusPreview,
    plan_file: Path | None,
    reason: str,
    *,
    as_json: bool,
) -> int:
    """Write a plan where a file is named, and show it."""
    if plan_file is not None:
        write_plan(plan_file, plan)
    elif reason.strip():
        note("Nothing was changed. Execute it with --apply.")
    body = {
        "plan": plan_answers.plan(plan),
        "preview": preview_json(preview),
        "path": str(plan_file) if plan_file else None,
    }

    def show() -> None:
        show_preview(plan, preview)
        show_nodes(preview)
        if plan_file is None:
            print_line(
                "Nothing was changed. Apply it with --apply --reason TEXT, or write it to a file "
                "with --plan OUT."
            )
        else:
            show_plan_file(plan, plan_file)

    return emit(Answer(body, show), as_json=as_json)


def makes_plan(command: Callable[..., Make]) -> Callable[..., int]:
    """Add the options of :func:`act` to a command; the command returns how its plan is made.

    Example:
        ``@app.command()`` above ``@makes_plan`` above ``def migrate(node: Node) -> Make``.
    """
    own = inspect.signature(command, eval_str=True).parameters
    shared = {
        name: one
        for name, one in inspect.signature(act, eval_str=True).parameters.items()
        if name != "make"
    }

    @functools.wraps(command)
    def run(**given: Any) -> int:
        make = command(**{name: given.pop(name) for name in own})
        return act(make, **given)

    first, *others = shared.values()
    parameters = [first, *(one.replace(kind=one.KEYWORD_ONLY) for one in own.values()), *others]
    run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]  # Typer reads it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


# -- the commands ----------------------------------------------------------------------------------


@app.command()
def level(
    source: Annotated[
        str,
        typer.Argument(metavar="CLUSTER-or-SNAPSHOT", help="Cluster name, or snapshot directory."),
    ],
    verb: Annotated[
        str | None, typer.Argument(metavar="[set", help="set; default: show the level.")
    ] = None,
    wanted: Annotated[
        str | None,
        typer.Argument(metavar="LEVEL]", help="Level: stopped, blind, freezed, steady or lively."),
    ] = None,
    reason: Reason = "",
    plan_file: PlanFile = None,
    apply: Apply = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    detach: Detach = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Show the function level; `set LEVEL` sets it.

    Shows the stored and the effective level; `set LEVEL --apply --reason TEXT` sets it.
    """
    if verb is None:
        return show_level(source, config, as_json=as_json)
    if verb != "set" or wanted is None:
        raise UsageFaultError(f"Unknown action {verb!r}.", hint="Use: level CLUSTER set LEVEL.")
    try:
        parse_level(wanted)
    except UnknownNameError as exc:
        raise UsageFaultError(exc.message, hint=exc.hint) from exc
    is_plain = not plan_file and not dry_run
    return act(
        lambda snapshot, options: level_plan(snapshot, wanted, options),
        source=source,
        reason=reason,
        plan_file=plan_file,
        apply=apply or (is_plain and bool(reason)),
        yes=yes,
        dry_run=dry_run,
        detach=detach,
        config=config,
        as_json=as_json,
    )


@app.command("set")
@makes_plan
def set_setting(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Remote command or flag.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Value; clear empties a list.")],
    node: Annotated[str | None, typer.Option(help="Only this replica server, host:port.")] = None,
) -> Make:
    """Validate and change a setting of running servers."""
    try:
        changeable(key)
    except UnknownNameError as exc:
        names = ", ".join(one.key for one in CHANGEABLE)
        near = f"{exc.hint} " if exc.hint.startswith("Did you mean") else ""
        raise UsageFaultError(exc.message, hint=f"{near}Available: {names}.") from exc
    return lambda snapshot, options: setting_plan(snapshot, key, value, options, server=node)


@app.command()
@makes_plan
def move(
    gpid: Annotated[str, typer.Argument(metavar="GPID", help="Partition, 2.7 or temp.7.")],
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Kind: move_pri, copy_pri or copy_sec.")
    ],
    from_node: Annotated[str, typer.Option("--from", metavar="NODE", help="Source node.")],
    to_node: Annotated[str, typer.Option("--to", metavar="NODE", help="Destination node.")],
    steady: Steady = False,
) -> Make:
    """Move a primary, or copy a replica to another node.

    Works like `balance` of the Pegasus shell.
    """
    if kind not in _MOVES:
        raise _no_word("kind of move", kind, _MOVES)

    def make(snapshot: PegasusSnapshot, options: PlanOptions) -> Plan:
        move = RequestedMove(gpid_of(snapshot, gpid), kind, from_node, to_node)
        return moves_plan(snapshot, [move], options, keep_level=steady)

    return make


@app.command()
@makes_plan
def propose(
    gpid: Annotated[str, typer.Argument(metavar="GPID", help="Partition, 2.7 or temp.7.")],
    change: Annotated[
        str,
        typer.Argument(
            metavar="TYPE",
            help="Type: ASSIGN_PRIMARY, ADD_SECONDARY, DOWNGRADE_TO_INACTIVE or REMOVE.",
        ),
    ],
    node: Annotated[
        str, typer.Option(metavar="NODE", help="Node that changes its role, host:port.")
    ],
) -> Make:
    """Propose one safe change of a partition.

    Unsafe changes are refused.
    """
    word = change.upper().removeprefix("CT_")
    if word in _REFUSED:
        raise PlanError(
            f"{word} cannot be proposed manually: alone it has no effect or crashes a server.",
            hint="Move a primary with `trimtab pegasus move ... move_pri`.",
        )
    if word not in _CHANGES:
        raise _no_word("change", change, _CHANGES)
    return lambda snapshot, options: change_plan(
        snapshot, gpid_of(snapshot, gpid), word, node, options
    )


@app.command()
@makes_plan
def migrate(
    node: Node,
) -> Make:
    """Move every primary off a node; no data moves."""
    return lambda snapshot, options: migrate_plan(snapshot, node, options)


@app.command()
@makes_plan
def drain(
    nodes: Nodes,
    max_under_replicated: MaxUnderReplicated = 10,
) -> Make:
    """Drain nodes one by one.

    Their replicas go to other nodes.
    """
    return lambda snapshot, options: drain_plan(
        snapshot, nodes, options, max_under_replicated=max_under_replicated
    )


@app.command()
@makes_plan
def offline(
    nodes: Nodes,
    rate: Rate = 50,
    max_under_replicated: MaxUnderReplicated = 10,
) -> Make:
    """Take nodes out of service.

    The run waits until each process is stopped.
    """
    return lambda snapshot, options: offline_plan(
        snapshot, nodes, options, rate_mb_per_s=rate, max_under_replicated=max_under_replicated
    )


@app.command("rolling-update")
@makes_plan
def rolling_update(
    nodes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NODE...]", help="Nodes in restart order; default: all alive nodes."
        ),
    ] = None,
) -> Make:
    """Restart nodes one by one.

    The run waits until each node is restarted.
    """
    return lambda snapshot, options: rolling_update_plan(snapshot, nodes or [], options)


@app.command()
@makes_plan
def rebalance(
    only_move_primary: Annotated[
        bool, typer.Option("--only-move-primary", help="Copy no primaries during the run.")
    ] = False,
    rate: Rate = 100,
) -> Make:
    """Run the meta server's balancer, then restore the level."""
    return lambda snapshot, options: rebalance_plan(
        snapshot, options, only_move_primary=only_move_primary, rate_mb_per_s=rate
    )


@app.command()
@makes_plan
@takes(EvenRequest)
def even(request: EvenRequest) -> Make:
    """Balance the cluster by one measure with few moves."""

    def make(snapshot: PegasusSnapshot, options: PlanOptions) -> Plan | Diagnostic:
        measured, found = even_search(snapshot, request)
        note(_even_sentence(found, request))
        return even_plan(snapshot, request, measured, found, options)

    return make


def _no_word(kind: str, word: str, known: Sequence[str]) -> UsageFaultError:
    """Return the error of a word that is none of a few: bad usage, all of them named."""
    error = UnknownNameError.of(kind, word, known)
    near = f"{error.hint} " if error.hint.startswith("Did you mean") else ""
    return UsageFaultError(error.message, hint=f"{near}Available: {', '.join(known)}.")


def _even_sentence(even_plan: EvenPlan, request: EvenRequest) -> str:
    unknown = f"; not moved: {pluralize(even_plan.unknown_count, 'partition')} of unknown weight"
    return (
        f"Max node deviation by {request.measure}: "
        f"{format_ratio(even_plan.deviation_before)}; after "
        f"{pluralize(len(even_plan.steps), 'move')}: {format_ratio(even_plan.deviation_after)} "
        f"({even_plan.verdict.replace('_', ' ')})"
        f"{unknown if even_plan.unknown_count else ''}. {even_plan.rest_gain}"
    ).rstrip()
