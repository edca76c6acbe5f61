"""The released classes of older Pulsar lines for the tests: fetched once with Maven, or a reason.

Only what a line has of its own is fetched (``pulsar-broker``, ``pulsar-broker-common``,
``pulsar-common``); the libraries come from the newest release's jars (:mod:`pulsar_jars`), behind
them on the class path.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Final

import filelock
import platformdirs
from pulsar_jars import PULSAR_VERSION, SkipReason, pulsar_jars

_ALL: Final = ("pulsar-common", "pulsar-broker-common", "pulsar-broker")
RELEASED: Final[dict[str, tuple[str, ...]]] = {
    "2.8.0": _ALL,
    "2.8.4": _ALL[:2],
    "2.9.0": _ALL,
    "2.9.3": _ALL[:2],
    "2.10.5": _ALL,
    "2.11.0": _ALL,
    "3.0.7": _ALL,
    "3.1.2": _ALL,
    "3.2.2": _ALL,
    "3.3.2": _ALL,
    "4.0.0": _ALL,
    "4.0.8": _ALL,
    "5.0.0-M1": _ALL,
}
"""Versions that Maven Central serves, to their artifacts; 4.1 and 5.0.0 had none of them."""

_SCHEDULER: Final = "org/apache/pulsar/broker/loadbalance/extensions/scheduler/TransferShedder"
"""TransferShedder needs much of a broker: only its own classes are taken from an older release."""

_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_LIMIT_S: Final = 120.0


@functools.cache
def class_path(version: str) -> str | SkipReason:
    """Return the class path of a release, or why there is none."""
    libraries = pulsar_jars()
    if isinstance(libraries, SkipReason):
        return libraries
    if version == PULSAR_VERSION:
        return f"{libraries}/*"
    folder = Path(platformdirs.user_cache_dir("trimtab")) / "pulsar-releases" / version
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / "fetch.lock", timeout=_LIMIT_S * len(_ALL)):
        for artifact in RELEASED[version]:
            if not (folder / f"{artifact}-{version}.jar").is_file():
                reason = _fetch(artifact, version, folder)
                if reason is not None:
                    return reason
    own = sorted(folder.glob("*.jar"))
    replaced = tuple(f"{name}-{PULSAR_VERSION}" for name in _ALL)
    shared = [jar for jar in sorted(libraries.glob("*.jar")) if jar.stem not in replaced]
    if len(own) < len(_ALL):  # what the registry does not serve of this version
        shared += [libraries / f"{name}-{PULSAR_VERSION}.jar" for name in _ALL]
    return ":".join(map(str, (*own, *shared)))


@functools.cache
def transfer_class_path(version: str) -> str | SkipReason:
    """Return the class path with a release's TransferShedder before the newest release's jars."""
    libraries, whole = pulsar_jars(), class_path(version)
    if isinstance(libraries, SkipReason) or isinstance(whole, SkipReason):
        return libraries if isinstance(libraries, SkipReason) else whole
    folder = Path(platformdirs.user_cache_dir("trimtab")) / "pulsar-releases" / version
    with (
        filelock.FileLock(folder / "fetch.lock", timeout=_LIMIT_S),
        zipfile.ZipFile(folder / f"pulsar-broker-{version}.jar") as jar,
    ):
        wanted = [name for name in jar.namelist() if name.startswith(_SCHEDULER)]
        jar.extractall(folder / "transfer", wanted)
    return f"{folder / 'transfer'}:{libraries}/*"


def _fetch(artifact: str, version: str, folder: Path) -> SkipReason | None:
    maven = shutil.which("mvn")
    if maven is None:
        return SkipReason(f"no {artifact} {version}: Maven (mvn) is not installed")
    named = f"-Dartifact=org.apache.pulsar:{artifact}:{version}"
    try:
        done = subprocess.run(
            [maven, "--batch-mode", "--quiet", _COPY, named, f"-DoutputDirectory={folder}"],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return SkipReason(f"Maven did not fetch {artifact} {version} within {_LIMIT_S:.0f} s")
    if done.returncode == 0:
        return None
    return SkipReason(f"Maven could not fetch {artifact} {version}")
