"""Settings that decide where a bundle goes, and how usage is weighed."""

from __future__ import annotations

from typing import Final

from core.pulsar.catalogue.model import ABSENT, BOTH, MODULAR, Setting

_IMPL: Final = "org.apache.pulsar.broker.loadbalance.impl."
_MIN_LONG: Final = _IMPL + "LeastLongTermMessageRate"
_WEIGHT_EFFECT: Final = "0: this resource plays no part in how busy a broker is."

PLACEMENT_SETTINGS: Final = (
    Setting(
        key="loadBalancerLoadPlacementStrategy",
        kind="text",
        default=_MIN_LONG,
        is_dynamic=False,
        takes_effect="restart",
        managers=MODULAR,
        history={"2.8": ABSENT, "2.11": _MIN_LONG, "5.0": _IMPL + "AvgShedder"},
        meaning="Class that picks the broker of a bundle among those left by the filters.",
    ),
    Setting(
        key="loadBalancerDistributeBundlesEvenlyEnabled",
        kind="bool",
        default=True,
        managers=MODULAR,
        since="2.11",
        meaning="Only brokers with the fewest bundles of the namespace are candidates.",
        effect="On: spreads each namespace, and narrows the choice by load.",
    ),
    Setting(
        key="loadBalancerBrokerMaxTopics",
        kind="int",
        default=50_000,
        unit="topics",
        meaning="Brokers with more topics are not chosen while others have fewer.",
    ),
    Setting(
        key="loadBalancerBrokerOverloadedThresholdPercentage",
        kind="int",
        default=85,
        unit="percent",
        meaning="Usage above which a broker counts as overloaded in placement and shedding.",
        effect="Lower: brokers are relieved earlier, and avoided earlier.",
    ),
    Setting(
        key="loadBalancerAverageResourceUsageDifferenceThresholdPercentage",
        kind="int",
        default=10,
        unit="percentage points",
        since="2.11",
        meaning="LeastResourceUsageWithWeight takes brokers at least this far below the average.",
        effect="Higher: more often no broker qualifies and the choice is random among all.",
    ),
    Setting(
        key="loadBalancerHistoryResourcePercentage",
        kind="float",
        default=0.9,
        unit="ratio",
        meaning="Weight of the past in smoothed usage; the newest value has the rest.",
        effect="Higher: calmer, and slower to see a change.",
    ),
    Setting(
        key="loadBalancerCPUResourceWeight",
        kind="float",
        default=1.0,
        meaning="Weight of CPU in a broker's usage.",
        effect=_WEIGHT_EFFECT,
    ),
    Setting(
        key="loadBalancerMemoryResourceWeight",
        kind="float",
        default=0.0,
        managers=("extensible",),
        history={"2.8": 1.0, "4.0": 0.0},
        meaning="Weight of JVM heap in a broker's usage; deprecated, the modular manager has no "
        "heap term at all.",
        effect=_WEIGHT_EFFECT,
    ),
    Setting(
        key="loadBalancerDirectMemoryResourceWeight",
        kind="float",
        default=0.0,
        history={"2.8": 1.0, "3.1.1": 0.0},
        meaning="Weight of JVM direct memory in a broker's usage.",
        effect=_WEIGHT_EFFECT,
    ),
    Setting(
        key="loadBalancerBandwidthInResourceWeight",
        kind="float",
        default=1.0,
        since="4.0",
        meaning="Weight of inbound bandwidth in a broker's usage.",
        effect=_WEIGHT_EFFECT,
    ),
    Setting(
        key="loadBalancerBandwidthOutResourceWeight",
        kind="float",
        default=1.0,
        since="4.0",
        meaning="Weight of outbound bandwidth in a broker's usage.",
        effect=_WEIGHT_EFFECT,
    ),
    Setting(
        key="loadBalancerBandwithInResourceWeight",
        kind="float",
        default=1.0,
        meaning="Old, misspelt name of the inbound weight: read while the right one is 1.0.",
    ),
    Setting(
        key="loadBalancerBandwithOutResourceWeight",
        kind="float",
        default=1.0,
        meaning="Old, misspelt name of the outbound weight: read while the right one is 1.0.",
    ),
    Setting(
        key="preferLaterVersions",
        kind="bool",
        default=False,
        meaning="Only brokers of the newest version among the candidates are chosen.",
        effect="Useful during a rolling upgrade; a broker without a valid version switches it off.",
    ),
    Setting(
        key="failureDomainsEnabled",
        kind="bool",
        default=False,
        meaning="Anti-affinity groups spread over failure domains first, then over brokers.",
    ),
    Setting(
        key="topicBundleAssignmentStrategy",
        kind="text",
        default="org.apache.pulsar.common.naming.ConsistentHashingTopicBundleAssigner",
        is_dynamic=False,
        takes_effect="restart",
        managers=(*BOTH, "simple"),
        since="3.1",
        meaning="Class that maps a topic to a bundle.",
    ),
    Setting(
        key="loadBalancerSheddingExcludedNamespaces",
        kind="names",
        default=(),
        since="4.0.11",
        meaning="Namespaces that are never shed, and whose bundles are placed in turn.",
    ),
    Setting(
        key="loadBalancerPlacementStrategy",
        kind="text",
        default="leastLoadedServer",
        is_dynamic=False,
        takes_effect="restart",
        managers=("simple",),
        meaning="Placement of the legacy manager: leastLoadedServer or weightedRandomSelection.",
    ),
    Setting(
        key="loadBalancerBrokerUnderloadedThresholdPercentage",
        kind="int",
        default=50,
        unit="percent",
        is_dynamic=False,
        takes_effect="restart",
        managers=("simple",),
        meaning="Usage under which the legacy manager calls a broker underloaded.",
    ),
    Setting(
        key="loadBalancerBrokerComfortLoadLevelPercentage",
        kind="int",
        default=65,
        unit="percent",
        is_dynamic=False,
        takes_effect="restart",
        managers=("simple",),
        meaning="Usage down to which the legacy manager sheds.",
    ),
)
