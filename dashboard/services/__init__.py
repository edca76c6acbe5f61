"""The composition root: the only module that builds clients and knows connectors.

Pages and commands ask here; nothing heavy is imported until it is needed.
"""

from __future__ import annotations

import os
import secrets
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.access import Identity
from core.actions.approval import check_decision, describe_approval, waits_for_approval
from core.actions.authority import Request, check_plan, signed
from core.actions.events import (
    ControlRequested,
    EntriesArchived,
    Record,
    RunDecided,
    RunRequested,
)
from core.actions.model import Control, RunId, RunOptions
from core.actions.request import (
    RunLimits,
    check_options,
    check_request,
    reason_of,
)
from core.actions.runs import RunView, run_id_at
from core.actions.undo import began_at
from core.actions.windows import window_refusal
from core.errors import (
    GuardRefusedError,
    InputError,
    OpsError,
    PlanConflictError,
    SnapshotError,
)
from core.plan.model import Plan
from core.units import one_line
from dashboard.services.runbook import RunBook

if TYPE_CHECKING:
    from pydantic import SecretStr

    from connectors.backup import Backup
    from connectors.check import CheckResult
    from connectors.config.model import ClusterConfig, TrimtabConfig
    from connectors.connector import Connector
    from connectors.journal.archive import Archive
    from connectors.journal.journal import ArchivableEntries, SqlJournal
    from connectors.journal.verify import Verification
    from core.actions.dry_run import Rehearsal
    from core.findings.starts import Spans
    from core.snapshot.store import CachedSnapshot, Selection, SnapshotStore, Storable
    from core.systems import KnownSystem

    Cluster = ClusterConfig
    CommandConnector = Connector
    Config = TrimtabConfig
    Journal = SqlJournal
    BackupMade = Backup
    ArchiveMade = Archive
    OldEntries = ArchivableEntries
    Verified = Verification
    """What the pages call them; they import nothing of the connectors."""

START_SLACK: Final = timedelta(minutes=5)
"""How much older than a run a saved snapshot may be that shows what was there when it began."""

CONFIG_ENV: Final = "TRIMTAB_CONFIG"
"""Path of the configuration file, set by the command line for the pages."""

SHELL_CONFIG: Final[ContextVar[str]] = ContextVar("shell_config", default="")
"""What the shell of a command has in ``TRIMTAB_CONFIG``; empty in pages: they have no shell."""

COMMAND_OPTION: ContextVar[str | None] = ContextVar("command_option", default=None)
"""Option that command lines to copy have, instead of the configuration's; ``None``: that one."""

DEFAULT_NAME: Final = "trimtab.toml"
"""Configuration file of the working directory."""


def now() -> datetime:
    """Return the present moment, aware UTC: the dashboard's only clock."""
    return datetime.now(UTC)


def set_up_logging() -> None:
    """Let the process of the pages log in the configured form; text where there is no file."""
    from connectors import logs  # noqa: PLC0415  # commands must start fast

    try:
        logs.set_up_logging(page_config().log_format)
    except OpsError:  # the pages say what is wrong with the file
        logs.set_up_logging("text")


def child_environment() -> Mapping[str, str]:
    """Return variables that keep the memory of a process small, for those that are started."""
    from connectors import memory  # noqa: PLC0415  # commands must start fast

    return memory.POOL_VARIABLES


def give_memory_back() -> None:
    """Return free memory of this process to the system."""
    from connectors import memory  # noqa: PLC0415  # commands must start fast

    memory.give_back()


# -- for the pages ---------------------------------------------------------------------------------


def page_config() -> TrimtabConfig:
    """Return the configuration that the command line named for the pages.

    Raises:
        ConfigError: It cannot be read or is contradictory.
    """
    path = os.environ.get(CONFIG_ENV)
    return _loaded(path, _stamp(Path(path)) if path else None)


