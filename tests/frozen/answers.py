"""What Trimtab answers and writes over fixed inputs at a fixed moment, one readable file a case.

A change of structure must not change any of it; the tests compare the texts in the folders

- ``answers``: each command line of :mod:`frozen_cases`, exit code, standard output and error,
- ``schemas``: the tables of every kind of job and of every ``--out``, see :mod:`frozen_schemas`,
- ``files``: plans, journal, history and snapshots, see :mod:`frozen_files`.

After a wanted change write them anew, and read the difference in Git::

    python tests/frozen/answers.py freeze            # all, or the folders that are named
    python tests/frozen/answers.py write FOLDER      # elsewhere: to compare two checkouts

Two more are frozen next to their tests: ``freeze pages`` writes what pages say and show, see
``tests/app/test_wording_of_pages.py``, and ``freeze reports`` the answer to each public report, see
``tests/reports``. ``freeze`` alone does all.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS.parent)]

from frozen_cases import Case, cases, groups  # noqa: E402  # after the path
from frozen_files import file_texts  # noqa: E402  # after the path
from frozen_schemas import schema_texts  # noqa: E402  # after the path
from frozen_texts import WRITE, assert_frozen, freeze  # noqa: E402  # after the path
from frozen_world import command, inside, make, masked, still  # noqa: E402  # after the path

HERE = Path(__file__).parent
ANSWERS = HERE / "answers"


BY_TESTS = {
    "pages": ["app/test_wording_of_pages.py"],
    "reports": ["reports"],
}
"""Frozen texts next to the tests that write them."""


def assert_answers(name: str, world: Path, folder: Path) -> None:
    """Compare the answers of a command with the frozen ones."""
    assert_frozen(ANSWERS, answers_of(name, world, folder / "world"), f"{name.replace(' ', '-')}/")


def answers_of(name: str, world: Path, folder: Path) -> dict[str, str]:
    """Return the answers of a command, by file.

    Args:
        name: Of the command.
        world: See :mod:`frozen_world`.
        folder: For a copy of it, which the command may change.
    """
    shutil.copytree(world, folder)
    with still():
        return {case.file: _answer(case, folder) for case in cases()[name]}


def help_of_groups(folder: Path) -> dict[str, str]:
    """Return the help of the program and of each group, by file."""
    files = {name: f"groups/{name.replace(' ', '-') or 'trimtab'}.txt" for name in groups()}
    return {
        file: _answer(Case((*name.split(), "--help"), file), folder) for name, file in files.items()
    }


def _answer(case: Case, folder: Path) -> str:
    with inside(folder, case.environment):
        result = command(list(case.words), case.typed)
    variables = "".join(f"{name}={value} " for name, value in case.environment.items())
    text = f"$ {variables}trimtab {shlex.join(case.words)}\nexit {result.code}\n"
    text += f"--- standard output\n{result.out}" if result.out else ""
    text += f"--- standard error\n{result.err}" if result.err else ""
    return masked(text, folder)


def _answers(world: Path, folder: Path) -> dict[str, str]:
    found = help_of_groups(world)
    for number, name in enumerate(cases()):
        found |= answers_of(name, world, folder / str(number))
    return found


FROZEN: Mapping[str, Callable[[Path, Path], Mapping[str, str]]] = {
    "answers": _answers,
    "schemas": schema_texts,
    "files": file_texts,
}
"""By the folder of the frozen texts: what makes them of the world, in an empty folder."""


def _freeze_by_tests(paths: Sequence[str]) -> None:
    words = [sys.executable, "-m", "pytest", "-q", *(str(TESTS / one) for one in paths)]
    subprocess.run(words, check=True, env=os.environ | {WRITE: "1"})


def main(arguments: list[str]) -> int:
    """Write the frozen texts."""
    match arguments:
        case ["freeze", *names] if set(names) <= {*FROZEN, *BY_TESTS}:
            target, wanted = HERE, [one for one in FROZEN if one in names or not names]
            for name, paths in BY_TESTS.items():
                if name in names or not names:
                    _freeze_by_tests(paths)
        case ["write", given]:
            target, wanted = Path(given), list(FROZEN)
        case _:
            sys.stderr.write(__doc__ or "")
            return 2
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder).resolve()
        make(whole / "world")
        for name in wanted:
            freeze(target / name, FROZEN[name](whole / "world", whole / name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
