"""What the servers of the real cluster read and are started with: files, flags, ports."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

Mode = Literal["modular", "extensible"]

LOOPBACK: Final = "127.0.0.1"
CLUSTER: Final = "test"
SESSION_TIMEOUT_S: Final = 10.0
"""How long ZooKeeper keeps the ephemerals of a broker that is gone without a word."""

LOAD_MANAGERS: Final[Mapping[Mode, str]] = {
    "modular": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "extensible": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
}
_TRANSFER_SHEDDER: Final = (
    "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"
)
# Modules whose insides Netty, BookKeeper and the broker's own usage readings reach into.
_OPENED: Final = (
    "java.base/java.io",
    "java.base/java.util.zip",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.base/sun.net",
    "java.management/sun.management",
)
_METADATA_DRIVERS: Final = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """Where one broker listens."""

    host: str
    web_port: int
    service_port: int

    @property
    def broker(self) -> str:
        """The broker id, ``host:webPort``."""
        return f"{self.host}:{self.web_port}"

    @property
    def web_url(self) -> str:
        """Its admin address."""
        return f"http://{self.broker}"

    @property
    def service_url(self) -> str:
        """Its binary address."""
        return f"pulsar://{self.host}:{self.service_port}"


@dataclass(frozen=True, slots=True)
class Places:
    """Every port of one cluster."""

    zookeeper_port: int
    bookie_port: int
    brokers: tuple[BrokerPlace, ...] = field(default=())

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's ``host:port``."""
        return f"{LOOPBACK}:{self.zookeeper_port}"


def choose_places(brokers: int, *, distinct_hosts: bool) -> Places:
    """Pick free ports, broker ``i`` on ``127.0.0.(i+1)`` when ``distinct_hosts`` can be had.

    Isolation policies and failure domains match a broker's host alone: brokers that share one host
    cannot be told apart by them.
    """
    with ExitStack() as held:

        def free(host: str) -> int:
            probe = held.enter_context(socket.socket())
            probe.bind((host, 0))
            return int(probe.getsockname()[1])

        hosts = [f"127.0.0.{i + 1}" if distinct_hosts else LOOPBACK for i in range(brokers)]
        try:
            spots = tuple(BrokerPlace(host, free(host), free(host)) for host in hosts)
        except OSError:  # only Linux has all of 127/8 without being asked to
            spots = tuple(
                BrokerPlace(LOOPBACK, free(LOOPBACK), free(LOOPBACK)) for _ in range(brokers)
            )
        return Places(free(LOOPBACK), free(LOOPBACK), spots)


def java_flags(folder: Path, *, heap_mb: int, direct_mb: int) -> list[str]:
    """Return the flags of every JVM of the cluster: small, quick to start, loopback only."""
    flags = [
        *("-Xms64m", f"-Xmx{heap_mb}m", f"-XX:MaxDirectMemorySize={direct_mb}m", "-Xss512k"),
        *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"),
        *("-XX:-UsePerfData", "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true"),
        *("-Djute.maxbuffer=10485760", "-Dio.netty.tryReflectionSetAccessible=true"),
        *("-Dlog4j2.is.webapp=false", "-Dlog4j.shutdownHookEnabled=false"),
        f"-Dlog4j.configurationFile={folder / 'log4j2.xml'}",
        f"-Dbookkeeper.metadata.bookie.drivers={_METADATA_DRIVERS}BookieDriver",
        f"-Dbookkeeper.metadata.client.drivers={_METADATA_DRIVERS}ClientDriver",
    ]
    for module in _OPENED:
        flags += ["--add-opens", f"{module}=ALL-UNNAMED"]
    return flags


def write_files(
    folder: Path,
    places: Places,
    mode: Mode,
    broker_settings: Mapping[str, object],
    debug_loggers: Sequence[str] = (),
) -> None:
    """Write every configuration file of the cluster into ``folder``."""
    debugged = "".join(f'<Logger name="{name}" level="debug"/>' for name in debug_loggers)
    (folder / "log4j2.xml").write_text(_LOG4J.replace("<Root", f"{debugged}<Root"), "utf-8")
    _write(folder / "zookeeper.conf", _zookeeper(folder, places))
    _write(folder / "bookie.conf", _bookie(folder, places))
    for index, place in enumerate(places.brokers):
        lines = {**_broker(places, place, mode), **broker_settings}
        _write(folder / f"broker-{index}.conf", lines)


def _write(path: Path, settings: Mapping[str, object]) -> None:
    path.write_text("".join(f"{key}={_text(value)}\n" for key, value in settings.items()), "utf-8")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_LOG4J: Final = """\
<Configuration status="WARN">
  <Appenders>
    <Console name="Out"><PatternLayout pattern="%d{ISO8601} [%t] %-5p %c{1} - %m%n"/></Console>
  </Appenders>
  <Loggers><Root level="info"><AppenderRef ref="Out"/></Root></Loggers>
</Configuration>
"""


