"""Load reports of modular brokers, decoded straight into arrays.

Source:
    Pulsar ``LocalBrokerData``, ``NamespaceBundleStats``.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.pulsar.load import WEIGHED

Floats = NDArray[np.float64]

RATES: Final = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
"""Rows of every array of rates here, msg/s and bytes/s."""


class _Usage(msgspec.Struct, frozen=True, gc=False):
    usage: float = 0.0
    limit: float = 0.0


class _Stats(msgspec.Struct, rename="camel", gc=False):
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    topics: int = 0


class Report(msgspec.Struct, rename="camel", gc=False):
    """A load report as used by the leader; ``last_stats`` is emptied by :func:`rates_of`."""

    web_service_url: str | None = None
    web_service_url_tls: str | None = None
    pulsar_service_url: str | None = None
    pulsar_service_url_tls: str | None = None
    persistent_topics_enabled: bool = True
    non_persistent_topics_enabled: bool = True
    cpu: _Usage = _Usage()
    memory: _Usage = _Usage()
    direct_memory: _Usage = _Usage()
    bandwidth_in: _Usage = _Usage()
    bandwidth_out: _Usage = _Usage()
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    last_update: int = 0
    last_stats: dict[str, _Stats] = {}
    num_topics: int = 0
    num_bundles: int = 0
    broker_version_string: str | None = None
    load_manager_class_name: str | None = None

    @property
    def usages(self) -> list[float]:
        """Usage and limit of each of :data:`core.pulsar.load.WEIGHED`, in turn."""
        parts = (getattr(self, name) for name in WEIGHED)
        return [value for part in parts for value in (part.usage, part.limit)]


class _Averages(msgspec.Struct, frozen=True, rename="camel", gc=False):
    num_samples: int = 0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0

    @property
    def rates(self) -> tuple[float, ...]:
        return (
            self.msg_rate_in,
            self.msg_rate_out,
            self.msg_throughput_in,
            self.msg_throughput_out,
        )


class BundleData(msgspec.Struct, rename="camel", gc=False):
    """A ``bundle-data`` znode."""

    short_term_data: _Averages = _Averages()
    long_term_data: _Averages = _Averages()

    @property
    def samples(self) -> tuple[int, int]:
        """Samples in the short and in the long average."""
        return self.short_term_data.num_samples, self.long_term_data.num_samples

    @property
    def rates(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Both averages in the order of :data:`RATES`."""
        return self.short_term_data.rates, self.long_term_data.rates


class Quota(msgspec.Struct, rename="camel", gc=False):
    """A ``resource-quota`` znode."""

    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    bandwidth_in: float = 0.0
    bandwidth_out: float = 0.0

    @property
    def rates(self) -> tuple[float, ...]:
        """In the order of :data:`RATES`."""
        return self.msg_rate_in, self.msg_rate_out, self.bandwidth_in, self.bandwidth_out


_REPORT: Final = msgspec.json.Decoder(Report)
_BUNDLE_DATA: Final = msgspec.json.Decoder(BundleData)
_QUOTA: Final = msgspec.json.Decoder(Quota)


def decode_report(text: str) -> Report:
    """Return a report.

    Raises:
        msgspec.MsgspecError: It is not a report of a modular broker.
    """
    return _REPORT.decode(text)


def decode_bundle_data(text: str) -> BundleData:
    """Return the averages that a leader wrote.

    Raises:
        msgspec.MsgspecError: They are not readable.
    """
    return _BUNDLE_DATA.decode(text)


def decode_quota(text: str) -> Quota:
    """Return a resource quota.

    Raises:
        msgspec.MsgspecError: It is not readable.
    """
    return _QUOTA.decode(text)


def rates_of(report: Report) -> tuple[list[str], Floats, NDArray[np.int64]]:
    """Return the bundles of a report, their rates ``(4, n)`` and numbers of topics ``(n,)``."""
    stats = report.last_stats
    names = list(stats)
    rates = np.array(
        [
            (
                one.msg_rate_in,
                one.msg_rate_out,
                one.msg_throughput_in,
                one.msg_throughput_out,
                one.topics,
            )
            for one in stats.values()
        ],
        np.float64,
    ).reshape(-1, 5)
    report.last_stats = {}
    return names, rates[:, :4].T, rates[:, 4].astype(np.int64)
