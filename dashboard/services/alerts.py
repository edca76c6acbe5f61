"""The composition root's part for alerts; see :mod:`dashboard.services`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from core.access import Identity, Role
from core.alerts.model import Alert, AlertChange, Limits, Silence
from core.alerts.thresholds import ThresholdChange, effective
from core.errors import ConfigError, UnknownNameError
from core.units import datetime_to_ms
from dashboard import services
from dashboard.services import history

if TYPE_CHECKING:
    import pyarrow as pa

    from connectors.alerts.store import AlertStore
    from connectors.journal.journal import SqlJournal
    from core.snapshot.store import Storable
    from dashboard.services import Config


_SETTLED_S: Final = 60.0
"""So long after a commit of events they are read again each time."""


def store(config: Config) -> AlertStore:
    """Return the location of alerts and silences.

    Raises:
        RemoteError: The journal's database cannot be used.
    """
    return _store_of(services.journal(config))


@lru_cache(maxsize=4)
def _store_of(journal: SqlJournal) -> AlertStore:
    from connectors.alerts.store import AlertStore  # noqa: PLC0415  # commands must start fast

    return AlertStore(journal.database)


def current(config: Config) -> tuple[list[Alert], list[Silence]]:
    """Return the alerts of the configured clusters, the most urgent first, and the silences.

    A silence that fits other clusters of the file, and none of these, is left out.

    Raises:
        RemoteError: The database cannot be read.
    """
    names = {cluster.name for cluster in config.clusters}
    now = services.now()
    alerts, silences = services.journal(config).database.recent("alerts", partial(_read, config))
    found = [alert for alert in alerts if alert.key.cluster in names]
    in_force = [one for one in silences if now < one.until]
    kept = [one for one in in_force if _fits(one, names) or not _is_hidden(config, one)]
    return sorted(found, key=_place), kept


def _read(config: Config) -> tuple[list[Alert], list[Silence]]:
    return list(store(config).alerts().values()), store(config).silences(services.now())


def _is_hidden(config: Config, silence: Silence) -> bool:
    """Whether a silence fits a cluster that the person may not see."""
    try:
        every = services.whole_config(config).clusters
    except ConfigError:  # the file is being changed: what is not known to be visible is hidden
        return True
    names = {cluster.name for cluster in config.clusters}
    return _fits(silence, {one.name for one in every} - names)


def _fits(silence: Silence, names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, silence.cluster) for name in names)


def changes(config: Config, cluster: str, since: datetime, until: datetime) -> list[AlertChange]:
    """Return the alerts of a cluster that began or ended in a time, the newest first.

    Raises:
        RemoteError: The database cannot be read.
    """
    return store(config).changes(cluster, since, until)


def _place(alert: Alert) -> tuple[int, int, float]:
    states, severities = ("firing", "pending", "resolved"), ("critical", "warning", "info")
    return (
        states.index(alert.state),
        severities.index(alert.severity),
        -alert.since.timestamp(),
    )


def counts(config: Config) -> dict[str, int]:
    """Return the number of alerts by state.

    Raises:
        RemoteError: The database cannot be read.
    """
    from connectors.alerts.store import counted  # noqa: PLC0415  # commands must start fast

    alerts, silences = current(config)
    return counted(alerts, silences, services.now())


def firing(config: Config) -> list[Alert]:
    """Return the alerts that fire and are not silenced, the most urgent first.

    Raises:
        RemoteError: The database cannot be read.
    """
    alerts, silences = current(config)
    now = services.now()
    return [
        alert
        for alert in alerts
        if alert.state == "firing" and not any(quiet.covers(alert, now) for quiet in silences)
    ]


def unread(config: Config) -> list[str]:
    """Return the clusters without a snapshot, whose alerts are unknown."""
    snapshots, now = services.snapshot_store(config), services.now()
    return [one.name for one in config.clusters if snapshots.latest(one.name, now) is None]


def silence(
    config: Config,
    rule: str,
    cluster: str,
    subject: str,
    length: timedelta,
    by: Identity,
    reason: str,
) -> int:
    """Silence alerts for a while; return the number of the silence.

    Raises:
        ForbiddenError: The person is not operator of the cluster, or of all that a pattern fits.
        InputError: No reason.
        RemoteError: The database cannot be written.
    """
    _check(config, by, cluster, "silence alerts")
    wanted = Silence(
        number=0,
        rule=rule,
        cluster=cluster,
        subject=subject,
        until=services.now() + length,
        by=by.name,
        reason=reason,
    )
    return store(config).silence(wanted)


def end_silence(config: Config, number: int, by: Identity) -> None:
    """End a silence.

    Raises:
        ForbiddenError: The person is not operator of its cluster, or of all that its pattern fits.
        UnknownNameError: There is none of that number.
        RemoteError: The database cannot be written.
    """
    known = {one.number: one for one in store(config).silences(services.now())}
    if number not in known:
        raise UnknownNameError.of("silence", str(number), map(str, known), place="the database")
    _check(config, by, known[number].cluster, "end silences")
    store(config).end_silence(number)


def limits(config: Config) -> Limits:
    """Return the active limits: as configured, with later changes by people.

    Raises:
        RemoteError: The database cannot be read.
    """
    return effective(config.alerts.limits(), threshold_changes(config))


def threshold_changes(config: Config) -> list[ThresholdChange]:
    """Return every change of a threshold, the oldest first.

    Raises:
        RemoteError: The database cannot be read.
    """
    return store(config).threshold_changes()


def preview_thresholds(config: Config, values: Mapping[str, float | None]) -> Limits:
    """Return the limits after a change, which is not made.

    Args:
        config: The configuration.
        values: By field; ``None``: as configured again.
    Raises:
        RemoteError: The database cannot be read.
    """
    now = services.now()
    wanted = [
        ThresholdChange(at=now, field=name, value=value, by="", reason="")
        for name, value in values.items()
    ]
    return effective(config.alerts.limits(), [*threshold_changes(config), *wanted])


def change_thresholds(
    config: Config, values: Mapping[str, float | None], by: Identity, reason: str
) -> None:
    """Change thresholds of alerts for every cluster; author, time and reason are recorded.

    Args:
        config: The configuration.
        values: By field; ``None``: as configured again.
        by: Who.
        reason: Why.
    Raises:
        ForbiddenError: The person is not admin of every cluster.
        InputError: No reason.
        RemoteError: The database cannot be written.
    """
    _check(config, by, "*", "change alert thresholds", role="admin")
    now = services.now()
    store(config).change_thresholds(
        ThresholdChange(at=now, field=name, value=value, by=by.name, reason=reason)
        for name, value in values.items()
    )


def _check(
    config: Config, by: Identity, pattern: str, action: str, *, role: Role = "operator"
) -> None:
    """Check that a person has a role on the cluster, or on all clusters, that a pattern fits.

    A pattern also fits clusters of later, so a grant has to fit the pattern itself.

    Raises:
        ForbiddenError: The person is not.
    """
    rules = config.access.rules()
    rules.check(by, role, pattern, action)
    for cluster in services.whole_config(config).clusters:
        if fnmatchcase(cluster.name, pattern):
            rules.check(by, role, cluster.name, action)


def send_test(config: Config, name: str, by: Identity) -> None:
    """Send a test message to a target.

    Raises:
        ForbiddenError: The person is operator of no cluster.
        UnknownNameError: There is no such target.
        InputError: Its address is none that can be sent to.
        UnreachableError: It did not take the message.
    """
    from connectors.alerts.targets import send  # noqa: PLC0415  # commands must start fast

    config.access.rules().check(by, "operator", None, "send test alerts")
    targets = {target.name: target for target in config.alerts.targets}
    if name not in targets:
        raise UnknownNameError.of("target", name, targets, place="the configuration")
    text = f"Test by {by.name}: this target receives alerts from Trimtab."
    send(targets[name], "[test] Trimtab", text)


def run_watch(
    config: Config, stop: threading.Event, report: Callable[[str], None]
) -> threading.Thread:
    """Start looking at the clusters and telling people, until ``stop`` is set."""
    from connectors.alerts.watch import watch  # noqa: PLC0415  # commands must start fast

    thread = threading.Thread(
        target=watch, args=(config, _History(config), stop, report), name="alerts"
    )
    thread.start()
    return thread


def _events(config: Config, cluster: str, since: datetime) -> pa.Table:
    from core.history.analysis.flaps.flaps import EVENT_COLUMNS  # noqa: PLC0415  # heavy: not at start

    return history.history(config).rows(
        "events", cluster, since, services.now(), columns=EVENT_COLUMNS
    )


def _flap_count(events: pa.Table) -> int:
    from core.history.analysis.flaps.flaps import flaps_of  # noqa: PLC0415  # heavy: not at start
    from core.history.analysis.requests import FlapsRequest  # noqa: PLC0415  # the same
    from core.history.analysis.trends.trends import NO_MINUTES  # noqa: PLC0415  # the same

    return int(flaps_of(events, NO_MINUTES, FlapsRequest())["flaps"].num_rows)


class _History:
    """Reads the recorded history for the alerts.

    The events are read again when some came, which is seldom: that is two scans of the history.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: dict[str, tuple[int, float, pa.Table]] = {}

    def first_minute(self, cluster: str) -> datetime | None:
        """Return the first recorded minute; ``None`` if there is none."""
        span = history.history(self._config).span(cluster)
        return None if span is None else span[0]

    def snapshot_at(self, cluster: str, moment: datetime) -> Storable:
        """Return the newest snapshot that was recorded at or before a moment."""
        return history.history(self._config).snapshot_at(cluster, moment)

    def returned_since(self, cluster: str, since: datetime) -> int:
        """Return the moves since a moment that went back to a server that was left before.

        Raises:
            OpsError: The history cannot be read.
        """
        import pyarrow.compute as pc  # noqa: PLC0415  # heavy: not at start

        table = history.history(self._config).tables.table("events")
        version, now_s = -1 if table is None else table.version(), monotonic()
        known = self._known.get(cluster)
        # events count from the commit of their minute on, which comes a moment after their own
        if known is None or known[0] != version or now_s - known[1] < _SETTLED_S:
            first_s = now_s if known is None or known[0] != version else known[1]
            self._known.pop(cluster, None)
            known = version, first_s, _events(self._config, cluster, since)
            self._known[cluster] = known
        rows = known[2]
        return _flap_count(rows.filter(pc.greater_equal(rows["taken_at"], datetime_to_ms(since))))
