"""What a table's environment refuses or slows down of its clients' requests.

Ballot, members and health of the partitions do not show it.

Source: Pegasus ``replica_envs``, ``replica::update_deny_client``, ``throttling_controller``
(2.6.0-SNAPSHOT, db756dc).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from core.units import is_whole

DENY: Final = "replica.deny_client_request"
_WHICH: Final = {"all": ("reads", "writes"), "read": ("reads",), "write": ("writes",)}
_MULTIPLIERS: Final = {"K": 1 << 10, "M": 1 << 20}

Requests = Literal["reads", "writes", "backup requests"]
Unit = Literal["requests", "bytes"]

THROTTLES: Final[Mapping[str, tuple[Requests, Unit]]] = {
    "replica.write_throttling": ("writes", "requests"),
    "replica.write_throttling_by_size": ("writes", "bytes"),
    "replica.read_throttling": ("reads", "requests"),
    "replica.read_throttling_by_size": ("reads", "bytes"),
    "replica.backup_request_throttling": ("backup requests", "requests"),
}
"""By key: which requests, and what is counted of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """Requests that no server of a table serves.

    Attributes:
        value: Of the environment.
        requests: ``reads``, ``writes``.
        is_answered: Clients get ``ERR_INVALID_STATE``; else they wait until they time out.
    """

    value: str
    requests: tuple[str, ...]
    is_answered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """A limit of a table's requests.

    Attributes:
        key: Of the environment.
        value: Its value.
        requests: Which requests.
        unit: What is counted.
        delay_per_s: Above so much a second in a partition requests are delayed; ``None`` if never.
        delay_ms: By so long.
        reject_per_s: Above so much a second in a partition they are rejected with ``ERR_BUSY``;
            ``None`` if never.
    """

    key: str
    value: str
    requests: Requests
    unit: Unit
    delay_per_s: int | None = None
    delay_ms: int = 0
    reject_per_s: int | None = None


def denial_of(envs: Mapping[str, str]) -> Denial | None:
    """Return the denied requests, or ``None`` if none or an invalid value."""
    value = envs.get(DENY, "")
    how, _, which = value.partition("*")
    if how not in ("timeout", "reconfig") or which not in _WHICH:
        return None
    return Denial(value=value, requests=_WHICH[which], is_answered=how == "reconfig")


def throttles_of(envs: Mapping[str, str], partition_count: int) -> Iterator[Throttle]:
    """Return the limits; a value that no server takes limits nothing.

    Args:
        envs: The table's environment.
        partition_count: Its partitions: each has its share of the table's limit.
    """
    for key, (requests, unit) in THROTTLES.items():
        limits = {}
        for part in filter(None, envs.get(key, "").split(",")):
            words = part.strip().split("*")
            if len(words) == 3 and words[1] in ("delay", "reject") and is_whole(words[2]):
                units = _units(words[0])
                if units:  # 0: no limit
                    limits[words[1]] = units // max(partition_count, 1) + 1, int(words[2])
        if limits:
            delay_per_s, delay_ms = limits.get("delay", (None, 0))
            yield Throttle(
                key=key,
                value=envs[key],
                requests=requests,
                unit=unit,
                delay_per_s=delay_per_s,
                delay_ms=delay_ms,
                reject_per_s=limits.get("reject", (None, 0))[0],
            )


def _units(text: str) -> int:
    multiplier = _MULTIPLIERS.get(text[-1:], 1)
    digits = text[:-1] if multiplier > 1 else text
    return int(digits) * multiplier if is_whole(digits) else 0
