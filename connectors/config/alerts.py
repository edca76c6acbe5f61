"""Configuration section of alerts: limits, and who is told."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pydantic import Field, SecretStr, field_validator, model_validator

from connectors.config.credentials import Strict, read_secret
from core.alerts.model import Limits, Severity

_SEVERITIES: Final = ("info", "warning", "critical")


class TargetConfig(Strict):
    """Notification target.

    Attributes:
        name: For people and commands.
        url: Address in the form of Apprise: ``json://host/path`` is a webhook, ``slack://``,
            ``pagerduty://``, ``mailto://`` and a hundred others; most hold a secret.
        url_file: The same in a file.
        clusters: Names or patterns.
        severity: The least urgent that is told.
    """

    name: str = Field(min_length=1, max_length=64)
    url: SecretStr | None = None
    url_file: Path | None = None
    clusters: list[str] = Field(default=["*"], min_length=1)
    severity: Severity = "info"

    @model_validator(mode="after")
    def _one_address(self) -> TargetConfig:
        if (self.url is None) == (self.url_file is None):
            raise ValueError(f"target {self.name} needs either url or url_file")
        return self

    def read_url(self) -> str:
        """Return the address, read again from its file.

        Raises:
            ConfigError: The file cannot be read or is empty.
        """
        return read_secret(self.url, self.url_file, "url_file")

    def wants(self, cluster: str, severity: Severity) -> bool:
        """Return whether the target receives an alert of a cluster."""
        is_urgent = _SEVERITIES.index(severity) >= _SEVERITIES.index(self.severity)
        return is_urgent and any(fnmatchcase(cluster, one) for one in self.clusters)


class Alerts(Strict):
    """Alert settings; see :class:`core.alerts.model.Limits` for the limits.

    Attributes:
        every_s: Seconds between two looks.
        repeat_hours: After so long a firing alert is told again.
        targets: Who is told; without any, alerts are shown only.
    """

    every_s: float = Field(default=15.0, ge=1, le=3_600)
    repeat_hours: float = Field(default=4.0, gt=0)
    deviation_ratio: float | None = Field(default=None, gt=0)
    deviation_min: float = Field(default=30.0, ge=0)
    unhealthy_min: float = Field(default=10.0, ge=0)
    error_min: float = Field(default=0.0, ge=0)
    lively_min: float = Field(default=120.0, ge=0)
    stale_min: float = Field(default=5.0, gt=0)
    returned_per_hour: int = Field(default=5, ge=0)
    drift_min: float = Field(default=30.0, ge=0)
    waiting_min: float = Field(default=10.0, ge=0)
    pipeline_lag_min: float = Field(default=180.0, gt=0)
    targets: list[TargetConfig] = Field(default_factory=list)

    @field_validator("targets")
    @classmethod
    def _distinct(cls, targets: list[TargetConfig]) -> list[TargetConfig]:
        names = [one.name for one in targets]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two targets are named {min(twice)}")
        return targets

    def limits(self) -> Limits:
        """Return the limits in the form that the rules take."""
        return Limits(
            deviation_ratio=self.deviation_ratio,
            deviation_min=self.deviation_min,
            unhealthy_min=self.unhealthy_min,
            error_min=self.error_min,
            lively_min=self.lively_min,
            stale_min=self.stale_min,
            returned_per_hour=self.returned_per_hour,
            drift_min=self.drift_min,
            waiting_min=self.waiting_min,
            pipeline_lag_min=self.pipeline_lag_min,
        )
