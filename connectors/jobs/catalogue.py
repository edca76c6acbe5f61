"""Every kind of job there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pkgutil import resolve_name
from typing import Any

from pydantic import BaseModel, ValidationError

from connectors.config.kinds import KINDS
from connectors.jobs.model import JobKind, ScopedRequest
from core.errors import InputError, InvariantError, UnknownNameError
from core.request import parse


@lru_cache(maxsize=1)
def kinds() -> Mapping[str, JobKind]:
    """Return the kinds by name, in the order in which pages show them."""
    from connectors.jobs.kinds import backtest, fleet, history  # noqa: PLC0415  # they take seconds

    shared = (backtest.KINDS, history.KINDS, fleet.KINDS)
    own = (resolve_name(rules.jobs) for rules in KINDS.values())
    return by_name(kind for kinds_of_one in (*shared, *own) for kind in kinds_of_one)


def by_name(found: Iterable[JobKind]) -> Mapping[str, JobKind]:
    """Return kinds by their names.

    Raises:
        InvariantError: Two have one name.
    """
    named: dict[str, JobKind] = {}
    for kind in found:
        if kind.name in named:
            raise InvariantError(f"Two kinds of jobs are named {kind.name}.")
        named[kind.name] = kind
    return named


def kind_of(name: str, known: Mapping[str, JobKind]) -> JobKind:
    """Return the kind of that name.

    Raises:
        UnknownNameError: There is none.
    """
    if name not in known:
        raise UnknownNameError.of("kind of job", name, known)
    return known[name]


def checked(kind: JobKind, values: Mapping[str, Any]) -> BaseModel | ScopedRequest:
    """Return the scope, and the request where the kind has one, of a job's JSON.

    Raises:
        InputError: It cannot be; the message names the first fields that are wrong.
    """
    own = {name: value for name, value in values.items() if name in kind.scope.model_fields}
    try:
        if kind.request is None:
            return kind.scope.model_validate(dict(values))
        scope = kind.scope.model_validate(own)
        rest = {name: value for name, value in values.items() if name not in own}
        return ScopedRequest(scope, parse(kind.request, rest))
    except ValidationError as exc:
        first, *others = [
            f"{'.'.join(map(str, error['loc'])) or 'the request'}: "
            + error["msg"].removeprefix("Value error, ")
            for error in exc.errors(include_url=False, include_input=False)
        ]
        also = "".join(f"; {one}" for one in others[:3])
        more = f" ({len(others) - 3} more)" if others[3:] else ""
        raise InputError(
            f"{kind.title} cannot be started with these parameters: {first}{also}{more}.",
            hint="Correct the parameters and start the job again.",
        ) from exc
