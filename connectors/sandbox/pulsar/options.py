"""What a sandbox looks like: sizes, pace and the settings its brokers run with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connectors.sandbox.pulsar.faults import Faults

VERSION: Final = "4.2.4"
_BIG_FLEET: Final = 100
_BIG_FLEET_SESSION_S: Final = 30.0
MODULAR: Final = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """Size, pace and settings of a sandbox.

    Attributes:
        brokers: How many brokers run. Each has its own ZooKeeper session and web socket.
        bundles: Bundles of all namespaces together.
        namespaces: How many namespaces; 0 lets it follow from ``bundles`` (10 up to 1,280, then
            one for every 128).
        seed: Same seed, same fleet and same workload.
        cluster: The cluster's own name.
        zookeeper_port: Port of the ZooKeeper; 0 picks a free one.
        web_port: Web port of the brokers (the first one's, where they must share one host);
            0 takes 8080 where it is free, else picks one.
        former: Host and port of the brokers of an earlier run: they are taken again where they are
            free and ``web_port`` is 0.
        data_dir: Where ZooKeeper keeps its data; ``None`` is a temporary directory.
        day_s: Length of the workload's day in seconds of the clock on the wall.
        stats_every_s: How often brokers refresh their topic statistics.
        report_check_ms: How often a broker looks whether a load report is due.
        report_max_minutes: A report is written at least this often.
        quota_write_minutes: How often the leader writes the averages.
        averaged_bundles: Bundle averages the leader writes, per broker; 0 writes all.
        session_timeout_s: After it the nodes of a crashed broker go; at least 30 with more than
            100 brokers, because one process must not starve any of their sessions.
        faults: What goes wrong with unloads from the start.
        is_steady: No noise and no wave: rates stay as they are (tests).
        dynamic: Dynamic settings that are set from the start.
        release: Version that the brokers report; their settings, defaults and rules are those of
            that release.
        minute_s: Seconds on the wall that settings in minutes count as a minute: less, and a day
            of the leader's work goes by in as much less.
        has_limits: Some namespaces have rate limits from the start; the workload stays below them.
    """

    brokers: int = 12
    bundles: int = 600
    namespaces: int = 0
    seed: int = 7
    cluster: str = "sandbox"
    zookeeper_port: int = 0
    web_port: int = 0
    former: Sequence[tuple[str, int]] = ()
    data_dir: Path | None = None
    day_s: float = 3600.0
    stats_every_s: float = 10.0
    report_check_ms: int = 5000
    report_max_minutes: int = 1
    quota_write_minutes: int = 1
    averaged_bundles: int = 50
    session_timeout_s: float = 10.0
    faults: Faults = Faults()  # noqa: RUF009 - it is frozen
    is_steady: bool = False
    dynamic: dict[str, str] = field(
        default_factory=lambda: {"loadBalancerSheddingGracePeriodMinutes": "10"}
    )
    minute_s: float = 60.0
    release: str = VERSION
    has_limits: bool = False

    @property
    def namespace_count(self) -> int:
        """Number of namespaces, configured or derived."""
        return self.namespaces or max(10, -(-self.bundles // 128))

    @property
    def broker_session_s(self) -> float:
        """Session time-out of the brokers."""
        return max(self.session_timeout_s, _BIG_FLEET_SESSION_S if self.brokers > _BIG_FLEET else 0)

    def file_settings(self) -> dict[str, str]:
        """Return the settings that are not the defaults, as the brokers print them."""
        return {
            "statsUpdateFrequencyInSecs": str(max(1, round(self.stats_every_s))),
            "statsUpdateInitialDelayInSecs": str(max(1, round(self.stats_every_s))),
            "loadBalancerReportUpdateMinIntervalMillis": str(self.report_check_ms),
            "loadBalancerReportUpdateMaxIntervalMinutes": str(self.report_max_minutes),
            "loadBalancerResourceQuotaUpdateIntervalMinutes": str(self.quota_write_minutes),
            "loadBalancerMaxNumberOfBundlesInBundleLoadReport": str(self.averaged_bundles),
            "loadBalancerSheddingEnabled": "false",
            "loadBalancerAutoBundleSplitEnabled": "false",
            "failureDomainsEnabled": "true",
            "loadBalancerOverrideBrokerNicSpeedGbps": "Optional[2.0]",
            "clusterName": self.cluster,
        }
