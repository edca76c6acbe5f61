"""A snapshot of brokers that are known by their configuration alone."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from core.pulsar.presets import upstream_words
from core.pulsar.releases import Release
from core.pulsar.settings import SETTINGS
from core.pulsar.snapshot.config_files.model import BrokerConfig
from core.pulsar.snapshot.znodes.brokers import load_manager_of
from core.pulsar.snapshot.znodes.records import BrokerReport
from core.schemas.pulsar import BROKERS
from core.schemas.pulsar import SETTINGS as SETTINGS_TABLE
from core.snapshot.model import Manifest, PulsarSnapshot, TableManifest

_MANAGER = "loadManagerClassName"


def snapshot_of_config(config: BrokerConfig, now: datetime, release: str | None) -> PulsarSnapshot:
    """Return the snapshot in which every setting is known: of the file, else the default.

    Args:
        config: What was read.
        now: The present, aware UTC.
        release: Version or line of the defaults; ``None`` for that of the file's image, else the
            newest stable one.
    """
    version = release or config.release
    target = Release.of(version)
    rows = [(key, value, "file") for key, value in config.values.items() if value]
    named = {key for key, _, _ in rows}
    rows += [
        (one.key, upstream_words(one.default_for(target)), "default")
        for one in SETTINGS
        if one.key not in named and one.exists_in(target)
    ]
    settings = pa.Table.from_pylist(
        [
            {"broker": None, "name": key, "value": value, "origin": origin}
            for key, value, origin in sorted(rows)
        ],
        schema=SETTINGS_TABLE,
    )
    manager = next(value for key, value, _ in rows if key == _MANAGER)
    names = [f"broker-{at}" for at in range(config.brokers)] if config.is_helm else ["broker"]
    brokers = pa.Table.from_pylist(
        [
            {
                "broker": name,
                "version": version,
                "load_manager": manager,
                "is_leader": False,
                "memory_limit": config.heap_mib,
                "direct_memory_limit": config.direct_memory_mib,
            }
            for name in sorted(names)
        ],
        schema=BROKERS,
    )
    manifest = Manifest(
        cluster=config.name,
        taken_at=now,
        tables={name: TableManifest(source="file", rows=0) for name in ("settings", "brokers")},
        load_manager=load_manager_of(BrokerReport(load_manager_class_name=manager)),
        release=version,
        unavailable=("Load, bundles and policies are not in a configuration file.",),
    )
    return PulsarSnapshot.build(manifest, {"settings": settings, "brokers": brokers})