def _zookeeper(folder: Path, places: Places) -> dict[str, object]:
    return {
        "tickTime": 1000,
        "dataDir": folder / "data" / "zookeeper",
        "clientPort": places.zookeeper_port,
        "clientPortAddress": LOOPBACK,
        "admin.enableServer": False,
        "maxClientCnxns": 0,
        "forceSync": "no",
    }


def _bookie(folder: Path, places: Places) -> dict[str, object]:
    return {
        "bookiePort": places.bookie_port,
        "advertisedAddress": LOOPBACK,
        "listeningInterface": "lo",
        "allowLoopback": True,
        "journalDirectories": folder / "data" / "journal",
        "ledgerDirectories": folder / "data" / "ledgers",
        # without a path: with ".../ledgers" the store takes that for a chroot and finds nothing
        "metadataServiceUri": f"metadata-store:zk:{places.zookeeper}",
        "ledgerStorageClass": "org.apache.bookkeeper.bookie.SortedLedgerStorage",
        "skipListSizeLimit": 16 << 20,
        "journalMaxSizeMB": 64,
        "journalPreAllocSizeMB": 4,
        "journalSyncData": False,
        "logSizeLimit": 64 << 20,
        "numAddWorkerThreads": 1,
        "numReadWorkerThreads": 1,
        "numHighPriorityWorkerThreads": 1,
        "diskUsageThreshold": 0.99,
        "diskUsageWarnThreshold": 0.98,
        "httpServerEnabled": False,
        "enableStatistics": False,
        "extraServerComponents": "",
    }


def _broker(places: Places, place: BrokerPlace, mode: Mode) -> dict[str, object]:
    return {
        "clusterName": CLUSTER,
        "metadataStoreUrl": f"zk:{places.zookeeper}",
        "configurationMetadataStoreUrl": f"zk:{places.zookeeper}",
        "metadataStoreSessionTimeoutMillis": int(SESSION_TIMEOUT_S * 1000),
        "bindAddress": place.host,
        "advertisedAddress": place.host,
        "brokerServicePort": place.service_port,
        "webServicePort": place.web_port,
        **_SMALL,
        **_QUICK,
        "loadManagerClassName": LOAD_MANAGERS[mode],
        **({"loadBalancerLoadSheddingStrategy": _TRANSFER_SHEDDER} if mode == "extensible" else {}),
    }


_SMALL: Final[Mapping[str, object]] = {
    "numIOThreads": 2,
    "numHttpServerThreads": 8,
    "numExecutorThreadPoolSize": 2,
    "numCacheExecutorThreadPoolSize": 2,
    "numOrderedExecutorThreads": 2,
    "bookkeeperClientNumWorkerThreads": 2,
    "bookkeeperClientNumIoThreads": 2,
    "topicOrderedExecutorThreadNum": 2,
    "managedLedgerNumSchedulerThreads": 2,
    "managedLedgerCacheSizeMB": 32,
    "managedLedgerDefaultEnsembleSize": 1,
    "managedLedgerDefaultWriteQuorum": 1,
    "managedLedgerDefaultAckQuorum": 1,
    "functionsWorkerEnabled": False,
    "transactionCoordinatorEnabled": False,
    "webSocketServiceEnabled": False,
}
_QUICK: Final[Mapping[str, object]] = {
    "forceDeleteNamespaceAllowed": True,
    "forceDeleteTenantAllowed": True,
    "brokerShutdownTimeoutMs": 3000,
    "statsUpdateInitialDelayInSecs": 2,  # a minute without any rate otherwise
    "statsUpdateFrequencyInSecs": 5,
    "loadBalancerEnabled": True,
    "loadBalancerReportUpdateMinIntervalMillis": 3000,
    "loadBalancerReportUpdateMaxIntervalMinutes": 1,
    # one bundle more or less of fifteen is worth a report
    "loadBalancerReportUpdateThresholdPercentage": 3,
    "loadBalancerHostUsageCheckIntervalMinutes": 1,
    "loadBalancerResourceQuotaUpdateIntervalMinutes": 1,
    "loadBalancerSheddingEnabled": False,
    "loadBalancerAutoBundleSplitEnabled": False,
    # a virtual machine's card often tells no speed, and loopback is not counted anyway
    "loadBalancerOverrideBrokerNicSpeedGbps": 1,
    # processor usage is the whole machine's and the same on every broker here: without weight,
    # a busy test machine does not make all of them look overloaded
    "loadBalancerCPUResourceWeight": 0.0,
}
