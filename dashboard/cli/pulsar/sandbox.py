"""``trimtab sandbox`` for Pulsar: a real ZooKeeper and simulated brokers."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.errors import UnknownNameError
from dashboard import services
from dashboard.cli.output import EXIT_DONE, UsageFaultError, print_json, print_line
from dashboard.cli.sandbox_config import (
    SECTION,
    former_addresses,
    save_addresses,
    write_sandbox_config,
)
from dashboard.cli.supervisor import end_with_parent, shutting_down
from dashboard.services import sandbox
from dashboard.services.sandbox import SandboxRequest

if TYPE_CHECKING:
    from dashboard.services.sandbox import RunningFleet

NAME: Final = services.SANDBOX_NAME
"""Of its cluster."""


def options(request: SandboxRequest) -> list[str]:
    """Return the options of ``trimtab sandbox`` that the demo passes on."""
    return ["--brokers", str(request.brokers), "--bundles", str(request.bundles)]


def summary(request: SandboxRequest) -> str:
    """Return a short description of the sandbox."""
    return f"{request.brokers} brokers, {request.bundles} bundles"


def run(
    request: SandboxRequest, write_config: Path | None, state_dir: Path | None, *, as_json: bool
) -> int:
    """Run the fleet until Ctrl-C.

    Args:
        request: Its size, and how it begins.
        write_config: Configuration to write.
        state_dir: Of ZooKeeper's data.
        as_json: Print one JSON object.
    Raises:
        UsageFaultError: No such release.
    """
    if request.release is not None:
        from core.pulsar.settings import find_release  # noqa: PLC0415  # a demo takes only the words

        try:
            find_release(request.release)
        except UnknownNameError as exc:
            raise UsageFaultError(exc.message, hint=exc.hint) from exc
    end_with_parent()
    with (
        shutting_down(threading.Event()) as stop,
        sandbox.sandbox(request, state_dir, former_addresses(write_config, "brokers")) as fleet,
    ):
        if write_config is not None:
            home = write_config.resolve().parent
            write_sandbox_config(write_config, [section(fleet)], home, request.minute_s)
            brokers = [url.removeprefix("http://") for url in fleet.admin_urls]
            save_addresses(write_config, brokers=brokers)
        if as_json:
            print_json({"zookeeper": fleet.zookeeper, "admin_urls": fleet.admin_urls})
        else:
            print_line(f"ZooKeeper  {fleet.zookeeper}")
            print_line(f"brokers    {len(fleet.admin_urls)}, first: {fleet.admin_urls[0]}")
            if write_config is not None:
                print_line(f"config     {write_config}")
        sys.stdout.flush()
        stop.wait()
    return EXIT_DONE


def section(fleet: RunningFleet) -> str:
    """Return the lines of a Pulsar sandbox."""
    lines = [
        SECTION,
        f"name = {json.dumps(services.SANDBOX_NAME)}",
        'environment = "demo"',
        "read_only = false",
        f"zookeeper = {json.dumps(fleet.zookeeper)}",
        f"admin_urls = {json.dumps(fleet.admin_urls)}",
        "prometheus = { scrape = true, sample_s = 0.5 }",
    ]
    return "\n".join(lines) + "\n"
