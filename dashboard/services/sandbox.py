"""The composition root's part for the local Pulsar fleet; see :mod:`dashboard.services`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from core.errors import InputError
from core.request import Request, param

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Config


class RunningFleet(Protocol):
    """A running sandbox as commands see it."""

    @property
    def zookeeper(self) -> str:
        """``host:port``."""
        ...

    @property
    def admin_urls(self) -> list[str]:
        """Web address of each broker."""
        ...


class SandboxRequest(Request, frozen=True, kw_only=True):
    """Start a local fleet: a real ZooKeeper and simulated brokers."""

    brokers: Annotated[int, param("Simulated brokers", ge=1, le=1_000)] = 12
    bundles: Annotated[int, param("Bundles of the simulated cluster", ge=1, le=1_000_000)] = 600
    seed: Annotated[int, param("Seed of all random draws")] = 7
    minute_s: Annotated[
        float, param("Length of a leader minute (s)", metavar="SECONDS", ge=0.5, le=60)
    ] = 60.0
    dynamic: Annotated[tuple[str, ...], param("Initial dynamic setting", metavar="KEY=VALUE")] = ()
    release: Annotated[
        str | None,
        param("Release line (2.8 to 5.0) or version reported by the Pulsar brokers"),
    ] = None


def write_past(config: Config, first: CachedSnapshot, request: SandboxRequest) -> Iterator[int]:
    """Write a simulated day before the first snapshot of a sandbox into the history.

    Yields:
        How many minutes were written with each part, the last hours first.
    Raises:
        HistoryError: It cannot be written.
    """
    from connectors.sandbox.past.writer import write_past as write  # noqa: PLC0415  # commands must start fast
    from core.history.transfer.importing import load_any  # noqa: PLC0415  # the same

    return write(
        config,
        load_any(first.path),
        brokers=request.brokers,
        bundles=request.bundles,
        seed=request.seed,
        day_s=_day_s(request),
    )


def _day_s(request: SandboxRequest) -> float:
    """Return the length of the workload's day, s."""
    return 60.0 * request.minute_s


def sandbox(
    request: SandboxRequest, data_dir: Path | None, former: Sequence[str] = ()
) -> AbstractContextManager[RunningFleet]:
    """Return a local fleet that runs within the ``with`` block.

    Args:
        request: Its size, and how it begins.
        data_dir: Of ZooKeeper's data; ``None``: a temporary one.
        former: ``host:port`` of the brokers of an earlier run, taken again where they are free.
    Raises:
        UnknownNameError: No such release.
        InputError: A dynamic setting is not ``KEY=VALUE``, or the brokers know no such setting.
    """
    from connectors.sandbox.pulsar.fleet import Sandbox  # noqa: PLC0415  # commands must start fast
    from connectors.sandbox.pulsar.options import SandboxOptions  # noqa: PLC0415  # the same
    from core.pulsar.settings import (  # noqa: PLC0415  # the same
        find_release,
        known_setting,
    )

    options = SandboxOptions(
        brokers=request.brokers,
        bundles=request.bundles,
        seed=request.seed,
        former=[_address(one) for one in former],
        data_dir=data_dir,
        minute_s=request.minute_s,
        stats_every_s=min(10.0, request.minute_s / 4),
        report_check_ms=min(5000, round(request.minute_s * 250)),
        day_s=_day_s(request),
        has_limits=True,
    )
    if request.release is not None:
        options = replace(options, release=find_release(request.release).name)
    for text in request.dynamic:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(
                f"--dynamic {text!r} does not have the form KEY=VALUE.",
                hint="Separate key and value with =.",
            )
        options.dynamic[known_setting(key).key] = value
    return Sandbox(options)


def _address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port``."""
    host, _, port = text.rpartition(":")
    return host, int(port)
