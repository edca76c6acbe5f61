"""Commands over HTTP: what ``--server URL`` sends, for commands that are no resource themselves."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec
from starlette.responses import Response

from core.errors import InputError
from core.request import Annotated, Request, param
from dashboard.api.operations import WITHIN_S
from dashboard.api.resource import Call, Resource, json_response
from dashboard.api.schema import schema_of_type
from dashboard.cli.commands import COMMANDS, CommandEntry, Group
from dashboard.cli.main import outcome_of
from dashboard.cli.served import MAX_FILES, run_served
from trimtab.answers import CommandAnswer

_MAX_ARGUMENTS: Final = 2_000


class CommandLine(Request, frozen=True, kw_only=True):
    """A command to run."""

    arguments: Annotated[
        tuple[str, ...],
        param("Command line without `trimtab` and `--server`, word by word", min_length=1),
    ]
    files: Annotated[
        dict[str, str], param("Content of the files that it names (Base64), by name")
    ] = {}  # noqa: RUF012  # msgspec copies it
    address: Annotated[
        str, param("Address of this server, for the commands that the answer names")
    ] = ""


def resources() -> Iterator[Resource]:
    """Yield the resources."""
    names = ", ".join(f"`{one}`" for one in served_commands())
    yield Resource(
        path="commands",
        method="POST",
        name="command",
        group="Commands",
        summary="Run a command with the caller's role, as `--server` does.",
        details=f"Clusters are read from their newest saved snapshot. Commands: {names}.",
        request=CommandLine,
        example={"arguments": ["runs", "--last", "5", "--json"]},
        answer=schema_of_type(CommandAnswer),
        respond=_respond,
        errors=(404, 409, 500, 502, 504),
    )


def served_commands() -> Iterator[str]:
    """Yield the names of the commands that can be sent."""
    for entries in COMMANDS.values():
        for name, entry in entries.items():
            if isinstance(entry, CommandEntry):
                yield from (name,) if entry.is_served else ()
            else:
                yield from (f"{name} {one}" for one in _served_of(entry))


def _served_of(group: Group) -> Iterator[str]:
    for entries in group.sections.values():
        for name, entry in entries.items():
            if isinstance(entry, CommandEntry) and entry.is_served:
                yield name


def _respond(call: Call, request: CommandLine) -> Response:
    if len(request.arguments) > _MAX_ARGUMENTS or len(request.files) > MAX_FILES:
        raise InputError(
            f"The command has more than {_MAX_ARGUMENTS:,} words or {MAX_FILES} files.",
            hint="Send fewer.",
        )
    try:
        files = {name: b64decode(one, validate=True) for name, one in request.files.items()}
    except binascii.Error as exc:
        raise InputError(f"A file is no Base64: {exc}.", hint="Encode its content.") from exc
    answer = run_served(
        call.config,
        call.by,
        partial(outcome_of, request.arguments),
        files,
        address=request.address,
        within_s=WITHIN_S,
    )
    return json_response(msgspec.to_builtins(answer))
