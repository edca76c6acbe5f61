"""The jars of a real Pulsar broker for the tests: found, or fetched once with Maven, or a reason.

``pulsar_jars()`` answers with a folder of jars, or with a ``SkipReason``: one line that says why
there is none. Looked for in this order:

1. the folder that the environment variable ``TRIMTAB_PULSAR_JARS`` names;
2. ``<user cache>/trimtab/pulsar-<version>/lib``;
3. Maven, when it is installed: fetched into that cache once, under a lock, within a time limit.

A failed fetch is remembered for a while, so that a run of all tests does not wait for it again.
As a script it prints the folder (or the reason) and exits 0 (or 1).
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import filelock
import platformdirs

PULSAR_VERSION: Final = "4.2.4"
JARS_VARIABLE: Final = "TRIMTAB_PULSAR_JARS"
FETCH_LIMIT_S: Final = 240.0
FORGET_FAILURE_AFTER_S: Final = 900.0

# The managed versions come from Pulsar's own parent, as the brokers of the release use them.
_POM: Final = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>trimtab.tests</groupId>
  <artifactId>real-pulsar</artifactId>
  <version>1</version>
  <dependencyManagement>
    <dependencies>
      <dependency>
        <groupId>org.apache.pulsar</groupId>
        <artifactId>pulsar</artifactId>
        <version>{PULSAR_VERSION}</version>
        <type>pom</type>
        <scope>import</scope>
      </dependency>
    </dependencies>
  </dependencyManagement>
  <dependencies>
    <dependency>
      <groupId>org.apache.pulsar</groupId>
      <artifactId>pulsar-broker</artifactId>
      <version>{PULSAR_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""
# Some poms of the closure name repositories that hold nothing needed here; an empty folder
# answers for them at once, where a dead host would cost the whole time limit.
_SETTINGS: Final = """\
<settings>
  <mirrors>
    <mirror><id>nothing-else</id><mirrorOf>*,!central</mirrorOf><url>{empty}</url></mirror>
  </mirrors>
</settings>
"""


class SkipReason(str):
    """Why there are no jars, in one line, ready for ``pytest.skip``."""

    __slots__ = ()


def cache_folder() -> Path:
    """Return the folder that keeps the jars of this version between runs."""
    return Path(platformdirs.user_cache_dir("trimtab")) / f"pulsar-{PULSAR_VERSION}"


def _holds_a_broker(lib: Path) -> bool:
    return (lib / f"pulsar-broker-{PULSAR_VERSION}.jar").is_file()


@functools.cache
def pulsar_jars() -> Path | SkipReason:
    """Return the folder of jars (class path ``<folder>/*``), or why there is none."""
    named = os.environ.get(JARS_VARIABLE, "")
    if named:
        lib = Path(named)
        if any(lib.glob("pulsar-broker-*.jar")):
            return lib
        return SkipReason(f"{JARS_VARIABLE} names {lib}, which holds no pulsar-broker jar")
    lib = cache_folder() / "lib"
    if _holds_a_broker(lib):
        return lib
    return fetch_jars(cache_folder(), limit_s=FETCH_LIMIT_S)


def fetch_jars(folder: Path, *, limit_s: float) -> Path | SkipReason:
    """Fetch the jars into ``folder/lib`` with Maven, once for all processes.

    Args:
        folder: Where the pom, the settings, the lock and ``lib`` are kept; made when absent.
        limit_s: Seconds after which Maven is stopped; what it had is kept for the next attempt.
    Returns:
        ``folder/lib``, or why it could not be filled.
    """
    maven = shutil.which("mvn")
    if maven is None:
        return SkipReason(
            f"no jars of Pulsar {PULSAR_VERSION}: Maven (mvn) is not installed"
            f" and {JARS_VARIABLE} is not set"
        )
    lib = folder / "lib"
    failure = folder / "fetch-failed.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / "fetch.lock", timeout=limit_s):
            if not _holds_a_broker(lib):
                if failure.is_file() and _age_s(failure) < FORGET_FAILURE_AFTER_S:
                    return SkipReason(failure.read_text(encoding="utf-8").strip())
                reason = _run_maven(maven, folder, lib, limit_s)
                if reason is not None:
                    failure.write_text(reason, encoding="utf-8")
                    return reason
                failure.unlink(missing_ok=True)
            return lib
    except filelock.Timeout:
        return SkipReason(f"another process has been fetching Pulsar's jars for {limit_s:.0f} s")
    except OSError as error:
        return SkipReason(f"no jars of Pulsar {PULSAR_VERSION}: {error}")


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _run_maven(maven: str, folder: Path, lib: Path, limit_s: float) -> SkipReason | None:
    empty = folder / "empty-repository"
    empty.mkdir(exist_ok=True)
    pom, settings = folder / "pom.xml", folder / "settings.xml"
    pom.write_text(_POM, encoding="utf-8")
    settings.write_text(_SETTINGS.format(empty=empty.as_uri()), encoding="utf-8")
    partial = folder / f"lib.partial-{os.getpid()}"
    command = [
        *(maven, "--batch-mode", "--quiet", "--settings", str(settings), "--file", str(pom)),
        *("-Daether.connector.connectTimeout=10000", "-Daether.connector.requestTimeout=60000"),
        *("-Dmaven.wagon.http.retryHandler.count=1", "dependency:copy-dependencies"),
        *("-DincludeScope=runtime", f"-DoutputDirectory={partial}"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        if done.returncode == 0 and _holds_a_broker(partial):
            shutil.rmtree(lib, ignore_errors=True)
            partial.rename(lib)
            return None
        said = [line for line in (done.stdout + done.stderr).splitlines() if "[ERROR]" in line]
        because = said[0].removeprefix("[ERROR]").strip()[:200] if said else "it said nothing"
        return SkipReason(f"Maven could not fetch Pulsar {PULSAR_VERSION}: {because}")
    except subprocess.TimeoutExpired:
        return SkipReason(
            f"Maven did not fetch Pulsar {PULSAR_VERSION} within {limit_s:.0f} s;"
            " the next attempt goes on from there"
        )
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _main() -> int:
    found = pulsar_jars()
    stream = sys.stdout if isinstance(found, Path) else sys.stderr
    stream.write(f"{found}\n")
    return 0 if isinstance(found, Path) else 1


if __name__ == "__main__":
    sys.exit(_main())
