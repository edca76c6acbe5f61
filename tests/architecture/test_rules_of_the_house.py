"""The rules that no linter holds: names, places, suppressions, what documents promise."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "connectors", "dashboard", "trimtab")


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked_files() -> list[Path]:
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: tracked files are unknown")
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def test_no_module_of_the_dashboard_shadows_a_package() -> None:
    assert not [path for path in python_files("dashboard") if path.stem in PACKAGES]


def test_pages_are_not_discovered_by_file_name() -> None:
    assert not (ROOT / "dashboard" / "pages").exists()


SUPPRESSION = re.compile(
    r"# (?:noqa|type: ignore|pragma: no cover)(?P<codes>[:\[][\w, \-\]]*)?(?P<rest>.*)"
)


def test_every_suppression_tells_its_reason() -> None:
    offenders = []
    for path in python_files(*PACKAGES, "tests", "bench"):
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found := SUPPRESSION.search(line):
                words = re.findall(r"[a-z]{2,}", (found["codes"] or "") + found["rest"])
                if len(words) < 2:
                    offenders.append(f"{relative(path)}:{number}")
    assert not offenders, "suppressed without a reason"


CLOCKS_AND_DICE = {
    *("datetime.now", "datetime.utcnow", "time.time"),
    *("random.random", "np.random.rand"),
}


def calls(path: Path) -> list[tuple[int, str]]:
    return [
        (node.lineno, ast.unparse(node.func))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]


def test_core_has_no_clock_and_no_global_randomness() -> None:
    offenders = [
        f"{relative(path)}:{line} calls {called}: pass it in"
        for path in python_files("core")
        for line, called in calls(path)
        if called in CLOCKS_AND_DICE
    ]
    assert not offenders


def test_pages_do_not_wait_and_do_not_swallow() -> None:
    pages = python_files("dashboard/app_pages")
    waits = [
        f"{relative(path)}:{line}"
        for path in pages
        for line, called in calls(path)
        if called.rpartition(".")[2] == "sleep"
    ]
    swallows = [
        f"{relative(path)}:{node.lineno}"
        for path in pages
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
    ]
    assert pages
    assert not waits
    assert not swallows


def test_everything_is_caught_in_one_place_of_the_dashboard_only() -> None:
    found = [
        relative(path)
        for path in python_files("dashboard")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
        and ast.unparse(node.body[-1]) != "raise"
    ]
    assert found in ([], ["dashboard/app.py"])


def test_lock_files_carry_versions_and_hashes_and_no_addresses() -> None:
    for name in ("requirements.lock", "requirements-dev.lock", ".ci/uv.lock"):
        text = (ROOT / name).read_text()
        assert "://" not in text, name
        pins = re.findall(r"^[a-z0-9][\w.-]*==[^\s;\\]+", text, re.MULTILINE)
        assert pins
        assert text.count("--hash=sha256:") >= len(pins), name


def test_every_direct_dependency_has_its_reason() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    reasons = (ROOT / "docs" / "dependencies.md").read_text()
    block = re.search(r"\ndependencies = \[(.*?)\n\]", project, re.DOTALL)
    dev = re.search(r"\ndev = \[(.*?)\n\]", project, re.DOTALL)
    assert block
    assert dev
    names = re.findall(r'"([a-z0-9-]+)', block[1] + dev[1])
    assert len(names) > 20
    assert not [name for name in names if name not in reasons]


def test_no_tracked_text_names_a_place_of_one_machine() -> None:
    places = {str(ROOT), str(ROOT.parent), str(Path.home())} - {"/"}
    here = re.compile("|".join(re.escape(f"{place}/") for place in sorted(places)))
    somebodys = re.compile(r"/home/[a-z]+/|/Users/[a-z]+/")
    offenders = []
    for path in tracked_files():
        if path == Path(__file__) or path.suffix in {".png", ".bin", ".parquet"}:
            continue
        if "fixtures" in path.parts:
            continue
        text = path.read_text(errors="replace")
        if here.search(text) or somebodys.search(text):
            offenders.append(relative(path))
    assert not offenders


def test_top_level_is_what_it_is_meant_to_be() -> None:
    allowed = {
        ".ci", ".gitignore", ".streamlit", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile",
        "README.md", "bench", "connectors", "core", "dashboard", "docs", "mkdocs.yml",
        "pyproject.toml", "requirements-dev.lock", "requirements.lock", "tests", "trimtab",
    }  # fmt: skip
    found = {path.relative_to(ROOT).parts[0] for path in tracked_files()}
    assert found <= allowed


def test_unit_tests_are_laid_out_as_the_source() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    assert not sorted(str(one) for one in folders if not (ROOT / one).is_dir())
