"""Where the metrics of a Pulsar cluster's brokers are read from."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from connectors.config.credentials import Auth, Strict, Tls

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")


class Prometheus(Strict):
    """A Prometheus server that scrapes the brokers, or their own ``/metrics`` without one.

    Attributes:
        url: ``http(s)://host:port``, with the path prefix of a proxy where there is one.
        scrape: Whether the brokers' own ``/metrics/`` is read, with the cluster's credentials.
        auth: How to prove who we are to the server.
        tls: Towards the server.
        labels: What the series of this cluster carry, where the server knows several clusters.
        broker_label: The label that tells brokers apart: its value is the broker's address or name.
        timeout_s: For all questions of one capture together.
        window_s: Over which counters become rates; at least two scrapes of the server must fit.
        sample_s: Between the two readings of ``/metrics`` that give the first capture its rates.
        has_bundles: Whether the rates of bundles are read, where brokers expose them.
    """

    url: str | None = None
    scrape: bool = False
    auth: Auth = Auth()
    tls: Tls = Tls()
    labels: dict[str, str] = Field(default_factory=dict)
    broker_label: str = "instance"
    timeout_s: float = Field(default=10.0, gt=0, le=300)
    window_s: int = Field(default=300, ge=10, le=86_400)
    sample_s: float = Field(default=2.0, ge=0.1, le=60)
    has_bundles: bool = True

    @field_validator("url")
    @classmethod
    def _address(cls, text: str | None) -> str | None:
        if text is None:
            return None
        parts = urlsplit(text)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(
                "a Prometheus URL must have the form http://host:port or https://host:port/prefix"
            )
        if parts.username or parts.password:
            raise ValueError(
                "set user and password under [clusters.prometheus.auth], not in the URL"
            )
        if parts.query or parts.fragment or "/api/v1" in parts.path:
            raise ValueError("use only the server's address, without /api/v1 and without a query")
        return text.rstrip("/")

    @field_validator("broker_label")
    @classmethod
    def _label(cls, name: str) -> str:
        if not _LABEL.match(name):
            raise ValueError(
                "a label name has letters, digits and underscores, and does not start with a digit"
            )
        return name

    @field_validator("labels")
    @classmethod
    def _labels(cls, labels: dict[str, str]) -> dict[str, str]:
        for name in labels:
            cls._label(name)
        return labels

    @model_validator(mode="after")
    def _one_source(self) -> Prometheus:
        if (self.url is None) != self.scrape:
            raise ValueError("set either url (a Prometheus server) or scrape = true")
        if self.scrape and (self.auth != Auth() or self.tls != Tls() or self.labels):
            raise ValueError("scrape reads the brokers and takes no auth, tls or labels")
        return self