def whole_config(config: TrimtabConfig) -> TrimtabConfig:
    """Return a configuration with all clusters of its file, the invisible ones included.

    Raises:
        ConfigError: The file cannot be read or is contradictory.
    """
    file = config.file
    if file is None or not file.is_file():
        return config
    return _loaded(str(file), _stamp(file))


def _stamp(file: Path) -> tuple[int, int] | None:
    """Return the modification time, ns, and size of a file; a half-written one differs in size."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=4)
def _loaded(path: str | None, stamp: tuple[int, int] | None) -> TrimtabConfig:  # noqa: ARG001  # key of the cache
    from connectors.config.model import TrimtabConfig  # noqa: PLC0415  # commands must start fast

    return TrimtabConfig.load(Path(path) if path else None, ())


def snapshot_store(config: TrimtabConfig) -> SnapshotStore:
    """Return the store in which the collectors keep the recent snapshots."""
    from core.snapshot.store import SnapshotStore  # noqa: PLC0415  # pyarrow: a supervisor needs none

    return SnapshotStore(config.state_dir / "snapshots")


def pipeline_lag_s(config: TrimtabConfig, cluster: str, now: datetime) -> float | None:
    """Return the time since the end of the first recorded hour that is not rolled up, s.

    Returns:
        ``None`` if the collector reported no turn of the pipeline.
    """
    from connectors.recording import status  # noqa: PLC0415  # commands start fast

    return status.pipeline_lag_s(config, cluster, now)


def collector_status_path(config: TrimtabConfig, cluster: str) -> Path:
    """Return the path of the status file of ``cluster``'s collector."""
    return config.state_dir / "collectors" / f"{cluster}.json"


# -- runs and the journal --------------------------------------------------------------------------


def journal(config: TrimtabConfig) -> SqlJournal:
    """Return the journal of a configuration; one stays open for each address.

    Raises:
        ConfigError: ``journal_url`` is none, or its driver is not installed.
        RemoteError: The database cannot be opened.
    """
    return _journal_at(*_journal_of(config))


def _runbook(config: TrimtabConfig) -> RunBook:
    return _runbook_at(*_journal_of(config))


def _journal_of(config: TrimtabConfig) -> tuple[SecretStr, tuple[Connector, ...], Path]:
    from connectors.access.key import key_path  # noqa: PLC0415  # commands must start fast

    return config.journal_address, config.connectors, key_path(config.access)


@lru_cache(maxsize=8)
def _journal_at(
    address: SecretStr, connectors: tuple[Connector, ...], key_file: Path
) -> SqlJournal:
    from connectors.access.key import signature_check  # noqa: PLC0415  # commands must start fast
    from connectors.journal.journal import SqlJournal  # noqa: PLC0415  # the same
    from core.systems import STEPS, steps_of  # noqa: PLC0415  # the same

    steps = steps_of(connector.system for connector in connectors) if connectors else STEPS
    return SqlJournal(address, steps, signature_check(key_file))


@lru_cache(maxsize=8)
def _runbook_at(address: SecretStr, connectors: tuple[Connector, ...], key_file: Path) -> RunBook:
    return RunBook(_journal_at(address, connectors, key_file))


def anchor_age_s(config: TrimtabConfig) -> float | None:
    """Return the age of the journal's newest anchor, seconds; ``None`` if never written."""
    from connectors.journal import anchor  # noqa: PLC0415  # commands must start fast

    return anchor.anchor_age_s(config.audit.anchor_file) if config.audit.anchor_file else None


def back_up(config: TrimtabConfig, folder: Path) -> Backup:
    """Copy journal, users and key into a new folder; see :func:`connectors.backup.back_up`."""
    from connectors import backup  # noqa: PLC0415  # commands must start fast

    return backup.back_up(config, folder)


def restore(config: TrimtabConfig, folder: Path) -> Backup:
    """Put a backup back; see :func:`connectors.backup.restore`."""
    from connectors import backup  # noqa: PLC0415  # commands must start fast

    return backup.restore(config, folder)


