"""``trimtab lookup``: where a topic is, offline on a snapshot."""

from __future__ import annotations

from typing import Annotated

import typer

from core.pulsar.lookup import lookup_topic
from core.snapshot.store import load_snapshot
from dashboard.cli.options import Config, Json
from dashboard.cli.output import Answer, emit, print_line
from dashboard.cli.pulsar import answers as pulsar_answers
from dashboard.cli.pulsar.source import Snapshot

app = typer.Typer()


@app.command()
def lookup(
    snapshot: Snapshot,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Full or short topic name.")],
    config: Config = None,  # noqa: ARG001  # read with the snapshot
    as_json: Json = False,
) -> int:
    """Show the bundle and the owner of a topic.

    Step by step: topic, hash, bundle, owner.
    """
    found = lookup_topic(load_snapshot(snapshot), topic)

    def show() -> None:
        no_owner = "no owner" if found.is_owner_known else "unknown owner"
        owner = found.owner or no_owner
        service = found.service
        if service is not None and found.owner and not service.is_served:
            owner += " (not served)" if service.is_served is False else " (service unknown)"
        print_line(f"{found.topic} -> {found.bundle} -> {owner}", is_prose=True)
        print_line()
        for number, step in enumerate(found.steps, 1):
            print_line(f"{number}. {step.title}: {step.detail}")
        for text in found.notes:
            print_line(f"Note: {text}")

    return emit(Answer(pulsar_answers.lookup(found), show), as_json=as_json)
