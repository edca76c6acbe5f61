"""What a person may put into the advisors: every number with its name, default and origin."""

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
class Knob:
    """One number that an advisor takes.

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


def of_setting(key: str, *, step: Number = 1, about: str = "") -> Knob:
    """Return the input of a number of the brokers: label and default are the table's.

    Raises:
        TypeError: The setting is no number.
    """
    setting = known_setting(key)
    if not isinstance(setting.default, int | float):
        raise TypeError(key)
    return Knob(
        key=key,
        label=setting.label,
        value=setting.default,
        step=step,
        help=about,
        is_upstream=True,
    )


@dataclass(frozen=True)
class Live:
    """What the cluster gives for an input.

    Attributes:
        value: In the input's unit.
        words: Where it comes from.
        is_exact: A setting, which is not rounded as measured numbers are.
    """

    value: Number
    words: str
    is_exact: bool = False


def live_value(knob: Knob, live: Mapping[str, Live]) -> tuple[Number, str]:
    """Return what an input begins with, and where that comes from."""
    found = live.get(knob.key)
    if found is None:
        default = f"default {knob.value:,g}" if knob.is_upstream else "assumed"
        return knob.value, default
    if isinstance(knob.value, int):
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
    Knob(key="brokers", label="Brokers", value=3, help="That share the namespace."),
    Knob(
        key="topics",
        label="Topics",
        value=1000,
        step=100,
        help="Of the namespace; a partition is one.",
    ),
    Knob(key="clients", label="Clients", value=1000, step=100, help="Producers and consumers."),
    Knob(key="msgs", label="Rate, msg/s", value=10_000.0, step=1000.0, help="In and out."),
    Knob(key="traffic", label="Traffic, MB/s", value=50.0, step=5.0, help="In and out."),
    Knob(
        key="within_pct",
        label="Busiest broker, % above the mean",
        value=20.0,
        step=5.0,
        help="What is tolerated; operators of large fleets name 20%.",
    ),
    of_setting(
        "loadBalancerNamespaceMaximumBundles", step=16, about="Automatic splits stop there."
    ),
)

PARTITIONS: Final = (
    Knob(key="partitions", label="Partitions", value=30, help="Of the topic."),
    Knob(
        key="even",
        label="Even bundles (0: the namespace's)",
        value=0,
        help="0 takes the namespace's own boundaries; else so many bundles of the same width.",
    ),
    Knob(
        key="each",
        label="Wanted per bundle, at most",
        value=1,
        help="Partitions that a bundle shall hold at the most: the split surgeon cuts for it.",
    ),
    Knob(
        key="topic_traffic",
        label="Topic's traffic, MB/s",
        value=0.0,
        step=5.0,
        help="In and out, of all partitions. With it the answer says when no split can help.",
    ),
)

PRODUCER: Final = (
    Knob(key="partitions", label="Partitions", value=30, help="Of the topic."),
    Knob(key="rate", label="Rate, msg/s", value=10_000.0, step=1000.0, help="Of one producer."),
    Knob(key="message", label="Message, bytes", value=1024.0, step=256.0, help="Average size."),
    Knob(
        key="maxPendingMessages",
        label="Pending per partition",
        value=0,
        step=100,
        help="0: no limit; since 2.10 only the memory of the client limits it.",
        is_upstream=True,
    ),
    Knob(
        key="maxPendingMessagesAcrossPartitions",
        label="Pending over all partitions",
        value=0,
        step=1000,
        help="0: no limit. Its share of each partition is the number divided by the partitions.",
        is_upstream=True,
    ),
    Knob(
        key="memoryLimitBytes",
        label="Client memory, MiB",
        value=64.0,
        step=16.0,
        help="Of all producers of one client; 0: no limit.",
        is_upstream=True,
    ),
    Knob(
        key="batchingMaxPublishDelay",
        label="Batch delay, ms",
        value=1.0,
        step=0.5,
        help="A batch is sent at the latest after that.",
        is_upstream=True,
    ),
    Knob(
        key="batchingMaxMessages",
        label="Batch messages",
        value=1000,
        step=100,
        help="A batch with so many is sent.",
        is_upstream=True,
    ),
    Knob(
        key="batchingMaxBytes",
        label="Batch size, KiB",
        value=128.0,
        step=64.0,
        help="A batch of that size is sent.",
        is_upstream=True,
    ),
    Knob(
        key="sendTimeout",
        label="Send timeout, s",
        value=30.0,
        step=5.0,
        help="A message that waits longer fails; 0: never.",
        is_upstream=True,
    ),
    Knob(key="brokers", label="Brokers", value=3, help="Partitions are spread over them evenly."),
    Knob(
        key="slow_pct",
        label="Bad broker still takes, %",
        value=0.0,
        step=10.0,
        help="Of its traffic: 0 is dead, 50 is half as fast as needed.",
    ),
)

LEDGER: Final = (
    Knob(
        key="entries",
        label="Entries/s",
        value=100.0,
        step=10.0,
        help="An entry is a batch: fewer than messages, where producers batch.",
    ),
    Knob(key="written", label="Written, MB/s", value=1.0, step=0.5, help="Into this topic."),
    Knob(key="age", label="Open since, min", value=0.0, step=10.0, help="0: it begins now."),
    of_setting(
        "managedLedgerMinLedgerRolloverTimeMinutes",
        step=5,
        about="Whatever is in it, a ledger is not closed before.",
    ),
    of_setting("managedLedgerMaxLedgerRolloverTimeMinutes", step=30),
    of_setting("managedLedgerMaxEntriesPerLedger", step=10_000),
    of_setting("managedLedgerMaxSizePerLedgerMbytes", step=256),
)

DISKS: Final = (
    Knob(
        key="directories",
        label="Ledger directories of a bookie",
        value=4,
        help="ledgerDirectories: a ledger goes to its number modulo these.",
    ),
    Knob(
        key="minorCompactionThreshold",
        label="Minor compaction below, live share",
        value=0.2,
        step=0.05,
        help="An entry log with a smaller share of live data is rewritten.",
        is_upstream=True,
    ),
    Knob(
        key="minorCompactionInterval",
        label="Every, s",
        value=3600.0,
        step=600.0,
        is_upstream=True,
    ),
    Knob(
        key="majorCompactionThreshold",
        label="Major compaction below, live share",
        value=0.8,
        step=0.05,
        help="The same, seldom and for fuller logs.",
        is_upstream=True,
    ),
    Knob(
        key="majorCompactionInterval",
        label="Every, s",
        value=86_400.0,
        step=3600.0,
        is_upstream=True,
    ),
    Knob(key="live_pct", label="Still needed of a log, %", value=50.0, step=5.0),
)

RETENTION: Final = (
    Knob(key="written", label="Written, MB/s", value=1.0, step=0.5, help="Into this topic."),
    Knob(
        key="consumed",
        label="Read by all after, min (-1: never)",
        value=5.0,
        step=5.0,
        help="When the slowest subscription has acknowledged a message.",
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
        label="Ledger open, min",
    ),
    # brokers count it in bytes
    replace(
        of_setting("backlogQuotaDefaultLimitBytes", step=1024.0),
        label="Backlog quota, MiB (-1: none)",
        value=-1.0,
    ),
    of_setting("managedLedgerDefaultWriteQuorum", about="Bookies that each entry is written to."),
    of_setting(
        "messageExpiryCheckIntervalInMinutes",
        about="A message outlives its time to live by up to that.",
    ),
    of_setting(
        "retentionCheckIntervalInSeconds",
        step=60,
        about="A ledger outlives its retention by up to that.",
    ),
)

LOOKUPS: Final = (
    Knob(
        key="pace",
        label="Bundles a minute, one by one",
        value=10.0,
        step=1.0,
        help="The pace of a run; the configuration may allow less.",
    ),
)