def verify_journal(
    config: TrimtabConfig,
    expected: str | None = None,
    anchors: Path | None = None,
    archives: Sequence[Path] = (),
) -> Verification:
    """Verify the journal: its chain, signatures and database, with the anchors and the history.

    Args:
        config: Where journal and history are, and the key that signed entries and anchors.
        expected: A hash that must be in it.
        anchors: A copy of the anchor file; ``None``: the configured one, if it is there.
        archives: Files of entries that were in the journal, oldest first: verified with it.
    Raises:
        InputError: Anchors or archives cannot be read, or the anchors are not of this installation.
        RemoteError: The journal cannot be read.
    """
    from connectors.access.key import (  # noqa: PLC0415  # commands must start fast
        installation_key,
        key_path,
        readable_key,
    )
    from connectors.journal.anchor import read_anchors  # noqa: PLC0415  # the same
    from connectors.journal.archive import read_archive  # noqa: PLC0415  # the same

    file = anchors or config.audit.anchor_file
    known: dict[int, str] = {}
    if file is not None and (anchors is not None or file.exists()):
        key = installation_key(config.access)
        known = {anchor.seq: anchor.digest for anchor in read_anchors(file, key)}
    unchecked: list[str] = []
    readable = readable_key(key_path(config.access))
    if readable is None:
        path = key_path(config.access)
        unchecked.append(
            f"Signatures were not verified: the key {path} is not readable by this user."
        )
    archived = chain.from_iterable(read_archive(one) for one in archives)
    found = journal(config).verify(
        expected, known, key=readable, archived=archived, recorded=_recorded(config, unchecked)
    )
    return replace(found, unchecked=tuple(unchecked))


def _recorded(config: TrimtabConfig, unchecked: list[str]) -> dict[int, str]:
    """Return the entries of the journal that the history has, their runs by position."""
    from connectors.recording.loop import recorded_entries  # noqa: PLC0415  # commands must start fast

    try:
        return recorded_entries(config)
    except OpsError as exc:
        unchecked.append(f"The history was not compared with the journal: {exc.message}")
        return {}


def old_entries(config: TrimtabConfig, before: datetime | None, by: Identity) -> OldEntries:
    """Return the entries an admin may archive: the oldest, as far as every run in them has ended.

    Args:
        config: Its ``keep_days`` says how long entries stay.
        before: They are older than this, aware UTC; ``None``: older than ``keep_days``.
        by: Who archives.
    Raises:
        InputError: ``keep_days`` is not set, forbids it, or no entry is so old; or the journal is
            damaged.
        ForbiddenError: The person is not admin of every cluster that the entries are about.
        RemoteError: The journal cannot be read.
    """
    days = config.audit.keep_days
    if days is None:
        raise InputError(
            "Journal entries have unlimited retention.",
            hint="To allow an archive of older entries, set keep_days under [audit].",
        )
    limit = now() - timedelta(days=days)
    if before is not None and before > limit:
        raise InputError(
            f"Entries are retained for {days:g} days (keep_days under [audit]); "
            f"{before:%Y-%m-%d %H:%M} is within that period.",
            hint=f"Specify a time before {limit:%Y-%m-%d %H:%M} (UTC).",
        )
    checked = verify_journal(config)
    if checked.damage is not None or checked.database:
        damage = checked.damage
        where = f" at entry {damage.seq}: {damage.what}" if damage else f". {checked.database[0]}"
        raise InputError(
            f"The journal is damaged{where}",
            hint="Archiving requires an intact journal. See `trimtab runs --verify`.",
        )
    archivable = journal(config).archivable(before or limit)
    for cluster in sorted({one.name for one in config.clusters} | archivable.clusters):
        config.access.rules().check(by, "admin", cluster, "archive the journal")
    if not archivable.last:
        run = archivable.open_run
        raise InputError(
            f"Run {run} is active; its entries and all later ones are retained."
            if run
            else f"No run can be archived: each run with entries before "
            f"{before or limit:%Y-%m-%d %H:%M} is linked to a later run.",
            hint=f"Stop it: trimtab runs {run} --stop." if run else "No entries to archive.",
        )
    return archivable


