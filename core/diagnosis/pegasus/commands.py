"""The command lines that make plans of a fix."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from core.pegasus.steps.level import LEVEL_KEY


def fix_commands(wanted: Mapping[str, Any], cluster: str, more: str = "") -> list[str]:
    """Return the commands of the settings, then that of the function level.

    Args:
        wanted: Remote command, flag or level to its value.
        cluster: Name of the cluster.
        more: Further words of the command, such as the configuration.
    """
    name = shlex.quote(cluster)
    lines = [
        f"trimtab pegasus set {name} {shlex.join((key, str(value)))} --plan plan.json{more}"
        for key, value in wanted.items()
        if key != LEVEL_KEY
    ]
    level = wanted.get(LEVEL_KEY)
    if level is not None:
        lines.append(f"trimtab pegasus level {name} set {level} --plan plan.json{more}")
    return lines
