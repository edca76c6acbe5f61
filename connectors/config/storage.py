"""Configuration sections of snapshots, history, audit, Spark and pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, SecretStr, field_validator

from connectors.config.credentials import Strict

if TYPE_CHECKING:
    from core.snapshot.store import Retention

_POLICIES: Final = ("app", "cluster")
_HOST: Final = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?\Z")


class Pages(Strict):
    """Access of browsers to the pages.

    Attributes:
        allowed_hosts: ``host`` or ``host:port`` of a proxy, as browsers name it; the names of
            loopback are always allowed.
        address: On which the pages are served; other than loopback only with sign-in.
    """

    allowed_hosts: list[str] = Field(default_factory=list)
    address: str = "127.0.0.1"

    @field_validator("allowed_hosts")
    @classmethod
    def _plain_names(cls, hosts: list[str]) -> list[str]:
        for host in hosts:
            if not _HOST.match(host):
                raise ValueError(
                    "each entry of allowed_hosts must have the form host or "
                    "host:port, without wildcards"
                )
        return hosts


class SnapshotRetention(Strict):
    """Number of recent snapshots of a cluster kept on disk (always at least the newest)."""

    max_count: int = Field(default=1_500, ge=2)
    max_age_s: float = Field(default=86_400.0, gt=0)
    max_bytes: int = Field(default=2 * 1024**3, gt=0)

    def retention(self) -> Retention:
        """Return it in the form the snapshot store takes."""
        from core.snapshot.store import Retention  # noqa: PLC0415  # pyarrow: a supervisor needs none

        return Retention(
            max_count=self.max_count, max_age_s=self.max_age_s, max_bytes=self.max_bytes
        )


class Audit(Strict):
    """Detection of a rewritten or truncated journal, and retention of its entries.

    Attributes:
        anchor_file: The worker appends the hash of the journal's end to it, signed; it belongs
            where whoever can write the journal cannot write. Without it no anchors are written.
        anchor_every_min: Minutes between two anchors, while the journal grows.
        keep_days: Days after which ``trimtab archive`` may move entries to a file; nothing else
            removes any. Without it they stay for ever.
    """

    anchor_file: Path | None = None
    anchor_every_min: float = Field(default=10.0, gt=0)
    keep_days: float | None = Field(default=None, ge=30)  # plans and moves of the day are long over


class Spark(Strict):
    """Options of Spark; see :class:`core.spark.session.SparkOptions`."""

    master: str = "local[*]"
    conf: dict[str, str] = Field(default_factory=dict)


class History(Strict):
    """Recording and retention of the history.

    Attributes:
        is_recorded: Whether collectors record what they see.
        uri: A directory, or any address for Delta tables (``s3://bucket/folder``,
            ``hdfs://...``); by default ``history`` in the state directory.
        options: Storage options of that address, by their own names (``AWS_REGION`` ...).
        max_age_days: Older days are dropped.
        max_bytes: The oldest days are dropped until the rest of a cluster's history is smaller.
        compact_every_min: Minutes between two turns of putting small files together.
        shadow: Shedding strategies that are computed at every snapshot, next to the configured one;
            of Pegasus clusters ``app`` and ``cluster``, the balancer's policies.
        every_s: Snapshots without an event are recorded at this interval, by default ``minute_s``;
            those with an event always.
        minute_s: Seconds that settings in minutes count as one: 60 but for a sandbox whose time
            is compressed.
    """

    is_recorded: bool = True
    uri: str | None = None
    options: dict[str, SecretStr] = Field(default_factory=dict)
    max_age_days: float = Field(default=90.0, gt=0)
    max_bytes: int = Field(default=50 * 1024**3, gt=0)
    compact_every_min: float = Field(default=60.0, gt=0)
    shadow: list[str] = Field(default_factory=list)
    every_s: float | None = Field(default=None, ge=0)
    minute_s: float = Field(default=60.0, gt=0)

    @property
    def interval_s(self) -> float:
        """Seconds between two recorded snapshots without an event."""
        return self.minute_s if self.every_s is None else self.every_s

    @field_validator("shadow")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        if not names:
            return names
        from core.pulsar.shedding import SHEDDING_STRATEGY_NAMES  # noqa: PLC0415  # commands must start fast

        known = {*SHEDDING_STRATEGY_NAMES, *_POLICIES}
        if unknown := [name for name in names if name not in known]:
            raise ValueError(
                f"no strategy named {unknown[0]!r}; available: {', '.join(sorted(known))}"
            )
        return names


class Pipeline(Strict):
    """Hours and days that are made of the recorded minutes.

    Attributes:
        is_enabled: Whether collectors roll up the minutes of their clusters, before old ones are
            dropped.
        engine: Of ``trimtab pipeline`` and its job. ``auto``: Spark if a Spark cluster is
            configured and the minutes to read are large, see
            :func:`core.history.tiers.pipeline.is_for_spark`. With ``spark``, collectors do not roll
            up.
        hours_max_age_days: Older hours are dropped, if the days have them; days never.
    """

    is_enabled: bool = True
    engine: Literal["auto", "local", "spark"] = "auto"
    hours_max_age_days: float = Field(default=400.0, gt=1)