def archive(
    config: TrimtabConfig, entries: OldEntries, file: Path, reason: str, by: Identity
) -> ArchiveMade:
    """Move old entries from the journal to a new file; the chain goes on, and records it.

    Args:
        config: Where the journal is.
        entries: Of :func:`old_entries`, which checks the person, too.
        file: It must not exist.
        reason: Why, for the record.
        by: Who does it.
    Raises:
        InputError: No reason, or a file that cannot be written.
        ConflictError: A run in it was written meanwhile.
        RemoteError: The journal cannot be read or written.
    """
    from connectors.access.key import installation_key  # noqa: PLC0415  # commands must start fast
    from connectors.journal.archive import write_archive  # noqa: PLC0415  # the same

    why = reason_of(reason)
    made = write_archive(journal(config), entries.last, file)
    event = EntriesArchived(
        first=made.first,
        last=made.last,
        digest=made.digest,
        file=file.name,
        sha256=made.sha256,
        reason=why,
        identity=by,
    )
    record = Record(run_id=RunId(""), cluster="", at=now(), actor=by.name, event=event)
    journal(config).remove_archived(signed(record, installation_key(config.access)), entries.newest)
    return made


def journal_bytes(config: TrimtabConfig) -> int | None:
    """Return the size of the journal's file; ``None``: a database server has it."""
    url = journal(config).database.url
    path = Path(url.database or "")
    is_file = url.get_backend_name() == "sqlite" and path.is_file()
    return path.stat().st_size if is_file else None


def open_views(config: TrimtabConfig, cluster: str) -> tuple[RunView, ...]:
    """Return the runs of a cluster that have not ended, oldest first, as pages show them.

    Raises:
        RemoteError: The journal cannot be read.
    """
    entries = journal(config)

    def read() -> tuple[RunView, ...]:
        return tuple(run_view(config, run_id) for run_id in entries.open_runs(cluster))

    return entries.database.recent(("open", cluster), read)


def run_view(config: TrimtabConfig, run_id: str) -> RunView:
    """Return the current view of a run; only new entries are read.

    Raises:
        UnknownNameError: There is no such run.
        RemoteError: The journal cannot be read.
    """
    return _runbook(config).view(RunId(run_id))


def runs(
    config: TrimtabConfig, cluster: str | None = None, limit: int | None = 200
) -> list[RunView]:
    """Return the latest runs of a cluster, or of all, newest first.

    Raises:
        RemoteError: The journal cannot be read.
    """
    book = _runbook(config)
    if cluster is not None or config.access.sign_in == "none":
        return book.views(cluster=cluster, limit=limit)
    found = [view for one in config.clusters for view in book.views(cluster=one.name, limit=limit)]
    return sorted(found, key=lambda view: view.run_id, reverse=True)[:limit]


def default_options(config: TrimtabConfig, cluster: str) -> RunOptions:
    """Return the default options of runs on a cluster.

    Raises:
        UnknownNameError: No such cluster.
    """
    limits = config.cluster(cluster).apply
    return RunOptions(
        pace_per_min=limits.pace_per_min,
        max_failures=limits.max_failures,
        max_unassigned=limits.max_unassigned,
        verify_within_s=limits.verify_within_s,
        is_gradual=limits.gradual_pace,
        canary_s=limits.canary_s,
    )


def request_run(
    config: TrimtabConfig,
    cluster: str,
    plan: Plan,
    reason: str,
    options: RunOptions,
    by: Identity,
) -> RunId:
    """Request a plan: the worker of the cluster takes it up from the journal.

    Args:
        config: The configuration.
        cluster: Name of the plan's cluster.
        plan: What is requested.
        reason: Why, for the record.
        options: How it is executed.
        by: Who requests it; the worker checks the person's role again.
    Raises:
        ForbiddenError: The person lacks the role that the plan needs.
        InputError: No reason, or options beyond the cluster's limits.
        UnknownNameError: No such cluster.
        PlanError: The plan cannot be applied (``GuardRefusedError``: the cluster is read-only).
        RemoteError: The journal cannot be written.
    """
    check_run(config, cluster, plan, reason, options, by)
    moment = now()
    run_id = run_id_at(moment, secrets.token_hex(3))
    undoes = RunId(plan.undoes) if plan.undoes else None
    event = RunRequested(
        plan=plan, options=options, reason=reason_of(reason), undoes=undoes, identity=by
    )
    _append(config, run_id, cluster, moment, event)
    return run_id


