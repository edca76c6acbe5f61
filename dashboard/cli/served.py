"""Commands of a running Trimtab: ``--server URL`` sends a command line and prints its answer.

The server runs the same command with the caller's clusters, roles and name. It reads the newest
saved snapshots, and no file of its own: files that the command reads are sent with it, and files
that it writes are sent back.
"""

from __future__ import annotations

import base64
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core.errors import (
    ForbiddenError,
    IncompleteSnapshotError,
    OpsError,
    UnknownNameError,
)
from dashboard.cli import names, output
from dashboard.cli.output import UsageFaultError
from dashboard.cli.progress import UNTIL_S

if TYPE_CHECKING:
    from core.access import Identity
    from core.operations.sent import Shown
    from core.snapshot.store import CachedSnapshot
    from dashboard.services import Cluster, Config
    from trimtab.answers import CommandAnswer

SERVED: ContextVar[Served | None] = ContextVar("served", default=None)
"""The request that a command is run for; ``None``: it runs for the user of this machine."""

MAX_FILE_BYTES: Final = 8 * 2**20
MAX_FILES: Final = 20
_ROOT: Final = "absolute"
OF_CLUSTERS: Final = (names.clusters, names.sources)


@dataclass(frozen=True, eq=False)
class Served:
    """A command that runs for a caller of the HTTP interface.

    Attributes:
        config: With the clusters that the caller may view.
        by: The caller.
        address: Of this server, as the caller has it.
        folder: For the files that the command reads and writes.
        recorder: Records what the command prints.
    """

    config: Config
    by: Identity
    address: str
    folder: Path
    recorder: Recorder

    def checked(self, command: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a command's parameters, with files in the folder of the request.

        Raises:
            UnknownNameError: The caller may not view a cluster or run, or there is none.
            UsageFaultError: A parameter is for local commands only.
        """
        found = dict(values)
        for param in command.params:
            known = names.names_of(param)
            for one in each_of(found.get(param.name)):
                if known in OF_CLUSTERS:
                    self._check_cluster(str(one))
                elif known is names.runs:
                    self.check_run(str(one))
            if known not in OF_CLUSTERS and param.name in found:
                found[param.name] = self._placed(found.get(param.name))
        if found.get("engine") not in (None, "local"):
            raise UsageFaultError(
                "--server and --engine spark cannot be combined.", hint="Omit one of them."
            )
        return found

    def _check_cluster(self, name: str) -> None:
        from dashboard.services import fleet_views  # noqa: PLC0415  # only a server needs it

        known = [one.name for one in self.config.clusters]
        if name not in known and not fleet_views.is_selection(name):
            raise UnknownNameError.of("cluster", name, known, place=self.address or "the server")

    def check_run(self, name: str) -> None:
        """Check that the caller may view a run.

        Raises:
            UnknownNameError: It may not, or there is none.
        """
        from dashboard import services  # noqa: PLC0415  # only a server needs it

        unknown = UnknownNameError.of("run", name, (), place="the journal")
        try:
            cluster = services.run_view(self.config, name).cluster
        except UnknownNameError as error:
            raise unknown from error
        if not self.may_view(cluster):
            raise unknown

    def may_view(self, cluster: str) -> bool:
        """Return whether the caller may view a cluster; without sign-in all, also former ones."""
        is_open = self.config.access.sign_in == "none"
        return is_open or cluster in [one.name for one in self.config.clusters]

    def _placed(self, value: Any) -> Any:
        """Return a path in the folder of the request; other values as they are."""
        if isinstance(value, list | tuple):
            return type(value)(self._placed(one) for one in value)
        return self.place(value) if isinstance(value, Path) else value

    def place(self, path: Path) -> Path:
        """Return the place of a caller's file in the folder of the request.

        Raises:
            UsageFaultError: Its name leads out of the folder.
        """
        inner = (self.folder / placed_name(path)).resolve()
        if not inner.is_relative_to(self.folder) or inner == self.folder:
            raise UsageFaultError(
                f"{path} cannot be used with --server.", hint="Name a file below this directory."
            )
        inner.parent.mkdir(parents=True, exist_ok=True)
        return inner


class Recorder:
    """Records what a command prints, in order.

    Attributes:
        lines: Lines and tables.
        body: The JSON object of ``--json``; ``None``: it printed text.
    """

    def __init__(self) -> None:
        self.lines: list[Shown] = []
        self.body: dict[str, Any] | None = None

    def line(self, text: str, *, is_prose: bool = False, is_aside: bool = False) -> None:
        """Record a line."""
        from core.operations.sent import TextLine  # noqa: PLC0415  # commands start without it

        self.lines.append(TextLine(text, is_prose, is_aside))

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str]
    ) -> None:
        """Record a table."""
        from core.operations.sent import TextTable  # noqa: PLC0415  # commands start without it

        cells = tuple(tuple(map(str, row)) for row in rows)
        self.lines.append(TextTable(tuple(columns), cells, tuple(spare)))


def placed_name(path: Path) -> Path:
    """Return the name of a file in the folder of a request; absolute ones are below a folder."""
    return Path(_ROOT, *path.parts[1:]) if path.is_absolute() else path


def each_of(value: Any) -> Iterator[Any]:
    """Yield the values of a parameter."""
    yield from value if isinstance(value, list | tuple) else () if value is None else (value,)


def newest_of(config: Config, cluster: Cluster) -> CachedSnapshot:
    """Return the newest saved snapshot of a cluster.

    Raises:
        IncompleteSnapshotError: It has none.
    """
    from dashboard import services  # noqa: PLC0415  # only a server needs it

    stored = services.snapshot_store(config).latest(cluster.name, services.now())
    if stored is None:
        raise IncompleteSnapshotError(
            f"{cluster.name} has no snapshot.", hint="`trimtab collect` takes one every minute."
        )
    return stored


def refuse_served(what: str) -> None:
    """Refuse a part of a command that is for the user of a machine only.

    Raises:
        UsageFaultError: The command runs for a caller.
    """
    if SERVED.get() is not None:
        raise UsageFaultError(f"{what} cannot be combined with --server.", hint="Omit one of them.")


def check_whole(cluster: str | None) -> None:
    """Check that the caller may view all clusters, where no cluster is named.

    Raises:
        ForbiddenError: Some are hidden.
    """
    from dashboard import services  # noqa: PLC0415  # only a server needs it

    here = SERVED.get()
    if here is None or cluster is not None or here.config.access.sign_in == "none":
        return
    if len(here.config.clusters) < len(services.whole_config(here.config).clusters):
        raise ForbiddenError(
            f"{here.by.name} may not view all clusters.", hint="Name one with --cluster."
        )


def check_reads(cluster: str, action: str) -> None:
    """Check that the caller is an operator of a cluster which a command reads for a person.

    Raises:
        ForbiddenError: It is not.
    """
    if (here := SERVED.get()) is not None:
        here.config.access.rules().check(here.by, "operator", cluster, action)


def run_served(
    config: Config,
    by: Identity,
    run: Callable[[], int],
    files: Mapping[str, bytes],
    *,
    address: str,
    within_s: float,
) -> CommandAnswer:
    """Run a command for a caller.

    Args:
        config: With the clusters that the caller may view.
        by: The caller.
        run: Runs it and returns its exit code.
        files: Content of the files that it names.
        address: Of this server, as the caller has it.
        within_s: Time of its computations.
    Raises:
        OpsError: It is refused, or failed.
    """
    import msgspec  # noqa: PLC0415  # commands start without it

    from dashboard import services  # noqa: PLC0415  # only a server needs it
    from dashboard.services import access  # noqa: PLC0415  # only a server needs it
    from trimtab.answers import CommandAnswer  # noqa: PLC0415  # commands start without it

    recorder = Recorder()
    with tempfile.TemporaryDirectory(prefix="trimtab-") as name:
        folder = Path(name).resolve()
        here = Served(config, by, address, folder, recorder)
        given = {here.place(Path(path)): content for path, content in files.items()}
        for place, content in given.items():
            place.write_bytes(content)
        tokens: list[tuple[ContextVar[Any], Any]] = [
            (SERVED, here),
            (output.RECORDER, recorder),
            (access.CALLER, by),
            (services.COMMAND_OPTION, f" --server {shlex.quote(address)}" if address else ""),
            (UNTIL_S, time.monotonic() + within_s),
        ]
        resets = [(variable, variable.set(value)) for variable, value in tokens]
        try:
            code = run()
        except OpsError as error:
            error.message, error.hint = _named([error.message, error.hint], folder)
            raise
        finally:
            for variable, token in reversed(resets):
                variable.reset(token)
        made = {
            str(path.relative_to(folder)): content
            for path in sorted(folder.rglob("*"))
            if path.is_file() and (content := path.read_bytes()) != given.get(path)
        }
        return CommandAnswer(
            exit_code=code,
            body=_named(recorder.body, folder),
            lines=tuple(
                msgspec.structs.replace(one, **_named(msgspec.structs.asdict(one), folder))
                for one in recorder.lines
            ),
            files={path: base64.b64encode(content).decode() for path, content in made.items()},
        )


def _named(value: Any, folder: Path) -> Any:
    """Return values in which files have the names that the caller gave them."""
    if isinstance(value, str):
        return value.replace(f"{folder}/{_ROOT}/", "/").replace(f"{folder}/", "")
    if isinstance(value, Mapping):
        return {key: _named(one, folder) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_named(one, folder) for one in value)
    return value
