"""``trimtab advise``: the group."""

from __future__ import annotations

from typing import Final

import typer

from dashboard.cli.registry import lazy_group

COMMANDS: Final = {
    "dashboard.cli.pulsar.advise.bundles": {
        "bundles": "Compute how many bundles a namespace needs, with every reason.",
        "partitions": (
            "Show how a topic's partitions fall into bundles, and plan splits that spread them."
        ),
        "lookups": ("Compute the lookups of unloading a namespace, at once and bundle by bundle."),
    },
    "dashboard.cli.pulsar.advise.clients": {
        "queue": "Compute a producer's queue and batches, and when one slow broker blocks it.",
    },
    "dashboard.cli.pulsar.advise.storage": {
        "compaction": "Show what a bookie's compaction removes from an entry log, and what stays.",
        "ledger": "Compute when a ledger rolls over, and its size.",
        "retention": "Compute the life of a message: backlog, retained, deleted, and why.",
        "disks": "Estimate how evenly ledgers fill the directories of a bookie.",
    },
}
"""Commands by module, each with its help line."""

app = typer.Typer()
app.add_typer(
    typer.Typer(
        cls=lazy_group(COMMANDS),
        no_args_is_help=True,
        help="Compute sizes and limits that operators tune.",
    ),
    name="advise",
)