def check_run(
    config: TrimtabConfig,
    cluster: str,
    plan: Plan,
    reason: str,
    options: RunOptions,
    by: Identity,
) -> None:
    """Check that a run may be requested; see :func:`request_run`.

    Raises:
        OpsError: As :func:`request_run` does.
    """
    settings = config.cluster(cluster)
    rules = config.access.rules()
    check_plan(rules, by, plan, cluster, is_balancer_paused=options.pause_balancer)
    limits = RunLimits(
        pace_per_min=settings.apply.pace_per_min,
        max_failures=settings.apply.max_failures,
        max_unassigned=settings.apply.max_unassigned,
        max_steps=settings.apply.max_steps,
        canary_s=settings.apply.canary_s,
        is_read_only=settings.read_only,
    )
    moment = now()
    runs = (run_view(config, run) for run in journal(config).runs_of_plan(plan))
    check_request(plan, cluster, limits, moment, runs)
    check_options(options, limits)
    _check_rules(settings, reason, moment)
    reason_of(reason)


def _check_rules(cluster: ClusterConfig, reason: str, moment: datetime) -> None:
    """Check the windows of a cluster, and the required content of its reasons.

    Raises:
        GuardRefusedError: Nothing may be changed now.
        InputError: The reason names no ticket.
    """
    closed = window_refusal([window.times() for window in cluster.windows], cluster.name, moment)
    if closed is not None:
        raise GuardRefusedError(closed.sentence, hint=closed.hint)
    if not cluster.approval.names_ticket(reason):
        raise InputError(
            f"The reason must contain a ticket that matches {cluster.approval.ticket} "
            f"(required on {cluster.name}).",
            hint="Add the ticket to the reason.",
        )


def awaits_approval(config: TrimtabConfig, view: RunView) -> bool:
    """Return whether a run waits for the approval of another person."""
    rules = next(
        (cluster.approval for cluster in config.clusters if cluster.name == view.cluster), None
    )
    return rules is not None and waits_for_approval(view, rules.rules(), now())


def approval(config: TrimtabConfig, view: RunView) -> str:
    """Return the sentence about an approved run that no worker has begun yet; empty: it is none."""
    rules = next(
        (cluster.approval for cluster in config.clusters if cluster.name == view.cluster), None
    )
    return "" if rules is None else describe_approval(view, rules.rules())


def decide(
    config: TrimtabConfig, run_id: str, by: Identity, comment: str = "", *, is_approved: bool
) -> None:
    """Approve or reject a run that waits for it.

    Raises:
        ForbiddenError: The person may not approve runs of the cluster, or requested this one.
        InputError: A rejection without a comment.
        UnknownNameError: There is no such run.
        PlanConflictError: The run does not wait for approval.
        RemoteError: The journal cannot be written.
    """
    view = run_view(config, run_id)
    rules = config.cluster(view.cluster).approval.rules()
    access = config.access.rules()
    check_plan(access, by, view.plan, view.cluster, "approve runs", role=rules.role)
    check_decision(view, rules, by, now())
    if not is_approved and not comment.strip():
        raise InputError(
            "A rejection requires a comment.", hint="Enter the required changes as the comment."
        )
    event = RunDecided(is_approved=is_approved, comment=one_line(comment)[:2_000], identity=by)
    _append(config, view.run_id, view.cluster, now(), event)


