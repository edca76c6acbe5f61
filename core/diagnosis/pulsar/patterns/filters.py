"""Filters of placement that take a broker out, known at once from the snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from core.arrays import column_values
from core.diagnosis.pulsar.context import Candidate, DiagnosisContext, with_setting
from core.units import is_whole

_MAX_TOPICS: Final = "loadBalancerBrokerMaxTopics"
_LATER_VERSIONS: Final = "preferLaterVersions"
_STEP: Final = 10_000
_ROOM: Final = 1.25
"""A limit that is raised leaves a broker so many times its topics."""


def topic_limit(context: DiagnosisContext) -> Iterator[Candidate]:
    """Brokers with more topics than placement allows, while others have fewer.

    Source:
        Pulsar ``LoadManagerShared#filterBrokersWithLargeTopicCount``, ``BrokerMaxTopicCountFilter``
        (which takes a broker at the limit, too).
    """
    limit = context.settings.number(_MAX_TOPICS)
    topics = np.nan_to_num(column_values(context.snapshot.brokers, "topic_count"))
    is_extensible = context.snapshot.manifest.load_manager == "extensible"
    over = topics >= limit if is_extensible else topics > limit
    if not over.any() or over.all():  # without a broker below it, the modular filter is open
        return
    names = context.snapshot.brokers["broker"].to_pylist()
    held = [names[row] for row in np.flatnonzero(over)[np.argsort(-topics[over], kind="stable")]]
    most = float(topics.max())
    raised = int(np.ceil(most * _ROOM / _STEP)) * _STEP
    more = f" and {len(held) - 1:,} more" if len(held) > 1 else ""
    yield Candidate(
        code="topic_limit",
        keys=(_MAX_TOPICS,),
        objects=tuple(held),
        summary=f"{held[0]}{more} receives no bundles: it has {most:,.0f} topics, and "
        f"placement excludes brokers {'from' if is_extensible else 'over'} "
        f"{_MAX_TOPICS} ({limit:,.0f}) on.",
        changes=with_setting(context, _MAX_TOPICS, raised),
        measured=most,
        threshold=limit,
        unit="topics",
        tier=-1,
    )


def version_filter(context: DiagnosisContext) -> Iterator[Candidate]:
    """Brokers of an older version, which placement leaves out where it prefers later ones.

    Source:
        Pulsar ``BrokerVersionFilter``.
    """
    versions = context.snapshot.brokers["version"].to_pylist()
    known = sorted({one for one in versions if one}, key=_version_key)
    if not context.settings.flag(_LATER_VERSIONS) or len(known) < 2:
        return
    names = context.snapshot.brokers["broker"].to_pylist()
    pairs = zip(names, versions, strict=True)
    older = [name for name, version in pairs if version and version != known[-1]]
    more = f" and {len(older) - 1:,} more" if len(older) > 1 else ""
    yield Candidate(
        code="version_filter",
        keys=(_LATER_VERSIONS,),
        objects=tuple(older),
        summary=f"{older[0]}{more} runs an older version than {known[-1]}, and "
        f"{_LATER_VERSIONS} is true: it receives no bundles.",
        changes=with_setting(context, _LATER_VERSIONS, False),  # noqa: FBT003  # a value, no argument
        tier=-1,
    )


def _version_key(version: str) -> tuple[int, ...]:
    parts = version.split("-", maxsplit=1)[0].split(".")
    return tuple(int(part) if is_whole(part) else 0 for part in parts)
