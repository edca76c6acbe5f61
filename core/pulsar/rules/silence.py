"""Rules about brokers that do not answer: a load report may outlive the broker that wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from core.findings.finding import Finding
from core.pulsar.rules.context import HealthContext

_SILENT: Final = {"unreachable": "refuses connections", "timeout": "does not answer in time"}
_ADDRESS: Final = re.compile(r"https?://[^/]+/?\Z")  # not one answer of it, which has a path
_NO_LEADER: Final = " It is the leader: no bundle is placed until another broker leads."


def _addresses(row: dict[str, Any]) -> Iterator[str]:
    """Return a broker's web addresses; its id is one, where it never reported any."""
    for url in (row["web_url"], row["web_url_tls"]):
        if url:
            yield url.rstrip("/")
    yield from (f"http://{row['broker']}", f"https://{row['broker']}")


def silent_brokers(context: HealthContext) -> Iterator[Finding]:
    """Registered brokers, and configured addresses of none, that gave no sign of life.

    A broker that died keeps its registration, its report and its bundles until its ZooKeeper
    session times out; one that hangs may keep them for good. Once the registration is gone, only
    the configuration still knows that there should be a broker.
    """
    brokers = context.snapshot.brokers.select(["broker", "web_url", "web_url_tls", "is_leader"])
    row_by_url = {url: row for row in brokers.to_pylist() for url in _addresses(row)}
    for problem in context.snapshot.manifest.problems:
        if problem.code not in _SILENT or not _ADDRESS.match(problem.place):
            continue
        row = row_by_url.get(problem.place.rstrip("/"))
        evidence = {"place": problem.place, "problem": problem.code}
        said = _SILENT[problem.code]
        if row is None:
            yield Finding(
                code="address_silent",
                title="Configured address does not answer",
                severity="warning",
                subject_kind="cluster",
                subject="",
                sentence=f"{problem.place} is configured, but no broker is registered there, and "
                f"it {said}: that broker is down, or the address is out of date.",
                evidence=evidence,
                hint="Start the broker, or take the address out of admin_urls.",
            )
            continue
        yield Finding(
            code="broker_silent",
            title="Broker does not answer",
            severity="warning",
            subject_kind="broker",
            subject=row["broker"],
            sentence=f"{row['broker']} is registered but {said}; its numbers are those of its last "
            f"load report.{_NO_LEADER if row['is_leader'] else ''}",
            evidence=evidence,
            hint="It hangs, or it died and its ZooKeeper session has not timed out yet.",
        )
