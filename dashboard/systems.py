"""The systems on pages and in commands: the one list of them.

Modules are named and imported on first use: commands must start fast. A system without an entry (a
third one) has what every system has: findings and steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import resolve_name
from typing import Any, Final, Literal, NamedTuple

Kind = Literal["pulsar", "pegasus"]
FIRST: Final[Kind] = "pulsar"
"""Meant where nothing says which."""
KIND_HELP: Final = "pegasus: meta and replica servers, no ZooKeeper."
"""How the sandboxes of the kinds differ."""


class SystemEntry(NamedTuple):
    """Parts of a system, ``module:name``.

    Attributes:
        help: Where the commands for its clusters are listed.
        frame: Header, frame and runs: a ``PageSystem``.
        reading: Reads a saved snapshot, with its findings.
        pages: Its part of every page that all systems share, by the page's folder.
        step_text: Returns the ``StepText`` of a step; empty: descriptions of steps are enough.
    """

    help: str
    frame: str
    reading: str
    pages: Mapping[str, str]
    step_text: str = ""


SYSTEMS: Final[Mapping[str, SystemEntry]] = {
    "pulsar": SystemEntry(
        help="`trimtab --help` lists its commands.",
        frame="dashboard.components.pulsar.system:PULSAR",
        reading="dashboard.queries.pulsar.snapshots:Reading",
        pages={
            "backtest": "dashboard.app_pages.pulsar.backtest.view:PULSAR",
            "diagnose": "dashboard.app_pages.pulsar.diagnose.view:PULSAR",
            "fleet": "dashboard.app_pages.pulsar.fleet.view:PULSAR",
            "history": "dashboard.app_pages.pulsar.history:PULSAR",
            "run": "dashboard.app_pages.pulsar.run.view:PULSAR",
        },
        step_text="dashboard.presenters.pulsar.steps:step_text",
    ),
    "pegasus": SystemEntry(
        help="`trimtab pegasus --help` lists its commands.",
        frame="dashboard.components.pegasus.system:PEGASUS",
        reading="dashboard.queries.pegasus.snapshots:PegasusReading",
        pages={
            "backtest": "dashboard.app_pages.pegasus.backtest.view:PEGASUS",
            "diagnose": "dashboard.app_pages.pegasus.diagnose.view:PEGASUS",
            "fleet": "dashboard.app_pages.pegasus.fleet.view:PEGASUS",
            "history": "dashboard.app_pages.pegasus.history:PEGASUS",
            "run": "dashboard.app_pages.pegasus.run:PEGASUS",
        },
    ),
}
"""By the kind of the cluster, in the order of pages; commands: ``dashboard.cli.<kind>``."""


def page_part(kind: str, page: str) -> Any:
    """Return a system's part of a page.

    Args:
        kind: The system's name.
        page: The page's folder.
    """
    return resolve_name(SYSTEMS[kind].pages[page])


def part(kind: str, name: str) -> Any:
    """Return a module of the commands of a system.

    Args:
        kind: The system's name.
        name: Of the module.
    Returns:
        ``None``: the system has no modules of its own.
    """
    return import_module(f"dashboard.cli.{kind}.{name}") if kind in SYSTEMS else None
