"""The ``trimtab`` command: which module has which command, and how a command line ends."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import version as installed_version
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from core.errors import InputError, OpsError
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_USAGE,
    StoppedError,
    UsageFaultError,
    fail,
    forget_warnings,
    report_bug,
)
from dashboard.cli.registry import CONNECTORS, lazy_group

if TYPE_CHECKING:
    from dashboard.services import CommandConnector

_NO_TEXT: Final = re.compile("[\\ud800-\\udfff\\x00]")
_SHOWN: Final = 40
_MAX_PATH: Final = 200
_OF_A_PATH: Final = frozenset(
    {
        *(errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC),
        *(errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EDQUOT, errno.EIO),
    }
)

COMMANDS: Final = {
    "dashboard.cli.clusters": {
        "dashboard": "Serve the pages, collect the configured clusters and apply requested plans.",
        "check": "Check the configuration and every endpoint, and show fixes for what fails.",
        "collect": "Collect snapshots of clusters periodically and record them, until Ctrl-C.",
        "capture": "Take one snapshot of a cluster.",
    },
    "dashboard.cli.pulsar.import_zk": {
        "import-zk": "Convert a ZooKeeper dump to a snapshot.",
    },
    "dashboard.cli.health": {
        "health": "Show the findings of a cluster or a snapshot, with numbers.",
    },
    "dashboard.cli.diagnose": {
        "diagnose": "Name the causes of uneven load, each proven by a simulation of its fix.",
    },
    "dashboard.cli.pulsar.decisions.fleet": {
        "place": (
            "Show the placement candidates of a bundle with probabilities, and excluded brokers."
        ),
        "shed": "Preview a shedding round: bundles, source and destination, and why.",
        "simulate": "Simulate the balancer's rounds to convergence: moves, deviation, flaps.",
    },
    "dashboard.cli.pulsar.decisions.lookup": {
        "lookup": "Show where a topic is, step by step: topic, hash, bundle, owner.",
    },
    "dashboard.cli.pulsar.decisions.split": {
        "split": "Preview a split of a bundle: positions, load of the parts, effect.",
    },
    "dashboard.cli.pulsar.decisions.settings_doctor": {
        "doctor": (
            "Check the settings: conflicts, differences, implausible values; cause and fix of each."
        ),
    },
    "dashboard.cli.pulsar.decisions.explanation": {
        "explain": (
            "Explain why brokers shed or stay in the next round, and which settings conflict."
        ),
    },
    "dashboard.cli.pulsar.decisions.optimization": {
        "optimize": (
            "Find the fewest moves that bring every broker near the mean, with a lower bound."
        ),
    },
    "dashboard.cli.pulsar.plans": {
        "unload": "Plan an unload of bundles; nothing is sent.",
        "set": "Plan a change of dynamic settings, validated; run it with `apply`.",
    },
    "dashboard.cli.preview": {
        "preview": "Preview a plan: destinations, load before and after, clients, commands.",
    },
    "dashboard.cli.apply": {
        "apply": "Apply a plan: check, send and verify, step by step.",
        "undo": (
            "Undo a run: move each bundle back and restore each setting, as the run left them."
        ),
        "worker": "Execute requested runs on clusters, until Ctrl-C.",
    },
    "dashboard.cli.runs": {
        "runs": "Show runs: time, person, reason, result; control a run; verify the journal.",
    },
    "dashboard.cli.jobs": {
        "jobs": "Run the job server until Ctrl-C; or list, show and stop jobs.",
    },
    "dashboard.cli.pegasus": {"pegasus": "Show, balance and maintain Apache Pegasus clusters."},
    "dashboard.cli.demo": {
        "demo": "Run the dashboard on embedded clusters: sandboxes, collector, worker and jobs.",
        "sandbox": "Run the embedded fleet: a real ZooKeeper and simulated brokers, until Ctrl-C.",
    },
    "dashboard.cli.pegasus.sandbox": {
        "sandbox-node": (
            "Inject or end a fault in a node of the Pegasus sandbox; without NODE, show the nodes."
        ),
    },
    "dashboard.cli.backtest": {
        "backtest": "Simulate recorded load under other strategies and settings, and rank them.",
    },
    "dashboard.cli.drill": {
        "drill": (
            "Simulate the failure of each broker, failure domain or node: hot brokers, lost"
            " capacity."
        ),
    },
    "dashboard.cli.pulsar.topics": {
        "topics": "Map topics of a file to bundles and brokers, and find crowded partitions.",
    },
    "dashboard.cli.pulsar.ownership": {
        "owners": "Show ownership: sessions, orphans, double claims, namespaces on few brokers.",
    },
    "dashboard.cli.history": {
        "history": "Read, export, import, repair and analyse the recorded history.",
    },
    "dashboard.cli.pulsar.leader": {
        "leader": "Record, replay and predict the shedding rounds of a Pulsar leader.",
    },
    "dashboard.cli.pulsar.tenants": {
        "quota": "Compute each broker's share of a resource group's limit.",
        "tenants": "Show the traffic of each tenant next to the limits of its namespaces.",
    },
    "dashboard.cli.pulsar.advise": {"advise": "Compute sizes and limits that operators tune."},
    "dashboard.cli.pulsar.policies": {
        "policy": (
            "List, set and delete policies: isolation, anti-affinity, domains, groups, rates,"
            " quotas."
        ),
        "isolation": "Show which brokers may serve which namespaces, and misplaced bundles.",
    },
}
"""Commands by module, each with its help line."""

app = typer.Typer(
    name="trimtab",
    cls=lazy_group(COMMANDS),
    help="Show where Pulsar and Pegasus clusters are uneven, and preview, apply and undo the fix.",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Show where Pulsar and Pegasus clusters are uneven, and preview, apply and undo the fix."""
    if version:
        typer.echo(f"trimtab {installed_version('trimtab')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(EXIT_USAGE)


def run(arguments: list[str], connectors: Sequence[CommandConnector] = ()) -> int:
    """Run one command line and return its exit code; no error of ours leaves as a traceback.

    Args:
        arguments: Without the name of the program.
        connectors: Of the systems whose clusters it works on; empty: all there are.
    """
    CONNECTORS.set(tuple(connectors))
    as_json = "--json" in arguments
    forget_warnings()
    try:
        _check_text(arguments)
        command = typer.main.get_command(app)
        # not app(...): that would put Typer's own hook for tracebacks in the place of ours
        outcome = command(arguments, "trimtab", standalone_mode=False)
    except OpsError as error:
        return fail(error, as_json=as_json)
    except typer.TyperException as error:
        said = error.format_message().rstrip(".") + "."
        usage = UsageFaultError(said, hint="See the same command with --help alone.")
        return fail(usage, as_json=as_json)
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except OSError as error:
        return fail(_unusable_path(error), as_json=as_json)
    except (typer.Abort, KeyboardInterrupt):
        # what runs until Ctrl-C ends by itself then: this was stopped before it was done
        return fail(StoppedError("Stopped before it was done."), as_json=as_json)
    return outcome if isinstance(outcome, int) else EXIT_DONE


def _check_text(arguments: Sequence[str]) -> None:
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


def _unusable_path(error: OSError) -> InputError:
    """Return what is wrong with a file that a person named; any other failure is raised again.

    Raises:
        OSError: It is not about a path.
    """
    if error.filename is None or error.errno not in _OF_A_PATH:
        raise error
    name = ascii(str(error.filename))[1:-1]
    shown = name if len(name) <= _MAX_PATH else f"{name[:_SHOWN]}..."
    return InputError(f"{shown} cannot be used: {error.strerror}.", hint="Name another path.")


def _unexpected(kind: type[BaseException], error: BaseException, _trace: object) -> None:
    """Say in one sentence that Trimtab itself is at fault."""
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
        """Say that there is no pandas, and nothing about all else."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is not used by the command line", name=fullname)
        return None


def main() -> None:
    """Entry point of the ``trimtab`` command."""
    sys.excepthook = _unexpected
    sys.meta_path.insert(0, _WithoutPandas())
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
