"""The one Spark session of the job server: made at the first Spark job, made again when it died."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("trimtab.jobs")


class WarmSession:
    """Keeps the session of the process.

    Args:
        make: Makes it, or returns the one that there is.
    """

    def __init__(self, make: Callable[[], SparkSession]) -> None:
        self._make = make
        self._is_made = False

    def __call__(self) -> SparkSession:
        """Return a session that answers.

        Raises:
            ConfigError: Spark does not start.
        """
        session = self._make()
        if self._is_made and not _answers(session):
            _log.warning("the Spark session no longer responds; it is restarted")
            self.end()
            session = self._make()
        self._is_made = True
        return session

    def end(self) -> None:
        """End the session, if one was made."""
        if not self._is_made:
            return
        from core.spark import session  # noqa: PLC0415  # no pyspark before the first Spark job

        self._is_made = False
        session.end_session()


def _answers(session: SparkSession) -> bool:
    try:
        return session.range(1).count() == 1
    except Exception:  # noqa: BLE001  # Spark and its gateway raise many kinds: all mean no
        return False
