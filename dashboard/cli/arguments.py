"""What no command takes, whatever its options are: text that is none, numbers beyond reach."""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final

from core.errors import InputError
from dashboard.cli.output import UsageFaultError

MAX_WHOLE: Final = 2**53
"""Beyond it JSON and floating-point numbers lose digits, and arrays their indices."""

_NO_TEXT: Final = re.compile("[\\ud800-\\udfff\\x00]")
_SHOWN: Final = 40
_MAX_PATH: Final = 200
_OF_A_PATH: Final = frozenset(
    {
        *(errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC),
        *(errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EDQUOT, errno.EIO),
    }
)


def check_text(arguments: Sequence[str]) -> None:
    """Refuse arguments that are not text: bytes that are not UTF-8 arrive as lone surrogates.

    Raises:
        UsageFaultError: With the number of the argument.
    """
    for number, argument in enumerate(arguments, start=1):
        if _NO_TEXT.search(argument):
            raise UsageFaultError(
                f"Argument {number} ({ascii(argument)[:_SHOWN]}) is not text: it has a character "
                "that UTF-8 cannot write.",
                hint="Type or copy it again.",
            )


def unusable_path(error: OSError) -> InputError:
    """Return what is wrong with a file that a person named; any other failure is raised again.

    Raises:
        OSError: It is not about a path.
    """
    if error.filename is None or error.errno not in _OF_A_PATH:
        raise error
    name = ascii(str(error.filename))[1:-1]
    shown = name if len(name) <= _MAX_PATH else f"{name[:_SHOWN]}..."
    return InputError(f"{shown} cannot be used: {error.strerror}.", hint="Name another path.")


def check_numbers_of(command: Any) -> None:
    """Make every command below ``command`` refuse numbers that are not finite or beyond 2^53."""
    for child in getattr(command, "commands", {}).values():
        check_numbers_of(child)
    if not getattr(command, "commands", None) and command.callback is not None:
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
