"""Inputs of the advisors: every number with its name, default and origin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from core.planning.advisors.bundle_reasons import Bound
from core.pulsar.settings import known_setting

Number = int | float

BOUNDS: Final[Mapping[Bound, str]] = {"least": "at least", "most": "at most", "cost": "cost"}


@dataclass(frozen=True, kw_only=True)
class AdvisorParameter:
    """One number as the input of an advisor.

    Attributes:
        key: Name of the query parameter: the upstream key where there is one.
        label: What it is, with its unit.
        value: What holds without it; its type is the input's.
        step: Of the input.
        help: What it means.
        is_upstream: ``key`` is the name that the real system gives it, and ``value`` its default.
    """

    key: str
    label: str
    value: Number
    step: Number = 1
    help: str = ""
    is_upstream: bool = False


def of_setting(key: str, *, step: Number = 1, about: str = "") -> AdvisorParameter:
    """Return the input of a number of the brokers: label and default are the table's.

    Raises:
        TypeError: The setting is no number.
    """
    setting = known_setting(key)
    if not isinstance(setting.default, int | float):
        raise TypeError(key)
    return AdvisorParameter(
        key=key,
        label=setting.label,
        value=setting.default,
        step=step,
        help=about,
        is_upstream=True,
    )


@dataclass(frozen=True)
class ClusterValue:
    """Value of an input from the cluster.

    Attributes:
        value: In the input's unit.
        words: Its source.
        is_exact: A setting, which is not rounded as measured numbers are.
    """

    value: Number
    words: str
    is_exact: bool = False


def live_value(parameter: AdvisorParameter, live: Mapping[str, ClusterValue]) -> tuple[Number, str]:
    """Return the initial value of an input and its source."""
    found = live.get(parameter.key)
    if found is None:
        default = f"default {parameter.value:,g}" if parameter.is_upstream else "assumed"
        return parameter.value, default
    if isinstance(parameter.value, int):
        return int(found.value), f"live: {found.words}"
    value = float(found.value) if found.is_exact else shortened(float(found.value))
    return value, f"live: {found.words}"


def shortened(value: float) -> float:
    """Return a measured number with three digits: more are noise in an input.

    Example:
        >>> shortened(12.3456), shortened(1234567.0), shortened(0.0)
        (12.3, 1230000.0, 0.0)
    """
    return float(f"{value:.3g}") if math.isfinite(value) else 0.0


BUNDLES: Final = (
    AdvisorParameter(
        key="brokers", label="Brokers", value=3, help="Brokers that serve the namespace."
    ),
    AdvisorParameter(
        key="topics",
        label="Topics",
        value=1000,
        step=100,
        help="Topics of the namespace; each partition is a topic.",
    ),
    AdvisorParameter(
        key="clients", label="Clients", value=1000, step=100, help="Producers and consumers."
    ),
    AdvisorParameter(
        key="msgs", label="Rate (msg/s)", value=10_000.0, step=1000.0, help="In plus out."
    ),
    AdvisorParameter(
        key="traffic", label="Traffic (MB/s)", value=50.0, step=5.0, help="In plus out."
    ),
    AdvisorParameter(
        key="within_pct",
        label="Max deviation (%)",
        value=20.0,
        step=5.0,
        help="Tolerated deviation above the mean; large clusters use 20%.",
    ),
    of_setting("loadBalancerNamespaceMaximumBundles", step=16, about="Limit of automatic splits."),
)

PARTITIONS: Final = (
    AdvisorParameter(
        key="partitions", label="Partitions", value=30, help="Partitions of the topic."
    ),
    AdvisorParameter(
        key="even",
        label="Even bundles (0: as in namespace)",
        value=0,
        help="0: boundaries of the namespace; otherwise bundles of equal width.",
    ),
    AdvisorParameter(
        key="each",
        label="Max partitions per bundle",
        value=1,
        help="Max partitions per bundle after the proposed splits.",
    ),
    AdvisorParameter(
        key="topic_traffic",
        label="Topic traffic (MB/s)",
        value=0.0,
        step=5.0,
        help="In plus out, all partitions. Used to detect topics that splits cannot help.",
    ),
)

PRODUCER: Final = (
    AdvisorParameter(
        key="partitions", label="Partitions", value=30, help="Partitions of the topic."
    ),
    AdvisorParameter(
        key="rate", label="Rate (msg/s)", value=10_000.0, step=1000.0, help="Rate of one producer."
    ),
    AdvisorParameter(
        key="message", label="Message size (bytes)", value=1024.0, step=256.0, help="Average size."
    ),
    AdvisorParameter(
        key="maxPendingMessages",
        label="Pending per partition",
        value=0,
        step=100,
        help="0: no limit; since 2.10, limited by client memory only.",
        is_upstream=True,
    ),
    AdvisorParameter(
        key="maxPendingMessagesAcrossPartitions",
        label="Pending across partitions",
        value=0,
        step=1000,
        help="0: no limit. Share per partition: the value divided by the number of partitions.",
        is_upstream=True,
    ),
    AdvisorParameter(
        key="memoryLimitBytes",
        label="Client memory (MiB)",
        value=64.0,
        step=16.0,
        help="All producers of one client; 0: no limit.",
        is_upstream=True,
    ),
    AdvisorParameter(
        key="batchingMaxPublishDelay",
        label="Batch delay (ms)",
        value=1.0,
        step=0.5,
        help="Max delay of a batch.",
        is_upstream=True,
    ),
    AdvisorParameter(
        key="batchingMaxMessages",
        label="Messages per batch",
        value=1000,
        step=100,
        help="Max messages of a batch.",
        is_upstream=True,
    ),
    AdvisorParameter(
        key="batchingMaxBytes",
        label="Batch size (KiB)",
        value=128.0,
        step=64.0,
        help="Max size of a batch.",
        is_upstream=True,
    ),
    AdvisorParameter(
        key="sendTimeout",
        label="Send timeout (s)",
        value=30.0,
        step=5.0,
        help="Messages that wait longer fail; 0: no timeout.",
        is_upstream=True,
    ),
    AdvisorParameter(
        key="brokers", label="Brokers", value=3, help="Partitions are evenly distributed."
    ),
    AdvisorParameter(
        key="slow_pct",
        label="Throughput of the bad broker (%)",
        value=0.0,
        step=10.0,
        help="0: failed; 50: half of the required throughput.",
    ),
)

LEDGER: Final = (
    AdvisorParameter(
        key="entries",
        label="Entries/s",
        value=100.0,
        step=10.0,
        help="One entry per batch, or per message without batching.",
    ),
    AdvisorParameter(
        key="written",
        label="Written (MB/s)",
        value=1.0,
        step=0.5,
        help="Write throughput of the topic.",
    ),
    AdvisorParameter(key="age", label="Age (min)", value=0.0, step=10.0, help="0: new ledger."),
    of_setting(
        "managedLedgerMinLedgerRolloverTimeMinutes",
        step=5,
        about="Min age before a rollover.",
    ),
    of_setting("managedLedgerMaxLedgerRolloverTimeMinutes", step=30),
    of_setting("managedLedgerMaxEntriesPerLedger", step=10_000),
    of_setting("managedLedgerMaxSizePerLedgerMbytes", step=256),
)

DISKS: Final = (
    AdvisorParameter(
        key="directories",
        label="Ledger directories per bookie",
        value=4,
        help="ledgerDirectories: directory index = ledger ID modulo this number.",
    ),
    AdvisorParameter(
        key="minorCompactionThreshold",
        label="Minor compaction threshold",
        value=0.2,
        step=0.05,
        help="Entry logs with a smaller share of live data are rewritten.",
        is_upstream=True,
    ),
    AdvisorParameter(
        key="minorCompactionInterval",
        label="Minor interval (s)",
        value=3600.0,
        step=600.0,
        is_upstream=True,
    ),
    AdvisorParameter(
        key="majorCompactionThreshold",
        label="Major compaction threshold",
        value=0.8,
        step=0.05,
        help="As minor compaction, with a longer interval and a higher threshold.",
        is_upstream=True,
    ),
    AdvisorParameter(
        key="majorCompactionInterval",
        label="Major interval (s)",
        value=86_400.0,
        step=3600.0,
        is_upstream=True,
    ),
    AdvisorParameter(key="live_pct", label="Live data of a log (%)", value=50.0, step=5.0),
)

RETENTION: Final = (
    AdvisorParameter(
        key="written",
        label="Written (MB/s)",
        value=1.0,
        step=0.5,
        help="Write throughput of the topic.",
    ),
    AdvisorParameter(
        key="consumed",
        label="Consumed after (min, -1: never)",
        value=5.0,
        step=5.0,
        help="Time until the slowest subscription acknowledges a message.",
    ),
    of_setting("defaultRetentionTimeInMinutes", step=60),
    of_setting("defaultRetentionSizeInMB", step=1024),
    of_setting("ttlDurationDefaultInSeconds", step=3600),
    replace(
        of_setting(
            "managedLedgerMaxLedgerRolloverTimeMinutes",
            step=30,
            about="Only closed ledgers are deleted.",
        ),
        label="Ledger age (min)",
    ),
    # brokers count it in bytes
    replace(
        of_setting("backlogQuotaDefaultLimitBytes", step=1024.0),
        label="Backlog quota (MiB, -1: none)",
        value=-1.0,
    ),
    of_setting("managedLedgerDefaultWriteQuorum", about="Number of copies of each entry."),
    of_setting(
        "messageExpiryCheckIntervalInMinutes",
        about="Max delay after the time to live.",
    ),
    of_setting(
        "retentionCheckIntervalInSeconds",
        step=60,
        about="Max delay after the retention.",
    ),
)

LOOKUPS: Final = (
    AdvisorParameter(
        key="pace",
        label="Rate limit (bundles/min)",
        value=10.0,
        step=1.0,
        help="Rate limit of a run; the configuration can set a lower limit.",
    ),
)
