"""Runs Pulsar's own classes in a Java process on fleets that tests make, by one of our drivers.

The process connects to nothing. Where the jars or a Java compiler are missing, the answer is one
line that says so.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from pulsar_jars import SkipReason, pulsar_jars
from release_jars import class_path, transfer_class_path

from connectors.sandbox.java import find_java
from core.errors import ConfigError

_DRIVERS: Final = Path(__file__).parents[1] / "parity" / "java"
_QUIET: Final = _DRIVERS / "quiet.properties"
_OPENED: Final = ("java.base/jdk.internal.platform", "java.base/sun.net", "java.base/java.io")
LIMIT_S: Final = 280.0


@functools.cache
def driver_command(
    driver: str = "PlacementDriver", version: str = ""
) -> tuple[str, ...] | SkipReason:
    """Return the command of a driver up to the cases file, or why there is none.

    Args:
        driver: Java class beside the parity tests.
        version: Release whose classes are run; empty: that of the jars at hand.
    """
    jars = pulsar_jars()
    if isinstance(jars, SkipReason):
        return jars
    find_path = transfer_class_path if driver == "TransferDriver" else class_path
    path = find_path(version) if version else f"{jars}/*"
    if isinstance(path, SkipReason):
        return path
    try:
        java = find_java().path
    except ConfigError as error:
        return SkipReason(f"no Java for the parity driver: {error}")
    modules = subprocess.run(
        [java, "--list-modules"], capture_output=True, text=True, check=False, timeout=60
    ).stdout
    if "jdk.compiler" not in modules:
        return SkipReason(f"the parity driver needs a JDK, and {java} has no compiler")
    opened = [option for name in _OPENED for option in ("--add-opens", f"{name}=ALL-UNNAMED")]
    return (
        *(str(java), "-Xmx1g", "-XX:+UseSerialGC", *opened),
        *(f"-Dlog4j2.configurationFile={_QUIET}", "-cp", str(path)),
        str(_DRIVERS / f"{driver}.java"),
    )


def ask_real_classes(
    cases: Iterable[dict[str, Any]],
    folder: Path,
    driver: str = "PlacementDriver",
    version: str = "",
    *,
    limit_s: float = LIMIT_S,
) -> list[dict[str, Any]]:
    """Return the real classes' answer to each case.

    Args:
        cases: Fleets with questions, in the form the driver reads.
        folder: Where the cases file goes.
        driver: Java class beside the parity tests.
        version: Release whose classes are run; empty: that of the jars at hand.
        limit_s: How long they may take.
    Raises:
        AssertionError: The driver failed; with the end of what it said.
    """
    command = driver_command(driver, version)
    assert not isinstance(command, SkipReason), command
    path = folder / f"{driver}-cases.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run(
        [*command, str(path)], capture_output=True, text=True, check=False, timeout=limit_s
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
