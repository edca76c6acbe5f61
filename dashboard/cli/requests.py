"""Options of a command from the request that it takes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from core.errors import InputError, UnknownNameError
from core.request import Param, Request, params_of, parse
from dashboard.cli.output import UsageFaultError

R = TypeVar("R")
"""What a command returns."""


def takes(
    request: type[Request], *, skip: Collection[str] = (), **defaults: Any
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add the options of a request to a command; its parameter ``request`` gets the request.

    Args:
        request: Its type.
        skip: Fields that are no options: they keep their default, or the command sets them.
        **defaults: Of fields for which the command line has another default.

    Example:
        ``@app.command()`` above ``@takes(DrillRequest)`` above ``def drill(request: DrillRequest,
        source: Source, as_json: Json = False) -> int``.
    """
    params = [
        replace(one, default=defaults.get(one.name, one.default))
        for one in params_of(request)
        if one.name not in skip
    ]

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(command, eval_str=True)
        own = [
            one.replace(kind=one.KEYWORD_ONLY)
            for name, one in signature.parameters.items()
            if name != "request"
        ]

        @functools.wraps(command)
        def run(**given: Any) -> R:
            values = {one.name: _value(one, given.pop(one.name)) for one in params}
            try:
                made = parse(request, values)
            except InputError as exc:
                raise UsageFaultError(exc.message, hint=exc.hint) from exc
            return command(request=made, **given)

        options = [_option(one) for one in params]
        parameters = [*options, *own]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # Typer reads it
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def _option(one: Param) -> inspect.Parameter:
    """Return the parameter that Typer makes an option of."""
    option = typer.Option(
        *(() if one.type is bool else (one.option,)),  # a switch has two names, by Typer's rule
        help=f"{one.meta.description}{' Repeatable.' * one.is_many}",
        min=one.limits.ge,
        max=one.limits.le,
        metavar=one.metavar or "|".join(one.choices) or None,
    )
    default = one.default
    if one.is_many:
        default = None
    elif default is msgspec.NODEFAULT:
        default = inspect.Parameter.empty
    kind: Any = str if one.choices else one.value_type
    if one.is_many:
        kind = list[kind]
    if one.is_many or one.is_optional:
        kind = kind | None
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, option],
    )


def _value(one: Param, given: Any) -> Any:
    """Return the given value, a list as a tuple; without any, a list's default.

    Raises:
        UsageFaultError: It is none of the choices.
    """
    for value in (given or ()) if one.is_many else (given,):
        if one.choices and value is not None and value not in one.choices:
            unknown = UnknownNameError.of(
                one.name.removesuffix("s") if one.is_many else one.name, value, one.choices
            )
            raise UsageFaultError(unknown.message, hint=unknown.hint)
    if not one.is_many:
        return given
    return tuple(given or (() if one.default is msgspec.NODEFAULT else one.default))
