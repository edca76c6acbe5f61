"""Does a configuration work? What was tried, and the remedy of each fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connectors.config.model import TrimtabConfig
from core.errors import OpsError


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One thing that was tried.

    Attributes:
        what: What was tried, with its address.
        ok: Whether it works.
        detail: What was found, or what is wrong.
        remedy: What to do about it; empty when it works.
    """

    what: str
    ok: bool
    detail: str
    remedy: str = ""


def fault(what: str, exc: OpsError) -> CheckResult:
    """Return the result of something that does not work."""
    return CheckResult(
        what=what,
        ok=False,
        detail=exc.message,
        remedy=exc.hint or "See its log, then run `trimtab check` again.",
    )


def check_history(config: TrimtabConfig) -> CheckResult:
    """Try whether what collectors see can be recorded and read again; never raises."""
    what = f"History {config.history_uri}"
    if not config.history.is_recorded:
        return CheckResult(what=what, ok=True, detail="Recording is off ([history] is_recorded).")
    from core.history.store.probe import probe  # noqa: PLC0415  # only this needs its libraries
    from core.history.store.store import HistoryLocation  # noqa: PLC0415  # the same

    options = {name: secret.get_secret_value() for name, secret in config.history.options.items()}
    try:
        probe(HistoryLocation(config.history_uri, options))
    except OpsError as exc:
        return fault(what, exc)
    return CheckResult(what=what, ok=True, detail="Readable and writable.")


def check_journal(config: TrimtabConfig, recorded: Callable[[], Mapping[int, str]]) -> CheckResult:
    """Try whether the journal can be read, its end is sound and its anchors agree; never raises.

    Args:
        config: Where it is.
        recorded: Returns the entries that the history has recorded, by place their runs; called
            when the journal is empty.
    """
    from connectors.access.key import installation_key  # noqa: PLC0415  # commands must start fast
    from connectors.journal.anchor import add_anchor, read_anchors  # noqa: PLC0415  # the same
    from connectors.journal.journal import SqlJournal  # noqa: PLC0415  # the same

    what = "Journal"
    file = config.audit.anchor_file
    try:
        journal = SqlJournal(config.journal_address)
        try:
            what = f"Journal {journal.place}"
            damage, lost = journal.recent_damage(), ""
            if journal.newest()[0] == 0:  # of a new installation, or lost
                lost = journal.verify(recorded=recorded()).lost
            if file is not None:
                key = installation_key(config.access)
                add_anchor(file, journal, key)
                anchors = len(read_anchors(file, key))
        finally:
            journal.close()
    except OpsError as exc:
        return fault(what, exc)
    if lost:
        remedy = "Stop every Trimtab process and restore the journal from a copy."
        return CheckResult(what=what, ok=False, detail=lost, remedy=remedy)
    if damage is not None:
        return CheckResult(
            what=what,
            ok=False,
            detail=f"Entry {damage.seq} was altered: {damage.what}",
            remedy="Run `trimtab runs --verify` and restore the journal from a copy.",
        )
    if file is None:
        detail = "Readable. No anchors are written (anchor_file under [audit])."
    else:
        detail = f"Readable; anchors in {file}: {anchors}."
    return CheckResult(what=what, ok=True, detail=detail)
