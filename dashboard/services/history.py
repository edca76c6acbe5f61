"""The composition root's part for the history; see :mod:`dashboard.services`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from dashboard.services import system_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

    from connectors.check import CheckResult
    from connectors.connector import Connector
    from connectors.recording.upkeep import UpkeepResult
    from core.history.queries.point_in_time import PastMinutes
    from core.history.store.store import HistoryStore
    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Cluster, Config

    Checked = CheckResult
    """What commands call it; they import nothing of the connectors."""

PAST_FOLDER = "past"
"""Below the state directory: minutes of the history that pages looked at."""


def history(config: Config) -> HistoryStore:
    """Return the history store of a configuration; nothing is read or written yet."""
    return _store_at(config.history_uri, _frozen(config.history.options), config.connectors)


def past_minutes(config: Config) -> PastMinutes:
    """Return the recorded minutes as snapshot directories."""
    from core.history.queries.point_in_time import PastMinutes  # noqa: PLC0415  # commands must start fast

    return PastMinutes(history(config), config.state_dir / PAST_FOLDER)


def record_stored(config: Config, cluster: Cluster, stored: CachedSnapshot) -> bool:
    """Record a saved snapshot, unless a collector of this state directory records anyway.

    Returns:
        Whether it was recorded.
    Raises:
        SnapshotError: It could not be read, or the history could not be written.
    """
    if not config.history.is_recorded:
        return False
    from connectors.recording.loop import record_once  # noqa: PLC0415  # commands start fast

    record = system_of(config, cluster).record
    return record_once(config, cluster, record.load(stored.path))


def keep_in_order(config: Config, store: HistoryStore, cluster: str) -> UpkeepResult:
    """Compact a cluster's history and delete what is too old or too much.

    Raises:
        HistoryError: It cannot be done, or is being done by a collector right now.
    """
    from connectors.recording import upkeep  # noqa: PLC0415  # commands must start fast

    return upkeep.keep_in_order_alone(config, store, cluster)


def check_history(config: Config) -> CheckResult:
    """Try whether the history can be written and read."""
    from connectors.check import check_history as check  # noqa: PLC0415  # commands start fast

    return check(config)


def check_journal(config: Config) -> CheckResult:
    """Try whether the journal can be read, is sound at its end and agrees with its anchors."""
    from connectors.check import check_journal as check  # noqa: PLC0415  # commands start fast
    from connectors.recording.loop import recorded_entries  # noqa: PLC0415  # the same

    return check(config, lambda: recorded_entries(config))


def _frozen(options: Mapping[str, SecretStr]) -> tuple[tuple[str, SecretStr], ...]:
    return tuple(sorted(options.items(), key=lambda item: item[0]))


@lru_cache(maxsize=8)
def _store_at(
    uri: str, options: tuple[tuple[str, SecretStr], ...], connectors: tuple[Connector, ...]
) -> HistoryStore:
    from core.history.store.layout import Kinds  # noqa: PLC0415  # the same
    from core.history.store.store import (  # noqa: PLC0415  # starts fast
        KINDS,
        HistoryLocation,
        HistoryStore,
    )

    named = {name: secret.get_secret_value() for name, secret in options}
    kinds = Kinds(connector.system.record for connector in connectors) if connectors else KINDS
    return HistoryStore(HistoryLocation(uri, named, kinds))
