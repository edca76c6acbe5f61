"""Commands by name: a command's module is imported when the command is used.

The list of ``trimtab --help`` and the names for completion need no command's module, so that the
command line starts at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, get_args

import typer
from typer._click.globals import get_current_context
from typer._click.shell_completion import CompletionItem
from typer.core import TyperCommand, TyperGroup

from dashboard.cli.asking import ask
from dashboard.cli.commands import OPERATIONS, OTHER_NAMES, CommandEntry, Group
from dashboard.cli.names import Names, completed, names_of
from dashboard.cli.options import Server, Wide
from dashboard.cli.output import EXIT_USAGE, UsageFaultError, note
from dashboard.cli.progress import STATUS
from dashboard.cli.served import SERVED
from dashboard.cli.signatures import ONLY, RunNeededError, signature_only

if TYPE_CHECKING:
    from dashboard.services import CommandConnector

CONNECTORS: ContextVar[tuple[CommandConnector, ...]] = ContextVar("connectors", default=())
"""The connectors that the command line was started with; empty: all there are."""

MAX_WHOLE: Final = 2**53
"""Beyond it JSON and floating-point numbers lose digits, and arrays their indices."""

_TYPES: Final[Mapping[Any, str]] = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH"}
"""How help and reference write the type of a value."""

_EXAMPLE: Final = "\b\nExample:\n  {}"
_EXIT_CODES: Final = "Exit codes: 0 done, 1 failed, 2 bad usage, 3 incomplete, 130 Ctrl-C."
_SHOWN: Final = 40
_SUGGESTIONS: Final = 3
_NEAR: Final = 0.7
"""Of 1; below, names have single letters in common, as ``tokens`` and ``brokes``."""
_UNTIL_CTRL_C: Final = frozenset({"demo", "dashboard", "collect", "worker", "sandbox"})
"""Commands that are never done, so that no line shows how far they are."""


class CommandGroup(TyperGroup):
    """A group whose commands are imported when they are used."""

    sections: ClassVar[Mapping[str, Mapping[str, CommandEntry | Group]]]
    """Its commands by heading and name."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**{**values, "commands": {}})
        self.entries = {
            name: entry for section in self.sections.values() for name, entry in section.items()
        }
        self.commands = _Commands(self.entries)  # type: ignore[assignment]  # nothing is added to it

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is Typer's
        """Return the names in the order of the help."""
        return list(self.entries)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help on standard error if there are no arguments."""
        if not args and not ctx.resilient_parsing:
            note(ctx.get_help())
            raise typer.Exit(EXIT_USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command; suggest near names for one that does not exist.

        Raises:
            UsageFaultError: There is no such command.
        """
        name = args[0]
        is_run = not (ctx.resilient_parsing or ONLY.get()) and name not in _UNTIL_CTRL_C
        if is_run and isinstance(self.entries.get(name), CommandEntry):
            STATUS.start(f"{ctx.command_path} {name}")  # its imports can take a second
        if name in self.entries or ctx.resilient_parsing or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = suggested(name, self.sections, OTHER_NAMES if ctx.parent is None else {})
        see = f"Run `{ctx.command_path} --help` for the list."
        raise UsageFaultError(
            f"{ctx.command_path} has no command {name!r}.",
            hint=f"Did you mean {' or '.join(near)}? {see}" if near else see,
        )

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as above
        """Write the commands under their headings, in one column for all."""
        width = max(map(len, self.entries))
        for heading, entries in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), e.summary) for name, e in entries.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the commands and options that begin so."""
        commands = self.commands
        self.commands = {
            name: TyperCommand(name=name, help=entry.summary)
            for name, entry in self.entries.items()
        }
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = commands


def group_of(sections: Mapping[str, Mapping[str, CommandEntry | Group]]) -> type[CommandGroup]:
    """Return the class of a group with these commands."""
    return type("CommandGroup", (CommandGroup,), {"sections": sections})


def suggested(
    name: str,
    sections: Mapping[str, Mapping[str, CommandEntry | Group]],
    other_names: Mapping[str, Sequence[str]],
) -> list[str]:
    """Return up to three commands for a name that is none, those in groups with the group's name.

    Args:
        name: A slip, or another name.
        sections: The commands.
        other_names: Commands by other names that people have for them.
    """
    known = {one: list(commands) for one, commands in other_names.items()}
    for section in sections.values():
        for one, entry in section.items():
            known.setdefault(one, []).append(one)
            for inner in entry.sections.values() if isinstance(entry, Group) else ():
                for each in inner:
                    known.setdefault(each, []).append(f"{one} {each}")
    is_known = name in known
    near = [name] if is_known else get_close_matches(name, known, n=_SUGGESTIONS, cutoff=_NEAR)
    found = dict.fromkeys(words for one in near for words in known[one])
    return list(found)[:_SUGGESTIONS]


def type_name(param: Any) -> str:
    """Return the type of a parameter's values in words; empty: it is a switch."""
    kind = param.type_descriptor.annotation
    return _TYPES.get(kind) or "|".join(_TYPES.get(one, one) for one in get_args(kind))


