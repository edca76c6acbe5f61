"""Modules of the command line that belong to one system: the one list of these systems.

A system without modules here (a third one) has what every system has: findings and steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, Literal, get_args

Kind = Literal["pulsar", "pegasus"]
FIRST: Final[Kind] = "pulsar"
"""Meant where nothing says which."""
KIND_HELP: Final = "pegasus: meta and replica servers, no ZooKeeper."
"""How the sandboxes of the kinds differ."""
HELP_OF: Final[Mapping[str, str]] = {
    "pulsar": "`trimtab --help` lists its commands.",
    "pegasus": "`trimtab pegasus --help` lists its commands.",
}
"""Where the commands for a cluster of a kind are listed."""
PACKAGES: Final[Mapping[str, str]] = {kind: f"dashboard.cli.{kind}" for kind in get_args(Kind)}
"""By kind, the package with its ``views`` and ``sandbox``."""


def part(kind: str, name: str) -> Any:
    """Return a module of a system, imported now: commands must start fast.

    Args:
        kind: The system's name.
        name: Of the module.
    Returns:
        ``None``: the system has no modules of its own.
    """
    package = PACKAGES.get(kind)
    return None if package is None else import_module(f"{package}.{name}")
