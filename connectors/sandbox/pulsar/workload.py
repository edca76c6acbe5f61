"""What the clients do: message rates of every topic at a time, and what that costs a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.sandbox.pulsar.layout import Layout
from core.units import KBIT_BYTES

CORES: Final = 8
CPU_LIMIT: Final = 100.0 * CORES
HEAP_LIMIT_MIB: Final = 4096.0
DIRECT_LIMIT_MIB: Final = 4096.0
NIC_LIMIT_KBIT_S: Final = 2_000_000.0
MEAN_USAGE_RATIO: Final = 0.45
NOISE_RATIO: Final = 0.30
_CPU_PER_MSG_S: Final = CPU_LIMIT / 260_000
_CPU_PER_BYTE_S: Final = CPU_LIMIT / 600e6
_IDLE_CPU: Final = 12.0
_REPLICAS: Final = 2  # what a broker receives it writes to two bookies
_FRAMING: Final = 1.05
_RATE_COLUMNS: Final = 4
_STEPS: Final = 1 << 32

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HostUsage:
    """Usage of every broker's host, in the units of a load report; shape ``(n_brokers,)`` each."""

    cpu: Floats
    heap_mib: Floats
    direct_mib: Floats
    bandwidth_in_kbit_s: Floats
    bandwidth_out_kbit_s: Floats

    def max_ratio(self) -> Floats:
        """Largest of CPU and both bandwidths over their limits, 0..1."""
        ratios: Floats = np.maximum.reduce(
            [
                self.cpu / CPU_LIMIT,
                self.bandwidth_in_kbit_s / NIC_LIMIT_KBIT_S,
                self.bandwidth_out_kbit_s / NIC_LIMIT_KBIT_S,
            ]
        )
        return ratios


class Workload:
    """Deterministic traffic: the same seed and time give the same rates.

    Args:
        layout: The fleet's topics.
        seed: Seed of phases and noise.
        day_s: Length of the wave in seconds.
        is_steady: No wave, no noise.
    """

    def __init__(self, layout: Layout, *, seed: int, day_s: float, is_steady: bool = False) -> None:
        rng = np.random.default_rng([seed, 1])
        topics = layout.topics
        count = len(topics.names)
        phase_of_namespace = rng.normal(0.0, 0.7, len(layout.namespaces))
        self._topics = topics
        self._seed, self._day_s, self._is_steady = seed, day_s, is_steady
        self._phase = phase_of_namespace[topics.namespace]
        self._depth = rng.uniform(0.1, 0.35, len(layout.namespaces))[topics.namespace]
        self._ripple_phase = rng.uniform(0, 2 * np.pi, (2, count))
        self._ripple_speed = rng.uniform(10, 90, (2, count))
        self._scale = 1.0

    def calibrate(self, topic_owner: NDArray[np.int64], brokers: int) -> None:
        """Choose the scale so that the fleet's mean usage is what it should be at a mean hour."""
        self._scale = 1.0
        low, high = 0.0, 1e9
        for _ in range(60):
            self._scale = (low + high) / 2
            rates = per_owner(self.rates_at(None), topic_owner, brokers)
            usage = float(
                host_usage(rates, np.zeros(brokers), np.zeros(brokers)).max_ratio().mean()
            )
            low, high = (self._scale, high) if usage < MEAN_USAGE_RATIO else (low, self._scale)

    def rates_at(self, seconds: float | None) -> Floats:
        """Return the rates of every topic, shape ``(n_topics, 4)``.

        Args:
            seconds: Time since the sandbox began; ``None`` is the mean hour without noise.

        Returns:
            Columns message rate in, throughput in, message rate out, throughput out.
        """
        topics = self._topics
        rate = topics.weight * self._scale
        if seconds is not None and not self._is_steady:
            angle = 2 * np.pi * seconds / self._day_s
            wave = 1 + self._depth * np.sin(angle + self._phase)
            speed, phase = self._ripple_speed, self._ripple_phase
            ripple = np.sin(angle * speed[0] + phase[0]) + np.sin(angle * speed[1] + phase[1])
            rate = rate * wave * (1 + 0.06 * ripple)
        rates = np.empty((len(rate), _RATE_COLUMNS))
        rates[:, 0] = rate
        rates[:, 1] = rate * topics.message_bytes
        rates[:, 2] = rate * topics.fan_out
        rates[:, 3] = rates[:, 1] * topics.fan_out
        return rates

    def cpu_noise_at(self, seconds: float, brokers: int, noisy: int | None) -> Floats:
        """Return the share of CPU that other programs burn on every broker's host, 0..1."""
        noise = np.zeros(brokers)
        if not self._is_steady:
            step = int(seconds // 10)
            rng = np.random.default_rng([self._seed, 2, step % _STEPS])  # before the start too
            noise = rng.uniform(0, 0.02, brokers)
            if noisy is not None:
                noise[noisy] = rng.uniform(0.1, 1.0) * NOISE_RATIO
        return noise


def noisy_broker(brokers: int) -> int | None:
    """Return the row of the broker on whose host other programs run; a small fleet has none."""
    return brokers // 3 if brokers > 3 else None


def per_owner(rates: Floats, owner: NDArray[np.int64], count: int) -> Floats:
    """Sum rates of rows by owner, shape ``(count, 4)``; rows with a negative owner are left out."""
    owned = owner >= 0
    return np.column_stack(
        [
            np.bincount(owner[owned], rates[owned, column], minlength=count)
            for column in range(_RATE_COLUMNS)
        ]
    )


def host_usage(rates: Floats, topic_count: Floats, cpu_noise: Floats) -> HostUsage:
    """Return the host usage caused by a broker's traffic.

    Args:
        rates: Shape ``(n_brokers, 4)``: message rate in, throughput in, rate out, throughput out.
        topic_count: Topics a broker serves.
        cpu_noise: Share of CPU used by others, 0..1.
    """
    messages = rates[:, 0] + rates[:, 2]
    received, sent = rates[:, 1], rates[:, 3]
    written = received * _REPLICAS
    cpu = _IDLE_CPU + messages * _CPU_PER_MSG_S + (received + sent) * _CPU_PER_BYTE_S
    return HostUsage(
        cpu=np.minimum(cpu + cpu_noise * CPU_LIMIT, CPU_LIMIT),
        heap_mib=np.minimum(700 + 0.15 * topic_count + received / 60e3, HEAP_LIMIT_MIB),
        direct_mib=np.minimum(np.floor(96 + 0.2 * topic_count + received / 50e3), DIRECT_LIMIT_MIB),
        bandwidth_in_kbit_s=np.minimum(received * _FRAMING / KBIT_BYTES, NIC_LIMIT_KBIT_S),
        bandwidth_out_kbit_s=np.minimum((sent + written) * _FRAMING / KBIT_BYTES, NIC_LIMIT_KBIT_S),
    )
