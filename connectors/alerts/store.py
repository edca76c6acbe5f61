"""Alerts and silences in the journal's database, so that a restart tells nothing twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from connectors.journal.engine import Database
from connectors.journal.errors import translated
from core.alerts.model import Alert, AlertChange, AlertKey, Silence
from core.alerts.thresholds import ThresholdChange
from core.errors import InputError, UnknownNameError
from core.units import datetime_to_ms, ms_to_datetime, one_line

METADATA: Final = sa.MetaData()
_SUBJECT: Final = 255

ALERTS: Final = sa.Table(
    "trimtab_alerts",
    METADATA,
    sa.Column("rule", sa.String(64), primary_key=True),
    sa.Column("cluster", sa.String(64), primary_key=True),
    sa.Column("subject", sa.String(_SUBJECT), primary_key=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("severity", sa.String(16), nullable=False),
    sa.Column("sentence", sa.Text, nullable=False),
    sa.Column("hint", sa.Text, nullable=False),
    sa.Column("since_ms", sa.BigInteger, nullable=False),  # milliseconds since 1970, all of these
    sa.Column("told_ms", sa.BigInteger),
    sa.Column("ended_ms", sa.BigInteger),
    sa.Column("measured", sa.Text),  # null: stored before the column was there
    sa.Column("bound", sa.Text),
)

CHANGES: Final = sa.Table(
    "trimtab_alert_changes",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("rule", sa.String(64), nullable=False),
    sa.Column("cluster", sa.String(64), nullable=False),
    sa.Column("subject", sa.String(_SUBJECT), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("severity", sa.String(16), nullable=False),
    sa.Column("sentence", sa.Text, nullable=False),
    sa.Index("trimtab_alert_changes_of_cluster", "cluster", "at_ms"),
)
"""Alerts that began to fire or were resolved, for as long as the history is stored."""

SILENCES: Final = sa.Table(
    "trimtab_silences",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("rule", sa.String(64), nullable=False),
    sa.Column("cluster", sa.String(64), nullable=False),
    sa.Column("subject", sa.String(_SUBJECT), nullable=False),
    sa.Column("until_ms", sa.BigInteger, nullable=False),
    sa.Column("person", sa.String(255), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
)

THRESHOLDS: Final = sa.Table(
    "trimtab_alert_thresholds",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("field", sa.String(64), nullable=False),
    sa.Column("value", sa.Float),  # null: as configured again
    sa.Column("person", sa.String(255), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
)
"""Every change of a threshold; none is ever deleted, the latest of a field is in effect."""


class AlertStore:
    """Storage of alerts and silences.

    Args:
        database: The journal's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        database.add_tables(METADATA)

    def alerts(self) -> dict[AlertKey, Alert]:
        """Return the alerts by key.

        Raises:
            RemoteError: The database cannot be read.
        """
        with self._database.reading("read alerts") as connection:
            rows = connection.execute(sa.select(ALERTS)).mappings().all()
        return {alert.key: alert for alert in map(_alert, rows)}

    def save(
        self,
        before: Mapping[AlertKey, Alert],
        after: Mapping[AlertKey, Alert],
        now: datetime,
        stored_for: timedelta = timedelta(days=90),
    ) -> None:
        """Store what changed between two looks, as one change.

        Args:
            before: The alerts as they are stored.
            after: The alerts as they are to be.
            now: The moment of the look, aware UTC.
            stored_for: Changes that are older are dropped.

        Raises:
            RemoteError: The database cannot be written.
        """
        gone = [key for key in before if key not in after]
        changed = [alert for key, alert in after.items() if before.get(key) != alert]
        if not gone and not changed:
            return
        with translated(self._database.place, "write alerts"), self._database.writing() as writer:
            for key in (*gone, *(alert.key for alert in changed)):
                writer.execute(
                    ALERTS.delete().where(
                        ALERTS.c.rule == key.rule,
                        ALERTS.c.cluster == key.cluster,
                        ALERTS.c.subject == key.subject[:_SUBJECT],
                    )
                )
            for alert in changed:
                writer.execute(ALERTS.insert().values(_row(alert)))
            turned = [one for one in changed if _has_turned(before.get(one.key), one)]
            for alert in turned:
                writer.execute(CHANGES.insert().values(_change_row(alert, now)))
            if turned:
                too_old = datetime_to_ms(now - stored_for)
                writer.execute(CHANGES.delete().where(CHANGES.c.at_ms < too_old))

    def changes(self, cluster: str, since: datetime, until: datetime) -> list[AlertChange]:
        """Return the alerts of a cluster that began or ended in a time, the newest first.

        Raises:
            RemoteError: The database cannot be read.
        """
        query = sa.select(CHANGES).where(
            CHANGES.c.cluster == cluster,
            CHANGES.c.at_ms >= datetime_to_ms(since),
            CHANGES.c.at_ms <= datetime_to_ms(until),
        )
        with self._database.reading("read alerts") as connection:
            rows = connection.execute(query.order_by(CHANGES.c.number.desc())).mappings().all()
        return [
            AlertChange(
                at=ms_to_datetime(row["at_ms"]),
                key=AlertKey(row["rule"], row["cluster"], row["subject"]),
                state=row["state"],
                severity=row["severity"],
                sentence=row["sentence"],
            )
            for row in rows
        ]

    def silences(self, now: datetime) -> list[Silence]:
        """Return the silences in force.

        Raises:
            RemoteError: The database cannot be read.
        """
        query = sa.select(SILENCES).where(SILENCES.c.until_ms > datetime_to_ms(now))
        with self._database.reading("read silences") as connection:
            rows = connection.execute(query.order_by(SILENCES.c.number)).mappings().all()
        return [
            Silence(
                number=row["number"],
                rule=row["rule"],
                cluster=row["cluster"],
                subject=row["subject"],
                until=ms_to_datetime(row["until_ms"]),
                by=row["person"],
                reason=row["reason"],
            )
            for row in rows
        ]

    def silence(self, wanted: Silence) -> int:
        """Silence alerts; return the number of the silence.

        Raises:
            InputError: No reason.
            RemoteError: The database cannot be written.
        """
        reason = one_line(wanted.reason)
        if not reason:
            raise InputError("A silence needs a reason.", hint="Enter a reason; it is recorded.")
        row = {
            "rule": wanted.rule,
            "cluster": wanted.cluster,
            "subject": wanted.subject,
            "until_ms": datetime_to_ms(wanted.until),
            "person": wanted.by,
            "reason": reason[:2_000],
        }
        with translated(self._database.place, "silence"), self._database.writing() as writer:
            made = writer.execute(SILENCES.insert().values(row)).inserted_primary_key
        return int(made[0]) if made else 0

    def threshold_changes(self) -> list[ThresholdChange]:
        """Return every change of a threshold, the oldest first.

        Raises:
            RemoteError: The database cannot be read.
        """
        with self._database.reading("read alert thresholds") as connection:
            query = sa.select(THRESHOLDS).order_by(THRESHOLDS.c.number)
            rows = connection.execute(query).mappings().all()
        return [
            ThresholdChange(
                at=ms_to_datetime(row["at_ms"]),
                field=row["field"],
                value=row["value"],
                by=row["person"],
                reason=row["reason"],
            )
            for row in rows
        ]

    def change_thresholds(self, changes: Iterable[ThresholdChange]) -> None:
        """Record changes of thresholds; they are in effect from the next look on.

        Raises:
            InputError: No reason.
            RemoteError: The database cannot be written.
        """
        rows = [
            {
                "at_ms": datetime_to_ms(one.at),
                "field": one.field,
                "value": one.value,
                "person": one.by,
                "reason": one_line(one.reason)[:2_000],
            }
            for one in changes
        ]
        if not all(row["reason"] for row in rows):
            raise InputError("A change of thresholds needs a reason.", hint="Use --reason.")
        place = self._database.place
        with translated(place, "change thresholds"), self._database.writing() as writer:
            for row in rows:
                writer.execute(THRESHOLDS.insert().values(row))

    def end_silence(self, number: int) -> None:
        """End a silence.

        Raises:
            UnknownNameError: There is none of that number.
            RemoteError: The database cannot be written.
        """
        with translated(self._database.place, "end a silence"), self._database.writing() as writer:
            done = writer.execute(SILENCES.delete().where(SILENCES.c.number == number))
        if not done.rowcount:
            raise UnknownNameError.of("silence", str(number), (), place="the database")


