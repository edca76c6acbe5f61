"""Defaults of the released ``ServiceConfiguration`` classes, as they are kept in the repository.

    .venv/bin/python tests/parity/release_golden.py

writes the part of ``golden/releases.json`` that the released jars give (``jars``). The other parts
are facts of Apache Pulsar's repository: ``commits`` has the commit of each release, ``sources`` the
default and whether it is dynamic by the first release that has them, read from the same class.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from pulsar_jars import PULSAR_VERSION, SkipReason
from release_jars import RELEASED, class_path

from connectors.sandbox.java import find_java
from core.pulsar.catalogue import SETTINGS

GOLDEN: Final = Path(__file__).parent / "golden" / "releases.json"
VERSIONS: Final = (*RELEASED, PULSAR_VERSION)
_DRIVER: Final = Path(__file__).parent / "java" / "ReleaseDriver.java"
Fields = dict[str, tuple[str | None, bool]]
"""Key to the text of its default and whether it is dynamic."""


def load_golden() -> dict[str, Any]:
    """Return the whole file."""
    held: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return held


def read_fields(version: str) -> Fields | SkipReason:
    """Ask the released class for the settings that Trimtab knows."""
    path = class_path(version)
    if isinstance(path, SkipReason):
        return path
    java = str(find_java().path)
    done = subprocess.run(
        [java, "-Xmx400m", "-XX:+UseSerialGC", "-cp", path, str(_DRIVER)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    fields = json.loads(done.stdout)["fields"]
    keys = sorted(setting.key for setting in SETTINGS)
    return {key: (fields[key][0], fields[key][1]) for key in keys if key in fields}


def main() -> None:
    """Write the part of the jars."""
    body = load_golden()
    for version in VERSIONS:
        found = read_fields(version)
        if isinstance(found, SkipReason):
            sys.exit(found)
        body["jars"][version] = {key: list(value) for key, value in found.items()}
    GOLDEN.write_text(json.dumps(body, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
