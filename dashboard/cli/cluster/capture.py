"""What ``import-zk`` does, and what every command says about a snapshot it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from core.errors import InputError, UnknownNameError
from core.snapshot import PulsarSnapshot, TableManifest
from core.snapshot.store import save_snapshot
from core.snapshot.zkdump import import_zk_dump
from dashboard import services
from dashboard.cli import answers
from dashboard.cli.output import Answer, emit, note, say


def import_zk(dump: Path, out: Path, cluster: str | None, *, as_json: bool) -> int:
    """``trimtab import-zk``."""
    name = cluster or dump.name.removesuffix(".jsonl")
    snapshot = import_zk_dump(dump, name, now=datetime.now(tz=UTC))
    save_snapshot(snapshot, out)
    return emit(captured_answer(snapshot, out), as_json=as_json)


def with_topics(
    cluster: services.Cluster, snapshot: PulsarSnapshot, bundles: Sequence[str]
) -> PulsarSnapshot:
    """Return the snapshot with the topics of some bundles, read from their owners right now.

    Raises:
        UnknownNameError: The cluster has no such bundle.
        InputError: Nobody owns it, so no broker has topics of it loaded.
        RemoteError: The owner did not answer as it should.
    """
    if not bundles:
        return snapshot
    names = snapshot.bundles.column("bundle").to_pylist()
    address = {
        row["broker"]: cluster.web_address(row["web_url"], row["web_url_tls"])
        for row in snapshot.brokers.select(["broker", "web_url", "web_url_tls"]).to_pylist()
    }
    found = []
    for bundle in dict.fromkeys(bundles):
        if bundle not in names:
            raise UnknownNameError.of("bundle", bundle, names, place=cluster.name)
        owner = snapshot.bundles.column("owner")[names.index(bundle)].as_py()
        url = address.get(owner or "")
        if not url:
            raise InputError(
                f"No broker that can be asked owns {bundle}: its topics are loaded nowhere.",
                hint="Capture without --topics-of, or look the bundle's topics up by a client.",
            )
        found.append(services.fetch_topics(cluster, url, bundle))
    topics = pa.concat_tables(found).sort_by("hash")
    entry = TableManifest(source="rest", rows=topics.num_rows)
    manifest = replace(snapshot.manifest, tables={**snapshot.manifest.tables, "topics": entry})
    return PulsarSnapshot.build(manifest, {**snapshot.tables, "topics": topics})


def captured_answer(snapshot: PulsarSnapshot, out: Path) -> Answer:
    """Return what ``capture`` and ``import-zk`` say about the snapshot they wrote."""

    def show() -> None:
        counts = ", ".join(
            f"{entry.num_rows} {name}" for name, entry in snapshot.tables.items() if entry.num_rows
        )
        say(f"{out}: {counts or 'nothing'} of {snapshot.manifest.cluster}.")
        for problem in snapshot.manifest.problems:
            note(f"{problem.severity}: {problem.place}: {problem.what} {problem.done}".rstrip())

    return Answer(answers.captured(snapshot, out), show)
