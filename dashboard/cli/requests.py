"""Options of a command from the request that it takes."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
import typer

from core.errors import InputError, UnknownNameError
from core.request import Param, Request, params_of, parse
from dashboard.cli.output import UsageFaultError

R = TypeVar("R")
"""What a command returns."""

_LIST_HINT: Final = 'Use a JSON list: ["tenant/namespace/0xLOW_0xHIGH"].'


def takes(
    request: type[Request],
    *,
    skip: Collection[str] = (),
    without: Collection[str] = (),
    **defaults: Any,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add the options of a request to a command; its parameter ``request`` gets the request.

    Args:
        request: Its type.
        skip: Fields that are no options: they keep their default, or the command sets them.
        without: Parameters of the command that are no options either.
        **defaults: Of fields for which the command line has another default.

    Example:
        ``@app.command()`` above ``@takes(DrillRequest)`` above ``def drill(request: DrillRequest,
        source: Source, as_json: Json = False) -> int``.
    """
    params = [
        replace(param, default=defaults.get(param.name, param.default))
        for param in params_of(request)
        if param.name not in skip
    ]

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(command, eval_str=True)
        own = [
            one.replace(kind=one.KEYWORD_ONLY)
            for name, one in signature.parameters.items()
            if name != "request" and name not in without
        ]

        @functools.wraps(command)
        def run(**given: Any) -> R:
            values = {param.name: _value(param, given.pop(param.name)) for param in params}
            try:
                made = parse(request, values)
            except InputError as exc:
                raise UsageFaultError(exc.message, hint=exc.hint) from exc
            return command(request=made, **given)

        options = [_option(param) for param in params if not param.is_argument]
        arguments = [_argument(param) for param in params if param.is_argument]
        parameters = [*options, *own, *arguments]  # a cluster comes first
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # Typer reads it
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _argument(param: Param) -> inspect.Parameter:
    """Return the parameter that Typer makes an argument of; it is required."""
    argument = typer.Argument(metavar=param.metavar, help=param.meta.description)
    return inspect.Parameter(
        param.name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[param.value_type, argument],
    )


def _option(param: Param) -> inspect.Parameter:
    """Return the parameter that Typer makes an option of."""
    option = typer.Option(
        # a switch has two names, by Typer's rule, unless it has one of its own
        *((param.option,) if param.type is not bool or param.has_option else ()),
        help=f"{param.meta.description}{' Repeatable.' * (param.is_many and not param.is_file)}",
        min=param.limits.ge,
        max=param.limits.le,
        metavar=param.metavar or "|".join(param.choices) or None,
    )
    default = param.default
    if param.is_many:
        default = None
    elif default is msgspec.NODEFAULT:
        default = inspect.Parameter.empty
    kind: Any = str if param.choices else param.value_type
    if param.is_file:
        kind = Path
    elif param.is_many:
        kind = list[kind]
    if param.is_many or param.is_optional:
        kind = kind | None
    return inspect.Parameter(
        param.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, option],
    )


def _value(param: Param, given: Any) -> Any:
    """Return the given value, a list as a tuple; without any, a list's default.

    Raises:
        UsageFaultError: It is none of the choices.
    """
    if param.is_file:
        return tuple(read_list(given))
    for value in (given or ()) if param.is_many else (given,):
        if param.choices and value is not None and value not in param.choices:
            unknown = UnknownNameError.of(
                param.name.removesuffix("s") if param.is_many else param.name, value, param.choices
            )
            raise UsageFaultError(unknown.message, hint=unknown.hint)
    if not param.is_many:
        return given
    return tuple(given or (() if param.default is msgspec.NODEFAULT else param.default))


def read_list(path: Path | None) -> list[str]:
    """Read a JSON list of bundle names; without a file it is empty.

    Raises:
        UsageFaultError: No such file, or it holds something else.
    """
    if path is None:
        return []
    try:
        names = json.loads(path.read_bytes())
    except OSError as exc:
        raise UsageFaultError(
            f"{path} cannot be read: {exc.strerror}.", hint="Specify a file with a JSON list."
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise UsageFaultError(f"{path} is not JSON: {exc}.", hint=_LIST_HINT) from exc
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageFaultError(f"{path} is not a list of bundle names.", hint=_LIST_HINT)
    return names
