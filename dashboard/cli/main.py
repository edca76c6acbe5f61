"""The ``trimtab`` command: how a command line starts and ends."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from core.errors import InputError, OpsError, is_near
from core.files import PRIVATE_UMASK
from dashboard.cli.asking import ARGUMENTS
from dashboard.cli.commands import COMMANDS
from dashboard.cli.options import COMPLETION_VARIABLE
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_STOPPED,
    OutputError,
    StandardOutput,
    StoppedError,
    UsageFaultError,
    discard,
    fail,
    forget_warnings,
    report_bug,
    unwritable,
)
from dashboard.cli.registry import CONNECTORS, group_of
from dashboard.cli.signatures import RunNeededError, only_signatures

if TYPE_CHECKING:
    from dashboard.services import CommandConnector

_NO_TEXT: Final = re.compile("[\\ud800-\\udfff\\x00]")
_SHOWN: Final = 40
_MAX_PATH: Final = 200
_HELP: Final = frozenset({"-h", "--help"})
_OF_A_PATH: Final = frozenset(
    {
        *(errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC),
        *(errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EDQUOT, errno.EIO),
    }
)

_EPILOG: Final = """\b
Exit codes:
  0  done; findings and "nothing to do" are done
  1  refused or failed
  2  bad usage
  3  answered, but incomplete: what could not be read is named
  130  stopped with Ctrl-C before it was done

\b
Examples:
  trimtab demo            try everything on embedded clusters
  trimtab health sandbox  show what is wrong with a cluster
"""

app = typer.Typer(
    name="trimtab",
    cls=group_of(COMMANDS),
    help="Find uneven load in Pulsar and Pegasus clusters; preview, apply and undo the fix.",
    epilog=_EPILOG,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": sorted(_HELP)},
)


@app.callback(invoke_without_command=True)
def common(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Find uneven load in Pulsar and Pegasus clusters; preview, apply and undo the fix."""
    if version:
        from importlib.metadata import version as installed_version  # noqa: PLC0415  # starts fast

        typer.echo(f"trimtab {installed_version('trimtab')}")
        raise typer.Exit


def run(arguments: list[str], connectors: Sequence[CommandConnector] = ()) -> int:
    """Run one command line and return its exit code; no error of ours leaves as a traceback.

    Args:
        arguments: Without the name of the program.
        connectors: Of the systems whose clusters it works on; empty: all there are.
    """
    CONNECTORS.set(tuple(connectors))
    as_json = "--json" in arguments
    forget_warnings()
    ARGUMENTS.set(tuple(arguments))
    try:
        _check_text(arguments)
        outcome = _outcome(arguments)
    except OpsError as error:
        return fail(error, as_json=as_json)
    except typer.TyperException as error:
        return fail(_bad_usage(error), as_json=as_json)
    except OutputError as error:
        discard()
        return fail(unwritable(error), as_json=False)
    except OSError as error:
        return fail(_unusable_path(error), as_json=as_json)
    except (typer.Abort, KeyboardInterrupt):
        outcome = EXIT_STOPPED
    if outcome == EXIT_STOPPED:  # Typer's code of Ctrl-C, too
        # what runs until Ctrl-C ends by itself then: this was stopped before it was done
        fail(StoppedError("Stopped."), as_json=as_json)
    return outcome if isinstance(outcome, int) else EXIT_DONE


def outcome_of(arguments: Sequence[str]) -> int:
    """Run one command line for a caller of the HTTP interface, and return its exit code.

    Raises:
        OpsError: It is refused, or failed.
    """
    if not _HELP.isdisjoint(arguments) or "--version" in arguments:
        raise UsageFaultError("Help is not served.", hint="Run the command without --server.")
    forget_warnings()
    _check_text(arguments)
    try:
        outcome = typer.main.get_command(app)(list(arguments), "trimtab", standalone_mode=False)
    except typer.TyperException as error:
        raise _bad_usage(error) from error
    except typer.Abort as error:
        raise StoppedError("Stopped.") from error
    except OSError as error:
        raise _unusable_path(error) from error
    return outcome if isinstance(outcome, int) else EXIT_DONE