def ask_control(
    config: TrimtabConfig, run_id: str, control: Control, by: Identity, reason: str = ""
) -> None:
    """Ask the worker to pause, resume or stop a run.

    Raises:
        ForbiddenError: The person may not control runs of the cluster.
        UnknownNameError: There is no such run.
        PlanConflictError: The run has ended.
        RemoteError: The journal cannot be written.
    """
    view = run_view(config, run_id)
    rules = config.access.rules()
    check_plan(rules, by, view.plan, view.cluster, f"{control} runs", role="operator")
    if view.is_ended:
        raise PlanConflictError(
            f"Run {run_id} is already {view.state}; {control} is not possible.",
            hint="To revert its changes, undo the run.",
        )
    event = ControlRequested(control=control, reason=one_line(reason), identity=by)
    _append(config, view.run_id, view.cluster, now(), event)


def _append(
    config: TrimtabConfig,
    run_id: RunId,
    cluster: str,
    at: datetime,
    event: Request,
) -> None:
    """Write a person's request into the journal, signed with the installation's key."""
    from connectors.access.key import installation_key  # noqa: PLC0415  # commands must start fast

    actor = event.identity.name if event.identity else ""
    record = Record(run_id=run_id, cluster=cluster, at=at, actor=actor, event=event)
    journal(config).append(signed(record, installation_key(config.access)))


# -- for the command line --------------------------------------------------------------------------

SANDBOX_NAME: Final = "sandbox"


def config_path(given: Path | None) -> Path | None:
    """Return the configuration file to use, as an absolute path.

    The one given, else what ``TRIMTAB_CONFIG`` names, else ``trimtab.toml`` here, else ``None``.
    """
    from connectors.config.model import DEFAULT_FILE  # noqa: PLC0415  # commands must start fast

    named = os.environ.get(CONFIG_ENV)
    chosen = given or (Path(named) if named else DEFAULT_FILE if DEFAULT_FILE.is_file() else None)
    # a circle of links stays what it is: whoever reads the file names it
    return Path(os.path.realpath(chosen)) if chosen else None


def config_option(config: TrimtabConfig) -> str:
    """Return `` --config FILE`` for a command line to copy; empty where it works without it.

    A command of a caller has `` --server URL``.

    Args:
        config: The configuration; it names the file that it was read from.
    """
    if (option := COMMAND_OPTION.get()) is not None:
        return option
    file = config.file
    if file is None or str(file) == os.path.realpath(SHELL_CONFIG.get() or DEFAULT_NAME):
        return ""
    return f" --config {shlex.quote(str(file))}"


def load_config(path: Path | None, connectors: Sequence[Connector]) -> TrimtabConfig:
    """Read the configuration.

    Args:
        path: The file.
        connectors: Of the systems whose clusters it may name; empty: all there are.
    Raises:
        ConfigError: It cannot be read or is contradictory.
    """
    from connectors.config.model import TrimtabConfig  # noqa: PLC0415  # commands must start fast

    return TrimtabConfig.load(path, connectors)


def keep_private(state_dir: Path) -> None:
    """Make the state folder its owner's alone, and write privately from now on."""
    from connectors.config.private import keep_private as tightened  # noqa: PLC0415  # commands start fast

    tightened(state_dir)


def exposed_secrets(config: TrimtabConfig) -> list[str]:
    """Return a sentence for each file or folder with secrets that others may read or change."""
    from connectors.config.private import exposed_secrets as exposed  # noqa: PLC0415  # the same

    return exposed(config)


def snapshot_of(config: TrimtabConfig, cluster: ClusterConfig) -> Storable:
    """Take one snapshot of a cluster of any system; it goes on from the newest saved one.

    Raises:
        RemoteError: Nothing at all could be read.
    """
    from connectors.systems import connector_of, plans_of  # noqa: PLC0415  # commands start fast

    latest = snapshot_store(config).latest(cluster.name, now())
    connector = connector_of(config, cluster)
    path = None if latest is None else latest.path
    collector = connector.collector(cluster, path, plans_of(config, cluster))
    try:
        storable: Storable = collector.collect()
    finally:
        collector.close()
    return storable


