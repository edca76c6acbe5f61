"""One Spark session a process, made when it is first asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from core.errors import ConfigError, PlanConflictError

_MISSING_MODULE: Final = "jdk.incubator.vector"
"""What Spark's launcher asks every Java for and small runtimes do not have."""

_LAUNCHER: Final = """#!/bin/sh
# the runtime has no such module, and Spark does without it
for word; do
    shift
    [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""
_PROBE_TIMEOUT_S: Final = 30.0
_LOCK: Final = threading.Lock()
_MADE: dict[SparkOptions, SparkSession] = {}


@dataclass(frozen=True)
class SparkOptions:
    """Where Spark runs.

    Attributes:
        master: ``local[*]``, ``spark://host:port``, ``yarn``, ``k8s://...`` or, through Spark
            Connect, ``sc://host:port``.
        java_home: Directory of the Java runtime for the driver; ``None``: ``JAVA_HOME``'s.
        conf: Further options by their Spark names; they win over ours.
    """

    master: str = "local[*]"
    java_home: Path | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Count the options' content."""
        return hash((self.master, self.java_home, tuple(sorted(self.conf.items()))))


def session(options: SparkOptions) -> SparkSession:
    """Return the session of this process; it is made at the first call, which takes seconds.

    Raises:
        PlanConflictError: This process has a session with other options.
        ConfigError: It cannot be made; the message has Spark's first words.
    """
    with _LOCK:
        if options not in _MADE:
            if _MADE:
                raise PlanConflictError(
                    f"This process runs Spark on {next(iter(_MADE)).master} already.",
                    hint="Use one master a process.",
                )
            _MADE[options] = _make(options)
        return _MADE[options]


def end_session() -> None:
    """End the session, if there is one."""
    with _LOCK:
        for spark in _MADE.values():
            spark.stop()
        _MADE.clear()


def _make(options: SparkOptions) -> SparkSession:
    builder: Any = SparkSession.builder.appName("trimtab")
    if options.master.startswith("sc://"):
        builder = builder.remote(options.master)
    else:
        _point_at_java(options.java_home)
        # workers must run the interpreter that has Trimtab
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        builder = builder.master(options.master)
        for key, value in {**_defaults(options.master), **options.conf}.items():
            builder = builder.config(key, value)
    try:
        spark: SparkSession = builder.getOrCreate()
    except Exception as exc:  # Spark raises many kinds, all of them mean the same here
        first = str(exc).strip().partition("\n")[0]
        raise ConfigError(
            f"Spark does not start on {options.master}: {first}",
            hint="Check the master, and that its Java is 17 or newer.",
        ) from exc
    if not options.master.startswith("sc://"):
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def _defaults(master: str) -> dict[str, str]:
    """Options that fit small jobs: no web page, few and short tasks."""
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    if master.startswith("local"):
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return chosen


def _point_at_java(home: Path | None) -> None:
    if home is None:
        return
    java = home / "bin" / "java"
    modules = subprocess.run(  # noqa: S603  # the runtime that was found
        [java, "--list-modules"],
        capture_output=True,
        text=True,
        timeout=_PROBE_TIMEOUT_S,
        check=False,
    ).stdout
    os.environ["JAVA_HOME"] = str(home if _MISSING_MODULE in modules else _without_module(java))


def _without_module(java: Path) -> Path:
    """Return a home whose ``java`` is the same without the module that is missing."""
    home = Path(tempfile.mkdtemp(prefix="trimtab-java-"))
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(module=_MISSING_MODULE, java=java))
    launcher.chmod(0o700)
    return home