def counted(alerts: Iterable[Alert], silences: Iterable[Silence], now: datetime) -> dict[str, int]:
    """Return the number of alerts per state, with silenced ones separate."""
    quiet = tuple(silences)
    found = {"pending": 0, "firing": 0, "silenced": 0, "resolved": 0}
    for alert in alerts:
        is_quiet = alert.state == "firing" and any(one.covers(alert, now) for one in quiet)
        found["silenced" if is_quiet else alert.state] += 1
    return found


def _alert(row: Any) -> Alert:
    return Alert(
        key=AlertKey(row["rule"], row["cluster"], row["subject"]),
        state=row["state"],
        severity=row["severity"],
        sentence=row["sentence"],
        hint=row["hint"],
        since=ms_to_datetime(row["since_ms"]),
        told_at=None if row["told_ms"] is None else ms_to_datetime(row["told_ms"]),
        ended_at=None if row["ended_ms"] is None else ms_to_datetime(row["ended_ms"]),
        measured=row["measured"] or "",
        limit=row["bound"] or "",
    )


def _has_turned(before: Alert | None, after: Alert) -> bool:
    """Return whether an alert started firing, or was resolved."""
    was = before.state if before is not None else ""
    return was != after.state and (
        after.state == "firing" or (after.state == "resolved" and was == "firing")
    )


def _change_row(alert: Alert, now: datetime) -> dict[str, Any]:
    return {
        "at_ms": datetime_to_ms(now),
        "rule": alert.key.rule,
        "cluster": alert.key.cluster,
        "subject": alert.key.subject[:_SUBJECT],
        "state": alert.state,
        "severity": alert.severity,
        "sentence": alert.sentence,
    }


def _row(alert: Alert) -> dict[str, Any]:
    return {
        "rule": alert.key.rule,
        "cluster": alert.key.cluster,
        "subject": alert.key.subject[:_SUBJECT],
        "state": alert.state,
        "severity": alert.severity,
        "sentence": alert.sentence,
        "hint": alert.hint,
        "since_ms": datetime_to_ms(alert.since),
        "told_ms": None if alert.told_at is None else datetime_to_ms(alert.told_at),
        "ended_ms": None if alert.ended_at is None else datetime_to_ms(alert.ended_at),
        "measured": alert.measured,
        "bound": alert.limit,
    }
