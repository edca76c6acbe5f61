"""One Spark session a process, made at first use."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
from pyspark import SparkContext
from pyspark.sql import SparkSession

from core.errors import ConfigError, PlanConflictError

_MODULE: Final = "jdk.incubator.vector"
"""What Spark's launcher requires of every Java; small runtimes do not have it, the others warn."""

_LOG: Final = Path(__file__).with_name("log4j2.properties")
"""The level of Spark's own log on a terminal."""

_LAUNCHER: Final = """#!/bin/sh
# a runtime may have no such module, and Spark does without it
for word; do
    shift
    [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""
_LOCK: Final = threading.Lock()
_MADE: dict[SparkOptions, SparkSession] = {}


@dataclass(frozen=True)
class SparkOptions:
    """Options of Spark.

    Attributes:
        master: ``local[*]``, ``spark://host:port``, ``yarn``, ``k8s://...`` or, through Spark
            Connect, ``sc://host:port``.
        java_home: Directory of the Java runtime for the driver; ``None`` for ``JAVA_HOME``'s.
        conf: Further options by their Spark names; they win over ours. On executors of other
            machines ``spark.pyspark.python`` names an interpreter that has Trimtab, for example one
            out of ``spark.archives``.
    """

    master: str = "local[*]"
    java_home: Path | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Count the options' content."""
        return hash((self.master, self.java_home, tuple(sorted(self.conf.items()))))


def session(options: SparkOptions) -> SparkSession:
    """Return the session of this process; it is made at the first call, which takes seconds.

    One that was stopped, or whose Java process is gone, is created again.

    Raises:
        PlanConflictError: This process has a session with other options.
        ConfigError: It cannot be made; the message has Spark's first words.
    """
    with _LOCK:
        if any(map(_is_over, _MADE.values())):
            _end_all()
        if options not in _MADE:
            if _MADE:
                raise PlanConflictError(
                    f"This process already runs Spark on {next(iter(_MADE)).master}.",
                    hint="Use one master per process.",
                )
            _MADE[options] = _make(options)
        return _MADE[options]


def end_session() -> None:
    """End the session, if there is one; one whose Java has died is forgotten."""
    with _LOCK:
        _end_all()


def _end_all() -> None:
    for spark in _MADE.values():
        with contextlib.suppress(Exception):  # a dead one cannot even be ended
            spark.stop()
    _MADE.clear()
    _forget_dead_java()


def _is_over(spark: SparkSession) -> bool:
    """Return whether a session is no longer usable."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return bool(getattr(spark, "is_stopped", False))
    try:
        java: Any = spark.sparkContext._jsc  # noqa: SLF001  # no public way
        return java is None or _is_java_gone() or bool(java.sc().isStopped())
    except (Py4JError, OSError):
        return True


def _is_java_gone() -> bool:
    gateway: Any = SparkContext._gateway  # noqa: SLF001  # no public way
    process = getattr(gateway, "proc", None)  # none where Java started Python
    return process is not None and process.poll() is not None


def _forget_dead_java() -> None:
    """Let PySpark start a new Java: it would reuse the dead one."""
    if not _is_java_gone():
        return
    context: Any = SparkContext
    context._gateway = context._jvm = context._active_spark_context = None  # noqa: SLF001  # the same
    classic: Any = SparkSession
    classic._instantiatedSession = None  # noqa: SLF001  # the same


def _make(options: SparkOptions) -> SparkSession:
    builder: Any = SparkSession.builder.appName("trimtab")
    if options.master.startswith("sc://"):
        builder = builder.remote(options.master)
        conf = {**_QUERY_DEFAULTS, **options.conf}
    else:
        # workers must run an interpreter that has Trimtab: here this one, elsewhere one by its name
        interpreter = options.conf.get("spark.pyspark.python", sys.executable)
        os.environ["PYSPARK_PYTHON"] = interpreter
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        builder = builder.master(options.master)
        conf = {**_defaults(options.master), **options.conf}
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        with _java_at(None if options.master.startswith("sc://") else options.java_home):
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


_QUERY_DEFAULTS: Final = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "16",
    # small groups of rows are long work here: fewer tasks would leave cores idle
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}
"""What a query goes by wherever it runs; the only options that a Spark Connect server takes."""


def _defaults(master: str) -> dict[str, str]:
    """Options of a driver: no web page; loopback only where everything is on this machine."""
    chosen = {
        **_QUERY_DEFAULTS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # in front of a person's own "extraJavaOptions", which win
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
        # a worker that died takes its task with it, and that is run again: a job of hours goes on
        "spark.task.maxFailures": "8",
    }
    if master.startswith("local"):
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return chosen


@contextlib.contextmanager
def _java_at(home: Path | None) -> Iterator[None]:
    """Let Spark start this Java; who looks for one afterwards finds what was there before."""
    if home is None:
        yield
        return
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(_without_module(home / "bin" / "java"))
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _without_module(java: Path) -> Path:
    """Return a home whose ``java`` is the same without the module that the launcher requires."""
    home = Path(tempfile.mkdtemp(prefix="trimtab-java-"))
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(module=_MODULE, java=java))
    launcher.chmod(0o700)
    return home
