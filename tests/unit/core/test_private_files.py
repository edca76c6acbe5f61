"""Files that are written: whole or not at all, and for their owner's eyes only."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from core.files import make_private, open_private, whole_file, whole_text, write_whole


@pytest.fixture(autouse=True)
def _open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_and_folders_are_private_whatever_the_umask_is(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b")
    write_whole(tmp_path / "a" / "b" / "whole", b"x")
    with whole_text(tmp_path / "a" / "text") as text:
        text.write("é")
    open_private(tmp_path / "a" / "open").close()
    assert [mode(tmp_path / one) for one in ("a", "a/b")] == [0o700, 0o700]
    assert [mode(tmp_path / "a" / one) for one in ("b/whole", "text", "open")] == [0o600] * 3
    assert (tmp_path / "a" / "text").read_text(encoding="utf-8") == "é"


def test_a_file_that_others_could_read_is_private_once_it_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("old")
    file.chmod(0o644)
    write_whole(file, b"new")
    assert (mode(file), file.read_bytes()) == (0o600, b"new")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), RuntimeError("stop")])
def test_what_fails_leaves_the_former_file_and_nothing_else(tmp_path: Path, error) -> None:
    file = tmp_path / "out"
    file.write_text("old")

    def write() -> None:
        with whole_file(file) as out:
            out.write(b"half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert file.read_text() == "old"


def test_a_new_file_replaces_nothing(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("mine")
    with pytest.raises(FileExistsError), whole_file(file, is_new=True) as out:
        out.write(b"other")
    assert file.read_text() == "mine"
    late = tmp_path / "late"

    def write() -> None:
        with whole_file(late, is_new=True) as out:
            late.write_text("mine")  # by another program, meanwhile
            out.write(b"other")

    with pytest.raises(FileExistsError):
        write()
    assert late.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["late", "out"]


def test_where_there_are_no_links_a_new_file_is_renamed(tmp_path: Path, monkeypatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refused)
    with whole_file(tmp_path / "out", is_new=True) as out:
        out.write(b"x")
    assert (tmp_path / "out").read_bytes() == b"x"


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", b"through")
    assert os.read(reader, 99) == b"through"
    os.close(reader)
    with pytest.raises(OSError, match="No space left"):
        write_whole(Path("/dev/full"), b"x" * 99_999)


def test_a_long_name_is_written_too(tmp_path: Path) -> None:
    file = tmp_path / ("n" * 250)
    write_whole(file, b"x")
    assert file.read_bytes() == b"x"


def test_links_in_a_circle_are_an_error_of_the_file(tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to("circle")
    with pytest.raises(OSError, match="symbolic links") as caught:
        write_whole(circle, b"x")
    assert (caught.value.errno, caught.value.filename) == (errno.ELOOP, str(circle))
    assert [path.name for path in tmp_path.iterdir()] == ["circle"]