def _outcome(arguments: list[str]) -> object:
    """Return the result of a command; success where its reader, `head` say, closed the pipe."""
    command = typer.main.get_command(app)
    try:
        # not app(...): that would put Typer's own hook for tracebacks in the place of ours
        outcome: object = command(arguments, "trimtab", standalone_mode=False)
        sys.stdout.flush()  # what help and version print, too
    except (BrokenPipeError, SystemExit) as error:  # Typer exits after a broken pipe
        if not isinstance(error.__context__ or error, BrokenPipeError):
            raise
        discard()
        return EXIT_DONE
    return outcome


def _bad_usage(error: typer.TyperException) -> UsageFaultError:
    """Return the error for a wrong command line, with near options and the help command."""
    context = getattr(error, "ctx", None)
    see = f"Run `{context.command_path if context else 'trimtab'} --help`."
    name, offered = getattr(error, "option_name", ""), getattr(error, "possibilities", None) or ()
    if near := [one for one in offered if is_near(name.lstrip("-"), one.lstrip("-"))]:
        return UsageFaultError(f"{error.message}.", hint=f"Did you mean {' or '.join(near)}? {see}")
    return UsageFaultError(error.format_message().rstrip(".") + ".", hint=see)


def _check_text(arguments: Sequence[str]) -> None:
    """Refuse arguments that are not text: bytes that are not UTF-8 arrive as lone surrogates.

    Raises:
        UsageFaultError: With the number of the argument.
    """
    for number, argument in enumerate(arguments, start=1):
        if _NO_TEXT.search(argument):
            raise UsageFaultError(
                f"Argument {number} ({ascii(argument)[:_SHOWN]}) is not valid UTF-8.",
                hint="Type or copy it again.",
            )


def _unusable_path(error: OSError) -> InputError:
    """Return the error for an unusable path; raise any other failure again.

    Raises:
        OSError: It is not about a path.
    """
    if error.filename is None or error.errno not in _OF_A_PATH:
        raise error
    name = ascii(str(error.filename))[1:-1]
    shown = name if len(name) <= _MAX_PATH else f"{name[:_SHOWN]}..."
    return InputError(f"{shown} cannot be used: {error.strerror}.", hint="Specify another path.")


def _unexpected(kind: type[BaseException], error: BaseException, _trace: object) -> None:
    """Print in one sentence that Trimtab itself is at fault."""
    report_bug(kind, error, as_json="--json" in sys.argv[1:])


class _WithoutPandas(MetaPathFinder):
    """Hides pandas from the commands.

    pyarrow imports it, wherever it is installed, only to ask whether a list is one of its series;
    that would be most of a command's start-up, and no command works with pandas. (Python's own
    way, ``None`` in ``sys.modules``, is not understood by pyarrow's compiled import.) Whoever makes
    a Spark session takes it away again.
    """

    hides = "pandas"

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the signature is Python's
        target: ModuleType | None = None,  # noqa: ARG002 - the signature is Python's
    ) -> ModuleSpec | None:
        """Raise the error of a missing module for pandas; return ``None`` for any other one."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is not used by the command line", name=fullname)
        return None


def _open_standard_streams() -> None:
    """Let no file get the number of a standard stream that the caller has closed.

    And let standard output name itself when it cannot be written.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # the least free number is this one; what cannot be read or written is an error there
            is_read = number == 1
            os.open(os.devnull, os.O_RDONLY if is_read else os.O_WRONLY)
            stream = open(number, "r" if number == 0 else "w", closefd=False)  # noqa: SIM115  # it stays open
            setattr(sys, name, stream)
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        encoding, errors, is_terminal = out.encoding, out.errors, out.isatty()
        sys.stdout = StandardOutput(
            out.detach(), encoding=encoding, errors=errors, line_buffering=is_terminal
        )


def main() -> None:
    """Entry point of the ``trimtab`` command."""
    sys.excepthook = _unexpected
    os.umask(PRIVATE_UMASK)  # whatever a command writes is for its user only
    _open_standard_streams()
    sys.meta_path.insert(0, _WithoutPandas())
    if COMPLETION_VARIABLE in os.environ:
        from typer._completion_classes import completion_init  # noqa: PLC0415  # only a shell needs it

        completion_init()
        sys.modules["numpy"] = None  # type: ignore[assignment]  # pyarrow asks for it; names need none
    if COMPLETION_VARIABLE in os.environ or not _HELP.isdisjoint(sys.argv[1:]):
        with contextlib.suppress(RunNeededError), only_signatures():
            sys.exit(run(sys.argv[1:]))
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
