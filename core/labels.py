"""Labels of brokers and nodes: what people call a server whose address differs in one digit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from core.units import name_fault

MAX_LABEL: Final = 40
"""Characters of a label: a column and an axis have room for so many."""

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_KNOWN: Final = ("address", "host", "name", "port", "domain")


def label_fault(text: str) -> str:
    """Return the reason a text is not a valid label, or "".

    Args:
        text: May contain ``{address}``, ``{host}``, ``{name}`` (the host up to its first dot),
            ``{port}`` and ``{domain}`` (the failure domain of a broker).
    """
    unknown = [one for one in _PLACEHOLDER.findall(text) if one not in _KNOWN]
    if unknown:
        return f"{{{unknown[0]}}} is unknown; known: {', '.join(f'{{{one}}}' for one in _KNOWN)}"
    plain = _PLACEHOLDER.sub("x", text)
    if "{" in plain or "}" in plain:
        return "a brace is not closed"
    if len(plain) > MAX_LABEL:
        return f"it has more than {MAX_LABEL} characters"
    fault = name_fault(plain)
    return f"it {fault}" if fault else ""


def labels_of(patterns: Mapping[str, str], servers: Mapping[str, str | None]) -> dict[str, str]:
    """Return the labels of servers; two servers never have the same one.

    Args:
        patterns: Address (``host:port``), host or pattern of either to a label; the first that
            matches counts, whole addresses before patterns.
        servers: Address to failure domain; ``None`` if none is known.
    Returns:
        By address; of servers that no pattern matches, nothing.
    """
    found = {}
    for address, domain in servers.items():
        text = _text_for(patterns, address)
        label = "" if text is None else _filled(text, address, domain or "")
        if label and label != address:
            found[address] = label
    number = Counter(found.values())
    return {
        address: label if number[label] == 1 else f"{label} {address}"
        for address, label in found.items()
    }


def _text_for(patterns: Mapping[str, str], address: str) -> str | None:
    host = _host(address)
    for exact in (address, host):
        if exact in patterns:
            return patterns[exact]
    return next(
        (
            text
            for pattern, text in patterns.items()
            if fnmatchcase(address, pattern) or fnmatchcase(host, pattern)
        ),
        None,
    )


def _filled(text: str, address: str, domain: str) -> str:
    host = _host(address)
    is_ip = host.startswith("[") or host.replace(".", "").isdigit()
    values = {
        "address": address,
        "host": host,
        "name": host if is_ip else host.partition(".")[0],
        "port": address.rpartition(":")[2],
        "domain": domain,
    }
    filled = _PLACEHOLDER.sub(lambda found: values[found.group(1)], text)
    return " ".join(filled.split())


def _host(address: str) -> str:
    return address.rpartition(":")[0] or address
