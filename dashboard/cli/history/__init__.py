"""``trimtab history``: the group, and options that its commands share."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from dashboard.cli.registry import lazy_group

COMMANDS: Final = {
    "dashboard.cli.history.recorded": {
        "minutes": "List the recorded minutes of a cluster, and where some are missing.",
        "events": (
            "List events: moves, splits, leaders, settings, steps of runs, each with its cause."
        ),
        "agreement": "Compare predicted and actual moves of the leader, round by round.",
        "snapshot": "Write a recorded minute as a snapshot directory, for every other command.",
    },
    "dashboard.cli.history.transfer": {
        "export": "Write a time range into one file that opens on another machine.",
        "import": "Import an exported range, or snapshots; recorded minutes are skipped.",
        "repair": "Repair the history: quarantine damaged files, restore rows, report losses.",
        "compact": "Merge small files and drop what exceeds age or size, as collectors do.",
    },
    "dashboard.cli.history.analysis": {
        "trends": "Show trends of brokers, bundles, nodes and tables: load, change, gap.",
        "flaps": "Show flapping bundles, and moves without effect.",
    },
}
"""Commands by module, each with its help line."""

app = typer.Typer()
app.add_typer(
    typer.Typer(
        cls=lazy_group(COMMANDS),
        help="Read, export, import, repair and analyse the recorded history.",
    ),
    name="history",
)

Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="Cluster name in the history.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Start: ISO 8601 (UTC), or -2h, -30min, -7d."),
]
To = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="End; default: the newest minute.")
]
Uri = Annotated[
    str | None,
    typer.Option("--history", metavar="URI", help="History to read; default: the configuration's."),
]
