"""What an operation takes, declared once: read by the command line, forms, jobs and Spark.

A request is a frozen struct in a module that imports nothing heavy, for the command line reads it
when it starts. Each field has its type, range, default and one sentence; from these follow the
option (:mod:`dashboard.cli.requests`), the field of a form and the JSON of a job.

Example:
    >>> class Lookup(Request, frozen=True, kw_only=True):
    ...     topic: Annotated[str, param("Name of the topic")]
    ...     seed: Annotated[int, param("Seed of all random draws", ge=0)] = 1
    >>> parse(Lookup, {"topic": "a", "seed": 2})
    Lookup(topic='a', seed=2)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from core.errors import InputError, UnknownNameError

__all__ = ["Annotated", "Param", "Request", "param", "params_of", "parse", "schema_of"]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every request; picklable, JSON by msgspec."""

    def checked(self) -> Self:
        """Return it with the names that it has looked up, or itself where it has none.

        Raises:
            UnknownNameError: One of them is not known.
        """
        return self


R = TypeVar("R", bound=Request)


def param(
    help: str,  # noqa: A002  # as Typer and Streamlit call it
    *,
    label: str = "",
    option: str = "",
    metavar: str = "",
    unit: str = "",
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    min_length: int | None = None,
    is_argument: bool = False,
    is_file: bool = False,
) -> msgspec.Meta:
    """Describe a field of a request.

    Args:
        help: One sentence without a full stop: of the option, of the form and of the reference.
        label: In a form; by default the field's name.
        option: On the command line; by default ``--`` and the field's name.
        metavar: Of its argument in the help; by default the type.
        unit: ``ratio`` is a percentage in a form.
        ge: Least value.
        gt: Every value is greater.
        le: Greatest value.
        min_length: Of a text or a list.
        is_argument: The command line takes it as an argument, not as an option.
        is_file: The command line takes the path of a file with a JSON list of texts.
    """
    limits: dict[str, Any] = {"ge": ge, "gt": gt, "le": le, "min_length": min_length}
    schema = {"title": label, "unit": unit}
    described: msgspec.Meta = msgspec.Meta(
        description=f"{help}.",
        extra_json_schema={name: text for name, text in schema.items() if text},
        extra={
            "option": option,
            "metavar": metavar,
            "is_argument": is_argument,
            "is_file": is_file,
        },
        **{name: bound for name, bound in limits.items() if bound is not None},
    )
    return described


@dataclass(frozen=True, slots=True)
class Param:
    """One field of a request.

    Attributes:
        name: Of the field.
        type: Without its description.
        meta: Help and limits.
        default: ``inspect.Parameter.empty`` semantics: :data:`msgspec.NODEFAULT` where it has none.
    """

    name: str
    type: Any
    meta: msgspec.Meta
    default: Any

    @property
    def option(self) -> str:
        """Name on the command line."""
        return (self.meta.extra or {}).get("option") or f"--{self.name.replace('_', '-')}"

    @property
    def has_option(self) -> bool:
        """Whether it names its option itself."""
        return bool((self.meta.extra or {}).get("option"))

    @property
    def is_argument(self) -> bool:
        """Whether the command line takes it as an argument."""
        return bool((self.meta.extra or {}).get("is_argument"))

    @property
    def is_file(self) -> bool:
        """Whether the command line takes the path of a file with its texts."""
        return bool((self.meta.extra or {}).get("is_file"))

    @property
    def metavar(self) -> str | None:
        """Of its argument in the help; ``None`` for the type."""
        return (self.meta.extra or {}).get("metavar") or None

    @property
    def is_many(self) -> bool:
        """Whether it takes several values."""
        return get_origin(self.type) is tuple

    @property
    def is_optional(self) -> bool:
        """Whether it may be ``None``."""
        return type(None) in get_args(self.type)

    @property
    def value_type(self) -> Any:
        """Type of one value, where there is one."""
        kind = get_args(self.type)[0] if self.is_many or self.is_optional else self.type
        return get_args(kind)[0] if get_origin(kind) is Annotated else kind

    @property
    def limits(self) -> msgspec.Meta:
        """Range of one value: of a field that may be ``None`` it is declared inside."""
        value = get_args(self.type)[0] if self.is_optional else None
        return get_args(value)[1] if get_origin(value) is Annotated else self.meta

    @property
    def choices(self) -> tuple[str, ...]:
        """The only values that it may have; empty: any of its type."""
        return get_args(self.value_type) if get_origin(self.value_type) is Literal else ()


def params_of(request: type[Request]) -> tuple[Param, ...]:
    """Return the fields of a request, in order."""
    hints = get_type_hints(request, include_extras=True)
    return tuple(
        Param(field.name, *_plain(hints[field.name]), _default(field))
        for field in msgspec.structs.fields(request)
    )


def parse(request: type[R], values: Mapping[str, Any], *, strict: bool = True) -> R:
    """Return the request, validated.

    Args:
        values: By field.
        strict: ``False``: numbers and switches may be texts, as in an address.
    Raises:
        InputError: A value does not fit, one is missing, or there is no such field.
    """
    try:
        return msgspec.convert(dict(values), request, strict=strict).checked()
    except msgspec.ValidationError as exc:
        raise _misfit(request, values, str(exc)) from exc


_KINDS: Final = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list",
}
_FIELD: Final = re.compile(r"Object (missing required|contains unknown) field `(.*)`")
_EXPECTED: Final = re.compile(
    r"Expected `(\w+)( \| null)?`(?: (>=|>|<=|<) (\S+?)(?:\.0)?)?(?:, got .*)?"
)


def _misfit(request: type[Request], values: Mapping[str, Any], fault: str) -> InputError:
    """Return the error about a field that is missing, unknown, or has a value that does not fit."""
    what, _, where = fault.partition(" - at ")
    params = {one.name: one for one in params_of(request)}
    if field := _FIELD.fullmatch(what):
        if field[1].startswith("missing"):
            return InputError(f"{field[2]} is required.")
        return UnknownNameError.of("parameter", field[2], params)
    name = where.strip("`$.").partition("[")[0]
    if name not in params:
        return InputError(what)
    value = values.get(name)
    if params[name].choices:
        return UnknownNameError.of(name, str(value), params[name].choices)
    if expected := _EXPECTED.fullmatch(what):
        limit = f" {expected[3]} {expected[4]}" if expected[3] else ""
        kind = _KINDS.get(expected[1], expected[1])
        return InputError(f"{name}: {value!r} is not {kind}{limit}.")
    return InputError(f"{name}: {what}")


def schema_of(request: type[Request]) -> dict[str, Any]:
    """Return the JSON schema of a request."""
    schema = msgspec.json.schema(request)
    found: dict[str, Any] = schema["$defs"][request.__name__]
    for one in params_of(request):
        if (
            one.choices and not one.is_optional
        ):  # msgspec sorts them; a form shows them in the order of the declaration
            own = found["properties"][one.name]
            (own["items"] if one.is_many else own)["enum"] = list(one.choices)
    return found


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _plain(hint: Any) -> tuple[Any, msgspec.Meta]:
    if get_origin(hint) is not Annotated:
        raise TypeError(f"{hint} has no param()")
    plain, meta = get_args(hint)[:2]
    return plain, meta
