"""What the documents promise: a reference that is the program's own, links that resolve."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
import typer

from dashboard.cli import source
from dashboard.cli.main import app

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FILE = re.compile(r"`([a-z_.][\w.-]*(?:/[\w.-]+)*/[a-z_]\w*\.(?:py|md|toml|json|proto))`")
"""A file in backquotes; one with a name in capitals stands for many."""

FOLDER = re.compile(r"`((?:core|connectors|dashboard|tests|docs|bench)(?:/[\w.-]+)*)/?`")
MODULE = re.compile(r"`((?:core|connectors|dashboard)(?:\.\w+)+)`")
TARGET = re.compile(r"(?:`|^)make ([a-z-]+)", re.MULTILINE)
EXAMPLES = ("finding", "strategy", "step", "operation", "page")
"""Worked examples of CONTRIBUTING, in the order in which they apply."""

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: tracked files are unknown")
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings as GitHub makes them."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


def test_the_reference_of_the_commands_is_the_generated_one() -> None:
    place = ROOT / "docs" / "build_commands.py"
    spec = importlib.util.spec_from_file_location("build_commands", place)
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    written = builder.PAGE.read_text(encoding="utf-8")
    assert written == builder.reference(), "run `make docs`"


def test_relative_links_of_documents_resolve() -> None:
    offenders = []
    for page in documents():
        for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            is_missing = not found.exists() or (anchor and anchor not in anchors(found))
            if is_missing:
                offenders.append(f"{page.relative_to(ROOT)}: {target}")
    assert not offenders


def test_commands_in_guides_exist_with_their_options(monkeypatch) -> None:
    """Parses every command line of the guides; what they print is shown there shortened."""
    monkeypatch.setattr(source, "snapshot_directories", as_named)
    offenders, count = [], 0
    for page in sorted((ROOT / "docs" / "guides").glob("*.md")):
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                words = shlex.split(line)
                if words[0] != "trimtab":
                    continue
                count += 1
                try:
                    parse(words[1:])
                except Exception as exc:  # noqa: BLE001  # Typer keeps its usage errors private
                    offenders.append(f"{page.name}: {line}: {exc}")
    assert count > 40
    assert not offenders


def as_named(sources: list[str], _config: object, _kind: str) -> AbstractContextManager[list[Path]]:
    """Return the snapshots that a guide names, whether they are here or not."""
    return nullcontext([Path(one) for one in sources])


def parse(words: list[str]) -> None:
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_context(command.name, list(words))


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100


def test_files_that_documents_name_are_there() -> None:
    offenders = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in documents()
        if page.name != "CHANGELOG.md"  # it names what was
        for name in FILE.findall(page.read_text(encoding="utf-8"))
        if not name.startswith("./")  # of the reader
        and not any((base / name).is_file() for base in (page.parent, ROOT))
    ]
    assert not offenders


def test_folders_and_modules_that_documents_name_are_there() -> None:
    offenders = []
    for page in documents():
        if page.name == "CHANGELOG.md":
            continue
        text = page.read_text(encoding="utf-8")
        offenders += [
            f"{page.relative_to(ROOT)}: {name}"
            for name in FOLDER.findall(text)
            if not (ROOT / name).exists() and name == name.lower()  # else it stands for many
        ]
        offenders += [
            f"{page.relative_to(ROOT)}: {name}"
            for name in MODULE.findall(text)
            if not is_importable(name)
        ]
    assert not offenders


def is_importable(name: str) -> bool:
    """Return whether a module, or a module's attribute of at most two parts, is there."""
    parts = name.split(".")
    for end in range(len(parts), max(len(parts) - 3, 1), -1):
        path = ROOT.joinpath(*parts[:end])
        file = (
            path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        )
        if file.is_file():
            return all(f"{part}" in file.read_text(encoding="utf-8") for part in parts[end:])
    return False


def test_tasks_that_documents_name_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    offenders = [
        f"{page.relative_to(ROOT)}: make {name}"
        for page in pages
        for name in TARGET.findall(page.read_text(encoding="utf-8"))
        if name not in targets
    ]
    assert not offenders


def test_examples_of_contributing_apply(tmp_path: Path) -> None:
    offenders = []
    for name in EXAMPLES:
        diff = ROOT / "docs" / "examples" / f"{name}.diff"
        for file in re.findall(r"^--- a/(.+)$", diff.read_text(encoding="utf-8"), re.MULTILINE):
            if not (tmp_path / file).exists():
                (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / file, tmp_path / file)
        applied = subprocess.run(
            ["git", "apply", "-C1", str(diff)],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
        )
        if applied.returncode:
            offenders.append(f"{name}: {applied.stderr}")
    assert not offenders, "a line next to an example changed: renew the diff in docs/examples"


def test_lines_shown_in_contributing_are_those_of_the_examples() -> None:
    diffs = "".join(one.read_text() for one in (ROOT / "docs" / "examples").glob("*.diff"))
    written = {line.rstrip() for line in diffs.splitlines()}
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```diff\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 100
    assert [line for line in lines if line and line not in written] == []


MAX_MODULES = 5
"""Modules of a folder without a README."""

NAMED = re.compile(r"`((?:\.\./)*(?:[a-z_]\w*/)*[a-z_]\w*\.py)`")


def folders() -> list[Path]:
    packages = (ROOT / name for name in ("core", "connectors", "dashboard"))
    return sorted({path.parent for package in packages for path in package.rglob("*.py")})


def test_larger_folders_have_a_readme() -> None:
    offenders = [
        str(folder.relative_to(ROOT))
        for folder in folders()
        if len([one for one in folder.glob("*.py") if one.name != "__init__.py"]) > MAX_MODULES
        and not (folder / "README.md").is_file()
    ]
    assert not offenders


def test_modules_that_a_readme_names_are_in_its_folder() -> None:
    offenders = [
        f"{folder.relative_to(ROOT)}/README.md: {name}"
        for folder in folders()
        if (folder / "README.md").is_file()
        for name in NAMED.findall((folder / "README.md").read_text(encoding="utf-8"))
        if not any((base / name).is_file() for base in (folder, folder.parent, ROOT))
        and not any(folder.rglob(name))
    ]
    assert not offenders
