"""What was read of a broker's configuration file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.catalogue.broker_keys import broker_keys
from core.pulsar.settings import SETTING_BY_KEY

PREFIX: Final = "PULSAR_PREFIX_"
"""Before a key that the images write into ``broker.conf`` even where it is not in there."""

VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]*\Z|PF_\w+\Z")
"""Variables of the environment that are no keys of ``broker.conf``."""


def shown_value(key: str, value: str) -> str:
    """Return a value for a message: texts of keys outside the load balancer may be secrets."""
    known = broker_keys().get(key)
    is_plain = key in SETTING_BY_KEY or (known is not None and known.kind not in ("text", "names"))
    return (value or "blank") if is_plain else "(not shown)"


def several_values(key: str, held: Sequence[tuple[int, str]]) -> Finding:
    """Return the finding on a key that a file has with several values.

    Args:
        key: As the file writes it.
        held: Line and value of each, in the order of the file.
    """
    name = key.removeprefix(PREFIX)
    shown = [(line, shown_value(name, value)) for line, value in held]
    places = ", ".join(f"{value} (line {line})" for line, value in shown)
    return Finding(
        code="key_twice",
        title="Setting has several values in the file",
        measured=Quantity(len(shown), "values"),
        limit=Quantity(1),
        severity="warning",
        subject_kind="setting",
        subject=name,
        area="settings",
        keys=(name,),
        sentence=f"{name} has {len(shown)} values in the file: {places}.",
        consequence=f"The last one applies: {shown[-1][1]}.",
        hint="Keep one of the lines.",
        evidence={"rows": [{"line": line, "value": value} for line, value in shown]},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Settings of brokers as a file names them.

    Attributes:
        name: Of the file.
        values: Key to value, as the broker reads them; blank values are excluded where they leave
            the default.
        lines: Key to where it is written, for example ``line 12``.
        remarks: What is wrong with the file itself.
        unread: Sentences about what was not judged.
        release: Version of the image; ``None`` if the file does not name it.
        brokers: How many there are; 1 where the file does not say it.
        heap_mib: Largest heap of a broker; ``None`` if the file does not set it.
        direct_memory_mib: Largest direct memory of a broker; ``None`` if the file does not set it.
        is_helm: Whether a value is changed in the values of a chart.
    """

    name: str
    values: Mapping[str, str]
    lines: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[Finding, ...] = ()
    unread: tuple[str, ...] = ()
    release: str | None = None
    brokers: int = 1
    heap_mib: float | None = None
    direct_memory_mib: float | None = None
    is_helm: bool = False