class _Commands(Mapping[str, Any]):
    """Commands by name, each imported when it is read."""

    def __init__(self, entries: Mapping[str, CommandEntry | Group]) -> None:
        self._entries = entries
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, self._entries[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _load(name: str, entry: CommandEntry | Group) -> Any:
    """Return a command with its example and its numbers checked, or a group."""
    whole = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(entry, Group):
        text = f"{entry.summary}\n\n{entry.details}".strip()
        entries = (one for section in entry.sections.values() for one in section.values())
        first = next(one for one in entries if isinstance(one, CommandEntry))
        group = typer.Typer(
            cls=group_of(entry.sections), help=text, epilog=_EXAMPLE.format(first.example)
        )
        whole.add_typer(group, name=name)
        return typer.main.get_group(whole).commands[name]
    command = signature_only(lambda: _of_module(name, entry)) if ONLY.get() else None
    if command is None:
        command = _of_module(name, entry)
    else:
        command.callback = _run_needed
    if any("--json" in param.opts for param in command.params):
        command.params.append(_wide())
    _with_server(command, entry)
    command.epilog = f"{_EXAMPLE.format(entry.example)}\n\n{_EXIT_CODES}"
    for param in command.params:
        # Typer's own is <list[Path]>; an argument has its name alone
        shown = type_name(param) if param.param_type_name == "option" else ""
        param.display_type = lambda _context, shown=shown: shown
        if (names := names_of(param)) is not None:
            param.shell_complete = _completing(names)
    return command


def _with_server(command: Any, entry: CommandEntry) -> None:
    """Let a command be sent to a server; one for this machine only says so.

    An operation has its own option: it is a resource of its own.
    """
    is_own = any("--server" in param.opts for param in command.params)
    if not is_own:
        command.params.append(_server(is_hidden=not entry.is_served))
    callback = command.callback

    @wraps(callback)
    def run(**values: Any) -> Any:
        server = values.get("server") if is_own else values.pop("server")
        here, path = SERVED.get(), get_current_context().command_path
        if (here is not None or server is not None) and not (entry.is_served or is_own):
            raise UsageFaultError(
                f"`{path}` works on one machine and takes no --server.",
                hint=entry.instead or "Run it on that machine, without --server.",
            )
        if here is not None and is_own:
            raise UsageFaultError(
                f"`{path}` is an operation.", hint=f"Send GET /api/v1/{command.name}/CLUSTER."
            )
        if here is not None:
            return callback(**here.checked(command, values))
        if server is not None and not is_own:
            return ask(server, command, values)
        return callback(**values)

    command.callback = run


def _server(*, is_hidden: bool) -> Any:
    """Return the option that sends a command to a server."""
    only = typer.Typer(add_completion=False)

    @only.command()
    def command(server: Server = None) -> None: ...

    option: Any = typer.main.get_command(only).params[0]
    option.hidden = is_hidden
    return option


def _wide() -> Any:
    """Return the option of every command that answers both people and programs."""
    only = typer.Typer(add_completion=False)

    @only.command()
    def command(wide: Wide = False) -> None: ...

    return typer.main.get_command(only).params[0]


def _run_needed(**_values: Any) -> NoReturn:
    raise RunNeededError


def _of_module(name: str, entry: CommandEntry) -> Any:
    """Return a command of a module, with its numbers checked."""
    whole = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    module = import_module(entry.module)
    if entry.module.startswith(OPERATIONS):
        whole.add_typer(import_module("dashboard.cli.operations").app_of(module.OPERATION))
    else:
        whole.add_typer(module.app)
    command = typer.main.get_group(whole).commands[name]
    _check_numbers_of(command)
    return command


def _completing(names: Names) -> Callable[[Any, str], list[Any]]:
    def complete(context: Any, incomplete: str) -> list[Any]:
        return [CompletionItem(name) for name in completed(names, context, incomplete)]

    return complete


def _check_numbers_of(command: Any) -> None:
    """Make a command refuse numbers that are not finite or beyond 2^53."""
    names = {param.name: param.opts[0] for param in command.params}
    command.callback = _checked(command.callback, names)
    if command.name not in _UNTIL_CTRL_C:
        command.callback = _started(command.callback)


def _started(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callback with the line that shows that it computes, until it answers or ends."""

    @wraps(callback)
    def run(**values: Any) -> Any:
        STATUS.start(get_current_context().command_path)
        try:
            return callback(**values)
        finally:
            STATUS.stop()

    return run


def _checked(callback: Callable[..., Any], names: dict[str, str]) -> Callable[..., Any]:
    @wraps(callback)
    def run(**values: Any) -> Any:
        for name, value in values.items():
            for one in value if isinstance(value, list | tuple) else (value,):
                _check_number(names.get(name, name), one)
        return callback(**values)

    return run


def _check_number(option: str, value: object) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageFaultError(
            f"{option} {value} is not a finite number.", hint="Use a finite number."
        )
    if isinstance(value, int | float) and abs(value) > MAX_WHOLE:
        raise UsageFaultError(
            f"{option} {str(value)[:_SHOWN]} is above {MAX_WHOLE:,}.",
            hint="Use a smaller number.",
        )