def earlier_snapshots(
    config: TrimtabConfig, snapshot: Storable, which: Selection = "last"
) -> list[Storable]:
    """Return saved snapshots of a cluster before one, the newest last; few of them."""
    from connectors.systems import connector_of  # noqa: PLC0415  # commands must start fast

    name, moment = snapshot.manifest.cluster, snapshot.manifest.taken_at
    if name not in [cluster.name for cluster in config.clusters]:
        return []
    load = connector_of(config, config.cluster(name)).system.record.load
    return [load(stored.path) for stored in snapshot_store(config).earlier(name, moment, which)]


def finding_spans(config: TrimtabConfig, cluster: str) -> Spans | None:
    """Return since when the findings of a cluster hold; ``None`` if that was never stored."""
    from connectors.recording.finding_spans import read_spans  # noqa: PLC0415  # commands must start fast

    return read_spans(config, cluster)


def start_of(config: TrimtabConfig, view: RunView) -> CachedSnapshot | None:
    """Return the saved snapshot at the start of a run; ``None`` if there is none.

    It is the one on which the worker began the run, else the newest one before its first step, if
    that is not much older than the run.

    Args:
        config: The configuration.
    """
    from core.snapshot.store import run_starts  # noqa: PLC0415  # commands must start fast

    moment = began_at(view) + timedelta(milliseconds=1)  # names of snapshots are cut to that
    own = run_starts(config.state_dir).before(view.cluster, moment, 1)
    own = [one for one in own if one.taken_at > view.requested_at]
    saved = snapshot_store(config).before(view.cluster, moment, 1)
    oldest = view.requested_at - START_SLACK
    found = own or [one for one in saved if one.taken_at >= oldest]
    return found[0] if found else None


def max_moves_back(cluster: ClusterConfig, view: RunView) -> int:
    """Return the maximum of moves back that fit into the undo of a run next to its own steps."""
    return max(1, cluster.apply.max_steps - 2 * len(view.steps))


def inverse_plan(
    config: TrimtabConfig, view: RunView, reason: str, *, with_moves: bool
) -> tuple[Plan, str]:
    """Return the plan that undoes a run, on a fresh snapshot, and its effects in a sentence.

    Args:
        config: The configuration.
        reason: Recorded in the plan.
        with_moves: Also move back what was moved since the run began.
    Raises:
        RemoteError: The cluster cannot be read.
    """
    cluster = config.cluster(view.cluster)
    system = system_of(config, cluster)
    saved = start_of(config, view)
    start = None if saved is None else load_saved(config, cluster.name, saved)
    snapshot = snapshot_of(config, cluster)
    plan = system.undo(
        view,
        snapshot,
        now=now(),
        exclusions=frozenset(cluster.exclusions),
        reason=reason,
        start=start,
        max_moves=max_moves_back(cluster, view) if with_moves else 0,
    )
    return plan, system.preview(system.after_run(view, snapshot, start), plan)


def load_saved(config: TrimtabConfig, cluster: str, saved: CachedSnapshot) -> Storable | None:
    """Return a saved snapshot; ``None``: it was removed meanwhile, or cannot be read."""
    try:
        system = system_of(config, config.cluster(cluster))
        storable: Storable = system.record.load(saved.path)
    except SnapshotError:
        return None
    return storable


def target_ratio(config: TrimtabConfig, cluster: ClusterConfig) -> float:
    """Return the deviation from the mean that a cluster may have, as configured or by default."""
    from connectors.systems import target_ratio as configured  # noqa: PLC0415  # the same

    return configured(config, cluster)


def target_of(config: TrimtabConfig, clusters: Iterable[str]) -> float | None:
    """Return the target that some clusters share; ``None``: they share none."""
    from connectors.systems import target_of as configured  # noqa: PLC0415  # the same

    return configured(config, clusters)


def system_of(config: TrimtabConfig, cluster: ClusterConfig) -> KnownSystem:
    """Return the system of a cluster.

    Raises:
        ConfigError: No system has the cluster's kind.
    """
    from connectors.systems import connector_of  # noqa: PLC0415  # commands must start fast

    return connector_of(config, cluster).system


