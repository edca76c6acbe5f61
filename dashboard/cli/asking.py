"""``--server URL``: send the command line to a running Trimtab and print its answer."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from core.errors import InputError
from dashboard.cli import names, output
from dashboard.cli.output import UsageFaultError
from dashboard.cli.progress import STATUS
from dashboard.cli.served import MAX_FILE_BYTES, OF_CLUSTERS, each_of, placed_name

ARGUMENTS: ContextVar[tuple[str, ...]] = ContextVar("arguments", default=())
"""The command line, without the name of the program."""

_OF_THE_CLIENT: Final = ("--server", "--config")


def ask(server: str, command: Any, values: Mapping[str, Any]) -> int:
    """Send the command line to a server, print its answer and return the exit code.

    Args:
        server: Its address.
        command: The command.
        values: Of its parameters: the files that it names are sent.
    Raises:
        OpsError: The server refuses, or does not answer.
    """
    from dashboard.cli.shown import show  # noqa: PLC0415  # commands start without it
    from trimtab.client import Client, ServerRefusalError  # noqa: PLC0415  # the same

    client = Client(server)
    STATUS.start(f"trimtab: asking {client.server}")
    try:
        found = client.command(_sent(ARGUMENTS.get()), dict(_files(command, values)))
    except ServerRefusalError as error:
        if error.code == UsageFaultError.code:
            raise UsageFaultError(error.message, hint=error.hint) from error
        raise
    for name, content in found.files.items():
        _write(Path(name), base64.b64decode(content), command, values)
    if found.body is not None:
        output.print_json(found.body)
    show(found.lines)
    return found.exit_code


def _sent(arguments: Sequence[str]) -> list[str]:
    """Return a command line without the options that are for the client."""
    found: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*found, word, *words]
        if word in _OF_THE_CLIENT:
            next(words, None)
        elif word != "--wide" and not word.startswith(tuple(f"{one}=" for one in _OF_THE_CLIENT)):
            found.append(word)
    return found


def _paths(command: Any, values: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the files that the values of a command name."""
    for param in command.params:
        if names.names_of(param) not in OF_CLUSTERS and "--config" not in param.opts:
            yield from (one for one in each_of(values.get(param.name)) if isinstance(one, Path))


def _files(command: Any, values: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yield the files that a command reads.

    Raises:
        InputError: One is too large.
    """
    for path in _paths(command, values):
        if path.is_file():
            content = path.read_bytes()
            if len(content) > MAX_FILE_BYTES:
                raise InputError(
                    f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB.",
                    hint="Run the command on the server, without --server.",
                )
            yield str(path), content


def _write(name: Path, content: bytes, command: Any, values: Mapping[str, Any]) -> None:
    """Write a file that a command made; only one that the command line names, or below it.

    Raises:
        InputError: The server sent another one, or it cannot be written.
    """
    from core.files import write_whole  # noqa: PLC0415  # only this writes

    for path in _paths(command, values):
        inner = placed_name(path)
        if name == inner or (inner in name.parents and ".." not in name.parts):
            target = path / name.relative_to(inner)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                write_whole(target, content)
            except OSError as exc:
                raise InputError(
                    f"{target} cannot be written: {exc.strerror}.", hint="Specify another file."
                ) from exc
            return
    raise InputError(f"The server sent a file that was not requested: {name}.")
