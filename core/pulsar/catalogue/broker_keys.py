"""Every key that brokers read from ``broker.conf``, of any release: names and types.

:data:`core.pulsar.catalogue.SETTINGS` describes those of the load balancer. The others are known by
name, so that a valid key is never called misspelt. ``broker_keys.json`` names its source.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import resources
from typing import Final, Literal

import msgspec

from core.pulsar.releases import RELEASES

FieldKind = Literal["bool", "int", "long", "float", "text", "names"]

NEAR: Final = 0.7
"""Likeness from which an unknown key counts as a slip of a known one."""

SLIP: Final = 0.9
"""Likeness from which it is a slip of one letter or two."""

_READ_BY_PLUGINS: Final = (
    *("token", "openID", "basicAuth", "sasl", "athenz", "kinit", "tls", "jvm", "proxy"),
    *("bookkeeper_", "brokerClient_", "bookkeeperClient", "metadataStore_"),
    *("managedLedgerOffload", "s3ManagedLedgerOffload", "gcsManagedLedgerOffload", "fileSystem"),
    *("kafka", "kop", "mqtt", "mop", "amqp", "aop", "rocketmq", "rop", "webSocket", "function"),
)
"""How keys begin that plug-ins of a broker read: authentication, offloaders, protocol handlers."""


class BrokerKey(msgspec.Struct, frozen=True):
    """A field of ``ServiceConfiguration``.

    Attributes:
        kind: Type of its value.
        since: First release line that has it.
        until: Last one; empty: the newest has it.
        min: Least value that a broker starts with.
        max: Greatest one.
    """

    kind: FieldKind
    since: str
    until: str = ""
    min: int | None = None
    max: int | None = None

    def exists_in(self, line: str) -> bool:
        """Return whether a release line has it, according to its examined versions."""
        at = RELEASES.index(line)
        last = RELEASES.index(self.until) if self.until else len(RELEASES)
        return RELEASES.index(self.since) <= at <= last


class _File(msgspec.Struct):
    source: str
    keys: dict[str, BrokerKey]


@functools.cache
def broker_keys() -> Mapping[str, BrokerKey]:
    """Return every key of :data:`RELEASES` with its type.

    Source:
        Pulsar ``ServiceConfiguration``.
    """
    body = resources.files("core.pulsar.catalogue").joinpath("broker_keys.json").read_bytes()
    return msgspec.json.decode(body, type=_File).keys


def near_keys(key: str) -> list[str]:
    """Return the known keys that an unknown one may be a slip of, the nearest first, at most two.

    One that is nearly the same stands alone.
    """
    by_lower = {known.lower(): known for known in broker_keys()}
    if same := by_lower.get(key.lower()):
        return [same]
    if slip := get_close_matches(key, broker_keys(), n=1, cutoff=SLIP):
        return slip
    return get_close_matches(key, broker_keys(), n=2, cutoff=NEAR)


def is_read_by_plugin(key: str) -> bool:
    """Return whether an unknown key may belong to a plug-in that the broker loads."""
    return key.startswith(_READ_BY_PLUGINS)
