"""Commands by name: a command's module is imported when the command is used.

The list of ``trimtab --help`` and the names for completion need no command's module, so that the
command line starts at once. A new command is one module and one line in its group's table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from dashboard.cli.output import UsageFaultError

if TYPE_CHECKING:
    from dashboard.services import CommandConnector

CONNECTORS: ContextVar[tuple[CommandConnector, ...]] = ContextVar("connectors", default=())
"""The connectors that the command line was started with; empty: all there are."""

MAX_WHOLE: Final = 2**53
"""Beyond it JSON and floating-point numbers lose digits, and arrays their indices."""

_SHOWN: Final = 40


def lazy_group(modules: Mapping[str, Mapping[str, str]]) -> type[TyperGroup]:
    """Return the class of a group whose commands are imported when they are used.

    Args:
        modules: By module, the help line of each of its commands. The module's ``app`` has the
            commands; a group of commands counts as one.
    """
    table = {
        name: (module, text) for module, lines in modules.items() for name, text in lines.items()
    }

    class LazyGroup(TyperGroup):
        def __init__(self, **values: Any) -> None:
            super().__init__(**{**values, "commands": {}})
            self.commands = _Commands(table)  # type: ignore[assignment]  # nothing is added to it

        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is Typer's
            return list(self.commands)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with self._named_only():
                super().format_commands(ctx, formatter)

        def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
            with self._named_only():
                return super().shell_complete(ctx, incomplete)

        @contextmanager
        def _named_only(self) -> Iterator[None]:
            """Let the commands be names with their help lines, for lists of them."""
            commands = self.commands
            self.commands = {
                name: TyperCommand(name=name, help=text) for name, (_, text) in table.items()
            }
            try:
                yield
            finally:
                self.commands = commands

    return LazyGroup


class _Commands(Mapping[str, Any]):
    """Commands by name, each imported when it is read."""

    def __init__(self, table: Mapping[str, tuple[str, str]]) -> None:
        self._table = table
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(self._table[name][0], name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def _load(module: str, name: str) -> Any:
    """Return a command of a module, with its numbers checked."""
    whole = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    whole.add_typer(import_module(module).app)
    command = typer.main.get_group(whole).commands[name]
    check_numbers_of(command)
    return command


def check_numbers_of(command: Any) -> None:
    """Make a command refuse numbers that are not finite or beyond 2^53; of a group, every one."""
    children = getattr(command, "commands", {})
    if isinstance(children, _Commands):
        return  # each is checked when it is imported
    for child in children.values():
        check_numbers_of(child)
    if not children and command.callback is not None:
        names = {param.name: param.opts[0] for param in command.params}
        command.callback = _checked(command.callback, names)


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
        raise UsageFaultError(f"{option} {value} is not a finite number.", hint="Name a number.")
    if isinstance(value, int | float) and abs(value) > MAX_WHOLE:
        raise UsageFaultError(
            f"{option} {str(value)[:_SHOWN]} is beyond {MAX_WHOLE:,}.",
            hint="Name a smaller number.",
        )