def keep(config: TrimtabConfig, snapshot: Storable) -> CachedSnapshot:
    """Store a snapshot."""
    keep_private(config.state_dir)
    return snapshot_store(config).put(snapshot, config.keep.retention())


def check(config: TrimtabConfig, cluster: ClusterConfig) -> Sequence[CheckResult]:
    """Try every endpoint of a cluster."""
    from connectors.systems import connector_of  # noqa: PLC0415  # commands must start fast

    return connector_of(config, cluster).check(cluster)


def run_collector(
    config: TrimtabConfig,
    clusters: Sequence[ClusterConfig],
    every_s: float,
    stop: threading.Event,
    print_line: Callable[[str], None],
) -> None:
    """Keep snapshots of clusters until ``stop`` is set, or one of the threads is lost."""
    from connectors import logs, memory  # noqa: PLC0415  # commands must start fast
    from connectors.recording import collector as loops  # noqa: PLC0415  # the same

    memory.use_few_pools()
    memory.keep_giving_back()
    memory.collect_garbage_seldom()
    logs.set_up_logging(config.log_format)
    _end_with_threads(stop)
    report = logs.reporter("collector", config.log_format, print_line)
    loops.run_collector(config, clusters, every_s, stop, report)


# -- worker and apply ------------------------------------------------------------------------------


def is_worker_alive(config: TrimtabConfig, cluster: str) -> bool:
    """Return whether a worker said a moment ago that it serves ``cluster``."""
    from connectors.worker.status import read_status  # noqa: PLC0415  # commands must start fast

    status = read_status(config, cluster)
    return status is not None and status.is_alive(now())


def run_worker(
    config: TrimtabConfig,
    clusters: Sequence[ClusterConfig],
    stop: threading.Event,
    print_line: Callable[[str], None],
) -> None:
    """Execute the requests of clusters until ``stop`` is set, or a thread is lost."""
    from connectors import logs, memory  # noqa: PLC0415  # commands must start fast
    from connectors.worker import worker  # noqa: PLC0415  # the same

    memory.use_few_pools()
    memory.keep_giving_back()
    logs.set_up_logging(config.log_format)
    _end_with_threads(stop)
    worker.run_worker(
        config, clusters, stop, logs.reporter("worker", config.log_format, print_line)
    )


def _end_with_threads(stop: threading.Event) -> None:
    """Let a thread that ends by an exception end the process: what runs it starts it again."""

    def lost(failure: threading.ExceptHookArgs) -> None:
        threading.__excepthook__(failure)
        stop.set()

    threading.excepthook = lost


def work_on(
    config: TrimtabConfig,
    cluster: str,
    run_id: str,
    stop: threading.Event,
    print_line: Callable[[str], None],
) -> None:
    """Be the worker of a cluster until one run has ended, or ``stop`` is set."""
    from connectors.worker import worker  # noqa: PLC0415  # commands must start fast

    worker.work_on(
        config, config.cluster(cluster), RunId(run_id), stop, lambda event: print_line(str(event))
    )


def rehearse(config: TrimtabConfig, cluster: str, plan: Plan, options: RunOptions) -> Rehearsal:
    """Return the result of a dry run of a plan; the cluster is read, nothing is changed.

    Raises:
        RemoteError: The cluster or the journal cannot be read.
    """
    from connectors.systems import open_cluster  # noqa: PLC0415  # the same
    from connectors.worker.clock import SystemClock  # noqa: PLC0415  # commands must start fast
    from core.actions.dry_run import rehearse  # noqa: PLC0415  # the same

    spent = journal(config).moves_since(cluster, now() - timedelta(days=1))
    read = open_cluster(config, config.cluster(cluster), journal=journal(config))
    try:
        clock = SystemClock(threading.Event())
        return rehearse(plan, options, cluster=read, clock=clock, moves_spent=spent)
    finally:
        read.close()
