"""``broker.conf`` as a broker reads it: Java properties, the last of equal keys counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

import javaproperties

from core.errors import InputError
from core.findings.finding import Finding
from core.pulsar.snapshot.config_files.memory import memory_limits
from core.pulsar.snapshot.config_files.model import PREFIX, VARIABLE, BrokerConfig, several_values
from core.pulsar.snapshot.input_files import read_input

_HINT: Final = "Specify a broker.conf: one KEY=VALUE per line."
_MARK: Final = b"\xef\xbb\xbf"
_MEMORY: Final = "PULSAR_MEM"


@dataclass(frozen=True, slots=True)
class _Entry:
    line: int
    key: str
    value: str


def read_broker_conf(path: Path) -> BrokerConfig:
    """Read a ``broker.conf``, or a file of environment variables with ``PULSAR_PREFIX_`` keys.

    Raises:
        InputError: The file cannot be read, or holds no setting.
    Source:
        Pulsar ``PulsarConfigurationLoader#create`` (Java properties), ``FieldParser#update``
        (values are trimmed, blank ones leave the default).
    """
    body = read_input(path, _HINT)
    has_mark = body.startswith(_MARK)
    entries = list(_entries(body.removeprefix(_MARK), path))
    if not entries or not any(entry.value for entry in entries):
        raise InputError(f"{path} has no settings: no line has the form KEY=VALUE.", hint=_HINT)
    _check_form(entries, path)
    remarks = [*_byte_order_mark(entries[0])] if has_mark else []
    remarks += _twice(entries)
    values: dict[str, str] = {}
    lines: dict[str, str] = {}
    options = ""
    for entry in entries:
        if VARIABLE.match(entry.key):
            options = entry.value if entry.key == _MEMORY else options
        else:
            values[entry.key] = entry.value
            lines[entry.key] = f"line {entry.line}"
    heap, direct = memory_limits(options)
    return BrokerConfig(
        name=path.name,
        values=values,
        lines=lines,
        remarks=tuple(remarks),
        heap_mib=heap,
        direct_memory_mib=direct,
    )


def _entries(body: bytes, path: Path) -> Iterator[_Entry]:
    line = 1
    try:
        for part in javaproperties.parse(BytesIO(body)):
            if isinstance(part, javaproperties.KeyValue):
                key = part.key.strip().removeprefix(PREFIX)
                yield _Entry(line, key, part.value.strip())
            # a line ends with \n, \r\n or \r
            source = part.source.replace("\r\n", "\n").replace("\r", "\n")
            line += source.count("\n")
    except javaproperties.InvalidUEscapeError as exc:
        raise InputError(
            f"{path} line {line} has the invalid escape {exc.escape}: a broker does not start "
            "with it.",
            hint="Use \\u with four hexadecimal digits, or double the backslash.",
        ) from exc


def _check_form(entries: list[_Entry], path: Path) -> None:
    """Refuse what is no properties file: JSON, YAML, or bytes."""
    first = entries[0]
    if "\x00" in first.key or first.key[:1] in "{[<":
        raise InputError(f"{path} is not a properties file: line {first.line}.", hint=_HINT)
    if all(entry.key.endswith(":") or entry.key == "-" or not entry.value for entry in entries):
        raise InputError(f"{path} is not a properties file: line {first.line}.", hint=_HINT)


def _byte_order_mark(first: _Entry) -> Iterator[Finding]:
    if first.line == 1:
        yield Finding(
            code="byte_order_mark",
            title="File begins with a byte order mark",
            severity="warning",
            subject_kind="setting",
            subject=first.key,
            area="settings",
            keys=(first.key,),
            sentence=f"The file starts with a byte order mark before {first.key}.",
            consequence=f"Brokers read the mark as a part of the key: {first.key} is not set.",
            hint="Save the file as UTF-8 without a byte order mark.",
        )


def _twice(entries: list[_Entry]) -> Iterator[Finding]:
    """Yield the keys that have several values."""
    held: dict[str, list[tuple[int, str]]] = {}
    for entry in entries:
        held.setdefault(entry.key, []).append((entry.line, entry.value))
    for key, several in held.items():
        if len({value for _, value in several}) > 1:
            yield several_values(key, several)
