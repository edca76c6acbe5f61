"""``trimtab pegasus balance``: the balancer's rounds on a cluster, or on a written state."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from core.errors import ConfigError, InputError, UnknownNameError
from core.operations.balance import OPERATION, BalanceState, Rounds, requested_options
from core.operations.balance import balance as simulate
from core.pegasus.balance.model import BalanceOptions
from core.pegasus.balance.request import BalanceRequest
from core.pegasus.balance.rounds import rounds_until_converged
from core.pegasus.trace_form import options_of, parse_trace, view_of
from dashboard.cli import operations
from dashboard.cli.config import read_config
from dashboard.cli.engine import spark_session, write_tables
from dashboard.cli.options import Config, EngineName, Json, OutTables, Server
from dashboard.cli.output import UsageFaultError, emit
from dashboard.cli.progress import STATUS
from dashboard.cli.requests import takes

app = typer.Typer()


@app.command()
@takes(BalanceRequest, rounds=1)
def balance(
    request: BalanceRequest,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SNAPSHOT-or-FILE",
            help="Snapshot directory, JSON file, or cluster name.",
        ),
    ],
    out: OutTables = None,
    engine: EngineName = "local",
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Simulate the meta server's balancer, round by round.

    Show the reason of each move.
    """
    on_spark = operations.is_on_spark(engine, server)
    try:
        requested_options(BalanceOptions(), request)
    except InputError as exc:
        raise UsageFaultError(exc.message, hint=exc.hint) from exc
    options = operations.Options([source], out, (), None, on_spark, config, server)
    path = Path(source)
    is_name = not path.exists() and path.name == source and path.suffix != ".json"
    if not (is_name or path.is_dir()) and server is None:
        return _of_file(path, request, options, as_json=as_json)
    try:
        return operations.answer(OPERATION, request, options, as_json=as_json)
    except (ConfigError, UnknownNameError) as exc:
        if not is_name or server is not None:
            raise
        raise UsageFaultError(  # a name that is none may have meant a file
            f"{source} is not a file, a snapshot directory or a configured Pegasus cluster.",
            hint=exc.hint,
        ) from exc


def _of_file(
    path: Path, request: BalanceRequest, options: operations.Options, *, as_json: bool
) -> int:
    """Print the rounds of a written state."""
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise UsageFaultError(
            f"{path} cannot be read: {exc.strerror}.",
            hint="Specify a JSON file with a state, a snapshot directory or a cluster.",
        ) from exc
    trace = parse_trace(content, path.name)
    state = BalanceState(view_of(trace), requested_options(options_of(trace), request))
    rounds_of: Rounds = rounds_until_converged
    if options.on_spark:
        from core.spark.pegasus.large import rounds_on  # noqa: PLC0415  # seconds, only here

        rounds_of = rounds_on(spark_session(read_config(options.config)), STATUS)
    found = simulate(state, request, rounds_of, STATUS)
    write_tables(options.out, found.tables)
    done = operations.Answered.of(found, request, datetime.now(UTC), 0.0, ())
    return emit(operations.printable(OPERATION, done), as_json=as_json)
